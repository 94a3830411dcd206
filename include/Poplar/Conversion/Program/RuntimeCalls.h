//===- RuntimeCalls.h - Ops that run as calls -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_PROGRAM_RUNTIMECALLS_H
#define POPLAR_CONVERSION_PROGRAM_RUNTIMECALLS_H

namespace mlir {
class DialectRegistry;
class Operation;
} // namespace mlir

namespace poplar {

/// Says of the ops of nn that no kernel is formed of (products, attention,
/// gradients of embeddings) by which calls they run.
void registerRuntimeCalls(mlir::DialectRegistry &registry);

/// Whether an op is a product whose rows are tokens, of its first operand, or
/// the sum of such products over all tokens.
bool isProductOfTokens(mlir::Operation *op);

/// Says of the ops of an exec.function how they are lowered.
void registerProgramCalls(mlir::DialectRegistry &registry);

/// Both of the ops of linear attention (NNRecurrentOps.td).
void registerRecurrentCalls(mlir::DialectRegistry &registry);

} // namespace poplar

#endif // POPLAR_CONVERSION_PROGRAM_RUNTIMECALLS_H
