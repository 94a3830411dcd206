//===- LlamaTokenizer.cpp - A tokenizer.model with added tokens -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/LlamaTokenizer.h"
#include "support/MappedFile.h"
#include "tokenizer/Description.h"
#include "tokenizer/SentencePieceFile.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_map>

using namespace poplar::runtime;
namespace fs = std::filesystem;

static const char *const ConfigName = "tokenizer_config.json";
static const char *const AddedName = "added_tokens.json";
static const char *const SpecialName = "special_tokens_map.json";

static std::string getBeside(const std::string &Path, const char *Name) {
  return (fs::path(Path).parent_path() / Name).string();
}

std::vector<std::string>
poplar::runtime::findTokenizerSettings(const std::string &Path) {
  std::vector<std::string> Found;
  for (const char *Name : {ConfigName, AddedName, SpecialName})
    if (std::string File = getBeside(Path, Name); fs::exists(File))
      Found.push_back(File);
  return Found;
}

namespace {

/// Writes the tokenizer.json that transformers makes of a tokenizer.model for
/// its class LlamaTokenizer.
class LlamaWriter {
public:
  explicit LlamaWriter(const SentencePieceFile &File);
  std::string write();

private:
  struct Token {
    std::string Content;
    bool IsWord = false, StripsLeft = false, StripsRight = false,
         IsNormalized = false, IsSpecial = false;
    /// The id, if the files give it; otherwise it follows the other ids.
    int64_t Asked = -1;
  };
  using Value = json::Value;

  [[noreturn]] void refuse(const std::string &What) const {
    fail("'", File.Path, "': ", What,
         "; convert it: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
         " of transformers writes a tokenizer.json");
  }
  Value read(const char *Name) const;
  Token readToken(const Value &Source, const std::string &Place,
                  bool IsSpecial) const;
  void readAdded();
  /// The value of `bos_token` and the like, and the file that has it.
  const Value *findNamed(const std::string &Key, const char *&Name) const;
  void addNamed(const std::string &Key, const char *Default);
  void addList(const Value &Source, const char *Key);
  void add(Token T);
  void addExtra(Token T);
  void addPieces();
  void addExtras();
  std::string writeVocabulary() const;
  std::string writeMerges() const;
  std::string writeAdded() const;
  std::string writeFrame(const Description &D) const;

  const SentencePieceFile &File;
  Value Config, Special;
  bool HasDecoder = false;
  std::unordered_map<std::string, int64_t> Vocabulary;
  std::vector<Token> Tokens;
  /// The ids of added tokens.
  std::map<std::string, int64_t> Ids;
  int64_t Next;
  /// The contents of tokens by their role.
  std::map<std::string, std::string> Roles;
};

} // namespace

LlamaWriter::LlamaWriter(const SentencePieceFile &File)
    : File(File), Next(static_cast<int64_t>(File.Pieces.size())) {
  Config = read(ConfigName);
  std::string Class = Config.string("tokenizer_class", "");
  if (Class != "LlamaTokenizer" && Class != "LlamaTokenizerFast")
    refuse(std::string("the files beside it name ") +
           (Class.empty() ? "no class" : "the class " + Class) +
           ", and of a tokenizer.model with settings only LlamaTokenizer is "
           "supported");
  if (!File.IsBPE || !File.FallsBack)
    refuse(
        "a LlamaTokenizer must be of type BPE with byte fallback, and this one "
        "is not");
  for (size_t Id = 0; Id < File.Pieces.size(); ++Id)
    if (!Vocabulary.emplace(File.Pieces[Id].Text, Id).second)
      fail("'", File.Path, "': piece ", Id, " is there twice");
}

json::Value LlamaWriter::read(const char *Name) const {
  std::string Path = getBeside(File.Path, Name);
  if (!fs::exists(Path))
    return {};
  Value Root = json::parse(MappedFile(Path).text(), "'" + Path + "'");
  if (Root.kind() != Value::Object)
    fail("'", Path, "': expected an object");
  return Root;
}

LlamaWriter::Token LlamaWriter::readToken(const Value &Source,
                                          const std::string &Place,
                                          bool IsSpecial) const {
  Token T;
  T.IsSpecial = IsSpecial;
  if (Source.kind() == Value::String) {
    T.Content = Source.asString();
    T.IsNormalized = !IsSpecial;
    return T;
  }
  Description D(Source, Place);
  T.Content = D.getString("content");
  T.IsWord = D.getBool("single_word", false);
  T.StripsLeft = D.getBool("lstrip", false);
  T.StripsRight = D.getBool("rstrip", false);
  T.IsSpecial = D.getBool("special", IsSpecial);
  T.IsNormalized = D.getBool("normalized", !T.IsSpecial);
  return T;
}

