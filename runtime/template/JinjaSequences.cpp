//===- JinjaSequences.cpp - Filters of sequences in chat templates --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaCalls.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <numeric>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

/// The attribute "a.b" of a value; parts of digits are indices.
static JinjaValue getAttribute(JinjaValue From, const JinjaValue &Path,
                               Budget &B) {
  if (Path.isWhole())
    return getItem(From, Path, false, B);
  const std::string &Text = getString(Path);
  for (size_t Begin = 0; Begin <= Text.size();) {
    size_t End = std::min(Text.find('.', Begin), Text.size());
    std::string Part = Text.substr(Begin, End - Begin);
    bool IsIndex = !Part.empty() && Part.size() < 10 &&
                   std::all_of(
                       Part.begin(), Part.end(),
                       [](char C) { return C >= '0' && C <= '9'; });
    JinjaValue Key =
        IsIndex ? JinjaValue(int64_t(std::stoll(Part))) : JinjaValue(Part);
    From = getItem(From, Key, false, B);
    Begin = End + 1;
  }
  return From;
}

/// The argument `attribute` of the value, if it was given, else the value.
static JinjaValue getKey(const JinjaValue &Each, const JinjaValue *Attribute,
                         Budget &B) {
  return Attribute && !Attribute->is(JinjaValue::None)
             ? getAttribute(Each, *Attribute, B)
             : Each;
}

/// The elements of what is true; no elements of None, 0 and the like.
static List iterateIfTrue(const JinjaValue &All, Budget &B) {
  return All.isTrue() ? All.iterate(B) : List();
}

//===-- Choosing ----------------------------------------------------------===//

/// select, reject, selectattr and rejectattr.
template <bool IsKept, bool HasAttribute>
static JinjaValue filterItems(const Arguments &Args, Budget &B) {
  size_t Next = HasAttribute ? 2 : 1;
  if (Args.Places.size() < Next)
    fail("the filter needs the name of an attribute");
  List Kept;
  for (const JinjaValue &Each : iterateIfTrue(Args.Places[0], B)) {
    JinjaValue Subject =
        HasAttribute ? getAttribute(Each, Args.Places[1], B) : Each;
    bool Passes = Subject.isTrue();
    if (Args.Places.size() > Next) {
      Arguments Inner = {{Subject}, Args.Names};
      Inner.Places.insert(Inner.Places.end(),
                          Args.Places.begin() +
                              static_cast<ptrdiff_t>(Next + 1),
                          Args.Places.end());
      Passes = applyTest(getString(Args.Places[Next]), Inner, B);
    }
    if (Passes == IsKept)
      Kept.push_back(Each);
  }
  return JinjaValue::iterator(std::move(Kept));
}

static JinjaValue mapItems(const Arguments &Args, Budget &B) {
  List Result;
  const JinjaValue *Attribute = findArgument(Args, SIZE_MAX, "attribute"),
                   *Default = findArgument(Args, SIZE_MAX, "default");
  if (!Attribute && Args.Places.size() < 2)
    fail("map needs a filter or an attribute");
  for (const JinjaValue &Each : iterateIfTrue(Args.Places[0], B)) {
    if (Attribute) {
      JinjaValue Found = getAttribute(Each, *Attribute, B);
      Result.push_back(Found.is(JinjaValue::Undefined) && Default ? *Default
                                                                  : Found);
      continue;
    }
    Arguments Inner = {{Each}, Args.Names};
    Inner.Places.insert(Inner.Places.end(), Args.Places.begin() + 2,
                        Args.Places.end());
    Result.push_back(applyFilter(getString(Args.Places[1]), Inner, B));
  }
  return JinjaValue::iterator(std::move(Result));
}

static JinjaValue takeFirst(const Arguments &Args, Budget &B) {
  List Items = Args.Places[0].iterate(B);
  return Items.empty() ? JinjaValue::undefined("the first item")
                       : Items.front();
}

static JinjaValue takeLast(const Arguments &Args, Budget &B) {
  if (Args.Places[0].is(JinjaValue::Iterator))
    fail("an iterator has no last item");
  List Items = Args.Places[0].iterate(B);
  return Items.empty() ? JinjaValue::undefined("the last item") : Items.back();
}

