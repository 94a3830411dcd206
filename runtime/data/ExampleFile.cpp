//===- ExampleFile.cpp - Encoded examples, kept in a file -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ExampleFile.h"
#include "data/Examples.h"
#include "data/TokenFormat.h"
#include "job/Waiting.h"
#include "support/Error.h"
#include "support/Files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace poplar::runtime;

// A file: the ids of all examples, with the highest bit of those that count;
// where each example ends, in ids; what is to be said of them; and the tail.
namespace {
struct Tail {
  uint64_t Examples, Counted, NoteSize;
  char Magic[8];
};
constexpr uint32_t CountBit = 1u << 31;
constexpr char Magic[8] = {'p', 'o', 'p', 'l', 'e', 'x', '0', '2'};
} // namespace

bool poplar::runtime::isExamples(const std::string &Path,
                                 const std::string &Format,
                                 const TextEncoding &Encoding) {
  if (Format == "jsonl") {
    if (!Encoding.get())
      fail("--data-format jsonl needs a model with a tokenizer; name it by "
           "--tokenizer");
    return true;
  }
  std::error_code Code;
  bool IsGlob = Path.find_first_of("*?[") != Path.npos &&
                !std::filesystem::exists(Path, Code);
  if (Format != "auto" || !Encoding.get() || IsGlob)
    return false;
  MappedFile File(Path);
  return isJSON(File);
}

/// The id to put behind texts; -1 if the model does not say.
static int32_t findEnd(const ModelInfo &Model) {
  std::vector<int64_t> Ends = findEnds(Model);
  if (Ends.empty())
    return -1;
  int64_t Id = Ends.front();
  if (Id < 0 || Id >= Model.vocab_size)
    fail("eos_token_id ", Id, " of the model is outside its vocabulary of ",
         Model.vocab_size);
  return static_cast<int32_t>(Id);
}

static json::Value parseLine(std::string_view Line, const std::string &Where) {
  try {
    return json::parse(Line, Where);
  } catch (const Error &E) {
    fail(E.what(), "; a file of examples has an object of JSON in each line, "
                   "or is one list of objects");
  }
}

/// Calls `Take` with every object of a file: one per line, or all in a list.
template <typename Callback>
static void forEachObject(const MappedFile &File, const Callback &Take) {
  std::string_view Text = skipMark(File.text());
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
      Take(parseLine(Content, Where), Where, End);
  }
}

namespace {
/// Texts that bring the token which the tokenizer puts before them.
struct Doubled {
  int64_t Texts = 0;
  std::string First, Token;

  std::string describe() const {
    if (!Texts)
      return "";
    return "\nnote: " + First + " begins with " + Token +
           ", which the tokenizer puts before a text, so that there are two, "
           "as "
           "with transformers (" +
           std::to_string(Texts) + (Texts == 1 ? " example)" : " examples)");
  }
};
} // namespace

