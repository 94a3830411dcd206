//===- Random.cpp - Counter-based random numbers --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace poplar::runtime;

namespace {

/// Pairs that are made at a time: what they need stays in the first cache.
constexpr int64_t BlockPairs = 256;

/// log(X) of a positive X, to 1e-7 of it: X = 2^E (1 + M) with 1 + M in
/// [sqrt(1/2), sqrt(2)), and Cephes' polynomial of M. Additions and
/// multiplications only, which every CPU rounds alike: no library's log.
inline float logarithm(float X) {
  int32_t Bits;
  std::memcpy(&Bits, &X, sizeof(Bits));
  constexpr int32_t SqrtHalf = 0x3F3504F3;
  int32_t E = (Bits - SqrtHalf) >> 23;
  Bits -= E << 23;
  float M, Exponent = static_cast<float>(E);
  std::memcpy(&M, &Bits, sizeof(M));
  M -= 1.0f;
  float P = 7.0376836292e-2f;
  P = P * M - 1.1514610310e-1f;
  P = P * M + 1.1676998740e-1f;
  P = P * M - 1.2420140846e-1f;
  P = P * M + 1.4249322787e-1f;
  P = P * M - 1.6668057665e-1f;
  P = P * M + 2.0000714765e-1f;
  P = P * M - 2.4999993993e-1f;
  P = P * M + 3.3333331174e-1f;
  float Square = M * M;
  float Sum = P * M * Square - 2.12194440e-4f * Exponent - 0.5f * Square;
  return M + Sum + 0.693359375f * Exponent;
}

/// Sine and cosine of T in [-pi/4, pi/4], likewise.
inline float sine(float T) {
  float S = T * T;
  float P = -1.9515295891e-4f;
  P = P * S + 8.3321608736e-3f;
  P = P * S - 1.6666654611e-1f;
  return P * S * T + T;
}
inline float cosine(float T) {
  float S = T * T;
  float P = 2.443315711809948e-5f;
  P = P * S - 1.388731625493765e-3f;
  P = P * S + 4.166664568298827e-2f;
  return P * S * S - 0.5f * S + 1.0f;
}

/// Box and Muller's transform. The radius is from 31 bits of `Bits`, so that
/// numbers reach 6.5; the angle from the others: a quadrant and a place in it.
inline void transform(uint64_t Bits, float StdDev, float *Out) {
  auto Upper = static_cast<int32_t>(static_cast<uint32_t>(Bits >> 33) | 1);
  auto Lower = static_cast<uint32_t>(Bits);
  float U = static_cast<float>(Upper) * 0x1p-31f;
  // A product of U = 1 may be -0.
  float Radius = std::sqrt(std::max(-2.0f * logarithm(U), 0.0f)) * StdDev;
  constexpr float ToAngle = 1.5707963267948966f * 0x1p-32f;
  float T = static_cast<float>(static_cast<int32_t>(Lower << 2)) * ToAngle;
  float S = Radius * sine(T), C = Radius * cosine(T);
  // A quarter of a turn: (c, s) -> (-s, c).
  uint32_t Odd = 0u - (Lower >> 30 & 1), Negative = (Lower >> 31) << 31;
  uint32_t Sine, Cosine;
  std::memcpy(&Sine, &S, sizeof(S));
  std::memcpy(&Cosine, &C, sizeof(C));
  uint32_t First = (Cosine & ~Odd) | ((Sine ^ 0x80000000u) & Odd);
  uint32_t Second = (Sine & ~Odd) | (Cosine & Odd);
  First ^= Negative;
  Second ^= Negative;
  std::memcpy(Out, &First, sizeof(First));
  std::memcpy(Out + 1, &Second, sizeof(Second));
}

} // namespace

void poplar::runtime::fillNormals(float *Out, int64_t First, int64_t Count,
                                  uint64_t Key, float StdDev) {
  uint64_t Bits[BlockPairs];
  // Keys are hashes; hashed again, so that sequences of near keys are apart.
  uint64_t Start = splitmix64(Key) + static_cast<uint64_t>(First / 2);
  for (int64_t Done = 0; Done < Count; Done += 2 * BlockPairs) {
    int64_t Pairs = std::min(BlockPairs, (Count - Done) / 2);
    for (int64_t I = 0; I < Pairs; ++I)
      Bits[I] = splitmix64((Start + static_cast<uint64_t>(Done / 2 + I)) *
                           kGoldenGamma);
    for (int64_t I = 0; I < Pairs; ++I)
      transform(Bits[I], StdDev, Out + Done + 2 * I);
  }
  if (Count % 2) {
    float Pair[2];
    transform(
        splitmix64((Start + static_cast<uint64_t>(Count / 2)) * kGoldenGamma),
        StdDev, Pair);
    Out[Count - 1] = Pair[0];
  }
}

void poplar::runtime::fillUniforms(float *Out, int64_t First, int64_t Count,
                                   uint64_t Key, float StdDev) {
  // For the interval [-1, 1] the deviation is the square root of a third.
  float Half = StdDev * 1.7320508f;
  uint64_t Start = splitmix64(Key) + static_cast<uint64_t>(First);
  for (int64_t I = 0; I < Count; ++I) {
    uint64_t Bits =
        splitmix64((Start + static_cast<uint64_t>(I)) * kGoldenGamma);
    // Odd multiples of 2^-24: exact, and symmetric.
    auto Odd = static_cast<int32_t>(Bits >> 40 | 1) - (1 << 23);
    Out[I] = Half * (static_cast<float>(Odd) * 0x1p-23f);
  }
}

Permutation::Permutation(uint64_t Size, uint64_t Key)
    : Size(Size), Key(Key), HalfBits(1) {
  while (HalfBits < 31 && (uint64_t(1) << (2 * HalfBits)) < Size)
    ++HalfBits;
}

uint64_t Permutation::operator()(uint64_t Index) const {
  uint64_t Mask = (uint64_t(1) << HalfBits) - 1;
  do {
    uint64_t Left = Index >> HalfBits, Right = Index & Mask;
    for (uint64_t Round = 0; Round < 4; ++Round) {
      uint64_t Next = Left ^ (hashCounters(Key, Round, Right) & Mask);
      Left = Right;
      Right = Next;
    }
    Index = Left << HalfBits | Right;
  } while (Index >= Size);
  return Index;
}

int64_t poplar::runtime::shuffleIndex(int64_t Index, int64_t Size,
                                      uint64_t Seed) {
  uint64_t Key =
      hashCounters(Seed, static_cast<uint64_t>(Stream::Shuffle), Index / Size);
  return static_cast<int64_t>(Permutation(static_cast<uint64_t>(Size), Key)(
      static_cast<uint64_t>(Index % Size)));
}
