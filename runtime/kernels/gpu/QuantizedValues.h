//===- QuantizedValues.h - Values of few bits, on a GPU ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The values of a quantised matrix (Runtime/Quantized.h): the same bits in
// every kernel that reads them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_QUANTIZEDVALUES_H
#define POPLAR_RUNTIME_KERNELS_GPU_QUANTIZEDVALUES_H

#include "GPU.h"
#include "Poplar/Runtime/Quantized.h"

namespace poplar {

/// Elements that a thread dequantises. Blocks of NF4 are several threads'.
constexpr int64_t kTogether = POPLAR_DEQUANTIZED_TOGETHER;
static_assert(POPLAR_NF4_BLOCK % kTogether == 0);

/// Where the parts of a quantised matrix are. `tables` has the values of NF4,
/// then those of the dynamic map.
struct QuantizedValues {
  const uint8_t *codes, *scales;
  const float *factors, *mean, *tables;
  int32_t type;
  int64_t columns;

  /// The scale of the element at `i`.
  POPLAR_INLINE float findScale(int64_t i) const {
    const auto *plain = (const float *)scales;
    if (type == POPLAR_INT8)
      return plain[i / columns];
    int64_t block = i / POPLAR_NF4_BLOCK;
    if (type == POPLAR_NF4)
      return plain[block];
    return addExactly(tables[16 + scales[block]] *
                          factors[block / POPLAR_SCALE_BLOCK],
                      *mean);
  }
  /// The value of a code: of four bits, or with a sign.
  POPLAR_INLINE float find(uint32_t code, float scale) const {
    if (type == POPLAR_INT8)
      return float(int8_t(code)) * scale * 7.874015718698502e-3f;
    return tables[code & 15] * scale;
  }
  /// The element at `i` alone.
  POPLAR_INLINE float findOne(int64_t i) const {
    if (type == POPLAR_INT8)
      return find(codes[i], findScale(i));
    return find(codes[i / 2] >> (i % 2 ? 0 : 4), findScale(i));
  }
  /// Those from `i` on, a multiple of kTogether.
  POPLAR_INLINE void findTogether(int64_t i, float (&values)[kTogether]) const {
    float scale = findScale(i);
    if (type == POPLAR_INT8) {
      uint64_t bytes = *(const uint64_t *)(codes + i);
      bool isOneRow = columns % kTogether == 0;
      for (int64_t j = 0; j < kTogether; ++j)
        values[j] = find(uint32_t(bytes >> 8 * j) & 0xFF,
                         isOneRow ? scale : findScale(i + j));
      return;
    }
    // The first of two elements is in the high bits of their byte.
    uint32_t bytes = *(const uint32_t *)(codes + i / 2);
    for (int64_t j = 0; j < kTogether; ++j)
      values[j] = find(bytes >> (8 * (j / 2) + (j % 2 ? 0 : 4)), scale);
  }

private:
  /// Not fused with the multiplication before it.
  static POPLAR_INLINE float addExactly(float a, float b) {
#pragma clang fp contract(off)
    return a + b;
  }
};

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GPU_QUANTIZEDVALUES_H
