//===- Model.cpp - How a tokenizer turns pieces into ids ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Model.h"
#include "tokenizer/Unicode.h"

#include <algorithm>

using namespace poplar::runtime;

/// More would be a damaged file.
static constexpr int64_t MaxTokens = int64_t(1) << 24;

Model::Model(const Description &D) {
  const json::Value &List =
      D.get("vocab", json::Value::Object, "an object of tokens");
  Vocab.reserve(List.members().size());
  for (const auto &[Token, Value] : List.members()) {
    int64_t Id = -1;
    if (!Value.asInteger(Id))
      D.refuse("the id of token ", json::quote(Token), " is not an integer");
    add(Token, Id, D);
  }
}

void Model::add(const std::string &Token, int64_t Id, const Description &D) {
  if (Id < 0 || Id >= MaxTokens)
    D.refuse("the id of token ", json::quote(Token), ", ", Id,
             ", is not between 0 and ", MaxTokens);
  auto At = static_cast<size_t>(Id);
  if (At >= Tokens.size()) {
    Tokens.resize(At + 1);
    Exists.resize(At + 1);
  }
  if (Exists[At] && Tokens[At] != Token)
    D.refuse("tokens ", json::quote(Tokens[At]), " and ", json::quote(Token),
             " have the same id ", Id);
  Tokens[At] = Token;
  Exists[At] = true;
  Vocab.insert(Token, static_cast<int32_t>(Id));
}

void Model::encode(std::string_view Piece, ModelScratch &S,
                   std::vector<int32_t> &Out) const {
  if (Piece.size() >= LongPiece)
    return encodeLong(Piece, S, Out);
  uint64_t Hash = hashBytes(Piece);
  if (S.Cache.find(Piece, Hash, Out))
    return;
  size_t Before = Out.size();
  encodeAnew(Piece, S, Out);
  S.Cache.insert(Piece, Hash, Out.data() + Before, Out.size() - Before);
}

std::unique_ptr<Model> poplar::runtime::readModel(const Description &D,
                                                  bool TakesBytes) {
  // Files of the first versions do not name the type.
  std::string Type = D.type();
  if (Type.empty())
    Type = D.find("merges")   ? "BPE"
           : D.find("unk_id") ? "Unigram"
                              : "WordPiece";
  if (Type == "BPE")
    return readBPE(D, TakesBytes);
  if (Type == "WordPiece")
    return readWordPiece(D, TakesBytes);
  if (Type == "Unigram")
    return readUnigram(D, TakesBytes);
  D.refuse("this model is not supported; there are BPE, Unigram and WordPiece");
}
