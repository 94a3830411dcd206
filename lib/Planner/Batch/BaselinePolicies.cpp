//===- BaselinePolicies.cpp - Policies to compare with --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch/BaselinePolicies.h"
#include "Batch/Splits.h"
#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

using namespace poplar;

/// Keeps `candidate` in `best` if it takes less time. Candidates with fewer
/// steps come first.
static void keepBest(const BatchProblem &problem, Allocation candidate,
                     std::optional<Allocation> &best) {
  candidate.seconds = candidate.predict(problem);
  if (!best || candidate.seconds < best->seconds)
    best = std::move(candidate);
}

//===----------------------------------------------------------------------===//
// poplar
//===----------------------------------------------------------------------===//

/// Stages 2 and 3: sweeps the time of a step.
static Allocation sweepStepTime(const BatchProblem &problem) {
  StepTimes times(problem);
  double best = std::numeric_limits<double>::infinity();
  int64_t steps = 0, samples = 0;
  for (const StepTimes::Level &level : times.getLevels()) {
    int64_t count = (problem.globalBatch + level.samples - 1) / level.samples;
    double seconds =
        static_cast<double>(count) * problem.stepSeconds(level.seconds);
    if (seconds < best) {
      best = seconds;
      steps = count;
      samples = level.samples;
    }
  }
  int64_t last = problem.globalBatch - (steps - 1) * samples;
  return makeStepwise(problem, steps,
                      times.split(std::min(samples, problem.globalBatch)),
                      times.split(last));
}

/// Stages 0 and 1: samples in proportion to the peak throughput.
static Allocation shareByThroughput(const BatchProblem &problem) {
  size_t count = problem.types.size();
  std::vector<int64_t> peaks(count);
  std::vector<double> throughputs(count);
  for (size_t i = 0; i < count; ++i) {
    const auto &type = problem.types[i];
    peaks[i] = type.curve.peak(type.largestBatch);
    if (peaks[i] > 0 && type.count > 0)
      throughputs[i] =
          static_cast<double>(type.count) * type.curve.throughput(peaks[i]);
  }
  double sum = std::accumulate(throughputs.begin(), throughputs.end(), 0.0);
  Split samples(count);
  int64_t left = problem.globalBatch;
  for (size_t i = 0; i < count; ++i) {
    const auto &type = problem.types[i];
    double each = static_cast<double>(problem.globalBatch) * throughputs[i] /
                  sum / static_cast<double>(std::max<int64_t>(type.count, 1));
    samples[i] = std::min(type.count * static_cast<int64_t>(each), left);
    left -= samples[i];
  }
  // One sample at a time, which is one for each device of a type in turn.
  while (left > 0) {
    size_t first = count;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < count; ++i) {
      const auto &type = problem.types[i];
      if (throughputs[i] == 0)
        continue;
      int64_t each = samples[i] / type.count + 1;
      double seconds = makeShare(each, peaks[i]).seconds(type.curve);
      if (seconds < least) {
        least = seconds;
        first = i;
      }
    }
    int64_t devices = problem.types[first].count;
    int64_t more = std::min(left, devices - samples[first] % devices);
    samples[first] += more;
    left -= more;
  }
  return makeRankwise(problem, samples, [&](size_t type, int64_t each) {
    return makeShare(each, peaks[type]);
  });
}

std::optional<Allocation> PaperPolicy::allocate(const BatchProblem &problem,
                                                std::string &error) const {
  return problem.sharesSteps() ? sweepStepTime(problem)
                               : shareByThroughput(problem);
}

//===----------------------------------------------------------------------===//
// uniform
//===----------------------------------------------------------------------===//

/// `total` samples for all devices alike; what does not divide goes to the
/// types that are fastest with one more.
static Split splitEvenly(const BatchProblem &problem, int64_t total) {
  int64_t ranks = problem.rankCount(), each = total / ranks;
  int64_t left = total - each * ranks;
  Split split;
  std::vector<size_t> order;
  for (size_t i = 0; i < problem.types.size(); ++i) {
    split.push_back(problem.types[i].count * each);
    if (problem.types[i].count > 0)
      order.push_back(i);
  }
  if (left == 0)
    return split;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return problem.types[a].curve.seconds(each + 1) <
           problem.types[b].curve.seconds(each + 1);
  });
  for (size_t i : order) {
    int64_t more = std::min(left, problem.types[i].count);
    split[i] += more;
    left -= more;
  }
  return split;
}

