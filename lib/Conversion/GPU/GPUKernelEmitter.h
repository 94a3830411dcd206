//===- GPUKernelEmitter.h - A kernel as blocks of threads -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state that the ways of cutting a kernel into blocks share. Its member
// functions lie in MapKernelsToGPU.cpp (shape and frame), GPULanes.cpp (what
// one thread loads, computes and stores), GPURows.cpp and GPUColumns.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_GPU_GPUKERNELEMITTER_H
#define POPLAR_LIB_CONVERSION_GPU_GPUKERNELEMITTER_H

#include "Poplar/Conversion/Kernels/KernelEmitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace poplar {

/// Rows of more elements per thread than this are loops, whose values cannot
/// stay in registers.
constexpr int64_t kMostPerThread = 16;
/// LLVM's address space of a GPU's memory, NVIDIA's and AMD's.
constexpr unsigned kGlobalSpace = 1;

/// The values of one thread: a lane each.
using Lanes = mlir::SmallVector<mlir::Value>;

/// One kernel of a gpu.module, being made from a function. How it is cut into
/// blocks and threads: MapKernelsToGPU.cpp.
class GPUKernelEmitter : KernelEmitter {
public:
  GPUKernelEmitter(exec::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                   int64_t subgroup)
      : KernelEmitter(kernel, module, kGlobalSpace), module(module),
        subgroup(subgroup) {}

  mlir::LogicalResult run();

private:
  void chooseShape();
  /// Whether threads can take `lanes` elements of the op's rows at a time.
  bool fitsLanes(mlir::linalg::GenericOp op);
  mlir::LogicalResult emitRows();
  mlir::LogicalResult emitRowOp(mlir::linalg::GenericOp op);
  mlir::LogicalResult emitReduction(mlir::linalg::GenericOp op);
  mlir::LogicalResult emitScalarOp(mlir::linalg::GenericOp op);
  mlir::LogicalResult emitColumns();
  /// `sample` is null if all samples are added up.
  mlir::LogicalResult emitColumnOp(mlir::linalg::GenericOp op,
                                   mlir::Value sample, mlir::Value column,
                                   mlir::Value group);
  mlir::LogicalResult emitPositions();
  mlir::LogicalResult emitPositionOp(mlir::linalg::GenericOp op,
                                     mlir::Value position);
  mlir::LogicalResult emitFlat();

  /// The lanes from `base` on in the innermost dimension. `carried` are the
  /// accumulators, by result; what is not an element of the row is in
  /// `invariants`. Yields by result.
  mlir::FailureOr<mlir::SmallVector<Lanes>>
  emitLanes(mlir::linalg::GenericOp op, mlir::Value base, int64_t count,
            mlir::ArrayRef<Lanes> carried);
  mlir::FailureOr<Lanes> loadLanes(mlir::linalg::GenericOp op,
                                   mlir::OpOperand &operand, mlir::Value base,
                                   int64_t count);
  /// The lanes from `base` on, added up in order over `from`, `from + step`,
  /// ... below `to`, starting with `initial`; `locate` tells the element of
  /// each. What `unrolled` of them read is under way at the same time.
  mlir::FailureOr<mlir::SmallVector<Lanes>> accumulateLanes(
      mlir::linalg::GenericOp op, mlir::Value base, mlir::Value from,
      mlir::Value to, int64_t step, int64_t unrolled,
      mlir::ArrayRef<Lanes> initial,
      llvm::function_ref<mlir::SmallVector<mlir::Value, 3>(mlir::Value)>
          locate);
  mlir::LogicalResult storeLanes(mlir::linalg::GenericOp op, mlir::Value base,
                                 mlir::ArrayRef<Lanes> results);
  mlir::LogicalResult findInvariants(mlir::linalg::GenericOp op);
  /// Calls `body(iteration, base, count)` for the parts of a row of `width`
  /// elements that are this thread's: `lanes` elements each or, of what a long
  /// row has behind the last whole vector, one.
  mlir::LogicalResult forEachPart(
      int64_t width,
      llvm::function_ref<mlir::LogicalResult(int64_t, mlir::Value, int64_t)>
          body);
  mlir::LogicalResult storeScalars(mlir::linalg::GenericOp op);

