//===- UnknownOption.h - What a command did not take ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_UNKNOWNOPTION_H
#define POPLAR_TOOLS_UNKNOWNOPTION_H

#include <CLI/CLI.hpp>
#include <string>

/// What the command that was given did not take of the command line, in the
/// words of programs that poplar build wrote; empty if there is nothing.
std::string describeExtras(const CLI::App &app);

#endif // POPLAR_TOOLS_UNKNOWNOPTION_H
