//===- JinjaValue.cpp - Values of a chat template -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/JinjaValue.h"
#include "support/Error.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

namespace {
/// Values may hold themselves; how deep they are is bounded.
class Deeper {
public:
  Deeper() {
    if (++Depth > 100) {
      --Depth;
      fail("a value is nested too deeply");
    }
  }
  ~Deeper() { --Depth; }

private:
  static thread_local int Depth;
};
thread_local int Deeper::Depth = 0;
} // namespace

void Budget::spend(size_t &Left, size_t Count) {
  if (Count > Left)
    fail("the template takes too many steps or too much memory");
  Left -= Count;
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
    return J.asInteger(Whole) ? JinjaValue(Whole) : JinjaValue(J.asDouble());
  }
  case json::Value::String:
    return std::string(J.asString());
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
  case Namespace:
  case Callable:
    return true;
  }
  return false;
}

bool JinjaValue::equals(const JinjaValue &Other) const {
  Deeper Guard;
  if (isNumber() && Other.isNumber())
    return isWhole() && Other.isWhole() ? Number == Other.Number
                                        : real() == Other.real();
  if (TheKind != Other.TheKind)
    return false;
  if (TheKind == String)
    return *Text == *Other.Text;
  if (TheKind == Sequence)
    return std::equal(
        Elements->begin(), Elements->end(), Other.Elements->begin(),
        Other.Elements->end(),
        [](const JinjaValue &A, const JinjaValue &B) { return A.equals(B); });
  if (TheKind == Mapping)
    return Members->size() == Other.Members->size() &&
           std::all_of(Members->begin(), Members->end(), [&](const auto &Each) {
             const JinjaValue *Found = Other.find(Each.first);
             return Found && Found->equals(Each.second);
           });
  return TheKind == None || TheKind == Undefined ||
         (TheKind == Namespace && Members == Other.Members);
}

/// Python's repr() of a float.
static std::string printFloat(double Number) {
  if (!std::isfinite(Number))
    return std::isnan(Number) ? "nan" : Number < 0 ? "-inf" : "inf";
  char Text[40];
  double Size = std::fabs(Number);
  bool IsPlain = Size == 0 || (Size >= 1e-4 && Size < 1e16);
  auto Format =
      IsPlain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string Result(
      Text, std::to_chars(Text, Text + sizeof Text, Number, Format).ptr);
  if (IsPlain && Result.find('.') == Result.npos)
    Result += ".0";
  return Result;
}

std::string JinjaValue::print() const {
  return TheKind == String ? *Text : TheKind == Undefined ? "" : repr();
}

/// A string as Python writes it.
static std::string quoteAsPython(const std::string &Text) {
  bool HasSingle = Text.find('\'') != Text.npos,
       HasDouble = Text.find('"') != Text.npos;
  char Quote = HasSingle && !HasDouble ? '"' : '\'';
  std::string Result(1, Quote);
  for (char C : Text) {
    auto Byte = static_cast<unsigned char>(C);
    if (C == '\\' || C == Quote)
      (Result += '\\') += C;
    else if (C == '\n')
      Result += "\\n";
    else if (C == '\r')
      Result += "\\r";
    else if (C == '\t')
      Result += "\\t";
    else if (Byte < 0x20 || Byte == 0x7F) {
      char Escape[8];
      std::snprintf(Escape, sizeof Escape, "\\x%02x", Byte);
      Result += Escape;
    } else
      Result += C;
  }
  return Result + Quote;
}

std::string JinjaValue::repr() const {
  Deeper Guard;
  std::string Result;
  switch (TheKind) {
  case Undefined:
    return "Undefined";
  case None:
    return "None";
  case Boolean:
    return Number ? "True" : "False";
  case Integer:
    return std::to_string(Number);
  case Float:
    return printFloat(Real);
  case String:
    return quoteAsPython(*Text);
  case Sequence:
    for (const JinjaValue &Each : *Elements)
      Result += (Result.empty() ? "" : ", ") + Each.repr();
    return "[" + Result + "]";
  case Mapping:
  case Namespace:
    for (const auto &[Key, Each] : *Members)
      Result += (Result.empty() ? "" : ", ") + quoteAsPython(Key) + ": " +
                Each.repr();
    return "{" + Result + "}";
  case Callable:
    fail("a function cannot be printed");
  }
  return Result;
}

