//===- HybridChoice.cpp - The best of the best hybrid plans ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridChoice.h"
#include "Pipeline/StageSearch.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <algorithm>
#include <iterator>

using namespace poplar;

/// Instead of simulationMargin with many chunks, which take long to search.
static constexpr double marginOfMany = 1.05;
static constexpr int many = 5;

/// Adds the plan of a choice, if it has one.
static void addPlan(HybridChoice &choice,
                    std::vector<HybridChoice::Other> &plans) {
  if (choice.search.plan)
    plans.push_back(
        {choice.problem, std::move(*choice.search.plan), choice.seconds});
}

/// The best plan of all problems with so many chunks.
static HybridChoice chooseOf(const std::vector<HybridProblem> &problems,
                             const FirstStage &first, int64_t effort,
                             int chunks, double limit) {
  HybridChoice choice;
  double bound = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < problems.size(); ++i) {
    HybridProblem problem = problems[i];
    if (chunks > 1) {
      if (!problem.hasEqualUnits())
        continue;
      problem.schedules = {PipelineSchedule::Interleaved};
      problem.chunks = chunks;
    }
    HybridSearchResult found = searchColumnPlan(problem, first, effort, limit);
    if (i == 0)
      choice.search.error = found.error;
    bound = std::min(bound, found.lowerBound);
    choice.effort += found.effort;
    if (!found.plan)
      continue;
    double seconds = simulatePipeline(problem, *found.plan).seconds;
    if (seconds < choice.seconds) {
      addPlan(choice, choice.others);
      choice.problem = i;
      choice.search = std::move(found);
      choice.seconds = seconds;
    } else {
      choice.others.push_back({i, std::move(*found.plan), seconds});
    }
  }
  choice.search.lowerBound = bound;
  return choice;
}

static double getCost(const HybridChoice &choice) {
  return choice.search.plan ? choice.search.plan->seconds
                            : std::numeric_limits<double>::infinity();
}

HybridChoice
poplar::chooseHybridPlan(const std::vector<HybridProblem> &problems,
                         int64_t effort, int mostChunks, double limit) {
  return chooseColumnPlan(problems, FirstStage(), effort, mostChunks, limit);
}

HybridChoice
poplar::chooseColumnPlan(const std::vector<HybridProblem> &problems,
                         const FirstStage &first, int64_t effort,
                         int mostChunks, double limit) {
  HybridChoice choice = chooseOf(problems, first, effort, 1, limit);
  // What does not fit with one chunk does not with several; but it may take
  // less than the limit only with several.
  std::array<double, HybridProblem::mostChunks + 1> bounds;
  bounds.fill(std::numeric_limits<double>::infinity());
  bounds[1] = choice.search.lowerBound;
  int64_t used = choice.effort;
  bool isFirst = limit == std::numeric_limits<double>::infinity();
  std::vector<HybridChoice> slower;
  double least = getCost(choice);
  for (int chunks = 2; (choice.search.plan || !isFirst) && chunks <= mostChunks;
       ++chunks) {
    // What costs so much more is not faster.
    double margin = chunks < many ? simulationMargin : marginOfMany;
    HybridChoice other = chooseOf(problems, first, effort / 4, chunks,
                                  std::min(limit, least * margin));
    least = std::min(least, getCost(other));
    bounds[chunks] = other.search.lowerBound;
    used += other.effort;
    if (other.seconds < choice.seconds)
      std::swap(choice, other);
    slower.push_back(std::move(other));
  }
  for (HybridChoice &other : slower) {
    addPlan(other, choice.others);
    std::move(other.others.begin(), other.others.end(),
              std::back_inserter(choice.others));
  }
  choice.bounds = bounds;
  choice.effort = used;
  return choice;
}
