//===- JinjaParser.h - The syntax of chat templates -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JINJAPARSER_H
#define POPLAR_RUNTIME_JINJAPARSER_H

#include "template/JinjaTree.h"

#include <utility>

namespace poplar::runtime::jinja {

using NodePtr = std::unique_ptr<JinjaNode>;
using BlockPtr = std::unique_ptr<Block>;

/// The expressions of a template by recursive descent, with the precedences of
/// Jinja.
class ExpressionParser {
public:
  explicit ExpressionParser(std::vector<Token> Tokens)
      : Tokens(std::move(Tokens)) {}

protected:
  /// Counts how deep the tree is.
  struct Deeper {
    explicit Deeper(ExpressionParser &P) : P(P) {
      if (++P.Depth > 200)
        P.refuse("it is nested too deeply");
    }
    ~Deeper() { --P.Depth; }
    ExpressionParser &P;
  };

  const Token &peek() const { return Tokens[Pos]; }
  const Token &take() { return Tokens[Pos + 1 < Tokens.size() ? Pos++ : Pos]; }
  [[noreturn]] void refuse(const std::string &What) const;
  bool isOperator(std::string_view Word) const {
    return peek().TheKind == Token::Operator && peek().Word == Word;
  }
  bool isName(std::string_view Word) const {
    return peek().TheKind == Token::Name && peek().Word == Word;
  }
  bool takeOperator(std::string_view Word) {
    return isOperator(Word) && (take(), true);
  }
  bool takeName(std::string_view Word) {
    return isName(Word) && (take(), true);
  }
  void expect(std::string_view Word);
  void expectEnd();
  std::string expectName();

  NodePtr make(JinjaNode::Kind Kind, std::string Word = "") const;
  NodePtr makeConstant(JinjaValue Content) const;
  /// Null is what was left out.
  void adopt(JinjaNode &Parent, NodePtr Child) const;
  NodePtr add(NodePtr Parent, NodePtr Child) const {
    adopt(*Parent, std::move(Child));
    return Parent;
  }

  /// Expressions with commas between them are a tuple.
  NodePtr parseTuple(bool WithConditions = true);
  NodePtr parseExpression();
  /// NAME or NAME(arguments) of a filter for `N`.
  NodePtr parseFilter(NodePtr N);
  NodePtr parsePostfix(NodePtr N);
  NodePtr parsePrimary();

private:
  NodePtr makeBinary(std::string Word, NodePtr A, NodePtr B) const {
    return add(add(make(JinjaNode::Binary, std::move(Word)), std::move(A)),
               std::move(B));
  }
  NodePtr parseOr();
  NodePtr parseAnd();
  NodePtr parseNot();
  NodePtr parseComparison();
  NodePtr parseSum();
  NodePtr parseConcatenation();
  NodePtr parseProduct();
  NodePtr parsePower();
  NodePtr parseUnary(bool WithFilters);
  NodePtr parseNumber();
  NodePtr parseList();
  NodePtr parseDictionary();
  NodePtr parseBrackets();
  NodePtr parseSubscript(NodePtr N);
  void parseArguments(JinjaNode &N);
  NodePtr parseFilters(NodePtr N);
  /// Whether a test is followed by an argument without brackets.
  bool takesArgument() const;

  std::vector<Token> Tokens;
  size_t Pos = 0;
  int Depth = 0;
};

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJAPARSER_H