/// Writes the encoded examples of `Source` to the file `Out`.
static void encodeExamples(const MappedFile &Source, const Tokenizer &Tok,
                           ExampleEncoder &Encoder, int64_t VocabSize,
                           const ExampleRules &Rules, const std::string &Out,
                           bool Reports) {
  OutputFile File(Out);
  Waiting Report("encoding '" + Source.path() + "'");
  std::vector<uint64_t> Ends;
  std::vector<uint32_t> Buffer;
  uint64_t Total = 0, Counted = 0;
  Doubled Starts;
  auto Flush = [&] {
    File.write(Buffer.data(), Buffer.size() * sizeof(uint32_t));
    Buffer.clear();
  };
  auto Add = [&](const Example &E, const std::string &Where) {
    for (int32_t Id : E.Ids)
      if (Id >= VocabSize)
        fail(Where, ": has the token ", Id,
             ", which is outside the model's vocabulary of ", VocabSize);
    for (size_t I = 0; I < E.Ids.size(); ++I) {
      Buffer.push_back(static_cast<uint32_t>(E.Ids[I]) |
                       (E.Counts[I] ? CountBit : 0));
      Counted += E.Counts[I];
    }
    Ends.push_back(Total += E.Ids.size());
  };
  forEachObject(Source, [&](const json::Value &Object, const std::string &Where,
                            size_t Done) {
    Example E;
    if (Rules.Pairs) {
      auto [Chosen, Rejected] = Encoder.encodePair(Object, Where);
      Add(Chosen, Where);
      Add(Rejected, Where);
      E.StartsTwice = Chosen.StartsTwice;
      E.Ids = std::move(Chosen.Ids);
    } else if (Rules.Window) {
      std::vector<Example> Windows =
          Encoder.encodeWindows(Object, Rules.Window, Where);
      for (const Example &Each : Windows)
        Add(Each, Where);
      E = std::move(Windows.front());
    } else {
      E = Encoder.encode(Object, Where);
      Add(E, Where);
    }
    if (E.StartsTwice && Starts.Texts++ == 0) {
      // Without the file, which may have another name when this is read.
      Starts.First = Where.substr(Source.path().size() + 4);
      Starts.Token = Tok.decode(E.Ids.data(), 1, /*SkipSpecial=*/false);
    }
    if (Buffer.size() > 1 << 20)
      Flush();
    if (Reports)
      Report.step(static_cast<int64_t>(Done));
  });
  if (Total % 2) // for the alignment of what follows
    Buffer.push_back(0);
  Flush();
  File.write(Ends.data(), Ends.size() * sizeof(uint64_t));
  std::string Note =
      (Encoder.chat() ? ", " + Encoder.chat()->describe() : std::string()) +
      Starts.describe();
  File.write(Note);
  Tail End = {Ends.size(), Counted, Note.size(), {}};
  std::memcpy(End.Magic, Magic, sizeof Magic);
  File.write(&End, sizeof End);
  File.close();
}

static MappedFile prepare(const std::string &Path, const TextEncoding &Encoding,
                          const ModelInfo &Model, const ExampleRules &Rules,
                          bool Reports, std::string &Note) {
  if (Model.masked)
    fail("'", Path, "' has examples with targets, and this model is masked");
  MappedFile Source(Path);
  refuseContainers(Source);
  std::string Ignored;
  for (const std::string &Each : Rules.IgnoredMembers)
    Ignored += (Ignored.empty() ? ", without the members " : ", ") + Each;
  RowForm Form(Rules.Form, Rules.IgnoredMembers);
  Note = Ignored + Form.describe() + describeInvalid(Source);
  int32_t EndId = findEnd(Model);
  ShippedTemplate Shipped = ShippedTemplate::read(Encoding.path());
  ExampleEncoder Encoder(*Encoding.get(), EndId, Shipped, Rules);
  // Whatever decides how conversations are written.
  std::string Kind =
      (Rules.Pairs ? "pairs 1 " : "examples 7 ") + std::to_string(EndId) + " " +
      std::to_string(Model.vocab_size) +
      (Rules.Window ? " windows 1 " + std::to_string(Rules.Window) : "") +
      Ignored + "\n" + Rules.Chat.Template + "\n" + Rules.Chat.Date + "\n" +
      Shipped.describe() + Form.getKey();
  std::error_code Code;
  if (std::filesystem::exists(Rules.Chat.Template, Code))
    Kind += MappedFile(Rules.Chat.Template).text();
  return Encoding.keep(Source, Kind, [&](const std::string &Out) {
    encodeExamples(Source, *Encoding.get(), Encoder, Model.vocab_size, Rules,
                   Out, Reports);
  });
}

