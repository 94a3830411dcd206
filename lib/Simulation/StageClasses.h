//===- StageClasses.h - Ranks that do the same ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines with the same types, batches and links do the same at the same
// time. Of those, the ranks of a stage that have the same place among the
// sharers of its units are a class of a simulation, with channels for every
// chunk to the classes that have tokens of theirs.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_SIMULATION_STAGECLASSES_H
#define POPLAR_LIB_SIMULATION_STAGECLASSES_H

#include "PhaseBuilder.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Simulation/PlanSimulation.h"
#include <map>

namespace poplar {

/// A channel of a simulation, and how many tokens of a sample go through it.
struct TokenChannel {
  int channel = 0;
  int64_t tokens = 0;
};

/// The channels of a chunk of a class.
struct StageNeighbors {
  std::vector<TokenChannel> activationsIn, activationsOut, gradientsIn,
      gradientsOut;
};

/// A class besides what PlanSimulation says of it.
struct StageClass {
  /// One that it is of.
  int64_t pipeline = 0;
  /// Among those that share units.
  int64_t position = 0;
  /// The classes of those that share units with it, in their order; itself
  /// where none do.
  std::vector<size_t> sharers;
  /// By chunk.
  std::vector<StageNeighbors> neighbors;
};

class StageClasses {
public:
  /// `tokens` are those of a sample.
  StageClasses(zero::PlanOp plan, const ClusterView &cluster, int64_t tokens)
      : plan(plan), cluster(cluster), tokens(tokens), ranks(plan.getRanks()),
        groups(plan.getGroups()) {}

  /// Adds classes to `result`, and their channels to its problem. Fails with a
  /// diagnostic where ranks cannot reach each other.
  llvm::LogicalResult form(PlanSimulation &result);

  const StageClass &operator[](size_t index) const { return list[index]; }

  /// Those that have collectives of their own: all ranks; then those that hold
  /// a bucket of `programs`, whose group `groupOf` gets; then for every class
  /// those that share units, see getSharers().
  std::vector<PhaseGroup>
  formGroups(llvm::ArrayRef<mlir::ModuleOp> programs,
             llvm::DenseMap<mlir::StringAttr, int> &groupOf);
  /// The group of the ranks that share units with a class, if any do.
  int getSharers(size_t index) const { return sharersOf.at(index); }

  /// All that hold a bucket, in the order of the plan.
  std::vector<int64_t> findHolders(zero::BucketOp bucket);

  /// A message of `samples` through a channel, each `bytes` long. All pipelines
  /// of the class send at the same time.
  int getMessage(int channel, int64_t samples, int64_t bytes);

private:
  llvm::LogicalResult placeRanks();
  LinkSpeed findLink(int64_t rank, int64_t other) const {
    return *cluster.findLink(nodes[rank], nodes[other]);
  }
  /// Appends the classes of a pipeline that is like no other.
  void addPipeline(int64_t pipeline);
  void addChannels(size_t firstClass);
  void addChannel(size_t from, size_t to, bool isForward, int64_t fromChunk,
                  int64_t toChunk, int64_t shared);
  PhaseGroup makeGroup(llvm::ArrayRef<int64_t> members,
                       std::vector<int> classes) const;
  llvm::SmallVector<int64_t> getBounds(int64_t group) {
    return nn::divideByParts(tokens, groups[group].getPartsOfRanks());
  }

  /// A port of each class and direction, then one of each node.
  int getPort(CollectiveCost::Port kind, size_t index) const;

  zero::PlanOp plan;
  const ClusterView &cluster;
  int64_t tokens;
  llvm::SmallVector<zero::RankOp, 0> ranks;
  llvm::SmallVector<zero::GroupOp, 0> groups;
  /// By rank.
  std::vector<int> nodes;
  /// By group and pipeline, those that share units.
  std::vector<llvm::SmallVector<llvm::SmallVector<int64_t>>> members;
  std::vector<StageClass> list;
  std::map<size_t, int> sharersOf;
  /// By channel and samples.
  std::map<std::pair<int, int64_t>, int> messages;
  PlanSimulation *result = nullptr;
};

} // namespace poplar

#endif // POPLAR_LIB_SIMULATION_STAGECLASSES_H
