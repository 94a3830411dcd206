//===- TokenFormat.cpp - What a file of data is --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/TokenFormat.h"
#include "support/Error.h"
#include "support/Text.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

using namespace poplar::runtime;

static constexpr std::pair<const char *, TokenFormat> Formats[] = {
    {"auto", TokenFormat::Auto},   {"text", TokenFormat::Text},
    {"bytes", TokenFormat::Bytes}, {"u16", TokenFormat::U16},
    {"u32", TokenFormat::U32},     {"i32", TokenFormat::I32},
    {"i64", TokenFormat::I64},     {"llmc", TokenFormat::LLMC},
    {"npy", TokenFormat::Npy},     {"nanogpt", TokenFormat::U16},
    {"tokens16", TokenFormat::U16}};

bool poplar::runtime::parseTokenFormat(std::string_view Name,
                                       TokenFormat &Result) {
  for (auto [Known, Format] : Formats)
    if (Name == Known) {
      Result = Format;
      return true;
    }
  return false;
}

std::string poplar::runtime::listTokenFormats() {
  std::string Text;
  for (auto [Name, Format] : Formats)
    Text += std::string(Text.empty() ? "" : ", ") + Name;
  return Text;
}

/// Bytes of a file that decide its format.
static constexpr size_t SampleBytes = 1 << 20;

static const char *const Ids = "save token ids with numpy.save as .npy, or as "
                               "u16 or u32 in llm.c's format";
/// Tables of rows, as the Hub of Hugging Face has them.
static const char *const Rows =
    "python3 -c 'import datasets; datasets.load_dataset(\"parquet\", "
    "data_files=\"FILE\", split=\"train\").to_json(\"rows.jsonl\")' writes its "
    "rows as JSON (pip install datasets)";
static const char *const ArrowRows =
    "python3 -c 'import datasets; datasets.Dataset.from_file(\"FILE\")."
    "to_json(\"rows.jsonl\")' writes its rows as JSON (pip install datasets)";

namespace {

/// A format that is told by its first bytes, and what to do instead.
struct Known {
  std::string_view Magic;
  size_t Offset;
  const char *Name, *Remedy;
};

} // namespace

using namespace std::string_view_literals;

static const Known Refused[] = {
    {"\x1f\x8b\x08"sv, 0, "compressed by gzip", "decompress it with gunzip"},
    {"\x28\xb5\x2f\xfd"sv, 0, "compressed by zstd",
     "decompress it with unzstd"},
    {"BZh"sv, 0, "compressed by bzip2", "decompress it with bunzip2"},
    {"\xfd"
     "7zXZ\0"sv,
     0, "compressed by xz", "decompress it with unxz"},
    {"\x04\x22\x4d\x18"sv, 0, "compressed by lz4", "decompress it with unlz4"},
    {"PK\x03\x04"sv, 0, "a zip archive (.zip, .npz, a checkpoint of PyTorch)",
     Ids},
    {"ustar"sv, 257, "a tar archive", "unpack it"},
    {"PAR1"sv, 0, "a Parquet file", Rows},
    {"ARROW1"sv, 0, "an Arrow file", ArrowRows},
    {"\xff\xff\xff\xff"sv, 0, "an Arrow stream", ArrowRows},
    {"FEA1"sv, 0, "a Feather file", Ids},
    {"\x89HDF\r\n"sv, 0, "an HDF5 file", Ids},
    {"SQLite format 3\0"sv, 0, "a database of SQLite", Ids},
    {"MMIDIDX\0"sv, 0, "an index of Megatron-LM",
     "give the .bin beside it, with --data-format u16, u32 or i32"},
    {"GGUF"sv, 0, "a model in GGUF", "give a corpus"},
    {"%PDF-"sv, 0, "a PDF", "extract its text"},
    {"\x7f"
     "ELF"sv,
     0, "an executable", "give a corpus"},
    {"\xff\xfe"sv, 0, "text in UTF-16", "convert it to UTF-8 with iconv"},
    {"\xfe\xff"sv, 0, "text in UTF-16", "convert it to UTF-8 with iconv"},
};

template <typename... Ts>
[[noreturn]] static void refuse(const MappedFile &File, const Ts &...Parts) {
  fail("'", File.path(), "' ", Parts...);
}

