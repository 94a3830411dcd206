//===- Tokenizer.cpp - From text to the ids of a model and back -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Tokenizer.h"
#include "support/MappedFile.h"

#include <algorithm>

using namespace poplar::runtime;

std::vector<size_t>
Tokenizer::Encoder::encodePrefixes(std::string_view Text,
                                   const std::vector<size_t> &Ends,
                                   std::vector<int32_t> &Ids) {
  auto Begin = static_cast<ptrdiff_t>(Ids.size());
  encode(Text, /*AddSpecial=*/false, Ids);
  std::vector<size_t> Counts;
  for (size_t End : Ends) {
    std::vector<int32_t> Prefix;
    encode(Text.substr(0, End), /*AddSpecial=*/false, Prefix);
    auto Differs = std::mismatch(Prefix.begin(), Prefix.end(),
                                 Ids.begin() + Begin, Ids.end());
    Counts.push_back(static_cast<size_t>(Differs.first - Prefix.begin()));
  }
  return Counts;
}

bool poplar::runtime::isTokenizerJSON(std::string_view Text) {
  size_t First = Text.find_first_not_of(" \t\r\n");
  return First != Text.npos && Text[First] == '{';
}

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string &Path) {
  MappedFile File(Path);
  std::string_view Text = File.text();
  if (isTokenizerJSON(Text))
    return readTokenizerJSON(Text, Path);
  return readSentencePiece(Path);
}
