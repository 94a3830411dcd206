//===- Passes.h - Planners that simulate what they choose -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_ALLOCATION_PASSES_H
#define POPLAR_ALLOCATION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace poplar {

#define GEN_PASS_DECL
#include "Poplar/Allocation/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "Poplar/Allocation/Passes.h.inc"

} // namespace poplar

#endif // POPLAR_ALLOCATION_PASSES_H
