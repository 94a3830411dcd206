//===- CachedAttention.cpp - New tokens over caches, on a GPU -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block is a new token in one head. Its warps share the positions of the
// cache, kKeys at a time in turns, with the columns of the head in the lanes;
// at the end their sums are put together in the order of the warps. In a cache
// lie, by sample and key-value head, rows of positions.
//
//===----------------------------------------------------------------------===//

#include "Head.h"

using namespace poplar;

namespace {

constexpr int32_t kWarps = POPLAR_GPU_FLAT_THREADS / kWarp, kKeys = 4;
static_assert(POPLAR_GPU_FLAT_THREADS >= POPLAR_MAX_HEAD_DIM,
              "a thread has at most a column of the result");

POPLAR_INLINE Matrix cacheOf(const Head &head, void *cache) {
  const PoplarAttention *desc = head.desc;
  int64_t number = head.sample * desc->num_kv_heads + head.kvHead;
  return {cache,
          number * desc->seq_len * desc->head_dim,
          desc->head_dim,
          desc->type,
          int32_t(desc->head_dim),
          int32_t(desc->seq_len)};
}

template <int32_t Dim>
POPLAR_INLINE void attend(const PoplarCachedAttention *cached, void *q,
                          void *positions, void *keyCache, void *valueCache,
                          void *out, void *sinks) {
  constexpr int32_t kParts = Dim / kWarp;
  POPLAR_SHARED float highs[kWarps], totals[kWarps], parts[kWarps][Dim];
  const PoplarAttention *desc = &cached->attention;
  int32_t warp = threadY(), lane = threadX(), dim = int32_t(desc->head_dim);
  int64_t row = blockX() / cached->tokens;
  Head head(desc, row / desc->num_heads, int32_t(row % desc->num_heads),
            nullptr, nullptr);
  int64_t token = head.sample * cached->tokens + blockX() % cached->tokens;
  int32_t end = static_cast<const int32_t *>(positions)[token] + 1;
  int32_t begin = desc->window > 0 ? max(0, end - int32_t(desc->window)) : 0;
  Matrix keys = cacheOf(head, keyCache), values = cacheOf(head, valueCache);
  float query[kParts], sums[kParts], high = kMasked, total = 0;
#pragma clang loop unroll(full)
  for (int32_t part = 0; part < kParts; ++part) {
    int32_t column = part * kWarp + lane;
    int64_t at = token * desc->q_stride + desc->q_offset + head.head * dim;
    query[part] = column < dim ? loadElement(q, desc->type, at + column) : 0.0f;
    sums[part] = 0;
  }
  for (int32_t key = begin + warp * kKeys; key < end; key += kWarps * kKeys) {
    float p[kKeys], next = high;
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kKeys; ++i) {
      p[i] = 0;
#pragma clang loop unroll(full)
      for (int32_t part = 0; part < kParts; ++part) {
        int32_t column = part * kWarp + lane;
        if (column < dim)
          p[i] += query[part] * keys.at(min(key + i, end - 1), column);
      }
    }
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kKeys; ++i) {
      float score = head.score(warpSum(p[i]));
      p[i] = key + i < end ? score : kMasked;
      next = __builtin_fmaxf(next, p[i]);
    }
    float rescale = exp2(high - next);
    total *= rescale;
    high = next;
#pragma clang loop unroll(full)
    for (int32_t part = 0; part < kParts; ++part)
      sums[part] *= rescale;
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kKeys; ++i) {
      p[i] = exp2(p[i] - next);
      total += p[i];
#pragma clang loop unroll(full)
      for (int32_t part = 0; part < kParts; ++part) {
        int32_t column = part * kWarp + lane;
        if (column < dim)
          sums[part] += p[i] * values.at(min(key + i, end - 1), column);
      }
    }
  }
  if (lane == 0) {
    highs[warp] = high;
    totals[warp] = total;
  }
#pragma clang loop unroll(full)
  for (int32_t part = 0; part < kParts; ++part)
    parts[warp][part * kWarp + lane] = sums[part];
  barrier();
  int32_t column = warp * kWarp + lane;
  if (column >= dim)
    return;
  float top = kMasked, sum = 0, sink = kMasked;
  if (cached->sinks)
    top = sink = loadElement(sinks, desc->type, head.head) * kLog2E;
  for (float one : highs)
    top = __builtin_fmaxf(top, one);
  total = cached->sinks ? exp2(sink - top) : 0.0f;
  for (int32_t w = 0; w < kWarps; ++w) {
    float factor = exp2(highs[w] - top);
    total += factor * totals[w];
    sum += factor * parts[w][column];
  }
  storeElement(out, desc->type,
               token * desc->out_stride + head.head * dim + column,
               sum / total);
}

} // namespace

/// A thread copies an element of the keys and of the values. Of tokens at one
/// position, which are the same, the first one's are taken.
extern "C" void poplar_gpu_append_cache(const PoplarCachedAttention *cached,
                                        void *, void *k, void *v,
                                        void *positions, void *keyCache,
                                        void *valueCache, void *, void *,
                                        int64_t batch) {
  const PoplarAttention *desc = &cached->attention;
  int64_t width = desc->num_kv_heads * desc->head_dim;
  int64_t i = blockX() * POPLAR_GPU_FLAT_THREADS + threadX();
  if (i >= batch * cached->tokens * width)
    return;
  int64_t token = i / width, column = i % width,
          sample = token / cached->tokens;
  auto *places = static_cast<const int32_t *>(positions);
  for (int64_t other = sample * cached->tokens; other < token; ++other)
    if (places[other] == places[token])
      return;
  int64_t head = sample * desc->num_kv_heads + column / desc->head_dim;
  int64_t to = (head * desc->seq_len + places[token]) * desc->head_dim +
               column % desc->head_dim;
  storeElement(keyCache, desc->type, to,
               loadElement(k, desc->type,
                           token * desc->k_stride + desc->k_offset + column));
  storeElement(valueCache, desc->type, to,
               loadElement(v, desc->type,
                           token * desc->v_stride + desc->v_offset + column));
}

extern "C" void poplar_gpu_cached_attention(const PoplarCachedAttention *desc,
                                            void *q, void *, void *,
                                            void *positions, void *keyCache,
                                            void *valueCache, void *out,
                                            void *sinks, int64_t) {
  if (desc->attention.head_dim <= 64)
    attend<64>(desc, q, positions, keyCache, valueCache, out, sinks);
  else if (desc->attention.head_dim <= 128)
    attend<128>(desc, q, positions, keyCache, valueCache, out, sinks);
  else
    attend<POPLAR_MAX_HEAD_DIM>(desc, q, positions, keyCache, valueCache, out,
                                sinks);
}
