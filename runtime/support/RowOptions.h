//===- RowOptions.h - Options about the form of rows ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ROWOPTIONS_H
#define POPLAR_RUNTIME_ROWOPTIONS_H

#include <string>
#include <vector>

namespace poplar::runtime {

/// What the user says about the form of rows.
struct RowOptions {
  /// NAME=MEMBER: the member MEMBER is read as NAME. Those of messages have
  /// names that begin with "messages.".
  std::vector<std::string> Members;
  /// ROLE=NAME: the role NAME of a message is read as ROLE.
  std::vector<std::string> Roles;
  /// Whether the first message is left out if it is the system's.
  bool DropSystem = false;
  /// What a prompt with instruction and input becomes, and one without input;
  /// empty for Alpaca's. {instruction} and {input} stand for the members.
  std::string Prompt, PromptAlone;
  /// What a row's system text becomes in front of its prompt, with {system}. If
  /// it is empty, such a row is a conversation.
  std::string System;
  /// Whether a completion is encoded apart from its prompt, as axolotl does:
  /// without the tokens that the tokenizer puts before a text.
  bool Apart = false;
  /// Whether the tokens of a prompt count as well.
  bool CountsPrompts = false;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ROWOPTIONS_H
