//===- GemmDescriptor.cpp - A PoplarGemm as a oneDNN matmul ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gemm/GemmDescriptor.h"
#include "Poplar/Runtime/Alignment.h"
#include "Poplar/Runtime/FP8.h"
#include "Poplar/Runtime/Quantized.h"
#include "support/ISA.h"

#include <algorithm>
#include <omp.h>

using namespace poplar::runtime;
using dnnl::memory;

const dnnl::engine &poplar::runtime::getCPUEngine() {
  static const dnnl::engine Engine = [] {
    limitLibraries("");
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return Engine;
}

PoplarGemm poplar::runtime::getPlainGemm(const PoplarGemm &Gemm) {
  PoplarGemm Plain = Gemm;
  if (poplar_is_quantized(Gemm.b_type))
    Plain.b_type = Gemm.a_type;
  return Plain;
}

int64_t poplar::runtime::countBytesInFront(const PoplarGemm &Gemm,
                                           int64_t Batch) {
  return poplar_dequantized_bytes(&Gemm) + poplar_rounded_bytes(&Gemm, Batch);
}

std::optional<VectorKind>
poplar::runtime::findBlockedKind(const PoplarGemm &Gemm) {
  getCPUEngine(); // sets the limit
  // Each value is a set of bits, which holds those of the lesser ones.
  static const int Has = static_cast<int>(dnnl::get_effective_cpu_isa());
  auto Includes = [&](dnnl::cpu_isa Isa) {
    return (Has & static_cast<int>(Isa)) == static_cast<int>(Isa);
  };
  if (Gemm.a_type != POPLAR_F32 || Gemm.b_type != POPLAR_F32 ||
      Gemm.c_type != POPLAR_F32 || Includes(dnnl::cpu_isa::avx512_core) ||
      !Includes(dnnl::cpu_isa::sse41))
    return std::nullopt;
  return Includes(dnnl::cpu_isa::avx2) ? VectorKind::AVX2 : VectorKind::SSE41;
}

static memory::data_type getDataType(int32_t Type) {
  switch (Type) {
  case POPLAR_BF16:
    return memory::data_type::bf16;
  case POPLAR_F16:
    return memory::data_type::f16;
  default:
    return memory::data_type::f32;
  }
}

/// A dense [Rows, Columns] matrix, or the transposed view of a dense
/// [Columns, Rows] one.
static memory::desc describeMatrix(int64_t Rows, int64_t Columns, int32_t Type,
                                   bool Transposed) {
  memory::dims Strides =
      Transposed ? memory::dims{1, Rows} : memory::dims{Columns, 1};
  return memory::desc({Rows, Columns}, getDataType(Type), Strides);
}

dnnl::matmul::primitive_desc
poplar::runtime::describeGemm(const PoplarGemm &Gemm, int64_t Batch) {
  int64_t M = Gemm.batched == 1 ? Gemm.m * Batch : Gemm.m;
  int64_t K = Gemm.batched == 2 ? Gemm.k * Batch : Gemm.k;
  memory::desc A = describeMatrix(M, K, Gemm.a_type, Gemm.trans_a);
  memory::desc B = describeMatrix(K, Gemm.n, Gemm.b_type, Gemm.trans_b);
  memory::desc C = describeMatrix(M, Gemm.n, Gemm.c_type, false);

  dnnl::primitive_attr Attributes;
  Attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (Gemm.accumulate) {
    dnnl::post_ops Sum;
    Sum.append_sum(1.0f);
    Attributes.set_post_ops(Sum);
  }
  if (!Gemm.has_bias)
    return {dnnl::matmul::desc(A, B, C), Attributes, getCPUEngine()};
  memory::desc Bias = describeMatrix(1, Gemm.n, Gemm.c_type, false);
  return {dnnl::matmul::desc(A, B, Bias, C), Attributes, getCPUEngine()};
}

/// Asks oneDNN about every batch up to 16, then powers of two and the largest:
/// its blocking, hence its scratch, is not monotone in the batch, but changes
/// little once there are many rows. A batch in between that needs more than
/// this bound gets it from the runtime, before the first step. Returns -1 for
/// a GEMM that oneDNN cannot run on this CPU.
static int64_t getPlainScratchBytes(const PoplarGemm &Gemm, int64_t MaxBatch,
                                    int32_t Threads) {
  if (std::optional<VectorKind> Kind = findBlockedKind(Gemm))
    return BlockedGemm(Gemm, MaxBatch, Threads, *Kind).getScratchBytes();
  // oneDNN plans for OpenMP's current number of threads.
  int PreviousThreads = omp_get_max_threads();
  omp_set_num_threads(Threads);
  int64_t Bytes = 0;
  auto Query = [&](int64_t Batch) {
    size_t Size = describeGemm(Gemm, Batch).scratchpad_desc().get_size();
    Bytes = std::max(Bytes, static_cast<int64_t>(Size));
  };
  try {
    for (int64_t Batch = 1; Batch < MaxBatch;
         Batch = Batch < 16 ? Batch + 1 : Batch * 2)
      Query(Batch);
    Query(std::max<int64_t>(MaxBatch, 1));
  } catch (const dnnl::error &) {
    Bytes = -1;
  }
  omp_set_num_threads(PreviousThreads);
  if (Bytes < 0)
    return Bytes;
  return poplar_align(Bytes);
}

extern "C" int64_t poplar_gemm_scratch_bytes(const PoplarGemm *Gemm,
                                             int64_t MaxBatch,
                                             int32_t Threads) {
  int64_t Bytes = getPlainScratchBytes(getPlainGemm(*Gemm), MaxBatch, Threads);
  return Bytes < 0 ? Bytes : Bytes + countBytesInFront(*Gemm, MaxBatch);
}
