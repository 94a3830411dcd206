//===- JinjaTests.cpp - Tests of chat templates: is NAME ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "template/JinjaCalls.h"

#include <algorithm>
#include <optional>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

/// The test `Name` of one value; none if there is no such test.
static std::optional<bool> testAlone(const std::string &Name,
                                     const JinjaValue &A) {
  using V = JinjaValue;
  if (Name == "defined" || Name == "undefined")
    return A.is(V::Undefined) == (Name == "undefined");
  if (Name == "none")
    return A.is(V::None);
  if (Name == "string")
    return A.is(V::String);
  if (Name == "mapping")
    return A.is(V::Mapping);
  if (Name == "sequence" || Name == "iterable")
    return A.is(V::String) || A.is(V::Mapping) || A.is(V::Undefined) ||
           (A.is(V::Sequence) && !(Name == "sequence" && A.isView())) ||
           (A.is(V::Iterator) && Name == "iterable");
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
  if (Name == "lower" || Name == "upper") {
    const std::string &Text = getString(A);
    auto Has = [&](char First, char Last) {
      return std::any_of(Text.begin(), Text.end(),
                         [&](char C) { return C >= First && C <= Last; });
    };
    return Name == "lower" ? Has('a', 'z') && !Has('A', 'Z')
                           : Has('A', 'Z') && !Has('a', 'z');
  }
  return std::nullopt;
}

bool jinja::applyTest(const std::string &Name, const Arguments &Args,
                      Budget &B) {
  const JinjaValue &A = Args.Places.at(0);
  if (std::optional<bool> Result = testAlone(Name, A))
    return *Result;
  static constexpr std::pair<std::string_view, const char *> Operators[] = {
      {"eq", "=="},      {"equalto", "=="}, {"==", "=="}, {"ne", "!="},
      {"!=", "!="},      {"gt", ">"},       {">", ">"},   {"greaterthan", ">"},
      {"ge", ">="},      {">=", ">="},      {"lt", "<"},  {"<", "<"},
      {"lessthan", "<"}, {"le", "<="},      {"<=", "<="}, {"in", "in"}};
  const JinjaValue *Other = findArgument(Args, 1, "other");
  for (auto [Test, Operator] : Operators)
    if (Name == Test) {
      if (!Other)
        fail("the test '", Name, "' needs an argument");
      return holds(Operator, A, *Other, B);
    }
  if (Name == "sameas" && Other)
    return A.kind() == Other->kind() && A.identity() == Other->identity() &&
           A.equals(*Other, B);
  if (Name == "divisibleby" && Other && getInteger(*Other) != 0)
    return getInteger(A) % getInteger(*Other) == 0;
  fail("the test '", Name, "' is not supported");
}
