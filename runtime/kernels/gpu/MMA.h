//===- MMA.h - Products on tensor cores -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma.sync.m16n8k16 of bf16 or f16 with sums in f32, for sm_80 and newer (PTX
// ISA 8.7, "Matrix fragments for mma.m16n8k16"). A warp has
//
//   left    16 rows, 16 columns a step:  4 registers of two elements
//   right   16 columns of the left, 8 of the result:  2 registers
//   sums    16 rows, 8 columns:  lane has rows lane / 4 and that + 8, columns
//           2 (lane % 4) and the next
//
// Right operands are rows in shared memory, `stride` elements apart, which start
// at other banks: 16 bytes more than what they hold.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_MMA_H
#define POPLAR_RUNTIME_KERNELS_GPU_MMA_H

#include "GPU.h"

namespace poplar {

/// Elements of 16 bits in shared memory.
using SharedHalf = __attribute__((address_space(3))) uint16_t;

POPLAR_INLINE uint64_t addressOf(const SharedHalf *place) {
  return reinterpret_cast<uint64_t>(place);
}

/// Two numbers in one register, the first in the lower half.
POPLAR_INLINE uint32_t packPair(int32_t type, float first, float second) {
  uint32_t pair;
  if (type == POPLAR_BF16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

/// sums += left . right.
POPLAR_INLINE void multiplyAdd(int32_t type, float (&sums)[4],
                               const uint32_t (&left)[4], uint32_t right0,
                               uint32_t right1) {
#define POPLAR_MMA(TYPE)                                                       \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE          \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "           \
               "{%0, %1, %2, %3};"                                             \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])    \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]),       \
                 "r"(right0), "r"(right1))
  if (type == POPLAR_BF16)
    POPLAR_MMA("bf16");
  else
    POPLAR_MMA("f16");
#undef POPLAR_MMA
}

/// Four matrices of 8 x 8: lanes 8 i to 8 i + 7 name the rows of matrix i.
POPLAR_INLINE void loadMatrices(uint32_t (&parts)[4], const SharedHalf *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
               "[%4];"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "l"(addressOf(row))
               : "memory");
}
POPLAR_INLINE void loadTransposed(uint32_t (&parts)[4],
                                  const SharedHalf *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, "
               "%3}, [%4];"
               : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
               : "l"(addressOf(row))
               : "memory");
}

/// Copies 16 bytes, or zeros where not `inside`, while the thread goes on.
POPLAR_INLINE void copyAsync(SharedHalf *to, const void *from, bool inside) {
  using Global = const __attribute__((address_space(1))) void;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "l"(addressOf(to)),
                 "l"(reinterpret_cast<uint64_t>((Global *)from)),
                 "r"(inside ? 16 : 0)
               : "memory");
}
/// Ends a group of copies.
POPLAR_INLINE void endCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for this thread's copies but the last groups.
template <int32_t Groups> POPLAR_INLINE void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

/// 16 rows in registers.
template <int32_t Steps> struct LeftRegisters {
  uint32_t data[Steps][4];
  POPLAR_INLINE void get(int32_t step, uint32_t (&left)[4]) const {
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < 4; ++i)
      left[i] = data[step][i];
  }
};

/// The same in shared memory, from `rows` on.
template <int32_t Stride> struct LeftShared {
  const SharedHalf *rows;
  POPLAR_INLINE void get(int32_t step, uint32_t (&left)[4]) const {
    int32_t lane = threadX();
    loadMatrices(left, rows + lane % 16 * Stride + 16 * step + lane / 16 * 8);
  }
};

/// The same where shared memory holds the columns as rows.
template <int32_t Stride> struct LeftTransposed {
  const SharedHalf *rows;
  POPLAR_INLINE void get(int32_t step, uint32_t (&left)[4]) const {
    int32_t lane = threadX();
    loadTransposed(left, rows +
                             (16 * step + lane / 16 * 8 + lane % 8) * Stride +
                             lane / 8 % 2 * 8);
  }
};

