//===- Progress.cpp - Lines that tell how training goes -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Progress.h"

#include <cmath>
#include <cstdio>

using namespace poplar::runtime;

Progress::Progress(int64_t FirstStep, int64_t LastStep, double FlopsPerToken,
                   double PeakFlops)
    : FirstStep(FirstStep), LastStep(LastStep), FlopsPerToken(FlopsPerToken),
      PeakFlops(PeakFlops) {}

void Progress::addStep(double StepSeconds, int64_t StepTokens) {
  Seconds += StepSeconds;
  Tokens += StepTokens;
}

static void formatDuration(double Seconds, char (&Out)[32]) {
  long long S = std::llround(Seconds);
  if (S >= 3600)
    std::snprintf(Out, sizeof(Out), "%lldh%02lldm", S / 3600, S / 60 % 60);
  else if (S >= 60)
    std::snprintf(Out, sizeof(Out), "%lldm%02llds", S / 60, S % 60);
  else
    std::snprintf(Out, sizeof(Out), "%llds", S);
}

void Progress::print(const Metrics &Row) {
  double Speed = Seconds > 0 ? static_cast<double>(Tokens) / Seconds : 0;
  std::chrono::duration<double> Elapsed = Clock::now() - Start;
  double PerStep = Elapsed.count() / static_cast<double>(Row.Step - FirstStep);
  char Left[32];
  formatDuration(PerStep * static_cast<double>(LastStep - Row.Step), Left);
  std::printf("step %lld/%lld  loss %.4f", static_cast<long long>(Row.Step),
              static_cast<long long>(LastStep), Row.Loss);
  if (!std::isnan(Row.ValLoss))
    std::printf("  val %.4f", Row.ValLoss);
  if (!std::isnan(Row.Margin))
    std::printf("  margin %.4f  accuracy %.2f", Row.Margin, Row.Accuracy);
  std::printf("  lr %.2e  norm %.2f  %.0f tokens/s", Row.Rate, Row.GradientNorm,
              Speed);
  double Flops = Speed * FlopsPerToken;
  bool Exceeds = PeakFlops > 0 && Flops > PeakFlops;
  if (PeakFlops > 0 && Flops > 0 && !Exceeds)
    std::printf("  MFU %.1f%%", 100 * Flops / PeakFlops);
  std::printf("  ETA %s\n", Left);
  if (Exceeds) {
    std::printf("note: steps compute %.4g GFLOP/s, more than the peak of %.4g "
                "GFLOP/s that MFU is relative to, so MFU is not printed; "
                "--peak-gflops sets the peak\n",
                Flops / 1e9, PeakFlops / 1e9);
    PeakFlops = 0;
  }
  std::fflush(stdout);
  Seconds = 0;
  Tokens = 0;
}
