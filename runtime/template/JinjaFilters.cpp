//===- JinjaFilters.cpp - Filters of chat templates: | NAME ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaCalls.h"
#include "template/Strip.h"

#include <algorithm>
#include <charconv>
#include <cmath>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

//===-- Arguments ---------------------------------------------------------===//

const JinjaValue *jinja::findArgument(const Arguments &Args, size_t I,
                                      std::string_view Name) {
  if (I < Args.Places.size())
    return &Args.Places[I];
  for (const auto &[Each, Content] : Args.Names)
    if (Each == Name)
      return &Content;
  return nullptr;
}

const std::string &jinja::getString(const JinjaValue &Content) {
  if (!Content.is(JinjaValue::String))
    fail("a string is expected, found a ", Content.typeName());
  return Content.string();
}

std::string jinja::getString(const Arguments &Args, size_t I,
                             std::string_view Name, const char *Default) {
  const JinjaValue *Found = findArgument(Args, I, Name);
  return Found ? getString(*Found) : Default;
}

int64_t jinja::getInteger(const JinjaValue &Content) {
  if (!Content.isWhole())
    fail("a whole number is expected, found a ", Content.typeName());
  return Content.integer();
}

bool jinja::isSet(const Arguments &Args, size_t I, std::string_view Name) {
  const JinjaValue *Found = findArgument(Args, I, Name);
  return Found && Found->isTrue();
}

//===-- Text --------------------------------------------------------------===//

/// The filter `indent`.
static std::string indent(const std::string &Text, const Arguments &Args,
                          Budget &B) {
  const JinjaValue *Width = findArgument(Args, 1, "width");
  std::string Spaces =
      Width && Width->is(JinjaValue::String)
          ? Width->string()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(
                            Width ? getInteger(*Width) : 4, 0, 1000)),
                        ' ');
  bool TakesFirst = isSet(Args, 2, "first"),
       TakesBlank = isSet(Args, 3, "blank");
  List Lines = callStringMethod(Text + "\n", "splitlines", {}, B).list();
  std::string Result;
  for (size_t I = 0; I < Lines.size(); ++I) {
    const std::string &Line = Lines[I].string();
    B.bytes(Spaces.size() + Line.size());
    Result += I ? "\n" : "";
    bool IsMoved = I ? TakesBlank || !Line.empty() : TakesFirst;
    Result += (IsMoved ? Spaces : "") + Line;
  }
  return Result;
}

/// The filters that are applied to what a value prints as.
static JinjaValue applyToText(const std::string &Name, const Arguments &Args,
                              Budget &B) {
  const JinjaValue &A = Args.Places[0];
  JinjaValue Text = A.is(JinjaValue::String) ? A : JinjaValue(A.print(B));
  B.bytes(Text.string().size());
  if (Name == "trim") {
    const JinjaValue *Chars = findArgument(Args, 1, "chars");
    return callStringMethod(Text, "strip", {Chars ? List{*Chars} : List(), {}},
                            B);
  }
  if (Name == "replace")
    return callStringMethod(
        JinjaValue(Text.string()), Name,
        {{Args.Places.begin() + 1, Args.Places.end()}, Args.Names}, B);
  if (Name == "indent") {
    std::string Result = indent(Text.string(), Args, B);
    return Text.isMarkup() ? JinjaValue::markup(Result) : JinjaValue(Result);
  }
  if (Name == "escape" || Name == "e")
    return Text.isMarkup() ? Text : JinjaValue::markup(escape(Text.string()));
  if (Name == "safe")
    return JinjaValue::markup(Text.string());
  if (Name == "string")
    return Text;
  if (Name == "wordcount")
    return callStringMethod(Text, "split", {}, B).countItems();
  // Methods of the same names do the same.
  return callStringMethod(Text, Name, {}, B);
}

//===-- JSON --------------------------------------------------------------===//

/// The filter `tojson` as transformers has it.
static JinjaValue writeJSON(const Arguments &Args, Budget &B) {
  static constexpr std::string_view Known[] = {"ensure_ascii", "indent",
                                               "separators", "sort_keys"};
  for (const auto &Each : Args.Names)
    if (std::find(std::begin(Known), std::end(Known), Each.first) ==
        std::end(Known))
      fail("tojson has no argument ", Each.first);
  JSONStyle Style;
  Style.IsASCII = isSet(Args, 1, "ensure_ascii");
  const JinjaValue *Indent = findArgument(Args, 2, "indent"),
                   *Separators = findArgument(Args, 3, "separators");
  if (Indent && !Indent->is(JinjaValue::None))
    Style.Indent =
        static_cast<int>(std::clamp<int64_t>(getInteger(*Indent), 0, 100));
  Style.ItemSeparator = Style.Indent < 0 ? ", " : ",";
  if (Separators && !Separators->is(JinjaValue::None)) {
    List Both = Separators->iterate(B);
    if (Both.size() != 2)
      fail("tojson takes two separators");
    Style.ItemSeparator = getString(Both[0]);
    Style.KeySeparator = getString(Both[1]);
  }
  Style.IsSorted = isSet(Args, 4, "sort_keys");
  return Args.Places[0].toJSON(Style, B);
}

