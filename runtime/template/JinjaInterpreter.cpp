//===- JinjaInterpreter.cpp - Running statements of chat templates --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/JinjaInterpreter.h"
#include "template/JinjaCalls.h"

#include <algorithm>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

const JinjaValue *Scope::find(const std::string &Name) const {
  for (const Scope *S = this; S; S = S->Outer)
    for (const auto &[Each, Content] : S->Names)
      if (Each == Name)
        return &Content;
  return nullptr;
}

Interpreter::Interpreter(const Entries &Variables, std::time_t Date)
    : Root(nullptr), Date(Date) {
  addFunctions();
  for (const auto &[Name, Content] : Variables)
    Root.set(Name, Content);
  const JinjaValue *All = Root.find("messages");
  if (All && All->is(JinjaValue::Sequence))
    for (const JinjaValue &Each : All->list())
      Messages.emplace(Each.identity(), Messages.size());
}

/// A namespace may hold itself.
Interpreter::~Interpreter() {
  for (const JinjaValue &Each : Spaces)
    Each.changeMembers().clear();
}

Template::Result Interpreter::run(const Block &Body) {
  runBody(Body.Body, Root, Output.Text);
  return std::move(Output);
}

void Interpreter::write(std::string &Out, const std::string &Text) {
  Limits.bytes(Text.size());
  Out += Text;
}

Interpreter::Flow
Interpreter::runBody(const std::vector<std::unique_ptr<Block>> &Body, Scope &S,
                     std::string &Out) {
  for (const auto &Each : Body)
    if (Flow F = runBlock(*Each, S, Out); F != Flow::On)
      return F;
  return Flow::On;
}

std::string Interpreter::runText(const Block &B, Scope &S) {
  std::string Text;
  InnerScope Inner(*this, S);
  runBody(B.Body, *Inner, Text);
  return Text;
}

Interpreter::Flow Interpreter::runBlock(const Block &B, Scope &S,
                                        std::string &Out) {
  Limits.step();
  return at(B.Line, [&] {
    Budget::Deeper Guard(Limits);
    switch (B.TheKind) {
    case Block::Sequence:
      return runBody(B.Body, S, Out);
    case Block::Generation:
      return runGeneration(B, S, Out);
    case Block::Text:
      write(Out, B.Word);
      break;
    case Block::Print:
      write(Out, evaluate(*B.Expression, S).print(Limits));
      break;
    case Block::If:
      return runBody(evaluate(*B.Expression, S).isTrue() ? B.Body : B.Else, S,
                     Out);
    case Block::For:
      return runLoop(B, S, Out);
    case Block::Set:
      set(B, evaluate(*B.Expression, S), S);
      break;
    case Block::SetText: {
      JinjaValue Text = runText(B, S);
      set(B, B.Expression ? filterText(*B.Expression, Text.string(), S) : Text,
          S);
      break;
    }
    case Block::Macro:
      S.set(B.Word, makeMacro(B, S));
      break;
    case Block::FilterOf:
      write(Out, filterText(*B.Expression, runText(B, S), S).print(Limits));
      break;
    case Block::CallOf:
      callWithBody(B, S, Out);
      break;
    case Block::With: {
      InnerScope Inner(*this, S);
      for (size_t I = 0; I < B.Targets.size(); ++I)
        Inner->set(B.Targets[I], evaluate(*B.Defaults[I], S));
      return runBody(B.Body, *Inner, Out);
    }
    case Block::Break:
      return Flow::Break;
    case Block::Continue:
      return Flow::Continue;
    }
    return Flow::On;
  });
}

Interpreter::Flow Interpreter::runGeneration(const Block &B, Scope &S,
                                             std::string &Out) {
  if (&Out != &Output.Text)
    fail("{% generation %} inside a macro, a filter or {% set %} is not "
         "supported");
  size_t Begin = Out.size();
  InnerScope Inner(*this, S);
  Flow F = runBody(B.Body, *Inner, Out);
  Output.Generated.emplace_back(Begin, Out.size());
  return F;
}

//===-- Names -------------------------------------------------------------===//

void Interpreter::set(const Block &B, JinjaValue Content, Scope &S) {
  if (B.Word.empty())
    return assign(B, Content, S);
  const JinjaValue *Target = S.find(B.Targets[0]);
  if (!Target || !Target->is(JinjaValue::Namespace))
    fail("'", B.Targets[0], "' is no namespace");
  addMember(Target->changeMembers(), B.Word, std::move(Content));
}

void Interpreter::assign(const Block &B, const JinjaValue &Content, Scope &S) {
  const std::vector<std::string> &Targets = B.Targets;
  if (Targets.size() == 1)
    return S.set(Targets[0], Content);
  List Parts = Content.iterate(Limits);
  if (Parts.size() != Targets.size())
    fail("there are ", Parts.size(), " values for ", Targets.size(), " names");
  for (size_t I = 0; I < Parts.size(); ++I)
    S.set(Targets[I], Parts[I]);
}

//===-- Loops -------------------------------------------------------------===//

