//===- JinjaCalls.h - What chat templates can call --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operators, filters (`| NAME`), tests (`is NAME`) and methods (`.NAME()`).
// Each throws an Error without a line.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JINJACALLS_H
#define POPLAR_RUNTIME_JINJACALLS_H

#include "template/JinjaValue.h"

namespace poplar::runtime::jinja {

/// Argument number `I`, or that named `Name`; null if it was not given.
const JinjaValue *findArgument(const Arguments &Args, size_t I,
                               std::string_view Name);
const std::string &getString(const JinjaValue &Content);
std::string getString(const Arguments &Args, size_t I, std::string_view Name,
                      const char *Default);
int64_t getInteger(const JinjaValue &Content);
/// Whether argument number `I`, or that named `Name`, is given and true.
bool isSet(const Arguments &Args, size_t I, std::string_view Name);

/// The characters of HTML as entities.
std::string escape(std::string Text);
/// `A Word B` for +, -, *, /, //, %, ** and ~.
JinjaValue calculate(const std::string &Word, const JinjaValue &A,
                     const JinjaValue &B, Budget &Limits);
/// `A Word B` for ==, <, in and the like.
bool holds(const std::string &Word, const JinjaValue &A, const JinjaValue &B,
           Budget &Limits);
/// The parts of a sequence or string from `Bounds[0]` to `Bounds[1]` by steps
/// of `Bounds[2]`; None stands for what is left out.
JinjaValue slice(const JinjaValue &Object, const JinjaValue (&Bounds)[3],
                 Budget &B);
/// `Object[Key]`, or `Object.Key` with `IsDot`, which looks for methods first.
JinjaValue getItem(const JinjaValue &Object, const JinjaValue &Key, bool IsDot,
                   Budget &B);

/// The first argument of filters and tests is what they are applied to.
JinjaValue applyFilter(const std::string &Name, const Arguments &Args,
                       Budget &B);
/// A filter of sequences; none if there is no such filter.
using SequenceFilter = JinjaValue (*)(const Arguments &Args, Budget &B);
SequenceFilter findSequenceFilter(const std::string &Name);
bool applyTest(const std::string &Name, const Arguments &Args, Budget &B);
/// A method of a string, list or dictionary; undefined if there is none.
/// Methods of markup give markup.
JinjaValue findMethod(const JinjaValue &Object, const std::string &Name,
                      Budget &B);
/// `Text` is a string.
JinjaValue callStringMethod(const JinjaValue &Text, const std::string &Name,
                            const Arguments &Args, Budget &B);
/// (key, value) of all members.
JinjaValue listItems(const JinjaValue &Of);

} // namespace poplar::runtime::jinja

#endif // POPLAR_RUNTIME_JINJACALLS_H