//===-- Numbers -----------------------------------------------------------===//

/// The filters `int` and `float`.
static JinjaValue convert(const std::string &Name, const Arguments &Args) {
  const JinjaValue &A = Args.Places[0];
  bool IsInt = Name == "int";
  const JinjaValue *Given = findArgument(Args, 1, "default");
  JinjaValue Default = Given   ? *Given
                       : IsInt ? JinjaValue(int64_t(0))
                               : JinjaValue(0.0);
  double Real = A.isNumber() ? A.real() : 0;
  if (A.is(JinjaValue::String)) {
    std::string_view Text = strip(A.string());
    if (!Text.empty() && Text[0] == '+')
      Text.remove_prefix(1);
    const char *Begin = Text.data(), *End = Begin + Text.size();
    int64_t Whole = 0;
    auto [Stop, Code] = std::from_chars(Begin, End, Whole);
    if (IsInt && Code == std::errc() && Stop == End)
      return Whole;
    auto [RealStop, RealCode] = std::from_chars(Begin, End, Real);
    if (RealCode != std::errc() || RealStop != End)
      return Default;
  } else if (!A.isNumber()) {
    return Default;
  } else if (IsInt && A.isWhole()) {
    return A.integer();
  }
  if (!IsInt)
    return Real;
  if (!(std::fabs(Real) < 9e18))
    fail("the number ", Real, " has more than 64 bits");
  return static_cast<int64_t>(Real);
}

static JinjaValue round(const Arguments &Args, Budget &B) {
  const JinjaValue &A = Args.Places[0];
  const JinjaValue *Digits = findArgument(Args, 1, "precision");
  std::string Method = getString(Args, 2, "method", "common");
  if (!A.isNumber() || (Digits && getInteger(*Digits) != 0))
    fail("round is supported for numbers without digits alone");
  B.step();
  double Real = A.real();
  // Halves go to the even number, as in Python.
  double Rounded = Method == "ceil"    ? std::ceil(Real)
                   : Method == "floor" ? std::floor(Real)
                                       : std::nearbyint(Real);
  if (A.isWhole() && Method == "common")
    return A.integer();
  return Rounded;
}

static JinjaValue getSize(const JinjaValue &A) {
  if (!A.isNumber())
    fail("abs of a ", A.typeName());
  if (A.is(JinjaValue::Float))
    return std::fabs(A.real());
  if (A.integer() == INT64_MIN)
    fail("a number has more than 64 bits");
  return A.integer() < 0 ? -A.integer() : A.integer();
}

//===-- Filters by name ---------------------------------------------------===//

JinjaValue jinja::applyFilter(const std::string &Name, const Arguments &Args,
                              Budget &B) {
  const JinjaValue &A = Args.Places.at(0);
  static constexpr std::string_view OfText[] = {
      "capitalize", "e",      "escape", "indent", "lower",     "replace",
      "safe",       "string", "title",  "trim",   "wordcount", "upper"};
  if (std::find(std::begin(OfText), std::end(OfText), Name) != std::end(OfText))
    return applyToText(Name, Args, B);
  if (SequenceFilter Filter = findSequenceFilter(Name))
    return Filter(Args, B);
  if (Name == "tojson")
    return writeJSON(Args, B);
  if (Name == "length" || Name == "count")
    return A.countItems();
  if (Name == "default" || Name == "d") {
    const JinjaValue *Other = findArgument(Args, 1, "default_value");
    bool IsMissing = A.is(JinjaValue::Undefined) ||
                     (isSet(Args, 2, "boolean") && !A.isTrue());
    return !IsMissing ? A : Other ? *Other : JinjaValue("");
  }
  if (Name == "int" || Name == "float")
    return convert(Name, Args);
  if (Name == "abs")
    return getSize(A);
  if (Name == "round")
    return round(Args, B);
  if (Name == "attr")
    return getItem(A, JinjaValue(getString(Args, 1, "name", "")), true, B);
  fail("the filter '", Name, "' is not supported");
}
