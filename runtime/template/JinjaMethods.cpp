//===- JinjaMethods.cpp - Methods of values in chat templates -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaCalls.h"
#include "template/Strip.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <iterator>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

//===-- Letters -----------------------------------------------------------===//

static std::string changeCase(const std::string &Text, bool IsUpper) {
  std::string Result;
  for (size_t Pos = 0; Pos < Text.size();) {
    char32_t C = unicode::next(Text, Pos);
    // Its lower case depends on what follows.
    if (!IsUpper && C == 0x3A3)
      fail("the lower case of U+03A3 is not supported");
    if (IsUpper)
      unicode::appendUppercase(Result, C);
    else
      unicode::appendLowercase(Result, C);
  }
  return Result;
}

/// The bytes of the first character.
static size_t getFirst(const std::string &Text) {
  return Text.empty() ? 0 : unicode::getLength(Text[0]);
}

static std::string capitalize(const std::string &Text) {
  size_t First = getFirst(Text);
  return changeCase(Text.substr(0, First), true) +
         changeCase(Text.substr(First), false);
}

static std::string title(const std::string &Text) {
  if (!unicode::isASCII(Text))
    fail("title is supported for ASCII alone");
  std::string Result = changeCase(Text, false);
  bool IsInside = false;
  for (char &C : Result) {
    bool IsLetter = C >= 'a' && C <= 'z';
    if (IsLetter && !IsInside)
      C = static_cast<char>(C ^ 32);
    IsInside = IsLetter;
  }
  return Result;
}

//===-- Parts of strings --------------------------------------------------===//

static std::string replaceAll(const std::string &Text, const std::string &From,
                              const std::string &To, int64_t Most, Budget &B) {
  std::string Result;
  size_t Begin = 0;
  // An empty string is found before every character and at the end.
  for (; Most != 0; --Most) {
    size_t At = Text.find(From, Begin);
    if (At == Text.npos)
      break;
    B.step();
    B.bytes(At - Begin + To.size());
    Result.append(Text, Begin, At - Begin).append(To);
    Begin = At + From.size();
    if (!From.empty())
      continue;
    if (Begin == Text.size())
      return Result;
    size_t Size = unicode::getLength(Text[Begin]);
    Result.append(Text, Begin, Size);
    Begin += Size;
  }
  return Result.append(Text, Begin);
}

/// str.split() and str.rsplit() without a separator: at runs of white space.
static List splitAtSpaces(std::string_view Text, int64_t Most, bool FromRight) {
  List Parts;
  for (Text = strip(Text); !Text.empty(); Text = strip(Text)) {
    if (Most-- == 0) {
      Parts.push_back(std::string(Text));
      break;
    }
    size_t End = findSpace(Text);
    if (!FromRight) {
      Parts.push_back(std::string(Text.substr(0, End)));
      Text = Text.substr(End);
      continue;
    }
    size_t Begin = 0;
    while (End < Text.size()) {
      Begin = Text.size() - strip(Text.substr(End), true, false).size();
      End = Begin + findSpace(Text.substr(Begin));
    }
    Parts.push_back(std::string(Text.substr(Begin)));
    Text = Text.substr(0, Begin);
  }
  if (FromRight)
    std::reverse(Parts.begin(), Parts.end());
  return Parts;
}

/// str.split() and str.rsplit().
static List splitText(std::string_view Text, const Arguments &Args,
                      bool FromRight, Budget &B) {
  const JinjaValue *By = findArgument(Args, 0, "sep"),
                   *Limit = findArgument(Args, 1, "maxsplit");
  int64_t Most = Limit ? getInteger(*Limit) : -1;
  if (!By || By->is(JinjaValue::None))
    return splitAtSpaces(Text, Most, FromRight);
  const std::string &Separator = getString(*By);
  if (Separator.empty())
    fail("an empty separator");
  List Parts;
  while (Most-- != 0) {
    B.bytes(sizeof(JinjaValue));
    size_t At = FromRight ? Text.rfind(Separator) : Text.find(Separator);
    if (At == Text.npos)
      break;
    std::string_view Before = Text.substr(0, At),
                     Behind = Text.substr(At + Separator.size());
    Parts.push_back(std::string(FromRight ? Behind : Before));
    Text = FromRight ? Before : Behind;
  }
  Parts.push_back(std::string(Text));
  if (FromRight)
    std::reverse(Parts.begin(), Parts.end());
  return Parts;
}

static List splitLines(const std::string &Text, bool KeepsEnds) {
  if (Text.find_first_of("\v\f\x1c\x1d\x1e") != Text.npos ||
      Text.find("\u0085") != Text.npos || Text.find("\u2028") != Text.npos ||
      Text.find("\u2029") != Text.npos)
    fail("splitlines is supported for lines that end in \\n or \\r alone");
  List Lines;
  for (size_t Begin = 0; Begin < Text.size();) {
    size_t End = std::min(Text.find_first_of("\r\n", Begin), Text.size());
    size_t Next = std::min(End + (Text.compare(End, 2, "\r\n") == 0 ? 2 : 1),
                           Text.size());
    Lines.push_back(Text.substr(Begin, (KeepsEnds ? Next : End) - Begin));
    Begin = Next;
  }
  return Lines;
}

