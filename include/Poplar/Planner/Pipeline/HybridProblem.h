//===- HybridProblem.h - Pipeline stages on unlike devices ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem of hybrid plans and their solutions, apart from the algorithms
// that find them (HybridSearch.h): a model is cut into stages of consecutive
// units, each computed by a group of ranks, data x pipeline x tensor parallel,
// on devices of unlike types. After HETHUB (arXiv 2405.16256); the cost is
// ours.
//
// A plan has S groups, which own ranges of units, and lanes. A lane is a number
// D of pipelines that are alike: stage j of each is computed by t_j devices of
// one type (tensor parallel, inside a node), in micro-batches of b samples, m
// of them. Group j is all that compute stage j. For a lane, with f_j and b_j
// the seconds of forward and backward of a micro-batch in stage j, c_j of its
// message to stage j + 1 or back, s_j of what group j does once an iteration
// (gradients, optimizer), and q_j = S - j micro-batches in flight (1F1B):
//
//   R_j = sum of f_i + b_i over i >= j, + 2 sum of c_i over j <= i < S - 1
//   P   = max over j of f_j + b_j, c_j, R_j / q_j,
//         c_j + the mean of f + b in stages j and j + 1                  (1F1B)
//   P   = max_j(f_j, c_j) + max_j(b_j, c_j)            (GPipe, where q_j = m)
//   E_j = max(R_j + s_j, f_j + c_j + E_{j+1})
//   T   = (m - 1) P + E_0
//
// An iteration takes the longest T of all lanes. R_j / q_j is the round trip of
// a micro-batch from stage j: no new one enters before it is back. Stage j is
// one ahead of stage j + 1: in the time of two micro-batches, a message goes
// each way between them and both compute one after the other.
//
// In interleaved schedules (Timetable.h) stages have V chunks, between which
// their units are shared as evenly as can be. What is a micro-batch above is
// then one in a chunk, 1/V of the seconds, with messages as long as before:
//
//   R_j = sum of (f_i + b_i) / V over i >= j, + 2 sum of c_i as above
//   P   = max over j of f_j + b_j, V c_j, V R_j / (2 (S - j) - 1),
//         (2 V c_j + f + b in stages j and j + 1) / 3,
//         V times the mean over any chunk of stage j and any of stage j + 1 of
//         the longer f + b
//   E_j = max(R_j + s_j, f_j / V + c_j + E_{j+1})
//   T   = (m - 1/V) P + E_0
//
// as stage j is two turns ahead of stage j + 1, and neighbors are in chunks of
// all kinds at the same time: chunks of equal length are better. The messages
// from the last stage to the next chunk of the first are left out.
//
// Units: bytes, seconds, bytes per second.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDPROBLEM_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDPROBLEM_H

