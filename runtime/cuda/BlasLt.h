//===- BlasLt.h - cuBLASLt --------------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of its interface that is used, declared here like the driver's
// (cuBLAS 13.0, "Using the cuBLASLt API").
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_BLASLT_H
#define POPLAR_RUNTIME_CUDA_BLASLT_H

#include "cuda/Driver.h"

#include <cstdint>
#include <string>

namespace poplar::runtime::cuda::lt {

/// cublasStatus_t.
using Status = int;
constexpr Status NotSupported = 15;
/// Opaque: handle, layout, description and preference.
using Object = void *;

/// cudaDataType_t, cublasComputeType_t, cublasOperation_t.
constexpr int TypeF32 = 0, TypeF16 = 2, TypeBF16 = 14, TypeE4M3 = 28;
constexpr int ComputeF32 = 68, ComputeTF32 = 77;
constexpr int32_t Plain = 0, Transposed = 1;
/// cublasLtMatmulDescAttributes_t, cublasLtEpilogue_t.
constexpr int TransA = 3, TransB = 4, Epilogue = 7, BiasPointer = 8,
              AuxPointer = 11, AuxLeading = 12;
constexpr uint32_t EpilogueNone = 1, EpilogueBias = 4, EpilogueGeluBias = 36,
                   EpilogueGeluAuxBias = 164, EpilogueGeluGrad = 192,
                   EpilogueBiasGradA = 256, EpilogueBiasGradB = 512;
/// cublasLtMatmulPreferenceAttributes_t; the alignments of A, B, C and D follow
/// each other.
constexpr int MaxWorkspaceBytes = 1, ReductionSchemes = 3, MinAlignmentA = 5;
/// cublasLtReductionScheme_t, how partial sums are added where the sum over K
/// is split: not at all, and in the type that sums are computed in.
constexpr uint32_t NotSplit = 0, SplitInComputeType = 2;

/// cublasLtMatmulAlgoConfigAttributes_t.
constexpr int AlgorithmId = 0, AlgorithmTile = 1, AlgorithmSplitK = 2,
              AlgorithmSwizzling = 4, AlgorithmStages = 6, AlgorithmCluster = 8;

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t Data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  Algorithm Choice;
  size_t WorkspaceBytes;
  Status State;
  float Waves;
  int Reserved[4];
};

#define POPLAR_CUBLASLT(X)                                                     \
  X(cublasLtCreate, Object *)                                                  \
  X(cublasLtDestroy, Object)                                                   \
  X(cublasLtMatrixLayoutCreate, Object *, int, uint64_t, uint64_t, int64_t)    \
  X(cublasLtMatrixLayoutDestroy, Object)                                       \
  X(cublasLtMatmulDescCreate, Object *, int, int)                              \
  X(cublasLtMatmulDescDestroy, Object)                                         \
  X(cublasLtMatmulDescSetAttribute, Object, int, const void *, size_t)         \
  X(cublasLtMatmulPreferenceCreate, Object *)                                  \
  X(cublasLtMatmulPreferenceDestroy, Object)                                   \
  X(cublasLtMatmulPreferenceSetAttribute, Object, int, const void *, size_t)   \
  X(cublasLtMatmulAlgoConfigGetAttribute, const Algorithm *, int, void *,      \
    size_t, size_t *)                                                          \
  X(cublasLtMatmulAlgoGetHeuristic, Object, Object, Object, Object, Object,    \
    Object, Object, int, Heuristic *, int *)                                   \
  X(cublasLtMatmul, Object, Object, const void *, const void *, Object,        \
    const void *, Object, const void *, const void *, Object, void *, Object,  \
    const Algorithm *, void *, size_t, Stream)

/// The functions of the library.
struct BlasLt {
  /// Loads the newest that knows both the chip and the driver.
  explicit BlasLt(int Capability);

#define POPLAR_CUBLASLT_MEMBER(NAME, ...) Status (*NAME)(__VA_ARGS__);
  POPLAR_CUBLASLT(POPLAR_CUBLASLT_MEMBER)
#undef POPLAR_CUBLASLT_MEMBER
  size_t (*cublasLtGetVersion)();
  const char *(*cublasLtGetStatusName)(Status);
  std::string Name;
};

} // namespace poplar::runtime::cuda::lt

#endif // POPLAR_RUNTIME_CUDA_BLASLT_H
