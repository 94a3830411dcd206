//===- JinjaFilters.cpp - Filters, tests and methods of templates ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/JinjaValue.h"
#include "data/Strip.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

//===-- Arguments ---------------------------------------------------------===//

/// Argument number `I`, or that named `Name`; null if it was not given.
static const JinjaValue *findArgument(const Arguments &Args, size_t I,
                                      std::string_view Name) {
  if (I < Args.Places.size())
    return &Args.Places[I];
  for (const auto &[Each, Content] : Args.Names)
    if (Each == Name)
      return &Content;
  return nullptr;
}

static const std::string &getString(const JinjaValue &Content) {
  if (!Content.is(JinjaValue::String))
    fail("a string is expected, found a ", Content.typeName());
  return Content.string();
}

static std::string getString(const Arguments &Args, size_t I,
                             std::string_view Name, const char *Default) {
  const JinjaValue *Found = findArgument(Args, I, Name);
  return Found ? getString(*Found) : Default;
}

static int64_t getInteger(const JinjaValue &Content) {
  if (!Content.isWhole())
    fail("a whole number is expected, found a ", Content.typeName());
  return Content.integer();
}

static int64_t count(const JinjaValue &Of) {
  if (Of.is(JinjaValue::Sequence))
    return static_cast<int64_t>(Of.list().size());
  if (Of.is(JinjaValue::String) || Of.is(JinjaValue::Mapping) ||
      Of.is(JinjaValue::Undefined))
    return static_cast<int64_t>(Of.iterate().size());
  fail("a ", Of.typeName(), " has no length");
}

//===-- Strings -----------------------------------------------------------===//

static std::string changeCase(std::string Text, bool IsUpper) {
  for (char &C : Text) {
    if (static_cast<unsigned char>(C) >= 0x80)
      fail("upper and lower case are supported for ASCII alone");
    if (IsUpper ? C >= 'a' && C <= 'z' : C >= 'A' && C <= 'Z')
      C = static_cast<char>(C ^ 32);
  }
  return Text;
}

static std::string capitalize(std::string Text) {
  Text = changeCase(std::move(Text), false);
  return Text.empty() ? Text
                      : changeCase(Text.substr(0, 1), true) + Text.substr(1);
}

static std::string title(std::string Text) {
  Text = changeCase(std::move(Text), false);
  bool IsInside = false;
  for (char &C : Text) {
    bool IsLetter = C >= 'a' && C <= 'z';
    if (IsLetter && !IsInside)
      C = static_cast<char>(C ^ 32);
    IsInside = IsLetter;
  }
  return Text;
}

static std::string replaceAll(const std::string &Text, const std::string &From,
                              const std::string &To, int64_t Most, Budget &B) {
  if (From.empty())
    fail("replacing an empty string is not supported");
  std::string Result;
  size_t Begin = 0;
  for (size_t At; Most != 0 && (At = Text.find(From, Begin)) != Text.npos;
       --Most) {
    B.bytes(At - Begin + To.size());
    Result.append(Text, Begin, At - Begin).append(To);
    Begin = At + From.size();
  }
  return Result.append(Text, Begin);
}

/// As str.split() has it: without `By`, at runs of white space.
static List splitText(const std::string &Text, const JinjaValue *By,
                      int64_t Most, bool FromRight) {
  List Parts;
  if (!By || By->is(JinjaValue::None)) {
    if (Most >= 0)
      fail("split at white space takes no count here");
    for (std::string_view Rest = strip(Text); !Rest.empty();) {
      size_t End = findSpace(Rest);
      Parts.push_back(std::string(Rest.substr(0, End)));
      Rest = strip(Rest.substr(End));
    }
    return Parts;
  }
  const std::string &Separator = getString(*By);
  if (Separator.empty())
    fail("an empty separator");
  std::string Rest = Text;
  std::vector<std::string> Found;
  while (Most-- != 0) {
    size_t At = FromRight ? Rest.rfind(Separator) : Rest.find(Separator);
    if (At == Rest.npos)
      break;
    Found.push_back(FromRight ? Rest.substr(At + Separator.size())
                              : Rest.substr(0, At));
    Rest = FromRight ? Rest.substr(0, At) : Rest.substr(At + Separator.size());
  }
  Found.push_back(Rest);
  if (FromRight)
    std::reverse(Found.begin(), Found.end());
  for (std::string &Each : Found)
    Parts.push_back(std::move(Each));
  return Parts;
}

