//===- plan-batches.cpp - Time to plan by number of devices ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: plan-batches [GLOBAL_BATCH] [LARGEST_MICRO_BATCH]
//
// Prints how long the exact policy and its explanation take for 8 device types
// and ever more devices: milliseconds, best of three.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanExplanation.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace poplar;

static BatchProblem makeProblem(int zeroStage, int64_t devices, int64_t batch,
                                int64_t largest) {
  BatchProblem problem;
  problem.zeroStage = zeroStage;
  problem.globalBatch = batch;
  problem.stepSync = zeroStage >= 2 ? 0.05 : 0;
  for (int i = 0; i < 8; ++i) {
    std::vector<Curve::Point> points;
    for (int64_t b = 1; b <= largest; b *= 2)
      points.push_back({b, 0.01 * (i + 1) + 0.003 * (i + 2) * b});
    std::string error;
    BatchProblem::DeviceType type;
    type.name = "type" + std::to_string(i);
    type.count = devices / 8;
    type.curve = Curve::fit(std::move(points), error).value();
    // Memory that differs by up to four.
    type.largestBatch = type.curve.largest() / (i % 4 + 1);
    problem.types.push_back(std::move(type));
  }
  return problem;
}

template <typename Function> static double milliseconds(Function &&function) {
  double best = 1e300;
  for (int i = 0; i < 3; ++i) {
    auto start = std::chrono::steady_clock::now();
    function();
    std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

int main(int argc, char **argv) {
  int64_t batch = argc > 1 ? std::atoll(argv[1]) : 8192;
  int64_t largest = argc > 2 ? std::atoll(argv[2]) : 4096;
  if (batch < 1 || largest < 4) {
    std::fprintf(stderr,
                 "usage: %s [GLOBAL_BATCH] [LARGEST_MICRO_BATCH >= 4]\n",
                 argv[0]);
    return 1;
  }
  std::printf("%8s %6s %12s %12s\n", "devices", "stage", "plan [ms]",
              "explain [ms]");
  std::string error;
  auto policy = makePolicy("exact", error);
  for (int64_t devices = 128; devices <= 16384; devices *= 2)
    for (int stage : {1, 3}) {
      BatchProblem problem = makeProblem(stage, devices, batch, largest);
      std::optional<Allocation> plan;
      double planning =
          milliseconds([&] { plan = policy->solve(problem, error); });
      if (!plan) {
        std::fprintf(stderr, "%s\n", error.c_str());
        return 1;
      }
      double explaining = milliseconds([&] { explain(problem, *plan); });
      std::printf("%8lld %6d %12.3f %12.3f\n", static_cast<long long>(devices),
                  stage, planning, explaining);
    }
  return 0;
}
