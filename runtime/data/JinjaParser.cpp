//===- JinjaParser.cpp - The syntax of chat templates ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/JinjaTree.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>
#include <utility>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

namespace {

using NodePtr = std::unique_ptr<JinjaNode>;
using BlockPtr = std::unique_ptr<Block>;

/// Recursive descent, with the precedences of Jinja.
class Parser {
public:
  explicit Parser(std::vector<Token> Tokens) : Tokens(std::move(Tokens)) {}

  BlockPtr run() {
    auto Root = std::make_unique<Block>();
    Root->Body = parseBody({});
    return Root;
  }

private:
  static constexpr int MaxDepth = 200, MaxHeight = 1000;
  /// Counts how deep the tree is.
  struct Deeper {
    explicit Deeper(Parser &P) : P(P) {
      if (++P.Depth > MaxDepth)
        P.refuse("it is nested too deeply");
    }
    ~Deeper() { --P.Depth; }
    Parser &P;
  };

  const Token &peek() const { return Tokens[Pos]; }
  const Token &take() { return Tokens[Pos + 1 < Tokens.size() ? Pos++ : Pos]; }
  [[noreturn]] void refuse(const std::string &What) const {
    fail("line ", peek().Line, ": ", What);
  }
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
  void expect(std::string_view Word) {
    if (!takeOperator(Word))
      refuse("expected '" + std::string(Word) + "'");
  }
  void expectEnd() {
    if (peek().TheKind != Token::End)
      refuse("expected the end of the tag, found '" + peek().Word + "'");
    take();
  }
  std::string expectName() {
    if (peek().TheKind != Token::Name)
      refuse("expected a name, found '" + peek().Word + "'");
    return take().Word;
  }

  NodePtr make(JinjaNode::Kind Kind, std::string Word = "") const {
    auto N = std::make_unique<JinjaNode>();
    N->TheKind = Kind;
    N->Line = peek().Line;
    N->Word = std::move(Word);
    return N;
  }
  NodePtr makeConstant(JinjaValue Content) const {
    NodePtr N = make(JinjaNode::Constant);
    N->Content = std::move(Content);
    return N;
  }
  /// Null is what was left out.
  void adopt(JinjaNode &Parent, NodePtr Child) const {
    if (Child && (Parent.Height = std::max(Parent.Height, Child->Height + 1)) >
                     MaxHeight)
      refuse("an expression is nested too deeply");
    Parent.Children.push_back(std::move(Child));
  }
  NodePtr add(NodePtr Parent, NodePtr Child) const {
    adopt(*Parent, std::move(Child));
    return Parent;
  }

  //===-- Statements ------------------------------------------------------===//

  /// Parses up to a block whose name is in `Ends`, which is left to the caller;
  /// without names, to the end of the template.
  std::vector<BlockPtr> parseBody(const std::vector<std::string_view> &Ends) {
    Deeper Guard(*this);
    std::vector<BlockPtr> Body;
    while (true) {
      auto B = std::make_unique<Block>();
      B->Line = peek().Line;
      if (peek().TheKind == Token::Text) {
        B->TheKind = Block::Text;
        B->Word = take().Word;
      } else if (peek().TheKind == Token::BeginPrint) {
        take();
        B->TheKind = Block::Print;
        B->Expression = parseTuple();
        expectEnd();
      } else if (peek().TheKind == Token::EndOfFile) {
        if (!Ends.empty())
          refuse("the block has no {% " + std::string(Ends.back()) + " %}");
        return Body;
      } else {
        take();
        for (std::string_view End : Ends)
          if (isName(End))
            return Body;
        B = parseStatement();
      }
      Body.push_back(std::move(B));
    }
  }
  void endBlock(std::string_view Name) {
    if (!takeName(Name))
      refuse("expected '" + std::string(Name) + "'");
    expectEnd();
  }

