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

namespace poplar::runtime {

/// The chat template of a model family, for models that ship none. It is
/// recognised by the tokens that it needs.
struct ChatTemplate {
  /// The template whose tokens the tokenizer has, if there is one.
  static std::optional<ChatTemplate> find(const Tokenizer &Tok);
  /// The template of this name in --chat-template, if there is one: that of a
  /// family, axolotl:NAME for a template of axolotl, or mistral-common:v3 and
  /// mistral-common:v7.
  static std::optional<ChatTemplate> find(const std::string &Option);
  /// "ChatML, Llama 3, ..."
  static std::string listNames();
  /// "chatml, llama-3, ..."
  static std::string listOptions();

  std::string Name;
  /// In Jinja.
  std::string Source;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHATTEMPLATE_H
