//===- WordPiece.cpp - The longest pieces of words first ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Model.h"
#include "tokenizer/Unicode.h"

using namespace poplar::runtime;

namespace {

class WordPiece : public Model {
public:
  explicit WordPiece(const Description &D)
      : Model(D), MaxChars(D.getInteger("max_input_chars_per_word", 100)) {
    std::string Prefix = D.getString("continuing_subword_prefix", "##");
    UnknownName = D.getString("unk_token", "[UNK]");
    Unknown = find(UnknownName);
    std::vector<ByteTrie::Item> Starts, Others;
    for (size_t Id = 0; Id < Tokens.size(); ++Id) {
      if (!Exists[Id])
        continue;
      std::string_view Token = Tokens[Id];
      Starts.push_back({Token, static_cast<int32_t>(Id)});
      if (Token.substr(0, Prefix.size()) == Prefix)
        Others.push_back(
            {Token.substr(Prefix.size()), static_cast<int32_t>(Id)});
    }
    First = ByteTrie(std::move(Starts));
    Rest = ByteTrie(std::move(Others));
  }

private:
  void encodeAnew(std::string_view Piece, ModelScratch &,
                  std::vector<int32_t> &Out) const override {
    int64_t Chars = 0;
    for (char Byte : Piece)
      Chars += !unicode::isContinuation(Byte);
    size_t Before = Out.size(), Pos = 0;
    while (Chars <= MaxChars && Pos < Piece.size()) {
      int32_t Id = -1;
      size_t Length = (Pos ? Rest : First).findLongest(Piece.substr(Pos), Id);
      if (!Length)
        break;
      Out.push_back(Id);
      Pos += Length;
    }
    if (Pos == Piece.size())
      return;
    Out.resize(Before);
    if (Unknown < 0)
      fail("the unknown token ", json::quote(UnknownName),
           " of the tokenizer is not in its vocabulary");
    Out.push_back(Unknown);
  }

  int64_t MaxChars;
  std::string UnknownName;
  int32_t Unknown;
  ByteTrie First, Rest;
};

} // namespace

std::unique_ptr<Model> poplar::runtime::readWordPiece(const Description &D,
                                                      bool TakesBytes) {
  if (TakesBytes)
    D.refuse("this model after the pre-tokenizer ByteLevel is not supported");
  return std::make_unique<WordPiece>(D);
}
