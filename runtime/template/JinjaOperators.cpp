//===- JinjaOperators.cpp - Operators of chat templates -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaCalls.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

//===-- Arithmetic --------------------------------------------------------===//

/// Two texts as one. If one is markup, the other is escaped.
static JinjaValue joinTexts(const JinjaValue &A, const JinjaValue &B,
                            Budget &Limits) {
  std::string Text = A.print(Limits), Other = B.print(Limits);
  bool IsMarkup = A.isMarkup() || B.isMarkup();
  if (IsMarkup && !A.isMarkup())
    Text = escape(std::move(Text));
  if (IsMarkup && !B.isMarkup())
    Other = escape(std::move(Other));
  Limits.bytes(Text.size() + Other.size());
  Text += Other;
  return IsMarkup ? JinjaValue::markup(std::move(Text))
                  : JinjaValue(std::move(Text));
}

static JinjaValue joinLists(const JinjaValue &A, const JinjaValue &B,
                            Budget &Limits) {
  List All = A.list();
  All.insert(All.end(), B.list().begin(), B.list().end());
  Limits.bytes(All.size() * sizeof(JinjaValue));
  return A.isTuple() ? JinjaValue::tuple(std::move(All)) : JinjaValue(All);
}

static JinjaValue repeat(const JinjaValue &Part, int64_t Times,
                         Budget &Limits) {
  std::string Text;
  List All;
  for (int64_t I = 0; I < Times; ++I) {
    Limits.step();
    if (Part.is(JinjaValue::String)) {
      Limits.bytes(Part.string().size());
      Text += Part.string();
      continue;
    }
    Limits.bytes(Part.list().size() * sizeof(JinjaValue));
    All.insert(All.end(), Part.list().begin(), Part.list().end());
  }
  if (Part.is(JinjaValue::String))
    return Text;
  return Part.isTuple() ? JinjaValue::tuple(std::move(All)) : JinjaValue(All);
}

/// Python's power of whole numbers, of which the second is not negative.
static bool takePower(int64_t X, int64_t Y, int64_t &Result) {
  if (X == 0 || X == 1 || X == -1)
    Y = Y == 0 ? 0 : 2 - Y % 2;
  Result = 1;
  for (int64_t I = 0; I < Y; ++I)
    if (__builtin_mul_overflow(Result, X, &Result))
      return false;
  return true;
}

static JinjaValue calculateWhole(const std::string &Word, int64_t X,
                                 int64_t Y) {
  int64_t Result = 0;
  bool Fits = true;
  if (Word == "+")
    Fits = !__builtin_add_overflow(X, Y, &Result);
  else if (Word == "-")
    Fits = !__builtin_sub_overflow(X, Y, &Result);
  else if (Word == "*")
    Fits = !__builtin_mul_overflow(X, Y, &Result);
  else if (Word == "**")
    Fits = Y >= 0 && takePower(X, Y, Result);
  else if (Y == 0)
    fail("a division by zero");
  else if (Y == -1)
    Fits = Word == "%" || !__builtin_sub_overflow(int64_t(0), X, &Result);
  else {
    // Python rounds down.
    int64_t Rest = X % Y, Floor = X / Y;
    if (Rest != 0 && (Rest < 0) != (Y < 0)) {
      Rest += Y;
      --Floor;
    }
    Result = Word == "%" ? Rest : Floor;
  }
  if (!Fits)
    fail("'", Word, "' of ", X, " and ", Y, " has more than 64 bits");
  return Result;
}

static JinjaValue calculateReal(const std::string &Word, double X, double Y) {
  if (Word == "+")
    return X + Y;
  if (Word == "-")
    return X - Y;
  if (Word == "*")
    return X * Y;
  if (Word == "**")
    return std::pow(X, Y);
  if (Y == 0)
    fail("a division by zero");
  if (Word == "/")
    return X / Y;
  if (Word == "//")
    return std::floor(X / Y);
  double Rest = std::fmod(X, Y);
  return Rest != 0 && (Rest < 0) != (Y < 0) ? Rest + Y : Rest;
}

JinjaValue jinja::calculate(const std::string &Word, const JinjaValue &A,
                            const JinjaValue &B, Budget &Limits) {
  using V = JinjaValue;
  if (Word == "~")
    return joinTexts(A.print(Limits), B.print(Limits), Limits);
  if (Word == "+" && A.is(V::String) && B.is(V::String))
    return joinTexts(A, B, Limits);
  if (Word == "+" && A.is(V::Sequence) && B.is(V::Sequence) &&
      A.isTuple() == B.isTuple() && !A.isView() && !B.isView())
    return joinLists(A, B, Limits);
  if (Word == "*" && (A.is(V::String) || A.is(V::Sequence)) && B.isWhole())
    return repeat(A, B.integer(), Limits);
  if (Word == "*" && (B.is(V::String) || B.is(V::Sequence)) && A.isWhole())
    return repeat(B, A.integer(), Limits);
  for (const V *Each : {&A, &B})
    if (Each->is(V::Undefined))
      fail("'", Each->name(), "' is undefined");
  if (!A.isNumber() || !B.isNumber())
    fail("'", Word, "' of a ", A.typeName(), " and a ", B.typeName(),
         " is not supported");
  bool IsWhole = A.isWhole() && B.isWhole() && Word != "/" &&
                 !(Word == "**" && B.integer() < 0);
  return IsWhole ? calculateWhole(Word, A.integer(), B.integer())
                 : calculateReal(Word, A.real(), B.real());
}

