//===- TokenizerJSON.cpp - Tokenizers of Hugging Face ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/AddedTokens.h"
#include "tokenizer/Decoder.h"
#include "tokenizer/PreTokenizer.h"
#include "tokenizer/Tokenizer.h"
#include "tokenizer/Unicode.h"

#include <algorithm>

using namespace poplar::runtime;

namespace {

class JSONTokenizer : public Tokenizer {
public:
  explicit JSONTokenizer(const Description &D);

  std::unique_ptr<Encoder> makeEncoder() const override;
  std::string decode(const int32_t *Ids, size_t Count,
                     bool SkipSpecial) const override;
  int64_t size() const override {
    return std::max(TheModel->getLargestId(), Added.getLargestId()) + 1;
  }
  int32_t find(std::string_view Token) const override {
    int32_t Id = Added.findId(Token);
    return Id >= 0 ? Id : TheModel->find(Token);
  }
  int32_t findAdded(std::string_view Token) const override {
    return Added.findId(Token);
  }
  std::vector<int32_t> getBefore() const override { return Before; }
  std::string describe() const override {
    return ModelType + ", " + std::to_string(size()) + " tokens";
  }

private:
  friend class JSONEncoder;
  void readFrame(const Description &D);
  void addToFrame(const Description &D, const std::string &Name,
                  bool &IsBehind);
  void readTokenPair(const Description &D);

  std::string ModelType;
  std::vector<std::unique_ptr<Normalizer>> Normalizers;
  PreTokenizers Pre;
  std::unique_ptr<Model> TheModel;
  AddedTokens Added;
  std::vector<std::unique_ptr<Decoder>> Decoders;
  bool HasDecoder = false;
  /// The tokens before and after a text.
  std::vector<int32_t> Before, Behind;
};

class JSONEncoder : public Tokenizer::Encoder {
public:
  explicit JSONEncoder(const JSONTokenizer &T)
      : T(T), Storages(T.Pre.Steps.size()), Cuts(T.Pre.Steps.size()) {}

  void encode(std::string_view Text, bool AddSpecial,
              std::vector<int32_t> &Ids) override {
    Out = &Ids;
    if (AddSpecial)
      Ids.insert(Ids.end(), T.Before.begin(), T.Before.end());
    Text = unicode::repair(Text, Repaired);
    T.Added.split(Text, /*IsNormalized=*/false, Sections);
    for (const Section &S : Sections)
      encodeSection(Text, S);
    if (AddSpecial)
      Ids.insert(Ids.end(), T.Behind.begin(), T.Behind.end());
  }

  std::vector<size_t> encodePrefixes(std::string_view Text,
                                     const std::vector<size_t> &Ends,
                                     std::vector<int32_t> &Ids) override {
    // Repairing the text moves its positions.
    if (unicode::repair(Text, Repaired).data() != Text.data())
      return Encoder::encodePrefixes(Text, Ends, Ids);
    size_t First = Ids.size();
    // Ends of tokens in the text, and the number of ids up to there: no merge
    // crosses these, so that a prefix is encoded from the last one on.
    std::vector<std::pair<size_t, size_t>> Borders = {{0, First}};
    Out = &Ids;
    T.Added.split(Text, /*IsNormalized=*/false, Sections);
    for (const Section &S : Sections) {
      encodeSection(Text, S);
      if (S.Id >= 0)
        Borders.emplace_back(S.End, Ids.size());
    }
    std::vector<size_t> Counts;
    std::vector<int32_t> Rest;
    Out = &Rest;
    for (size_t End : Ends) {
      auto Border = std::prev(std::upper_bound(Borders.begin(), Borders.end(),
                                               std::pair(End, SIZE_MAX)));
      std::string_view Prefix = Text.substr(0, End);
      Rest.clear();
      T.Added.split(Prefix, /*IsNormalized=*/false, Sections, Border->first);
      for (const Section &S : Sections)
        encodeSection(Prefix, S);
      auto Begin = Ids.begin() + static_cast<ptrdiff_t>(Border->second);
      auto Differs = std::mismatch(Rest.begin(), Rest.end(), Begin, Ids.end());
      Counts.push_back(Border->second - First +
                       static_cast<size_t>(Differs.first - Rest.begin()));
    }
    return Counts;
  }

private:
  /// A token of a text, or a part between tokens.
  void encodeSection(std::string_view Text, const Section &S) {
    if (S.Id >= 0)
      Out->push_back(S.Id);
    else
      encodeBetween(Text.substr(S.Begin, S.End - S.Begin), S.Begin == 0);
  }

  /// A part between tokens that are not normalized.
  void encodeBetween(std::string_view Text, bool IsFirst) {
    if (!T.Normalizers.empty()) {
      Normalized = Text;
      for (const auto &N : T.Normalizers)
        N->run(Normalized, Scratch);
      Text = Normalized;
    }
    T.Added.split(Text, /*IsNormalized=*/true, Parts);
    for (const Section &S : Parts) {
      if (S.Id >= 0)
        Out->push_back(S.Id);
      else
        runStep(0, Text.substr(S.Begin, S.End - S.Begin),
                IsFirst && S.Begin == 0);
    }
  }

