//===- JinjaParser.cpp - Statements of chat templates ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/JinjaParser.h"
#include "support/Error.h"

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

namespace {

class Parser : public ExpressionParser {
public:
  using ExpressionParser::ExpressionParser;

  BlockPtr run() {
    auto Root = std::make_unique<Block>();
    Root->Body = parseBody({});
    return Root;
  }

private:
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
    else if (Word == "call")
      parseCall(*B);
    else if (Word == "with")
      parseWith(*B);
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
    B.Expression = parseTuple(/*WithConditions=*/false);
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
    B.Targets = parseTargets();
    if (takeOperator("."))
      B.Word = expectName();
    if (takeOperator("=")) {
      B.TheKind = Block::Set;
      B.Expression = parseTuple();
      return expectEnd();
    }
    B.TheKind = Block::SetText;
    if (takeOperator("|"))
      B.Expression = parseTextFilters();
    expectEnd();
    B.Body = parseBody({"endset"});
    endBlock("endset");
  }

  /// (names with defaults).
  void parseParameters(Block &B) {
    expect("(");
    while (!isOperator(")")) {
      B.Targets.push_back(expectName());
      B.Defaults.push_back(takeOperator("=") ? parseExpression() : nullptr);
      if (!takeOperator(","))
        break;
    }
    expect(")");
  }

  /// A body that a function runs: no break leaves it.
  void parseFunctionBody(Block &B, std::string_view End) {
    expectEnd();
    int Outer = std::exchange(Loops, 0);
    B.Body = parseBody({End});
    Loops = Outer;
    endBlock(End);
  }

  void parseMacro(Block &B) {
    B.TheKind = Block::Macro;
    B.Word = expectName();
    parseParameters(B);
    parseFunctionBody(B, "endmacro");
  }

  void parseCall(Block &B) {
    B.TheKind = Block::CallOf;
    B.Word = "caller";
    if (isOperator("("))
      parseParameters(B);
    B.Expression = parsePostfix(parsePrimary());
    if (B.Expression->TheKind != JinjaNode::Call)
      refuse("expected a call");
    parseFunctionBody(B, "endcall");
  }

  void parseWith(Block &B) {
    B.TheKind = Block::With;
    while (peek().TheKind != Token::End) {
      B.Targets.push_back(expectName());
      expect("=");
      B.Defaults.push_back(parseExpression());
      if (!takeOperator(","))
        break;
    }
    expectEnd();
    B.Body = parseBody({"endwith"});
    endBlock("endwith");
  }

  /// Filters of a text, which an empty constant stands for.
  NodePtr parseTextFilters() {
    NodePtr N = parseFilter(makeConstant(JinjaValue("")));
    while (takeOperator("|"))
      N = parseFilter(std::move(N));
    return N;
  }

  void parseFilterBlock(Block &B) {
    B.TheKind = Block::FilterOf;
    B.Expression = parseTextFilters();
    expectEnd();
    B.Body = parseBody({"endfilter"});
    endBlock("endfilter");
  }

  /// Loops around the statement.
  int Loops = 0;
};

} // namespace

std::unique_ptr<Block> jinja::parse(std::vector<Token> Tokens) {
  return Parser(std::move(Tokens)).run();
}
