//===- RankClasses.h - Ranks that do the same -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines with the same types, batches, shares of the state and links do the
// same at the same time. Their ranks in a group that have the same place among
// the sharers of its units are a class of a simulation. Channels for every
// chunk lead from a class to those that take its tokens. In a plan of ZeRO
// alone, each rank is a pipeline.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_SIMULATION_RANKCLASSES_H
#define POPLAR_LIB_SIMULATION_RANKCLASSES_H

#include "PhaseBuilder.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Plan/Lanes.h"
#include "Poplar/Simulation/PlanSimulation.h"
#include <map>

namespace poplar {

/// A channel of a simulation, and how many tokens of a sample go through it.
struct TokenChannel {
  int channel = 0;
  int64_t tokens = 0;
};

/// The channels of a chunk of a class.
struct ChunkNeighbors {
  std::vector<TokenChannel> activationsIn, activationsOut, gradientsIn,
      gradientsOut;
};

/// A class besides what PlanSimulation says of it.
struct ClassPlace {
  /// One that it is of.
  int64_t pipeline = 0;
  /// See Plan::Place.
  int64_t position = 0;
  /// The classes of those that share units with it, in their order; itself
  /// where none do.
  std::vector<size_t> sharers;
  /// By chunk.
  std::vector<ChunkNeighbors> neighbors;
};

class RankClasses {
public:
  /// `tokens` are those of a sample; only plans that cut the model need them.
  RankClasses(const Plan &plan, const ClusterView &cluster, int64_t tokens,
              PlanLocation where)
      : plan(plan), cluster(cluster), tokens(tokens), where(where) {}

  /// Adds classes to `result`, and their channels to its problem. Fails with a
  /// diagnostic where a rank is on no node of the cluster.
  llvm::LogicalResult form(PlanSimulation &result);

  const ClassPlace &operator[](size_t index) const { return list[index]; }

  /// Those that have collectives of their own: all ranks; then those that hold
  /// a bucket of `programs`; then for every class those that share units, see
  /// getSharers().
  std::vector<PhaseGroup> formGroups(llvm::ArrayRef<mlir::ModuleOp> programs);
  /// The group of the ranks that hold a bucket.
  int getGroupOf(zero::BucketOp bucket) const {
    return groupOf.at(bucket.getSymNameAttr());
  }
  /// The ranks of such a group, in the order of the plan.
  llvm::ArrayRef<int64_t> getHolders(zero::BucketOp bucket) const {
    return holders[getGroupOf(bucket)];
  }
  /// The group of the ranks that share units with a class, if any do.
  int getSharers(size_t index) const { return sharersOf.at(index); }

  /// A message of `samples` through a channel, each `bytes` long. All pipelines
  /// of the class send at the same time.
  int getMessage(int channel, int64_t samples, int64_t bytes);

private:
  llvm::LogicalResult placeRanks();
  LinkSpeed findLink(int64_t rank, int64_t other) const {
    return *cluster.findLink(nodes[rank], nodes[other]);
  }
  /// Appends the classes of a pipeline that is like no other.
  void addPipeline(size_t pipeline);
  void addChannels(size_t firstClass);
  void addChannel(size_t from, size_t to, bool isForward, int64_t fromChunk,
                  int64_t toChunk, int64_t shared);
  PhaseGroup makeGroup(llvm::ArrayRef<int64_t> members,
                       std::vector<int> classes) const;
  llvm::SmallVector<int64_t> getBounds(int64_t group, int64_t pipeline) {
    return nn::divideByParts(tokens,
                             getPartsOfRanks(plan.groups[group], pipeline));
  }

  /// A port of each class and direction, then one of each node.
  int getPort(CollectiveCost::Port kind, size_t index) const;

  const Plan &plan;
  const ClusterView &cluster;
  int64_t tokens;
  PlanLocation where;
  /// By rank.
  std::vector<int> nodes;
  std::vector<Plan::Place> places;
  /// By group and pipeline, those that share units.
  std::vector<std::vector<std::vector<int64_t>>> members;
  std::vector<ClassPlace> list;
  llvm::DenseMap<mlir::StringAttr, int> groupOf;
  /// By group that holds buckets.
  std::vector<std::vector<int64_t>> holders;
  std::map<size_t, int> sharersOf;
  /// By channel and samples.
  std::map<std::pair<int, int64_t>, int> messages;
  PlanSimulation *result = nullptr;
};

} // namespace poplar

#endif // POPLAR_LIB_SIMULATION_RANKCLASSES_H
