//===- GeoGrid.h - What pipelines over distant devices take -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost of GeoProblem.h, where stages are rows and pipelines columns. The
// search changes a grid step by step; a plan's cost is that of its grid.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_GEOGRID_H
#define POPLAR_LIB_PLANNER_GEOGRID_H

#include "Pipeline/HybridCost.h"
#include "Poplar/Planner/Geo/GeoProblem.h"
#include <algorithm>

namespace poplar {

/// Sums over units, tabulated.
class GeoCosts {
public:
  explicit GeoCosts(const GeoProblem &problem);

  const GeoProblem &problem;

  ParameterElements count(int first, int end) const {
    ParameterElements all = elementSums[end] - elementSums[first];
    return problem.parameters.joinsTied(first, end)
               ? all - problem.parameters.tied
               : all;
  }
  /// The first mode of a kind in which a stage fits with `inFlight`
  /// micro-batches, in a group of so many pipelines. If there is none, the
  /// last, and in `excess` by what share of the memory too much it needs.
  int findMode(int kind, int first, int end, double inFlight, int pipelines,
               double &excess) const;
  double getForward(int kind, int mode, int first, int end) const {
    const std::vector<double> &sums = modes[kind][mode].forward;
    return sums[end] - sums[first];
  }
  double getBackward(int kind, int mode, int first, int end) const {
    const std::vector<double> &sums = modes[kind][mode].backward;
    return sums[end] - sums[first];
  }

private:
  struct Sums {
    std::vector<double> forward, backward, saved;
    /// The most of units [first, end), at first * (units + 1) + end.
    std::vector<double> work;
  };
  int units;
  std::vector<ParameterElements> elementSums;
  /// By kind and mode.
  std::vector<std::vector<Sums>> modes;
};

class GeoGrid {
public:
  GeoGrid(const GeoCosts &costs, PipelineSchedule schedule, int stages,
          int pipelines);

  const int stages, pipelines;
  const PipelineSchedule schedule;
  /// Row-major. After a change, refreshStage() of the rows concerned.
  std::vector<int> cells;
  /// After a change, refreshCuts().
  std::vector<int> cuts;

  int &at(int stage, int pipeline) {
    return cells[stage * pipelines + pipeline];
  }
  /// Recomputes what follows from the devices of a stage and of those next to
  /// it.
  void refreshStage(int stage);
  /// After a change of the cuts of stages [first, last].
  void refreshCuts(int first, int last);
  void refresh();

  /// P and E of a pipeline with so many micro-batches; `excess` grows by what
  /// its stages need more than there is memory.
  LaneTimes getTimes(int pipeline, int64_t microBatches, double &excess);
  /// Seconds of an iteration; infinite if a stage does not fit.
  double getSeconds(int pipeline, int64_t microBatches);
  std::vector<PlannedStage> getStages(int pipeline, int64_t microBatches);
  int getMode(int stage, int pipeline, int64_t microBatches, double &excess);

  /// What tells a search where to go on.
  struct Guide {
    /// What an iteration takes at least, whatever the shares of the pipelines.
    double seconds;
    /// What it would take were all stages and all pipelines alike: it changes
    /// with all that the maxima of the cost hide.
    double mean;
    /// The excess of memory, with equal shares: see GeoCosts::findMode.
    double excess;
  };
  Guide getGuide();
  /// Shares the micro-batches among the pipelines so that an iteration takes
  /// least, and returns its seconds; infinite if stages do not fit.
  double share(std::vector<int64_t> &shares);

private:
  int64_t countInFlight(int stage, int64_t microBatches) const {
    return schedule == PipelineSchedule::GPipe
               ? microBatches
               : std::min<int64_t>(stages - stage, microBatches);
  }
  StageSeconds getCost(int stage, int pipeline, int64_t microBatches,
                       double &excess);
  bool areAlike(int pipeline, int other) const;
  double getSync(int stage) const;
  double getTied(int pipeline) const;
  void refreshSync(int stage);
  void refreshMessages(int stage);
  int64_t countWithin(double seconds, int pipeline, const LaneTimes &times,
                      int64_t limit);

  const GeoCosts &costs;
  const GeoProblem &problem;
  /// What a node of a stage's devices takes by DT-FM's definition, which adds
  /// up the links to all other nodes: seconds, and seconds for a byte of X.
  struct DTFMExchange {
    double fixed, perByte;

    double getSeconds(double bytes) const { return fixed + bytes * perByte; }
  };
  /// By row.
  std::vector<std::vector<DTFMExchange>> exchanges;
  std::vector<double> optimizer;
  /// By row and column, to the next row: seconds, and those that they take of
  /// the devices at both ends.
  std::vector<double> messages, copies;
  /// s, by row.
  std::vector<double> syncs;
  std::vector<LaneTimes> times;
  /// What the units of a stage take on a device of a kind, with so many
  /// micro-batches in flight: the last ones asked for, none if negative.
  struct Passes {
    int64_t inFlight = -1;
    double forward = 0, backward = 0, excess = 0;
  };
  /// By row, then by kind.
  std::vector<Passes> passes;
  /// By node; zero between calls.
  std::vector<int> counts, otherCounts;
};

/// The grid of a plan, which must be one of stages x pipelines.
GeoGrid makeGrid(const GeoCosts &costs, const GeoPlan &plan);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_GEOGRID_H
