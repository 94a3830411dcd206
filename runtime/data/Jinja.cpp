//===- Jinja.cpp - Running a chat template --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Jinja.h"
#include "data/JinjaTree.h"
#include "support/Error.h"

#include <algorithm>
#include <ctime>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

namespace {

/// Names of a template, a loop or a macro. A loop sees those around it, and
/// what it sets is gone behind it.
struct Scope {
  explicit Scope(Scope *Outer) : Outer(Outer) {}
  const JinjaValue *find(const std::string &Name) const {
    for (const Scope *S = this; S; S = S->Outer)
      for (const auto &[Each, Content] : S->Names)
        if (Each == Name)
          return &Content;
    return nullptr;
  }
  void set(const std::string &Name, JinjaValue Content) {
    for (auto &[Each, Old] : Names)
      if (Each == Name) {
        Old = std::move(Content);
        return;
      }
    Names.emplace_back(Name, std::move(Content));
  }
  Scope *Outer;
  Entries Names;
};

class Interpreter {
public:
  Interpreter(const Entries &Variables, std::time_t Date)
      : Root(nullptr), Date(Date) {
    Limits.reset();
    Root.Names = Variables;
    addFunctions();
  }

  /// A namespace may hold itself.
  ~Interpreter() {
    for (const JinjaValue &Each : Spaces)
      Each.changeMembers().clear();
  }

  Template::Result run(const Block &Body) {
    runBody(Body.Body, Root, Output.Text);
    return std::move(Output);
  }

private:
  enum class Flow { On, Break, Continue };
  static constexpr int MaxDepth = 1000;
  /// Counts how deep the C++ stack is.
  struct Deeper {
    Deeper(int &Depth, int Line) : Depth(Depth) {
      if (++Depth > MaxDepth)
        refuse(Line, "calls and blocks are nested too deeply");
    }
    ~Deeper() { --Depth; }
    int &Depth;
  };

  void addFunctions();
  [[noreturn]] static void refuse(int Line, const std::string &What) {
    fail("line ", Line, ": ", What);
  }

  //===-- Statements ------------------------------------------------------===//

  void write(std::string &Out, const std::string &Text) {
    Limits.bytes(Text.size());
    Out += Text;
  }

  Flow runBody(const std::vector<std::unique_ptr<Block>> &Body, Scope &S,
               std::string &Out) {
    for (const auto &Each : Body)
      if (Flow F = runBlock(*Each, S, Out); F != Flow::On)
        return F;
    return Flow::On;
  }

  Flow runBlock(const Block &B, Scope &S, std::string &Out) {
    Limits.step();
    Deeper Guard(Depth, B.Line);
    switch (B.TheKind) {
    case Block::Sequence:
      return runBody(B.Body, S, Out);
    case Block::Generation: {
      size_t Begin = Out.size();
      Flow F = runBody(B.Body, S, Out);
      if (&Out == &Output.Text)
        Output.Generated.emplace_back(Begin, Out.size());
      return F;
    }
    case Block::Text:
      write(Out, B.Word);
      return Flow::On;
    case Block::Print:
      write(Out, evaluate(*B.Expression, S).print());
      return Flow::On;
    case Block::If:
      return runBody(evaluate(*B.Expression, S).isTrue() ? B.Body : B.Else, S,
                     Out);
    case Block::For:
      return runLoop(B, S, Out);
    case Block::Set:
      assign(B, B.Targets, runSet(B, S), S);
      return Flow::On;
    case Block::SetMember:
      setMember(B, S);
      return Flow::On;
    case Block::Macro:
      defineMacro(B, S);
      return Flow::On;
    case Block::FilterOf: {
      std::string Text;
      Scope Inner(&S);
      runBody(B.Body, Inner, Text);
      write(Out, filterText(*B.Expression, Text, S).print());
      return Flow::On;
    }
    case Block::Break:
      return Flow::Break;
    case Block::Continue:
      return Flow::Continue;
    }
    return Flow::On;
  }

  JinjaValue runSet(const Block &B, Scope &S) {
    if (B.Expression)
      return evaluate(*B.Expression, S);
    std::string Text;
    Scope Inner(&S);
    runBody(B.Body, Inner, Text);
    return Text;
  }

