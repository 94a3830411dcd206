//===- HybridChoice.h - The best of the best hybrid plans -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cluster may be posed as several problems, and stages may have one chunk or
// several. Each case is searched for the plan that its cost says is best; of
// these, the one is taken that is fastest when simulated, as costs are not
// equally close to the simulation.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDCHOICE_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDCHOICE_H

#include "Poplar/Planner/Pipeline/HybridSearch.h"
#include <array>
#include <limits>

namespace poplar {

struct HybridChoice {
  /// Whose plan it is.
  size_t problem = 0;
  /// Its bound is one for all problems, with as many chunks. Without a plan,
  /// its error says why the first problem has none.
  HybridSearchResult search;
  /// By the number of chunks: no plan of any problem costs less.
  std::array<double, HybridProblem::mostChunks + 1> bounds{};
  /// The effort of all searches (HybridSearchResult::effort).
  int64_t effort = 0;
  /// The best plans of other problems and other numbers of chunks, with their
  /// simulated seconds.
  struct Other {
    size_t problem;
    HybridPlan plan;
    double seconds;
  };
  std::vector<Other> others;
  /// Simulated; infinite if there is no plan.
  double seconds = std::numeric_limits<double>::infinity();
};

/// Chooses among problems that differ in what they take the cluster to be.
/// `effort` is for each of them with one chunk; several chunks get a quarter of
/// it each. Plans that take `limit` or more by the cost are not looked for.
HybridChoice
chooseHybridPlan(const std::vector<HybridProblem> &problems,
                 int64_t effort = hybridEffort,
                 int mostChunks = HybridProblem::mostChunks,
                 double limit = std::numeric_limits<double>::infinity());

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDCHOICE_H
