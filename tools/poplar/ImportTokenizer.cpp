//===- ImportTokenizer.cpp - What the runtime says of a tokenizer ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ImportTokenizer.h"
#include "tokenizer/Tokenizer.h"

#include <exception>

TokenizerFacts readTokenizerFacts(const std::string &path) {
  TokenizerFacts facts;
  try {
    auto tokenizer = poplar::runtime::Tokenizer::load(path);
    facts.size = tokenizer->size();
    facts.description = tokenizer->describe();
  } catch (const std::exception &failure) {
    facts.error = failure.what();
  }
  return facts;
}
