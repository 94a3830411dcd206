//===- Progress.h - Lines that tell how training goes -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PROGRESS_H
#define POPLAR_RUNTIME_PROGRESS_H

#include "job/Metrics.h"

#include <chrono>

namespace poplar::runtime {

/// Prints every few steps: loss, speed, share of the machine's peak, time
/// left. Speeds count the time of steps alone, the time left all of it. Once a
/// step has been faster than the peak, there is no share.
class Progress {
public:
  Progress(int64_t FirstStep, int64_t LastStep, double FlopsPerToken,
           double PeakFlops);

  /// Adds a step that took `Seconds` for `Tokens` tokens.
  void addStep(double Seconds, int64_t Tokens);
  /// Prints a line on the steps since the last one.
  void print(const Metrics &Row);

private:
  using Clock = std::chrono::steady_clock;
  int64_t FirstStep, LastStep;
  double FlopsPerToken, PeakFlops;
  Clock::time_point Start = Clock::now();
  double Seconds = 0;
  int64_t Tokens = 0;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PROGRESS_H
