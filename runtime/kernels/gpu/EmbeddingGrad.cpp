//===- EmbeddingGrad.cpp - Gradient of an embedding on a GPU --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scatter: the same row may be hit by many tokens. The block of the first of
// them adds them all, in their order; the others' blocks do nothing. So nothing
// is atomic, and sums are those of a CPU to the bit. A block lists the tokens
// of its row, so that it reads several of them at a time.
//
//===----------------------------------------------------------------------===//

#include "GPU.h"

using namespace poplar;

namespace {
constexpr int32_t kThreads = POPLAR_GPU_EMBEDDING_THREADS;
constexpr int32_t kWarps = kThreads / kWarp;
/// Tokens that a thread compares at a time.
constexpr int32_t kCompared = 4;
/// Columns of a thread, which are in registers while tokens are added.
constexpr int32_t kColumns = 8;

POPLAR_INLINE bool isFirst(const int32_t *tokens, int64_t token) {
  for (int64_t from = 0; from < token; from += kCompared * kThreads) {
    bool isSame = false;
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kCompared; ++i) {
      int64_t other = from + i * kThreads + threadX();
      isSame |= other < token && tokens[other] == tokens[token];
    }
    if (barrierAny(isSame))
      return false;
  }
  return true;
}

/// Lists those of kThreads tokens from `from` on that are `id`, in order;
/// returns how many there are.
POPLAR_INLINE int32_t list(const int32_t *tokens, int64_t from, int64_t count,
                           int32_t id,
                           __attribute__((address_space(3))) int32_t *places) {
  POPLAR_SHARED int32_t counts[kWarps];
  int32_t thread = threadX(), lane = thread % kWarp;
  bool isSame = from + thread < count && tokens[from + thread] == id;
  uint32_t lanes = ballot(isSame);
  if (lane == 0)
    counts[thread / kWarp] = countBits(lanes);
  if (!barrierAny(isSame))
    return 0;
  int32_t before = 0, all = 0;
#pragma clang loop unroll(full)
  for (int32_t warp = 0; warp < kWarps; ++warp) {
    before += warp < thread / kWarp ? counts[warp] : 0;
    all += counts[warp];
  }
  if (isSame)
    places[before + countBits(lanes & ((1u << lane) - 1))] = thread;
  barrier();
  return all;
}
} // namespace

extern "C" void poplar_gpu_embedding_grad(const PoplarEmbeddingGrad *desc,
                                          void *dy, void *ids, void *acc,
                                          int64_t batch) {
  POPLAR_SHARED int32_t places[kThreads];
  auto *tokens = static_cast<const int32_t *>(ids);
  int64_t count = batch * desc->seq_len, token = blockX();
  int32_t id = tokens[token];
  int64_t index = id - desc->first_row;
  if (index == desc->padding_idx ||
      (desc->rows && (index < 0 || index >= desc->rows)))
    return;
  if (!isFirst(tokens, token))
    return;
  float *row = static_cast<float *>(acc) + index * desc->width;
  for (int64_t first = threadX(); first - threadX() < desc->width;
       first += kColumns * kThreads) {
    float sums[kColumns];
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kColumns; ++i)
      if (int64_t column = first + i * kThreads; column < desc->width)
        sums[i] = row[column];
    for (int64_t from = token; from < count; from += kThreads) {
      int32_t same = list(tokens, from, count, id, places);
#pragma clang loop unroll_count(4)
      for (int32_t next = 0; next < same; ++next) {
        int64_t begin = (from + places[next]) * desc->width;
#pragma clang loop unroll(full)
        for (int32_t i = 0; i < kColumns; ++i)
          if (int64_t column = first + i * kThreads; column < desc->width)
            sums[i] += loadElement(dy, desc->type, begin + column);
      }
    }
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kColumns; ++i)
      if (int64_t column = first + i * kThreads; column < desc->width)
        row[column] = sums[i];
  }
}
