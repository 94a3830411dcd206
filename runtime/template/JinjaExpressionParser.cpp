//===- JinjaExpressionParser.cpp - Expressions of chat templates ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaParser.h"

#include <algorithm>
#include <charconv>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

void ExpressionParser::refuse(const std::string &What) const {
  fail("line ", peek().Line, ": ", What);
}
void ExpressionParser::expect(std::string_view Word) {
  if (!takeOperator(Word))
    refuse("expected '" + std::string(Word) + "'");
}
void ExpressionParser::expectEnd() {
  if (peek().TheKind != Token::End)
    refuse("expected the end of the tag, found '" + peek().Word + "'");
  take();
}
std::string ExpressionParser::expectName() {
  if (peek().TheKind != Token::Name)
    refuse("expected a name, found '" + peek().Word + "'");
  return take().Word;
}

NodePtr ExpressionParser::make(JinjaNode::Kind Kind, std::string Word) const {
  auto N = std::make_unique<JinjaNode>();
  N->TheKind = Kind;
  N->Line = peek().Line;
  N->Word = std::move(Word);
  return N;
}
NodePtr ExpressionParser::makeConstant(JinjaValue Content) const {
  NodePtr N = make(JinjaNode::Constant);
  N->Content = std::move(Content);
  return N;
}
void ExpressionParser::adopt(JinjaNode &Parent, NodePtr Child) const {
  if (Child &&
      (Parent.Height = std::max(Parent.Height, Child->Height + 1)) > 1000)
    refuse("an expression is nested too deeply");
  Parent.Children.push_back(std::move(Child));
}

NodePtr ExpressionParser::parseTuple(bool WithConditions) {
  auto Parse = [&] { return WithConditions ? parseExpression() : parseOr(); };
  NodePtr First = Parse();
  if (!isOperator(","))
    return First;
  NodePtr N = add(make(JinjaNode::TupleOf), std::move(First));
  while (takeOperator(",") && peek().TheKind != Token::End)
    adopt(*N, Parse());
  return N;
}

NodePtr ExpressionParser::parseExpression() {
  Deeper Guard(*this);
  NodePtr Then = parseOr();
  while (takeName("if")) {
    NodePtr N = make(JinjaNode::Conditional);
    adopt(*N, parseOr());
    adopt(*N, std::move(Then));
    adopt(*N, takeName("else") ? parseExpression() : nullptr);
    Then = std::move(N);
  }
  return Then;
}

NodePtr ExpressionParser::parseOr() {
  NodePtr N = parseAnd();
  while (takeName("or"))
    N = makeBinary("or", std::move(N), parseAnd());
  return N;
}
NodePtr ExpressionParser::parseAnd() {
  NodePtr N = parseNot();
  while (takeName("and"))
    N = makeBinary("and", std::move(N), parseNot());
  return N;
}
NodePtr ExpressionParser::parseNot() {
  Deeper Guard(*this);
  if (takeName("not"))
    return add(make(JinjaNode::Unary, "not"), parseNot());
  return parseComparison();
}

NodePtr ExpressionParser::parseComparison() {
  NodePtr First = parseSum(), N;
  while (true) {
    std::string Word;
    for (const char *Each : {"==", "!=", "<", ">", "<=", ">="})
      if (isOperator(Each))
        Word = Each;
    if (isName("in"))
      Word = "in";
    else if (isName("not") && Tokens[Pos + 1].TheKind == Token::Name &&
             Tokens[Pos + 1].Word == "in") {
      take();
      Word = "not in";
    }
    if (Word.empty())
      return N ? std::move(N) : std::move(First);
    take();
    if (!N)
      N = add(make(JinjaNode::Compare), std::move(First));
    N->Words.push_back(Word);
    adopt(*N, parseSum());
  }
}