static uint64_t loadWord(const MappedFile &File, size_t Offset, size_t Width) {
  uint64_t Word = 0;
  std::memcpy(&Word, File.data() + Offset, Width);
  return Word;
}

void poplar::runtime::refuseContainers(const MappedFile &File) {
  std::string_view Text = File.text();
  for (const Known &K : Refused)
    if (Text.size() >= K.Offset + K.Magic.size() &&
        Text.substr(K.Offset, K.Magic.size()) == K.Magic)
      refuse(File, "is ", K.Name, ", which is not read as data; ", K.Remedy);
  // A pickle: its protocol, and the frame or tuple that it begins with.
  if (Text.size() > 4 && Text[0] == '\x80' && Text[1] >= 2 && Text[1] <= 5 &&
      (Text[2] == '\x95' || Text[2] == ']' || Text[2] == '}' ||
       Text[2] == 'c' || Text[2] == '\x8a'))
    refuse(File, "is a pickle of Python, which is not read as data; ", Ids);
  if (Text.size() > 10 && loadWord(File, 0, 8) < Text.size() - 8 &&
      Text.substr(8, 2) == "{\"")
    refuse(File, "is a file of tensors (safetensors), not of data; --init "
                 "starts from a checkpoint");
}

std::string_view poplar::runtime::skipMark(std::string_view Text) {
  constexpr std::string_view Mark = "\xEF\xBB\xBF";
  return Text.substr(0, Mark.size()) == Mark ? Text.substr(Mark.size()) : Text;
}

std::string poplar::runtime::describeInvalid(const MappedFile &File) {
  // The last character of the part may be cut.
  constexpr size_t LongestCut = 3;
  std::string_view Part = File.text().substr(0, SampleBytes);
  size_t Place = unicode::findInvalid(Part);
  if (Place == Part.size() ||
      (Part.size() < File.size() && Place + LongestCut >= Part.size()))
    return "";
  return "\nnote: '" + File.path() + "': byte " + std::to_string(Place) +
         " is not UTF-8, and such bytes count as U+FFFD; iconv -f LATIN1 -t "
         "UTF-8 converts text in Latin-1";
}

bool poplar::runtime::isJSON(const MappedFile &File) {
  if (endsWith(File.path(), ".json") || endsWith(File.path(), ".jsonl"))
    return true;
  std::string_view Text = skipMark(File.text()).substr(0, SampleBytes);
  size_t Pos = 0;
  auto Skip = [&] { Pos = Text.find_first_not_of(" \t\r\n", Pos); };
  auto Take = [&](char C) {
    Skip();
    return Pos < Text.size() && Text[Pos] == C ? ++Pos : size_t(0);
  };
  Take('[');
  if (!Take('{') || !Take('"'))
    return false;
  for (; Pos < Text.size() && Text[Pos] != '"'; ++Pos)
    if (Text[Pos] == '\n' || (Text[Pos] == '\\' && ++Pos == Text.size()))
      return false;
  return Take('"') && Take(':');
}

/// Whether nothing in it is a control character that texts do not have.
static bool looksLikeText(std::string_view Text) {
  Text = Text.substr(0, SampleBytes);
  return std::all_of(Text.begin(), Text.end(), [](char Char) {
    auto C = static_cast<unsigned char>(Char);
    return C >= ' ' || (C >= '\a' && C <= '\r') || C == '\x1b';
  });
}

static constexpr uint64_t TokensMagic = 20240520, LlamaTokensMagic = 20240801,
                          ExamplesMagic = 20240522, WeightsMagic = 20240326;
static constexpr size_t LLMCHeaderBytes = 256 * sizeof(int32_t);

/// Whether it has a header of llm.c, be it of tokens or not.
static bool hasLLMCHeader(const MappedFile &File) {
  if (File.size() < LLMCHeaderBytes)
    return false;
  uint64_t Magic = loadWord(File, 0, 4);
  return Magic == TokensMagic || Magic == LlamaTokensMagic ||
         Magic == ExamplesMagic || Magic == WeightsMagic;
}