bool jinja::holds(const std::string &Word, const JinjaValue &A,
                  const JinjaValue &B, Budget &Limits) {
  if (Word == "==")
    return A.equals(B, Limits);
  if (Word == "!=")
    return !A.equals(B, Limits);
  if (Word == "in")
    return contains(B, A, Limits);
  if (Word == "not in")
    return !contains(B, A, Limits);
  int Order = compare(A, B, Limits);
  return Word == "<"    ? Order < 0
         : Word == ">"  ? Order > 0
         : Word == "<=" ? Order <= 0
                        : Order >= 0;
}

//===-- Parts of values ---------------------------------------------------===//

JinjaValue jinja::slice(const JinjaValue &Object, const JinjaValue (&Bounds)[3],
                        Budget &B) {
  if (Object.is(JinjaValue::Undefined))
    fail("'", Object.name(), "' is undefined");
  // As the subscript of another value, which has no such item.
  if ((!Object.is(JinjaValue::Sequence) && !Object.is(JinjaValue::String)) ||
      Object.isView())
    return JinjaValue::undefined("slice");
  auto Get = [&](size_t Which, int64_t Default) {
    return Bounds[Which].is(JinjaValue::None) ? Default
                                              : getInteger(Bounds[Which]);
  };
  List Items = Object.iterate(B);
  auto Count = static_cast<int64_t>(Items.size());
  int64_t Step = Get(2, 1);
  if (Step == 0)
    fail("the step of a slice is 0");
  auto Clamp = [&](int64_t At) {
    At = At < 0 ? std::max(At, -Count - 1) + Count : At;
    return Step > 0 ? std::clamp<int64_t>(At, 0, Count)
                    : std::clamp<int64_t>(At, -1, Count - 1);
  };
  bool HasBegin = !Bounds[0].is(JinjaValue::None),
       HasEnd = !Bounds[1].is(JinjaValue::None);
  int64_t Begin = HasBegin ? Clamp(Get(0, 0)) : Step > 0 ? 0 : Count - 1;
  int64_t End = HasEnd ? Clamp(Get(1, 0)) : Step > 0 ? Count : -1;
  List Kept;
  for (int64_t I = Begin; Step > 0 ? I < End : I > End;) {
    B.step();
    Kept.push_back(Items[static_cast<size_t>(I)]);
    if (Step > 0 ? Step >= End - I : Step <= End - I)
      break;
    I += Step;
  }
  if (Object.is(JinjaValue::Sequence))
    return Object.isTuple() ? JinjaValue::tuple(std::move(Kept))
                            : JinjaValue(std::move(Kept));
  std::string Text;
  for (const JinjaValue &Each : Kept)
    Text += Each.string();
  return Object.isMarkup() ? JinjaValue::markup(Text) : JinjaValue(Text);
}

JinjaValue jinja::getItem(const JinjaValue &Object, const JinjaValue &Key,
                          bool IsDot, Budget &B) {
  if (Object.is(JinjaValue::Undefined))
    fail("'", Object.name(), "' is undefined");
  if (Key.is(JinjaValue::String)) {
    const std::string &Name = Key.string();
    JinjaValue Method = findMethod(Object, Name, B);
    if (IsDot && Method.is(JinjaValue::Callable))
      return Method;
    if (const JinjaValue *Found = Object.find(Name))
      return *Found;
    return Method.is(JinjaValue::Callable)
               ? Method
               : JinjaValue::undefined(std::string(Object.typeName()) + "." +
                                       Name);
  }
  if (Key.isWhole() && Object.is(JinjaValue::Mapping))
    if (const JinjaValue *Found = Object.find(Key.toKey()))
      return *Found;
  bool HasItems = (Object.is(JinjaValue::Sequence) && !Object.isView()) ||
                  Object.is(JinjaValue::String);
  if (!Key.isWhole() || !HasItems)
    return JinjaValue::undefined("item");
  List Characters = Object.is(JinjaValue::String) ? Object.iterate(B) : List();
  const List &All = Object.is(JinjaValue::String) ? Characters : Object.list();
  auto Count = static_cast<int64_t>(All.size());
  int64_t Index = Key.integer() + (Key.integer() < 0 ? Count : 0);
  if (Index < 0 || Index >= Count)
    return JinjaValue::undefined("item " + std::to_string(Key.integer()));
  return All[static_cast<size_t>(Index)];
}
