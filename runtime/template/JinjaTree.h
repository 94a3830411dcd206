//===- JinjaTree.h - The syntax tree of a chat template ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JINJATREE_H
#define POPLAR_RUNTIME_JINJATREE_H

#include "template/JinjaValue.h"

#include <string_view>

namespace poplar::runtime::jinja {

struct Token {
  enum Kind {
    Text,       ///< outside of tags
    BeginPrint, ///< {{
    BeginBlock, ///< {%
    End,        ///< }} or %}
    Name,
    Literal, ///< of a string
    Integer,
    Float,
    Operator,
    EndOfFile
  };
  Kind TheKind;
  std::string Word;
  int Line;
};

/// Cuts a template; white space is trimmed as its tags say.
std::vector<Token> tokenize(std::string_view Source);

struct JinjaNode {
  enum Kind {
    Constant,
    Name,
    ListOf,     ///< Children
    TupleOf,    ///< Children
    DictOf,     ///< Children: key, value, ...
    Member,     ///< Children[0].Word
    Item,       ///< Children[0][Children[1]]
    Slice,      ///< Children[0][a:b:c], null for what is left out
    Call,       ///< Children[0](...)
    Spread,     ///< Word Children[0], an argument with * or **
    Filter,     ///< Children[0] | Word(...)
    Test,       ///< Children[0] is Word(...)
    Unary,      ///< Word: not, -, +
    Binary,     ///< Word: and, or, +, ==, in, ...
    Compare,    ///< a < b < c: Children, Words
    Conditional ///< Children: condition, then, else or null
  };
  Kind TheKind;
  int Line;
  std::string Word;
  JinjaValue Content;
  std::vector<std::unique_ptr<JinjaNode>> Children;
  /// The operators of a comparison.
  std::vector<std::string> Words;
  /// Arguments by name of a call: the last children.
  std::vector<std::string> Names;
  /// The height of the tree below.
  int Height = 0;
};

struct Block {
  enum Kind {
    Sequence,   ///< Body
    Generation, ///< Body, which the model is to write
    Text,       ///< Word
    Print,      ///< Expression
    If,         ///< Expression, Body, Else
    For,        ///< Targets in Expression if Condition: Body, Else
    Set,        ///< Targets = Expression, or Targets[0].Word = Expression
    SetText,    ///< the same with the text of Body, through Expression if there
                ///< is one
    Macro,      ///< Word(Targets, with defaults in Defaults): Body
    FilterOf,   ///< Body through Expression, whose innermost child is the text
    CallOf,     ///< Expression, a call, with Body(Targets) as caller()
    With,       ///< Targets = Defaults: Body
    Break,
    Continue
  };
  Kind TheKind = Sequence;
  int Line = 0;
  std::string Word;
  std::unique_ptr<JinjaNode> Expression, Condition;
  std::vector<std::string> Targets;
  /// Null where a parameter has none.
  std::vector<std::unique_ptr<JinjaNode>> Defaults;
  std::vector<std::unique_ptr<Block>> Body, Else;
};

std::unique_ptr<Block> parse(std::vector<Token> Tokens);

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJATREE_H
