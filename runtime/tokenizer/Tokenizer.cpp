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

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string &Path) {
  MappedFile File(Path);
  std::string_view Text = File.text();
  size_t First = Text.find_first_not_of(" \t\r\n");
  if (First != Text.npos && Text[First] == '{')
    return readTokenizerJSON(Text, Path);
  return readSentencePiece(Path);
}
