//===- CachedAttention.cpp - Attention of new tokens over caches ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is a new token in one of the heads that share keys and values. Up to
// eight rows are computed at a time, so that what is read of the caches is read
// for all of them. Keys lie transposed in blocks, with positions in the lanes:
// scores need no horizontal operation. Between steps of kStep positions, sums
// are rescaled, as in Attention.cpp.
//
//===----------------------------------------------------------------------===//

#include "Scores.h"

using namespace poplar;

namespace {

static_assert(POPLAR_CACHE_BLOCK == kLanes, "a block of keys is one vector");

constexpr int64_t kStep = 16 * kLanes;

/// The caches of a head, which begins at element `first` of both.
struct Cache {
  const PoplarAttention *desc;
  const void *keys, *values;
  int64_t first;
  bool isBF16;
};

/// Rows under way.
template <int Count> struct Rows {
  /// Scaled queries, and sums of values.
  float queries[Count][POPLAR_MAX_HEAD_DIM];
  float sums[Count][POPLAR_MAX_HEAD_DIM];
  alignas(64) float scores[Count][kStep];
  float maxima[Count], totals[Count];
  /// Positions that each attends over, [begin, end).
  int64_t begin[Count], end[Count];
};

/// Which of the positions from `position` on a row attends over.
template <int Count>
POPLAR_INLINE Ints visible(const Rows<Count> &rows, int64_t r,
                           int64_t position) {
  Ints at = laneNumbers() + int32_t(position);
  return (at >= int32_t(rows.begin[r])) & (at < int32_t(rows.end[r]));
}

/// Scores of `Blocks` blocks of keys, masked, to `at` of each row's.
template <int Count, int Blocks>
POPLAR_INLINE void score(const Cache &cache, Rows<Count> &rows,
                         int64_t position, int64_t at) {
  const int64_t dim = cache.desc->head_dim;
  Floats sums[Blocks][Count];
  for (int b = 0; b < Blocks; ++b)
    for (int r = 0; r < Count; ++r)
      sums[b][r] = Floats{};
  for (int64_t c = 0; c < dim; ++c)
#pragma GCC unroll 8
    for (int b = 0; b < Blocks; ++b) {
      Floats keys = loadElements(cache.keys, cache.isBF16,
                                 cache.first + (position + b * kLanes) * dim +
                                     c * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < Count; ++r)
        sums[b][r] += keys * rows.queries[r][c];
    }
#pragma GCC unroll 8
  for (int b = 0; b < Blocks; ++b)
#pragma GCC unroll 8
    for (int r = 0; r < Count; ++r) {
      Floats scores = sums[b][r];
      if (cache.desc->cap > 0)
        scores = capScores(cache.desc, scores);
      store(rows.scores[r] + at + b * kLanes,
            select(visible(rows, r, position + b * kLanes), scores,
                   splat(kMasked)));
    }
}

/// Turns scores into probabilities but for the total, which is kept apart.
template <int Count>
POPLAR_INLINE void exponentiate(const Cache &cache, Rows<Count> &rows,
                                int64_t count) {
#pragma GCC unroll 1
  for (int r = 0; r < Count; ++r) {
    float *scores = rows.scores[r];
    Floats high = splat(rows.maxima[r]);
    for (int64_t i = 0; i < count; i += kLanes)
      high = poplar::max(high, load(scores + i));
    float top = reduceMax(high);
    float rescale = exp2(splat(rows.maxima[r] - top))[0];
    Floats total = Floats{};
    for (int64_t i = 0; i < count; i += kLanes) {
      Floats p = exp2(load(scores + i) - top);
      total += p;
      store(scores + i, p);
    }
    rows.maxima[r] = top;
    rows.totals[r] = rows.totals[r] * rescale + reduceSum(total);
    for (int64_t c = 0; c < cache.desc->head_dim; ++c)
      rows.sums[r][c] *= rescale;
  }
}

/// Adds values of `count` positions in `Width` vectors of columns.
template <int Count, int Width>
POPLAR_INLINE void addValues(const Cache &cache, Rows<Count> &rows,
                             int64_t position, int64_t count, int64_t column) {
  const int64_t dim = cache.desc->head_dim;
  Floats sums[Count][Width];
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < Width; ++w)
      sums[r][w] = load(rows.sums[r] + column + w * kLanes);
  for (int64_t i = 0; i < count; ++i)
#pragma GCC unroll 8
    for (int w = 0; w < Width; ++w) {
      Floats values = loadElements(cache.values, cache.isBF16,
                                   cache.first + (position + i) * dim + column +
                                       w * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < Count; ++r)
        sums[r][w] += values * rows.scores[r][i];
    }
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < Width; ++w)
      store(rows.sums[r] + column + w * kLanes, sums[r][w]);
}