#include "Poplar/Planner/Cluster/Cluster.h"
#include "Poplar/Planner/Cluster/CollectiveLatency.h"
#include "Poplar/Planner/Model/ParameterBytes.h"
#include "Poplar/Planner/Model/ZeroRounds.h"
#include "Poplar/Planner/Pipeline/Timetable.h"
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace poplar {

/// The parameters of a model by unit, where it can be cut into stages.
struct UnitParameters {
  UnitElements parameters;
  /// By degree; all are divided evenly where it is not there.
  std::map<int, SharedElements> shared;
  /// Degrees of pipelines beside which one device can compute whole units.
  std::set<int> joined;
  /// The largest buckets that small units share. The largest bucket of a stage
  /// has at least the elements of its largest unit. Trained, frozen and
  /// quantised parameters have buckets of their own.
  ParameterElements largestBucket;
  /// What a step of a single stage moves; where it is 0, each unit's elements
  /// once.
  StepElements wholeStep;

  /// What the first of `degree` devices that share units [first, end) holds.
  HeldElements hold(int degree, int first, int end) const;
};

/// The pipelines of a lane in a stage.
struct GroupPart {
  int type = 0, tensorDegree = 1;
  int64_t pipelines = 1;

  bool operator==(const GroupPart &other) const {
    return type == other.type && tensorDegree == other.tensorDegree &&
           pipelines == other.pipelines;
  }
};

struct HybridProblem : UnitParameters {
  /// What a device takes for a micro-batch in a unit.
  struct UnitCost {
    /// Communication among the devices of a tensor-parallel group included,
    /// which `communication` is, of both together.
    double forward = 0, backward = 0, communication = 0;
    /// Kept from forward to backward; needed while the unit computes.
    int64_t savedBytes = 0, workBytes = 0;
  };
  /// A way to compute a stage.
  struct Mode {
    int tensorDegree = 1;
    int64_t microBatch = 1;
    RecomputePolicy recompute = RecomputePolicy::Keep;
    /// By unit.
    std::vector<UnitCost> units;
  };
  struct DeviceType {
    std::string name;
    /// None of a type that is only `elsewhere`.
    int64_t count = 0;
    /// Devices of this type in a node. Divides `count`.
    int64_t perNode = 1;
    /// A device's memory, and what of it library scratch takes.
    int64_t memory = 0, scratchBytes = 0;
    /// Between devices of a node. Of no use where `perNode` is 1.
    LinkSpeed inside = {0, 0};
    CollectiveLibrary library = CollectiveLibrary::None;
    /// What is left of rounded gradients lies in its memory. Hosts of GPUs keep
    /// it for them.
    bool keepsFeedback() const { return library == CollectiveLibrary::None; }
    /// What it keeps activations in.
    NumberFormat format = NumberFormat::F32;
    StateFormat state = StateFormat::halfPrecision();
    /// Seconds of the optimizer, per element of a shard.
    double optimizerSeconds = 0;
    std::vector<Mode> modes;
    /// The most of these devices that poplar build lets share a unit.
    int mostSharers = 1;
    /// What stands for unlike devices that always share units, as their mean:
    /// how much of a unit each of them computes. Empty for a type of its own.
    std::vector<int64_t> parts;
  };
  /// Between devices of two types. Between nodes, devices of a node share it;
  /// where the types are all in one node, each device has a port of its own.
  struct Link {
    LinkSpeed speed = {0, 0};
    bool isShared = true;
  };

  std::vector<DeviceType> types;
  /// types x types, symmetric.
  std::vector<Link> links;
  /// Buckets under way while another is in use.
  int64_t overlapDepth = 2;
  /// A sample's activations on their way between two units, in the widest
  /// format of all types.
  int64_t boundaryBytes = 0;
  /// On the wire, of an element; and of what is rounded between nodes, where
  /// plans may lose something (docs/lossy-wires.md).
  int64_t gradientBytes = 4, parameterBytes = 2;
  std::optional<double> roundedGradientBytes, roundedParameterBytes;
  double getGradientBytes() const {
    return roundedGradientBytes.value_or(static_cast<double>(gradientBytes));
  }
  double getParameterBytes() const {
    return roundedParameterBytes.value_or(static_cast<double>(parameterBytes));
  }
  /// Samples of an iteration.
  int64_t globalBatch = 0;
  /// Look for plans of more samples, too, whose cost is that of `globalBatch`:
  /// no plan of as many or more takes less. Its plans need not be any.
  bool takesMoreSamples = false;
  /// Pipelines that are cut at other units (HybridColumns.h). They hold
  /// replicas of all units as well, so that ZeRO meets them once an iteration.
  std::vector<GroupPart> elsewhere;
  /// In all lanes of a stage as many devices share units, or none where they
  /// are `joined`; where parameters are tied and cannot be divided otherwise,
  /// in all stages.
  bool sharesAlike = false;
  /// What may be chosen. Increasing.
  std::vector<int> zeroStages = {0, 1, 2, 3};
  std::vector<PipelineSchedule> schedules = {
      PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe};
  /// Chunks of each stage in interleaved schedules, and the most that are
  /// planned.
  int chunks = 2;
  static constexpr int mostChunks = 8;

  /// Empty if the problem makes sense, else what is wrong with it, and where.
  std::string check() const;

  int units() const { return parameters.size(); }
  /// A sample's activations on their way from a stage whose ranks are of some
  /// types to one of others (getMessageFormat() in WireFormat.h).
  int64_t getMessageBytes(const std::vector<int> &before,
                          const std::vector<int> &behind) const;
  /// Whether units between the first and the last take the same. Only then can
  /// stages have several chunks: it does not matter which of them they own.
  bool hasEqualUnits() const;
  const Link &getLink(int type, int otherType) const {
    return links[type * types.size() + otherType];
  }
  /// The problem of a job of these types alone.
  HybridProblem restrictTo(const std::vector<int> &kept) const;
};

/// A solution.
struct HybridPlan {
  /// A pipeline stage: units [first, end), whose state is sharded over all
  /// ranks of the group as `zeroStage` says. Groups of several lanes have stage
  /// 0 or 1: in the others ranks meet in every micro-batch. With several
  /// chunks, `first` and `end` say how many units there are; which, cutUnits()
  /// does.
  struct Group {
    int first = 0, end = 0, zeroStage = 0;

    bool operator==(const Group &other) const {
      return first == other.first && end == other.end &&
             zeroStage == other.zeroStage;
    }
  };
  /// Pipelines that are alike.
  struct Lane {
    /// By group: the type, and which of its modes.
    struct Stage {
      int type = 0, mode = 0;
    };
    std::vector<Stage> stages;
    int64_t pipelines = 1;
    /// Samples of an iteration, spread evenly over all of its pipelines. The
    /// last micro-batch of a pipeline may be smaller.
    int64_t samples = 0;
  };

  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  /// Chunks of every stage; several if the schedule is interleaved.
  int chunks = 1;
  std::vector<Group> groups;
  std::vector<Lane> lanes;
  /// Predicted, of an iteration.
  double seconds = 0;

  /// Units [first, end).
  struct Range {
    int first = 0, end = 0;
  };
  /// What each group owns, by chunk.
  std::vector<std::vector<Range>> cutUnits(const HybridProblem &problem) const;

  /// The micro-batch of a pipeline of a lane.
  int64_t getMicroBatch(const HybridProblem &problem, size_t lane) const;
  int64_t countMicroBatches(const HybridProblem &problem, size_t lane) const;
  PipelineShape getShape(const HybridProblem &problem, size_t lane) const;
  /// Devices in use, by type.
  std::vector<int64_t> countDevices(const HybridProblem &problem) const;
  /// Ranks of a group, of all lanes.
  int64_t countRanks(const HybridProblem &problem, size_t group) const;

  /// Bytes of a rank of a lane: the memory that it needs at most, and what its
  /// collectives and its messages carry in an iteration.
  struct RankBytes {
    int64_t peak = 0;
    double collectives = 0, messages = 0;
  };
  /// By group.
  std::vector<RankBytes> countBytes(const HybridProblem &problem,
                                    size_t lane) const;

  /// The cost in the head of this file.
  double predict(const HybridProblem &problem) const;
  /// Empty if this solves `problem` in the time it claims, else names the
  /// violation and the place.
  std::string verify(const HybridProblem &problem) const;
};

struct SolvedProblem {
  const HybridProblem &problem;
  const HybridPlan &plan;
};

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDPROBLEM_H
