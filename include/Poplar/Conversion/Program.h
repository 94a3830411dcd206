//===- Program.h - Steps of a planned function ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What --plan-memory and --lower-program both need to know of the ops that are
// left once kernels are formed: calls, linear ops, attention, gradients of
// embeddings.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_PROGRAM_H
#define POPLAR_CONVERSION_PROGRAM_H

#include "Poplar/Runtime/ABI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include <optional>

namespace poplar {

/// The argument of `function` that its result `index` is accumulated into.
std::optional<unsigned> getInPlaceArgument(mlir::func::FuncOp function,
                                           unsigned index);

/// The operand of `op` (a step of a program) whose buffer result `index`
/// shares, because the op accumulates into it.
mlir::OpOperand *getInPlaceOperand(mlir::Operation *op, unsigned index,
                                   mlir::SymbolTableCollection &symbols);

/// The GEMM that an nn.linear or nn.linear_grad_weight is.
std::optional<PoplarGemm> getGemm(mlir::Operation *op);

/// An entry of a planned program's memory dictionary: "fixed", "per_sample",
/// "transient_offset", ... (see --plan-memory).
int64_t getPlannedMemory(mlir::ModuleOp program, llvm::StringRef name);
/// The same of a chunk of a pipeline stage: "slot_bytes", "keeps_sent",
/// "activation_in_bytes", "activation_out_bytes", "gradient_in_bytes",
/// "gradient_out_bytes".
int64_t getPlannedMemory(mlir::ModuleOp program, int64_t chunk,
                         llvm::StringRef name);

/// peak_bytes of rank `rank` of a planned program with a micro-batch of
/// `batch`; INT64_MAX if there are more.
int64_t getPeakBytes(mlir::ModuleOp program, int64_t rank, int64_t batch);

/// What a rank's micro-batches in flight and their messages take, per sample of
/// the largest micro-batch; 0 where all ranks are one group.
int64_t getTurnBytes(mlir::ModuleOp program, int64_t rank);

/// Bytes of what a rank of a planned program holds sharded, behind the batch
/// region (see Runtime/ABI.h), alignment included.
int64_t getShardBytes(mlir::ModuleOp program, int64_t rank);

/// PoplarType of an element type, f32, bf16 or f16.
int32_t getPoplarType(mlir::Type elementType);

/// Bytes of a value for one sample, if its first dimension is the batch
/// (aligned up), or in all; INT64_MAX if they are far beyond kLargestBuffer.
struct BufferSize {
  int64_t bytes;
  bool batched;
};
/// What no temporary may exceed, so that 64 bits hold offsets and sums of them.
inline constexpr int64_t kLargestBuffer = int64_t(1) << 40;
BufferSize getBufferSize(mlir::Type type);

} // namespace poplar

#endif // POPLAR_CONVERSION_PROGRAM_H
