//===- Decoder.h - How a tokenizer joins tokens into a text -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_DECODER_H
#define POPLAR_RUNTIME_TOKENIZER_DECODER_H

#include "tokenizer/Description.h"

#include <memory>
#include <vector>

namespace poplar::runtime {

struct NormalizerScratch;

class Decoder {
public:
  virtual ~Decoder() = default;
  virtual void run(std::vector<std::string> &Tokens,
                   NormalizerScratch &S) const = 0;
};

/// The decoders of a description, in their order.
void readDecoders(const Description &D,
                  std::vector<std::unique_ptr<Decoder>> &Out);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_DECODER_H