static bool hasAffix(const std::string &Text, const JinjaValue &Affix,
                     bool IsEnd) {
  if (Affix.is(JinjaValue::Sequence)) {
    const List &All = Affix.list();
    return std::any_of(All.begin(), All.end(), [&](const JinjaValue &Each) {
      return hasAffix(Text, Each, IsEnd);
    });
  }
  const std::string &Part = getString(Affix);
  return Text.size() >= Part.size() &&
         Text.compare(IsEnd ? Text.size() - Part.size() : 0, Part.size(),
                      Part) == 0;
}

static int64_t countIn(const std::string &Text, const std::string &Part) {
  if (Part.empty())
    fail("counting an empty string is not supported");
  int64_t Count = 0;
  for (size_t At = Text.find(Part); At != Text.npos;
       At = Text.find(Part, At + Part.size()))
    ++Count;
  return Count;
}

static JinjaValue callStringMethod(const std::string &Text,
                                   const std::string &Name,
                                   const Arguments &Args, Budget &B) {
  B.bytes(Text.size());
  const JinjaValue *First = findArgument(Args, 0, "sep"),
                   *Second = findArgument(Args, 1, "maxsplit");
  auto NeedFirst = [&]() -> const JinjaValue & {
    if (!First)
      fail(Name, " needs an argument");
    return *First;
  };
  if (Name == "strip" || Name == "lstrip" || Name == "rstrip") {
    bool HasChars = First && !First->is(JinjaValue::None);
    std::string Chars = HasChars ? getString(*First) : "";
    return std::string(strip(Text, Name != "rstrip", Name != "lstrip",
                             HasChars ? &Chars : nullptr));
  }
  if (Name == "split" || Name == "rsplit")
    return splitText(Text, First, Second ? getInteger(*Second) : -1,
                     Name == "rsplit");
  if (Name == "splitlines") {
    if (Text.find_first_of("\r\v\f\x1c\x1d\x1e\xC2\xE2") != Text.npos)
      fail("splitlines is supported for lines that end in \\n alone");
    JinjaValue NewLine("\n");
    List Lines = splitText(Text, &NewLine, -1, false);
    if (Lines.back().string().empty())
      Lines.pop_back();
    return Lines;
  }
  if (Name == "startswith" || Name == "endswith")
    return hasAffix(Text, NeedFirst(), Name[0] == 'e');
  if (Name == "replace") {
    if (Args.Places.size() < 2)
      fail("replace needs two arguments");
    return replaceAll(
        Text, getString(Args.Places[0]), getString(Args.Places[1]),
        Args.Places.size() > 2 ? getInteger(Args.Places[2]) : -1, B);
  }
  if (Name == "upper" || Name == "lower")
    return changeCase(Text, Name == "upper");
  if (Name == "capitalize")
    return capitalize(Text);
  if (Name == "title")
    return title(Text);
  if (Name == "find" || Name == "rfind") {
    const std::string &Part = getString(NeedFirst());
    size_t At = Name == "find" ? Text.find(Part) : Text.rfind(Part);
    return At == Text.npos ? int64_t(-1)
                           : count(JinjaValue(Text.substr(0, At)));
  }
  if (Name == "count")
    return countIn(Text, getString(NeedFirst()));
  if (Name == "removeprefix" || Name == "removesuffix") {
    bool IsEnd = Name == "removesuffix";
    if (!hasAffix(Text, NeedFirst(), IsEnd))
      return Text;
    size_t Size = getString(*First).size();
    return IsEnd ? Text.substr(0, Text.size() - Size) : Text.substr(Size);
  }
  if (Name == "join") {
    std::string Result;
    bool IsFirst = true;
    for (const JinjaValue &Each : NeedFirst().iterate()) {
      Result += (std::exchange(IsFirst, false) ? "" : Text) + getString(Each);
      B.bytes(Text.size() + Each.string().size());
    }
    return Result;
  }
  const std::string &All = Text;
  auto IsAll = [&](auto Test) {
    return !All.empty() && std::all_of(All.begin(), All.end(), Test);
  };
  if (Name == "isdigit")
    return IsAll([](char C) { return C >= '0' && C <= '9'; });
  fail("the method ", Name, " is not supported");
}

