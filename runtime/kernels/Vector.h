//===- Vector.h - Sixteen floats at a time ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Vector types of the compiler, which legalises them for the instruction set at
// hand: one register with AVX-512, two with AVX, four with SSE.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_VECTOR_H
#define POPLAR_RUNTIME_KERNELS_VECTOR_H

#include <stdint.h>

#define POPLAR_ALWAYS_INLINE inline __attribute__((always_inline))
#define POPLAR_INLINE static POPLAR_ALWAYS_INLINE

namespace poplar {

constexpr int64_t kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t UInts __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));
typedef uint64_t Longs __attribute__((vector_size(128)));

POPLAR_INLINE Floats load(const float *source) {
  Floats value;
  __builtin_memcpy(&value, source, sizeof(value));
  return value;
}
POPLAR_INLINE void store(float *target, Floats value) {
  __builtin_memcpy(target, &value, sizeof(value));
}
POPLAR_INLINE Floats splat(float value) { return Floats{} + value; }
POPLAR_INLINE Floats select(Ints condition, Floats a, Floats b) {
  return (Floats)((condition & (Ints)a) | (~condition & (Ints)b));
}
POPLAR_INLINE Floats max(Floats a, Floats b) { return select(a > b, a, b); }

/// The value that `combine` makes of all lanes, by halves.
template <typename Function>
POPLAR_INLINE float reduce(Floats v, Function combine) {
  v = combine(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8,
                                         9, 10, 11, 12, 13, 14, 15));
  v = combine(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6,
                                         7, 4, 5, 6, 7));
  v = combine(v, __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2,
                                         3, 2, 3, 2, 3));
  return combine(v, __builtin_shufflevector(v, v, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                            1, 1, 1, 1, 1, 1))[0];
}
POPLAR_INLINE float reduceSum(Floats v) {
  return reduce(v, [](Floats a, Floats b)
                       __attribute__((always_inline)) { return a + b; });
}
POPLAR_INLINE float reduceMax(Floats v) {
  return reduce(v, [](Floats a, Floats b)
                       __attribute__((always_inline)) { return max(a, b); });
}

POPLAR_INLINE float bf16ToFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  __builtin_memcpy(&value, &wide, sizeof(value));
  return value;
}
/// Rounds to nearest even; a NaN stays one.
POPLAR_INLINE uint16_t floatToBF16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  if (value != value)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// Reads an element of an array of f32 or bf16.
POPLAR_INLINE float loadElement(const void *array, bool isBF16, int64_t i) {
  return isBF16 ? bf16ToFloat(static_cast<const uint16_t *>(array)[i])
                : static_cast<const float *>(array)[i];
}
POPLAR_INLINE void storeElement(void *array, bool isBF16, int64_t i,
                                float value) {
  if (isBF16)
    static_cast<uint16_t *>(array)[i] = floatToBF16(value);
  else
    static_cast<float *>(array)[i] = value;
}
POPLAR_INLINE Floats loadElements(const void *array, bool isBF16, int64_t i) {
  if (!isBF16)
    return load(static_cast<const float *>(array) + i);
  Halves bits;
  __builtin_memcpy(&bits, static_cast<const uint16_t *>(array) + i,
                   sizeof(bits));
  return (Floats)(__builtin_convertvector(bits, UInts) << 16);
}

/// 2^x for x <= 0 or so, 0 below the normal numbers. Error under 2 ulp.
POPLAR_INLINE Floats exp2(Floats x) {
  Floats clamped = max(x, splat(-126.0f));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  Floats shifted = clamped + 12582912.0f;
  Floats f = clamped - (shifted - 12582912.0f);
  Ints exponent = (Ints)shifted << 23;
  Floats p = splat(1.5252734e-5f);
  p = p * f + 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 0.24022651f;
  p = p * f + 0.69314718f;
  p = p * f + 1.0f;
  Floats result = (Floats)((Ints)p + exponent);
  return select(x < -126.0f, Floats{}, result);
}

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_VECTOR_H
