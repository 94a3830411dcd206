//===- EmbeddingGrad.cpp - Gradient of an embedding -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scatter: the same row may be hit by many tokens, so that parts own columns,
// not tokens. Sums are then in token order whatever the partition.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include "Vector.h"

using namespace poplar;

extern "C" void poplar_embedding_grad(const PoplarEmbeddingGrad *desc,
                                      void *const *args, int64_t batch,
                                      int64_t begin, int64_t end) {
  const int32_t *ids = static_cast<const int32_t *>(args[1]);
  float *accumulator = static_cast<float *>(args[2]);
  const bool isBF16 = desc->type == POPLAR_BF16;
  for (int64_t token = 0; token < batch * desc->seq_len; ++token) {
    int64_t id = ids[token] - desc->first_row;
    if (id == desc->padding_idx || (desc->rows && (id < 0 || id >= desc->rows)))
      continue;
    float *row = accumulator + id * desc->width;
    int64_t at = token * desc->width, d = begin;
    for (; d + kLanes <= end; d += kLanes)
      store(row + d, load(row + d) + loadElements(args[0], isBF16, at + d));
    for (; d < end; ++d)
      row[d] += loadElement(args[0], isBF16, at + d);
  }
}