std::optional<Allocation> UniformPolicy::allocate(const BatchProblem &problem,
                                                  std::string &error) const {
  const BatchProblem::DeviceType *smallest = nullptr;
  for (const auto &type : problem.types)
    if (type.count > 0 &&
        (!smallest || type.largestBatch < smallest->largestBatch))
      smallest = &type;
  if (smallest->largestBatch == 0) {
    error = "uniform: no sample fits on a device of type '" + smallest->name +
            "', so there is no micro-batch for all";
    return std::nullopt;
  }

  int64_t ranks = problem.rankCount(), batch = problem.globalBatch;
  std::optional<Allocation> best;
  for (int64_t each = std::min(smallest->largestBatch, (batch - 1) / ranks + 1);
       each > 0; --each) {
    int64_t steps = (batch - 1) / (each * ranks) + 1;
    Split last = splitEvenly(problem, batch - (steps - 1) * each * ranks);
    Split step;
    for (const auto &type : problem.types)
      step.push_back(type.count * each);
    keepBest(problem, makeStepwise(problem, steps, step, last), best);
  }
  return best;
}

//===----------------------------------------------------------------------===//
// whale
//===----------------------------------------------------------------------===//

/// Whale's memory-constrained load balancing (ATC 2022) for a step
/// of `total` samples: for each type, the samples of all its devices. The
/// utilisation of memory is samples by the samples that fit, of FLOP/s samples
/// by FLOP/s. Moves at most what is too much: the text has the valley take all
/// it can, which would make the peak a valley.
static std::vector<double> balanceByFlops(const BatchProblem &problem,
                                          int64_t total) {
  size_t count = problem.types.size();
  std::vector<double> samples(count), limits(count), flops(count);
  for (size_t i = 0; i < count; ++i) {
    double devices = static_cast<double>(problem.types[i].count);
    flops[i] = devices * problem.types[i].flops;
    limits[i] = devices * static_cast<double>(problem.types[i].largestBatch);
  }
  double sum = std::accumulate(flops.begin(), flops.end(), 0.0);
  std::vector<size_t> full, free;
  for (size_t i = 0; i < count; ++i) {
    if (problem.types[i].count == 0)
      continue;
    samples[i] = static_cast<double>(total) * flops[i] / sum;
    (samples[i] > limits[i] ? full : free).push_back(i);
  }
  // Each turn ends with a peak that fits or a valley that is full.
  while (!full.empty() && !free.empty()) {
    auto peak =
        std::max_element(full.begin(), full.end(), [&](size_t a, size_t b) {
          return samples[a] * limits[b] < samples[b] * limits[a];
        });
    auto valley =
        std::min_element(free.begin(), free.end(), [&](size_t a, size_t b) {
          double flopA = samples[a] / flops[a], flopB = samples[b] / flops[b];
          return flopA != flopB
                     ? flopA < flopB
                     : samples[a] * limits[b] < samples[b] * limits[a];
        });
    double excess = samples[*peak] - limits[*peak];
    double room = limits[*valley] - samples[*valley];
    double moved = std::min(excess, room);
    samples[*peak] -= moved;
    samples[*valley] += moved;
    if (room <= excess)
      free.erase(valley);
    if (excess <= room)
      full.erase(peak);
  }
  return samples;
}

std::optional<Allocation> WhalePolicy::allocate(const BatchProblem &problem,
                                                std::string &error) const {
  int64_t capacity = 0, batch = problem.globalBatch;
  Split counts, limits;
  for (const auto &type : problem.types) {
    if (type.count > 0 && type.flops == 0) {
      error = "whale: the FLOP/s of type '" + type.name + "' are not known";
      return std::nullopt;
    }
    counts.push_back(type.count);
    limits.push_back(type.count * type.largestBatch);
    capacity += limits.back();
  }
  std::optional<Allocation> best;
  // A step of n samples needs ceil(batch / n) steps: only the smallest n of
  // each number of steps.
  int64_t steps = (batch - 1) / std::min(capacity, batch) + 1;
  while (true) {
    int64_t samples = (batch - 1) / steps + 1;
    Split step = splitInProportion(samples, balanceByFlops(problem, samples),
                                   counts, limits);
    int64_t remainder = batch - (steps - 1) * samples;
    Split last = splitInProportion(
        remainder, balanceByFlops(problem, remainder), counts, step);
    keepBest(problem, makeStepwise(problem, steps, step, last), best);
    if (samples == 1)
      return best;
    // The fewest steps that make a step smaller.
    steps = (batch - 1) / (samples - 1) + 1;
  }
}
