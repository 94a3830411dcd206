//===- GGUFTokenizer.cpp - Tokenizers in the words of llama.cpp -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/GGUFTokenizer.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"
#include "tokenizer/LlamaTokenizer.h"
#include "tokenizer/SentencePieceFile.h"

#include <algorithm>
#include <map>

using namespace poplar::runtime;

/// "▁", which stands for a space.
static constexpr std::string_view SpaceMark = "\xE2\x96\x81";

namespace {

/// Kinds of tokens, by their numbers in the file; those of SentencePiece.
enum TokenType : int32_t {
  TypeNormal = 1,
  TypeUnknown,
  TypeControl,
  TypeUserDefined,
  TypeUnused,
  TypeByte
};

/// How texts are cut before BPE, and the name that llama.cpp has for it.
struct Cut {
  /// The pattern of a Split; empty for the one of ByteLevel.
  const char *Pattern;
  /// Whether digits are cut one by one before.
  bool CutsDigits;
  /// Whether whole words that are tokens are not merged.
  bool IgnoresMerges;
  const char *Name;
};

/// The tokens as llama.cpp has them.
class TokenList {
public:
  TokenList(int64_t Size, const std::string &Path) : Path(Path) {
    for (int64_t I = 0; I < Size; ++I)
      Texts.push_back("[PAD" + std::to_string(I) + "]");
    Types.assign(static_cast<size_t>(Size), TypeUnused);
    Scores.assign(static_cast<size_t>(Size), -10000);
  }

  void set(int64_t Id, std::string_view Text, int32_t Type, float Score) {
    if (Id < 0 || Id >= static_cast<int64_t>(Texts.size()))
      fail("'", Path, "': token ", Id, " is outside the vocabulary of ",
           Texts.size(), " tokens");
    auto I = static_cast<size_t>(Id);
    Texts[I] = Text;
    Types[I] = Type;
    Scores[I] = Score;
  }
  void setScore(int64_t Id, float Score) {
    Scores[static_cast<size_t>(Id)] = Score;
  }
  bool isNormal(int64_t Id) const {
    return Types[static_cast<size_t>(Id)] == TypeNormal;
  }
  void write(GGUFFile &File, bool HasScores) const {
    File.setTexts("tokenizer.ggml.tokens", Texts);
    if (HasScores)
      File.setNumbers("tokenizer.ggml.scores", Scores);
    File.setIntegers("tokenizer.ggml.token_type", Types);
  }

private:
  const std::string &Path;
  std::vector<std::string> Texts;
  std::vector<int32_t> Types;
  std::vector<float> Scores;
};

/// A tokenizer.json.
class TokenizerFile {
public:
  /// `Unknown` is the unknown token by the files beside, or empty.
  TokenizerFile(std::string_view Text, const std::string &Path,
                const std::string &Unknown)
      : Path(Path), Root(json::parse(Text, "'" + Path + "'")),
        Model(getMember(Root, "model")),
        Unknown(Model.string("unk_token", Unknown)) {}

  void describe(int64_t VocabSize, GGUFFile &File) const;

private:
  template <typename... Ts> [[noreturn]] void refuse(const Ts &...What) const {
    fail("'", Path, "': llama.cpp has no such tokenizer: ", What...);
  }
  const json::Value &getMember(const json::Value &Object,
                               std::string_view Key) const {
    const json::Value *Member = Object.find(Key);
    if (!Member)
      fail("'", Path, "': has no '", Key, "'");
    return *Member;
  }
  std::pair<std::string, std::string> getMerge(const json::Value &Merge) const;
  std::vector<const json::Value *> list(const char *Member,
                                        const char *Elements) const;
  std::string findCut() const;
  void checkNormalizer(bool MarksSpaces) const;
  bool addsSpace() const;
  void addTokens(TokenList &Tokens, bool MarksSpaces) const;
  void addScores(TokenList &Tokens) const;
  std::vector<std::string> formatMerges() const;

