//===- JinjaValue.cpp - Values of a chat template -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/JinjaValue.h"
#include "support/Error.h"
#include "tokenizer/Unicode.h"

#include <algorithm>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

/// The depth of lists in lists, which are destroyed by recursion.
static constexpr int MaxHeight = 200;
static constexpr int MaxDepth = 1000;

void Budget::spend(size_t &Left, size_t Count) {
  if (Count > Left)
    fail("the template takes too many steps or too much memory");
  Left -= Count;
}

Budget::Deeper::Deeper(Budget &B) : B(B) {
  if (++B.Depth > MaxDepth) {
    --B.Depth;
    fail("calls, blocks or values are nested too deeply");
  }
}

JinjaValue::JinjaValue(List L)
    : TheKind(Sequence), Elements(std::make_shared<List>(std::move(L))) {
  for (const JinjaValue &Each : *Elements)
    stack(Each);
}

JinjaValue::JinjaValue(Entries E, Kind K)
    : TheKind(K), Members(std::make_shared<Entries>(std::move(E))) {
  for (const auto &Each : *Members)
    stack(Each.second);
}

void JinjaValue::stack(const JinjaValue &Part) {
  if ((Height = std::max(Height, Part.Height + 1)) > MaxHeight)
    fail("calls, blocks or values are nested too deeply");
}

JinjaValue JinjaValue::tuple(List L) {
  JinjaValue Result(std::move(L));
  Result.Number = Tuple;
  return Result;
}

JinjaValue JinjaValue::iterator(List L) {
  JinjaValue Result(std::move(L));
  Result.TheKind = Iterator;
  return Result;
}

JinjaValue JinjaValue::view(List L) {
  JinjaValue Result(std::move(L));
  Result.Number = View;
  return Result;
}

JinjaValue JinjaValue::markup(std::string Text) {
  JinjaValue Result(std::move(Text));
  Result.Number = 1;
  return Result;
}

std::string JinjaValue::toKey() const {
  if (TheKind == String)
    return *Text;
  if (!isWhole())
    fail("a ", typeName(), " as a key is not supported");
  return "\xFF" + std::to_string(Number);
}

JinjaValue JinjaValue::fromKey(const std::string &Name) {
  if (Name.empty() || Name[0] != '\xFF')
    return Name;
  return int64_t(std::stoll(Name.substr(1)));
}

JinjaValue JinjaValue::undefined(std::string Name) {
  JinjaValue Result;
  Result.Text = std::make_shared<std::string>(std::move(Name));
  return Result;
}

JinjaValue JinjaValue::fromJSON(const json::Value &J) {
  switch (J.kind()) {
  case json::Value::Null:
    return none();
  case json::Value::Boolean:
    return J.asBool();
  case json::Value::Number: {
    int64_t Whole = 0;
    if (J.asInteger(Whole))
      return Whole;
    if (J.getSpelling().find_first_of(".eE") == std::string_view::npos)
      fail("the number ", J.getSpelling(), " has more than 64 bits");
    return J.asDouble();
  }
  case json::Value::String: {
    std::string Storage;
    return std::string(unicode::repair(J.asString(), Storage));
  }
  case json::Value::Array: {
    List Elements;
    for (const json::Value &Each : J.elements())
      Elements.push_back(fromJSON(Each));
    return Elements;
  }
  case json::Value::Object: {
    Entries Members;
    for (const auto &[Key, Each] : J.members())
      Members.emplace_back(Key, fromJSON(Each));
    return JinjaValue(std::move(Members));
  }
  }
  return JinjaValue();
}

const JinjaValue *JinjaValue::find(std::string_view Key) const {
  if (isDictionary())
    for (const auto &[Name, Member] : *Members)
      if (Name == Key)
        return &Member;
  return nullptr;
}

bool JinjaValue::isTrue() const {
  switch (TheKind) {
  case Undefined:
  case None:
    return false;
  case Boolean:
  case Integer:
    return Number != 0;
  case Float:
    return Real != 0;
  case String:
    return !Text->empty();
  case Sequence:
    return !Elements->empty();
  case Mapping:
    return !Members->empty();
  case Iterator:
  case Namespace:
  case Callable:
    return true;
  }
  return false;
}

