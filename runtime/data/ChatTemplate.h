//===- ChatTemplate.h - How families write conversations --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHATTEMPLATE_H
#define POPLAR_RUNTIME_CHATTEMPLATE_H

#include "data/ExampleMembers.h"
#include "support/JSON.h"
#include "tokenizer/Tokenizer.h"

#include <optional>
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
/// it needs. A tokenizer's own template, which is a program, is not run: only
/// which of Mistral's forms it is is read off it.
class ChatTemplate {
public:
  /// That of which the tokenizer has the tokens, if there is one. `Source` is
  /// the tokenizer's own template, see readChatTemplate(). Throws an Error
  /// where it decides between forms, and none of those is found in it.
  static std::optional<ChatTemplate> find(const Tokenizer &Tok,
                                          const std::string &Source);
  /// "ChatML, Llama 3, ..."
  static std::string listNames();

  /// Of a list of objects with `role` and `content`, whose other members are
  /// as `Members` says. `Where` names it in errors.
  RenderedChat render(const json::Value &Messages,
                      const ExampleMembers &Members,
                      const std::string &Where) const;
  /// A user's message, up to where the answer begins.
  std::string renderPrompt(std::string_view Message) const;
  /// The token that ends an answer.
  const std::string &getEndOfTurn() const { return Answer.Behind; }
  const std::string &getName() const { return Name; }

private:
  /// What stands around what someone says, whose white space may be trimmed,
  /// and what follows that.
  struct Turn {
    std::string Before, Behind, After;
    bool Trims = false;
  };
  /// Where the words of the system go.
  enum class SystemPlace {
    Nowhere,
    Turn,      ///< in a turn of their own
    FirstUser, ///< in front of the first user's
    LastUser   ///< in front of the last user's, if nothing follows
  };
  /// Families whose turns are alike but for the name of the role.
  struct Roles {
    const char *Name;
    /// The tokens that tell the template.
    const char *Needs[2];
    const char *First, *BeforeRole, *BehindRole, *EndOfTurn, *BehindTurn;
    const char *Assistant;
    bool HasSystem, Trims;
  };
  static const Roles Table[];

  explicit ChatTemplate(const Roles &Family);
  /// Mistral's [INST] and [/INST], as in the template `Source`.
  explicit ChatTemplate(const std::string &Source);

  /// Returns where the content begins.
  size_t addTurn(std::string &Text, const Turn &Form,
                 std::string_view Content) const;

  std::string Name, First;
  Turn User, Answer, System;
  SystemPlace Place = SystemPlace::Turn;
};

/// The `chat_template` that belongs to a tokenizer: of chat_template.jinja or
/// tokenizer_config.json beside it; empty if there is none.
std::string readChatTemplate(const std::string &TokenizerPath);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHATTEMPLATE_H