static List listItems(const JinjaValue &Of) {
  List Items;
  for (const auto &[Key, Content] : Of.members())
    Items.push_back(List{Key, Content});
  return Items;
}

static JinjaValue callDictMethod(const JinjaValue &Object,
                                 const std::string &Name,
                                 const Arguments &Args) {
  if (Name == "items")
    return listItems(Object);
  if (Name == "keys")
    return Object.iterate();
  if (Name == "values") {
    List Contents;
    for (const auto &Each : Object.members())
      Contents.push_back(Each.second);
    return Contents;
  }
  if (Args.Places.empty())
    fail("get needs a key");
  const JinjaValue *Found = Args.Places[0].is(JinjaValue::String)
                                ? Object.find(Args.Places[0].string())
                                : nullptr;
  if (Found)
    return *Found;
  const JinjaValue *Default = findArgument(Args, 1, "default");
  return Default ? *Default : JinjaValue::none();
}

JinjaValue jinja::findMethod(const JinjaValue &Object, const std::string &Name,
                             Budget &B) {
  static constexpr std::string_view OfStrings[] = {
      "strip",      "lstrip",   "rstrip",  "split",        "rsplit",
      "splitlines", "endswith", "replace", "startswith",   "upper",
      "lower",      "title",    "find",    "capitalize",   "rfind",
      "count",      "join",     "isdigit", "removeprefix", "removesuffix"};
  static constexpr std::string_view OfDicts[] = {"items", "keys", "values",
                                                 "get"};
  auto IsIn = [&](const auto &Names) {
    return std::find(std::begin(Names), std::end(Names), Name) !=
           std::end(Names);
  };
  if (Object.is(JinjaValue::String) && IsIn(OfStrings))
    return Function([Object, Name, &B](const Arguments &Args) {
      return callStringMethod(Object.string(), Name, Args, B);
    });
  if (Object.is(JinjaValue::Mapping) && IsIn(OfDicts))
    return Function([Object, Name](const Arguments &Args) {
      return callDictMethod(Object, Name, Args);
    });
  return JinjaValue();
}

//===-- Tests -------------------------------------------------------------===//

bool jinja::applyTest(const std::string &Name, const Arguments &Args) {
  const JinjaValue &A = Args.Places.at(0);
  const JinjaValue *Other = findArgument(Args, 1, "");
  using V = JinjaValue;
  if (Name == "defined" || Name == "undefined")
    return A.is(V::Undefined) == (Name == "undefined");
  if (Name == "none")
    return A.is(V::None);
  if (Name == "string")
    return A.is(V::String);
  if (Name == "mapping")
    return A.is(V::Mapping);
  if (Name == "sequence")
    return A.is(V::Sequence) || A.is(V::String) || A.is(V::Mapping) ||
           A.is(V::Undefined);
  if (Name == "iterable")
    return A.is(V::Sequence) || A.is(V::String) || A.is(V::Mapping) ||
           A.is(V::Undefined);
  if (Name == "number")
    return A.isNumber();
  if (Name == "integer")
    return A.is(V::Integer);
  if (Name == "float")
    return A.is(V::Float);
  if (Name == "boolean")
    return A.is(V::Boolean);
  if (Name == "true" || Name == "false")
    return A.is(V::Boolean) && A.isTrue() == (Name == "true");
  if (Name == "callable")
    return A.is(V::Callable);
  if (Name == "odd" || Name == "even")
    return (getInteger(A) % 2 != 0) == (Name == "odd");
  if (!Other)
    fail("the test '", Name, "' is not supported");
  if (Name == "equalto" || Name == "eq" || Name == "sameas")
    return A.equals(*Other);
  if (Name == "ne")
    return !A.equals(*Other);
  if (Name == "in")
    return contains(*Other, A);
  if (Name == "divisibleby" && getInteger(*Other) != 0)
    return getInteger(A) % getInteger(*Other) == 0;
  if (Name == "gt" || Name == "greaterthan")
    return compare(A, *Other) > 0;
  if (Name == "lt" || Name == "lessthan")
    return compare(A, *Other) < 0;
  if (Name == "ge" || Name == "le")
    return Name == "ge" ? compare(A, *Other) >= 0 : compare(A, *Other) <= 0;
  fail("the test '", Name, "' is not supported");
}

