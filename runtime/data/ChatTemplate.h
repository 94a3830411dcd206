//===- ChatTemplate.h - How families write conversations --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHATTEMPLATE_H
#define POPLAR_RUNTIME_CHATTEMPLATE_H

#include "support/JSON.h"
#include "tokenizer/Tokenizer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace poplar::runtime {

/// A conversation as text, and the places, in bytes, of which tokens count: the
/// answers, with the tokens that end them.
struct RenderedChat {
  std::string Text;
  std::vector<std::pair<size_t, size_t>> Counted;
};

/// How a family of models writes a conversation. It is known by the tokens that
/// it needs; the `chat_template` of a tokenizer_config.json is not read.
class ChatTemplate {
public:
  /// That of which the tokenizer has the tokens; null if there is none.
  static const ChatTemplate *find(const Tokenizer &Tok);
  /// "ChatML, Llama 3, ..."
  static std::string listNames();

  /// Of a list of objects with `role` and `content`. `Where` names it in errors.
  RenderedChat render(const json::Value &Messages,
                      const std::string &Where) const;
  /// A user's message, up to where the answer begins.
  std::string renderPrompt(std::string_view Message) const;
  /// The token that ends an answer.
  const char *getEndOfTurn() const { return EndOfTurn; }

  const char *Name;
  /// The tokens that tell the template.
  const char *Needs[2];
  const char *First, *BeforeRole, *BehindRole, *EndOfTurn, *BehindTurn;
  const char *Assistant;
  bool HasSystem, Trims;

private:
  /// Returns where its content begins.
  size_t addTurn(std::string &Text, std::string_view Role,
                 std::string_view Content) const;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHATTEMPLATE_H
