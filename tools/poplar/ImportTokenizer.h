//===- ImportTokenizer.h - What the runtime says of a tokenizer -*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_IMPORTTOKENIZER_H
#define POPLAR_TOOLS_IMPORTTOKENIZER_H

#include <cstdint>
#include <string>

/// Facts of a file that the runtime is to read. The runtime's code looks at it,
/// behind this interface, which has nothing of either's types.
struct TokenizerFacts {
  /// One more than the largest id.
  int64_t size = 0;
  /// "BPE, 50257 tokens".
  std::string description;
  /// Why it cannot be read, or empty.
  std::string error;
};

TokenizerFacts readTokenizerFacts(const std::string &path);

#endif // POPLAR_TOOLS_IMPORTTOKENIZER_H
