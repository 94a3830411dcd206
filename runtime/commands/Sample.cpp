//===- Sample.cpp - Continuing a prompt -----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Checkpoint.h"
#include "checkpoint/Safetensors.h"
#include "comm/Launcher.h"
#include "commands/Inference.h"
#include "data/ChatFormat.h"
#include "data/Text.h"
#include "job/Fingerprint.h"
#include "job/Group.h"
#include "job/Job.h"
#include "support/CommandName.h"
#include "support/Error.h"
#include "support/Random.h"
#include "training/Trainer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

using namespace poplar::runtime;

namespace {
/// What a text begins with, and what ends it.
struct Prompt {
  std::vector<int32_t> Ids;
  std::vector<int64_t> Ends;
};
} // namespace

static Prompt makeChat(const Options &O, const ModelInfo &Model,
                       const TextEncoding &Encoding) {
  const Tokenizer *Tok = Encoding.get();
  if (!Tok)
    fail("--chat: the model has no tokenizer; name it by --tokenizer");
  ChatFormat Format(*Tok, ShippedTemplate::read(Encoding.path()),
                    {O.ChatTemplate, O.ChatDate});
  std::vector<int64_t> Ends = findEnds(Model);
  Ends.push_back(Format.getEndOfTurn());
  return {Tok->encode(Format.renderPrompt(O.Chat), /*AddSpecial=*/false), Ends};
}

static Prompt parsePrompt(const Options &O, const ModelInfo &Model,
                          const Tokenizer *Tok) {
  // Without a prompt, a tokenizer gives what a text begins with.
  if (Tok && O.PromptIds.empty() && O.DataFormat != "bytes") {
    std::vector<int32_t> Ids = Tok->encode(O.Prompt);
    if (Ids.empty())
      Ids = Tok->encode("\n");
    if (Ids.empty())
      fail("the tokenizer makes no tokens of the prompt");
    return {Ids, findEnds(Model)};
  }
  if (Model.vocab_size != 256 && O.PromptIds.empty() && O.DataFormat != "bytes")
    fail("the model has a vocabulary of ", Model.vocab_size,
         ", whose tokens are not bytes, and no tokenizer; name it by "
         "--tokenizer, or give the prompt as --prompt-ids (--data-format bytes "
         "insists on bytes)");
  std::vector<int32_t> Ids;
  for (unsigned char C : O.Prompt)
    Ids.push_back(C);
  const char *Next = O.PromptIds.data(), *End = Next + O.PromptIds.size();
  for (bool More = Next != End; More; ++Next) {
    int32_t Id = 0;
    auto [Stop, Code] = std::from_chars(Next, End, Id);
    More = Stop != End && *Stop == ',';
    if (Code != std::errc() || (Stop != End && !More))
      fail("--prompt-ids expects integers separated by commas, not '",
           O.PromptIds, "'");
    Ids.push_back(Id);
    Next = Stop;
  }
  if (Ids.empty())
    Ids.push_back('\n' < Model.vocab_size ? '\n' : 0);
  for (int32_t Id : Ids)
    if (Id < 0 || Id >= Model.vocab_size)
      fail("token ", Id, " of the prompt is outside the vocabulary of ",
           Model.vocab_size);
  return {Ids, {}};
}

namespace {

/// Prints a text token by token, of text only whole characters.
class Printer {
public:
  Printer(bool AsText, const Tokenizer *Tok)
      : AsText(AsText), Tok(AsText ? Tok : nullptr) {}

  void put(int32_t Id) {
    if (Tok)
      return decode(Id);
    if (AsText && Id < 256)
      return putByte(static_cast<char>(Id));
    flush();
    std::printf(AsText ? "<%d>" : "%d ", Id);
  }
  /// What was held back, because it seemed to be a part of a character.
  void finish() {
    if (Tok)
      print(Tok->decode(Ids.data(), Ids.size(), /*SkipSpecial=*/true));
    flush();
  }

private:
  /// Bytes of the UTF-8 character that `First` begins; 1 if it begins none.
  static size_t getLength(char First) {
    auto Byte = static_cast<unsigned char>(First);
    return Byte >= 0xF0 ? 4 : Byte >= 0xE0 ? 3 : Byte >= 0xC0 ? 2 : 1;
  }
  void putByte(char Byte) {
    bool Continues = (Byte & 0xC0) == 0x80;
    if (!Continues)
      flush();
    Bytes.push_back(Byte);
    if (Bytes.size() >= getLength(Bytes.front()))
      flush();
  }
  void flush() {
    std::fwrite(Bytes.data(), 1, Bytes.size(), stdout);
    Bytes.clear();
  }

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
  /// Bytes of a character that is not complete, where tokens are bytes.
  std::string Bytes;
};

} // namespace

