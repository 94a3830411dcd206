//===- PlanExplanation.cpp - Why a plan is as it is -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanExplanation.h"
#include "Batch/ExactPolicy.h"
#include "Poplar/Support/Text.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>

using namespace poplar;

using Limit = PlanExplanation::Limit;

/// Times are equal up to rounding.
static bool atMost(double seconds, double limit) {
  return seconds <= limit * (1 + 1e-12);
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

namespace {

/// Seconds of the slowest rank: per iteration, until all have met, and of
/// computation in a step before the last and in the last.
struct Slowest {
  double iteration = 0, step = 0, last = 0;

  Slowest(const BatchProblem &problem, const Allocation &allocation) {
    for (size_t i = 0; i < allocation.types.size(); ++i) {
      const Curve &curve = problem.types[i].curve;
      for (const Allocation::Group &group : allocation.types[i].groups) {
        step = std::max(step, curve.seconds(group.share.microBatch));
        last = std::max(last, curve.seconds(group.share.last));
        iteration =
            std::max(iteration, group.share.meetingSeconds(problem, curve));
      }
    }
  }
};

} // namespace

/// What limits a rank whose micro-batch is the largest.
static Limit limitOfSize(const BatchProblem::DeviceType &type) {
  return type.endsWithCurve ? Limit::Profile : Limit::Memory;
}

/// The limit in stages 2 and 3, where `batch` samples are done in a step that
/// takes `seconds`. A rank that fits all samples into a single step has no more
/// to get.
static Limit limitOfStep(const BatchProblem &problem, size_t index,
                         int64_t batch, double seconds, bool isSingle) {
  const BatchProblem::DeviceType &type = problem.types[index];
  if (batch == type.largestBatch)
    return isSingle && batch == problem.globalBatch ? Limit::Remainder
                                                    : limitOfSize(type);
  return atMost(type.curve.seconds(batch + 1), seconds) ? Limit::Remainder
                                                        : Limit::Speed;
}

/// The limit in stages 0 and 1.
static Limit limitOfIteration(const BatchProblem &problem, size_t index,
                              const RankShare &share, double seconds) {
  const auto &type = problem.types[index];
  if (type.largestBatch == 0)
    return limitOfSize(type);
  if (share.samples() == problem.globalBatch && share.steps == 1 &&
      share.last == type.largestBatch)
    return Limit::Remainder;
  RankShare more = fastestShare(problem, index, share.samples() + 1);
  if (atMost(more.meetingSeconds(problem, type.curve), seconds))
    return Limit::Remainder;
  bool faster = share.microBatch == type.largestBatch &&
                type.curve.peak(type.largestBatch) == type.largestBatch;
  return faster ? limitOfSize(type) : Limit::Speed;
}

static PlanExplanation::RankGroup explainGroup(const BatchProblem &problem,
                                               const Slowest &slowest,
                                               size_t index,
                                               const RankShare &share) {
  const auto &type = problem.types[index];
  PlanExplanation::RankGroup group = {};
  group.type = index;
  group.share = share;
  group.busy = share.seconds(type.curve);
  if (!problem.sharesSteps()) {
    double meeting = share.meetingSeconds(problem, type.curve);
    group.waiting = slowest.iteration - meeting;
    group.limit = limitOfIteration(problem, index, share, slowest.iteration);
    group.slowest = meeting == slowest.iteration;
    return group;
  }
  double step = type.curve.seconds(share.microBatch);
  double last = type.curve.seconds(share.last);
  group.waiting = static_cast<double>(share.steps - 1) * (slowest.step - step) +
                  (slowest.last - last);
  bool single = share.steps == 1;
  group.limit =
      single
          ? limitOfStep(problem, index, share.last, slowest.last, true)
          : limitOfStep(problem, index, share.microBatch, slowest.step, false);
  group.slowest = single ? last == slowest.last : step == slowest.step;
  return group;
}

static void explainRanks(const BatchProblem &problem,
                         const Allocation &allocation,
                         PlanExplanation &explanation) {
  Slowest slowest(problem, allocation);
  for (size_t i = 0; i < allocation.types.size(); ++i) {
    int64_t device = 0;
    for (const Allocation::Group &shares : allocation.types[i].groups) {
      auto group = explainGroup(problem, slowest, i, shares.share);
      group.firstDevice = device;
      group.count = shares.count;
      device += shares.count;
      explanation.groups.push_back(group);
    }
    if (int64_t dropped = allocation.types[i].dropped) {
      PlanExplanation::RankGroup group = {};
      group.type = i;
      group.firstDevice = device;
      group.count = dropped;
      group.limit = Limit::Dropped;
      explanation.groups.push_back(group);
    }
  }
}

//===----------------------------------------------------------------------===//
// Other problems
//===----------------------------------------------------------------------===//

static PlanExplanation::WhatIf explainType(const BatchProblem &problem,
                                           size_t type,
                                           const BatchPolicy &policy,
                                           const ProblemOfCounts &problemOf) {
  auto solve =
      [&](const std::optional<BatchProblem> &other) -> std::optional<double> {
    std::string error;
    if (!other)
      return std::nullopt;
    auto plan = policy.solve(*other, error);
    if (!plan)
      return std::nullopt;
    return plan->seconds;
  };
  std::vector<int64_t> counts;
  for (const auto &other : problem.types)
    counts.push_back(other.count);
  auto solveCount = [&](int64_t count) -> std::optional<double> {
    std::vector<int64_t> other = counts;
    other[type] = count;
    if (problemOf)
      return solve(problemOf(other));
    BatchProblem resized = problem;
    resized.types[type].count = count;
    return solve(resized);
  };

  PlanExplanation::WhatIf whatIf;
  whatIf.oneMore = solveCount(counts[type] + 1);
  if (counts[type] > 0)
    whatIf.oneLess = solveCount(counts[type] - 1);
  BatchProblem larger = problem;
  auto &changed = larger.types[type];
  if (changed.count > 0 && changed.largestBatch < changed.curve.largest()) {
    ++changed.largestBatch;
    changed.memoryBytes = 0;
    whatIf.moreMemory = solve(larger);
  }
  return whatIf;
}

PlanExplanation poplar::explain(const BatchProblem &problem,
                                const Allocation &allocation,
                                const ProblemOfCounts &problemOf,
                                size_t alternatives) {
  PlanExplanation explanation = {};
  explainRanks(problem, allocation, explanation);
  explanation.throughput =
      static_cast<double>(problem.globalBatch) / allocation.seconds;
  for (const auto &type : problem.types)
    if (int64_t peak = type.curve.peak(type.largestBatch))
      explanation.sumOfParts +=
          static_cast<double>(type.count) * type.curve.throughput(peak);

  // The job at hand is that of the devices it uses.
  BatchProblem used = problem;
  for (size_t i = 0; i < used.types.size(); ++i)
    used.types[i].count -= allocation.types[i].dropped;
  std::string error;
  auto policy = makePolicy(allocation.policy, error);
  if (!policy)
    policy = makePolicy("exact", error);
  for (size_t i = 0; i < used.types.size(); ++i)
    explanation.whatIf.push_back(explainType(used, i, *policy, problemOf));
  explanation.bestPlans = bestAllocations(used, alternatives + 1, error);
  for (Allocation &plan : explanation.bestPlans)
    for (size_t i = 0; i < used.types.size(); ++i)
      plan.types[i].dropped = allocation.types[i].dropped;
  return explanation;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

const char *poplar::toString(Limit limit) {
  switch (limit) {
  case Limit::Memory:
    return "memory";
  case Limit::Profile:
    return "profile";
  case Limit::Speed:
    return "speed";
  case Limit::Remainder:
    return "remainder";
  case Limit::Dropped:
    return "dropped";
  }
  return "";
}

[[gnu::format(printf, 2, 3)]] static void append(std::string &text,
                                                 const char *format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  text += line;
}

static double percentOver(double seconds, double reference) {
  return 100 * (seconds / reference - 1);
}

/// A count for printf, whatever int64_t is.
static long long toPrintable(int64_t value) { return value; }

static void formatWhatIf(const BatchProblem &problem,
                         const Allocation &allocation,
                         const PlanExplanation &explanation,
                         std::string &text) {
  for (size_t i = 0; i < explanation.whatIf.size(); ++i) {
    const PlanExplanation::WhatIf &whatIf = explanation.whatIf[i];
    std::string line;
    auto add = [&](const char *what, const std::optional<double> &seconds,
                   const char *ifLonger = "") {
      if (seconds)
        append(line, "%s %s %.4g s (%+.2f%%)%s", line.empty() ? "" : ",", what,
               *seconds, percentOver(*seconds, allocation.seconds),
               *seconds > allocation.seconds * (1 + 1e-4) ? ifLonger : "");
    };
    add("one more:", whatIf.oneMore, ", so that it would be left out");
    add("one less:", whatIf.oneLess);
    add("memory for one more sample:", whatIf.moreMemory);
    if (!line.empty())
      text += problem.types[i].name + ":" + line + "\n";
  }
}

std::string poplar::formatExplanation(const BatchProblem &problem,
                                      const Allocation &allocation,
                                      const PlanExplanation &explanation) {
  std::string text;
  size_t width = 4;
  for (const auto &type : problem.types)
    width = std::max(width, type.name.size());
  append(text, "%-*s %8s %11s %6s %6s %8s %10s %10s  %s\n",
         static_cast<int>(width), "type", "devices", "micro-batch", "steps",
         "last", "samples", "busy [s]", "wait [s]", "limited by");
  for (const PlanExplanation::RankGroup &group : explanation.groups)
    append(text, "%-*s %8lld %11lld %6lld %6lld %8lld %10.4g %10.4g  %s%s\n",
           static_cast<int>(width), problem.types[group.type].name.c_str(),
           toPrintable(group.count), toPrintable(group.share.microBatch),
           toPrintable(group.share.steps), toPrintable(group.share.last),
           toPrintable(group.share.samples()), group.busy, group.waiting,
           toString(group.limit), group.slowest ? ", slowest" : "");
  formatWhatIf(problem, allocation, explanation, text);

  for (size_t i = 0; i < explanation.bestPlans.size(); ++i) {
    const Allocation &plan = explanation.bestPlans[i];
    append(text, "%s: %.4g s (%+.2f%%) in %s\n",
           i == 0 ? "best plan" : "next best", plan.seconds,
           percentOver(plan.seconds, allocation.seconds),
           formatCount(plan.steps(), "step").c_str());
  }
  return text;
}
