//===- HybridChoice.cpp - The best of the best hybrid plans ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/HybridChoice.h"
#include "Poplar/Planner/PipelineSimulation.h"
#include <algorithm>

using namespace poplar;

/// The best plan of all problems with so many chunks.
static HybridChoice chooseOf(const std::vector<HybridProblem> &problems,
                             int64_t effort, int chunks) {
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
    HybridSearchResult found = searchHybridPlan(problem, effort);
    if (i == 0)
      choice.search.error = found.error;
    if (!found.plan)
      continue;
    bound = std::min(bound, found.lowerBound);
    double seconds = simulatePipeline(problem, *found.plan).seconds;
    if (seconds < choice.seconds)
      choice = {i, std::move(found), seconds};
  }
  choice.search.lowerBound = bound;
  return choice;
}

HybridChoice
poplar::chooseHybridPlan(const std::vector<HybridProblem> &problems,
                         int64_t effort, int mostChunks) {
  HybridChoice choice = chooseOf(problems, effort, 1);
  // What does not fit with one chunk does not with several.
  for (int chunks = 2; choice.search.plan && chunks <= mostChunks; ++chunks) {
    HybridChoice other = chooseOf(problems, effort / 4, chunks);
    if (other.seconds < choice.seconds)
      choice = std::move(other);
  }
  return choice;
}