template <int Count>
POPLAR_INLINE void addValues(const Cache &cache, Rows<Count> &rows,
                             int64_t position, int64_t count) {
  constexpr int wide = Count < 4 ? 4 : 2;
  const int64_t dim = cache.desc->head_dim;
  int64_t c = 0;
  for (; c + wide * kLanes <= dim; c += wide * kLanes)
    addValues<Count, wide>(cache, rows, position, count, c);
  for (; c + kLanes <= dim; c += kLanes)
    addValues<Count, 1>(cache, rows, position, count, c);
  for (; c < dim; ++c)
    for (int64_t i = 0; i < count; ++i) {
      float value = loadElement(cache.values, cache.isBF16,
                                cache.first + (position + i) * dim + c);
#pragma GCC unroll 1
      for (int r = 0; r < Count; ++r)
        rows.sums[r][c] += value * rows.scores[r][i];
    }
}

template <int Count>
POPLAR_INLINE void attend(const Cache &cache, Rows<Count> &rows) {
  // Eight sums in flight cover the latency of an FMA.
  constexpr int blocks = Count < 8 ? 8 / Count : 1;
  int64_t begin = rows.begin[0], end = rows.end[0];
#pragma GCC unroll 1
  for (int r = 0; r < Count; ++r) {
    begin = min(begin, rows.begin[r]);
    end = max(end, rows.end[r]);
    rows.maxima[r] = kMasked;
    rows.totals[r] = 0;
    for (int64_t c = 0; c < cache.desc->head_dim; ++c)
      rows.sums[r][c] = 0;
  }
  for (int64_t position = begin / kLanes * kLanes; position < end;
       position += kStep) {
    int64_t count = min(kStep, end - position), at = 0;
    for (; at + blocks * kLanes <= count; at += blocks * kLanes)
      score<Count, blocks>(cache, rows, position + at, at);
    for (; at < count; at += kLanes)
      score<Count, 1>(cache, rows, position + at, at);
    exponentiate(cache, rows, count);
    addValues(cache, rows, position, count);
  }
}

/// `Count` rows from `row` on: new tokens from `firstToken` on in the heads
/// from `firstHead` on. Not a part of its callers: prompts and single tokens
/// share it. The shapes are scalars, which are found to be constants.
template <int Count>
__attribute__((noinline)) void
computeRows(void *const *args, bool isBF16, int64_t headDim, int64_t qStride,
            int64_t qOffset, int64_t outStride, int64_t group, int64_t window,
            double scale, double cap, bool hasSinks, int64_t firstOfCache,
            int64_t firstToken, int64_t firstHead, int64_t row) {
  PoplarAttention desc = {};
  desc.head_dim = headDim;
  desc.cap = cap;
  const Cache cache{&desc, args[4], args[5], firstOfCache, isBF16};
  const int32_t *positions = static_cast<const int32_t *>(args[3]);
  const float factor = float(scale) * kLog2E;
  Rows<Count> rows;
  int64_t tokens[Count], heads[Count];
#pragma GCC unroll 1
  for (int r = 0; r < Count; ++r) {
    tokens[r] = firstToken + (row + r) / group;
    heads[r] = firstHead + (row + r) % group;
    int64_t position = positions[tokens[r]];
    rows.end[r] = position + 1;
    rows.begin[r] = window > 0 ? max(0, rows.end[r] - window) : 0;
    for (int64_t c = 0; c < headDim; ++c)
      rows.queries[r][c] =
          loadElement(args[0], isBF16,
                      tokens[r] * qStride + qOffset + heads[r] * headDim + c) *
          factor;
  }
  attend(cache, rows);
#pragma GCC unroll 1
  for (int r = 0; r < Count; ++r) {
    float total = rows.totals[r];
    // In base 2, as the scores; rows are not scaled again for a high sink.
    if (hasSinks)
      total += exp2(splat(loadElement(args[7], isBF16, heads[r]) * kLog2E -
                          rows.maxima[r]))[0];
    float inverse = 1.0f / total;
    for (int64_t c = 0; c < headDim; ++c)
      storeElement(args[6], isBF16,
                   tokens[r] * outStride + heads[r] * headDim + c,
                   rows.sums[r][c] * inverse);
  }
}

