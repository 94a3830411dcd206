//===- ExactPolicy.cpp - The optimum --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The least time over the class of plans in BatchProblem.h, without looking at
// devices one by one.
//
// Below, f is the time of a step in which ranks meet, which does not fall with
// the time of computing; nor does it save a whole step to compute less in it:
// f(x) <= x + f(y) for all x and y.
//
// Stages 2 and 3. S(n) is a staircase (StepTimes) of V levels, one per distinct
// t_i(b). Given the level of the steps and their number q but the last, a
// larger n only makes the last step smaller; so n is the level's most samples
// N. More than floor((G-1) / N) steps of a level never pay: with as many, the
// last step has at most N samples and takes no longer than the step saved.
// Fewer steps leave a last step above N, which the capacity bounds. There are
// at most capacity / N such q, hence O(V + capacity log V) plans in all.
//
// Stages 0 and 1. The time of a rank's best steps for B samples does not fall
// with B (a sample less in the last step saves time, or else the step itself;
// then the one before it becomes the last), so an iteration of T seconds is
// possible if the most samples each rank can do in T add up to the global
// batch. T is found by bisection over the floating-point numbers themselves:
// the least that is possible, not close to it.
//
//===----------------------------------------------------------------------===//

#include "Batch/ExactPolicy.h"
#include "Batch/Splits.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

using namespace poplar;

/// Rounding makes equal times differ. Plans as close as this are equal, and the
/// one with fewer steps is meant.
static constexpr double equalTimes = 1 + 1e-12;

//===----------------------------------------------------------------------===//
// Stages 2 and 3
//===----------------------------------------------------------------------===//

namespace {

struct StepPlan {
  double seconds;
  /// Steps; samples of each but the last, and of the last.
  int64_t steps, samples, last;

  /// Among plans of equal time: few steps, and a last one that is not larger.
  auto preference() const {
    return std::make_tuple(steps, last > samples, samples);
  }
};

class StepSearch {
public:
  explicit StepSearch(const BatchProblem &problem)
      : problem(problem), times(problem) {}

  std::vector<Allocation> run(size_t count) const;

private:
  /// Visits all plans that may take at most `bound` seconds, which `visit` may
  /// lower.
  template <typename Visitor>
  void forEachPlan(double &bound, Visitor &&visit) const;
  StepPlan makePlan(int64_t steps, double seconds, int64_t samples,
                    double lastSeconds, int64_t last) const {
    return {static_cast<double>(steps - 1) * problem.stepSeconds(seconds) +
                problem.lastStepSeconds(lastSeconds),
            steps, samples, last};
  }

  const BatchProblem &problem;
  StepTimes times;
};

} // namespace

template <typename Visitor>
void StepSearch::forEachPlan(double &bound, Visitor &&visit) const {
  int64_t batch = problem.globalBatch, capacity = times.capacity();
  if (batch <= capacity)
    visit(makePlan(1, 0, batch, times.seconds(batch), batch));
  for (const StepTimes::Level &level : times.getLevels()) {
    int64_t most = (batch - 1) / level.samples;
    int64_t least =
        (std::max<int64_t>(batch - capacity, 0) + level.samples - 1) /
        level.samples;
    for (int64_t full = most; full >= std::max<int64_t>(least, 1); --full) {
      int64_t last = batch - full * level.samples;
      double lastSeconds = times.seconds(last);
      // The last step only grows from here on.
      if (problem.lastStepSeconds(lastSeconds) > bound)
        break;
      visit(
          makePlan(full + 1, level.seconds, level.samples, lastSeconds, last));
    }
  }
}

