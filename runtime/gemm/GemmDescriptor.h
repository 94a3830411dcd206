//===- GemmDescriptor.h - A PoplarGemm as a oneDNN matmul -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GEMMDESCRIPTOR_H
#define POPLAR_RUNTIME_GEMMDESCRIPTOR_H

#include "gemm/BlockedGemm.h"

#include <dnnl.hpp>
#include <optional>

namespace poplar::runtime {

/// The vectors with which BlockedGemm.h computes products of `Gemm`, if it does
/// so instead of oneDNN: in f32 without AVX-512.
std::optional<VectorKind> findBlockedKind(const PoplarGemm &Gemm);

/// The process's CPU engine.
const dnnl::engine &getCPUEngine();

/// `Gemm` as a library runs it: a quantised operand has been written in the
/// other's type.
PoplarGemm getPlainGemm(const PoplarGemm &Gemm);

/// Bytes of scratch in front of the library's: for operands that `Gemm`
/// dequantises, or rounds.
int64_t countBytesInFront(const PoplarGemm &Gemm, int64_t Batch);

/// Describes `Gemm` on `Batch` samples with scratch supplied by the caller;
/// throws dnnl::error if oneDNN cannot run it on this CPU. The choice of the
/// implementation depends on the number of OpenMP threads at this moment.
///
/// Transposes are strides. Measured on GPT-2's shapes, oneDNN's blocked
/// ("brgemm") kernels run every combination of them at the speed of the plain
/// layout, packing into the scratch, provided that C is row major: a
/// transposed C falls to the reference loops, a thousand times slower, so
/// operands are never swapped.
dnnl::matmul::primitive_desc describeGemm(const PoplarGemm &Gemm,
                                          int64_t Batch);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GEMMDESCRIPTOR_H
