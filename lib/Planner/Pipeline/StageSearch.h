//===- StageSearch.h - Cutting a model into stages --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is left of a hybrid plan once the shape of its lanes is fixed: which
// units each stage owns, on what kind of devices, what it recomputes and how it
// is sharded.
//
// Dynamic programming from the last stage to the first. A state is the first
// unit that has a stage, how many stages of each kind there are and the kind of
// the first; in it, of the partial plans only those are kept that no other one
// equals or beats in all of P, R and E (LaneTimes), of which the cost is made.
// A partial plan is dropped if even the rest of the devices, shared without
// remainder among the rest of the units, would not make it better than the best
// plan known.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_STAGESEARCH_H
#define POPLAR_LIB_PLANNER_STAGESEARCH_H

#include "Pipeline/HybridCost.h"
#include <array>
#include <map>
#include <tuple>

namespace poplar {

/// Everything about a plan but its stages.
struct StageShape {
  /// The most lanes of a plan.
  static constexpr size_t mostLanes = 4;

  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int chunks = 1;
  /// By lane.
  std::vector<int64_t> microBatches;
  /// Devices that a stage may have: of each lane, and how many stages.
  struct Kind {
    std::vector<GroupPart> parts;
    int slots = 0;
  };
  std::vector<Kind> kinds;
  /// All slots must be used.
  bool usesAllSlots = false;
  /// Micro-batches of each lane, at least. With several chunks, as many as
  /// there are stages or more: the more, the closer to that are blocks
  /// (Timetable.h), and the fewer are in flight.
  int64_t leastMicroBatches = 1;

  size_t lanes() const { return microBatches.size(); }
  int countSlots() const {
    int slots = 0;
    for (const Kind &kind : kinds)
      slots += kind.slots;
    return slots;
  }
  /// Samples of a micro-batch of all pipelines of a lane.
  int64_t getStep(size_t lane) const {
    return microBatches[lane] * kinds[0].parts[lane].pipelines;
  }
  /// By lane.
  std::vector<int64_t> getSteps() const {
    std::vector<int64_t> steps;
    for (size_t lane = 0; lane < lanes(); ++lane)
      steps.push_back(getStep(lane));
    return steps;
  }
  std::vector<int64_t> getLeastMicroBatches() const {
    return std::vector<int64_t>(lanes(), leastMicroBatches);
  }
  /// Of a pipeline, if there is but one lane.
  int64_t countMicroBatches(const HybridProblem &problem) const {
    return (problem.globalBatch + getStep(0) - 1) / getStep(0);
  }
};

/// Least seconds of units at the front of the model, of any mode, by device and
/// size of micro-batch.
class UnitBounds {
public:
  explicit UnitBounds(const HybridProblem &problem);
  struct Bound {
    /// Of each unit: forward; forward and backward.
    std::vector<double> forwardUnits, units;
  };
  /// Null if there is no such mode.
  const Bound *find(int type, int tensorDegree, int64_t microBatch) const;

private:
  std::map<std::tuple<int, int, int64_t>, Bound> bounds;
};

class StageSearch {
public:
  StageSearch(const HybridProblem &problem, const HybridCosts &costs,
              const UnitBounds &bounds, const StageShape &shape);

  /// No plan of this shape takes less.
  double getLowerBound();

  /// Improves `best`, where there is a better plan of this shape that takes
  /// less than `most`. Goes on with
  /// at most `width` partial plans that begin at a unit, those of the least
  /// bounds: with all that count, if that is large. Takes what it does from
  /// `effort`; false if that was not enough.
  bool run(size_t width, double most, std::optional<HybridPlan> &best,
           int64_t &effort);

private:
  using Times = std::array<LaneTimes, StageShape::mostLanes>;
  using PerLane = std::array<double, StageShape::mostLanes>;
  /// How a kind computes a range of units.
  struct Option {
    HybridPlan::Group group;
    std::array<int, StageShape::mostLanes> modes;
    std::array<StageCost, StageShape::mostLanes> costs;
    /// It fits in memory if it is the first of no more stages.
    int mostDepth;
  };
  /// A partial plan.
  struct Label {
    Times times;
    /// The stage in front, of which kind, and the label it was set before.
    const Option *option;
    int kind, rest;
    double bound;
  };
  /// Stages of units [begin, end of the model): how many of each kind, and the
  /// kind of the first, -1 if there is none.
  struct State {
    int begin;
    std::vector<int> used;
    int head;
    int depth;
    std::vector<int> labels;
  };

