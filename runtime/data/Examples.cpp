//===- Examples.cpp - Examples in JSON, of which some tokens count --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Examples.h"
#include "job/Waiting.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Random.h"

#include <algorithm>
#include <cstring>

using namespace poplar::runtime;

ExampleEncoder::ExampleEncoder(const Tokenizer &Tok, int32_t EndId)
    : Encoder(Tok.makeEncoder()), Chat(ChatTemplate::find(Tok)), EndId(EndId) {}

const ChatTemplate &ExampleEncoder::getChat(const std::string &Where) const {
  if (!Chat)
    fail(Where, ": the tokenizer has the tokens of no chat template that is "
                "built in (",
         ChatTemplate::listNames(),
         "); give prompt and completion instead of messages");
  return *Chat;
}

std::vector<int32_t> ExampleEncoder::encodeText(std::string_view Text,
                                                bool AddSpecial) {
  std::vector<int32_t> Ids;
  Encoder->encode(Text, AddSpecial, Ids);
  return Ids;
}

void ExampleEncoder::addEnd(Example &E, const std::string &Where) const {
  if (EndId < 0)
    fail(Where, ": the model's config.json has no eos_token_id, which ends an "
                "example");
  if (!E.Ids.empty() && E.Ids.back() == EndId)
    return;
  E.Ids.push_back(EndId);
  E.Counts.push_back(true);
}

Example ExampleEncoder::encodeCompletion(const std::string &Prompt,
                                         const std::string &Completion,
                                         const std::string &Where) {
  // The whole at once, as the model will meet it; the tokens that the prompt
  // alone has as well are the prompt's.
  std::vector<int32_t> Before = encodeText(Prompt, true);
  Example E;
  E.Ids = encodeText(Prompt + Completion, true);
  size_t Same = 0;
  while (Same < Before.size() && Same < E.Ids.size() &&
         Before[Same] == E.Ids[Same])
    ++Same;
  E.Counts.assign(E.Ids.size(), true);
  std::fill_n(E.Counts.begin(), Same, false);
  addEnd(E, Where);
  return E;
}

Example ExampleEncoder::encodeChat(const RenderedChat &Chat) {
  Example E;
  E.Ids = encodeText(Chat.Text, false);
  E.Counts.assign(E.Ids.size(), false);
  auto CountBefore = [&](size_t Byte) {
    std::vector<int32_t> Ids =
        encodeText(std::string_view(Chat.Text).substr(0, Byte), false);
    size_t Same = 0;
    while (Same < Ids.size() && Same < E.Ids.size() && Ids[Same] == E.Ids[Same])
      ++Same;
    return static_cast<ptrdiff_t>(Same);
  };
  for (auto [Begin, End] : Chat.Counted)
    std::fill(E.Counts.begin() + CountBefore(Begin),
              E.Counts.begin() + CountBefore(End), true);
  return E;
}

Example ExampleEncoder::encode(const json::Value &Object,
                               const std::string &Where) {
  auto Get = [&](const char *Key) {
    const json::Value *Member = Object.find(Key);
    if (!Member || Member->kind() != json::Value::String)
      fail(Where, ": '", Key, "' is not a string");
    return std::string(Member->asString());
  };
  if (const json::Value *Messages = Object.find("messages"))
    return encodeChat(getChat(Where).render(*Messages, Where));
  if (Object.find("prompt") && Object.find("completion"))
    return encodeCompletion(Get("prompt"), Get("completion"), Where);
  if (Object.find("instruction") && Object.find("output")) {
    // The words of Stanford's Alpaca.
    std::string Input = Object.find("input") ? Get("input") : "";
    std::string Prompt =
        "Below is an instruction that describes a task" +
        std::string(Input.empty() ? ". "
                                  : ", paired with an input that provides "
                                    "further context. ") +
        "Write a response that appropriately completes the request.\n\n"
        "### Instruction:\n" +
        Get("instruction") + (Input.empty() ? "" : "\n\n### Input:\n" + Input) +
        "\n\n### Response:\n";
    return encodeCompletion(Prompt, Get("output"), Where);
  }
  if (!Object.find("text"))
    fail(Where, ": expected an object with text, prompt and completion, "
                "instruction and output, or messages");
  Example E;
  E.Ids = encodeText(Get("text"), true);
  E.Counts.assign(E.Ids.size(), true);
  addEnd(E, Where);
  return E;
}

