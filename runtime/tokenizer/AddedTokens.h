//===- AddedTokens.h - Tokens beside a vocabulary ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_ADDEDTOKENS_H
#define POPLAR_RUNTIME_TOKENIZER_ADDEDTOKENS_H

#include "tokenizer/Model.h"
#include "tokenizer/Normalizer.h"

#include <map>
#include <set>

namespace poplar::runtime {

struct AddedToken {
  std::string Content;
  /// The normalized content, if it is searched in normalized text.
  std::string Normalized;
  int32_t Id;
  bool IsWord, StripsLeft, StripsRight, IsNormalized, IsSpecial;
};

/// A part of a text: a token, or text between tokens, of which the id is -1.
struct Section {
  size_t Begin, End;
  int32_t Id;
};

class AddedTokens {
public:
  /// Reads the list of a tokenizer.json.
  void read(const Description &D, const Model &TheModel,
            const std::vector<std::unique_ptr<Normalizer>> &Normalizers);

  /// Cuts a text, from the byte `Start` on, at the tokens that are looked for
  /// in it as it is, or in its normalized form.
  void split(std::string_view Text, bool IsNormalized,
             std::vector<Section> &Out, size_t Start = 0) const;

  const AddedToken *find(int64_t Id) const {
    auto Found = ById.find(Id);
    return Found == ById.end() ? nullptr : &Found->second;
  }
  /// -1 if there is none.
  int32_t findId(std::string_view Content) const { return Ids.find(Content); }
  bool isSpecial(const std::string &Token) const {
    return Specials.count(Token) != 0;
  }
  int64_t getLargestId() const {
    return ById.empty() ? -1 : ById.rbegin()->first;
  }

private:
  struct Finder {
    ByteTrie Trie;
    bool Starts[256] = {};
    bool IsUsed = false;
    size_t skipTo(std::string_view Text, size_t Pos) const;
  };
  Finder makeFinder(bool IsNormalized) const;
  bool isWord(std::string_view Text, size_t Begin, size_t End) const;

  std::map<int64_t, AddedToken> ById;
  StringMap Ids;
  std::set<std::string> Specials;
  Finder AsIs, Normalized;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_ADDEDTOKENS_H
