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

/// Finds a name in a list, whose order is that of the enumeration.
template <typename T, size_t N>
static bool find(std::string_view Name, const std::string_view (&Names)[N],
                 T &Result) {
  const std::string_view *Found =
      std::find(std::begin(Names), std::end(Names), Name);
  if (Found == std::end(Names))
    return false;
  Result = static_cast<T>(Found - Names);
  return true;
}

bool Schedule::parse(std::string_view Name, Shape &Result) {
  static constexpr std::string_view Names[] = {
      "constant",        "linear",     "cosine",      "wsd",
      "cosine-restarts", "polynomial", "inverse-sqrt"};
  return find(Name, Names, Result);
}

bool Schedule::parse(std::string_view Name, Start &Result) {
  static constexpr std::string_view Names[] = {"step", "zero", "minimum"};
  return find(Name, Names, Result);
}

bool Schedule::parse(std::string_view Name, Fall &Result) {
  static constexpr std::string_view Names[] = {"linear", "cosine", "sqrt"};
  return find(Name, Names, Result);
}

/// How far [Begin, End) has been walked at Step, in [0, 1].
static double getProgress(int64_t Step, int64_t Begin, int64_t End) {
  if (End <= Begin)
    return Step >= End ? 1.0 : 0.0;
  double Fraction =
      static_cast<double>(Step - Begin) / static_cast<double>(End - Begin);
  return std::clamp(Fraction, 0.0, 1.0);
}

/// Half a wave, from 1 to 0.
static double getWave(double Progress) {
  return 0.5 * (1 + std::cos(M_PI * Progress));
}

/// What is left of the way from Peak to Minimum.
static double getRest(Schedule::Fall Shape, double Progress) {
  switch (Shape) {
  case Schedule::Wave:
    return getWave(Progress);
  case Schedule::Root:
    return 1 - std::sqrt(Progress);
  case Schedule::Straight:
    break;
  }
  return 1 - Progress;
}

/// Steps over which InverseRoot falls without a warm-up, as in transformers.
static constexpr int64_t RootSteps = 10000;

double Schedule::at(int64_t Number) const {
  double Range = Peak - Minimum;
  if (Number < Warmup) {
    double First = From == Least ? Minimum : 0;
    return First + (Peak - First) *
                       static_cast<double>(Number + (From == Step)) /
                       static_cast<double>(Warmup);
  }
  double Progress = getProgress(Number, Warmup, Steps);
  switch (Kind) {
  case Constant:
    return Peak;
  case Linear:
    return Peak - Range * Progress;
  case Cosine:
    return Minimum + Range * getWave(Progress);
  case WarmupStableDecay:
    return Minimum +
           Range * getRest(Falling, getProgress(Number, Steps - Decay, Steps));
  case CosineRestarts: {
    double Way = static_cast<double>(Cycles) * Progress;
    return Progress >= 1 ? Minimum
                         : Minimum + Range * getWave(Way - std::floor(Way));
  }
  case Polynomial:
    return Minimum + Range * std::pow(1 - Progress, Power);
  case InverseRoot: {
    auto Scale = static_cast<double>(Warmup ? Warmup : RootSteps);
    return Peak /
           std::sqrt((static_cast<double>(Number - Warmup) + Scale) / Scale);
  }
  }
  return Peak;
}
