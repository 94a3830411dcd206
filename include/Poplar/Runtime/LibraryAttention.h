//===- LibraryAttention.h - Attention by a library of the GPU -----*- C -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_LIBRARYATTENTION_H
#define POPLAR_RUNTIME_LIBRARYATTENTION_H

#include "Poplar/Runtime/ABI.h"

/// Bytes of a sample that cuDNN works in for the gradient of an attention, if
/// the gradient is to repeat to the bit: dy . out of all rows; dS in 16 bits,
/// in whole tiles of 64 queries and 128 keys; dk and dv of each head, if heads
/// share keys; and gaps, because each part begins at a multiple of 256 bytes,
/// and all of them at one of 64. A test compares this with what real libraries
/// ask.
static inline int64_t poplar_attention_workspace(const PoplarAttention *desc) {
  int64_t queries = (desc->seq_len + 63) / 64 * 64,
          keys = (desc->seq_len + 127) / 128 * 128, each;
  each = 2 * queries * keys + 4 * desc->seq_len;
  if (desc->num_heads != desc->num_kv_heads)
    each += 4 * desc->seq_len * desc->head_dim;
  return desc->num_heads * each + 4 * 256;
}

#endif // POPLAR_RUNTIME_LIBRARYATTENTION_H
