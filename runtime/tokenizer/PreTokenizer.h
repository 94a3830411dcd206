//===- PreTokenizer.h - How a tokenizer cuts a text into pieces -*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_PRETOKENIZER_H
#define POPLAR_RUNTIME_TOKENIZER_PRETOKENIZER_H

#include "tokenizer/Description.h"
#include "tokenizer/Regex.h"

#include <memory>
#include <vector>

namespace poplar::runtime {

/// A step on the way from a text to pieces. Each step takes the pieces of the
/// one before it.
class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  /// The replacement of `Text`, perhaps in `Storage`. `IsFirst` marks the piece
  /// at the very beginning of the text.
  virtual std::string_view change(std::string_view Text, bool IsFirst,
                                  std::string &Storage) const {
    (void)IsFirst;
    (void)Storage;
    return Text;
  }
  /// Cuts the changed text into pieces; false if it does not cut.
  virtual bool split(std::string_view Text, Regex::Scratch &S,
                     std::vector<Match> &Pieces) const {
    (void)Text;
    (void)S;
    (void)Pieces;
    return false;
  }
};

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> Steps;
  /// The last step is ByteLevel: the model may take bytes as they are for the
  /// characters that stand for them.
  bool EndsInBytes = false;
};

void readPreTokenizers(const Description &D, PreTokenizers &Out);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_PRETOKENIZER_H