NodePtr ExpressionParser::parseSum() {
  NodePtr N = parseConcatenation();
  while (isOperator("+") || isOperator("-")) {
    std::string Word = take().Word;
    N = makeBinary(Word, std::move(N), parseConcatenation());
  }
  return N;
}
NodePtr ExpressionParser::parseConcatenation() {
  NodePtr N = parseProduct();
  while (takeOperator("~"))
    N = makeBinary("~", std::move(N), parseProduct());
  return N;
}
NodePtr ExpressionParser::parseProduct() {
  NodePtr N = parsePower();
  while (isOperator("*") || isOperator("/") || isOperator("//") ||
         isOperator("%")) {
    std::string Word = take().Word;
    N = makeBinary(Word, std::move(N), parsePower());
  }
  return N;
}
NodePtr ExpressionParser::parsePower() {
  NodePtr N = parseUnary(true);
  while (takeOperator("**"))
    N = makeBinary("**", std::move(N), parseUnary(true));
  return N;
}
NodePtr ExpressionParser::parseUnary(bool WithFilters) {
  Deeper Guard(*this);
  if (isOperator("-") || isOperator("+")) {
    std::string Word = take().Word;
    NodePtr N = add(make(JinjaNode::Unary, Word), parseUnary(false));
    return WithFilters ? parseFilters(std::move(N)) : std::move(N);
  }
  NodePtr N = parsePostfix(parsePrimary());
  return WithFilters ? parseFilters(std::move(N)) : std::move(N);
}

NodePtr ExpressionParser::parseNumber() {
  const Token &T = take();
  std::string Digits = T.Word;
  Digits.erase(std::remove(Digits.begin(), Digits.end(), '_'), Digits.end());
  const char *Begin = Digits.data(), *End = Begin + Digits.size();
  int64_t Whole = 0;
  double Real = 0;
  bool IsWhole = T.TheKind == Token::Integer;
  auto [Stop, Code] = IsWhole ? std::from_chars(Begin, End, Whole)
                              : std::from_chars(Begin, End, Real);
  if (Code != std::errc() || Stop != End)
    refuse("the number " + T.Word + " is not supported");
  return makeConstant(IsWhole ? JinjaValue(Whole) : JinjaValue(Real));
}

NodePtr ExpressionParser::parsePrimary() {
  const Token &T = peek();
  if (T.TheKind == Token::Literal) {
    std::string Text;
    while (peek().TheKind == Token::Literal)
      Text += take().Word;
    return makeConstant(std::move(Text));
  }
  if (T.TheKind == Token::Integer || T.TheKind == Token::Float)
    return parseNumber();
  if (T.TheKind == Token::Name) {
    std::string Word = take().Word;
    if (Word == "true" || Word == "True")
      return makeConstant(true);
    if (Word == "false" || Word == "False")
      return makeConstant(false);
    if (Word == "none" || Word == "None")
      return makeConstant(JinjaValue::none());
    return make(JinjaNode::Name, Word);
  }
  if (takeOperator("("))
    return parseBrackets();
  if (takeOperator("["))
    return parseList();
  if (takeOperator("{"))
    return parseDictionary();
  refuse("an expression is expected, found '" + T.Word + "'");
}

NodePtr ExpressionParser::parseBrackets() {
  if (takeOperator(")"))
    return make(JinjaNode::TupleOf);
  NodePtr N = parseExpression();
  if (isOperator(",")) {
    N = add(make(JinjaNode::TupleOf), std::move(N));
    while (takeOperator(",") && !isOperator(")"))
      adopt(*N, parseExpression());
  }
  expect(")");
  return N;
}

NodePtr ExpressionParser::parseList() {
  NodePtr N = make(JinjaNode::ListOf);
  while (!isOperator("]")) {
    adopt(*N, parseExpression());
    if (!takeOperator(","))
      break;
  }
  expect("]");
  return N;
}

NodePtr ExpressionParser::parseDictionary() {
  NodePtr N = make(JinjaNode::DictOf);
  while (!isOperator("}")) {
    adopt(*N, parseExpression());
    expect(":");
    adopt(*N, parseExpression());
    if (!takeOperator(","))
      break;
  }
  expect("}");
  return N;
}