  std::vector<PipelineShape> getPipelines() const;
  void findInFlight();
  const std::vector<Option> &getOptions(int kind, int first, int end);
  void addOptions(int kind, HybridPlan::Group group, std::vector<Option> &list);
  void complete(int kind, Option &option) const;
  bool fits(int kind, const Option &option,
            const std::vector<HybridPlan::Range> &chunks, int depth) const;
  bool isAtMost(const ChunkSeconds &a, const ChunkSeconds &b) const;
  bool isAtMost(const Option &a, const Option &b) const;
  bool isAtMost(const Times &a, const Times &b) const;

  double getBound(const Times &times, int begin, const PerLane &rest) const;
  /// By lane, a lower bound of P of what computes the units in front of
  /// `begin`.
  PerLane getRestPeriods(int begin, const std::vector<int> &used);
  double getWholePeriod(size_t lane, int begin, const std::vector<int> &used,
                        double period) const;
  const std::vector<double> &getShares(unsigned kinds, size_t lane);

  void expand(const State &state);
  void addStages(const State &from, int kind, int first, const Times &least,
                 const PerLane &messages);
  State &getState(int begin, std::vector<int> used, int head, int depth);
  void add(State &state, const Label &label);
  void narrow(int begin);
  void finish(const State &state);
  HybridPlan makePlan(int label, const std::vector<int64_t> &counts) const;

  const HybridProblem &problem;
  const HybridCosts &costs;
  const StageShape &shape;
  int units;
  /// By depth and chunk, micro-batches in flight.
  std::vector<std::array<int64_t, HybridProblem::mostChunks>> inFlight;
  /// By kind and lane; the sums are of `units` in front of each.
  std::vector<std::vector<const UnitBounds::Bound *>> bounds;
  std::vector<std::vector<std::vector<double>>> unitSums;
  /// Of the units between the first and the last, the least.
  std::vector<std::vector<double>> leastUnits;
  std::vector<std::vector<std::vector<int>>> modes;
  /// By lane: of the units in front of each, least seconds on any kind.
  std::vector<std::vector<double>> restForward, restBoth;
  std::map<std::pair<unsigned, size_t>, std::vector<double>> shares;
  std::map<std::tuple<int, int, int>, std::vector<Option>> options;

  size_t width = 0;
  int64_t *effort = nullptr;
  std::optional<HybridPlan> *best = nullptr;
  double limit = 0;
  std::vector<Label> labels;
  /// By first unit, then by stages used and head.
  std::vector<std::map<std::vector<int>, State>> states;
};

/// How many micro-batches each lane should take, as many as its `least` or
/// more, and the time that takes: the least for `globalBatch` samples.
/// `perMicroBatch` is samples of all pipelines of a lane.
double shareMicroBatches(const std::vector<LaneTimes> &lanes,
                         const std::vector<int64_t> &perMicroBatch,
                         int64_t globalBatch, const std::vector<int64_t> &least,
                         std::vector<int64_t> &counts);

/// Samples of lanes that have such counts of micro-batches, of which some are
/// not full: `globalBatch` in all, and no lane with fewer micro-batches than
/// its `least`.
std::vector<int64_t> shareSamples(const std::vector<int64_t> &perMicroBatch,
                                  int64_t globalBatch,
                                  const std::vector<int64_t> &least,
                                  const std::vector<int64_t> &counts);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_STAGESEARCH_H
