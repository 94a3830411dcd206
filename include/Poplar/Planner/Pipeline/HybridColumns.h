//===- HybridColumns.h - Pipelines of each type by itself -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A third kind of plan. The devices of a type are a column: pipelines of their
// own, with stages, chunks, schedule, tensor degree and micro-batches that suit
// the type. A column computes a share of the global batch as if the type was
// alone. Columns meet in the gradients: whatever rank has a unit exchanges them
// with all ranks that have it, in any column, once an iteration. The state of a
// unit is sharded over all of these (ZeRO 1) or replicated (0).
//
//   a x 4   | unit 0-3 | 4-7 | 8-11 | 12-15 |    samples 0 .. 40
//   b x 2   | unit 0-7       | 8-15         |    samples 41 .. 47
//
// The first unit is in the first stage of all columns, and is exchanged once
// all have its gradients. So an iteration takes the longest T of its columns
// (HybridProblem.h) with an s_0 that is the longest of all.
//
// Let F_i(T) be the most samples that column i computes in T. The sum
// of F_i(T) is the global batch or more where T can be reached. So, for any
// split of the batch in shares n_i: if no column computes its n_i samples in
// less than T, then no plan takes less than T, as the sum of F_i is then below
// that of n_i. This proves a split best, and bounds all others. What a column
// takes depends on the others by the longest s_0 and by their ranks: plans are
// divided by these into ranges, in each of which others take the least that
// they can (docs/hybrid-theory.md).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDCOLUMNS_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDCOLUMNS_H

#include "Poplar/Planner/Pipeline/HybridChoice.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <limits>
#include <set>

namespace poplar {

/// Columns whose first stages are of some kind, and what bounds them.
struct ColumnRange {
  /// Seconds of the longest exchange of a first stage, without the end.
  double leastSync = 0, mostSync = std::numeric_limits<double>::infinity();
  /// Ranks of the first stage, by column.
  struct Ranks {
    int64_t least = 1, most = std::numeric_limits<int64_t>::max();
  };
  std::vector<Ranks> ranks;
  /// None takes less, as this split of the batch says.
  double seconds = 0;
  std::vector<int64_t> samples;
  /// By column, the plan that bounds it: the last that was found.
  std::vector<std::optional<HybridPlan>> plans;
  /// Splits in which each column may be done before the best columns are.
  std::set<std::vector<int64_t>> open;
};

struct HybridColumns {
  struct Column {
    /// Its share of the batch on its type; of other types, what is elsewhere.
    /// Types are numbered as in the problem of all.
    HybridProblem problem;
    HybridPlan plan;
  };
  /// Empty if no such plan was found.
  std::vector<Column> columns;
  /// By the closed form, and simulated.
  double predicted = std::numeric_limits<double>::infinity(),
         simulated = std::numeric_limits<double>::infinity();
  /// By the closed form, no plan of this kind takes less; infinite if there is
  /// none.
  double lowerBound = 0;
  /// What tightenBound() begins with.
  ColumnRange whole;
  /// As HybridChoice::effort.
  int64_t effort = 0;

  std::vector<SolvedProblem> getSolved() const;
};

/// The most types that are planned as columns.
constexpr size_t mostColumns = 4;

/// The columns of the types of `problem` that are fastest when simulated. Each
/// search of one column has `effort` at most. Plans that take `limit` or more
/// are not looked for, nor is the bound above it. Deterministic. There are none
/// for a single type, nor for more than `mostColumns`.
HybridColumns
searchHybridColumns(const HybridProblem &problem, int64_t effort = hybridEffort,
                    int mostChunks = HybridProblem::mostChunks,
                    double limit = std::numeric_limits<double>::infinity());

/// Makes the bound of columns that were found for the same problem tighter, up
/// to `limit`.
void tightenBound(const HybridProblem &problem, HybridColumns &columns,
                  int64_t effort = hybridEffort,
                  int mostChunks = HybridProblem::mostChunks,
                  double limit = std::numeric_limits<double>::infinity());

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDCOLUMNS_H
