//===- Splits.cpp - Sharing the samples of a step -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch/Splits.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

using namespace poplar;

Split poplar::splitInProportion(int64_t total,
                                const std::vector<double> &weights,
                                const Split &counts, const Split &limits) {
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Split split(weights.size());
  std::vector<double> remainders(weights.size());
  std::vector<size_t> order;
  int64_t left = total;
  auto give = [&](size_t i, int64_t most) {
    int64_t more = std::min({most, left, limits[i] - split[i]});
    split[i] += more;
    left -= more;
  };
  for (size_t i = 0; i < weights.size(); ++i) {
    if (counts[i] == 0)
      continue;
    double each = static_cast<double>(total) * weights[i] / sum /
                  static_cast<double>(counts[i]);
    remainders[i] = each - std::floor(each);
    order.push_back(i);
    give(i, counts[i] * static_cast<int64_t>(each));
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return remainders[a] > remainders[b];
  });
  for (size_t i : order)
    give(i, counts[i]);
  for (size_t i : order)
    give(i, left);
  assert(left == 0 && "limits have no room for the total");
  return split;
}

/// Calls `visit(count, a, b)` for runs of devices with equal shares of both
/// totals.
static void
forEachRun(int64_t count, int64_t totalA, int64_t totalB,
           const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  if (count == 0)
    return;
  int64_t moreA = totalA % count, moreB = totalB % count;
  int64_t bounds[] = {0, std::min(moreA, moreB), std::max(moreA, moreB), count};
  for (int i = 0; i < 3; ++i)
    if (int64_t begin = bounds[i]; begin < bounds[i + 1])
      visit(bounds[i + 1] - begin, totalA / count + (begin < moreA),
            totalB / count + (begin < moreB));
}

Allocation poplar::makeStepwise(const BatchProblem &problem, int64_t steps,
                                const Split &step, const Split &last) {
  Allocation allocation;
  allocation.types.resize(problem.types.size());
  for (size_t i = 0; i < problem.types.size(); ++i) {
    // Where the last step is the only one, no other micro-batch is meant.
    forEachRun(problem.types[i].count, steps > 1 ? step[i] : last[i], last[i],
               [&](int64_t count, int64_t microBatch, int64_t lastBatch) {
                 RankShare share = {microBatch, steps, lastBatch};
                 if (!problem.sharesSteps())
                   share = makeShare(share.samples(), microBatch);
                 allocation.types[i].groups.push_back({count, share});
               });
  }
  return allocation;
}

Allocation
poplar::makeRankwise(const BatchProblem &problem, const Split &samples,
                     const std::function<RankShare(size_t, int64_t)> &share) {
  Allocation allocation;
  allocation.types.resize(problem.types.size());
  for (size_t i = 0; i < problem.types.size(); ++i)
    forEachRun(problem.types[i].count, samples[i], samples[i],
               [&](int64_t count, int64_t each, int64_t) {
                 allocation.types[i].groups.push_back({count, share(i, each)});
               });
  return allocation;
}

RankShare poplar::makeShare(int64_t samples, int64_t microBatch) {
  if (samples == 0)
    return {};
  microBatch = std::min(samples, microBatch);
  int64_t rest = samples % microBatch;
  return {microBatch, samples / microBatch + (rest > 0),
          rest > 0 ? rest : microBatch};
}

StepTimes::StepTimes(const BatchProblem &problem) : problem(problem) {
  // At each of these times, `samples` more can be done.
  for (const auto &type : problem.types)
    if (type.count > 0)
      for (int64_t b = 1; b <= std::min(type.largestBatch, problem.globalBatch);
           ++b)
        levels.push_back({type.curve.seconds(b), type.count});
  std::sort(levels.begin(), levels.end(), [](const Level &a, const Level &b) {
    return a.seconds < b.seconds;
  });
  size_t size = 0;
  int64_t samples = 0;
  for (const Level &level : levels) {
    samples += level.samples;
    if (size == 0 || levels[size - 1].seconds < level.seconds)
      ++size;
    levels[size - 1] = {level.seconds, samples};
  }
  levels.resize(size);
}

double StepTimes::seconds(int64_t samples) const {
  if (samples == 0)
    return 0;
  return std::lower_bound(levels.begin(), levels.end(), samples,
                          [](const Level &level, int64_t samples) {
                            return level.samples < samples;
                          })
      ->seconds;
}

Split StepTimes::split(int64_t samples) const {
  double limit = seconds(samples), below = std::nextafter(limit, 0.0);
  Split split, most;
  int64_t left = samples;
  for (const auto &type : problem.types) {
    split.push_back(type.count *
                    type.curve.largestWithin(below, type.largestBatch));
    most.push_back(type.count *
                   type.curve.largestWithin(limit, type.largestBatch));
    left -= split.back();
  }
  for (size_t i = 0; i < split.size(); ++i) {
    int64_t more = std::min(left, most[i] - split[i]);
    split[i] += more;
    left -= more;
  }
  assert(left == 0 && "a level has fewer samples than its devices can take");
  return split;
}