ExampleFile::ExampleFile(const std::string &Path, const TextEncoding &Encoding,
                         const ModelInfo &Model, const ExampleRules &Rules,
                         bool Reports)
    : Name(Path), File(prepare(Path, Encoding, Model, Rules, Reports, Note)) {
  Tail End = {};
  if (File.size() >= sizeof End)
    std::memcpy(&End, File.data() + File.size() - sizeof End, sizeof End);
  if (std::memcmp(End.Magic, Magic, sizeof Magic) != 0 ||
      End.NoteSize > File.size() - sizeof End ||
      End.Examples >
          (File.size() - sizeof End - End.NoteSize) / sizeof(uint64_t))
    fail("'", File.path(), "' is damaged; remove it");
  if (End.Examples == 0)
    fail("'", Path, "' has no examples");
  Count = Encoded = static_cast<int64_t>(End.Examples);
  Counted = static_cast<int64_t>(End.Counted);
  EndOfEnds = File.size() - sizeof End - End.NoteSize;
  Note = std::string(File.text().substr(EndOfEnds, End.NoteSize)) + Note;
  Tokens = getEnd(Encoded - 1);
}

void ExampleFile::leaveOutEqual(std::set<ExampleHash> &Seen, int64_t Group) {
  Tokens = Counted = 0;
  for (int64_t Row = 0; Row < Encoded; Row += Group) {
    int64_t Begin = getEnd(Row - 1), End = getEnd(Row + Group - 1);
    XXH128_hash_t Hash = XXH3_128bits(
        File.data() + static_cast<size_t>(Begin) * sizeof(uint32_t),
        static_cast<size_t>(End - Begin) * sizeof(uint32_t));
    // Pairs that are divided elsewhere differ.
    if (!Seen.emplace(Hash.low64 ^ static_cast<uint64_t>(getEnd(Row) - Begin),
                      Hash.high64)
             .second)
      continue;
    Tokens += End - Begin;
    for (int64_t Each = 0; Each < Group; ++Each)
      Rows.push_back(Row + Each);
    for (int64_t Place = Begin; Place < End; ++Place)
      Counted += (getToken(Place) & CountBit) != 0;
  }
  Count = static_cast<int64_t>(Rows.size());
  int64_t LeftOut = (Encoded - Count) / Group;
  const char *Plural = Group == 2 ? "pairs" : "examples";
  if (LeftOut > 0)
    Note += ", " + std::to_string(LeftOut) + " " +
            (LeftOut == 1 ? Group == 2 ? "pair" : "example" : Plural) +
            " equal to an earlier one left out";
}

int64_t ExampleFile::getEnd(int64_t Row) const {
  uint64_t End = 0;
  if (Row >= 0)
    std::memcpy(&End,
                File.data() + EndOfEnds -
                    static_cast<size_t>(Encoded - Row) * sizeof End,
                sizeof End);
  return static_cast<int64_t>(End);
}

uint32_t ExampleFile::getToken(int64_t Place) const {
  uint32_t Token = 0;
  std::memcpy(&Token, File.data() + static_cast<size_t>(Place) * sizeof Token,
              sizeof Token);
  return Token;
}

int64_t ExampleFile::read(int64_t Example, int64_t First, int64_t Places,
                          int32_t *Ids, int32_t *Targets) const {
  int64_t Begin = getEnd(getRow(Example) - 1) + First,
          Size = length(Example) - First;
  Places = std::min(Places, Size);
  for (int64_t I = 0; I < Places; ++I) {
    Ids[I] = static_cast<int32_t>(getToken(Begin + I) & ~CountBit);
    uint32_t Next = I + 1 < Size ? getToken(Begin + I + 1) : 0;
    Targets[I] = Next & CountBit ? static_cast<int32_t>(Next & ~CountBit) : -1;
  }
  return Places;
}

bool ExampleFile::hasTargets(int64_t Example, int64_t First,
                             int64_t Places) const {
  int64_t Begin = getEnd(getRow(Example) - 1) + First,
          End = Begin + std::min(Places + 1, length(Example) - First);
  for (int64_t I = Begin + 1; I < End; ++I)
    if (getToken(I) & CountBit)
      return true;
  return false;
}
