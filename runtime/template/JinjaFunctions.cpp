//===- JinjaFunctions.cpp - Functions that templates find -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "template/JinjaCalls.h"
#include "template/JinjaInterpreter.h"

#include <ctime>

using namespace poplar::runtime;
using namespace poplar::runtime::jinja;

/// The members of dict(mapping, name=value, ...), and of a namespace.
static Entries makeMembers(const Arguments &Args) {
  Entries Members;
  for (const JinjaValue &Each : Args.Places) {
    if (!Each.is(JinjaValue::Mapping))
      fail("a ", Each.typeName(), " is no dict");
    for (const auto &[Name, Content] : Each.members())
      addMember(Members, Name, Content);
  }
  for (const auto &[Name, Content] : Args.Names)
    addMember(Members, Name, Content);
  return Members;
}

JinjaValue Interpreter::makeRange(const Arguments &Args) {
  int64_t Bounds[] = {0, 0, 1};
  size_t Count = Args.Places.size();
  for (size_t I = 0; I < Count && I < 3; ++I)
    Bounds[Count == 1 ? 1 : I] = getInteger(Args.Places[I]);
  auto [Begin, End, Step] = Bounds;
  if (Count < 1 || Count > 3 || Step == 0)
    fail("range has one to three arguments, of which the step is not 0");
  List Numbers;
  for (int64_t I = Begin; Step > 0 ? I < End : I > End;) {
    Limits.bytes(4 * sizeof(JinjaValue));
    Numbers.push_back(I);
    if (__builtin_add_overflow(I, Step, &I))
      break;
  }
  return Numbers;
}

JinjaValue Interpreter::formatDate(const Arguments &Args) {
  if (Args.Places.size() != 1)
    fail("strftime_now needs a format");
  Output.IsDated = true;
  std::tm Local = {};
  localtime_r(&Date, &Local);
  char Text[256];
  size_t Size = std::strftime(Text, sizeof Text,
                              getString(Args.Places[0]).c_str(), &Local);
  return std::string(Text, Size);
}

void Interpreter::addFunctions() {
  Root.set("raise_exception", Function([](const Arguments &Args) -> JinjaValue {
             fail("the template says: ",
                  Args.Places.empty() ? "" : getString(Args.Places[0]));
           }));
  Root.set("namespace", Function([this](const Arguments &Args) {
             Spaces.push_back(
                 JinjaValue(makeMembers(Args), JinjaValue::Namespace));
             return Spaces.back();
           }));
  Root.set("dict", Function([](const Arguments &Args) {
             return JinjaValue(makeMembers(Args));
           }));
  Root.set("range",
           Function([this](const Arguments &Args) { return makeRange(Args); }));
  Root.set("strftime_now", Function([this](const Arguments &Args) {
             return formatDate(Args);
           }));
}
