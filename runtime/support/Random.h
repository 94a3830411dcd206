//===- Random.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is no generator state anywhere: each number is a hash of what it is
// for (seed, step, sample, element). So it does not depend on the number of
// threads, on the split of a batch, or on whether a run was resumed.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RANDOM_H
#define POPLAR_RUNTIME_RANDOM_H

#include "Poplar/Runtime/Dropout.h"

#include <cstdint>

namespace poplar::runtime {

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
inline uint64_t splitmix64(uint64_t X) { return mixBits(X + kGoldenGamma); }

/// Hashes a tuple of counters.
template <typename... Ts> uint64_t hashCounters(uint64_t First, Ts... Rest) {
  uint64_t H = splitmix64(First);
  ((H = splitmix64(
        H ^ splitmix64(static_cast<uint64_t>(Rest) + 0xD1B54A32D192ED03u))),
   ...);
  return H;
}

/// The purpose of a random number; the first counter after the seed.
enum class Stream : uint64_t {
  Init = 1,
  Shuffle,
  Dropout,
  Masking,
  Sampling,
  Packing,
  Split
};

/// Uniform in [0, 1), 53 bits.
inline double toUniform(uint64_t Bits) {
  return static_cast<double>(Bits >> 11) * 0x1p-53;
}

/// Elements [First, First + Count) of the normal sequence that is named by
/// `Key`, times `StdDev`; `First` is even. The bits are the same on any CPU and
/// for any split into ranges.
void fillNormals(float *Out, int64_t First, int64_t Count, uint64_t Key,
                 float StdDev);

/// The same of uniform numbers of mean 0.
void fillUniforms(float *Out, int64_t First, int64_t Count, uint64_t Key,
                  float StdDev);

/// A pseudo-random permutation of [0, Size): a four-round Feistel network on
/// the smallest even number of bits, walked along its cycle until it falls
/// inside. Needs no memory, so that shuffling terabytes costs nothing.
class Permutation {
public:
  Permutation(uint64_t Size, uint64_t Key);
  uint64_t operator()(uint64_t Index) const;

private:
  uint64_t Size, Key;
  unsigned HalfBits;
};

/// Which of `Size` samples comes as number `Index` when all of them come once
/// in every pass, each pass in an order of its own.
int64_t shuffleIndex(int64_t Index, int64_t Size, uint64_t Seed);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_RANDOM_H
