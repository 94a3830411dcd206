//===- Quantized.h - How quantised matrices lie in memory ---------*- C -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formats of bitsandbytes for frozen weights [rows, columns], in one array
// of bytes. Blocks are of successive values, row by row; the last may be
// shorter.
//
//   POPLAR_NF4         4 bits a value, the first of two in the high ones: its
//                      place in poplar_nf4_values. f32 scale for each block of
//                      POPLAR_NF4_BLOCK, its largest magnitude.
//                        value = poplar_nf4_values[code] * scale
//   POPLAR_NF4_DOUBLE  the same, but scales are quantised as well ("double
//                      quantisation", Dettmers et al., QLoRA, 2023): a byte
//                      each, its place in the dynamic map of 8 bits, an f32
//                      factor for each POPLAR_SCALE_BLOCK of them, and the f32
//                      mean of all.
//                        scale = map[code] * factor + mean
//   POPLAR_INT8        the weights of LLM.int8: a byte a value, from -127 to
//                      127. f32 scale for each row, its largest magnitude.
//                        value = code * scale * (1 / 127)
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_QUANTIZED_H
#define POPLAR_RUNTIME_QUANTIZED_H

#include "Poplar/Runtime/Alignment.h"

#define POPLAR_NF4_BLOCK 64
#define POPLAR_SCALE_BLOCK 256
/// Elements that a thread of a GPU dequantises.
#define POPLAR_DEQUANTIZED_TOGETHER 8

/// Moments of AdamW in blocks of POPLAR_STATE_BLOCK elements, each with an f32
/// scale, where the program's description has `state_bits`:
///   moment = map[code] * scale
///   8 bits  a byte an element, its place in the dynamic map of 8 bits, which
///           has signs for the first moment and none for the second (Dettmers
///           et al., 8-bit Optimizers via Block-wise Quantization, 2022). The
///           scale is the largest magnitude.
///   4 bits  the first of two elements in the high bits: places in a dynamic
///           map of 4 bits for the first moment, and in sixteenths for the
///           second (Li et al., Memory Efficient Optimizers with 4-bit States,
///           2023, as torchao has them). The scale is the largest magnitude,
///           and at least 1e-12.
/// Moments of parameters with fewer elements than POPLAR_SMALLEST_BLOCK_STATES
/// are f32, and in 4 bits those of parameters that do not end with a block. In
/// a bucket, the others come first; they, and the shards that begin among them,
/// begin at multiples of a block. Scales lie behind the codes.
#define POPLAR_STATE_BLOCK 256
#define POPLAR_SMALLEST_BLOCK_STATES 4096

/// Bytes of a moment of whole blocks.
static inline int64_t poplar_state_bytes(int32_t bits, int64_t elements) {
  return elements * bits / 8 + elements / POPLAR_STATE_BLOCK * 4;
}

/// Whether moments of a parameter, of which none is cut inside of a block, are
/// in blocks.
static inline int poplar_has_block_states(int32_t bits, int64_t elements) {
  return bits != 0 && elements >= POPLAR_SMALLEST_BLOCK_STATES &&
         (bits != 4 || elements % POPLAR_STATE_BLOCK == 0);
}

/// Where the parts begin, in bytes, each at a multiple of 4: codes of values at
/// 0. `factors` and `mean` are those of POPLAR_NF4_DOUBLE, whose `scales` are
/// bytes. `bytes` is the end.
typedef struct PoplarQuantizedLayout {
  int64_t num_scales, scales, factors, mean, bytes;
} PoplarQuantizedLayout;

/// Whether a part of a tensor of `shape`, ranges [begin, end) of dimension
/// `dim`, ends inside of blocks of `block` successive elements of the whole.
/// Otherwise blocks of the part are blocks of the whole.
static inline int poplar_cuts_blocks(int64_t rank, const int64_t *shape,
                                     int64_t dim, int64_t numRanges,
                                     const int64_t *ranges, int64_t block) {
  int64_t inner = 1, outer = 1;
  for (int64_t d = 0; d < dim; ++d)
    outer *= shape[d];
  for (int64_t d = dim + 1; d < rank; ++d)
    inner *= shape[d];
  if (outer > 1 && shape[dim] * inner % block != 0)
    return 1;
  for (int64_t i = 0; i < 2 * numRanges; ++i) {
    int isEnd = i % 2 == 1 && ranges[i] == shape[dim];
    if (!isEnd && ranges[i] * inner % block != 0)
      return 1;
  }
  return 0;
}

static inline int poplar_is_quantized(int32_t type) {
  return type == POPLAR_NF4 || type == POPLAR_NF4_DOUBLE || type == POPLAR_INT8;
}

static inline PoplarQuantizedLayout
poplar_quantized_layout(int32_t type, int64_t rows, int64_t columns) {
  PoplarQuantizedLayout layout = {0, 0, 0, 0, 0};
  int64_t values = rows * columns;
  if (type == POPLAR_INT8) {
    layout.num_scales = rows;
    layout.scales = (values + 3) / 4 * 4;
    layout.factors = layout.mean = layout.bytes = layout.scales + 4 * rows;
    return layout;
  }
  layout.num_scales = (values + POPLAR_NF4_BLOCK - 1) / POPLAR_NF4_BLOCK;
  layout.scales = ((values + 1) / 2 + 3) / 4 * 4;
  if (type == POPLAR_NF4) {
    layout.factors = layout.mean = layout.bytes =
        layout.scales + 4 * layout.num_scales;
    return layout;
  }
  layout.factors = layout.scales + (layout.num_scales + 3) / 4 * 4;
  layout.mean =
      layout.factors +
      4 * ((layout.num_scales + POPLAR_SCALE_BLOCK - 1) / POPLAR_SCALE_BLOCK);
  layout.bytes = layout.mean + 4;
  return layout;
}

/// Bytes of scratch in which a product has its second operand in the type of
/// the first: 0 if it is not quantised.
static inline int64_t poplar_dequantized_bytes(const PoplarGemm *gemm) {
  if (!poplar_is_quantized(gemm->b_type))
    return 0;
  int64_t width = gemm->a_type == POPLAR_F32 ? 4 : 2;
  return poplar_align(gemm->k * gemm->n * width);
}

#endif // POPLAR_RUNTIME_QUANTIZED_H
