//===- Passes.h - Tables and assembly ---------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_PASSES_H
#define POPLAR_TARGET_PASSES_H

#include "Poplar/Support/WordOptions.h"
#include "mlir/Pass/Pass.h"

namespace poplar {

#define GEN_PASS_DECL
#include "Poplar/Target/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "Poplar/Target/Passes.h.inc"

} // namespace poplar

#endif // POPLAR_TARGET_PASSES_H
