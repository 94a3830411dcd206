//===- CommandName.h - What lines on the terminal begin with ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMMANDNAME_H
#define POPLAR_RUNTIME_COMMANDNAME_H

#include <cstdio>

namespace poplar::runtime {

/// The command that this process runs. Errors and notes begin with it, also
/// those of signal handlers. It is set once, before there are threads, and
/// points to a literal.
inline const char *CommandName = "train";

/// The stream for notes: the standard output, unless that is for the result
/// alone, as for the text of `sample`. Set where CommandName is set.
inline std::FILE *Notes = stdout;

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_COMMANDNAME_H
