//===- GPU.h - A thread of a GPU, for kernels written by hand ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sources beside this one are compiled to bitcode for NVPTX, without CUDA's
// headers, and linked into every image of kernels, where constant descriptors
// specialise them. Nothing in them depends on timing; the one atomic operation
// is raise().
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_GPU_H
#define POPLAR_RUNTIME_KERNELS_GPU_GPU_H

#include "Poplar/Runtime/ABI.h"

namespace poplar {

#define POPLAR_INLINE inline __attribute__((always_inline))
/// Memory that the threads of a block share; not initialised.
#define POPLAR_SHARED                                                          \
  __attribute__((address_space(3), loader_uninitialized)) static

/// Threads that run in step.
constexpr int32_t kWarp = 32;

POPLAR_INLINE int32_t threadX() { return __nvvm_read_ptx_sreg_tid_x(); }
POPLAR_INLINE int32_t threadY() { return __nvvm_read_ptx_sreg_tid_y(); }
POPLAR_INLINE int64_t blockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
POPLAR_INLINE void barrier() { __nvvm_bar_sync(0); }
/// A barrier that tells whether `value` is not 0 in any thread of the block.
POPLAR_INLINE bool barrierAny(bool value) { return __nvvm_bar0_or(value) != 0; }

/// Sets a flag, as other threads may at the same time.
POPLAR_INLINE void raise(int32_t *flag) {
  using Global = __attribute__((address_space(1))) int32_t;
  __atomic_fetch_or((Global *)flag, 1, __ATOMIC_RELAXED);
}

POPLAR_INLINE float shuffleXor(float value, int32_t lanes) {
  return __nvvm_shfl_sync_bfly_f32(-1, value, lanes, kWarp - 1);
}
/// The value of a lane.
POPLAR_INLINE float broadcast(float value, int32_t lane) {
  return __nvvm_shfl_sync_idx_f32(-1, value, lane, kWarp - 1);
}
POPLAR_INLINE float warpSum(float value) {
  for (int32_t lanes = kWarp / 2; lanes; lanes /= 2)
    value += shuffleXor(value, lanes);
  return value;
}
POPLAR_INLINE float warpMax(float value) {
  for (int32_t lanes = kWarp / 2; lanes; lanes /= 2)
    value = __builtin_fmaxf(value, shuffleXor(value, lanes));
  return value;
}

/// Within two units in the last place.
POPLAR_INLINE float exp2(float x) { return __nvvm_ex2_approx_f(x); }
/// Within 2^-21, absolutely.
POPLAR_INLINE float log2(float x) { return __nvvm_lg2_approx_f(x); }

POPLAR_INLINE float asFloat(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// Element `at` of memory of a PoplarType.
POPLAR_INLINE float loadElement(const void *memory, int32_t type, int64_t at) {
  if (type == POPLAR_BF16)
    return asFloat(uint32_t(static_cast<const uint16_t *>(memory)[at]) << 16);
  if (type == POPLAR_F16)
    return static_cast<const _Float16 *>(memory)[at];
  return static_cast<const float *>(memory)[at];
}

/// Rounded to nearest, ties to even.
POPLAR_INLINE void storeElement(void *memory, int32_t type, int64_t at,
                                float value) {
  if (type == POPLAR_F16) {
    static_cast<_Float16 *>(memory)[at] = static_cast<_Float16>(value);
  } else if (type == POPLAR_BF16) {
    uint32_t bits = __builtin_bit_cast(uint32_t, value);
    uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    static_cast<uint16_t *>(memory)[at] =
        uint16_t(value != value ? (bits >> 16) | 0x40 : rounded);
  } else {
    static_cast<float *>(memory)[at] = value;
  }
}

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GPU_GPU_H