  void assign(const Block &B, const std::vector<std::string> &Targets,
              const JinjaValue &Content, Scope &S) {
    if (Targets.size() == 1)
      return S.set(Targets[0], Content);
    List Parts = at(B.Line, [&] { return Content.iterate(); });
    if (Parts.size() != Targets.size())
      refuse(B.Line, "there are " + std::to_string(Parts.size()) +
                         " values for " + std::to_string(Targets.size()) +
                         " names");
    for (size_t I = 0; I < Parts.size(); ++I)
      S.set(Targets[I], Parts[I]);
  }

  void setMember(const Block &B, Scope &S) {
    const JinjaValue *Target = S.find(B.Targets[0]);
    if (!Target || !Target->is(JinjaValue::Namespace))
      refuse(B.Line, "'" + B.Targets[0] + "' is no namespace");
    JinjaValue Space = *Target, Content = runSet(B, S);
    for (auto &[Key, Old] : Space.changeMembers())
      if (Key == B.Targets[1]) {
        Old = std::move(Content);
        return;
      }
    Space.changeMembers().emplace_back(B.Targets[1], std::move(Content));
  }

  JinjaValue makeLoop(const List &Items, size_t I) {
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
    Loop.emplace_back("previtem", I ? Items[I - 1]
                                    : JinjaValue::undefined("loop.previtem"));
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

  Flow runLoop(const Block &B, Scope &S, std::string &Out) {
    JinjaValue Over = evaluate(*B.Expression, S);
    List Items = at(B.Line, [&] { return Over.iterate(); });
    if (B.Condition) {
      List Kept;
      for (JinjaValue &Item : Items) {
        Scope Inner(&S);
        assign(B, B.Targets, Item, Inner);
        if (evaluate(*B.Condition, Inner).isTrue())
          Kept.push_back(std::move(Item));
      }
      Items.swap(Kept);
    }
    if (Items.empty())
      return runBody(B.Else, S, Out);
    for (size_t I = 0; I < Items.size(); ++I) {
      Limits.step();
      Scope Inner(&S);
      assign(B, B.Targets, Items[I], Inner);
      Inner.set("loop", makeLoop(Items, I));
      if (runBody(B.Body, Inner, Out) == Flow::Break)
        break;
    }
    return Flow::On;
  }

  void defineMacro(const Block &B, Scope &S) {
    S.set(B.Word, Function([this, &B](const Arguments &Args) {
            if (Args.Places.size() > B.Targets.size())
              refuse(B.Line, "the macro '" + B.Word + "' has " +
                                 std::to_string(B.Targets.size()) +
                                 " parameters");
            Scope Inner(&Root);
            for (size_t I = 0; I < B.Targets.size(); ++I)
              Inner.set(B.Targets[I], getArgument(B, Args, I, Inner));
            std::string Text;
            runBody(B.Body, Inner, Text);
            return JinjaValue(std::move(Text));
          }));
  }
  JinjaValue getArgument(const Block &B, const Arguments &Args, size_t I,
                         Scope &Inner) {
    if (I < Args.Places.size())
      return Args.Places[I];
    for (const auto &[Name, Content] : Args.Names)
      if (Name == B.Targets[I])
        return Content;
    return B.Defaults[I] ? evaluate(*B.Defaults[I], Inner)
                         : JinjaValue::undefined(B.Targets[I]);
  }

  /// The text of a {% filter %}, in the place of the innermost constant.
  JinjaValue filterText(const JinjaNode &N, const std::string &Text, Scope &S) {
    if (N.TheKind == JinjaNode::Constant)
      return Text;
    Arguments Args = getArguments(N, 1, S);
    Args.Places.insert(Args.Places.begin(),
                       filterText(*N.Children[0], Text, S));
    return at(N.Line, [&] { return applyFilter(N.Word, Args, Limits); });
  }

  //===-- Expressions -----------------------------------------------------===//

  /// Does what may fail, and says on which line.
  template <typename Callback>
  static auto at(int Line, const Callback &Do) -> decltype(Do()) {
    try {
      return Do();
    } catch (const Error &E) {
      if (std::string_view(E.what()).substr(0, 5) == "line ")
        throw;
      refuse(Line, E.what());
    }
  }

  Arguments getArguments(const JinjaNode &N, size_t First, Scope &S) {
    Arguments Args;
    size_t Named = N.Children.size() - N.Names.size();
    for (size_t I = First; I < N.Children.size(); ++I) {
      JinjaValue Content = evaluate(*N.Children[I], S);
      if (I < Named)
        Args.Places.push_back(std::move(Content));
      else
        Args.Names.emplace_back(N.Names[I - Named], std::move(Content));
    }
    return Args;
  }

  JinjaValue evaluate(const JinjaNode &N, Scope &S) {
    Limits.step();
    Deeper Guard(Depth, N.Line);
    switch (N.TheKind) {
    case JinjaNode::Constant:
      return N.Content;
    case JinjaNode::Name:
      if (const JinjaValue *Found = S.find(N.Word))
        return *Found;
      return JinjaValue::undefined(N.Word);
    case JinjaNode::ListOf: {
      List Elements;
      for (const auto &Each : N.Children)
        Elements.push_back(evaluate(*Each, S));
      return Elements;
    }
    case JinjaNode::DictOf:
      return makeDictionary(N, S);
    case JinjaNode::Member: {
      JinjaValue Object = evaluate(*N.Children[0], S);
      return at(N.Line, [&] { return getMember(Object, N.Word, true); });
    }
    case JinjaNode::Item: {
      JinjaValue Object = evaluate(*N.Children[0], S),
                 Key = evaluate(*N.Children[1], S);
      return at(N.Line, [&] { return getItem(Object, Key); });
    }
    case JinjaNode::Slice:
      return slice(N, S);
    case JinjaNode::Call: {
      JinjaValue Callee = evaluate(*N.Children[0], S);
      if (!Callee.is(JinjaValue::Callable))
        refuse(N.Line, Callee.is(JinjaValue::Undefined)
                           ? "'" + Callee.name() + "' is undefined"
                           : "a " + std::string(Callee.typeName()) +
                                 " cannot be called");
      Arguments Args = getArguments(N, 1, S);
      return at(N.Line, [&] { return Callee.function()(Args); });
    }
    case JinjaNode::Filter: {
      Arguments Args = getArguments(N, 0, S);
      return at(N.Line, [&] { return applyFilter(N.Word, Args, Limits); });
    }
    case JinjaNode::Test: {
      Arguments Args = getArguments(N, 0, S);
      return at(N.Line, [&] { return JinjaValue(applyTest(N.Word, Args)); });
    }
    case JinjaNode::Unary: {
      JinjaValue Content = evaluate(*N.Children[0], S);
      if (N.Word == "not")
        return !Content.isTrue();
      if (!Content.isNumber())
        refuse(N.Line, "a " + std::string(Content.typeName()) + " has no sign");
      int64_t Sign = N.Word == "-" ? -1 : 1;
      return Content.is(JinjaValue::Float)
                 ? JinjaValue(static_cast<double>(Sign) * Content.real())
                 : JinjaValue(Sign * Content.integer());
    }
    case JinjaNode::Binary:
      return combine(N, S);
    case JinjaNode::Compare:
      return compareAll(N, S);
    case JinjaNode::Conditional:
      if (evaluate(*N.Children[0], S).isTrue())
        return evaluate(*N.Children[1], S);
      return N.Children[2] ? evaluate(*N.Children[2], S)
                           : JinjaValue::undefined("");
    }
    return JinjaValue();
  }

  JinjaValue makeDictionary(const JinjaNode &N, Scope &S) {
    Entries Members;
    for (size_t I = 0; I < N.Children.size(); I += 2) {
      JinjaValue Key = evaluate(*N.Children[I], S),
                 Content = evaluate(*N.Children[I + 1], S);
      if (!Key.is(JinjaValue::String))
        refuse(N.Line, "keys that are no strings are not supported");
      Members.emplace_back(Key.string(), std::move(Content));
    }
    return JinjaValue(std::move(Members));
  }

  /// `Object.Name`, which looks for methods first, or `Object['Name']`.
  JinjaValue getMember(const JinjaValue &Object, const std::string &Name,
                       bool IsDot) {
    if (Object.is(JinjaValue::Undefined))
      fail("'", Object.name(), "' is undefined");
    if (IsDot)
      if (JinjaValue Method = findMethod(Object, Name, Limits);
          Method.is(JinjaValue::Callable))
        return Method;
    if (Object.isDictionary())
      if (const JinjaValue *Found = Object.find(Name))
        return *Found;
    if (!IsDot)
      if (JinjaValue Method = findMethod(Object, Name, Limits);
          Method.is(JinjaValue::Callable))
        return Method;
    return JinjaValue::undefined(std::string(Object.typeName()) + "." + Name);
  }

  JinjaValue getItem(const JinjaValue &Object, const JinjaValue &Key) {
    if (Key.is(JinjaValue::String))
      return getMember(Object, Key.string(), false);
    if (Object.is(JinjaValue::Undefined))
      fail("'", Object.name(), "' is undefined");
    if (!Key.isWhole())
      return JinjaValue::undefined("item");
    if (!Object.is(JinjaValue::Sequence) && !Object.is(JinjaValue::String))
      return JinjaValue::undefined("item");
    List Items = Object.is(JinjaValue::Sequence) ? List() : Object.iterate();
    const List &All = Object.is(JinjaValue::Sequence) ? Object.list() : Items;
    int64_t Index = Key.integer(), Count = static_cast<int64_t>(All.size());
    Index += Index < 0 ? Count : 0;
    if (Index < 0 || Index >= Count)
      return JinjaValue::undefined("item " + std::to_string(Key.integer()));
    return All[static_cast<size_t>(Index)];
  }

  JinjaValue slice(const JinjaNode &N, Scope &S) {
    JinjaValue Object = evaluate(*N.Children[0], S);
    if (!Object.is(JinjaValue::Sequence) && !Object.is(JinjaValue::String))
      refuse(N.Line,
             "a " + std::string(Object.typeName()) + " has no parts to take");
    auto Get = [&](size_t Which, int64_t Default) {
      if (!N.Children[Which])
        return Default;
      JinjaValue Content = evaluate(*N.Children[Which], S);
      if (Content.is(JinjaValue::None))
        return Default;
      if (!Content.isWhole())
        refuse(N.Line, "a slice needs whole numbers");
      return Content.integer();
    };
    List Items = Object.iterate();
    auto Count = static_cast<int64_t>(Items.size());
    int64_t Step = Get(3, 1);
    if (Step == 0)
      refuse(N.Line, "the step of a slice is 0");
    auto Clamp = [&](int64_t At) {
      At = At < 0 ? std::max(At, -Count - 1) + Count : At;
      return Step > 0 ? std::clamp<int64_t>(At, 0, Count)
                      : std::clamp<int64_t>(At, -1, Count - 1);
    };
    int64_t Begin = N.Children[1] ? Clamp(Get(1, 0)) : Step > 0 ? 0 : Count - 1;
    int64_t End = N.Children[2] ? Clamp(Get(2, 0)) : Step > 0 ? Count : -1;
    List Kept;
    for (int64_t I = Begin; Step > 0 ? I < End : I > End;) {
      Limits.step();
      Kept.push_back(Items[static_cast<size_t>(I)]);
      if (Step > 0 ? Step >= End - I : Step <= End - I)
        break;
      I += Step;
    }
    if (Object.is(JinjaValue::Sequence))
      return Kept;
    std::string Text;
    for (const JinjaValue &Each : Kept)
      Text += Each.string();
    return Text;
  }

  JinjaValue combine(const JinjaNode &N, Scope &S) {
    JinjaValue A = evaluate(*N.Children[0], S);
    if (N.Word == "and" || N.Word == "or")
      return A.isTrue() == (N.Word == "or") ? A : evaluate(*N.Children[1], S);
    JinjaValue B = evaluate(*N.Children[1], S);
    return at(N.Line, [&] { return calculate(N.Word, A, B); });
  }

  JinjaValue joinTexts(std::string A, const std::string &B) {
    Limits.bytes(A.size() + B.size());
    return A += B;
  }

  JinjaValue calculate(const std::string &Word, const JinjaValue &A,
                       const JinjaValue &B) {
    if (Word == "~")
      return joinTexts(A.print(), B.print());
    if (Word == "+" && A.is(JinjaValue::String) && B.is(JinjaValue::String))
      return joinTexts(A.string(), B.string());
    if (Word == "+" && A.is(JinjaValue::Sequence) &&
        B.is(JinjaValue::Sequence)) {
      List All = A.list();
      All.insert(All.end(), B.list().begin(), B.list().end());
      Limits.bytes(All.size() * sizeof(JinjaValue));
      return All;
    }
    if (Word == "*" && A.is(JinjaValue::String) && B.isWhole()) {
      std::string Text;
      for (int64_t I = 0; I < B.integer(); ++I) {
        Limits.step();
        Limits.bytes(A.string().size());
        Text += A.string();
      }
      return Text;
    }
    if (!A.isNumber() || !B.isNumber())
      fail("'", Word, "' of a ", A.typeName(), " and a ", B.typeName(),
           " is not possible");
    if (A.isWhole() && B.isWhole() && Word != "/")
      return calculateWhole(Word, A.integer(), B.integer());
    double X = A.real(), Y = B.real();
    if (Word == "+" || Word == "-")
      return Word == "+" ? X + Y : X - Y;
    if (Word == "*")
      return X * Y;
    if (Word == "/" && Y != 0)
      return X / Y;
    fail("'", Word, "' of ", A.print(), " and ", B.print(),
         " is not supported");
  }

  static JinjaValue calculateWhole(const std::string &Word, int64_t X,
                                   int64_t Y) {
    int64_t Result = 0;
    bool Overflows = Word == "+"   ? __builtin_add_overflow(X, Y, &Result)
                     : Word == "-" ? __builtin_sub_overflow(X, Y, &Result)
                     : Word == "*" ? __builtin_mul_overflow(X, Y, &Result)
                                   : Y == 0 || Y == -1;
    if (Overflows)
      fail("'", Word, "' of ", X, " and ", Y, " is not supported");
    if (Word == "//" || Word == "%") {
      // Python rounds down.
      int64_t Rest = X % Y, Floor = X / Y;
      if (Rest != 0 && (Rest < 0) != (Y < 0)) {
        Rest += Y;
        --Floor;
      }
      Result = Word == "%" ? Rest : Floor;
    }
    return Result;
  }

  JinjaValue compareAll(const JinjaNode &N, Scope &S) {
    JinjaValue Left = evaluate(*N.Children[0], S);
    for (size_t I = 0; I < N.Words.size(); ++I) {
      JinjaValue Right = evaluate(*N.Children[I + 1], S);
      if (!at(N.Line, [&] { return holds(N.Words[I], Left, Right); }))
        return false;
      Left = std::move(Right);
    }
    return true;
  }
  static bool holds(const std::string &Word, const JinjaValue &A,
                    const JinjaValue &B) {
    if (Word == "==")
      return A.equals(B);
    if (Word == "!=")
      return !A.equals(B);
    if (Word == "in")
      return contains(B, A);
    if (Word == "not in")
      return !contains(B, A);
    int Order = compare(A, B);
    return Word == "<"    ? Order < 0
           : Word == ">"  ? Order > 0
           : Word == "<=" ? Order <= 0
                          : Order >= 0;
  }

  Scope Root;
  std::time_t Date;
  Budget Limits;
  Template::Result Output;
  List Spaces;
  int Depth = 0;
};

} // namespace

/// Functions that transformers gives to templates.
void Interpreter::addFunctions() {
  Root.set("raise_exception", Function([](const Arguments &Args) -> JinjaValue {
             fail("the template says: ",
                  Args.Places.empty() ? "" : Args.Places[0].print());
           }));
  Root.set("namespace", Function([this](const Arguments &Args) {
             Spaces.push_back(JinjaValue(Args.Names, JinjaValue::Namespace));
             return Spaces.back();
           }));
  Root.set("dict", Function([](const Arguments &Args) {
             return JinjaValue(Args.Names);
           }));
  Root.set("range", Function([this](const Arguments &Args) {
             int64_t Bounds[] = {0, 0, 1};
             size_t Count = Args.Places.size();
             for (size_t I = 0; I < Count && I < 3; ++I) {
               if (!Args.Places[I].isWhole())
                 fail("range needs whole numbers");
               Bounds[Count == 1 ? 1 : I] = Args.Places[I].integer();
             }
             auto [Begin, End, Step] = Bounds;
             if (Count < 1 || Count > 3 || Step == 0)
               fail("range has one to three arguments, of which the step is "
                    "not 0");
             List Numbers;
             for (int64_t I = Begin; Step > 0 ? I < End : I > End;) {
               Limits.bytes(4 * sizeof(JinjaValue));
               Numbers.push_back(I);
               if (__builtin_add_overflow(I, Step, &I))
                 break;
             }
             return JinjaValue(std::move(Numbers));
           }));
  Root.set(
      "strftime_now", Function([this](const Arguments &Args) {
        if (Args.Places.size() != 1 || !Args.Places[0].is(JinjaValue::String))
          fail("strftime_now needs a format");
        Output.IsDated = true;
        std::tm Local = {};
        localtime_r(&Date, &Local);
        char Text[256];
        size_t Size = std::strftime(Text, sizeof Text,
                                    Args.Places[0].string().c_str(), &Local);
        return JinjaValue(std::string(Text, Size));
      }));
}

Template::Template(const std::string &Source) : Root(parse(tokenize(Source))) {}
Template::~Template() = default;

Template::Result Template::render(const Entries &Variables,
                                  std::time_t Date) const {
  return Interpreter(Variables, Date).run(*Root);
}