std::vector<Allocation> StepSearch::run(size_t count) const {
  double bound = std::numeric_limits<double>::infinity();
  forEachPlan(bound, [&](const StepPlan &plan) {
    bound = std::min(bound, plan.seconds);
  });

  std::vector<StepPlan> plans;
  bound *= equalTimes;
  forEachPlan(bound, [&](const StepPlan &plan) {
    if (plan.seconds > bound)
      return;
    if (plans.empty())
      plans.push_back(plan);
    else if (plan.preference() < plans[0].preference())
      plans[0] = plan;
  });

  // The best for each other number of steps, of which the best are kept.
  if (count > 1) {
    std::vector<StepPlan> others;
    bound = std::numeric_limits<double>::infinity();
    auto visit = [&](const StepPlan &plan) {
      if (plan.steps == plans[0].steps || plan.seconds >= bound)
        return;
      auto same = std::find_if(
          others.begin(), others.end(),
          [&](const StepPlan &other) { return other.steps == plan.steps; });
      if (same == others.end())
        others.push_back(plan);
      else if (plan.seconds < same->seconds)
        *same = plan;
      std::stable_sort(others.begin(), others.end(),
                       [](const StepPlan &a, const StepPlan &b) {
                         return a.seconds < b.seconds;
                       });
      if (others.size() >= count)
        others.resize(count - 1);
      if (others.size() == count - 1)
        bound = others.back().seconds;
    };
    forEachPlan(bound, visit);
    // Given the number of steps, the largest n may be none of the levels' most.
    int64_t batch = problem.globalBatch;
    double least = problem.stepSeconds(times.getLevels().front().seconds);
    int64_t fewest = (batch - 1) / (times.capacity() + 1) + 1;
    for (int64_t full = fewest; full < batch && full * least <= bound; ++full) {
      int64_t samples = (batch - 1) / full, last = batch - full * samples;
      if (last <= times.capacity())
        visit(makePlan(full + 1, times.seconds(samples), samples,
                       times.seconds(last), last));
    }
    plans.insert(plans.end(), others.begin(), others.end());
  }

  std::vector<Allocation> allocations;
  for (const StepPlan &plan : plans)
    allocations.push_back(makeStepwise(problem, plan.steps,
                                       times.split(plan.samples),
                                       times.split(plan.last)));
  return allocations;
}

//===----------------------------------------------------------------------===//
// Stages 0 and 1
//===----------------------------------------------------------------------===//

namespace {

/// The best steps of one rank on its own.
class RankTimes {
public:
  RankTimes(const BatchProblem &problem, const BatchProblem::DeviceType &type,
            int64_t globalBatch)
      : problem(problem), curve(type.curve), globalBatch(globalBatch),
        largest(std::min(type.largestBatch, globalBatch)),
        peak(curve.peak(largest)) {}

  /// The most samples per second.
  double throughput() const { return peak > 0 ? curve.throughput(peak) : 0; }
  /// The most samples, up to the global batch, that take at most `seconds`.
  int64_t largestWithin(double seconds) const;
  /// The fastest steps for `samples` samples; few ones where there is a choice.
  RankShare best(int64_t samples) const;

private:
  const BatchProblem &problem;
  const Curve &curve;
  int64_t globalBatch, largest, peak;
};

} // namespace

int64_t RankTimes::largestWithin(double seconds) const {
  // Micro-batches that take longer in one step are of no use.
  int64_t single = curve.largestWithin(seconds, largest), most = 0;
  if (single == 0)
    return 0;
  auto quotient = [&](double dividend, double each, int64_t batch) {
    return static_cast<int64_t>(
        std::min(std::max(dividend, 0.0) / each,
                 static_cast<double>(globalBatch / batch + 1)));
  };
  double meeting = problem.stepSeconds(curve.seconds(1));
  auto consider = [&](int64_t batch) {
    double each = curve.seconds(batch);
    int64_t steps = quotient(seconds, each, batch);
    // The quotient is rounded, and what counts is the product.
    while (static_cast<double>(steps + 1) * each <= seconds &&
           steps * batch <= globalBatch)
      ++steps;
    // Most are ruled out here.
    if ((steps + 1) * batch - 1 <= most)
      return;
    // Full steps before a last one of at least one sample.
    auto fits = [&](int64_t full, int64_t last) {
      RankShare share = {batch, full + 1, last};
      return share.meetingSeconds(problem, curve) <= seconds;
    };
    int64_t full = quotient(seconds - meeting, each, batch) + 1;
    while (full >= 0 && !fits(full, 1))
      --full;
    if (full < 0)
      return;
    int64_t low = 1, high = batch;
    while (low < high) {
      int64_t middle = (low + high + 1) / 2;
      if (fits(full, middle))
        low = middle;
      else
        high = middle - 1;
    }
    most = std::max(most, full * batch + low);
  };
  if (peak > 0 && peak <= single)
    consider(peak);
  for (int64_t batch = single; batch > 0 && most < globalBatch; --batch)
    consider(batch);
  return std::min(most, globalBatch);
}

