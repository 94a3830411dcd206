//===- BlockedGemm.cpp - Products in f32 without AVX-512 ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gemm/BlockedGemm.h"
#include "gemm/BlockedGemmSlice.h"

#include <algorithm>
#include <omp.h>

using namespace poplar::runtime;

BlockedGemm::BlockedGemm(const PoplarGemm &Gemm, int64_t Batch, int Threads,
                         VectorKind Kind)
    : Gemm(Gemm), Threads(Threads), Kind(Kind) {
  if (Gemm.batched == 1)
    this->Gemm.m *= Batch;
  if (Gemm.batched == 2)
    this->Gemm.k *= Batch;
}

int64_t BlockedGemm::getScratchBytes() const {
  return Threads * GemmSlice::countPacked(Gemm) *
         static_cast<int64_t>(sizeof(float));
}

/// Part `Index` of `Count` of a range, cut at multiples of `Grain`.
static std::pair<int64_t, int64_t> cut(int64_t Size, int64_t Grain,
                                       int64_t Index, int64_t Count) {
  int64_t Grains = (Size + Grain - 1) / Grain;
  return {std::min(Grains * Index / Count * Grain, Size),
          std::min(Grains * (Index + 1) / Count * Grain, Size)};
}

void BlockedGemm::run(const float *A, const float *B, const float *Bias,
                      float *C, void *Scratch) const {
  auto RunPart = [&](int64_t Part, int64_t Parts) {
    GemmSlice Slice{&Gemm, A, B, Gemm.has_bias ? Bias : nullptr, C};
    Slice.Packed =
        static_cast<float *>(Scratch) + Part * GemmSlice::countPacked(Gemm);
    Slice.Rows = {0, Gemm.m};
    Slice.Columns = {0, Gemm.n};
    // Every part packs the whole of the operand that it does not cut.
    if (Gemm.m > Gemm.n)
      Slice.Rows = cut(Gemm.m, GemmSlice::Grain, Part, Parts);
    else
      Slice.Columns = cut(Gemm.n, GemmSlice::Grain, Part, Parts);
    if (Slice.Rows.first == Slice.Rows.second ||
        Slice.Columns.first == Slice.Columns.second)
      return;
    if (Kind == VectorKind::AVX2)
      multiplyAVX2(Slice);
    else
      multiplySSE41(Slice);
  };
  if (Threads == 1 || omp_in_parallel())
    return RunPart(0, 1);
#pragma omp parallel num_threads(Threads)
  RunPart(omp_get_thread_num(), omp_get_num_threads());
}
