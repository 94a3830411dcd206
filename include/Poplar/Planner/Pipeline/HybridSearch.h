//===- HybridSearch.h - Finding a hybrid plan -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The least cost of HybridProblem.h over two kinds of plans.
//
// - Layered, as HETHUB's: one lane. Every stage has devices of one type, types
//   meet only where one stage sends to the next; all of a type have the same
//   tensor degree, which may differ from that of other types. Of more than
//   three types, all have the same as far as their nodes allow.
// - Side by side: a lane for each of two or more types, whose pipelines have
//   the same stages, in micro-batches of their own; types meet in the
//   gradients. Each lane has as many pipelines as there are devices for, and
//   ZeRO is of stage 0 or 1. Of three or four types, all have the same tensor
//   degree and micro-batch; more than four, and types beyond the 16th, do not
//   stand side by side.
//
// Interleaved plans use all slots that the devices have for stages of D
// pipelines, and each pipeline has at least as many micro-batches as stages. Of
// several lanes, memory is taken to hold the most that may be in flight,
// however samples are shared: no more than there are.
//
// All of these are covered: degrees, micro-batches, numbers of pipelines and of
// stages, schedules; by dynamic programming from the last stage to the first,
// which chooses the units of each stage, its type, what it recomputes and its
// ZeRO stage. Choices whose lower bound is above the best plan are skipped.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDSEARCH_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDSEARCH_H

#include "Poplar/Planner/Pipeline/HybridProblem.h"
#include <limits>

namespace poplar {

struct HybridSearchResult {
  /// None if `error` says why there is none.
  std::optional<HybridPlan> plan;
  std::string error;
  /// No plan of the two kinds takes less. The plan's own time, up to rounding,
  /// unless the search was cut short.
  double lowerBound = 0;
  /// How much was looked at, about.
  int64_t effort = 0;

  bool isProven() const {
    return plan && lowerBound >= plan->seconds * (1 - 1e-9);
  }
};

/// How many partial plans are looked at before the search is cut short: some
/// ten seconds of a core. By size and not by the clock, so that the same
/// problem gives the same plan on any machine.
constexpr int64_t hybridEffort = 200000000;

/// Checks `problem` and solves it. Plans that take `limit` or more are not
/// looked for, nor is the bound above it. Deterministic.
HybridSearchResult
searchHybridPlan(const HybridProblem &problem, int64_t effort = hybridEffort,
                 double limit = std::numeric_limits<double>::infinity());

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDSEARCH_H
