//===- CommStatistics.cpp - What communication took -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/CommStatistics.h"

#include <algorithm>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

const char *comm::getName(Collective::Kind K) {
  constexpr const char *Names[] = {"all-gather", "reduce-scatter", "all-reduce",
                                   "send",       "receive",        "exchange"};
  return Names[K];
}

double CommStatistics::getThreadSeconds() const {
  double Sum = 0;
  for (const PerKind &K : Kinds)
    Sum += K.ThreadSeconds;
  return Sum;
}

double CommStatistics::getExposedSeconds() const {
  double Sum = 0;
  for (const PerKind &K : Kinds)
    Sum += K.ExposedSeconds;
  return Sum;
}

double CommStatistics::getHiddenShare() const {
  double Thread = getThreadSeconds();
  return Thread > 0 ? std::max(0.0, 1 - getExposedSeconds() / Thread) : 0;
}
