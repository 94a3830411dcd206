//===- Kernels.h - What a kernel is, between the passes ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attributes by which --form-kernels, --plan-memory, --lower-kernels and
// --lower-program speak to each other. See docs/Rationale.md, "Kernels".
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_KERNELS_H
#define POPLAR_CONVERSION_KERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include <optional>

namespace mlir::gpu {
class GPUFuncOp;
} // namespace mlir::gpu

namespace poplar {

/// On a `func.func`: it is an outlined kernel; the value names its kind.
inline constexpr llvm::StringLiteral kKernelAttr = "nn.kernel";
/// On a kernel: independent parts per sample, or in all with kBatchedAttr.
inline constexpr llvm::StringLiteral kPartsAttr = "nn.parts";
inline constexpr llvm::StringLiteral kBatchedAttr = "nn.batched";
/// On a kernel's result: index of the argument it is accumulated into. The
/// result has no buffer of its own.
inline constexpr llvm::StringLiteral kInPlaceAttr = "nn.inplace";
/// On a kernel's or unit's result: indices of arguments whose buffer it may
/// take over, if that argument is not read afterwards.
inline constexpr llvm::StringLiteral kReuseAttr = "nn.reuse";
/// On a function: its kernels must update their arguments in place wherever
/// they may (the optimizer's).
inline constexpr llvm::StringLiteral kInPlaceUpdateAttr = "nn.inplace_update";

/// Memory plan. On an op with results: for each result the byte offset of its
/// buffer per sample, or -1 where the result lives in somebody else's buffer.
inline constexpr llvm::StringLiteral kOffsetsAttr = "nn.offsets";
/// On a call of a unit: offset of the unit's temporaries.
inline constexpr llvm::StringLiteral kScratchAttr = "nn.scratch";
/// On a unit: bytes of temporaries per sample.
inline constexpr llvm::StringLiteral kScratchBytesAttr = "nn.scratch_bytes";
/// On an op that fills a bucket in transient memory: its offset there.
inline constexpr llvm::StringLiteral kTransientAttr = "nn.transient";
/// On an op after which buffers are dead, if the program is to trap reads of
/// them: pairs of offset and bytes, per sample and in transient memory.
inline constexpr llvm::StringLiteral kDeadAttr = "nn.dead";
inline constexpr llvm::StringLiteral kDeadTransientAttr = "nn.dead_transient";
/// On a step (@train, @evaluate, @infer): offsets of its inputs and result.
inline constexpr llvm::StringLiteral kInputOffsetsAttr = "nn.input_offsets";
inline constexpr llvm::StringLiteral kResultOffsetAttr = "nn.result_offset";
/// On @forward of a pipeline stage: where it keeps what @backward reads.
inline constexpr llvm::StringLiteral kResidualOffsetsAttr =
    "nn.residual_offsets";
/// On a bucket: offsets in the fixed region of its whole working copy and
/// gradients, -1 for what is sharded; PoplarType of the working copy.
inline constexpr llvm::StringLiteral kPlacesAttr = "nn.places";
/// On the module: the memory plan as a dictionary.
inline constexpr llvm::StringLiteral kMemoryAttr = "nn.memory";

/// On the module: FLOPs of one sample, forward and backward.
inline constexpr llvm::StringLiteral kFlopsAttr = "nn.flops_per_sample";

/// On a gpu.func: bytes of a launch, and bytes for each sample.
inline constexpr llvm::StringLiteral kGPUBytesAttr = "gpu.bytes";

/// Aligns the last workgroup attribution of `function` for loads of four words.
/// LLVM makes such loads of neighbouring ones without aligning the memory.
void alignLastAttribution(mlir::gpu::GPUFuncOp function);

/// Name of the function that --lower-kernels makes of a kernel.
std::string getKernelBodyName(llvm::StringRef kernel);

/// How a kernel's work is divided into parts that run in any order, in
/// parallel. Each is a loop nest over `linalg` iteration spaces (b, t[, d]).
enum class KernelKind {
  /// (parallel, parallel[, any]): a part is a range of rows (b, t). All ops
  /// of the kernel run for one row before the next begins, so that what is
  /// used inside the kernel only never leaves the cache.
  Rows,
  /// (reduction, reduction, parallel): a part is a range of columns d.
  Columns,
  /// (reduction, parallel, parallel): a part is a range of positions t.
  Positions,
  /// (parallel): a part is a range of elements.
  Flat,
};

llvm::StringRef stringifyKernelKind(KernelKind kind);
std::optional<KernelKind> symbolizeKernelKind(llvm::StringRef name);

/// Kind and number of independent parts of a generic op.
struct KernelDomain {
  KernelKind kind;
  /// Parts per sample if `batched`, else in all.
  int64_t parts;
  bool batched;

  bool operator==(const KernelDomain &o) const {
    return kind == o.kind && parts == o.parts && batched == o.batched;
  }
};

/// Domain of `op`, nothing if it fits none of the kinds.
std::optional<KernelDomain> getKernelDomain(mlir::linalg::GenericOp op);

} // namespace poplar

#endif // POPLAR_CONVERSION_KERNELS_H
