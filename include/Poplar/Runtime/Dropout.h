//===- Dropout.h - Which elements dropout keeps -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The hash behind dropout, written once for all who compute it: the compiler,
// which builds ops of it, the attention kernels of hosts and GPUs, and the
// runtime, which makes the keys. All have to draw the same mask. A word is
// whatever has the operators ^, >> and * on 64 bits: uint64_t, a vector of
// them, or a value of the IR that is being built.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_DROPOUT_H
#define POPLAR_RUNTIME_DROPOUT_H

#include <stdint.h>

namespace poplar {

/// splitmix64 (Steele, Lea, Flood 2014): its state after n steps is
/// seed + n * kGoldenGamma, so that any element can be drawn alone.
constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15u;

/// The output of splitmix64 in a state.
template <typename Word>
__attribute__((always_inline)) inline Word mixBits(Word z) {
  z = (z ^ (z >> 30)) * uint64_t(0xBF58476D1CE4E5B9u);
  z = (z ^ (z >> 27)) * uint64_t(0x94D049BB133111EBu);
  return z ^ (z >> 31);
}

/// The number of the first element that op `op` draws.
__attribute__((always_inline)) inline constexpr uint64_t
getFirstDraw(int64_t op) {
  return (uint64_t(op) << 40) + 1;
}

/// An element is kept if the upper 24 bits of what it draws are not below this:
/// the least integer that is not below p * 2^24.
__attribute__((always_inline)) inline constexpr int32_t
getDropoutThreshold(double p) {
  double scaled = p * 16777216.0;
  int32_t threshold = int32_t(scaled);
  return threshold + (threshold < scaled);
}

} // namespace poplar

#endif // POPLAR_RUNTIME_DROPOUT_H