  const std::string &Path;
  const json::Value Root;
  const json::Value &Model;
  const std::string Unknown;
};

} // namespace

/// The elements of a Sequence, or the one that stands in its place.
std::vector<const json::Value *>
TokenizerFile::list(const char *Member, const char *Elements) const {
  const json::Value *Value = Root.find(Member);
  std::vector<const json::Value *> List;
  if (!Value || Value->kind() != json::Value::Object)
    return List;
  if (Value->string("type", "") != "Sequence")
    return {Value};
  for (const json::Value &Each : getMember(*Value, Elements).elements())
    List.push_back(&Each);
  return List;
}

std::pair<std::string, std::string>
TokenizerFile::getMerge(const json::Value &Merge) const {
  if (Merge.kind() == json::Value::Array && Merge.elements().size() == 2)
    return {std::string(Merge.elements()[0].asString()),
            std::string(Merge.elements()[1].asString())};
  std::string Text(Merge.asString());
  size_t Space = Text.find(' ');
  if (Space == Text.npos)
    fail("'", Path, "': expected two tokens in each of model.merges");
  return {Text.substr(0, Space), Text.substr(Space + 1)};
}

std::string TokenizerFile::findCut() const {
  static constexpr Cut Cuts[] = {
      {"", false, false, "gpt-2"},
      {"", true, false, "smollm"},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       false, false, "qwen2"},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       false, true, "llama-bpe"},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       false, false, "dbrx"},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       false, true, "tekken"},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       false, false, "gpt-4o"}};
  std::string Pattern;
  bool CutsDigits = false, IsByteLevel = false;
  for (const json::Value *Each : list("pre_tokenizer", "pretokenizers")) {
    std::string Type = Each->string("type", "");
    const json::Value *Individual = Each->find("individual_digits"),
                      *UsesRegex = Each->find("use_regex");
    if (Type == "Digits" && Individual && Individual->asBool()) {
      CutsDigits = true;
    } else if (Type == "Split" && Each->string("behavior", "") == "Isolated") {
      const json::Value *Regex = Each->find("pattern");
      Pattern = Regex ? Regex->string("Regex", "") : "";
      if (Pattern.empty())
        refuse("pre_tokenizer cuts by a string");
    } else if (Type == "ByteLevel") {
      IsByteLevel = true;
      bool Cuts = !UsesRegex || UsesRegex->asBool(true);
      if (Cuts != Pattern.empty())
        refuse("pre_tokenizer cuts ", Cuts ? "twice" : "nowhere");
    } else {
      refuse("pre_tokenizer has a ", Type, " of that kind");
    }
  }
  if (!IsByteLevel)
    refuse("pre_tokenizer has no ByteLevel");
  const json::Value *Ignores = Model.find("ignore_merges");
  bool IgnoresMerges = Ignores && Ignores->asBool();
  for (const Cut &Each : Cuts)
    if (Pattern == Each.Pattern && CutsDigits == Each.CutsDigits &&
        IgnoresMerges == Each.IgnoresMerges)
      return Each.Name;
  refuse("pre_tokenizer cuts by the pattern ", json::quote(Pattern),
         IgnoresMerges ? ", with ignore_merges" : "");
}

/// Normal forms of Unicode are left out, as llama.cpp's own converter does.
void TokenizerFile::checkNormalizer(bool MarksSpaces) const {
  for (const json::Value *Each : list("normalizer", "normalizers")) {
    std::string Type = Each->string("type", "");
    bool IsMark = Type == "Prepend" || Type == "Replace";
    if (Type != "NFC" && !(MarksSpaces && IsMark))
      refuse("normalizer has a ", Type);
  }
}

/// Whether a text gets a space before it.
bool TokenizerFile::addsSpace() const {
  bool Adds = false;
  for (const json::Value *Each : list("normalizer", "normalizers"))
    Adds |= Each->string("type", "") == "Prepend";
  for (const json::Value *Each : list("pre_tokenizer", "pretokenizers"))
    Adds |= Each->string("type", "") == "Metaspace" &&
            Each->string("prepend_scheme", "always") != "never";
  return Adds;
}

