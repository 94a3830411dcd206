//===- Output.h - Several files at once -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_OUTPUT_H
#define POPLAR_TOOLS_OUTPUT_H

#include <string>
#include <utility>
#include <vector>

/// Contents by path, as writeFile() takes them. Writes all, or leaves all old
/// ones; returns false, with `error` set, if it cannot.
bool writeFiles(const std::vector<std::pair<std::string, std::string>> &files,
                std::string &error);

#endif // POPLAR_TOOLS_OUTPUT_H
