//===- Model.h - How a tokenizer turns pieces into ids ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_MODEL_H
#define POPLAR_RUNTIME_TOKENIZER_MODEL_H

#include "tokenizer/Description.h"
#include "tokenizer/Tables.h"

#include <memory>
#include <vector>

namespace poplar::runtime {

/// Buffers of one thread for a model.
struct ModelScratch {
  struct Merge {
    uint32_t Rank, Position, Id;
  };
  struct Symbol {
    uint32_t Id;
    int32_t Previous, Next;
    bool IsGone;
  };
  PieceCache Cache;
  std::vector<Symbol> Symbols;
  std::vector<Merge> Merges;
  std::vector<uint32_t> Ids, Ranks, NewIds;
  /// Scores of the best path of Unigram to each position.
  std::vector<double> Scores;
  std::vector<int32_t> PathIds, Starts;
  std::string Text;
};

class Model {
public:
  virtual ~Model() = default;

  /// Appends the ids of a piece.
  void encode(std::string_view Piece, ModelScratch &S,
              std::vector<int32_t> &Out) const;

  /// -1 if there is none.
  int32_t find(std::string_view Token) const { return Vocab.find(Token); }
  /// Null if there is none.
  const std::string *getToken(int64_t Id) const {
    auto At = static_cast<size_t>(Id);
    return Id >= 0 && At < Tokens.size() && Exists[At] ? &Tokens[At] : nullptr;
  }
  /// Number of different tokens, and the largest id.
  int64_t size() const { return static_cast<int64_t>(Vocab.size()); }
  int64_t getLargestId() const {
    return static_cast<int64_t>(Tokens.size()) - 1;
  }

protected:
  /// The vocabulary of a model that lists it as an object.
  explicit Model(const Description &D);
  Model() = default;
  void add(const std::string &Token, int64_t Id, const Description &D);

  virtual void encodeAnew(std::string_view Piece, ModelScratch &S,
                          std::vector<int32_t> &Out) const = 0;
  /// A piece that is too long to be remembered, or many of them in a row.
  virtual void encodeLong(std::string_view Piece, ModelScratch &S,
                          std::vector<int32_t> &Out) const {
    encodeAnew(Piece, S, Out);
  }
  static constexpr size_t LongPiece = 256;

  StringMap Vocab;
  std::vector<std::string> Tokens;
  std::vector<bool> Exists;
};

/// Reads a model. With `TakesBytes`, pieces are the bytes that the characters
/// of the vocabulary stand for.
std::unique_ptr<Model> readModel(const Description &D, bool TakesBytes);

std::unique_ptr<Model> readBPE(const Description &D, bool TakesBytes);
std::unique_ptr<Model> readWordPiece(const Description &D, bool TakesBytes);
std::unique_ptr<Model> readUnigram(const Description &D, bool TakesBytes);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_MODEL_H
