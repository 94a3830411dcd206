//===- LlamaTokenizer.h - A tokenizer.model with added tokens ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_LLAMATOKENIZER_H
#define POPLAR_RUNTIME_TOKENIZER_LLAMATOKENIZER_H

#include <string>
#include <vector>

namespace poplar::runtime {

struct SentencePieceFile;

/// The files beside a tokenizer.model that decide, with it, what a text
/// becomes.
std::vector<std::string> findTokenizerSettings(const std::string &Path);

/// The tokenizer.json that transformers makes of a tokenizer.model with
/// settings beside it; empty if it has none. Throws an Error that names what is
/// not supported.
std::string writeLlamaTokenizer(const SentencePieceFile &File);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_LLAMATOKENIZER_H