//===-- Order -------------------------------------------------------------===//

/// A string in lower case unless case matters, as filters compare.
static JinjaValue fold(const JinjaValue &Key, bool IsExact, Budget &B) {
  return IsExact || !Key.is(JinjaValue::String)
             ? Key
             : callStringMethod(Key, "lower", {}, B);
}

static void sortByKeys(List &Items, const List &Keys, bool IsReversed,
                       Budget &B) {
  std::vector<size_t> Order(Items.size());
  std::iota(Order.begin(), Order.end(), size_t(0));
  // Equal items keep their order, also in reverse.
  std::stable_sort(Order.begin(), Order.end(), [&](size_t X, size_t Y) {
    return IsReversed ? compare(Keys[Y], Keys[X], B) < 0
                      : compare(Keys[X], Keys[Y], B) < 0;
  });
  List Sorted;
  for (size_t I : Order)
    Sorted.push_back(std::move(Items[I]));
  Items.swap(Sorted);
}

static JinjaValue sortItems(const Arguments &Args, Budget &B) {
  List Items = Args.Places[0].iterate(B), Keys;
  bool IsExact = isSet(Args, 2, "case_sensitive");
  const JinjaValue *Attribute = findArgument(Args, 3, "attribute");
  for (const JinjaValue &Each : Items)
    Keys.push_back(fold(getKey(Each, Attribute, B), IsExact, B));
  sortByKeys(Items, Keys, isSet(Args, 1, "reverse"), B);
  return Items;
}

static JinjaValue sortMembers(const Arguments &Args, Budget &B) {
  List Items = listItems(Args.Places[0]).list(), Keys;
  bool IsExact = isSet(Args, 1, "case_sensitive"),
       ByValue = getString(Args, 2, "by", "key") == "value";
  for (const JinjaValue &Each : Items)
    Keys.push_back(fold(Each.list()[ByValue], IsExact, B));
  sortByKeys(Items, Keys, isSet(Args, 3, "reverse"), B);
  return Items;
}

static JinjaValue reverseItems(const Arguments &Args, Budget &B) {
  List Items = Args.Places[0].iterate(B);
  std::reverse(Items.begin(), Items.end());
  if (!Args.Places[0].is(JinjaValue::String))
    return JinjaValue::iterator(std::move(Items));
  std::string Text;
  for (const JinjaValue &Each : Items)
    Text += Each.string();
  return Text;
}

static JinjaValue makeUnique(const Arguments &Args, Budget &B) {
  List Kept, Keys;
  bool IsExact = isSet(Args, 1, "case_sensitive");
  const JinjaValue *Attribute = findArgument(Args, 2, "attribute");
  for (const JinjaValue &Each : Args.Places[0].iterate(B)) {
    JinjaValue Key = fold(getKey(Each, Attribute, B), IsExact, B);
    if (contains(Keys, Key, B))
      continue;
    Keys.push_back(std::move(Key));
    Kept.push_back(Each);
  }
  return JinjaValue::iterator(std::move(Kept));
}

template <int Sign>
static JinjaValue findExtreme(const Arguments &Args, Budget &B) {
  bool IsExact = isSet(Args, 1, "case_sensitive");
  const JinjaValue *Attribute = findArgument(Args, 2, "attribute");
  JinjaValue Best = JinjaValue::undefined("the item"), BestKey;
  for (const JinjaValue &Each : Args.Places[0].iterate(B)) {
    JinjaValue Key = fold(getKey(Each, Attribute, B), IsExact, B);
    if (Best.is(JinjaValue::Undefined) || compare(Key, BestKey, B) * Sign > 0) {
      Best = Each;
      BestKey = std::move(Key);
    }
  }
  return Best;
}

//===-- Others ------------------------------------------------------------===//