  /// Gives a piece of step `Index` - 1 to the next one, or to the model.
  void runStep(size_t Index, std::string_view Text, bool IsFirst) {
    if (Text.empty())
      return;
    if (Index == T.Pre.Steps.size())
      return T.TheModel->encode(Text, ModelState, *Out);
    const PreTokenizer &Step = *T.Pre.Steps[Index];
    Text = Step.change(Text, IsFirst, Storages[Index]);
    std::vector<Match> &Pieces = Cuts[Index];
    if (!Step.split(Text, Scratch.Regexes, Pieces))
      return runStep(Index + 1, Text, IsFirst);
    for (const Match &M : Pieces)
      runStep(Index + 1, Text.substr(M.Begin, M.End - M.Begin),
              IsFirst && M.Begin == 0);
  }

  const JSONTokenizer &T;
  std::vector<int32_t> *Out = nullptr;
  std::string Repaired, Normalized;
  std::vector<Section> Sections, Parts;
  NormalizerScratch Scratch;
  /// Storage of every step of the pre-tokenizer.
  std::vector<std::string> Storages;
  std::vector<std::vector<Match>> Cuts;
  ModelScratch ModelState;
};

} // namespace

JSONTokenizer::JSONTokenizer(const Description &D) {
  if (D.find("normalizer"))
    readNormalizers(D.getObject("normalizer"), Normalizers);
  if (D.find("pre_tokenizer"))
    readPreTokenizers(D.getObject("pre_tokenizer"), Pre);
  Description ModelPart = D.getObject("model");
  TheModel = readModel(ModelPart, Pre.EndsInBytes);
  ModelType = ModelPart.type().empty() ? "BPE" : ModelPart.type();
  if (D.find("added_tokens"))
    Added.read(D, *TheModel, Normalizers);
  if (D.find("post_processor"))
    readFrame(D.getObject("post_processor"));
  HasDecoder = D.find("decoder");
  if (HasDecoder)
    readDecoders(D.getObject("decoder"), Decoders);
}

/// Appends the ids of a special token of a template.
void JSONTokenizer::addToFrame(const Description &D, const std::string &Name,
                               bool &IsBehind) {
  Description Token = D.getObject("special_tokens").getObject(Name);
  for (const json::Value &Id :
       Token.get("ids", json::Value::Array, "a list of ids").elements()) {
    int64_t Value = -1;
    if (!Id.asInteger(Value) || Value < 0 || Value >= int64_t(1) << 31)
      Token.refuse("an id is not an integer");
    (IsBehind ? Behind : Before).push_back(static_cast<int32_t>(Value));
  }
}

/// The members `cls` and `sep` of processors of BERT and RoBERTa.
void JSONTokenizer::readTokenPair(const Description &D) {
  for (const char *Key : {"cls", "sep"}) {
    const json::Value &Pair =
        D.get(Key, json::Value::Array, "a token and its id");
    int64_t Id = -1;
    if (Pair.elements().size() != 2 || !Pair.elements()[1].asInteger(Id))
      D.refuse("expected a token and its id as '", Key, "'");
    if (Key[0] == 'c')
      Before.insert(Before.begin(), static_cast<int32_t>(Id));
    else
      Behind.push_back(static_cast<int32_t>(Id));
  }
}

void JSONTokenizer::readFrame(const Description &D) {
  const std::string &Type = D.type();
  if (Type == "Sequence")
    return D.forEach("processors",
                     [&](const Description &Each) { readFrame(Each); });
  if (Type == "ByteLevel") // changes offsets alone
    return;
  if (Type == "BertProcessing" || Type == "RobertaProcessing")
    return readTokenPair(D);
  if (Type != "TemplateProcessing")
    D.refuse("this post-processor is not supported; there are BertProcessing, "
             "ByteLevel, RobertaProcessing, Sequence and TemplateProcessing");
  std::vector<int32_t> InnerBefore, InnerBehind;
  InnerBefore.swap(Before);
  InnerBehind.swap(Behind);
  bool IsBehind = false;
  D.forEach("single", [&](const Description &Piece) {
    if (Piece.find("SpecialToken")) {
      addToFrame(D, Piece.getObject("SpecialToken").getString("id"), IsBehind);
      return;
    }
    if (IsBehind || Piece.getObject("Sequence").getString("id") != "A")
      D.refuse("a template that takes anything but one text is not supported");
    IsBehind = true;
  });
  if (!IsBehind)
    D.refuse("the template has no place for the text");
  Before.insert(Before.end(), InnerBefore.begin(), InnerBefore.end());
  Behind.insert(Behind.begin(), InnerBehind.begin(), InnerBehind.end());
}

std::unique_ptr<Tokenizer::Encoder> JSONTokenizer::makeEncoder() const {
  return std::make_unique<JSONEncoder>(*this);
}

std::string JSONTokenizer::decode(const int32_t *Ids, size_t Count,
                                  bool SkipSpecial) const {
  std::vector<std::string> Tokens;
  Tokens.reserve(Count);
  for (size_t I = 0; I < Count; ++I) {
    const AddedToken *Own = Added.find(Ids[I]);
    const std::string *Token =
        Own ? &Own->Normalized : TheModel->getToken(Ids[I]);
    if (Token && !(SkipSpecial && Added.isSpecial(*Token)))
      Tokens.push_back(*Token);
  }
  NormalizerScratch Scratch;
  for (const auto &D : Decoders)
    D->run(Tokens, Scratch);
  std::string Result;
  for (const std::string &Token : Tokens) {
    if (!HasDecoder && !Result.empty())
      Result += ' ';
    Result += Token;
  }
  return Result;
}

std::unique_ptr<Tokenizer>
poplar::runtime::readTokenizerJSON(std::string_view Text,
                                   const std::string &Path) {
  json::Value Root = json::parse(Text, "'" + Path + "'");
  return std::make_unique<JSONTokenizer>(Description(Root, "'" + Path + "'"));
}
