//===- QuantizedRows.h - Reading matrices of few bits -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The values of a quantised matrix (Runtime/Quantized.h) where they are used,
// without a copy of the matrix in memory: the same bits as dequantize()'s.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_QUANTIZEDROWS_H
#define POPLAR_RUNTIME_KERNELS_QUANTIZEDROWS_H

#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Runtime/QuantizedMaps.h"
#include "Vector.h"

namespace poplar {

/// Rows of `width` values. Values are rounded to bf16 if they are multiplied by
/// such.
template <int32_t Type> struct QuantizedRows {
  const char *array;
  bool isRounded;
  int64_t width;
  PoplarQuantizedLayout layout;

  static POPLAR_ALWAYS_INLINE QuantizedRows get(const void *array,
                                                bool isRounded, int64_t rows,
                                                int64_t width) {
    return {static_cast<const char *>(array), isRounded, width,
            poplar_quantized_layout(Type, rows, width)};
  }

  /// kLanes values, the first of which has a number in the matrix that is a
  /// multiple of kLanes.
  POPLAR_ALWAYS_INLINE Floats loadVector(int64_t row, int64_t column) const {
    uint64_t i = row * width + column;
    Floats values =
        Type == POPLAR_INT8
            ? loadBytes(i) * readFloat(layout.scales, row) * int8Step
            : loadNF4(i) * getScale(i / POPLAR_NF4_BLOCK);
    return isRounded ? roundToBF16(values) : values;
  }
  /// One value; `width` is a multiple of kLanes.
  POPLAR_ALWAYS_INLINE float load(int64_t row, int64_t column) const {
    return loadVector(row, column / kLanes * kLanes)[column % kLanes];
  }
  /// Writes `count` values of a row.
  POPLAR_ALWAYS_INLINE void read(int64_t row, int64_t column, int64_t count,
                                 float *to) const {
    int64_t i = 0;
    if ((row * width + column) % kLanes == 0)
      for (; i + kLanes <= count; i += kLanes)
        store(to + i, loadVector(row, column + i));
    for (; i < count; ++i)
      to[i] = loadOne(row, column + i);
  }

private:
  static constexpr float int8Step = 7.874015718698502e-3f; // 1 / 127
  static constexpr DynamicMap scaleMap = makeDynamicMap(/*isSigned=*/true);
  static constexpr NF4Pairs nf4Pairs = makeNF4Pairs();

  POPLAR_ALWAYS_INLINE float loadOne(int64_t row, int64_t column) const {
    uint64_t i = row * width + column;
    float value;
    if (Type == POPLAR_INT8) {
      value =
          float(int8_t(array[i])) * readFloat(layout.scales, row) * int8Step;
    } else {
      const float *pair = nf4Pairs.values[uint8_t(array[i / 2])];
      value = pair[i % 2] * getScale(i / POPLAR_NF4_BLOCK);
    }
    return isRounded ? roundToBF16(splat(value))[0] : value;
  }

  POPLAR_ALWAYS_INLINE float readFloat(uint64_t part, uint64_t index) const {
    float value;
    __builtin_memcpy(&value, array + part + index * 4, sizeof(value));
    return value;
  }

  POPLAR_ALWAYS_INLINE Floats loadBytes(uint64_t i) const {
    typedef int8_t Bytes __attribute__((vector_size(16)));
    Bytes codes;
    __builtin_memcpy(&codes, array + i, sizeof(codes));
    return __builtin_convertvector(codes, Floats);
  }

  /// Two values at a time, which a table has for each byte.
  POPLAR_ALWAYS_INLINE Floats loadNF4(uint64_t i) const {
    typedef double Pairs __attribute__((vector_size(64)));
    Pairs pairs;
#pragma GCC unroll 8
    for (int p = 0; p < kLanes / 2; ++p) {
      double pair;
      __builtin_memcpy(&pair, nf4Pairs.values[uint8_t(array[i / 2 + p])],
                       sizeof(pair));
      pairs[p] = pair;
    }
    return (Floats)pairs;
  }

  POPLAR_ALWAYS_INLINE float getScale(uint64_t block) const {
    if (Type == POPLAR_NF4)
      return readFloat(layout.scales, block);
    float scale = scaleMap.values[uint8_t(array[layout.scales + block])] *
                  readFloat(layout.factors, block / POPLAR_SCALE_BLOCK);
    return addExactly(scale, readFloat(layout.mean, 0));
  }

  /// Not fused with the multiplication before it.
  static POPLAR_ALWAYS_INLINE float addExactly(float a, float b) {
#ifdef __clang__
#pragma clang fp contract(off)
#endif
    return a + b;
  }

  static POPLAR_ALWAYS_INLINE Floats roundToBF16(Floats values) {
    UInts bits = (UInts)values;
    return (Floats)((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u);
  }
};

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_QUANTIZEDROWS_H