bool JinjaValue::equals(const JinjaValue &Other, Budget &B) const {
  B.step();
  Budget::Deeper Guard(B);
  if (isNumber() && Other.isNumber())
    return isWhole() && Other.isWhole() ? Number == Other.Number
                                        : real() == Other.real();
  if (TheKind != Other.TheKind ||
      (TheKind == Sequence && Number != Other.Number))
    return false;
  if (TheKind == String)
    return *Text == *Other.Text;
  if (TheKind == Sequence)
    return std::equal(Elements->begin(), Elements->end(),
                      Other.Elements->begin(), Other.Elements->end(),
                      [&](const JinjaValue &X, const JinjaValue &Y) {
                        return X.equals(Y, B);
                      });
  if (TheKind == Mapping)
    return Members->size() == Other.Members->size() &&
           std::all_of(Members->begin(), Members->end(), [&](const auto &Each) {
             const JinjaValue *Found = Other.find(Each.first);
             return Found && Found->equals(Each.second, B);
           });
  return TheKind == None || TheKind == Undefined ||
         (TheKind == Iterator && Elements == Other.Elements) ||
         (TheKind == Namespace && Members == Other.Members);
}

List JinjaValue::iterate(Budget &B) const {
  List Items;
  switch (TheKind) {
  case Undefined:
    return Items;
  case Sequence:
    B.bytes(Elements->size() * sizeof(JinjaValue));
    return *Elements;
  case Iterator:
    Items.swap(*Elements);
    return Items;
  case Mapping:
    B.bytes(Members->size() * sizeof(JinjaValue));
    for (const auto &Each : *Members)
      Items.push_back(fromKey(Each.first));
    return Items;
  case String:
    B.bytes(Text->size() * sizeof(JinjaValue));
    for (size_t Begin = 0; Begin < Text->size();) {
      size_t End =
          std::min(Begin + unicode::getLength((*Text)[Begin]), Text->size());
      Items.push_back(Text->substr(Begin, End - Begin));
      Begin = End;
    }
    return Items;
  default:
    fail("a ", typeName(), " has no elements");
  }
}

int64_t JinjaValue::countItems() const {
  switch (TheKind) {
  case Undefined:
    return 0;
  case Sequence:
    return static_cast<int64_t>(Elements->size());
  case Mapping:
    return static_cast<int64_t>(Members->size());
  case String:
    return std::count_if(Text->begin(), Text->end(),
                         [](char C) { return !unicode::isContinuation(C); });
  default:
    fail("a ", typeName(), " has no length");
  }
}

const char *JinjaValue::typeName() const {
  static constexpr const char *Names[] = {
      "undefined value", "none", "Boolean",  "integer", "number",
      "string",          "list", "iterator", "dict",    "namespace",
      "function"};
  return isTuple() ? "tuple" : isView() ? "view" : Names[TheKind];
}

void jinja::addMember(Entries &Members, const std::string &Name,
                      JinjaValue Content) {
  for (auto &[Each, Old] : Members)
    if (Each == Name) {
      Old = std::move(Content);
      return;
    }
  Members.emplace_back(Name, std::move(Content));
}

int jinja::compare(const JinjaValue &A, const JinjaValue &B, Budget &Limits) {
  Limits.step();
  Budget::Deeper Guard(Limits);
  if (A.isNumber() && B.isNumber())
    return A.isWhole() && B.isWhole()
               ? (A.integer() > B.integer()) - (A.integer() < B.integer())
               : (A.real() > B.real()) - (A.real() < B.real());
  if (A.is(JinjaValue::String) && B.is(JinjaValue::String)) {
    int Order = A.string().compare(B.string());
    return (Order > 0) - (Order < 0);
  }
  if (!A.is(JinjaValue::Sequence) || !B.is(JinjaValue::Sequence) ||
      A.isTuple() != B.isTuple() || A.isView())
    fail("a ", A.typeName(), " and a ", B.typeName(), " have no order");
  for (size_t I = 0; I < A.list().size() && I < B.list().size(); ++I)
    if (!A.list()[I].equals(B.list()[I], Limits))
      return compare(A.list()[I], B.list()[I], Limits);
  return (A.list().size() > B.list().size()) -
         (A.list().size() < B.list().size());
}

bool jinja::contains(const JinjaValue &Whole, const JinjaValue &Part,
                     Budget &B) {
  if (Whole.is(JinjaValue::String)) {
    if (!Part.is(JinjaValue::String))
      fail("a ", Part.typeName(), " is not in a string");
    B.bytes(Whole.string().size() / 64);
    return Whole.string().find(Part.string()) != std::string::npos;
  }
  if (Whole.isDictionary())
    return (Part.is(JinjaValue::String) || Part.isWhole()) &&
           Whole.find(Part.toKey());
  if (Whole.is(JinjaValue::Undefined))
    return false;
  List Read;
  if (Whole.is(JinjaValue::Iterator))
    Read = Whole.iterate(B);
  else if (!Whole.is(JinjaValue::Sequence))
    fail("a ", Whole.typeName(), " has no elements");
  const List &Items = Whole.is(JinjaValue::Sequence) ? Whole.list() : Read;
  return std::any_of(Items.begin(), Items.end(), [&](const JinjaValue &Each) {
    return Each.equals(Part, B);
  });
}
