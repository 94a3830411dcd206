//===- Normalizer.h - What a tokenizer does to a text first -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_NORMALIZER_H
#define POPLAR_RUNTIME_TOKENIZER_NORMALIZER_H

#include "tokenizer/Description.h"
#include "tokenizer/Pattern.h"

#include <memory>
#include <vector>

namespace poplar::runtime {

/// Buffers of one thread for normalizers.
struct NormalizerScratch {
  Regex::Scratch Regexes;
  std::vector<Match> Matches;
  std::string Text;
};

class Normalizer {
public:
  virtual ~Normalizer() = default;
  /// Changes `Text`, which is valid UTF-8 and stays it.
  virtual void run(std::string &Text, NormalizerScratch &S) const = 0;
};

/// The normalizers of a description, in their order.
void readNormalizers(const Description &D,
                     std::vector<std::unique_ptr<Normalizer>> &Out);

/// The pattern of Replace in normalizers and decoders, a string or a regular
/// expression, and its replacement.
class Replacement {
public:
  explicit Replacement(const Description &D);
  void run(std::string &Text, NormalizerScratch &S) const;

private:
  Pattern What;
  std::string Content;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_NORMALIZER_H