/// A token of the vocabulary keeps its id; others follow the vocabulary.
void LlamaWriter::add(Token T) {
  if (T.Content.empty() || Ids.count(T.Content))
    return;
  auto Found = Vocabulary.find(T.Content);
  int64_t Id = Found != Vocabulary.end() ? Found->second : Next;
  if (T.Asked >= 0 && T.Asked != Id)
    refuse("the added token " + json::quote(T.Content) + " has the id " +
           std::to_string(T.Asked) + ", but its position gives " +
           std::to_string(Id));
  Next = std::max(Next, Id + 1);
  Ids.emplace(T.Content, Id);
  Tokens.push_back(std::move(T));
}

/// A token of another role or of a list replaces the flags that its role gave
/// it, but not those that came with its id.
void LlamaWriter::addExtra(Token T) {
  for (Token &Other : Tokens)
    if (Other.Content == T.Content) {
      if (Other.Asked < 0)
        Other = T;
      return;
    }
  add(std::move(T));
}

/// The control pieces and the user's symbols of the model itself.
void LlamaWriter::addPieces() {
  for (const SentencePieceFile::Piece &Each : File.Pieces)
    if (Each.Type == SentencePieceFile::Control ||
        Each.Type == SentencePieceFile::UserDefined) {
      Token T;
      T.Content = Each.Text;
      T.IsSpecial = Each.Type == SentencePieceFile::Control;
      addExtra(std::move(T));
    }
}

/// The list in tokenizer_config.json or, if there is none, added_tokens.json.
void LlamaWriter::readAdded() {
  std::map<int64_t, Token> Sorted;
  std::string Path = getBeside(File.Path, HasDecoder ? ConfigName : AddedName);
  Value Other = HasDecoder ? Value() : read(AddedName);
  const Value &List = HasDecoder ? *Config.find("added_tokens_decoder") : Other;
  for (const auto &[Key, Member] : List.members()) {
    Token T;
    int64_t Id = -1;
    if (HasDecoder) {
      std::string Place = "'" + Path + "': added_tokens_decoder." + Key;
      Value Number = json::parse(Key, Place);
      if (!Number.asInteger(Id) || Id < 0)
        fail(Place, ": expected an id");
      T = readToken(Member, Place, /*IsSpecial=*/false);
    } else if (Member.asInteger(Id) && Id >= 0) {
      T.Content = Key;
      T.IsSpecial = std::any_of(Roles.begin(), Roles.end(), [&](const auto &R) {
        return R.second == T.Content;
      });
      T.IsNormalized = !T.IsSpecial;
    } else {
      fail("'", Path, "': expected an id as ", json::quote(Key));
    }
    T.Asked = Id;
    if (!Sorted.emplace(Id, std::move(T)).second)
      fail("'", Path, "': the id ", Id, " is there twice");
  }
  for (auto &[Id, T] : Sorted)
    add(std::move(T));
}

const json::Value *LlamaWriter::findNamed(const std::string &Key,
                                          const char *&Name) const {
  Name = SpecialName;
  const Value *Found = HasDecoder ? nullptr : Special.find(Key);
  if (!Found) {
    Name = ConfigName;
    Found = Config.find(Key);
  }
  return Found;
}

void LlamaWriter::addNamed(const std::string &Key, const char *Default) {
  const char *Name = nullptr;
  const Value *Found = findNamed(Key, Name);
  if (Found && Found->kind() == Value::Null)
    return;
  Token T;
  T.IsSpecial = true;
  if (Found) {
    std::string Place = "'" + getBeside(File.Path, Name) + "': " + Key;
    T = readToken(*Found, Place,
                  Name == SpecialName || Found->kind() == Value::String);
    T.IsSpecial = true;
  } else if (!Default) {
    return;
  } else {
    T.Content = Default;
  }
  addExtra(std::move(T));
}

void LlamaWriter::addList(const Value &Source, const char *Key) {
  const Value *List = Source.find(Key);
  if (!List || List->kind() == Value::Null)
    return;
  if (List->kind() != Value::Array)
    refuse(std::string("'") + Key + "' of the files beside it is no list");
  for (const Value &Each : List->elements())
    addExtra(readToken(Each, "'" + File.Path + "': " + Key + " beside it",
                       Each.kind() == Value::String));
}

std::string LlamaWriter::writeVocabulary() const {
  std::string Text;
  for (size_t Id = 0; Id < File.Pieces.size(); ++Id)
    Text += (Id ? "," : "") + json::quote(File.Pieces[Id].Text) + ":" +
            std::to_string(Id);
  return Text;
}

/// Every pair of pieces that is a piece, in the order of what it becomes, then
/// of the length of the first in characters.
std::string LlamaWriter::writeMerges() const {
  std::string Text;
  for (const SentencePieceFile::Piece &Piece : File.Pieces) {
    std::string_view All = Piece.Text;
    for (size_t At = 1; At < All.size(); ++At) {
      if (unicode::isContinuation(All[At]))
        continue;
      std::string First(All.substr(0, At)), Second(All.substr(At));
      if (!Vocabulary.count(First) || !Vocabulary.count(Second))
        continue;
      if (!Text.empty())
        Text += ',';
      Text += "[" + json::quote(First) + "," + json::quote(Second) + "]";
    }
  }
  return Text;
}

