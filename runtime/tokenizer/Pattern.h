//===- Pattern.h - What Split and Replace look for --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_PATTERN_H
#define POPLAR_RUNTIME_TOKENIZER_PATTERN_H

#include "tokenizer/Description.h"
#include "tokenizer/Regex.h"

namespace poplar::runtime {

/// Cuts a text into occurrences of a string and what lies between.
void findString(std::string_view Text, std::string_view String,
                std::vector<Match> &Out);

/// A string or a regular expression: the `pattern` of a description.
class Pattern {
public:
  explicit Pattern(const Description &D);
  /// Cuts a text, which is valid UTF-8, into matches and what lies between.
  void findAll(std::string_view Text, Regex::Scratch &S,
               std::vector<Match> &Out) const;

private:
  std::string Plain;
  std::unique_ptr<Regex> Expression; // null for a string
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_PATTERN_H
