//===- Alignment.h - Rounding up to the alignment of buffers ------*- C -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ALIGNMENT_H
#define POPLAR_RUNTIME_ALIGNMENT_H

#include "Poplar/Runtime/ABI.h"

/// The least multiple of POPLAR_ALIGNMENT that has room for `bytes`.
static inline int64_t poplar_align(int64_t bytes) {
  return (bytes + POPLAR_ALIGNMENT - 1) / POPLAR_ALIGNMENT * POPLAR_ALIGNMENT;
}

#endif // POPLAR_RUNTIME_ALIGNMENT_H