/// Sums of a product before, rounded.
template <int32_t K> struct LeftSums {
  int32_t type;
  const float (&sums)[K][4];
  POPLAR_INLINE void get(int32_t step, uint32_t (&left)[4]) const {
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < 4; ++i) {
      const float(&part)[4] = sums[2 * step + i / 2];
      left[i] = packPair(type, part[i % 2 * 2], part[i % 2 * 2 + 1]);
    }
  }
};

/// sums[16, N] += left . (N rows of shared memory)^T, over 16 Steps columns.
template <int32_t Steps, int32_t Stride, int32_t N, typename Left>
POPLAR_INLINE void multiplyRows(int32_t type, float (&sums)[N][4],
                                const Left &left, const SharedHalf *rows) {
  int32_t lane = threadX();
  const SharedHalf *own =
      rows + (lane / 16 * 8 + lane % 8) * Stride + lane / 8 % 2 * 8;
#pragma clang loop unroll(full)
  for (int32_t step = 0; step < Steps; ++step) {
    uint32_t a[4];
    left.get(step, a);
#pragma clang loop unroll(full)
    for (int32_t n = 0; n < N; n += 2) {
      uint32_t b[4];
      loadMatrices(b, own + 8 * n * Stride + 16 * step);
      multiplyAdd(type, sums[n], a, b[0], b[1]);
      multiplyAdd(type, sums[n + 1], a, b[2], b[3]);
    }
  }
}

/// sums[16, 8 N] += left . (16 Steps rows of shared memory).
template <int32_t Steps, int32_t Stride, int32_t N, typename Left>
POPLAR_INLINE void multiplyColumns(int32_t type, float (&sums)[N][4],
                                   const Left &left, const SharedHalf *rows) {
  int32_t lane = threadX();
  const SharedHalf *own = rows + lane % 16 * Stride + lane / 16 * 8;
#pragma clang loop unroll(full)
  for (int32_t step = 0; step < Steps; ++step) {
    uint32_t a[4];
    left.get(step, a);
#pragma clang loop unroll(full)
    for (int32_t n = 0; n < N; n += 2) {
      uint32_t b[4];
      loadTransposed(b, own + 16 * step * Stride + 8 * n);
      multiplyAdd(type, sums[n], a, b[0], b[1]);
      multiplyAdd(type, sums[n + 1], a, b[2], b[3]);
    }
  }
}

/// sums[16, 8 N] += weights[16, 8 K] . (8 K rows of shared memory), where
/// weights are sums of a product before, rounded.
template <int32_t Stride, int32_t N, int32_t K>
POPLAR_INLINE void multiplyColumns(int32_t type, float (&sums)[N][4],
                                   const float (&weights)[K][4],
                                   const SharedHalf *rows) {
  multiplyColumns<K / 2, Stride>(type, sums, LeftSums<K>{type, weights}, rows);
}

/// The lane's row of sums, the other one being 8 further; the first of its two
/// columns.
POPLAR_INLINE int32_t quad() { return threadX() / 4; }
POPLAR_INLINE int32_t pairColumn() { return threadX() % 4 * 2; }

/// Over the four lanes that share rows of sums.
POPLAR_INLINE float quadSum(float value) {
  value += shuffleXor(value, 1);
  return value + shuffleXor(value, 2);
}
POPLAR_INLINE float quadMax(float value) {
  value = __builtin_fmaxf(value, shuffleXor(value, 1));
  return __builtin_fmaxf(value, shuffleXor(value, 2));
}

template <int32_t N> POPLAR_INLINE void clear(float (&sums)[N][4]) {
#pragma clang loop unroll(full)
  for (auto &sum : sums)
#pragma clang loop unroll(full)
    for (float &value : sum)
      value = 0;
}

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GPU_MMA_H
