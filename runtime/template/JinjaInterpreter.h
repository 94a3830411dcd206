//===- JinjaInterpreter.h - Running the tree of a template ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JINJAINTERPRETER_H
#define POPLAR_RUNTIME_JINJAINTERPRETER_H

#include "support/Error.h"
#include "template/Jinja.h"
#include "template/JinjaTree.h"

#include <map>

namespace poplar::runtime::jinja {

/// Names of a template, a loop or a macro. A loop sees those around it, and
/// what it sets is gone behind it.
struct Scope {
  explicit Scope(Scope *Outer) : Outer(Outer) {}
  const JinjaValue *find(const std::string &Name) const;
  void set(const std::string &Name, JinjaValue Content) {
    addMember(Names, Name, std::move(Content));
  }
  Scope *Outer;
  Entries Names;
  /// Whether a macro needs it.
  bool IsCaptured = false;
};

/// One run of a template.
class Interpreter {
public:
  Interpreter(const Entries &Variables, std::time_t Date);
  ~Interpreter();
  Interpreter(const Interpreter &) = delete;
  Interpreter &operator=(const Interpreter &) = delete;

  Template::Result run(const Block &Body);

private:
  enum class Flow { On, Break, Continue };

  /// A scope that ends, unless a macro needs it, with a block.
  class InnerScope {
  public:
    InnerScope(Interpreter &I, Scope &Outer)
        : I(I), S(std::make_unique<Scope>(&Outer)) {}
    ~InnerScope() {
      if (S->IsCaptured)
        I.Captured.push_back(std::move(S));
    }
    Scope &operator*() { return *S; }
    Scope *operator->() { return S.get(); }

  private:
    Interpreter &I;
    std::unique_ptr<Scope> S;
  };

  /// raise_exception and the other functions that transformers and Jinja give
  /// to templates.
  void addFunctions();
  JinjaValue makeRange(const Arguments &Args);
  JinjaValue formatDate(const Arguments &Args);

  [[noreturn]] static void refuse(int Line, const std::string &What) {
    fail("line ", Line, ": ", What);
  }
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

  // Statements.
  void write(std::string &Out, const std::string &Text);
  Flow runBody(const std::vector<std::unique_ptr<Block>> &Body, Scope &S,
               std::string &Out);
  Flow runBlock(const Block &B, Scope &S, std::string &Out);
  /// The text of a body in a scope of its own.
  std::string runText(const Block &B, Scope &S);
  Flow runLoop(const Block &B, Scope &S, std::string &Out);
  JinjaValue makeLoop(const List &Items, size_t I);
  Flow runGeneration(const Block &B, Scope &S, std::string &Out);
  void set(const Block &B, JinjaValue Content, Scope &S);
  void assign(const Block &B, const JinjaValue &Content, Scope &S);
  JinjaValue makeMacro(const Block &B, Scope &S);
  /// Notes that the body of a loop wrote the end of `Out` for a message.
  void noteTurn(const void *Message, size_t Begin, const std::string &Out);
  std::string callMacro(const Block &B, Scope &S, const Arguments &Args);
  void callWithBody(const Block &B, Scope &S, std::string &Out);
  /// `Text` through the filters of `N`, in the place of the innermost constant.
  JinjaValue filterText(const JinjaNode &N, const std::string &Text, Scope &S);

  // Expressions.
  JinjaValue evaluate(const JinjaNode &N, Scope &S);
  List evaluateAll(const JinjaNode &N, Scope &S);
  Arguments getArguments(const JinjaNode &N, size_t First, Scope &S);
  /// An argument with * or **.
  void spread(const JinjaNode &N, Scope &S, Arguments &Args);
  JinjaValue makeDictionary(const JinjaNode &N, Scope &S);
  JinjaValue takeSlice(const JinjaNode &N, Scope &S);
  JinjaValue call(const JinjaNode &N, Scope &S, const JinjaValue *Caller);
  JinjaValue applyUnary(const JinjaNode &N, Scope &S);
  JinjaValue combine(const JinjaNode &N, Scope &S);
  JinjaValue compareAll(const JinjaNode &N, Scope &S);

  Scope Root;
  std::time_t Date;
  Budget Limits;
  Template::Result Output;
  List Spaces;
  std::vector<std::unique_ptr<Scope>> Captured;
  /// The elements of `messages` by identity, with their numbers.
  std::map<const void *, size_t> Messages;
  /// The variable of the innermost loop over numbers, and the message that its
  /// body read by it: messages[i].
  struct Index {
    std::string Variable;
    const void *Message = nullptr;
  };
  Index Innermost;
};

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJAINTERPRETER_H