static std::string replaceMarks(std::string Text) {
  for (size_t At = 0; (At = Text.find(SpaceMark, At)) != Text.npos; ++At)
    Text.replace(At, SpaceMark.size(), " ");
  return Text;
}

void TokenizerFile::addTokens(TokenList &Tokens, bool MarksSpaces) const {
  for (const auto &[Text, Value] : getMember(Model, "vocab").members()) {
    int64_t Id = -1;
    Value.asInteger(Id);
    bool IsByte = MarksSpaces && Text.size() == 6 &&
                  Text.compare(0, 3, "<0x") == 0 && Text.back() == '>';
    int32_t Type = IsByte                           ? TypeByte
                   : MarksSpaces && Text == Unknown ? TypeUnknown
                                                    : TypeNormal;
    Tokens.set(Id, Text, Type, 0);
  }
  const json::Value *Added = Root.find("added_tokens");
  for (size_t I = 0; Added && I < Added->elements().size(); ++I) {
    const json::Value &Token = Added->elements()[I];
    std::string Text = Token.string("content", "");
    const json::Value *Special = Token.find("special");
    bool IsSpecial = Special && Special->asBool();
    int32_t Type = IsSpecial ? TypeControl : TypeUserDefined;
    if (MarksSpaces && Text == Unknown)
      Type = TypeUnknown;
    Tokens.set(Token.integer("id", -1), IsSpecial ? Text : replaceMarks(Text),
               Type, -1000);
  }
}

/// SentencePiece merges the neighbours whose whole has the highest score; a
/// tokenizer.json has the order of the merges in its place.
void TokenizerFile::addScores(TokenList &Tokens) const {
  const json::Value &Vocab = getMember(Model, "vocab");
  std::map<std::string_view, int64_t> Ids;
  for (const auto &[Text, Value] : Vocab.members())
    Value.asInteger(Ids[Text]);
  float Score = 0;
  std::map<int64_t, float> Given;
  for (const json::Value &Merge : getMember(Model, "merges").elements()) {
    auto [Left, Right] = getMerge(Merge);
    auto Found = Ids.find(Left + Right);
    if (Found == Ids.end())
      fail("'", Path, "': model.merges makes '", Left + Right,
           "', which is not in model.vocab");
    if (Given.emplace(Found->second, Score).second)
      Tokens.setScore(Found->second, Score--);
  }
  // Characters come last.
  std::vector<int64_t> Rest;
  for (const auto &[Text, Id] : Ids)
    if (!Given.count(Id) && Tokens.isNormal(Id))
      Rest.push_back(Id);
  std::sort(Rest.begin(), Rest.end());
  for (int64_t Id : Rest)
    Tokens.setScore(Id, Score--);
}

/// A space in a token is the one of ByteLevel.
std::vector<std::string> TokenizerFile::formatMerges() const {
  std::vector<std::string> Merges;
  for (const json::Value &Merge : getMember(Model, "merges").elements()) {
    auto [Left, Right] = getMerge(Merge);
    if (Left.find(' ') != Left.npos || Right.find(' ') != Right.npos)
      refuse("model.merges has tokens with spaces");
    Merges.push_back(Left + " " + Right);
  }
  return Merges;
}

void TokenizerFile::describe(int64_t VocabSize, GGUFFile &File) const {
  std::string Type = Model.string("type", "BPE");
  if (Type != "BPE")
    refuse("its model is ", Type,
           ", which no model of a family that can be "
           "exported has");
  const json::Value *FallsBack = Model.find("byte_fallback");
  bool MarksSpaces = FallsBack && FallsBack->asBool();
  checkNormalizer(MarksSpaces);
  TokenList Tokens(VocabSize, Path);
  addTokens(Tokens, MarksSpaces);
  if (MarksSpaces)
    addScores(Tokens);
  File.setText("tokenizer.ggml.model", MarksSpaces ? "llama" : "gpt2");
  File.setText("tokenizer.ggml.pre", MarksSpaces ? "default" : findCut());
  Tokens.write(File, /*HasScores=*/MarksSpaces);
  if (MarksSpaces)
    File.setFlag("tokenizer.ggml.add_space_prefix", addsSpace());
  else
    File.setTexts("tokenizer.ggml.merges", formatMerges());
}

