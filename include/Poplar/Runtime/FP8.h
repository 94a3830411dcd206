//===- FP8.h - Operands of products in 8 bits ---------------------*- C -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products whose PoplarGemm says `fp8` round both operands to e4m3
// (Micikevicius et al., FP8 Formats for Deep Learning, 2022: a sign, 4 bits of
// exponent and 3 of fraction, at most 448, no infinity). Each row of op(A) and
// each column of op(B) has a scale of its own, so no row depends on others:
//
//   code    = e4m3(value * 2^e), to nearest, ties to even
//   e       = the largest with (largest magnitude) * 2^e <= 448; at most 48
//   product = sum(code of A * code of B) * 2^-(e of A + e of B), summed in f32
//
// As scales are powers of two, code * 2^-e is exact in f32 and in bf16: where
// there are no units for e4m3, a product of rounded operands is the same. A row
// with an infinity or a NaN becomes NaNs.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_FP8_H
#define POPLAR_RUNTIME_FP8_H

#include "Poplar/Runtime/Alignment.h"

/// Libraries multiply sides that are multiples of this.
#define POPLAR_FP8_SIDE 16
/// Rows of op(A) that a GPU holds in 8 bits at a time.
#define POPLAR_FP8_ROWS 4096

static inline uint32_t poplar_float_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float poplar_bits_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

/// The bits of a magnitude. Those of the larger one are larger; NaN's are the
/// largest.
static inline uint32_t poplar_magnitude_bits(float value) {
  return poplar_float_bits(value) & 0x7FFFFFFFu;
}

/// 2^e for the bits of a row's largest magnitude; NaN if that is not finite.
static inline float poplar_fp8_scale(uint32_t largest) {
  int32_t e;
  if (largest >= 0x7F800000u)
    return poplar_bits_float(0x7FC00000u);
  e = 8 + 127 - (int32_t)(largest >> 23) - ((largest & 0x7FFFFFu) > 0x600000u);
  e = e > 48 ? 48 : e;
  return poplar_bits_float((uint32_t)(e + 127) << 23);
}

/// 2^-e for 2^e; NaN for NaN.
static inline float poplar_fp8_inverse(float scale) {
  return scale == scale
             ? poplar_bits_float((254u << 23) - poplar_float_bits(scale))
             : scale;
}

/// The code of a value that is scaled: of a magnitude of at most 448, or NaN.
static inline uint8_t poplar_fp8_code(float scaled) {
  uint32_t bits = poplar_float_bits(scaled), sign = bits >> 24 & 0x80u,
           magnitude = bits & 0x7FFFFFFFu, code;
  if (magnitude > 0x7F800000u)
    return (uint8_t)(sign | 0x7Fu);
  if (magnitude <
      0x3C800000u) /* 2^-6: in steps of 2^-9, which adding 2^14 leaves */
    code = poplar_float_bits(poplar_bits_float(magnitude) + 16384.0f) -
           0x46800000u;
  else
    code = ((magnitude + 0x7FFFFu + (magnitude >> 20 & 1)) >> 20) - (120u << 3);
  return (uint8_t)(sign | code);
}

static inline float poplar_fp8_value(uint8_t code) {
  uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = code & 0x7Fu;
  if (magnitude == 0x7Fu)
    return poplar_bits_float(0x7FC00000u);
  if (magnitude < 8) {
    float value = (float)magnitude * 0.001953125f;
    return sign ? -value : value;
  }
  return poplar_bits_float(sign | ((magnitude << 20) + (120u << 23)));
}

/// Bytes of scratch in which a CPU has the rounded operands of a product of
/// `batch` samples, each in its own type: op(A)'s, then B's.
static inline int64_t poplar_rounded_bytes_of_a(const PoplarGemm *gemm,
                                                int64_t batch) {
  int64_t width = gemm->a_type == POPLAR_F32 ? 4 : 2;
  return gemm->fp8 ? poplar_align(gemm->m * batch * gemm->k * width) : 0;
}
static inline int64_t poplar_rounded_bytes(const PoplarGemm *gemm,
                                           int64_t batch) {
  int64_t width = gemm->b_type == POPLAR_F32 ? 4 : 2;
  return gemm->fp8 ? poplar_rounded_bytes_of_a(gemm, batch) +
                         poplar_align(gemm->k * gemm->n * width)
                   : 0;
}

/// Where a GPU has codes and 2^-e of both operands, in bytes: of
/// POPLAR_FP8_ROWS rows of A from `codes_a` on, and of B from 0 on. `bytes` is
/// the end; 0 if the product is not of fp8.
typedef struct PoplarFP8Layout {
  int64_t scales_b, codes_a, scales_a, bytes;
} PoplarFP8Layout;

static inline PoplarFP8Layout poplar_fp8_layout(const PoplarGemm *gemm) {
  PoplarFP8Layout layout = {0, 0, 0, 0};
  if (!gemm->fp8)
    return layout;
  layout.scales_b = poplar_align(gemm->n * gemm->k);
  layout.codes_a = layout.scales_b + poplar_align(4 * gemm->n);
  layout.scales_a = layout.codes_a + poplar_align(POPLAR_FP8_ROWS * gemm->k);
  layout.bytes = layout.scales_a + poplar_align(4 * POPLAR_FP8_ROWS);
  return layout;
}

#endif // POPLAR_RUNTIME_FP8_H
