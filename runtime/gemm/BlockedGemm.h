//===- BlockedGemm.h - Products in f32 without AVX-512 ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Below AVX-512, oneDNN's products allocate the memory that they pack operands
// into at every call, and their bits depend on the number of threads and on the
// alignment of the operands. These call Eigen's kernels, which pack into
// scratch that is planned, and an element of C is always the same sum in the
// same order.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_BLOCKEDGEMM_H
#define POPLAR_RUNTIME_BLOCKEDGEMM_H

#include "Poplar/Runtime/ABI.h"

namespace poplar::runtime {

/// The vectors that blocked products are written for.
enum class VectorKind { SSE41, AVX2 };

/// A product of `Gemm` whose sizes are those of a batch.
struct BlockedGemm {
  BlockedGemm(const PoplarGemm &Gemm, int64_t Batch, int Threads,
              VectorKind Kind);

  /// Bytes of scratch, proportional to the number of threads.
  int64_t getScratchBytes() const;
  /// `Scratch` is aligned to POPLAR_ALIGNMENT.
  void run(const float *A, const float *B, const float *Bias, float *C,
           void *Scratch) const;

  PoplarGemm Gemm;
  int Threads;
  VectorKind Kind;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_BLOCKEDGEMM_H
