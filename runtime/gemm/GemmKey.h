//===- GemmKey.h - What a prepared product was prepared for -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GEMMKEY_H
#define POPLAR_RUNTIME_GEMMKEY_H

#include "Poplar/Runtime/ABI.h"

#include <cstdint>
#include <functional>

namespace poplar::runtime {

/// A product of the program, by its address, on a number of samples.
struct GemmKey {
  const PoplarGemm *Gemm;
  int64_t Batch;
  bool operator==(const GemmKey &Other) const {
    return Gemm == Other.Gemm && Batch == Other.Batch;
  }
};

struct GemmKeyHash {
  size_t operator()(const GemmKey &K) const {
    return std::hash<const void *>()(K.Gemm) ^
           static_cast<size_t>(K.Batch) * 0x9E3779B97F4A7C15u;
  }
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GEMMKEY_H