RankShare RankTimes::best(int64_t samples) const {
  RankShare best;
  double bestSeconds = std::numeric_limits<double>::infinity();
  // From few steps to many.
  for (int64_t batch = std::min(largest, samples); batch > 0; --batch) {
    RankShare share = makeShare(samples, batch);
    double seconds = share.meetingSeconds(problem, curve);
    if (seconds * equalTimes < bestSeconds) {
      best = share;
      bestSeconds = seconds;
    }
  }
  return best;
}

/// The positive double halfway between two, counted in representable numbers.
static double middleOf(double low, double high) {
  uint64_t lowBits, highBits;
  std::memcpy(&lowBits, &low, sizeof(low));
  std::memcpy(&highBits, &high, sizeof(high));
  lowBits += (highBits - lowBits) / 2;
  std::memcpy(&low, &lowBits, sizeof(low));
  return low;
}

static Allocation solveRankwise(const BatchProblem &problem) {
  int64_t batch = problem.globalBatch;
  std::vector<RankTimes> times;
  double throughput = 0;
  for (const auto &type : problem.types) {
    times.emplace_back(problem, type, batch);
    throughput += static_cast<double>(type.count) * times.back().throughput();
  }
  auto mostWithin = [&](double seconds) {
    Split most;
    for (size_t i = 0; i < times.size(); ++i)
      most.push_back(problem.types[i].count > 0
                         ? problem.types[i].count *
                               times[i].largestWithin(seconds)
                         : 0);
    return most;
  };
  auto sum = [](const Split &split) {
    return std::accumulate(split.begin(), split.end(), int64_t(0));
  };
  // Ranks without samples meet the others, too.
  auto isPossible = [&](double seconds) {
    return seconds >= problem.stepSeconds(0) &&
           sum(mostWithin(seconds)) >= batch;
  };

  // Nobody is faster than at the peak; the rest is rounding.
  double impossible = static_cast<double>(batch) / throughput * (1 - 1e-9);
  double possible = 2 * impossible;
  for (; !isPossible(possible); possible *= 2)
    impossible = possible;
  for (double middle; (middle = middleOf(impossible, possible)) != impossible;)
    (isPossible(middle) ? possible : impossible) = middle;

  // As in StepTimes::split(): only what needs all the time is a choice.
  Split samples = mostWithin(impossible), most = mostWithin(possible);
  if (impossible < problem.stepSeconds(0))
    std::fill(samples.begin(), samples.end(), 0);
  int64_t left = batch - sum(samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    int64_t more = std::min(left, most[i] - samples[i]);
    samples[i] += more;
    left -= more;
  }
  return makeRankwise(problem, samples, [&](size_t type, int64_t each) {
    return times[type].best(each);
  });
}

static std::vector<Allocation> solveRankwise(const BatchProblem &problem,
                                             size_t count) {
  std::vector<Allocation> allocations = {solveRankwise(problem)}, others;
  for (size_t i = 0; count > 1 && i < problem.types.size(); ++i) {
    int64_t largest = 0;
    for (const Allocation::Group &group : allocations[0].types[i].groups)
      largest = std::max(largest, group.share.microBatch);
    if (largest == 0)
      continue;
    BatchProblem limited = problem;
    limited.types[i].largestBatch = largest - 1;
    if (limited.check().empty())
      others.push_back(solveRankwise(limited));
  }
  std::stable_sort(others.begin(), others.end(),
                   [&](const Allocation &a, const Allocation &b) {
                     return a.predict(problem) < b.predict(problem);
                   });
  if (others.size() >= count)
    others.resize(count - 1);
  allocations.insert(allocations.end(), others.begin(), others.end());
  return allocations;
}

std::vector<Allocation> poplar::findBestAllocations(const BatchProblem &problem,
                                                    size_t count) {
  return problem.sharesSteps() ? StepSearch(problem).run(count)
                               : solveRankwise(problem, count);
}

RankShare poplar::fastestShare(const BatchProblem &problem, size_t type,
                               int64_t samples) {
  return RankTimes(problem, problem.types[type], samples).best(samples);
}
