//===- Regex.h - Regular expressions of tokenizers --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_REGEX_H
#define POPLAR_RUNTIME_TOKENIZER_REGEX_H

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_jit_stack_8;
struct pcre2_real_match_context_8;

namespace poplar::runtime {

/// A part of a text that matches, or that lies between matches.
struct Match {
  size_t Begin, End;
  bool IsMatch;
};

/// An expression of Oniguruma's (in its Ruby syntax, over Unicode 16), matched
/// by PCRE2's just-in-time compiler. What the two understand differently is
/// translated, or refused by name.
class Regex {
public:
  /// `Where` names the expression in errors.
  Regex(std::string_view Pattern, const std::string &Where);
  Regex(Regex &&) noexcept;
  ~Regex();

  /// Buffers of one thread for matching.
  class Scratch {
  public:
    Scratch();
    Scratch(Scratch &&) noexcept;
    ~Scratch();

  private:
    friend class Regex;
    pcre2_real_match_data_8 *Data;
    pcre2_real_jit_stack_8 *Stack;
    pcre2_real_match_context_8 *Context;
  };

  /// Cuts a text, which is valid UTF-8, into matches and what lies between.
  void findAll(std::string_view Text, Scratch &S,
               std::vector<Match> &Out) const;

private:
  pcre2_real_code_8 *Code = nullptr;
  std::string Where;
};

/// The expression for PCRE2 that means what `Pattern` means to Oniguruma.
std::string translateRegex(std::string_view Pattern, const std::string &Where);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_REGEX_H