NodePtr ExpressionParser::parsePostfix(NodePtr N) {
  while (true) {
    if (takeOperator(".")) {
      if (peek().TheKind == Token::Integer) {
        NodePtr Item = add(make(JinjaNode::Item), std::move(N));
        N = add(std::move(Item), parseNumber());
      } else {
        NodePtr Member = make(JinjaNode::Member, expectName());
        N = add(std::move(Member), std::move(N));
      }
    } else if (takeOperator("[")) {
      N = parseSubscript(std::move(N));
    } else if (isOperator("(")) {
      N = add(make(JinjaNode::Call), std::move(N));
      parseArguments(*N);
    } else {
      return N;
    }
  }
}

NodePtr ExpressionParser::parseSubscript(NodePtr N) {
  NodePtr Parts[3];
  int Colons = 0;
  while (!isOperator("]")) {
    if (takeOperator(":")) {
      if (++Colons > 2)
        refuse("a slice has at most two colons");
      continue;
    }
    if (Parts[Colons])
      refuse("expected ']'");
    Parts[Colons] = parseExpression();
  }
  expect("]");
  if (!Colons && !Parts[0])
    refuse("an index is expected");
  NodePtr Result =
      add(make(Colons ? JinjaNode::Slice : JinjaNode::Item), std::move(N));
  for (int I = 0; I < (Colons ? 3 : 1); ++I)
    adopt(*Result, std::move(Parts[I]));
  return Result;
}

void ExpressionParser::parseArguments(JinjaNode &N) {
  expect("(");
  while (!isOperator(")")) {
    if (isOperator("*") || isOperator("**")) {
      std::string Word = take().Word;
      if (Word == "**")
        N.Names.push_back(Word);
      else if (!N.Names.empty())
        refuse("an argument without a name follows one with a name");
      adopt(N, add(make(JinjaNode::Spread, Word), parseExpression()));
      if (!takeOperator(","))
        break;
      continue;
    }
    bool IsNamed = peek().TheKind == Token::Name &&
                   Tokens[Pos + 1].TheKind == Token::Operator &&
                   Tokens[Pos + 1].Word == "=";
    if (IsNamed) {
      N.Names.push_back(take().Word);
      take();
    } else if (!N.Names.empty()) {
      refuse("an argument without a name follows one with a name");
    }
    adopt(N, parseExpression());
    if (!takeOperator(","))
      break;
  }
  expect(")");
}

NodePtr ExpressionParser::parseFilter(NodePtr N) {
  NodePtr Result = make(JinjaNode::Filter, expectName());
  Result = add(std::move(Result), std::move(N));
  if (isOperator("("))
    parseArguments(*Result);
  return Result;
}

NodePtr ExpressionParser::parseFilters(NodePtr N) {
  while (true) {
    if (takeOperator("|")) {
      N = parseFilter(std::move(N));
    } else if (takeName("is")) {
      bool IsNegated = takeName("not");
      NodePtr Test = make(JinjaNode::Test, expectName());
      Test = add(std::move(Test), std::move(N));
      if (isOperator("("))
        parseArguments(*Test);
      else if (takesArgument())
        adopt(*Test, parsePostfix(parsePrimary()));
      N = std::move(Test);
      if (IsNegated)
        N = add(make(JinjaNode::Unary, "not"), std::move(N));
    } else if (isOperator("(")) {
      N = add(make(JinjaNode::Call), std::move(N));
      parseArguments(*N);
    } else {
      return N;
    }
  }
}
bool ExpressionParser::takesArgument() const {
  const Token &T = peek();
  if (T.TheKind == Token::Name)
    return T.Word != "else" && T.Word != "or" && T.Word != "and" &&
           T.Word != "is" && T.Word != "if" && T.Word != "in" &&
           T.Word != "not" && T.Word != "recursive";
  return T.TheKind == Token::Literal || T.TheKind == Token::Integer ||
         T.TheKind == Token::Float ||
         (T.TheKind == Token::Operator && (T.Word == "[" || T.Word == "{"));
}