static JinjaValue joinItems(const Arguments &Args, Budget &B) {
  const JinjaValue *By = findArgument(Args, 1, "d"),
                   *Attribute = findArgument(Args, 2, "attribute");
  std::string Separator = By ? By->print(B) : "", Result;
  bool IsFirst = true;
  for (const JinjaValue &Each : Args.Places[0].iterate(B)) {
    std::string Part = getKey(Each, Attribute, B).print(B);
    B.bytes(Part.size() + Separator.size());
    Result += (std::exchange(IsFirst, false) ? "" : Separator) + Part;
  }
  return Result;
}

static JinjaValue addItems(const Arguments &Args, Budget &B) {
  const JinjaValue *Attribute = findArgument(Args, 1, "attribute"),
                   *Start = findArgument(Args, 2, "start");
  JinjaValue Sum = Start ? *Start : JinjaValue(int64_t(0));
  for (const JinjaValue &Each : Args.Places[0].iterate(B))
    Sum = calculate("+", Sum, getKey(Each, Attribute, B), B);
  return Sum;
}

static JinjaValue listAll(const Arguments &Args, Budget &B) {
  return Args.Places[0].iterate(B);
}

static JinjaValue listMembers(const Arguments &Args, Budget &) {
  const JinjaValue &A = Args.Places[0];
  return JinjaValue::iterator(
      A.is(JinjaValue::Undefined) ? List() : listItems(A).list());
}

static JinjaValue batch(const Arguments &Args, Budget &B) {
  const JinjaValue *Size = findArgument(Args, 1, "linecount"),
                   *Filler = findArgument(Args, 2, "fill_with");
  int64_t Count = Size ? getInteger(*Size) : 0;
  if (Count < 1)
    fail("batch needs a size");
  List Batches, Last;
  for (JinjaValue &Each : Args.Places[0].iterate(B)) {
    if (static_cast<int64_t>(Last.size()) == Count)
      Batches.push_back(std::exchange(Last, {}));
    Last.push_back(std::move(Each));
  }
  while (Filler && !Filler->is(JinjaValue::None) && !Last.empty() &&
         static_cast<int64_t>(Last.size()) < Count) {
    B.bytes(sizeof(JinjaValue));
    Last.push_back(*Filler);
  }
  if (!Last.empty())
    Batches.push_back(std::move(Last));
  return JinjaValue::iterator(std::move(Batches));
}

/// A list of (key, list), in the order of the keys.
static JinjaValue groupItems(const Arguments &Args, Budget &B) {
  const JinjaValue *Attribute = findArgument(Args, 1, "attribute");
  List Items = Args.Places[0].iterate(B), Keys;
  for (const JinjaValue &Each : Items)
    Keys.push_back(fold(getKey(Each, Attribute, B), false, B));
  sortByKeys(Items, Keys, false, B);
  List Groups, Group;
  auto Close = [&] {
    if (!Group.empty())
      Groups.push_back(JinjaValue::tuple(
          {getKey(Group.front(), Attribute, B), std::exchange(Group, {})}));
  };
  for (JinjaValue &Each : Items) {
    auto Get = [&](const JinjaValue &Item) {
      return fold(getKey(Item, Attribute, B), false, B);
    };
    if (!Group.empty() && !Get(Group.front()).equals(Get(Each), B))
      Close();
    Group.push_back(std::move(Each));
  }
  Close();
  return Groups;
}

SequenceFilter jinja::findSequenceFilter(const std::string &Name) {
  static constexpr std::pair<std::string_view, SequenceFilter> Filters[] = {
      {"select", filterItems<true, false>},
      {"reject", filterItems<false, false>},
      {"selectattr", filterItems<true, true>},
      {"rejectattr", filterItems<false, true>},
      {"map", mapItems},
      {"first", takeFirst},
      {"last", takeLast},
      {"sort", sortItems},
      {"dictsort", sortMembers},
      {"reverse", reverseItems},
      {"unique", makeUnique},
      {"max", findExtreme<1>},
      {"min", findExtreme<-1>},
      {"join", joinItems},
      {"sum", addItems},
      {"list", listAll},
      {"items", listMembers},
      {"batch", batch},
      {"groupby", groupItems}};
  for (auto [Each, Filter] : Filters)
    if (Name == Each)
      return Filter;
  return nullptr;
}
