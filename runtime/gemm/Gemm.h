//===- Gemm.h - Prepared matrix products ------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GEMM_H
#define POPLAR_RUNTIME_GEMM_H

#include "Poplar/Runtime/ABI.h"

#include <memory>
#include <vector>

namespace poplar::runtime {

/// oneDNN primitives of a program's GEMMs, one per (GEMM, batch), made before
/// the loop so that running one allocates no memory (beside the few hundred
/// bytes in which oneDNN itself passes arguments).
class GemmCache {
public:
  GemmCache();
  ~GemmCache();

  /// Makes the primitive of `Gemm` for `Batch`; does nothing if it exists.
  /// Throws an Error if oneDNN cannot run it here.
  void prepare(const PoplarGemm &Gemm, int64_t Batch);

  /// The most scratch any prepared primitive needs.
  int64_t getScratchBytes() const;
  /// Scratch for all primitives, of at least getScratchBytes() bytes, aligned
  /// to POPLAR_ALIGNMENT.
  void setScratch(void *Memory);
  /// Scratch of its own for what was prepared, where there is no arena.
  void allocateScratch();

  /// A quantised B is first written to the scratch in the type of A.
  void run(const PoplarGemm &Gemm, const void *A, const void *B,
           const void *Bias, void *C, int64_t Batch);

private:
  struct Impl;
  std::unique_ptr<Impl> Data;
};

/// A product of square matrices, to measure rates or to keep cores busy.
class SquareProduct {
public:
  SquareProduct(PoplarType Type, int64_t Size);
  void run();
  double getFlops() const {
    return 2.0 * static_cast<double>(Gemm.m * Gemm.n * Gemm.k);
  }

private:
  PoplarGemm Gemm;
  GemmCache Cache;
  // Zeros cost as much as anything else.
  std::vector<float> A, B, C;
};

/// FLOP/s of a square matrix product on each of the current threads, the best
/// of several short runs, added up: what MFU is measured against. Takes under
/// half a second.
double measurePeakFlops(PoplarType Type);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GEMM_H
