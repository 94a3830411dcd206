//===- Random.cpp - Counter-based random numbers --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Random.h"

#include <cmath>

using namespace poplar::runtime;

std::pair<double, double> poplar::runtime::normalPairAt(uint64_t Key,
                                                        uint64_t Pair) {
  double U = 1.0 - toUniform(hashCounters(Key, Pair, 0)); // in (0, 1]
  double Angle = 2.0 * M_PI * toUniform(hashCounters(Key, Pair, 1));
  double Radius = std::sqrt(-2.0 * std::log(U));
  return {Radius * std::cos(Angle), Radius * std::sin(Angle)};
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
