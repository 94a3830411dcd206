//===- Sample.cpp - Continuing a prompt -----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Checkpoint.h"
#include "comm/Launcher.h"
#include "data/ChatTemplate.h"
#include "data/Text.h"
#include "job/Fingerprint.h"
#include "job/Group.h"
#include "job/Job.h"
#include "support/Error.h"
#include "support/Random.h"
#include "training/Pipeline.h"
#include "training/Shares.h"
#include "training/Trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

using namespace poplar::runtime;

namespace {
/// What a text begins with, and what ends it.
struct Prompt {
  std::vector<int32_t> Ids;
  /// -1 if nothing does.
  int32_t End = -1;
};
} // namespace

static Prompt makeChat(const std::string &Message, const Tokenizer *Tok) {
  const ChatTemplate *Template = Tok ? ChatTemplate::find(*Tok) : nullptr;
  if (!Template)
    fail("--chat: the model has no tokenizer with the tokens of a chat "
         "template (",
         ChatTemplate::listNames(), "); give the text as --prompt");
  return {Tok->encode(Template->renderPrompt(Message), /*AddSpecial=*/false),
          Tok->find(Template->getEndOfTurn())};
}

static std::vector<int32_t>
parsePrompt(const Options &O, const ModelInfo &Model, const Tokenizer *Tok) {
  // Without a prompt, a tokenizer gives what a text begins with.
  if (Tok && O.PromptIds.empty() && O.DataFormat != "bytes") {
    std::vector<int32_t> Ids = Tok->encode(O.Prompt);
    if (Ids.empty())
      Ids = Tok->encode("\n");
    if (Ids.empty())
      fail("the tokenizer makes no tokens of the prompt");
    return Ids;
  }
  if (Model.VocabSize != 256 && O.PromptIds.empty() && O.DataFormat != "bytes")
    fail("the model has a vocabulary of ", Model.VocabSize,
         ", whose tokens are not bytes, and no tokenizer; name it by "
         "--tokenizer, or give the prompt as --prompt-ids (--data-format bytes "
         "insists on bytes)");
  std::vector<int32_t> Ids;
  for (unsigned char C : O.Prompt)
    Ids.push_back(C);
  const char *Next = O.PromptIds.data(), *End = Next + O.PromptIds.size();
  while (Next != End) {
    int32_t Id = 0;
    auto [Stop, Code] = std::from_chars(Next, End, Id);
    if (Code != std::errc() || (Stop != End && *Stop != ','))
      fail("--prompt-ids expects integers separated by commas");
    Ids.push_back(Id);
    Next = Stop == End ? End : Stop + 1;
  }
  if (Ids.empty())
    Ids.push_back('\n' < Model.VocabSize ? '\n' : 0);
  for (int32_t Id : Ids)
    if (Id < 0 || Id >= Model.VocabSize)
      fail("token ", Id, " of the prompt is outside the vocabulary of ",
           Model.VocabSize);
  return Ids;
}

namespace {

/// Prints a text token by token.
class Printer {
public:
  Printer(bool AsText, const Tokenizer *Tok)
      : AsText(AsText), Tok(AsText ? Tok : nullptr) {}

  void put(int32_t Id) {
    if (Tok)
      return decode(Id);
    if (AsText && Id < 256)
      std::putchar(Id);
    else
      std::printf(AsText ? "<%d>" : "%d ", Id);
  }
  /// What was held back, because it seemed to be a part of a character.
  void finish() {
    if (Tok)
      print(Tok->decode(Ids.data(), Ids.size(), /*SkipSpecial=*/true));
  }

private:
  void decode(int32_t Id) {
    Ids.push_back(Id);
    std::string Text =
        Tok->decode(Ids.data(), Ids.size(), /*SkipSpecial=*/true);
    // The last character may need the next token.
    static constexpr std::string_view Replacement = "\xEF\xBF\xBD";
    if (Text.size() < Replacement.size() ||
        Text.compare(Text.size() - Replacement.size(), Replacement.size(),
                     Replacement) != 0)
      print(Text);
  }
  void print(const std::string &Text) {
    if (Text.size() > Printed)
      std::fwrite(Text.data() + Printed, 1, Text.size() - Printed, stdout);
    Printed = std::max(Printed, Text.size());
  }

  bool AsText;
  const Tokenizer *Tok;
  std::vector<int32_t> Ids;
  size_t Printed = 0;
};

} // namespace

namespace {

/// What a model says behind a token, wherever the job has its parts. All ranks
/// of a job run it; those of a pipeline each pass on the same sample, and those
/// that share units each have a part of the logits.
class Inference : public MicroBatches {
public:
  Inference(Executor &Exec, Group *Ranks)
      : Exec(Exec), Ranks(Ranks), Ids(getCount(Exec.model().SeqLen)),
        Logits(getCount(Exec.model().LogitsColumns)) {
    if (isDivided())
      findBounds();
  }

