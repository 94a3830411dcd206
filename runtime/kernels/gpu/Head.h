//===- Head.h - What an attention kernel works on ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_HEAD_H
#define POPLAR_RUNTIME_KERNELS_GPU_HEAD_H

#include "GPU.h"
#include "Poplar/Runtime/Dropout.h"

namespace poplar {

/// Score of a masked pair: finite, so that a row masked so far gives no NaN.
constexpr float kMasked = -1e30f;
constexpr float kLog2E = 1.44269504f, kLn2 = 0.69314718f;

POPLAR_INLINE int32_t min(int32_t a, int32_t b) { return a < b ? a : b; }
POPLAR_INLINE int32_t max(int32_t a, int32_t b) { return a > b ? a : b; }

/// Rows of a head in memory: row r has its `dim` columns from
/// first + r * stride on.
struct Matrix {
  void *memory;
  int64_t first, stride;
  int32_t type, dim, rows;

  POPLAR_INLINE float at(int32_t row, int32_t column) const {
    return loadElement(memory, type, first + row * stride + column);
  }
  POPLAR_INLINE void set(int32_t row, int32_t column, float value) const {
    storeElement(memory, type, first + row * stride + column, value);
  }
};

/// The heads of one sample that a block works on.
struct Head {
  const PoplarAttention *desc;
  int64_t sample;
  int32_t head, kvHead;
  uint64_t key;
  /// Of the sample's tokens; read only where documents share samples.
  const int32_t *positions;

  POPLAR_INLINE Head(const PoplarAttention *desc, int64_t sample, int32_t head,
                     const void *keys, const void *positions)
      : desc(desc), sample(sample), head(head),
        kvHead(head / int32_t(desc->num_heads / desc->num_kv_heads)), key(0),
        positions(desc->documents ? static_cast<const int32_t *>(positions) +
                                     sample * desc->seq_len
                               : nullptr) {
    auto *words = static_cast<const uint32_t *>(keys);
    if (desc->dropout > 0)
      key = uint64_t(words[2 * sample + 1]) << 32 | words[2 * sample];
  }
  POPLAR_INLINE Matrix matrix(void *memory, int64_t stride,
                              int64_t offset) const {
    return {memory,
            sample * desc->seq_len * stride + offset,
            stride,
            desc->type,
            int32_t(desc->head_dim),
            int32_t(desc->seq_len)};
  }
  POPLAR_INLINE Matrix queries(void *memory) const {
    return matrix(memory, desc->q_stride,
                  desc->q_offset + head * desc->head_dim);
  }
  POPLAR_INLINE Matrix outputs(void *memory) const {
    return matrix(memory, desc->out_stride, head * desc->head_dim);
  }
  POPLAR_INLINE Matrix keys(void *memory) const {
    return matrix(memory, desc->k_stride,
                  desc->k_offset + kvHead * desc->head_dim);
  }
  POPLAR_INLINE Matrix values(void *memory) const {
    return matrix(memory, desc->v_stride,
                  desc->v_offset + kvHead * desc->head_dim);
  }
  POPLAR_INLINE float *lse(void *memory) const {
    return static_cast<float *>(memory) +
           (sample * desc->num_heads + head) * desc->seq_len;
  }

  /// Where the document of a query begins: at 0, unless documents share samples.
  POPLAR_INLINE int32_t documentStart(int32_t query) const {
    return desc->documents ? query - positions[query] : 0;
  }
  POPLAR_INLINE bool sees(int32_t query, int32_t key) const {
    if (query >= desc->seq_len || key >= desc->seq_len)
      return false;
    if (desc->causal && key > query)
      return false;
    if (key < documentStart(query))
      return false;
    return desc->window <= 0 || query - key < desc->window;
  }
  /// The keys that `rows` queries from `query` on see, from a multiple of
  /// `tile` on; and the other way round. The first query begins no later than
  /// the others, with its document as with its window.
  POPLAR_INLINE int32_t firstKey(int32_t query, int32_t tile) const {
    int32_t first = documentStart(query);
    if (desc->window > 0)
      first = max(first, query - int32_t(desc->window) + 1);
    return first / tile * tile;
  }
  POPLAR_INLINE int32_t endKey(int32_t query, int32_t rows) const {
    int32_t length = int32_t(desc->seq_len);
    return desc->causal ? min(length, query + rows) : length;
  }
  POPLAR_INLINE int32_t firstQuery(int32_t key) const {
    return desc->causal ? key : 0;
  }
  POPLAR_INLINE int32_t endQuery(int32_t key, int32_t rows) const {
    int32_t length = int32_t(desc->seq_len);
    if (desc->window > 0)
      length = min(length, key + rows - 1 + int32_t(desc->window));
    if (!desc->documents)
      return length;
    // Up to where a block of queries begins that is of later documents alone.
    int32_t end = key + rows;
    while (end < length && documentStart(end) < key + rows)
      end += rows;
    return min(end, length);
  }

  /// 1 / (1 - p) where the probability is kept, else 0; drawn as nn.dropout
  /// draws.
  POPLAR_INLINE float dropout(int32_t query, int32_t at) const {
    if (desc->dropout <= 0)
      return 1.0f;
    uint64_t element =
        uint64_t((desc->first_head + head) * desc->seq_len + query) *
            desc->seq_len +
        at;
    uint64_t counter = getFirstDraw(desc->op_id) + element;
    uint64_t bits = mixBits(key + kGoldenGamma * counter) >> 40;
    return int32_t(bits) >= getDropoutThreshold(desc->dropout)
               ? float(1.0 / (1.0 - desc->dropout))
               : 0.0f;
  }
  POPLAR_INLINE float scale() const { return float(desc->scale); }
  /// The score in base 2 of a product of a query and a key, with the cap:
  /// tanh(u) = 1 - 2 / (e^2u + 1).
  POPLAR_INLINE float score(float product) const {
    float score = product * (scale() * kLog2E);
    if (desc->cap <= 0)
      return score;
    float cap = float(desc->cap);
    float power = exp2(score * (2 / cap));
    return (1 - 2 / (power + 1)) * (cap * kLog2E);
  }
  /// The derivative of a score by the product, given the score.
  POPLAR_INLINE float slope(float score) const {
    if (desc->cap <= 0)
      return scale();
    float tanh = score * (1 / (float(desc->cap) * kLog2E));
    return (1 - tanh * tanh) * scale();
  }
};

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GPU_HEAD_H
