//===- MatchNames.h - Names that a regular expression matches ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_MATCHNAMES_H
#define POPLAR_TOOLS_MATCHNAMES_H

#include <string>
#include <vector>

/// The names that an expression matches as a whole, as re.fullmatch of Python.
/// Expressions are those of PCRE2, which has the syntax of Python's. `error` is
/// set if `pattern` is none.
std::vector<std::string> matchNames(const std::string &pattern,
                                    const std::vector<std::string> &names,
                                    std::string &error);

#endif // POPLAR_TOOLS_MATCHNAMES_H
