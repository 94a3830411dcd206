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
// What is below the least P and E that the rest of the units leads to makes no
// difference, and is taken to be as much. A partial plan is dropped if even the
// rest of the devices would not make it better than the best plan known.
//
// The rest of the devices is taken to share the rest of the units in two ways:
// without remainder, or whole. Of whole units, a stage of a kind holds no more
// than there is a way for to compute them within P, in the memory that it has
// so far in front.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_STAGESEARCH_H
#define POPLAR_LIB_PLANNER_STAGESEARCH_H

#include "Pipeline/HybridCost.h"
#include "Poplar/Planner/Pipeline/HybridChoice.h"
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

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
  /// Micro-batches of a pipeline, if there is but one lane.
  int64_t countMicroBatches(const HybridProblem &problem) const {
    return std::max((problem.globalBatch + getStep(0) - 1) / getStep(0),
                    leastMicroBatches);
  }
};

/// Least seconds of units, of any mode, by device and size of micro-batch.
class UnitBounds {
public:
  explicit UnitBounds(const HybridProblem &problem);
  struct Bound {
    /// Seconds of each unit: forward, backward, and both.
    std::vector<double> forward, backward, both;
    /// Sums of `both` over the units in front of each, and the least between
    /// the first and the last.
    std::vector<double> sums;
    double leastInner = 0;
    /// Modes of the type.
    std::vector<int> modes;
  };
  /// Null if there is no such mode.
  const Bound *find(int type, int tensorDegree, int64_t microBatch) const;

  /// HybridProblem::hasEqualUnits().
  const bool hasEqualUnits;

  using PerLane = std::array<double, StageShape::mostLanes>;
  /// What the first stage of devices takes least once an iteration, by lane; it
  /// has `chunks` units or all.
  const PerLane &getLeastSync(const HybridProblem &problem,
                              const HybridCosts &costs,
                              const std::vector<GroupPart> &parts,
                              int chunks) const;

private:
  std::map<std::tuple<int, int, int64_t>, Bound> bounds;
  /// By parts, as numbers, and chunks. Many shapes have the same.
  mutable std::map<std::vector<int64_t>, PerLane> leastSyncs;
};

class StageSearch {
public:
  /// A coarse search is shorter, and misses plans that are a little better.
  StageSearch(const HybridProblem &problem, const HybridCosts &costs,
              const UnitBounds &bounds, const StageShape &shape, bool isCoarse);

  /// No plan of this shape takes less.
  double getLowerBound();

  /// Improves `best`, where there is a better plan of this shape that takes
  /// less than `most`. Goes on with at most `width` partial plans that begin at
  /// a unit, those of the least bounds: with all that count, if that is large.
  /// Takes what it does from `effort`; false if that was not enough.
  bool run(size_t width, double most, std::optional<HybridPlan> &best,
           int64_t &effort);
  /// No plan of this shape that takes less than `most` takes less than this, as
  /// far as run() knows.
  double getBound() const { return wholeBound; }

private:
  using Times = std::array<LaneTimes, StageShape::mostLanes>;
  using PerLane = UnitBounds::PerLane;
  /// How a kind computes a range of units.
  struct Option {
    int zeroStage = 0;
    std::array<int, StageShape::mostLanes> modes{};
    /// By lane.
    std::vector<StageCost> costs;
    /// It fits in memory if it is the first of no more stages.
    int mostDepth = 0;
  };
  using Options = std::vector<Option>;
  /// A partial plan.
  struct Label {
    Times times;
    /// The stage in front, from which unit on and of which kind, and the label
    /// it was set before.
    const Option *option;
    int first, kind, rest;
    double bound;
  };
  /// How many stages of each kind there are.
  struct Use {
    std::vector<int> counts;
    int depth;
    /// With one more of a kind; below 0 if not asked for.
    std::vector<int> next;
  };
  /// Stages of units [begin, end of the model): by number, a Use; and the kind
  /// of the first, -1 if there is none.
  struct State {
    int begin, use, head;
    std::vector<int> labels;
  };
  /// Those that begin with a unit, and their places by use and head.
  struct States {
    std::vector<State> list;
    std::unordered_map<int64_t, size_t> places;
  };

