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
// is atomic, and sums are those of a CPU to the bit.
//
//===----------------------------------------------------------------------===//

#include "GPU.h"

using namespace poplar;

namespace {
constexpr int32_t kThreads = POPLAR_GPU_EMBEDDING_THREADS;
} // namespace

extern "C" void poplar_gpu_embedding_grad(const PoplarEmbeddingGrad *desc,
                                          void *dy, void *ids, void *acc,
                                          int64_t batch) {
  POPLAR_SHARED int32_t same[kThreads];
  auto *tokens = static_cast<const int32_t *>(ids);
  int64_t count = batch * desc->seq_len, token = blockX();
  int32_t id = tokens[token], thread = threadX();
  int64_t index = id - desc->first_row;
  if (index == desc->padding_idx ||
      (desc->rows && (index < 0 || index >= desc->rows)))
    return;
  for (int64_t from = 0; from < token; from += kThreads)
    if (barrierAny(from + thread < token && tokens[from + thread] == id))
      return;
  float *row = static_cast<float *>(acc) + index * desc->width;
  for (int64_t from = token; from < count; from += kThreads) {
    bool match = from + thread < count && tokens[from + thread] == id;
    if (!barrierAny(match))
      continue;
    same[thread] = match;
    barrier();
    for (int32_t i = 0; i < kThreads; ++i)
      if (same[i])
        for (int64_t column = thread; column < desc->width; column += kThreads)
          row[column] +=
              loadElement(dy, desc->type, (from + i) * desc->width + column);
    barrier();
  }
}
