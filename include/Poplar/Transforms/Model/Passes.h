//===- Passes.h - From the model level to train -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_MODEL_PASSES_H
#define POPLAR_TRANSFORMS_MODEL_PASSES_H

#include "Poplar/Support/WordOptions.h"
#include "mlir/Pass/Pass.h"

namespace poplar {

#define GEN_PASS_DECL
#include "Poplar/Transforms/Model/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "Poplar/Transforms/Model/Passes.h.inc"

} // namespace poplar

#endif // POPLAR_TRANSFORMS_MODEL_PASSES_H
