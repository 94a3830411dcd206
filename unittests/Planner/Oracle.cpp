//===- Oracle.cpp - Small problems and their optimum ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Oracle.h"
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <sstream>

using namespace poplar;

static constexpr double infinity = std::numeric_limits<double>::infinity();

Curve test::curveOf(const std::vector<double> &seconds) {
  std::vector<Curve::Point> points;
  for (size_t i = 0; i < seconds.size(); ++i)
    points.push_back({static_cast<int64_t>(i) + 1, seconds[i]});
  std::string error;
  std::optional<Curve> curve = Curve::fit(points, error);
  EXPECT_TRUE(curve) << error;
  return *curve;
}

Curve test::affineCurve(double fixed, double perSample, int64_t largest) {
  std::vector<double> seconds;
  for (int64_t b = 1; b <= largest; ++b)
    seconds.push_back(fixed + perSample * static_cast<double>(b));
  return curveOf(seconds);
}

const BatchPolicy &test::exact() {
  static std::string error;
  static auto policy = makePolicy("exact", error);
  return *policy;
}

BatchProblem::DeviceType test::makeType(const std::string &name, int64_t count,
                                        const Curve &curve) {
  BatchProblem::DeviceType type;
  type.name = name;
  type.count = count;
  type.curve = curve;
  type.largestBatch = curve.largest();
  return type;
}

static Curve randomCurve(std::mt19937 &random) {
  auto real = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  size_t largest = random() % 6;
  if (largest == 0)
    return Curve();
  std::vector<double> seconds(largest);
  double speed = 0.1 + real(), fixed = real();
  switch (random() % 6) {
  case 0:
    for (size_t i = 0; i < largest; ++i)
      seconds[i] = fixed + speed * (i + 1);
    break;
  case 1:
    for (size_t i = 0; i < largest; ++i)
      seconds[i] = speed * (i + 1);
    break;
  case 2:
    for (size_t i = 0; i < largest; ++i)
      seconds[i] = speed * (i + 1) * (i + 1);
    break;
  case 3:
    for (size_t i = 0; i < largest; ++i)
      seconds[i] = speed * (i / 2 + 1);
    break;
  case 4:
    std::fill(seconds.begin(), seconds.end(), speed);
    seconds.back() += random() % 2 * 5;
    break;
  case 5:
    for (double &t : seconds)
      t = 0.1 + real();
    break;
  }
  return test::curveOf(seconds);
}

BatchProblem test::randomProblem(std::mt19937 &random, int zeroStage) {
  BatchProblem problem;
  do {
    problem = BatchProblem();
    problem.zeroStage = zeroStage;
    problem.globalBatch = 1 + random() % 25;
    problem.iterationSync = random() % 3 * 0.25;
    if (zeroStage >= 2)
      problem.stepSync = random() % 4 * 0.2;
    problem.forwardSync = random() % 3 * 0.3;
    problem.backwardSync = random() % 3 * 0.5;
    problem.lastBackwardSync = problem.zeroStage >= 2 ? random() % 3 * 0.4 : 0;
    size_t types = 1 + random() % 3;
    for (size_t i = 0; i < types; ++i) {
      problem.types.push_back(
          makeType("t" + std::to_string(i), random() % 4, randomCurve(random)));
      problem.types.back().flops = 1.0 + random() % 8;
    }
  } while (problem.rankCount() > 4 || !problem.check().empty());
  return problem;
}

double test::bruteForce(const BatchProblem &problem, int64_t otherThan) {
  std::vector<const BatchProblem::DeviceType *> ranks;
  for (const auto &type : problem.types)
    for (int64_t i = 0; i < type.count; ++i)
      ranks.push_back(&type);
  int64_t batch = problem.globalBatch;

  // Time of a rank for a number of samples: of a step of all ranks, or of the
  // whole iteration with the best micro-batch.
  auto stepTime = [](const BatchProblem::DeviceType &type, int64_t samples) {
    return samples <= type.largestBatch ? type.curve.seconds(samples)
                                        : infinity;
  };
  auto meet = [&](double computing, double lastSync = 0) {
    return std::max(computing / 3, problem.forwardSync) +
           std::max(computing * 2 / 3, problem.backwardSync + lastSync) +
           problem.stepSync;
  };
  auto ownTime = [&](const BatchProblem::DeviceType &type, int64_t samples) {
    double best = samples == 0 ? meet(0) : infinity;
    for (int64_t b = 1; b <= type.largestBatch && samples > 0; ++b) {
      int64_t full = (samples - 1) / b;
      best = std::min(best, double(full) * type.curve.seconds(b) +
                                meet(type.curve.seconds(samples - full * b)));
    }
    return best;
  };
  // The least over all splits, of the slowest rank's time, by total.
  std::vector<double> least(batch + 1, infinity);
  std::function<void(size_t, int64_t, double)> trySplits =
      [&](size_t rank, int64_t total, double slowest) {
        if (rank == ranks.size()) {
          least[total] = std::min(least[total], slowest);
          return;
        }
        for (int64_t samples = 0; total + samples <= batch; ++samples) {
          double time = problem.sharesSteps() ? stepTime(*ranks[rank], samples)
                                              : ownTime(*ranks[rank], samples);
          if (time < infinity)
            trySplits(rank + 1, total + samples, std::max(slowest, time));
        }
      };
  trySplits(0, 0, 0);
  if (!problem.sharesSteps())
    return least[batch] + problem.iterationSync;

  double best = infinity;
  for (int64_t steps = 1; steps <= batch; ++steps)
    for (int64_t samples = 1; samples <= batch; ++samples) {
      int64_t last = batch - (steps - 1) * samples;
      if (last < 1 || steps == otherThan)
        continue;
      // With one step, `samples` says nothing.
      double full = steps == 1 ? 0 : meet(least[samples]);
      best = std::min(best, double(steps - 1) * full +
                                meet(least[last], problem.lastBackwardSync));
    }
  return best + problem.iterationSync;
}

std::string test::describe(const BatchProblem &problem) {
  std::ostringstream text;
  text << "stage " << problem.zeroStage << ", batch " << problem.globalBatch
       << ", sync " << problem.iterationSync << " + " << problem.stepSync
       << ", hidden " << problem.forwardSync << " + " << problem.backwardSync
       << " + " << problem.lastBackwardSync;
  for (const auto &type : problem.types) {
    text << "\n  " << type.count << " of " << type.name << ":";
    for (int64_t b = 1; b <= type.largestBatch; ++b)
      text << " " << type.curve.seconds(b);
  }
  return text.str();
}
