//===- JinjaExpressions.cpp - Values of expressions of chat templates -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/JinjaCalls.h"
#include "template/JinjaInterpreter.h"

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

JinjaValue Interpreter::evaluate(const JinjaNode &N, Scope &S) {
  Limits.step();
  Budget::Deeper Guard(Limits);
  switch (N.TheKind) {
  case JinjaNode::Constant:
    return N.Content;
  case JinjaNode::Name:
    if (const JinjaValue *Found = S.find(N.Word))
      return *Found;
    return JinjaValue::undefined(N.Word);
  case JinjaNode::ListOf:
    return evaluateAll(N, S);
  case JinjaNode::TupleOf:
    return JinjaValue::tuple(evaluateAll(N, S));
  case JinjaNode::DictOf:
    return makeDictionary(N, S);
  case JinjaNode::Member: {
    JinjaValue Object = evaluate(*N.Children[0], S);
    return at(N.Line, [&] { return getItem(Object, N.Word, true, Limits); });
  }
  case JinjaNode::Item: {
    JinjaValue Object = evaluate(*N.Children[0], S),
               Key = evaluate(*N.Children[1], S);
    JinjaValue Item =
        at(N.Line, [&] { return getItem(Object, Key, false, Limits); });
    if (!Innermost.Message && N.Children[1]->TheKind == JinjaNode::Name &&
        N.Children[1]->Word == Innermost.Variable &&
        Messages.count(Item.identity()))
      Innermost.Message = Item.identity();
    return Item;
  }
  case JinjaNode::Slice:
    return takeSlice(N, S);
  case JinjaNode::Call:
    return call(N, S, nullptr);
  case JinjaNode::Spread: // read by getArguments
    break;
  case JinjaNode::Filter: {
    Arguments Args = getArguments(N, 0, S);
    return at(N.Line, [&] { return applyFilter(N.Word, Args, Limits); });
  }
  case JinjaNode::Test: {
    Arguments Args = getArguments(N, 0, S);
    return at(N.Line, [&] { return applyTest(N.Word, Args, Limits); });
  }
  case JinjaNode::Unary:
    return applyUnary(N, S);
  case JinjaNode::Binary:
    return combine(N, S);
  case JinjaNode::Compare:
    return compareAll(N, S);
  case JinjaNode::Conditional:
    if (evaluate(*N.Children[0], S).isTrue())
      return evaluate(*N.Children[1], S);
    return N.Children[2] ? evaluate(*N.Children[2], S)
                         : JinjaValue::undefined("the other case");
  }
  return JinjaValue();
}

List Interpreter::evaluateAll(const JinjaNode &N, Scope &S) {
  List Elements;
  for (const auto &Each : N.Children)
    Elements.push_back(evaluate(*Each, S));
  return Elements;
}

Arguments Interpreter::getArguments(const JinjaNode &N, size_t First,
                                    Scope &S) {
  Arguments Args;
  size_t Named = N.Children.size() - N.Names.size();
  for (size_t I = First; I < N.Children.size(); ++I) {
    const JinjaNode &Child = *N.Children[I];
    if (Child.TheKind == JinjaNode::Spread) {
      spread(Child, S, Args);
      continue;
    }
    JinjaValue Content = evaluate(Child, S);
    if (I < Named)
      Args.Places.push_back(std::move(Content));
    else
      Args.Names.emplace_back(N.Names[I - Named], std::move(Content));
  }
  return Args;
}

void Interpreter::spread(const JinjaNode &N, Scope &S, Arguments &Args) {
  JinjaValue All = evaluate(*N.Children[0], S);
  if (N.Word == "*") {
    List Items = at(N.Line, [&] { return All.iterate(Limits); });
    Args.Places.insert(Args.Places.end(), Items.begin(), Items.end());
    return;
  }
  if (!All.is(JinjaValue::Mapping))
    refuse(N.Line, "a " + std::string(All.typeName()) + " is no dict");
  Args.Names.insert(Args.Names.end(), All.members().begin(),
                    All.members().end());
}

JinjaValue Interpreter::makeDictionary(const JinjaNode &N, Scope &S) {
  Entries Members;
  for (size_t I = 0; I < N.Children.size(); I += 2) {
    JinjaValue Key = evaluate(*N.Children[I], S),
               Content = evaluate(*N.Children[I + 1], S);
    addMember(Members, at(N.Line, [&] { return Key.toKey(); }),
              std::move(Content));
  }
  return JinjaValue(std::move(Members));
}

JinjaValue Interpreter::takeSlice(const JinjaNode &N, Scope &S) {
  JinjaValue Object = evaluate(*N.Children[0], S), Bounds[3];
  for (size_t I = 0; I < 3; ++I)
    Bounds[I] = N.Children[I + 1] ? evaluate(*N.Children[I + 1], S)
                                  : JinjaValue::none();
  return at(N.Line, [&] { return slice(Object, Bounds, Limits); });
}

JinjaValue Interpreter::call(const JinjaNode &N, Scope &S,
                             const JinjaValue *Caller) {
  JinjaValue Callee = evaluate(*N.Children[0], S);
  if (!Callee.is(JinjaValue::Callable))
    refuse(N.Line,
           Callee.is(JinjaValue::Undefined)
               ? "'" + Callee.name() + "' is undefined"
               : "a " + std::string(Callee.typeName()) + " cannot be called");
  Arguments Args = getArguments(N, 1, S);
  if (Caller)
    Args.Names.emplace_back("caller", *Caller);
  return at(N.Line, [&] { return Callee.function()(Args); });
}

JinjaValue Interpreter::applyUnary(const JinjaNode &N, Scope &S) {
  JinjaValue Content = evaluate(*N.Children[0], S);
  if (N.Word == "not")
    return !Content.isTrue();
  if (!Content.isNumber())
    refuse(N.Line, "a " + std::string(Content.typeName()) + " has no sign");
  return at(N.Line,
            [&] { return calculate(N.Word, int64_t(0), Content, Limits); });
}

JinjaValue Interpreter::combine(const JinjaNode &N, Scope &S) {
  JinjaValue A = evaluate(*N.Children[0], S);
  if (N.Word == "and" || N.Word == "or")
    return A.isTrue() == (N.Word == "or") ? A : evaluate(*N.Children[1], S);
  JinjaValue B = evaluate(*N.Children[1], S);
  return at(N.Line, [&] { return calculate(N.Word, A, B, Limits); });
}

JinjaValue Interpreter::compareAll(const JinjaNode &N, Scope &S) {
  JinjaValue Left = evaluate(*N.Children[0], S);
  for (size_t I = 0; I < N.Words.size(); ++I) {
    JinjaValue Right = evaluate(*N.Children[I + 1], S);
    if (!at(N.Line, [&] { return holds(N.Words[I], Left, Right, Limits); }))
      return false;
    Left = std::move(Right);
  }
  return true;
}
