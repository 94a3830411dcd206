//===- PlacementGrid.h - A placement under local search ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages are rows, pipelines are columns. While devices change places the
// pipelines stay put, so that a change is priced in time proportional to the
// pipelines; from time to time everything is rearranged optimally.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_PLACEMENTGRID_H
#define POPLAR_LIB_PLANNER_PLACEMENTGRID_H

#include "Placement/PlacementPath.h"
#include <cstdint>

namespace poplar {

/// SplitMix64 from a fixed start: the search must be a function of its problem.
class Sequence {
public:
  explicit Sequence(uint64_t start) : state(start) {}
  uint64_t next();
  int below(int bound) {
    return static_cast<int>((next() >> 32) * static_cast<uint64_t>(bound) >>
                            32);
  }
  /// In (0, 1].
  double unit() { return ((next() >> 11) + 1) * 0x1p-53; }

private:
  uint64_t state;
};

/// Simulated annealing over exchanges of two devices.
class PlacementGrid {
public:
  PlacementGrid(const PlacementCosts &costs, int stages);

  using Stages = std::vector<std::vector<int>>;

  struct Schedule {
    /// First and last temperature, as a share of the cost at the start.
    double hot, cold;
    int steps;
    /// How many of the steps end with everything rearranged.
    int arrangements;
    int64_t exchangesPerStep;
    /// Which sequence of exchanges is tried.
    uint64_t sequence;
  };
  /// Returns the best stages met, arranged.
  Stages anneal(const Stages &from, const Schedule &schedule);

  /// Their cost, of the order and pipelines as they are.
  double getSeconds(const Stages &stages) const;

  /// About how many comparisons it takes to rearrange everything.
  double estimateArrangement() const;

private:
  void load(const Stages &stages);
  Stages save() const;
  void rearrange();
  /// An exchange of two devices, and what it changes.
  struct Exchange {
    int d, dPrime;
    /// Their rows.
    int j, jPrime;
    /// What the cost rises by.
    double change = 0;
    /// The greatest sums of the two rows, and of all.
    float newMax = 0, newMaxPrime = 0, newGreatest = 0;
    /// Links of neighbouring rows that change: at most four, each in one or two
    /// columns.
    struct Link {
      int row, column[2];
      float value[2];
      int count;
      float max, sum;
    } links[4] = {};
    int numLinks = 0;
  };
  /// Exchanges two devices unless that costs more than `allowance`.
  bool tryExchange(int d, int dPrime, double allowance);
  /// Data parallelism: both rows' sums without the one device and with the
  /// other, in `scratch` and `scratchPrime`.
  void scoreRows(Exchange &exchange);
  /// Pipelines: the links to the rows before and behind.
  void scoreLinks(Exchange &exchange) const;
  void touchLink(Exchange &exchange, int row, int column) const;
  void apply(const Exchange &exchange);

  const PlacementCosts &costs;
  int devices, rows, columns;
  /// Single precision, for speed: costs are confirmed in double precision.
  std::vector<float> data, pipe;
  /// Devices that have the same links to all others: exchanging two of them
  /// changes nothing.
  std::vector<int> twins;

  std::vector<int> cells, rowOf, columnOf;
  /// By device, the sum over its row; by row, the greatest sum.
  std::vector<float> sums, rowMax;
  /// By link of neighbouring rows and column; by link, greatest and sum.
  std::vector<float> links;
  std::vector<float> linkMax, linkSum;
  /// DATAP.
  double greatest = 0;
  std::vector<float> scratch, scratchPrime;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_PLACEMENTGRID_H