/// Token number `Number` of a text, by chance as the options say.
static int32_t chooseToken(const std::vector<float> &Logits, const Options &O,
                           int64_t Number) {
  uint64_t Bits = hashCounters(static_cast<uint64_t>(O.Seed),
                               static_cast<uint64_t>(Stream::Sampling), Number);
  return O.Choice.draw(Logits, toUniform(Bits));
}

/// A note about a program that was built without functions for caches.
static std::string explainNoCaches(const ModelInfo &Model) {
  return "note: sampling has no KV cache: it is not made for models with "
         "operations that need whole sequences, nor with poplar build "
         "--no-kv-cache; each token takes a pass over " +
         std::to_string(Model.seq_len) + " positions\n";
}

/// Comes amid the text, which is on the same terminal.
static std::string explainWindow(const ModelInfo &Model) {
  std::string Length = std::to_string(Model.seq_len);
  return "\nnote: the text is longer than the " + Length +
         " positions of the model: from here on, each token takes a pass over "
         "the last " +
         Length + " tokens, without the KV cache\n";
}

/// All ranks have the same tokens, of which the first prints.
static void sample(const PoplarProgram &Program, const Options &O,
                   Group *Ranks) {
  int Rank = Ranks ? Ranks->rank() : 0;
  bool UsesCaches = Program.decode && !O.NoCache;
  Executor Exec(Program, {1}, static_cast<int>(O.Threads), Rank,
                /*Samples=*/true);
  Exec.collectives = Ranks;
  std::optional<comm::CommStream::MemoryGuard> Guard;
  if (Ranks) {
    Ranks->attach(Exec.state(), Exec.device());
    Guard.emplace(Ranks->stream());
  }
  const ModelInfo &Model = Exec.model();
  if (Model.masked)
    fail("sample continues text, but this model is masked: it was trained "
         "to fill gaps");
  TextEncoding Encoding(O, Model);
  auto [Text, Ends] = O.Chat.empty() ? parsePrompt(O, Model, Encoding.get())
                                     : makeChat(O, Model, Encoding);
  for (int32_t Id : Text)
    if (Id >= Model.vocab_size)
      fail("the prompt has the token ", Id,
           ", which is outside the model's vocabulary of ", Model.vocab_size);
  if (Ranks)
    Ranks->agree({{"--checkpoint", describeCheckpoint(O.Checkpoint)}});
  loadTrained(Exec, O.Checkpoint, O.Init);

  Inference Infer(Exec, Ranks, UsesCaches);
  bool IsBytes = O.DataFormat == "bytes";
  Printer Out(O.PromptIds.empty(), IsBytes ? nullptr : Encoding.get());
  auto Print = [&](int32_t Id) {
    if (Rank == 0)
      Out.put(Id);
  };
  if (Rank == 0 && !Program.decode)
    std::fputs(explainNoCaches(Model).c_str(), Notes);
  if (O.Chat.empty())
    std::for_each(Text.begin(), Text.end(), Print);
  std::vector<float> AllLogits;
  bool Fits = true;
  for (int64_t I = 0; I < O.Tokens; ++I) {
    if (Ranks)
      Ranks->setPhase("sampling", LongPhase);
    if (Rank == 0 && UsesCaches && Fits &&
        static_cast<int64_t>(Text.size()) > Model.seq_len)
      std::fputs(explainWindow(Model).c_str(), Notes);
    Fits = static_cast<int64_t>(Text.size()) <= Model.seq_len;
    Infer.run(Text);
    if (!O.DumpLogits.empty() && Rank == 0)
      AllLogits.insert(AllLogits.end(), Infer.getLogits().begin(),
                       Infer.getLogits().end());
    if (!Infer.isDivided())
      Text.push_back(chooseToken(Infer.getLogits(), O, I));
    else
      // The first rank's choice holds for all.
      Text.push_back(std::stoi(Ranks->broadcast(
          Rank ? "" : std::to_string(chooseToken(Infer.getLogits(), O, I)))));
    if (std::find(Ends.begin(), Ends.end(), Text.back()) != Ends.end())
      break;
    Print(Text.back());
    std::fflush(stdout);
  }
  if (Rank != 0)
    return;
  Out.finish();
  std::putchar('\n');
  if (!O.DumpLogits.empty())
    writeSafetensors(O.DumpLogits, {{"logits",
                                     {static_cast<int64_t>(AllLogits.size()) /
                                          Model.vocab_size,
                                      Model.vocab_size},
                                     AllLogits.data()}});
}

void poplar::runtime::runSampling(const PoplarProgram &Program,
                                  const Options &O) {
  if (canRunAlone(Program))
    return sample(Program, O, nullptr);
  runJob(Program, O, [&](Group *Ranks) { sample(Program, O, Ranks); });
}