static TokenLayout readLLMCHeader(const MappedFile &File) {
  if (!hasLLMCHeader(File))
    refuse(File, "has no llm.c header (magic ", TokensMagic, " or ",
           LlamaTokensMagic, "); give its --data-format");
  uint64_t Magic = loadWord(File, 0, 4), Version = loadWord(File, 4, 4);
  if (Magic == ExamplesMagic || Magic == WeightsMagic)
    refuse(File, "holds ",
           Magic == WeightsMagic ? "weights" : "examples of an evaluation",
           " in llm.c's format, not a corpus");
  bool IsLlama = Magic == LlamaTokensMagic;
  if (IsLlama ? Version != 7 : Version != 1 && Version != 2)
    refuse(File, "is of llm.c version ", Version, "; ",
           IsLlama ? "version 7 is known with this magic number"
                   : "versions 1 and 2 are known");
  int Width = IsLlama || Version == 2 ? 4 : 2;
  return {Width == 2 ? "llm.c, u16" : "llm.c, u32", Width, false,
          LLMCHeaderBytes, static_cast<int32_t>(loadWord(File, 8, 4))};
}

static constexpr std::string_view NpyMagic = "\x93NUMPY";

static bool hasNpyHeader(const MappedFile &File) {
  return File.text().substr(0, NpyMagic.size()) == NpyMagic;
}

/// The value of `Key` in the dictionary that is the header of an array.
static std::string_view findEntry(const MappedFile &File,
                                  std::string_view Header, const char *Key) {
  std::string Quoted = std::string("'") + Key + "':";
  size_t Found = Header.find(Quoted);
  if (Found == std::string_view::npos)
    refuse(File, "is a damaged .npy: its header has no ", Key);
  Header.remove_prefix(Found + Quoted.size());
  Header.remove_prefix(std::min(Header.find_first_not_of(' '), Header.size()));
  return Header;
}

static TokenLayout readNpyHeader(const MappedFile &File) {
  if (!hasNpyHeader(File))
    refuse(File, "has no .npy header; give its --data-format");
  size_t Begin = NpyMagic.size() + 2;
  int Major = File.size() > Begin ? File.data()[NpyMagic.size()] : 0;
  size_t LengthBytes = Major == 1 ? 2 : 4;
  if (Major < 1 || Major > 3 || File.size() < Begin + LengthBytes)
    refuse(File, "is a .npy of version ", Major,
           ", or damaged; versions 1 to 3 are known");
  size_t Length = loadWord(File, Begin, LengthBytes);
  Begin += LengthBytes;
  if (Length > File.size() - Begin || Length > 1 << 16)
    refuse(File, "is a damaged .npy: its header is too long");
  std::string_view Header = File.text().substr(Begin, Length);
  std::string_view Type = findEntry(File, Header, "descr");
  std::string_view Shape = findEntry(File, Header, "shape");
  size_t Quote = Type.empty() || Type[0] != '\'' ? std::string_view::npos
                                                 : Type.find('\'', 1);
  Type = Quote == std::string_view::npos ? "a structure"
                                         : Type.substr(1, Quote - 1);
  static constexpr std::string_view Types[] = {"|u1", "<u2", "<u4", "<u8",
                                               "<i2", "<i4", "<i8"};
  if (std::find(std::begin(Types), std::end(Types), Type) == std::end(Types))
    refuse(File, "is an array of type ", Type,
           "; tokens are integers (uint8, uint16, uint32, uint64, int16, int32 "
           "or int64, little-endian): use numpy's astype");
  int64_t Count = -1;
  auto [End, Code] = std::from_chars(Shape.data() + (Shape.empty() ? 0 : 1),
                                     Shape.data() + Shape.size(), Count);
  std::string_view Rest(End,
                        static_cast<size_t>(Shape.data() + Shape.size() - End));
  if (Shape.empty() || Shape[0] != '(' || Code != std::errc() || Count < 0 ||
      Rest.substr(0, 2) != ",)")
    refuse(File, "is an array of shape ", Shape.substr(0, Shape.find(')')),
           "), and a corpus has one dimension: save array.reshape(-1), "
           "without rows of padding");
  return {"npy, " + std::string(Type), Type[2] - '0', Type[1] == 'i',
          Begin + Length, Count};
}