// A file: the ids of all examples, with the highest bit of those that count;
// where each example ends, in ids; and the tail.
namespace {
struct Tail {
  uint64_t Examples, Counted;
  char Magic[8];
};
constexpr uint32_t CountBit = 1u << 31;
constexpr char Magic[8] = {'p', 'o', 'p', 'l', 'e', 'x', '0', '1'};
} // namespace

static Tail getTail(const MappedFile &File) {
  Tail Result = {};
  if (File.size() >= sizeof Result)
    std::memcpy(&Result, File.data() + File.size() - sizeof Result,
                sizeof Result);
  if (std::memcmp(Result.Magic, Magic, sizeof Magic) != 0 ||
      Result.Examples > (File.size() - sizeof Result) / sizeof(uint64_t))
    fail("'", File.path(), "' is damaged; remove it");
  return Result;
}

int64_t poplar::runtime::countExamples(const MappedFile &File) {
  return static_cast<int64_t>(getTail(File).Examples);
}

/// Where example `Index` ends, in ids.
static uint64_t getEnd(const MappedFile &File, int64_t Count, int64_t Index) {
  uint64_t End = 0;
  if (Index >= 0)
    std::memcpy(&End,
                File.data() + File.size() - sizeof(Tail) -
                    static_cast<size_t>(Count - Index) * sizeof End,
                sizeof End);
  return End;
}

bool poplar::runtime::isExamples(const std::string &Path,
                                 const std::string &Format,
                                 const TextEncoding &Encoding) {
  if (Format == "jsonl") {
    if (!Encoding.get())
      fail("--data-format jsonl needs a model with a tokenizer; name it by "
           "--tokenizer");
    return true;
  }
  if (Format != "auto" || !Encoding.get() ||
      Path.find_first_of("*?[") != Path.npos)
    return false;
  MappedFile File(Path);
  return looksLikeJSON(File.text());
}

/// The id that ends a text of the model, from its config.json; -1 if unknown.
static int32_t findEnd(const ModelInfo &Model) {
  json::Value Config = json::parse(Model.Config, "config.json of the model");
  const json::Value *End = Config.find("eos_token_id");
  if (End && End->kind() == json::Value::Array && !End->elements().empty())
    End = &End->elements().front();
  int64_t Id = -1;
  if (!End || !End->asInteger(Id))
    return -1;
  if (Id < 0 || Id >= Model.VocabSize)
    fail("eos_token_id ", Id, " of the model is outside its vocabulary of ",
         Model.VocabSize);
  return static_cast<int32_t>(Id);
}

/// Calls `Take` with every object of a file: one per line, or all in a list.
template <typename Callback>
static void forEachObject(const MappedFile &File, const Callback &Take) {
  std::string_view Text = File.text();
  std::string Name = "'" + File.path() + "'";
  size_t First = Text.find_first_not_of(" \t\r\n");
  if (First != Text.npos && Text[First] == '[') {
    json::Value All = json::parse(Text, Name);
    int64_t Number = 0;
    for (const json::Value &Each : All.elements())
      Take(Each, Name + ", example " + std::to_string(++Number), Text.size());
    return;
  }
  int64_t Line = 0;
  for (size_t Begin = 0; Begin < Text.size();) {
    size_t End = std::min(Text.find('\n', Begin), Text.size());
    std::string_view Content = Text.substr(Begin, End - Begin);
    Begin = End + 1;
    ++Line;
    std::string Where = Name + ", line " + std::to_string(Line);
    if (Content.find_first_not_of(" \t\r") != Content.npos)
      Take(json::parse(Content, Where), Where, End);
  }
}

