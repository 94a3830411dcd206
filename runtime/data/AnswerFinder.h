//===- AnswerFinder.h - Where a chat template writes answers ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ANSWERFINDER_H
#define POPLAR_RUNTIME_ANSWERFINDER_H

#include "data/Conversation.h"
#include "template/Jinja.h"
#include "tokenizer/Tokenizer.h"

#include <functional>

namespace poplar::runtime {

/// Ranges in bytes.
using TextRanges = std::vector<std::pair<size_t, size_t>>;

/// Finds the answers in what a chat template writes.
///
///   turn    what the template's loop over the messages writes for a message
///   header  what an answer's turn begins with: up to the end of the generation
///           prompt (add_generation_prompt), or else up to the content
///
///     <|im_start|>assistant\n   <think>\n\n</think>\n\nb<|im_end|>   \n
///     [        header       ]   [           answer             ]
///
/// An answer goes from the end of the header up to and including the special
/// token that ends the turn. If the template marks answers by {% generation %},
/// these marks are the answers.
class AnswerFinder {
public:
  using Renderer = std::function<jinja::Template::Result(
      const Conversation &Chat, bool AsksForAnswer)>;

  /// Learns the headers by a few conversations.
  AnswerFinder(const Tokenizer &Tok, const Renderer &Render);

  /// The answers that count. An Error begins with what the template does.
  TextRanges find(const Conversation &Chat,
                  const jinja::Template::Result &Result) const;
  /// The token that ends an answer, or -1 if that is not known.
  int32_t getEndOfTurn() const { return EndOfTurn; }

private:
  void learn(const Renderer &Render);
  std::pair<size_t, size_t> findAnswer(const std::string &Text, size_t Begin,
                                       size_t End, size_t Message) const;
  size_t getHeader(std::string_view Turn) const;
  /// The added token that `Text` ends with, or -1.
  int32_t findLastToken(std::string_view Text) const;
  /// Bytes up to the end of the added token that `Text` begins with behind
  /// white space, or 0.
  size_t findFirstToken(std::string_view Text) const;

  const Tokenizer &Tok;
  std::vector<std::string> Headers;
  std::string AnswerPrompt;
  int32_t EndOfTurn = -1;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ANSWERFINDER_H