static TokenLayout makeRaw(TokenFormat Format) {
  switch (Format) {
  case TokenFormat::U16:
    return {"u16", 2};
  case TokenFormat::U32:
    return {"u32", 4};
  case TokenFormat::I32:
    return {"i32", 4, true};
  case TokenFormat::I64:
    return {"i64", 8, true};
  default:
    return {"text (bytes)", 1};
  }
}

static TokenLayout makeText(const MappedFile &File, TokenFormat Format,
                            int64_t VocabSize, bool HasTokenizer) {
  bool IsEncoded = HasTokenizer && Format != TokenFormat::Bytes;
  if (VocabSize < 256 && !IsEncoded)
    refuse(File,
           "is read as text, whose tokens are bytes, but the model has a "
           "vocabulary of only ",
           VocabSize, "; it must be at least 256");
  if (Format == TokenFormat::Bytes)
    return {"bytes", 1};
  if (!looksLikeText(File.text()))
    refuse(File, "is neither text nor of a format that is known by its "
                 "content; say what it is by --data-format (u16, u32, i32, "
                 "i64, or bytes)");
  if (IsEncoded) {
    TokenLayout Layout{"text", 1};
    Layout.IsText = true;
    return Layout;
  }
  if (VocabSize != 256)
    refuse(File, "is text, and the model has a vocabulary of ", VocabSize,
           ", whose tokens are not bytes, and no tokenizer: name its "
           "tokenizer.json or tokenizer.model by --tokenizer, import the model "
           "from a directory that has one, or ",
           Ids, " (--data-format bytes insists on bytes)");
  return makeRaw(TokenFormat::Text);
}

/// Ids without a header: of 16 bits if they cannot be wider.
static TokenLayout guessWidth(const MappedFile &File, int64_t VocabSize) {
  size_t Count = std::min(File.size(), SampleBytes) / 4;
  bool CanBeWide = File.size() % 4 == 0;
  for (size_t I = 0; I < Count && CanBeWide; ++I)
    CanBeWide = loadWord(File, 4 * I, 4) < static_cast<uint64_t>(VocabSize);
  if (CanBeWide)
    refuse(File,
           "has no header, and its bytes may be ids of 16, 32 or 64 "
           "bits, all below ",
           VocabSize, "; say which by --data-format u16, u32, i32 or i64");
  return makeRaw(TokenFormat::U16);
}

static TokenLayout detect(const MappedFile &File, int64_t VocabSize,
                          bool HasTokenizer) {
  if (hasLLMCHeader(File))
    return readLLMCHeader(File);
  if (hasNpyHeader(File))
    return readNpyHeader(File);
  refuseContainers(File);
  bool IsText = looksLikeText(File.text());
  if (IsText && isJSON(File))
    refuse(File, "is JSON, and a corpus is plain text or token ids; ",
           HasTokenizer
               ? "a glob names no files of examples: give each by a --data of "
                 "its own"
               : "examples in JSON need a model with a tokenizer (--tokenizer "
                 "FILE)",
           " (--data-format text takes it as it is)");
  if (!endsWith(File.path(), ".bin"))
    return makeText(File, TokenFormat::Text, VocabSize, HasTokenizer);
  if (IsText && File.size() >= 64)
    refuse(File, "is called .bin and looks like text; say what it is by "
                 "--data-format text or u16");
  return guessWidth(File, VocabSize);
}

TokenLayout poplar::runtime::findLayout(const MappedFile &File,
                                        TokenFormat Format, int64_t VocabSize,
                                        bool HasTokenizer) {
  switch (Format) {
  case TokenFormat::Auto:
    return detect(File, VocabSize, HasTokenizer);
  case TokenFormat::LLMC:
    return readLLMCHeader(File);
  case TokenFormat::Npy:
    return readNpyHeader(File);
  case TokenFormat::Text:
    refuseContainers(File);
    [[fallthrough]];
  case TokenFormat::Bytes:
    return makeText(File, Format, VocabSize, HasTokenizer);
  default:
    if (hasLLMCHeader(File) || hasNpyHeader(File))
      refuse(File, "has a header of ", hasNpyHeader(File) ? "numpy" : "llm.c",
             ", which is not data; leave --data-format out");
    return makeRaw(Format);
  }
}