static JinjaValue partition(const std::string &Text, const std::string &By,
                            bool FromRight) {
  if (By.empty())
    fail("an empty separator");
  size_t At = FromRight ? Text.rfind(By) : Text.find(By);
  if (At == Text.npos)
    return JinjaValue::tuple(FromRight ? List{"", "", Text}
                                       : List{Text, "", ""});
  return JinjaValue::tuple(
      {Text.substr(0, At), By, Text.substr(At + By.size())});
}

static bool hasAffix(const std::string &Text, const JinjaValue &Affix,
                     bool IsEnd) {
  if (Affix.isTuple()) {
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
    return JinjaValue(Text).countItems() + 1;
  int64_t Count = 0;
  for (size_t At = Text.find(Part); At != Text.npos;
       At = Text.find(Part, At + Part.size()))
    ++Count;
  return Count;
}

/// find, rfind, index and rindex.
static JinjaValue findIn(const std::string &Text, const std::string &Name,
                         const std::string &Part) {
  size_t At = Name[0] == 'r' ? Text.rfind(Part) : Text.find(Part);
  if (At != Text.npos)
    return JinjaValue(Text.substr(0, At)).countItems();
  if (Name == "index" || Name == "rindex")
    fail("the string has no such part");
  return int64_t(-1);
}

static std::string joinAll(const std::string &Text, const JinjaValue &Parts,
                           Budget &B) {
  std::string Result;
  bool IsFirst = true;
  for (const JinjaValue &Each : Parts.iterate(B)) {
    Result += (std::exchange(IsFirst, false) ? "" : Text) + getString(Each);
    B.bytes(Text.size() + Each.string().size());
  }
  return Result;
}

/// isdigit and the like, for ASCII.
static bool isAll(const std::string &Text, const std::string &Name) {
  if (!unicode::isASCII(Text))
    fail(Name, " is supported for ASCII alone");
  auto IsLower = [](char C) { return C >= 'a' && C <= 'z'; };
  auto IsUpper = [](char C) { return C >= 'A' && C <= 'Z'; };
  auto IsDigit = [](char C) { return C >= '0' && C <= '9'; };
  auto All = [&](auto Test) {
    return !Text.empty() && std::all_of(Text.begin(), Text.end(), Test);
  };
  auto Any = [&](auto Test) {
    return std::any_of(Text.begin(), Text.end(), Test);
  };
  if (Name == "isalpha")
    return All([&](char C) { return IsLower(C) || IsUpper(C); });
  if (Name == "isalnum")
    return All([&](char C) { return IsLower(C) || IsUpper(C) || IsDigit(C); });
  if (Name == "isspace")
    return !Text.empty() && strip(Text).empty();
  if (Name == "islower" || Name == "isupper")
    return Name == "islower" ? Any(IsLower) && !Any(IsUpper)
                             : Any(IsUpper) && !Any(IsLower);
  return All(IsDigit); // isdigit, isdecimal, isnumeric
}

//===-- Methods by name ---------------------------------------------------===//

// Methods that change a value are not among them: transformers forbids them.
static constexpr std::string_view OfStrings[] = {
    "capitalize", "count",      "endswith",     "find",         "index",
    "isalnum",    "isalpha",    "isdecimal",    "isdigit",      "islower",
    "isnumeric",  "isspace",    "isupper",      "join",         "lower",
    "lstrip",     "partition",  "removeprefix", "removesuffix", "replace",
    "rfind",      "rindex",     "rpartition",   "rsplit",       "rstrip",
    "split",      "splitlines", "startswith",   "strip",        "title",
    "upper"};
static constexpr std::string_view OfDicts[] = {"copy", "get", "items", "keys",
                                               "values"};
static constexpr std::string_view OfLists[] = {"copy", "count", "index"};
template <size_t N>
static bool isIn(const std::string_view (&Names)[N], const std::string &Name) {
  return std::find(std::begin(Names), std::end(Names), Name) != std::end(Names);
}

static JinjaValue callPlainMethod(const std::string &Text,
                                  const std::string &Name,
                                  const Arguments &Args, Budget &B) {
  B.bytes(Text.size());
  auto First = [&]() -> const JinjaValue & {
    if (Args.Places.empty())
      fail(Name, " needs an argument");
    return Args.Places[0];
  };
  if (Name == "strip" || Name == "lstrip" || Name == "rstrip") {
    bool HasChars =
        !Args.Places.empty() && !Args.Places[0].is(JinjaValue::None);
    std::string Chars = HasChars ? getString(Args.Places[0]) : "";
    return std::string(strip(Text, Name != "rstrip", Name != "lstrip",
                             HasChars ? &Chars : nullptr));
  }
  if (Name == "split" || Name == "rsplit")
    return splitText(Text, Args, Name == "rsplit", B);
  if (Name == "splitlines")
    return splitLines(Text, isSet(Args, 0, "keepends"));
  if (Name == "partition" || Name == "rpartition")
    return partition(Text, getString(First()), Name[0] == 'r');
  if (Name == "startswith" || Name == "endswith")
    return hasAffix(Text, First(), Name[0] == 'e');
  if (Name == "replace") {
    if (Args.Places.size() < 2)
      fail("replace needs two arguments");
    const JinjaValue *Most = findArgument(Args, 2, "count");
    return replaceAll(Text, getString(Args.Places[0]),
                      getString(Args.Places[1]), Most ? getInteger(*Most) : -1,
                      B);
  }
  if (Name == "upper" || Name == "lower")
    return changeCase(Text, Name == "upper");
  if (Name == "capitalize")
    return capitalize(Text);
  if (Name == "title")
    return title(Text);
  if (Name == "find" || Name == "rfind" || Name == "index" || Name == "rindex")
    return findIn(Text, Name, getString(First()));
  if (Name == "count")
    return countIn(Text, getString(First()));
  if (Name == "removeprefix" || Name == "removesuffix") {
    bool IsEnd = Name == "removesuffix";
    size_t Size = getString(First()).size();
    if (!hasAffix(Text, First(), IsEnd))
      return Text;
    return IsEnd ? Text.substr(0, Text.size() - Size) : Text.substr(Size);
  }
  if (Name == "join")
    return joinAll(Text, First(), B);
  return isAll(Text, Name);
}

JinjaValue jinja::callStringMethod(const JinjaValue &Text,
                                   const std::string &Name,
                                   const Arguments &Args, Budget &B) {
  JinjaValue Result = callPlainMethod(Text.string(), Name, Args, B);
  if (!Text.isMarkup())
    return Result;
  if (Name == "join" || Name == "replace")
    fail(Name, " of markup is not supported");
  if (Result.is(JinjaValue::String))
    return JinjaValue::markup(Result.string());
  if (!Result.is(JinjaValue::Sequence))
    return Result;
  List Parts;
  for (const JinjaValue &Each : Result.list())
    Parts.push_back(JinjaValue::markup(Each.string()));
  return Result.isTuple() ? JinjaValue::tuple(std::move(Parts))
                          : JinjaValue(std::move(Parts));
}

JinjaValue jinja::listItems(const JinjaValue &Of) {
  if (!Of.is(JinjaValue::Mapping))
    fail("a ", Of.typeName(), " has no items");
  List Items;
  for (const auto &[Key, Content] : Of.members())
    Items.push_back(JinjaValue::tuple({JinjaValue::fromKey(Key), Content}));
  return JinjaValue::view(std::move(Items));
}

static JinjaValue callDictMethod(const JinjaValue &Object,
                                 const std::string &Name, const Arguments &Args,
                                 Budget &B) {
  if (Name == "copy")
    return Object;
  if (Name == "items")
    return listItems(Object);
  if (Name == "keys")
    return JinjaValue::view(Object.iterate(B));
  if (Name == "values") {
    List Contents;
    for (const auto &Each : Object.members())
      Contents.push_back(Each.second);
    return JinjaValue::view(std::move(Contents));
  }
  if (Args.Places.empty())
    fail("get needs a key");
  const JinjaValue &Key = Args.Places[0];
  bool CanBe = Key.is(JinjaValue::String) || Key.isWhole();
  if (const JinjaValue *Found = CanBe ? Object.find(Key.toKey()) : nullptr)
    return *Found;
  return Args.Places.size() > 1 ? Args.Places[1] : JinjaValue::none();
}

static JinjaValue callListMethod(const JinjaValue &Object,
                                 const std::string &Name, const Arguments &Args,
                                 Budget &B) {
  if (Name == "copy")
    return Object;
  if (Args.Places.empty())
    fail(Name, " needs an argument");
  int64_t Count = 0, Index = 0;
  for (const JinjaValue &Each : Object.list()) {
    if (Each.equals(Args.Places[0], B)) {
      if (Name == "index")
        return Index;
      ++Count;
    }
    ++Index;
  }
  if (Name == "index")
    fail("the list has no such element");
  return Count;
}

JinjaValue jinja::findMethod(const JinjaValue &Object, const std::string &Name,
                             Budget &B) {
  using V = JinjaValue;
  if (Object.is(V::String) && isIn(OfStrings, Name))
    return Function([Object, Name, &B](const Arguments &Args) {
      return callStringMethod(Object, Name, Args, B);
    });
  if (Object.is(V::Mapping) && isIn(OfDicts, Name))
    return Function([Object, Name, &B](const Arguments &Args) {
      return callDictMethod(Object, Name, Args, B);
    });
  if (Object.is(V::Sequence) && !Object.isView() && isIn(OfLists, Name))
    return Function([Object, Name, &B](const Arguments &Args) {
      return callListMethod(Object, Name, Args, B);
    });
  return V();
}
