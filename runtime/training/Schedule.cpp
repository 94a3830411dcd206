//===- Schedule.cpp - Learning rates over the steps -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Schedule.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;

bool Schedule::parse(std::string_view Name, Shape &Result) {
  static constexpr std::string_view Names[] = {"constant", "linear", "cosine",
                                               "wsd"};
  for (int I = 0; I < 4; ++I)
    if (Names[I] == Name) {
      Result = static_cast<Shape>(I);
      return true;
    }
  return false;
}

/// How far [Begin, End) has been walked at Step, in [0, 1].
static double getProgress(int64_t Step, int64_t Begin, int64_t End) {
  if (End <= Begin)
    return Step >= End ? 1.0 : 0.0;
  double Fraction =
      static_cast<double>(Step - Begin) / static_cast<double>(End - Begin);
  return std::clamp(Fraction, 0.0, 1.0);
}

double Schedule::at(int64_t Step) const {
  if (Step < Warmup)
    return Peak * static_cast<double>(Step + 1) / static_cast<double>(Warmup);
  double Range = Peak - Minimum;
  switch (Kind) {
  case Constant:
    return Peak;
  case Linear:
    return Peak - Range * getProgress(Step, Warmup, Steps);
  case Cosine:
    return Minimum +
           Range * 0.5 *
               (1 + std::cos(M_PI * getProgress(Step, Warmup, Steps)));
  case WarmupStableDecay:
    return Peak - Range * getProgress(Step, Steps - Decay, Steps);
  }
  return Peak;
}
