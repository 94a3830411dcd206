//===- Tokenizer.cpp - From text to the ids of a model and back -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Tokenizer.h"
#include "support/MappedFile.h"

using namespace poplar::runtime;

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
