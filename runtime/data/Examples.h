//===- Examples.h - Examples in JSON, of which some tokens count *- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXAMPLES_H
#define POPLAR_RUNTIME_EXAMPLES_H

#include "data/ChatFormat.h"
#include "data/RowForm.h"
#include "support/JSON.h"

namespace poplar::runtime {

/// The ids of an example, and whether each is a target.
struct Example {
  std::vector<int32_t> Ids;
  std::vector<bool> Counts;
  /// Whether the text begins with the token that the tokenizer puts before it.
  bool StartsTwice = false;
};

/// Options of examples.
struct ExampleRules {
  /// See ExampleMembers.
  std::vector<std::string> IgnoredMembers;
  ChatOptions Chat;
  /// Each object has a pair of answers: a file has two examples of it, the
  /// chosen one first.
  bool Pairs = false;
  /// Tokens of the windows that a text becomes; 0 for whole texts.
  int64_t Window = 0;
  RowOptions Form;
};

/// Turns objects of JSON into ids. An object has
///   text                           all tokens count
///   prompt, completion             those of the completion
///   instruction, input, output     the same, in Alpaca's words
///   messages [{role, content}]     those of the assistant, see ChatFormat
///   conversations [{from, value}]  the same, as ShareGPT has it
///   segments [{label, text}]       those of segments whose label is true
///   input_ids, labels,             those of which the label is not -100
///     attention_mask
/// The token that ends a text, a completion or an answer counts as well. Which
/// other members an object may have, ExampleMembers says.
class ExampleEncoder {
public:
  /// `EndId` is the model's eos_token_id, or -1.
  ExampleEncoder(const Tokenizer &Tok, int32_t EndId,
                 const ShippedTemplate &Shipped, const ExampleRules &Rules);

  /// `Where` names the object in errors. One of which nothing counts is an
  /// error.
  Example encode(const json::Value &Object, const std::string &Where);
  /// The chosen and the rejected answer of an object, each behind its prompt.
  /// As with trl, an answer begins where its tokens differ from those of the
  /// prompt alone.
  std::pair<Example, Example> encodePair(const json::Value &Object,
                                         const std::string &Where);
  /// The windows of a text, as axolotl cuts rows for pre-training: each has the
  /// tokens that the tokenizer puts before a text, and the one that ends it.
  /// Neighbours have up to 256 tokens in common. Members other than `text` are
  /// not looked at.
  std::vector<Example> encodeWindows(const json::Value &Object, int64_t Window,
                                     const std::string &Where);
  /// How conversations are written, if one has been met.
  const ChatFormat *chat() const { return Chat.get(); }

private:
  Example encodeRow(const json::Value &Object, const std::string &Where);
  std::pair<Example, Example> encodePairRow(const json::Value &Object,
                                            const std::string &Where);
  Example encodeObject(const json::Value &Object, const std::string &Where);
  /// A member that is to be a string.
  std::string getText(const json::Value &Object, const char *Key,
                      const std::string &Where) const;
  Example encodeSegments(const json::Value &Segments, const std::string &Where);
  Example encodeIds(const json::Value &Object, const std::string &Where);
  const ChatFormat &getChat(const std::string &Where);
  Example encodeChat(const json::Value &Object, ExampleShape Shape,
                     const std::string &Where);
  Example encodeCompletion(const std::string &Prompt,
                           const std::string &Completion,
                           const std::string &Where);
  void addEnd(Example &E, const std::string &Where) const;
  std::vector<int32_t> encodeText(std::string_view Text);
  bool startsTwice(const std::vector<int32_t> &Ids) const;

  std::unique_ptr<Tokenizer::Encoder> Encoder;
  const Tokenizer &Tok;
  ShippedTemplate Shipped;
  RowForm Form;
  ExampleMembers Members;
  ChatOptions Asked;
  /// Made when the first conversation is read.
  std::unique_ptr<ChatFormat> Chat;
  int32_t EndId;
  /// The tokens that the tokenizer puts before a text.
  std::vector<int32_t> Before;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXAMPLES_H