//===-- Filters -----------------------------------------------------------===//

/// The attribute "a.b" of a value.
static JinjaValue getAttribute(JinjaValue From, const std::string &Path) {
  for (size_t Begin = 0; Begin <= Path.size();) {
    size_t End = std::min(Path.find('.', Begin), Path.size());
    const JinjaValue *Found = From.find(Path.substr(Begin, End - Begin));
    From = Found ? JinjaValue(*Found) : JinjaValue::undefined(Path);
    Begin = End + 1;
  }
  return From;
}

/// select, reject, selectattr and rejectattr.
static JinjaValue filterItems(const std::string &Name, const Arguments &Args) {
  bool IsKept = Name[0] == 's', HasAttribute = Name.size() > 6;
  size_t Next = HasAttribute ? 2 : 1;
  List Kept;
  for (const JinjaValue &Each : Args.Places[0].iterate()) {
    if (HasAttribute && Args.Places.size() < 2)
      fail(Name, " needs the name of an attribute");
    JinjaValue Subject =
        HasAttribute ? getAttribute(Each, getString(Args.Places[1])) : Each;
    bool Passes = Subject.isTrue();
    if (Args.Places.size() > Next) {
      Arguments Inner = {{Subject}, {}};
      Inner.Places.insert(Inner.Places.end(),
                          Args.Places.begin() +
                              static_cast<ptrdiff_t>(Next + 1),
                          Args.Places.end());
      Passes = applyTest(getString(Args.Places[Next]), Inner);
    }
    if (Passes == IsKept)
      Kept.push_back(Each);
  }
  return Kept;
}

static JinjaValue mapItems(const Arguments &Args, Budget &B) {
  List Result;
  const JinjaValue *Attribute = findArgument(Args, SIZE_MAX, "attribute"),
                   *Default = findArgument(Args, SIZE_MAX, "default");
  for (const JinjaValue &Each : Args.Places[0].iterate()) {
    if (Attribute) {
      JinjaValue Found = getAttribute(Each, getString(*Attribute));
      Result.push_back(Found.is(JinjaValue::Undefined) && Default ? *Default
                                                                  : Found);
      continue;
    }
    if (Args.Places.size() < 2)
      fail("map needs a filter or an attribute");
    Arguments Inner = {{Each}, Args.Names};
    Inner.Places.insert(Inner.Places.end(), Args.Places.begin() + 2,
                        Args.Places.end());
    Result.push_back(applyFilter(getString(Args.Places[1]), Inner, B));
  }
  return Result;
}

static JinjaValue joinItems(const Arguments &Args, Budget &B) {
  std::string Separator = getString(Args, 1, "d", ""), Result;
  const JinjaValue *Attribute = findArgument(Args, 2, "attribute");
  bool IsFirst = true;
  for (const JinjaValue &Each : Args.Places[0].iterate()) {
    std::string Part =
        (Attribute ? getAttribute(Each, getString(*Attribute)) : Each).print();
    B.bytes(Part.size() + Separator.size());
    Result += (std::exchange(IsFirst, false) ? "" : Separator) + Part;
  }
  return Result;
}

static JinjaValue convert(const std::string &Name, const JinjaValue &A) {
  if (A.isNumber())
    return Name == "int" ? JinjaValue(A.is(JinjaValue::Float)
                                          ? static_cast<int64_t>(A.real())
                                          : A.integer())
                         : JinjaValue(A.real());
  std::string Text =
      A.is(JinjaValue::String) ? std::string(strip(A.string())) : "";
  const char *Begin = Text.data(), *End = Begin + Text.size();
  int64_t Whole = 0;
  double Real = 0;
  if (Name == "int") {
    auto [Stop, Code] = std::from_chars(Begin, End, Whole);
    return Code == std::errc() && Stop == End ? Whole : int64_t(0);
  }
  auto [Stop, Code] = std::from_chars(Begin, End, Real);
  return Code == std::errc() && Stop == End ? Real : 0.0;
}

