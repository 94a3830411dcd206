//===- NNInterfaces.h - Differentiation and cost ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNINTERFACES_H
#define POPLAR_DIALECT_NN_NNINTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/DenseMap.h"

namespace poplar::nn {

/// Cotangents of the values of one function, collected in reverse order.
///
/// Activations collect by `nn.add`. Parameters (values entered through
/// `setAccumulator`) have a running gradient instead: an op that can adds into
/// it directly (destination-passing), so that gradient accumulation over
/// repeated use, tied weights and micro-batches needs no temporary.
class Gradients {
public:
  explicit Gradients(mlir::OpBuilder &builder) : builder(builder) {}

  /// Cotangent of `value`, null if nothing depends on it.
  mlir::Value cotangent(mlir::Value value) const {
    return cotangents.lookup(value);
  }
  /// Adds `gradient` to the cotangent of `value`; for a parameter, adds it to
  /// the running gradient elementwise.
  void add(mlir::Value value, mlir::Value gradient);

  /// Running f32 gradient of a parameter, null if `value` is not one (then the
  /// op must use `add`, or nothing if `value` needs no gradient).
  mlir::Value accumulator(mlir::Value value) const {
    return accumulators.lookup(value);
  }
  void setAccumulator(mlir::Value value, mlir::Value gradient) {
    accumulators[value] = gradient;
  }
  /// False for integer values and for what does not lead to a wanted input;
  /// such operands' gradients need not be built.
  bool isNeeded(mlir::Value value) const;
  void setNeeded(mlir::Value value) { needed[value] = true; }

private:
  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, mlir::Value> cotangents, accumulators;
  llvm::DenseMap<mlir::Value, bool> needed;
};

/// Classes whose speed differs between device types in unlike ways.
enum class OpClass { Gemm, Attention, Row, Gather };

/// FLOPs (a multiply-add is two) and bytes moved to and from memory per
/// sample; `fixedBytes` (parameters) is moved once whatever the batch.
struct OpCost {
  OpClass opClass = OpClass::Row;
  double flops = 0, bytes = 0, fixedBytes = 0;
};

} // namespace poplar::nn

#include "Poplar/Dialect/NN/NNInterfaces.h.inc"

#endif // POPLAR_DIALECT_NN_NNINTERFACES_H
