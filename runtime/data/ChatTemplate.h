//===- ChatTemplate.h - How families write conversations --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHATTEMPLATE_H
#define POPLAR_RUNTIME_CHATTEMPLATE_H

#include "tokenizer/Tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace poplar::runtime {

/// A message, and whether it counts if it is an answer.
struct ChatMessage {
  std::string Role, Content;
  /// Empty if there is none.
  std::string Reasoning;
  bool Counts = true;
};

/// A conversation as text, and the places, in bytes, of which tokens count: the
/// answers, with the tokens that end them.
struct RenderedChat {
  std::string Text;
  std::vector<std::pair<size_t, size_t>> Counted;
};

/// The format of conversations of a model family, for models that ship no
/// template. It is recognised by the tokens that it needs.
class ChatTemplate {
public:
  /// The template whose tokens the tokenizer has, if there is one.
  static std::optional<ChatTemplate> find(const Tokenizer &Tok);
  /// The template of this name in --chat-template, if there is one.
  static std::optional<ChatTemplate> find(const std::string &Option);
  /// "ChatML, Llama 3, ..."
  static std::string listNames();
  /// "chatml, llama-3, ..."
  static std::string listOptions();

  /// `Where` names the conversation in errors.
  RenderedChat render(const std::vector<ChatMessage> &Messages,
                      const std::string &Where) const;
  /// A user's message, up to where the answer begins.
  std::string renderPrompt(std::string_view Message) const;
  /// The token that ends an answer.
  const std::string &getEndOfTurn() const { return Answer.Behind; }
  const std::string &getName() const { return Name; }

private:
  /// The text before and after a content, whose white space may be trimmed,
  /// and the text after the turn.
  struct Turn {
    std::string Before, Behind, After;
    bool Trims = false;
  };
  /// Families whose turns are alike but for the name of the role.
  struct Roles {
    const char *Name;
    /// Its name in --chat-template.
    const char *Option;
    /// The tokens that identify the template.
    const char *Needs[2];
    const char *First, *BeforeRole, *BehindRole, *EndOfTurn, *BehindTurn;
    const char *Assistant;
    bool HasSystem, Trims;
  };
  static const Roles Table[];

  explicit ChatTemplate(const Roles &Family);
  /// Returns where the content begins.
  size_t addTurn(std::string &Text, const Turn &Form,
                 std::string_view Content) const;

  std::string Name, First;
  Turn User, Answer, System;
  bool HasSystem;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHATTEMPLATE_H
