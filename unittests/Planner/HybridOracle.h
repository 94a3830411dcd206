//===- HybridOracle.h - Every hybrid plan of a small problem ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_HYBRIDORACLE_H
#define POPLAR_UNITTESTS_PLANNER_HYBRIDORACLE_H

#include "Poplar/Planner/Pipeline/HybridProblem.h"
#include <random>

namespace poplar {

/// One or two types, up to four units, some choices of each kind.
HybridProblem makeRandomHybrid(std::mt19937 &random);
/// Makes interleaved plans, of up to six units.
HybridProblem makeRandomInterleaved(std::mt19937 &random);

/// What the first stage of a plan of one lane spends once an iteration, and how
/// long all that comes before it takes.
struct FirstSync {
  double seconds = 0, before = 0;
};

/// The cost of HybridProblem.h written down a second time; infinite if a stage
/// does not fit in memory.
double defineHybridCost(const HybridProblem &problem, const HybridPlan &plan,
                        FirstSync *firstSync = nullptr);

/// The least cost of all plans of the two kinds of HybridSearch.h, one by one;
/// infinite if there is none.
double searchAllHybrids(const HybridProblem &problem);

/// The least of all plans of two types that are a column each
/// (HybridColumns.h), of 1F1B and GPipe, and interleaved with up to
/// `mostChunks` chunks. There is one ZeRO stage.
double searchAllColumns(const HybridProblem &problem, int mostChunks = 1);

} // namespace poplar

#endif // POPLAR_UNITTESTS_PLANNER_HYBRIDORACLE_H
