//===- GeoAnnealing.h - Local search for distant pipelines ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_GEOANNEALING_H
#define POPLAR_LIB_PLANNER_GEOANNEALING_H

#include "Geo/GeoGrid.h"
#include "Placement/PlacementGrid.h"

namespace poplar {

/// Cells and cuts of a GeoGrid, and the devices that have no cell.
struct GeoState {
  std::vector<int> cells, rest, cuts;
};

/// Changes of plans of one shape: two devices change places, of which one may
/// have been left out; units go from a stage to another; stages change places;
/// pipelines are crossed behind a stage.
class GeoAnnealing {
public:
  GeoAnnealing(const GeoCosts &costs, PipelineSchedule schedule, int stages,
               int pipelines);

  /// With the cuts that suit the devices' speeds, improved step by step.
  GeoState complete(std::vector<int> cells);
  /// Simulated annealing from `hot`, a share of the cost, with so much effort;
  /// then steps that improve, as long as there are some or twice that effort is
  /// done.
  GeoState anneal(const GeoState &from, double hot, int64_t effort,
                  uint64_t sequence);

  /// The approximate time of an iteration; much more where stages do not fit.
  double getCost(const GeoState &state);
  /// See GeoGrid.
  double share(const GeoState &state, std::vector<int64_t> &shares);
  /// Devices priced since the last call.
  int64_t takeEffort();

private:
  /// Its own inverse, but for units, which go back.
  struct Move {
    enum { Exchange, Units, Stages, Cross } kind;
    int first, second, column;
  };
  void load(const GeoState &state);
  GeoState save() const;
  double price();
  bool apply(const Move &move);
  void undo(const Move &move);
  bool exchange(int place, int otherPlace);
  bool moveUnit(int from, int to);
  Move propose(Sequence &sequence);
  /// Between stages that are at most that far from each other.
  void improveCuts(int reach);
  void improve(int64_t limit);
  bool tryMove(const Move &move);
  bool tryWithCuts(const Move &move);

  const GeoCosts &costs;
  const GeoProblem &problem;
  GeoGrid grid;
  std::vector<int> rest;
  std::vector<int64_t> shares;
  bool isExact;
  /// The weight of GeoGrid::Guide::mean in what is minimised.
  static constexpr double meanWeight = 0.05;
  double weight = meanWeight;
  double current = 0;
  int64_t done = 0;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_GEOANNEALING_H