/// The filter `indent`.
static std::string indent(const Arguments &Args, Budget &B) {
  const JinjaValue *Width = findArgument(Args, 1, "width"),
                   *First = findArgument(Args, 2, "first");
  std::string Spaces(static_cast<size_t>(std::clamp<int64_t>(
                         Width ? getInteger(*Width) : 4, 0, 1000)),
                     ' ');
  JinjaValue NewLine("\n");
  std::string Result;
  bool IsFirst = true;
  for (const JinjaValue &Line :
       splitText(getString(Args.Places[0]), &NewLine, -1, false)) {
    B.bytes(Spaces.size() + Line.string().size());
    if (!IsFirst)
      Result += "\n";
    if (!Line.string().empty() && (!IsFirst || (First && First->isTrue())))
      Result += Spaces;
    else if (IsFirst && First && First->isTrue())
      Result += Spaces;
    Result += Line.string();
    IsFirst = false;
  }
  return Result;
}

static JinjaValue applyToText(const std::string &Name, const Arguments &Args,
                              Budget &B) {
  std::string Text = Args.Places[0].print();
  B.bytes(Text.size());
  if (Name == "trim") {
    const JinjaValue *Chars = findArgument(Args, 1, "chars");
    bool HasChars = Chars && !Chars->is(JinjaValue::None);
    std::string Which = HasChars ? getString(*Chars) : "";
    return std::string(strip(Text, true, true, HasChars ? &Which : nullptr));
  }
  // Methods of the same names do the same.
  if (Name == "upper" || Name == "lower" || Name == "capitalize" ||
      Name == "title")
    return callStringMethod(Text, Name, {}, B);
  if (Name == "replace")
    return callStringMethod(
        Text, "replace", {{Args.Places.begin() + 1, Args.Places.end()}, {}}, B);
  return Text; // string, safe
}

static JinjaValue writeJSON(const Arguments &Args, Budget &B) {
  for (const auto &[Key, Content] : Args.Names)
    if (Key != "indent" && !(Key == "ensure_ascii" && !Content.isTrue()))
      fail("tojson with ", Key, " is not supported");
  const JinjaValue *Indent = findArgument(Args, 1, "indent");
  std::string Text = Args.Places[0].toJSON(
      Indent && !Indent->is(JinjaValue::None)
          ? static_cast<int>(std::clamp<int64_t>(getInteger(*Indent), 0, 100))
          : -1);
  B.bytes(Text.size());
  return Text;
}

JinjaValue jinja::applyFilter(const std::string &Name, const Arguments &Args,
                              Budget &B) {
  const JinjaValue &A = Args.Places.at(0);
  static constexpr std::string_view OfText[] = {
      "trim",  "upper",   "lower",  "capitalize",
      "title", "replace", "string", "safe"};
  if (std::find(std::begin(OfText), std::end(OfText), Name) != std::end(OfText))
    return applyToText(Name, Args, B);
  if (Name == "tojson")
    return writeJSON(Args, B);
  if (Name == "length" || Name == "count")
    return count(A);
  if (Name == "default" || Name == "d") {
    const JinjaValue *Other = findArgument(Args, 1, "default_value"),
                     *IsBoolean = findArgument(Args, 2, "boolean");
    bool IsMissing = A.is(JinjaValue::Undefined) ||
                     (IsBoolean && IsBoolean->isTrue() && !A.isTrue());
    return !IsMissing ? A : Other ? *Other : JinjaValue("");
  }
  if (Name == "select" || Name == "reject" || Name == "selectattr" ||
      Name == "rejectattr")
    return filterItems(Name, Args);
  if (Name == "map")
    return mapItems(Args, B);
  if (Name == "join")
    return joinItems(Args, B);
  if (Name == "indent")
    return indent(Args, B);
  if (Name == "int" || Name == "float")
    return convert(Name, A);
  if (Name == "list")
    return A.iterate();
  if (Name == "items")
    return A.is(JinjaValue::Undefined) ? JinjaValue(List())
                                       : JinjaValue(listItems(A));
  if (Name == "first" || Name == "last") {
    List Items = A.iterate();
    return Items.empty()     ? JinjaValue::undefined(Name)
           : Name == "first" ? Items.front()
                             : Items.back();
  }
  if (Name == "reverse") {
    List Items = A.iterate();
    std::reverse(Items.begin(), Items.end());
    if (!A.is(JinjaValue::String))
      return Items;
    std::string Text;
    for (const JinjaValue &Each : Items)
      Text += Each.string();
    return Text;
  }
  if (Name == "abs" && A.isWhole())
    return A.integer() < 0 ? -A.integer() : A.integer();
  fail("the filter '", Name, "' is not supported");
}