  BlockPtr parseStatement() {
    auto B = std::make_unique<Block>();
    B->Line = peek().Line;
    std::string Word = expectName();
    if (Word == "if")
      parseIf(*B);
    else if (Word == "for")
      parseFor(*B);
    else if (Word == "set")
      parseSet(*B);
    else if (Word == "macro")
      parseMacro(*B);
    else if (Word == "filter")
      parseFilterBlock(*B);
    else if (Word == "generation") {
      expectEnd();
      B->TheKind = Block::Generation;
      B->Body = parseBody({"endgeneration"});
      endBlock("endgeneration");
    } else if ((Word == "break" || Word == "continue") && Loops > 0) {
      B->TheKind = Word == "break" ? Block::Break : Block::Continue;
      expectEnd();
    } else {
      refuse("{% " + Word + " %} is not supported here");
    }
    return B;
  }

  void parseIf(Block &B) {
    B.TheKind = Block::If;
    B.Expression = parseTuple();
    expectEnd();
    B.Body = parseBody({"elif", "else", "endif"});
    if (takeName("elif")) {
      Deeper Guard(*this);
      auto Other = std::make_unique<Block>();
      Other->Line = peek().Line;
      parseIf(*Other);
      B.Else.push_back(std::move(Other));
      return;
    }
    if (takeName("else")) {
      expectEnd();
      B.Else = parseBody({"endif"});
    }
    endBlock("endif");
  }

  std::vector<std::string> parseTargets() {
    bool IsGrouped = takeOperator("(");
    std::vector<std::string> Targets = {expectName()};
    while (takeOperator(","))
      Targets.push_back(expectName());
    if (IsGrouped)
      expect(")");
    return Targets;
  }

  void parseFor(Block &B) {
    B.TheKind = Block::For;
    B.Targets = parseTargets();
    if (!takeName("in"))
      refuse("expected 'in'");
    B.Expression = parseOr();
    if (isOperator(",")) {
      B.Expression = add(make(JinjaNode::ListOf), std::move(B.Expression));
      while (takeOperator(","))
        adopt(*B.Expression, parseOr());
    }
    if (takeName("if"))
      B.Condition = parseExpression();
    if (isName("recursive"))
      refuse("a recursive loop is not supported");
    expectEnd();
    ++Loops;
    B.Body = parseBody({"else", "endfor"});
    --Loops;
    if (takeName("else")) {
      expectEnd();
      B.Else = parseBody({"endfor"});
    }
    endBlock("endfor");
  }

  void parseSet(Block &B) {
    B.TheKind = Block::Set;
    B.Targets = parseTargets();
    if (takeOperator(".")) {
      B.TheKind = Block::SetMember;
      B.Targets.push_back(expectName());
    }
    if (takeOperator("=")) {
      B.Expression = parseTuple();
      return expectEnd();
    }
    if (isOperator("|"))
      refuse("{% set %} with a filter is not supported");
    expectEnd();
    B.Body = parseBody({"endset"});
    endBlock("endset");
  }

  void parseMacro(Block &B) {
    B.TheKind = Block::Macro;
    B.Word = expectName();
    expect("(");
    while (!isOperator(")")) {
      B.Targets.push_back(expectName());
      B.Defaults.push_back(takeOperator("=") ? parseExpression() : nullptr);
      if (!takeOperator(","))
        break;
    }
    expect(")");
    expectEnd();
    int Outer = std::exchange(Loops, 0);
    B.Body = parseBody({"endmacro"});
    Loops = Outer;
    endBlock("endmacro");
  }

  void parseFilterBlock(Block &B) {
    B.TheKind = Block::FilterOf;
    B.Expression = parseFilter(makeConstant(JinjaValue("")));
    while (takeOperator("|"))
      B.Expression = parseFilter(std::move(B.Expression));
    expectEnd();
    B.Body = parseBody({"endfilter"});
    endBlock("endfilter");
  }

  //===-- Expressions -----------------------------------------------------===//

  NodePtr parseTuple() {
    NodePtr First = parseExpression();
    if (!isOperator(","))
      return First;
    NodePtr N = add(make(JinjaNode::ListOf), std::move(First));
    while (takeOperator(","))
      adopt(*N, parseExpression());
    return N;
  }