/// A tokenizer.model without settings beside it.
static void describePieces(const SentencePieceFile &Pieces, int64_t VocabSize,
                           GGUFFile &File) {
  if (!Pieces.IsBPE || !Pieces.FallsBack || Pieces.MarksEnds ||
      !Pieces.CharsMap.empty())
    fail("'", Pieces.Path,
         "': llama.cpp has no such tokenizer: only BPE with bytes for unknown "
         "characters and without a map of characters");
  TokenList Tokens(VocabSize, Pieces.Path);
  int64_t Id = 0;
  for (const SentencePieceFile::Piece &Piece : Pieces.Pieces)
    Tokens.set(Id++, Piece.Text, static_cast<int32_t>(Piece.Type), Piece.Score);
  File.setText("tokenizer.ggml.model", "llama");
  File.setText("tokenizer.ggml.pre", "default");
  Tokens.write(File, /*HasScores=*/true);
  File.setFlag("tokenizer.ggml.add_space_prefix", Pieces.AddsMark);
}

void GGUFTokenizer::describe(GGUFFile &File) const {
  auto FindText = [&](const char *Name) {
    for (const auto &[Key, Token] : Shipped.Tokens)
      if (Key == Name)
        return Token.string();
    return std::string();
  };
  MappedFile Mapped(Path);
  std::string Text(Mapped.text());
  if (!isTokenizerJSON(Text)) {
    SentencePieceFile Pieces(Text, Path);
    Text = writeLlamaTokenizer(Pieces);
    if (Text.empty())
      describePieces(Pieces, VocabSize, File);
  }
  if (!Text.empty())
    TokenizerFile(Text, Path, FindText("unk_token")).describe(VocabSize, File);

  auto Find = [&](const char *Name) {
    std::string Token = FindText(Name);
    return Token.empty() ? int64_t(-1) : int64_t(Tok.findAdded(Token));
  };
  auto Set = [&](const char *Key, int64_t Id) {
    if (Id >= 0)
      File.setCount("tokenizer.ggml." + std::string(Key) + "_token_id", Id);
  };
  auto Choose = [](int64_t First, int64_t Second) {
    return First >= 0 ? First : Second;
  };
  std::vector<int32_t> Before = Tok.getBefore(), Frame = Tok.encode("");
  int64_t First =
      Choose(Choose(Find("bos_token"), Begin), Before.empty() ? -1 : Before[0]);
  int64_t Last = Choose(Find("eos_token"), Ends.empty() ? -1 : Ends[0]);
  Set("bos", First);
  Set("eos", Last);
  for (int64_t Id : Ends)
    if (Id != Last) {
      Set("eot", Id);
      break;
    }
  Set("unknown", Find("unk_token"));
  Set("padding", Choose(Find("pad_token"), Padding));
  bool AddsFirst = !Before.empty(), AddsLast = Frame.size() > Before.size();
  if (Before.size() > 1 || (AddsFirst && Before[0] != First) ||
      (AddsLast && (Frame.size() != Before.size() + 1 || Frame.back() != Last)))
    fail("'", Path,
         "': llama.cpp puts at most one token before a text and one behind it, "
         "bos_token and eos_token");
  File.setFlag("tokenizer.ggml.add_bos_token", AddsFirst);
  File.setFlag("tokenizer.ggml.add_eos_token", AddsLast);
  if (ChatTemplate.empty())
    return;
  File.setText("tokenizer.chat_template", ChatTemplate);
  if (!Shipped.ToolSource.empty()) {
    File.setText("tokenizer.chat_template.tool_use", Shipped.ToolSource);
    File.setTexts("tokenizer.chat_templates", {"tool_use"});
  }
}
