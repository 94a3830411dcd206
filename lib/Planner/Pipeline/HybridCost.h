//===- HybridCost.h - What a stage of a pipeline takes ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f, b, c and s of HybridProblem.h, and memory. Both searches and the cost
// of a plan take them from here.
//
// The devices of a group fill nodes, or share one with other groups evenly. So
// an exchange of E elements of g bytes among the replicas of a stage, on n
// nodes with r replicas each of tensor degree t, takes
//
//   max( (r-1)/r E/t g / B,  (n-1)/n E g / b )
//
// at bandwidth B inside and b between nodes (CollectiveCost.h), and latencies.
// Stages that share a node exchange at the same time, so that each has its part
// of b.
// ZeRO exchanges (Rajbhandari et al., SC 2020, section 7) in stage 0 gradients
// twice an iteration, in 1 gradients and parameters once, in 2 gradients with
// every micro-batch, in 3 besides parameters with every pass. Nothing of it is
// hidden behind computation. Messages between stages are; where the cores that
// compute move them, a pass takes their bytes times the link's overhead longer.
//
// A stage of several chunks takes what all of them take together. Each has
// messages, and memory for them, of its own.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_HYBRIDCOST_H
#define POPLAR_LIB_PLANNER_HYBRIDCOST_H

#include "Poplar/Planner/Pipeline/HybridProblem.h"
#include <algorithm>
#include <array>
#include <limits>

namespace poplar {

/// By chunk of a stage.
using ChunkSeconds = std::array<double, HybridProblem::mostChunks>;

/// Seconds that a rank of a lane spends: in passes of a micro-batch, and once
/// an iteration.
struct StageSeconds {
  double forward = 0, backward = 0, sync = 0;

  double both() const { return forward + backward; }
};

/// What a rank of a lane spends.
struct StageCost : StageSeconds {
  /// Both passes of each chunk.
  ChunkSeconds chunks{};
  /// Without what micro-batches in flight keep.
  int64_t fixedBytes = 0;
  /// What its collectives carry in a micro-batch, and once an iteration.
  double bytesPerStep = 0, bytesPerIteration = 0;
};

/// Cuts a stage of units [first, end) into chunks that take as long as each
/// other in a mode, as far as units are whole; earlier ones are longer.
std::vector<HybridPlan::Range> cutStage(const HybridProblem::Mode &mode,
                                        HybridPlan::Range stage, int chunks);

/// Micro-batches that are in flight in a chunk, those it has memory for.
int64_t countInFlight(PipelineSchedule schedule, const PipelineShape &shape,
                      int64_t stage, int64_t chunk);

/// What holds of the first stage of a plan: it spends no less than `leastSync`
/// seconds once an iteration, as it waits for others. A plan is none in which
/// it would by itself spend `mostSync` or more, or has fewer or more ranks.
struct FirstStage {
  double leastSync = 0, mostSync = std::numeric_limits<double>::infinity();
  int64_t leastRanks = 1, mostRanks = std::numeric_limits<int64_t>::max();
};

class HybridCosts {
public:
  /// With `communicates` unset, as if all links were infinitely fast.
  explicit HybridCosts(const HybridProblem &problem, bool communicates = true,
                       const FirstStage &first = {});

  /// The cost of part `own` of `parts`, which compute the units [group.first,
  /// group.end) by mode `mode` of its type, in these chunks.
  StageCost getStage(const HybridPlan::Group &group,
                     const std::vector<GroupPart> &parts, size_t own, int mode,
                     const std::vector<HybridPlan::Range> &chunks) const;
  /// What such a stage does once an iteration, however it computes.
  double getSync(const HybridPlan::Group &group,
                 const std::vector<GroupPart> &parts, size_t own) const {
    return getZero(group, parts, own).sync;
  }
  /// Seconds of a micro-batch's message between stages of one pipeline.
  double getMessage(int64_t microBatch, const GroupPart &from,
                    const GroupPart &to) const;

  /// Seconds of units [first, end) without what ZeRO adds.
  double getSeconds(int type, int mode, HybridPlan::Range units) const;
  /// What a micro-batch keeps in them.
  int64_t getSavedBytes(int type, int mode, HybridPlan::Range units) const;

private:
  struct Sums {
    std::vector<double> forward, backward;
    std::vector<int64_t> saved;
  };
  /// The most of units [first, end), of which many begin at the first or second
  /// unit or end with the last.
  class Most {
  public:
    Most() = default;
    explicit Most(std::vector<int64_t> values);
    int64_t get(int first, int end) const;

  private:
    std::vector<int64_t> values;
    /// From the first and the second unit up to each, and from each to the
    /// last.
    std::vector<int64_t> fromFirst, fromSecond, toLast;
  };
  /// What a collective takes: for each byte once around inside of nodes, and
  /// between them at the same time; and in all.
  struct ExchangeRate {
    double inside = 0, between = 0, latency = 0;