  NodePtr parseExpression() {
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

  NodePtr makeBinary(std::string Word, NodePtr A, NodePtr B) const {
    return add(add(make(JinjaNode::Binary, std::move(Word)), std::move(A)),
               std::move(B));
  }
  NodePtr parseOr() {
    NodePtr N = parseAnd();
    while (takeName("or"))
      N = makeBinary("or", std::move(N), parseAnd());
    return N;
  }
  NodePtr parseAnd() {
    NodePtr N = parseNot();
    while (takeName("and"))
      N = makeBinary("and", std::move(N), parseNot());
    return N;
  }
  NodePtr parseNot() {
    Deeper Guard(*this);
    if (takeName("not"))
      return add(make(JinjaNode::Unary, "not"), parseNot());
    return parseComparison();
  }

  NodePtr parseComparison() {
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

  NodePtr parseSum() {
    NodePtr N = parseConcatenation();
    while (isOperator("+") || isOperator("-")) {
      std::string Word = take().Word;
      N = makeBinary(Word, std::move(N), parseConcatenation());
    }
    return N;
  }
  NodePtr parseConcatenation() {
    NodePtr N = parseProduct();
    while (takeOperator("~"))
      N = makeBinary("~", std::move(N), parseProduct());
    return N;
  }
  NodePtr parseProduct() {
    NodePtr N = parsePower();
    while (isOperator("*") || isOperator("/") || isOperator("//") ||
           isOperator("%")) {
      std::string Word = take().Word;
      N = makeBinary(Word, std::move(N), parsePower());
    }
    return N;
  }
  NodePtr parsePower() {
    NodePtr N = parseUnary(true);
    if (isOperator("**"))
      refuse("'**' is not supported");
    return N;
  }
  NodePtr parseUnary(bool WithFilters) {
    Deeper Guard(*this);
    if (isOperator("-") || isOperator("+")) {
      std::string Word = take().Word;
      NodePtr N = add(make(JinjaNode::Unary, Word), parseUnary(false));
      return WithFilters ? parseFilters(std::move(N)) : std::move(N);
    }
    NodePtr N = parsePostfix(parsePrimary());
    return WithFilters ? parseFilters(std::move(N)) : std::move(N);
  }

  NodePtr parseNumber() {
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

  NodePtr parsePrimary() {
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
    if (takeOperator("(")) {
      if (takeOperator(")"))
        return make(JinjaNode::ListOf);
      NodePtr N = parseExpression();
      if (isOperator(",")) {
        N = add(make(JinjaNode::ListOf), std::move(N));
        while (takeOperator(",") && !isOperator(")"))
          adopt(*N, parseExpression());
      }
      expect(")");
      return N;
    }
    if (takeOperator("[")) {
      NodePtr N = make(JinjaNode::ListOf);
      while (!isOperator("]")) {
        adopt(*N, parseExpression());
        if (!takeOperator(","))
          break;
      }
      expect("]");
      return N;
    }
    if (takeOperator("{")) {
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
    refuse("an expression is expected, found '" + T.Word + "'");
  }

  NodePtr parsePostfix(NodePtr N) {
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

  NodePtr parseSubscript(NodePtr N) {
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

  void parseArguments(JinjaNode &N) {
    expect("(");
    while (!isOperator(")")) {
      if (isOperator("*") || isOperator("**"))
        refuse("lists of arguments are not supported");
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

  NodePtr parseFilter(NodePtr N) {
    NodePtr Result = make(JinjaNode::Filter, expectName());
    Result = add(std::move(Result), std::move(N));
    if (isOperator("("))
      parseArguments(*Result);
    return Result;
  }

  NodePtr parseFilters(NodePtr N) {
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
  /// Whether a test is followed by an argument without brackets.
  bool takesArgument() const {
    const Token &T = peek();
    if (T.TheKind == Token::Name)
      return T.Word != "else" && T.Word != "or" && T.Word != "and" &&
             T.Word != "is" && T.Word != "if" && T.Word != "in" &&
             T.Word != "not" && T.Word != "recursive";
    return T.TheKind == Token::Literal || T.TheKind == Token::Integer ||
           T.TheKind == Token::Float ||
           (T.TheKind == Token::Operator && (T.Word == "[" || T.Word == "{"));
  }

  std::vector<Token> Tokens;
  size_t Pos = 0;
  int Depth = 0, Loops = 0;
};

} // namespace

std::unique_ptr<Block> jinja::parse(std::vector<Token> Tokens) {
  return Parser(std::move(Tokens)).run();
}
