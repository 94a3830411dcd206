//===- ChatFormat.h - How conversations become text -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHATFORMAT_H
#define POPLAR_RUNTIME_CHATFORMAT_H

#include "data/ChatTemplate.h"
#include "data/ExampleMembers.h"
#include "data/Jinja.h"

#include <memory>

namespace poplar::runtime {

/// The chat template that a model ships, and the special tokens that it may
/// speak of.
struct ShippedTemplate {
  /// Looks beside a tokenizer: chat_template.jinja, tokenizer_config.json,
  /// chat_template.json. Without one, Source is empty.
  static ShippedTemplate read(const std::string &TokenizerPath);

  /// The file that has it.
  std::string Path;
  std::string Source;
  /// bos_token and the like.
  jinja::Entries Tokens;
};

/// Options of conversations.
struct ChatOptions {
  /// The name of a family, the file of a template, or empty.
  std::string Template;
  /// The date that a template uses, as YYYY-MM-DD, or empty.
  std::string Date;
};

/// Writes conversations as the model's own chat template does, if it ships one;
/// else as the family does of which the tokenizer has the tokens.
///
/// The parts of a text that count are those that the template marks by
/// {% generation %}. If it marks nothing, the conversation is written again
/// with a mark in the place of each content, which shows what the template
/// writes between them:
///
///     <|im_start|>user\n [1] <|im_end|>\n<|im_start|>assistant\n [2]
///     <|im_end|>
///
/// An answer counts from the end of the generation prompt
/// (add_generation_prompt) up to and including the special token after it. If
/// the parts with their contents do not add up to the text, the template
/// changes a content, and the conversation is refused.
class ChatFormat {
public:
  ChatFormat(const Tokenizer &Tok, const ShippedTemplate &Shipped,
             const ChatOptions &Asked);

  /// The list `Messages`, which `Where` names in errors.
  RenderedChat render(const json::Value &Messages,
                      const ExampleMembers &Members,
                      const std::string &Where) const;
  /// A user's message, up to where the answer begins.
  std::string renderPrompt(const std::string &Message) const;
  /// The token that ends an answer, or -1 if that is not known.
  int32_t getEndOfTurn() const;
  /// "chat template of the model (chat_template.jinja)".
  const std::string &describe() const { return Description; }

private:
  using Messages = std::vector<ChatMessage>;
  Messages readMessages(const json::Value &List, const ExampleMembers &Members,
                        const std::string &Where) const;
  jinja::Template::Result run(const Messages &All, bool AsksForAnswer) const;
  RenderedChat renderOwn(const Messages &All, const std::string &Where) const;
  std::vector<std::pair<size_t, size_t>>
  findAnswers(const Messages &All, const std::string &Text,
              const std::string &Where) const;
  /// Bytes up to the end of the special token that ends an answer, or 0.
  size_t findEnd(std::string_view Text) const;

  const Tokenizer &Tok;
  std::optional<ChatTemplate> Family;
  std::unique_ptr<jinja::Template> Own;
  /// The generation prompt.
  std::string AnswerPrompt;
  bool ReadsReasoning = false, HasDate = false;
  std::time_t Date = 0;
  jinja::Entries Tokens;
  std::string Path, Description;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHATFORMAT_H
