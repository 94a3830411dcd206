//===- ChatFormat.h - How conversations become text -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHATFORMAT_H
#define POPLAR_RUNTIME_CHATFORMAT_H

#include "data/AnswerFinder.h"
#include "data/ShippedTemplate.h"

#include <memory>

namespace poplar::runtime {

/// Options of conversations.
struct ChatOptions {
  /// The name of a family, the file of a template, or empty.
  std::string Template;
  /// The date that a template uses, as YYYY-MM-DD, or empty.
  std::string Date;
};

/// A conversation as text, and the places of which tokens count.
struct RenderedChat {
  std::string Text;
  TextRanges Counted;
};

/// Writes conversations as the model's own chat template does, if it ships one;
/// else as the family does of which the tokenizer has the tokens.
/// A pair's conversations up to the answers, the last with what a template
/// writes in front of an answer, and with either answer.
struct RenderedPair {
  std::string Prompt, Chosen, Rejected;
};

class ChatFormat {
public:
  ChatFormat(const Tokenizer &Tok, const ShippedTemplate &Shipped,
             const ChatOptions &Asked);

  /// The conversation of a row, which `Where` names in errors.
  RenderedChat render(const json::Value &Row, ExampleShape Shape,
                      const ExampleMembers &Members,
                      const std::string &Where) const;
  /// The same of a row with a pair of answers.
  RenderedPair renderPair(const json::Value &Row, PairShape Shape,
                          const ExampleMembers &Members,
                          const std::string &Where) const;
  /// A user's message, up to where the answer begins.
  std::string renderPrompt(const std::string &Message) const;
  /// The token that ends an answer, or -1 if that is not known.
  int32_t getEndOfTurn() const { return Main->Finder->getEndOfTurn(); }
  /// "chat template of the model, in chat_template.jinja".
  const std::string &describe() const { return Description; }

private:
  /// A template, and what is known of it.
  struct Loaded {
    explicit Loaded(const std::string &Source) : Template(Source) {}
    jinja::Template Template;
    TemplateTraits Traits;
    std::unique_ptr<AnswerFinder> Finder;
  };
  std::unique_ptr<Loaded> load(const std::string &Source) const;
  /// The template for a row, and what it writes.
  const Loaded &getLoaded(const json::Value &Row,
                          const ExampleMembers &Members) const;
  jinja::Template::Result runOnRow(const Loaded &L, const Conversation &Chat,
                                   bool AsksForAnswer,
                                   const std::string &Where) const;
  void learn(TemplateTraits &Traits, const AnswerFinder::Renderer &Run) const;
  jinja::Template::Result run(const jinja::Template &Template,
                              const Conversation &Chat,
                              bool AsksForAnswer) const;
  /// Fails with what the template does.
  [[noreturn]] void refuse(const std::string &Where,
                           const std::string &What) const;

  const Tokenizer &Tok;
  bool HasDate = false;
  std::time_t Date = 0;
  jinja::Entries Tokens;
  /// Errors name the template by it.
  std::string Name;
  std::string Description;
  /// The second is null unless conversations with tools have one of their own.
  std::unique_ptr<Loaded> Main, ForTools;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHATFORMAT_H