std::string LlamaWriter::writeAdded() const {
  std::string Text;
  for (const Token &T : Tokens) {
    auto Flag = [](const char *Name, bool Is) {
      return std::string(",\"") + Name + (Is ? "\":true" : "\":false");
    };
    Text += std::string(Text.empty() ? "" : ",") +
            "{\"id\":" + std::to_string(Ids.at(T.Content)) +
            ",\"content\":" + json::quote(T.Content) +
            Flag("single_word", T.IsWord) + Flag("lstrip", T.StripsLeft) +
            Flag("rstrip", T.StripsRight) + Flag("normalized", T.IsNormalized) +
            Flag("special", T.IsSpecial) + "}";
  }
  return Text;
}

/// The template for one text, with the tokens before and behind it.
std::string LlamaWriter::writeFrame(const Description &D) const {
  std::string Parts = R"({"Sequence":{"id":"A","type_id":0}})", Specials;
  auto Put = [&](const char *Flag, const char *Role, bool IsBehind) {
    auto Found = Roles.find(Role);
    if (!D.getBool(Flag, false) || Found == Roles.end())
      return;
    std::string Name = json::quote(Found->second),
                Part = "{\"SpecialToken\":{\"id\":" + Name + "}}";
    Parts = IsBehind ? Parts + "," + Part : Part + "," + Parts;
    Specials += (Specials.empty() ? "" : ",") + Name + ":{\"ids\":[" +
                std::to_string(Ids.at(Found->second)) + "]}";
  };
  Put("add_bos_token", "bos_token", false);
  Put("add_eos_token", "eos_token", true);
  return R"({"type":"TemplateProcessing","single":[)" + Parts +
         R"(],"special_tokens":{)" + Specials + "}}";
}

/// Lists in the files take the place of the model's own.
void LlamaWriter::addExtras() {
  bool HasList = false;
  for (const char *Key : {"additional_special_tokens", "extra_special_tokens"})
    for (const Value *Source : {&Config, &Special})
      if ((Source == &Config || !HasDecoder) && Source->find(Key)) {
        addList(*Source, Key);
        HasList = true;
      }
  if (!HasList)
    addPieces();
}

std::string LlamaWriter::write() {
  Description D(Config, "'" + getBeside(File.Path, ConfigName) + "'");
  HasDecoder = D.find("added_tokens_decoder");
  if (HasDecoder)
    D.getObject("added_tokens_decoder");
  Special = read(SpecialName);
  if (D.getBool("split_special_tokens", false))
    refuse("'split_special_tokens' is not supported");
  const std::pair<const char *, const char *> Named[] = {
      {"bos_token", "<s>"},   {"eos_token", "</s>"},  {"unk_token", "<unk>"},
      {"sep_token", nullptr}, {"pad_token", nullptr}, {"cls_token", nullptr},
      {"mask_token", nullptr}};
  for (const auto &[Key, Default] : Named) {
    const char *Name = nullptr;
    const Value *Found = findNamed(Key, Name);
    if (Found && Found->kind() != Value::Null)
      Roles[Key] =
          readToken(*Found, std::string("'") + Name + "': " + Key, true)
              .Content;
    else if (!Found && Default)
      Roles[Key] = Default;
  }
  readAdded();
  for (Token &T : Tokens) // a token with a role is special
    for (const auto &[Key, Content] : Roles)
      T.IsSpecial |= T.Content == Content;
  for (const auto &[Key, Default] : Named)
    addNamed(Key, Default);
  addExtras();
  bool AddsMark = D.getBool("add_prefix_space", true);
  const char *Scheme = !AddsMark                    ? "never"
                       : D.getBool("legacy", false) ? "always"
                                                    : "first";
  return R"({"model":{"type":"BPE","fuse_unk":true,"byte_fallback":true,)"
         R"("vocab":{)" +
         writeVocabulary() + R"(},"merges":[)" + writeMerges() +
         R"(]},"added_tokens":[)" + writeAdded() +
         R"(],"pre_tokenizer":{"type":"Metaspace","replacement":"▁",)"
         R"("prepend_scheme":")" +
         Scheme + R"(","split":false},"post_processor":)" + writeFrame(D) +
         R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Replace",)"
         R"("pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},)"
         R"({"type":"Fuse"})" +
         (AddsMark ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})"
                   : "") +
         "]}}";
}

std::string
poplar::runtime::writeLlamaTokenizer(const SentencePieceFile &File) {
  for (const char *Name : {ConfigName, AddedName})
    if (fs::exists(getBeside(File.Path, Name)))
      return LlamaWriter(File).write();
  return "";
}
