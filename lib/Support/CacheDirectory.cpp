//===- CacheDirectory.cpp - Where Poplar keeps what it found out ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/CacheDirectory.h"
#include "llvm/Support/Process.h"

std::string poplar::findCacheDirectory() {
  auto get = [](const char *name) {
    return llvm::sys::Process::GetEnv(name).value_or("");
  };
  if (std::string own = get("POPLAR_CACHE"); !own.empty())
    return own;
  if (std::string base = get("XDG_CACHE_HOME"); !base.empty())
    return base + "/poplar";
  if (std::string home = get("HOME"); !home.empty())
    return home + "/.cache/poplar";
  return "";
}
