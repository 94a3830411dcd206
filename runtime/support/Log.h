//===- Log.h - What happens otherwise than one might think ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_LOG_H
#define POPLAR_RUNTIME_LOG_H

#include "support/CommandName.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace poplar::runtime {

/// With POPLAR_VERBOSE=1 in the environment, prints the parts, one after the
/// other, as a line of its own: what was chosen, and why nothing better was.
template <typename... Ts> void log(const Ts &...Parts) {
  const char *Given = std::getenv("POPLAR_VERBOSE");
  if (!Given || std::strcmp(Given, "1") != 0)
    return;
  std::ostringstream OS;
  OS << CommandName << ": ";
  (OS << ... << Parts) << '\n';
  std::fputs(OS.str().c_str(), stderr);
}

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_LOG_H