POPLAR_INLINE int64_t firstOfHead(const PoplarAttention &desc, int64_t sample,
                                  int64_t head) {
  return (sample * desc.num_kv_heads + head) * desc.seq_len * desc.head_dim;
}

} // namespace

extern "C" void poplar_append_cache(const PoplarCachedAttention *desc,
                                    void *const *args, int64_t, int64_t begin,
                                    int64_t end) {
  const PoplarAttention &shapes = desc->attention;
  const int64_t dim = shapes.head_dim;
  const bool isBF16 = shapes.type == POPLAR_BF16;
  const int32_t *positions = static_cast<const int32_t *>(args[3]);
  for (int64_t task = begin; task < end; ++task) {
    int64_t head = task % shapes.num_kv_heads,
            sample = task / shapes.num_kv_heads;
    int64_t first = firstOfHead(shapes, sample, head);
    for (int64_t t = 0; t < desc->tokens; ++t) {
      int64_t token = sample * desc->tokens + t, position = positions[token];
      int64_t key = token * shapes.k_stride + shapes.k_offset + head * dim,
              value = token * shapes.v_stride + shapes.v_offset + head * dim;
      int64_t block = first + position / kLanes * kLanes * dim;
      for (int64_t c = 0; c < dim; ++c) {
        storeElement(args[4], isBF16, block + c * kLanes + position % kLanes,
                     loadElement(args[1], isBF16, key + c));
        storeElement(args[5], isBF16, first + position * dim + c,
                     loadElement(args[2], isBF16, value + c));
      }
    }
  }
}

extern "C" void poplar_cached_attention(const PoplarCachedAttention *desc,
                                        void *const *args, int64_t,
                                        int64_t begin, int64_t end) {
  constexpr int64_t block = POPLAR_CACHED_ATTENTION_BLOCK;
  const PoplarAttention &shapes = desc->attention;
  const int64_t blocks = (desc->tokens + block - 1) / block,
                group = shapes.num_heads / shapes.num_kv_heads;
  for (int64_t i = begin; i < end; ++i) {
    int64_t head = i / blocks % shapes.num_kv_heads,
            sample = i / blocks / shapes.num_kv_heads,
            token = i % blocks * block;
    auto compute = [&](auto function, int64_t row) {
      function(args, shapes.type == POPLAR_BF16, shapes.head_dim,
               shapes.q_stride, shapes.q_offset, shapes.out_stride, group,
               shapes.window, shapes.scale, shapes.cap, desc->sinks != 0,
               firstOfHead(shapes, sample, head), sample * desc->tokens + token,
               head * group, row);
    };
    // Rows are a multiple of the group, so that what is left after eights is.
    int64_t count = min(block, desc->tokens - token) * group, row = 0;
    for (; row + 8 <= count; row += 8)
      compute(computeRows<8>, row);
    if (group % 8 != 0)
      for (; row + 4 <= count; row += 4)
        compute(computeRows<4>, row);
    if (group % 4 != 0)
      for (; row + 2 <= count; row += 2)
        compute(computeRows<2>, row);
    if (group % 2 != 0)
      for (; row < count; ++row)
        compute(computeRows<1>, row);
  }
}