  /// One set of lanes for each result.
  mlir::SmallVector<Lanes> cut(mlir::ValueRange flat) const {
    mlir::SmallVector<Lanes> values;
    for (size_t i = 0; i < flat.size(); i += lanes) {
      auto slice = flat.slice(i, lanes);
      values.emplace_back(slice.begin(), slice.end());
    }
    return values;
  }
  static mlir::SmallVector<mlir::Value> flatten(mlir::ArrayRef<Lanes> values) {
    mlir::SmallVector<mlir::Value> flat;
    for (const Lanes &lanes : values)
      flat.append(lanes);
    return flat;
  }
  bool isUnrolled(int64_t width) const {
    return llvm::divideCeil(width, threads * lanes) * lanes <= kMostPerThread;
  }
  bool isElement(mlir::linalg::GenericOp op, mlir::OpOperand &operand) const {
    unsigned inner = op.getNumLoops() - 1;
    mlir::AffineMap map = op.getMatchingIndexingMap(&operand);
    if (map.getNumResults() == 0)
      return false;
    mlir::AffineExpr last = map.getResult(map.getNumResults() - 1);
    mlir::AffineExpr dim = mlir::getAffineDimExpr(inner, op.getContext());
    // The index of a head begins at a multiple of its width.
    if (auto sum = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(last);
        sum && sum.getKind() == mlir::AffineExprKind::Add &&
        sum.getRHS() == dim && !sum.getLHS().isFunctionOfDim(inner))
      return true;
    return last == dim;
  }
  mlir::Value less(mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpIOp::create(builder, loc,
                                       mlir::arith::CmpIPredicate::slt, a, b);
  }
  mlir::Value threadIndex(mlir::gpu::Dimension dimension) {
    return mlir::arith::IndexCastOp::create(
        builder, loc, builder.getI64Type(),
        mlir::gpu::ThreadIdOp::create(builder, loc, dimension));
  }
  mlir::Value blockIndex() {
    return mlir::arith::IndexCastOp::create(
        builder, loc, builder.getI64Type(),
        mlir::gpu::BlockIdOp::create(builder, loc, mlir::gpu::Dimension::x));
  }
  mlir::Value multiply(mlir::Value a, int64_t b) {
    return mlir::arith::MulIOp::create(builder, loc, a, constant(b));
  }
  mlir::Value add(mlir::Value a, mlir::Value b) {
    return mlir::arith::AddIOp::create(builder, loc, a, b);
  }

  mlir::gpu::GPUModuleOp module;
  int64_t subgroup;
  exec::KernelKind kind;
  mlir::SmallVector<mlir::linalg::GenericOp> ops;
  /// Elements that a thread takes at a time; threads of a row; rows of a block.
  int64_t lanes = 1, threads = 1, rows = 1;
  mlir::gpu::GPUFuncOp target;
  mlir::Value thread;
  /// Elements of the current row, by iteration; and what a row has one of.
  llvm::DenseMap<mlir::Value, mlir::SmallVector<Lanes>> registers;
  llvm::DenseMap<mlir::Value, mlir::Value> rowScalars;
  /// Operands of the op at hand that do not vary; null for elements.
  mlir::SmallVector<mlir::Value> invariants;
  int64_t iteration = -1;
};

/// How partial results are put together.
struct Combiner {
  mlir::gpu::AllReduceOperation operation;
  /// What changes nothing.
  double neutral;

  mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value a, mlir::Value b) const {
    if (operation == mlir::gpu::AllReduceOperation::ADD)
      return mlir::arith::AddFOp::create(builder, loc, a, b);
    return mlir::arith::MaximumFOp::create(builder, loc, a, b);
  }
};

/// The combiner of result `index`: the body must be `accumulator + ...` or a
/// maximum.
mlir::FailureOr<Combiner> getCombiner(mlir::linalg::GenericOp op,
                                      unsigned index);

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_GPU_GPUKERNELEMITTER_H
