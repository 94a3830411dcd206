//===- Gemm.h - Matrix products by cuBLASLt ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_GEMM_H
#define POPLAR_RUNTIME_CUDA_GEMM_H

#include "Poplar/Runtime/ABI.h"
#include "cuda/Driver.h"

#include <memory>
#include <string>

namespace poplar::runtime::cuda {

/// Operands of a GEMM; null where it has none.
struct GemmOperands {
  const void *A, *B, *Bias;
  void *Aux, *C;
};

/// The GEMMs of a program, each with the algorithm that cuBLASLt chose for its
/// (GEMM, batch) before the loop. Sums are taken in f32.
class CublasCache {
public:
  /// For a chip of compute capability `Capability` (80), with scratch of
  /// `ScratchBytes`, the first `InFront` of which are for quantised operands
  /// once they are written in the other's type. Throws an Error where there is
  /// no cuBLASLt for chip and driver.
  CublasCache(int Capability, int64_t ScratchBytes, int64_t InFront = 0);
  ~CublasCache();

  /// Chooses the algorithm; does nothing if that is done. Throws an Error if
  /// there is none. With `Fuse` of false, a kernel of the runtime does what an
  /// epilogue would.
  void prepare(const PoplarGemm &Gemm, int64_t Batch, bool Fuse = true);
  /// The algorithm of what is prepared, in the library's own numbers.
  std::string describe(const PoplarGemm &Gemm, int64_t Batch) const;
  /// Whether the library does what the GEMM does with the product.
  bool isFused(const PoplarGemm &Gemm, int64_t Batch) const;
  void setScratch(void *Memory);
  /// Bytes of the GPU's memory that it has taken for what is prepared.
  int64_t getOwnBytes() const;
  /// Queues a product. If the library refuses to run it with its epilogue, it
  /// is run without from now on, and a kernel of the runtime does the rest.
  void run(const PoplarGemm &Gemm, const GemmOperands &Operands, int64_t Batch,
           Stream Queue);

private:
  struct Impl;
  std::unique_ptr<Impl> Data;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_GEMM_H
