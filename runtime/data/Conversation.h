//===- Conversation.h - Conversations as chat templates see them *- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CONVERSATION_H
#define POPLAR_RUNTIME_CONVERSATION_H

#include "data/ExampleMembers.h"
#include "template/JinjaValue.h"

namespace poplar::runtime {

struct ChatMessage {
  /// The content, or undefined.
  jinja::JinjaValue getContent() const;

  std::string Role;
  /// What the template is given, without null.
  jinja::Entries Members;
  /// Whether the message counts if it is an answer.
  bool Counts = true;
};

struct Conversation {
  /// A conversation of texts alone.
  Conversation() = default;
  Conversation(
      std::initializer_list<std::pair<const char *, std::string>> Texts);
  void add(const std::string &Role, const std::string &Content);

  std::vector<ChatMessage> Messages;
  jinja::JinjaValue Tools = jinja::JinjaValue::none(),
                    Documents = jinja::JinjaValue::none();
  /// chat_template_kwargs.
  jinja::Entries Variables;
};

/// What decides which members a template can use.
struct TemplateTraits {
  std::string Source;
  /// Whether it writes the arguments of a call that are given as a string as
  /// they are, and whether it reads contents that are lists of parts.
  bool KeepsArguments = false, ReadsParts = false;

  /// Whether the template speaks of a member of messages.
  bool readsMember(const std::string &Name) const;
  bool readsVariable(const std::string &Name) const {
    return Source.find(Name) != Source.npos;
  }
};

/// Reads the conversation of a row with the members of `Shape`, which is
/// Messages, ShareGPT, Alpaca or Completion. A member that the template does
/// not use is an error. `Where` names the row in errors.
Conversation readConversation(const json::Value &Row, ExampleShape Shape,
                              const ExampleMembers &Members,
                              const TemplateTraits &Traits,
                              const std::string &Where);

/// The messages before a pair of answers, and both with an answer. Without
/// `prompt`, they are what `chosen` and `rejected` begin with alike.
struct PairOfConversations {
  Conversation Prompt, Chosen, Rejected;
};
PairOfConversations readPair(const json::Value &Row, PairShape Shape,
                             const ExampleMembers &Members,
                             const TemplateTraits &Traits,
                             const std::string &Where);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CONVERSATION_H