  /// Of the newest tokens that fit; what follows them is masked by causality.
  void run(const std::vector<int32_t> &Text) {
    size_t Count = std::min(Text.size(), Ids.size());
    std::fill(std::copy(Text.end() - static_cast<ptrdiff_t>(Count), Text.end(),
                        Ids.begin()),
              Ids.end(), 0);
    Last = static_cast<int64_t>(Count) - 1;
    if (Pipeline *Turns = Exec.pipeline()) {
      Turns->infer(*this);
    } else {
      fill(0, Exec.sized<char>(0, 1), /*HasLoss=*/false);
      Exec.infer(1);
      take(0);
    }
    if (isDivided())
      Ranks->gather(Logits.data(), All.data(), Bounds.data());
  }

  /// Whether the model's parts are on several ranks, of which only the first
  /// has the logits of all.
  bool isDivided() const {
    return Exec.pipeline() || sharesUnits(Exec.program());
  }
  /// Of run().
  const std::vector<float> &getLogits() const {
    return isDivided() ? All : Logits;
  }

  int64_t count() const override { return 1; }
  int64_t size(int64_t) const override { return 1; }
  void fill(int64_t, char *Slot, bool) override {
    Exec.device().copyIn(Slot + Exec.program().ids, Ids.data(),
                         Exec.model().SeqLen * 4);
  }
  void take(int64_t) override { Exec.readLogits(1, Last, 1, Logits.data()); }

private:
  static size_t getCount(int64_t Number) { return static_cast<size_t>(Number); }

  /// Those of the first ranks of the last stage that have them all are as good
  /// as any.
  void findBounds() {
    std::vector<int64_t> Columns = countLogitColumns(Exec, *Ranks);
    Bounds = {0};
    All.resize(getCount(Exec.model().VocabSize));
    for (int64_t C : Columns)
      Bounds.push_back(std::min(Bounds.back() + C, Exec.model().VocabSize));
  }

  Executor &Exec;
  Group *Ranks;
  std::vector<int32_t> Ids;
  /// The rank's part of the logits; on the first rank, all of them, of which
  /// each rank has those between its bounds.
  std::vector<float> Logits, All;
  std::vector<int64_t> Bounds;
  int64_t Last = 0;
};

} // namespace

/// Token number `Number` of a text, by chance as the options say.
static int32_t chooseToken(const std::vector<float> &Logits, const Options &O,
                           int64_t Number) {
  if (!std::all_of(Logits.begin(), Logits.end(),
                   [](float Logit) { return std::isfinite(Logit); }))
    fail("'", O.Checkpoint,
         "' predicts values that are not finite: its weights have diverged or "
         "are damaged");
  uint64_t Bits = hashCounters(static_cast<uint64_t>(O.Seed),
                               static_cast<uint64_t>(Stream::Sampling), Number);
  return O.Choice.draw(Logits, toUniform(Bits));
}

/// All ranks have the same tokens, of which the first prints.
static void sample(const PoplarProgram &Program, const Options &O,
                   Group *Ranks) {
  int Rank = Ranks ? Ranks->rank() : 0;
  Executor Exec(Program, {1}, static_cast<int>(O.Threads), Rank);
  Exec.collectives = Ranks;
  std::optional<comm::CommStream::MemoryGuard> Guard;
  if (Ranks) {
    Ranks->attach(Exec.state(), Exec.device());
    Guard.emplace(Ranks->stream());
  }
  const ModelInfo &Model = Exec.model();
  if (Model.Masked)
    fail("sample continues text, but this model is masked: it was trained "
         "to fill gaps");
  TextEncoding Encoding(O, Model);
  auto [Text, End] = O.Chat.empty()
                         ? Prompt{parsePrompt(O, Model, Encoding.get())}
                         : makeChat(O.Chat, Encoding.get());
  if (Ranks)
    Ranks->agree({{"--checkpoint", describeCheckpoint(O.Checkpoint)}});
  loadTrained(Exec, O.Checkpoint, O.Init);

  Inference Infer(Exec, Ranks);
  bool IsBytes = O.DataFormat == "bytes";
  Printer Out(O.PromptIds.empty(), IsBytes ? nullptr : Encoding.get());
  auto Print = [&](int32_t Id) {
    if (Rank == 0)
      Out.put(Id);
  };
  if (O.Chat.empty())
    std::for_each(Text.begin(), Text.end(), Print);
  for (int64_t I = 0; I < O.Tokens; ++I) {
    if (Ranks)
      Ranks->setPhase("sampling", LongPhase);
    Infer.run(Text);
    if (!Infer.isDivided())
      Text.push_back(chooseToken(Infer.getLogits(), O, I));
    else
      // The first rank's choice holds for all.
      Text.push_back(std::stoi(Ranks->broadcast(
          Rank ? "" : std::to_string(chooseToken(Infer.getLogits(), O, I)))));
    if (Text.back() == End)
      break;
    Print(Text.back());
    std::fflush(stdout);
  }
  if (Rank != 0)
    return;
  Out.finish();
  std::putchar('\n');
}

void poplar::runtime::runSampling(const PoplarProgram &Program,
                                  const Options &O) {
  if (canRunAlone(Program))
    return sample(Program, O, nullptr);
  runJob(Program, O, [&](Group *Ranks) { sample(Program, O, Ranks); });
}
