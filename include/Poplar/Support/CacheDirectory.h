//===- CacheDirectory.h - Where Poplar keeps what it found out --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_CACHEDIRECTORY_H
#define POPLAR_SUPPORT_CACHEDIRECTORY_H

#include <string>

namespace poplar {

/// $POPLAR_CACHE, $XDG_CACHE_HOME/poplar or ~/.cache/poplar, as the runtime
/// finds it; empty if no variable names one. It may not exist yet.
std::string findCacheDirectory();

} // namespace poplar

#endif // POPLAR_SUPPORT_CACHEDIRECTORY_H