    double getSeconds(double bytesInside, double bytesBetween) const {
      return std::max(bytesInside * inside, bytesBetween * between);
    }
  };
  /// Rates of exchanging what the ranks of a group hold parts of, and what all
  /// hold whole.
  struct ExchangeRates {
    std::vector<GroupPart> parts;
    ExchangeRate divided, whole;
  };
  ExchangeRate getRate(const std::vector<GroupPart> &parts) const;
  std::vector<GroupPart> getHolders(std::vector<GroupPart> parts) const;
  const ExchangeRates &getRates(const std::vector<GroupPart> &parts) const;
  double exchangeTied(const GroupPart &part, int64_t bytes) const;
  double getOverhead(const HybridPlan::Group &group, int type, int64_t bytes,
                     size_t chunks) const;
  void addExchanges(StageCost &cost, const HybridPlan::Group &group,
                    ExchangeRate rate, int64_t elements, int64_t gathered,
                    int64_t carried) const;
  const StageCost &getZero(const HybridPlan::Group &group,
                           const std::vector<GroupPart> &parts,
                           size_t own) const;
  double getFirstSync(double seconds,
                      const std::vector<GroupPart> &parts) const;
  BucketSizes getBuckets(const Most &elements, const HybridPlan::Group &group,
                         int64_t count, int64_t largest) const;
  int64_t getTransientBytes(const HybridPlan::Group &group,
                            const GroupPart &part,
                            const ParameterElements &divided) const;

  const HybridProblem &problem;
  bool communicates;
  FirstStage first;
  /// By type and mode, sums over the units in front of each.
  std::vector<std::vector<Sums>> sums;
  /// By type and mode.
  std::vector<std::vector<Most>> work;
  Most trained, frozen, quantized;
  /// Bytes of a sample's message, from a type to another.
  std::vector<int64_t> messageBytes;
  /// The rates of the group that was asked for last.
  mutable ExchangeRates lastRates;
  /// What ZeRO adds to the stages of the group that was asked for last, by
  /// part.
  struct LastZero {
    HybridPlan::Group group;
    std::vector<GroupPart> parts;
    std::vector<std::optional<StageCost>> costs;
  };
  mutable LastZero lastZero;
};

/// How the P, R and E of a lane grow as stages are set in front.
struct LaneTimes {
  /// The period P, and what its forward and backward parts are (GPipe), or all.
  double period = 0, backwardPeriod = 0;
  double roundTrip = 0, end = 0;
  /// Chunks of every stage.
  int chunks = 1;

  double getPeriod() const { return period + backwardPeriod; }
  double getSeconds(int64_t microBatches) const {
    return (static_cast<double>(microBatches) - 1.0 / chunks) * getPeriod() +
           end;
  }
  /// `behind` is the stage in front so far, null if there is none, and
  /// `message` to it; `depth` is the number of stages from the new one on.
  LaneTimes prepend(const StageCost &stage, const StageCost *behind,
                    double message, int depth, PipelineSchedule schedule) const;
  /// The same, as if chunks were alike in neighboring stages; and what it takes
  /// that they are not.
  LaneTimes prependEven(const StageSeconds &stage, const StageSeconds *behind,
                        double message, int depth,
                        PipelineSchedule schedule) const {
    LaneTimes times = *this;
    times.roundTrip += getOfChunk(stage.both()) + 2 * message;
    times.end =
        std::max(times.roundTrip + stage.sync,
                 behind ? getOfChunk(stage.forward) + message + end : 0);
    if (schedule == PipelineSchedule::GPipe) {
      times.period = std::max({period, stage.forward, message});
      times.backwardPeriod =
          std::max({backwardPeriod, stage.backward, message});
    } else {
      times.takeInTurns(stage, behind, message, depth);
    }
    return times;
  }
  void meetChunks(const StageCost &stage, const StageCost &behind);

private:
  /// In turns, a stage is ahead of the next: by one micro-batch, or by two of a
  /// chunk.
  void takeInTurns(const StageSeconds &stage, const StageSeconds *behind,
                   double message, int depth) {
    bool isInterleaved = chunks > 1;
    double inFlight = isInterleaved ? 2 * depth - 1 : depth;
    period = std::max({period, stage.both(), chunks * message,
                       chunks * roundTrip / inFlight});
    if (behind) {
      double both = stage.both() + behind->both() + 2 * chunks * message;
      period = std::max(period, isInterleaved ? both / 3 : both / 2);
    }
  }
  /// Searches spend their time here, and divisions take long.
  double getOfChunk(double seconds) const {
    return chunks == 1 ? seconds : seconds / chunks;
  }
};

/// A stage of a lane of a plan.
struct PlannedStage {
  /// The cost of all chunks together.
  StageCost cost;
  struct Chunk {
    double forward = 0, backward = 0;
  };
  std::vector<Chunk> chunks;
  /// To the next stage; of the last one, to the next chunk of the first, if
  /// there is one.
  double message = 0;
  /// At most.
  int64_t bytes = 0;
};
std::vector<PlannedStage> getStages(const HybridProblem &problem,
                                    const HybridPlan &plan, size_t lane,
                                    const HybridCosts &costs);
LaneTimes getLaneTimes(const std::vector<PlannedStage> &stages,
                       PipelineSchedule schedule);

/// A group of a plan, by lane.
std::vector<GroupPart> getParts(const HybridProblem &problem,
                                const HybridPlan &plan, size_t group);

/// True if D pipelines of this degree fill nodes of the type, or share one
/// evenly.
bool isAligned(const HybridProblem::DeviceType &type, int tensorDegree,
               int64_t pipelines);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_HYBRIDCOST_H
