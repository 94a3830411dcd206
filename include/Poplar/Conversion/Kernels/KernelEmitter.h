//===- KernelEmitter.h - Elements of a kernel, in memory --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the loops of a CPU and the threads of a GPU share: where the elements of
// a kernel's tensors are, and the scalar body of an op.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_KERNELS_KERNELEMITTER_H
#define POPLAR_CONVERSION_KERNELS_KERNELEMITTER_H

#include "Poplar/Conversion/Kernels/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::affine {
class AffineApplyOp;
} // namespace mlir::affine

namespace poplar {

class KernelEmitter {
protected:
  /// Where the elements of a tensor of the kernel are.
  struct Storage {
    mlir::Value pointer;
    mlir::RankedTensorType type;
    /// The buffer holds just the current row: the first two indices are void.
    bool rowOnly = false;
  };

  /// Globals go into `symbols`, in an address space of the target's.
  KernelEmitter(exec::KernelOp kernel, mlir::Operation *symbols,
                unsigned constantSpace)
      : source(kernel), symbols(symbols), constantSpace(constantSpace),
        builder(kernel.getContext()), loc(kernel.getLoc()) {}

  /// Gives arguments and results their places, fills and constants their
  /// values. `pointers` are those of the arguments, then of the results that
  /// are not in place.
  void setUpStorage(mlir::ValueRange pointers);

  mlir::Value constant(int64_t value) {
    return mlir::arith::ConstantIntOp::create(builder, loc, value, 64);
  }
  mlir::Value address(const Storage &storage,
                      mlir::ArrayRef<mlir::Value> indices);
  mlir::Value load(const Storage &storage, mlir::ArrayRef<mlir::Value> indices);
  void store(mlir::Value value, const Storage &storage,
             mlir::ArrayRef<mlir::Value> indices);
  /// Indices into an operand for the element at `dims`.
  mlir::FailureOr<mlir::SmallVector<mlir::Value>>
  evaluate(mlir::linalg::GenericOp op, mlir::AffineMap map);
  /// The value of an expression; null if no indexing map of a kernel has it.
  mlir::Value evaluate(mlir::AffineExpr expr);
  llvm::LogicalResult emitApply(mlir::affine::AffineApplyOp op);
  /// Clones the body for the element at `dims`; its arguments are in `scalars`.
  mlir::LogicalResult emitBody(mlir::linalg::GenericOp op,
                               mlir::SmallVectorImpl<mlir::Value> &yields);

  exec::KernelOp source;
  mlir::Operation *symbols;
  unsigned constantSpace;
  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, Storage> storages;
  /// Initial values by linalg.fill.
  llvm::DenseMap<mlir::Value, mlir::Value> fills;
  mlir::IRMapping scalars;
  /// Samples of the micro-batch, i64.
  mlir::Value batch;
  /// Indices of the current element.
  mlir::SmallVector<mlir::Value, 3> dims;
  /// Set while in a loop whose iterations are independent.
  mlir::LLVM::AccessGroupAttr accessGroup;

private:
  mlir::Value addressOfConstant(mlir::DenseElementsAttr value);
};

} // namespace poplar

#endif // POPLAR_CONVERSION_KERNELS_KERNELEMITTER_H
