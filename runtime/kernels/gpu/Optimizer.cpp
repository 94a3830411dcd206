//===- Optimizer.cpp - What surrounds the optimizer, on a GPU -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GPU.h"

using namespace poplar;

/// A block is a chunk; its threads' sums are added in a fixed order.
extern "C" void poplar_gpu_sum_squares(const void *, void *values, void *sums,
                                       int64_t count) {
  constexpr int32_t kThreads = POPLAR_GPU_FLAT_THREADS;
  POPLAR_SHARED double partial[kThreads];
  int64_t first = blockX() * POPLAR_SUM_CHUNK;
  int64_t end = first + POPLAR_SUM_CHUNK;
  end = end < count ? end : count;
  int32_t thread = threadX();
  double sum = 0;
  auto add = [&](int64_t i) {
    double value = static_cast<const float *>(values)[i];
    sum += value * value;
  };
  if (end - first == POPLAR_SUM_CHUNK) {
    // Several are on their way at a time; they are added in order.
#pragma clang loop unroll_count(16)
    for (int32_t i = 0; i < POPLAR_SUM_CHUNK; i += kThreads)
      add(first + thread + i);
  } else {
    for (int64_t i = first + thread; i < end; i += kThreads)
      add(i);
  }
  partial[thread] = sum;
  for (int32_t half = kThreads / 2; half; half /= 2) {
    barrier();
    if (thread < half)
      partial[thread] += partial[thread + half];
  }
  if (thread == 0)
    static_cast<double *>(sums)[blockX()] = partial[0];
}

extern "C" void poplar_gpu_scale(const void *, void *values, void *factor,
                                 void *flag, int64_t count) {
  int64_t i = blockX() * POPLAR_GPU_FLAT_THREADS + threadX();
  if (i >= count)
    return;
  float product =
      static_cast<float *>(values)[i] * *static_cast<const float *>(factor);
  static_cast<float *>(values)[i] = product;
  if (product - product != 0) // infinite, or NaN
    raise(static_cast<int32_t *>(flag));
}