std::shared_ptr<const MappedFile>
poplar::runtime::prepareExamples(const std::string &Path,
                                 const TextEncoding &Encoding,
                                 const ModelInfo &Model, bool Reports) {
  if (Model.Masked)
    fail("'", Path, "' has examples with targets, and this model is masked");
  MappedFile Source(Path);
  int32_t EndId = findEnd(Model);
  auto Write = [&](const std::string &Out) {
    OutputFile File(Out);
    Waiting Report("encoding '" + Path + "'");
    ExampleEncoder Encoder(*Encoding.get(), EndId);
    std::vector<uint64_t> Ends;
    std::vector<uint32_t> Buffer;
    uint64_t Total = 0, Counted = 0;
    auto Flush = [&] {
      File.write(Buffer.data(), Buffer.size() * sizeof(uint32_t));
      Buffer.clear();
    };
    forEachObject(Source, [&](const json::Value &Object,
                              const std::string &Where, size_t Done) {
      Example E = Encoder.encode(Object, Where);
      for (size_t I = 0; I < E.Ids.size(); ++I) {
        Buffer.push_back(static_cast<uint32_t>(E.Ids[I]) |
                         (E.Counts[I] ? CountBit : 0));
        Counted += E.Counts[I];
      }
      Ends.push_back(Total += E.Ids.size());
      if (Buffer.size() > 1 << 20)
        Flush();
      if (Reports)
        Report.step(static_cast<int64_t>(Done));
    });
    if (Total % 2) // for the alignment of what follows
      Buffer.push_back(0);
    Flush();
    File.write(Ends.data(), Ends.size() * sizeof(uint64_t));
    Tail End = {Ends.size(), Counted, {}};
    std::memcpy(End.Magic, Magic, sizeof Magic);
    File.write(&End, sizeof End);
    File.close();
  };
  auto File = std::make_shared<MappedFile>(
      Encoding.keep(Source, "examples " + std::to_string(EndId), Write));
  if (getTail(*File).Examples == 0)
    fail("'", Path, "' has no examples");
  return File;
}

ExampleSource::ExampleSource(std::shared_ptr<const MappedFile> TheFile,
                             std::string Name, int64_t Begin, int64_t End,
                             const ModelInfo &Model, uint64_t Seed,
                             bool Shuffle)
    : File(std::move(TheFile)), Name(std::move(Name)), Model(Model),
      Begin(Begin), Count(End - Begin), Seed(Seed), Shuffle(Shuffle) {}

void ExampleSource::read(int64_t Index, int32_t *Ids, int32_t *Targets) {
  int64_t Epoch = Index / Count, Slot = Index % Count;
  if (Shuffle) {
    uint64_t Key =
        hashCounters(Seed, static_cast<uint64_t>(Stream::Shuffle), Epoch);
    Slot = static_cast<int64_t>(Permutation(Count, Key)(Slot));
  }
  int64_t All = countExamples(*File);
  uint64_t From = getEnd(*File, All, Begin + Slot - 1);
  auto Size = static_cast<int64_t>(getEnd(*File, All, Begin + Slot) - From);
  auto Get = [&](int64_t I) {
    uint32_t Token = 0;
    std::memcpy(&Token,
                File->data() + (From + static_cast<uint64_t>(I)) * sizeof Token,
                sizeof Token);
    return Token;
  };
  for (int64_t I = 0; I < Model.SeqLen; ++I) {
    Ids[I] = I < Size ? static_cast<int32_t>(Get(I) & ~CountBit) : 0;
    uint32_t Next = I + 1 < Size ? Get(I + 1) : 0;
    Targets[I] = Next & CountBit ? static_cast<int32_t>(Next & ~CountBit) : -1;
  }
}

std::string ExampleSource::describe() const {
  int64_t All = countExamples(*File), Cut = 0;
  for (int64_t I = 0; I < All; ++I)
    Cut += getEnd(*File, All, I) - getEnd(*File, All, I - 1) >
           static_cast<uint64_t>(Model.SeqLen) + 1;
  std::string Text = "'" + Name + "': JSON, " + std::to_string(All) +
                     " examples, " + std::to_string(getTail(*File).Counted) +
                     " of " + std::to_string(getEnd(*File, All, All - 1)) +
                     " tokens count";
  if (Cut)
    Text += ", " + std::to_string(Cut) + " examples are longer than " +
            std::to_string(Model.SeqLen + 1) + " tokens and cut";
  return Text;
}