  std::vector<PipelineShape> getPipelines(size_t lane) const;
  void findInFlight();
  const Options &getOptions(int kind, int first, int end);
  std::unique_ptr<Options> &getEntry(int kind, int first, int end);
  void addOptions(int kind, HybridPlan::Group group,
                  const std::vector<std::vector<HybridPlan::Range>> &cuts,
                  Options &list);
  void complete(int kind, HybridPlan::Group group,
                const std::vector<HybridPlan::Range> &chunks,
                Option &option) const;
  bool isLess(double a, double b) const { return a <= b * tolerance; }
  int findMostDepth(int kind, const Option &option,
                    const std::vector<HybridPlan::Range> &chunks) const;
  bool isAtMost(const ChunkSeconds &a, const ChunkSeconds &b) const;
  bool isAtMost(const Option &a, const Option &b) const;
  bool isAtMost(const Label &a, const Label &b) const;

  double getBound(const Times &times, int begin, int depth,
                  const PerLane &rest) const;
  double countRestMessages(int begin, int depth) const;
  double getRestEnd(size_t lane, int begin, int depth) const;
  double getLongestPeriod(size_t lane) const;
  double getLeastSeconds(int kind, size_t lane, int inner, int depth);
  int countHeld(int kind, size_t lane, int depth, double period);
  double getNextPeriod(int kind, size_t lane, int depth, int held);
  /// By lane, a lower bound of P of what computes the units in front of
  /// `begin`: of units without remainder; and of whole ones, which takes
  /// options.
  PerLane getRestPeriods(int begin, const std::vector<int> &used);
  const PerLane &getWholePeriods(int begin, int use);
  double getWholePeriod(size_t lane, int begin, const std::vector<int> &used,
                        int depth, double period);
  const std::vector<double> &getShares(unsigned kinds, size_t lane);

  void expand(const State &state);
  void addStages(const State &from, int kind, int first, const Times &least,
                 const PerLane &messages);
  bool makeLabel(const State &from, const PerLane &messages,
                 const PerLane &rest, Label &label) const;
  int addTo(int use, int kind);
  State &getState(int begin, int use, int head);
  /// In an order that does not depend on that in which they were met.
  std::vector<State> takeStates(int begin);
  void add(State &state, const Label &label);
  void narrow(std::vector<State> &list) const;
  void finish(const State &state);
  HybridPlan makePlan(int label, const std::vector<int64_t> &counts) const;

  const HybridProblem &problem;
  const HybridCosts &costs;
  const StageShape &shape;
  /// Times up to so many times as long are taken to be equal.
  double tolerance;
  bool hasEqualUnits;
  /// Where units are equal, and earlier chunks have no fewer micro-batches in
  /// flight: a stage of more units needs more memory.
  bool isMonotone = false;
  int units;
  /// Micro-batches of a pipeline, if there is but one lane.
  double microBatches = 0;
  /// By lane, depth and chunk, micro-batches in flight.
  std::vector<std::vector<std::array<int64_t, HybridProblem::mostChunks>>>
      inFlight;
  /// By kind and lane.
  std::vector<std::vector<const UnitBounds::Bound *>> bounds;
  /// By lane: of the units in front of each, least seconds on any kind.
  std::vector<std::vector<double>> restForward, restBackward, restBoth;
  /// By lane: of a message between any kinds, and of what the first stage does
  /// once an iteration.
  PerLane leastMessage{}, leastSync{};
  std::map<std::pair<unsigned, size_t>, std::vector<double>> shares;
  /// By getEntry(); null if not asked for.
  std::vector<std::unique_ptr<Options>> options;
  /// By kind and lane, of the units between the first and the last.
  std::vector<std::vector<double>> leastUnits;
  /// By depth, and by kind, lane and number of these units: of a stage; below 0
  /// if not asked for.
  std::vector<std::vector<double>> leastSeconds;
  /// By Use and first unit.
  std::unordered_map<int64_t, PerLane> wholePeriods;

  size_t width = 0;
  int64_t *effort = nullptr;
  std::optional<HybridPlan> *best = nullptr;
  double limit = std::numeric_limits<double>::infinity(), wholeBound = 0;
  std::vector<Label> labels;
  /// The first is of no stages.
  std::vector<Use> uses;
  std::map<std::vector<int>, int> useNumbers;
  /// By first unit.
  std::vector<States> states;
};

/// searchHybridPlan() and chooseHybridPlan() of a problem whose first stage
/// is one of `first`.
HybridSearchResult searchColumnPlan(const HybridProblem &problem,
                                    const FirstStage &first, int64_t effort,
                                    double limit);
HybridChoice chooseColumnPlan(const std::vector<HybridProblem> &problems,
                              const FirstStage &first, int64_t effort,
                              int mostChunks, double limit);

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