JinjaValue Interpreter::makeLoop(const List &Items, size_t I) {
  auto Number = static_cast<int64_t>(I),
       Count = static_cast<int64_t>(Items.size());
  Entries Loop = {{"index", Number + 1},
                  {"index0", Number},
                  {"revindex", Count - Number},
                  {"revindex0", Count - Number - 1},
                  {"first", I == 0},
                  {"last", I + 1 == Items.size()},
                  {"length", Count},
                  {"depth", int64_t(1)},
                  {"depth0", int64_t(0)}};
  Loop.emplace_back("previtem",
                    I ? Items[I - 1] : JinjaValue::undefined("loop.previtem"));
  Loop.emplace_back("nextitem", I + 1 < Items.size()
                                    ? Items[I + 1]
                                    : JinjaValue::undefined("loop.nextitem"));
  Loop.emplace_back("cycle", Function([I](const Arguments &Args) {
                      if (Args.Places.empty())
                        fail("cycle needs values");
                      return Args.Places[I % Args.Places.size()];
                    }));
  return JinjaValue(std::move(Loop));
}

Interpreter::Flow Interpreter::runLoop(const Block &B, Scope &S,
                                       std::string &Out) {
  List Items = evaluate(*B.Expression, S).iterate(Limits);
  if (B.Condition) {
    List Kept;
    for (JinjaValue &Item : Items) {
      InnerScope Inner(*this, S);
      assign(B, Item, *Inner);
      if (evaluate(*B.Condition, *Inner).isTrue())
        Kept.push_back(std::move(Item));
    }
    Items.swap(Kept);
  }
  if (Items.empty()) {
    InnerScope Inner(*this, S);
    return runBody(B.Else, *Inner, Out);
  }
  for (size_t I = 0; I < Items.size(); ++I) {
    Limits.step();
    InnerScope Inner(*this, S);
    Inner->set("loop", makeLoop(Items, I));
    assign(B, Items[I], *Inner);
    size_t Begin = Out.size();
    bool IsNumber = Items[I].is(JinjaValue::Integer);
    Index Outer = Innermost;
    if (IsNumber)
      Innermost = {B.Targets[0], nullptr};
    Flow F = runBody(B.Body, *Inner, Out);
    noteTurn(IsNumber ? Innermost.Message : Items[I].identity(), Begin, Out);
    Innermost = std::move(Outer);
    if (F == Flow::Break)
      break;
  }
  return Flow::On;
}

void Interpreter::noteTurn(const void *Message, size_t Begin,
                           const std::string &Out) {
  auto Found = Messages.find(Message);
  if (Found != Messages.end() && &Out == &Output.Text && Begin < Out.size())
    Output.Turns.push_back({Found->second, Begin, Out.size()});
}

//===-- Macros ------------------------------------------------------------===//

JinjaValue Interpreter::makeMacro(const Block &B, Scope &S) {
  for (Scope *Each = &S; Each; Each = Each->Outer)
    Each->IsCaptured = true;
  return Function([this, &B, &S](const Arguments &Args) {
    return JinjaValue(callMacro(B, S, Args));
  });
}

std::string Interpreter::callMacro(const Block &B, Scope &S,
                                   const Arguments &Args) {
  Budget::Deeper Guard(Limits);
  if (Args.Places.size() > B.Targets.size())
    fail("the macro '", B.Word, "' has ", B.Targets.size(), " parameters");
  InnerScope Inner(*this, S);
  for (size_t I = 0; I < B.Targets.size(); ++I) {
    const std::string &Name = B.Targets[I];
    if (const JinjaValue *Given = findArgument(Args, I, Name))
      Inner->set(Name, *Given);
    else
      Inner->set(Name, B.Defaults[I] ? evaluate(*B.Defaults[I], *Inner)
                                     : JinjaValue::undefined(Name));
  }
  for (const auto &[Name, Content] : Args.Names) {
    bool IsKnown =
        std::find(B.Targets.begin(), B.Targets.end(), Name) != B.Targets.end();
    if (!IsKnown && Name != "caller")
      fail("the macro '", B.Word, "' has no parameter '", Name, "'");
    if (!IsKnown)
      Inner->set(Name, Content);
  }
  std::string Text;
  runBody(B.Body, *Inner, Text);
  return Text;
}

void Interpreter::callWithBody(const Block &B, Scope &S, std::string &Out) {
  JinjaValue Caller = makeMacro(B, S);
  write(Out, call(*B.Expression, S, &Caller).print(Limits));
}

JinjaValue Interpreter::filterText(const JinjaNode &N, const std::string &Text,
                                   Scope &S) {
  if (N.TheKind == JinjaNode::Constant)
    return Text;
  Arguments Args = getArguments(N, 1, S);
  Args.Places.insert(Args.Places.begin(), filterText(*N.Children[0], Text, S));
  return applyFilter(N.Word, Args, Limits);
}

//===-- Templates ---------------------------------------------------------===//

Template::Template(const std::string &Source) : Root(parse(tokenize(Source))) {}
Template::~Template() = default;

Template::Result Template::render(const Entries &Variables,
                                  std::time_t Date) const {
  return Interpreter(Variables, Date).run(*Root);
}