/// A string as json.dumps(ensure_ascii=False) writes it.
static std::string quoteAsJSON(const std::string &Text) {
  static constexpr std::string_view From = "\"\\\n\r\t\b\f", To = "\"\\nrtbf";
  std::string Result = "\"";
  for (char C : Text)
    if (size_t Which = From.find(C); Which != From.npos)
      (Result += '\\') += To[Which];
    else if (static_cast<unsigned char>(C) < 0x20) {
      char Escape[8];
      std::snprintf(Escape, sizeof Escape, "\\u%04x", C);
      Result += Escape;
    } else
      Result += C;
  return Result + '"';
}

std::string JinjaValue::toJSON(int Indent, int Depth) const {
  Deeper Guard;
  if (TheKind == None)
    return "null";
  if (TheKind == Boolean)
    return Number ? "true" : "false";
  if (TheKind == Integer || TheKind == Float)
    return repr();
  if (TheKind == String)
    return quoteAsJSON(*Text);
  if (TheKind != Sequence && TheKind != Mapping)
    fail("a ", typeName(), " cannot be written as JSON");
  bool IsList = TheKind == Sequence;
  if (IsList ? Elements->empty() : Members->empty())
    return IsList ? "[]" : "{}";
  auto NewLine = [&](int Level) {
    return Indent < 0 ? std::string()
                      : "\n" + std::string(static_cast<size_t>(Indent) *
                                               static_cast<size_t>(Level),
                                           ' ');
  };
  std::string Result = IsList ? "[" : "{";
  bool IsFirst = true;
  auto Add = [&](const std::string &Key, const JinjaValue &Each) {
    if (!IsFirst)
      Result += Indent < 0 ? ", " : ",";
    IsFirst = false;
    Result += NewLine(Depth + 1) + Key + Each.toJSON(Indent, Depth + 1);
  };
  if (IsList)
    for (const JinjaValue &Each : *Elements)
      Add("", Each);
  else
    for (const auto &[Key, Each] : *Members)
      Add(quoteAsJSON(Key) + ": ", Each);
  return Result + NewLine(Depth) + (IsList ? "]" : "}");
}

List JinjaValue::iterate() const {
  List Items;
  switch (TheKind) {
  case Undefined:
    return Items;
  case Sequence:
    return *Elements;
  case Mapping:
    for (const auto &Each : *Members)
      Items.push_back(Each.first);
    return Items;
  case String:
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

const char *JinjaValue::typeName() const {
  static constexpr const char *Names[] = {
      "undefined value", "none", "Boolean", "integer",   "number",
      "string",          "list", "dict",    "namespace", "function"};
  return Names[TheKind];
}

int jinja::compare(const JinjaValue &A, const JinjaValue &B) {
  if (A.isNumber() && B.isNumber())
    return (A.real() > B.real()) - (A.real() < B.real());
  if (A.is(JinjaValue::String) && B.is(JinjaValue::String)) {
    int Order = A.string().compare(B.string());
    return (Order > 0) - (Order < 0);
  }
  fail("a ", A.typeName(), " and a ", B.typeName(), " have no order");
}

bool jinja::contains(const JinjaValue &Whole, const JinjaValue &Part) {
  if (Whole.is(JinjaValue::String)) {
    if (!Part.is(JinjaValue::String))
      fail("a ", Part.typeName(), " is not in a string");
    return Whole.string().find(Part.string()) != std::string::npos;
  }
  if (Whole.isDictionary())
    return Part.is(JinjaValue::String) && Whole.find(Part.string());
  List Items = Whole.iterate();
  return std::any_of(Items.begin(), Items.end(),
                     [&](const JinjaValue &Each) { return Each.equals(Part); });
}
