//===- ShippedTemplate.h - Chat templates of a model ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SHIPPEDTEMPLATE_H
#define POPLAR_RUNTIME_SHIPPEDTEMPLATE_H

#include "template/JinjaValue.h"

namespace poplar::runtime {

/// The chat template that a model ships, and the special tokens that it may
/// speak of.
struct ShippedTemplate {
  /// Looks beside a tokenizer: chat_template.jinja, tokenizer_config.json,
  /// chat_template.json, additional_chat_templates. Without a template, Source
  /// is empty.
  static ShippedTemplate read(const std::string &TokenizerPath);
  /// All that decides what is written, as text.
  std::string describe() const;

  /// The file that has it.
  std::string Path;
  std::string Source;
  /// The template `tool_use`, for conversations with tools, or empty.
  std::string ToolSource;
  /// bos_token and the like.
  jinja::Entries Tokens;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SHIPPEDTEMPLATE_H
