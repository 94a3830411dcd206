//===- PhaseBuilder.h - A function as a simulation has it -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_SIMULATION_PHASEBUILDER_H
#define POPLAR_LIB_SIMULATION_PHASEBUILDER_H

#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Planner/Cluster/ReplicaCost.h"
#include "Poplar/Planner/Zero/ShardBounds.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <map>
#include <tuple>

namespace poplar {

/// Ranks that have collectives of their own.
struct PhaseGroup {
  CollectiveCost cost;
  /// Their shares of every bucket that they hold, by rank of the group; of the
  /// first shard group, where there are replicas.
  std::vector<double> shares;
  /// Classes of the simulation; empty stands for all.
  std::vector<int> classes;
  /// Those of the simulation that a kind of port (CollectiveCost::Port) stands
  /// for.
  std::vector<int> ports[CollectiveCost::numPorts];
  /// The cost of collectives of buckets, where they are in and across shard
  /// groups. All ranks wait for the slowest group.
  std::optional<ReplicaCost> replicas = std::nullopt;
};

/// Makes phases of a simulation from functions of scheduled programs, and adds
/// what they compute and communicate to the problem. Programs of the device
/// types of a plan share collectives by their names. Of the bounds of buckets,
/// only the last counts, their elements: shards are those of the plan.
class PhaseBuilder {
public:
  /// Seconds of an op in a function of a program.
  using Seconds = llvm::function_ref<double(mlir::Operation *)>;
  /// Adds a message that an op sends or receives, or an exchange.
  using Messages =
      llvm::function_ref<void(SimulationProblem::Phase &, mlir::Operation *)>;
  /// Elements of a bucket that a rank updates.
  using Elements = llvm::function_ref<double(zero::BucketOp)>;

  /// All ranks of the plan are the first group. Where there are others,
  /// `groupOf` says which holds a bucket.
  PhaseBuilder(SimulationProblem &problem, std::vector<PhaseGroup> groups,
               std::function<int(zero::BucketOp)> groupOf = nullptr);
  /// The group of a CollectiveCost, whose ports it has to itself.
  static PhaseGroup makeGroup(CollectiveCost cost, std::vector<double> shares);

  /// Rank r of the bucket's group owns the elements [bounds[r], bounds[r + 1]).
  const std::vector<int64_t> &getBounds(zero::BucketOp bucket);

  /// The function `name` of a program. An op computes for `seconds(op)`, by
  /// itself or, if it is a call, as its callee; ops of a callee that exchanges
  /// tokens are asked for one by one. Fails with a diagnostic if there is no
  /// such function.
  llvm::FailureOr<SimulationProblem::Phase> make(mlir::ModuleOp program,
                                                 llvm::StringRef name,
                                                 Seconds seconds,
                                                 Messages messages = nullptr);

  // The runtime's loop (runtime/training/Trainer.cpp) around the micro-steps.

  /// It asks whether to stop, counts targets, and zeroes gradients.
  SimulationProblem::Phase makeBegin(mlir::ModuleOp program,
                                     double secondsPerByte, Elements own);
  /// It adds up the loss.
  SimulationProblem::Phase makeEnd();
  /// The function @update, at `secondsPerByte` of
  /// Planner/Model/OptimizerBytes.h.
  llvm::FailureOr<SimulationProblem::Phase>
  makeUpdate(mlir::ModuleOp program, double secondsPerByte, Elements own);

  /// Ranks that share units wait for what `op` exchanges of `batch` samples.
  /// `group` is their number; exchanges of others are told apart by it.
  void addTokens(SimulationProblem::Phase &phase, int group,
                 zero::ExchangeOpInterface op, int64_t batch);

  /// Nothing if it takes no time.
  void addComputation(SimulationProblem::Phase &phase, llvm::StringRef name,
                      double seconds);

private:
  int addStart(SimulationProblem::Phase &phase, zero::CollectiveOpInterface op);
  /// The function that a call calls, if it exchanges tokens.
  mlir::func::FuncOp getExchangingCallee(mlir::Operation *op);
  /// What a callee computes between its exchanges, and these.
  void addCallee(SimulationProblem::Phase &phase, mlir::func::FuncOp callee,
                 Seconds seconds, Messages messages);
  void addChained(SimulationProblem::Phase &phase, zero::StartExchangeOp gather,
                  llvm::StringRef name, double made, double own,
                  Messages messages);
  /// All ranks wait for `bytes` bytes of every other one.
  void addExchange(SimulationProblem::Phase &phase, llvm::StringRef name,
                   int64_t bytes);
  /// Index of the collective `name`, which `make` makes the first time.
  int getCollective(
      const llvm::Twine &name,
      llvm::function_ref<SimulationProblem::Collective(std::string)> make);
  int getCollective(const llvm::Twine &name, zero::BucketOp bucket,
                    double bytes, bool reduces, bool sumsShards);
  int getGroup(zero::BucketOp bucket) const {
    return groupOf ? groupOf(bucket) : 0;
  }

  SimulationProblem &problem;
  std::vector<PhaseGroup> groups;
  std::function<int(zero::BucketOp)> groupOf;
  /// By group and elements.
  std::map<std::pair<int, int64_t>, std::vector<int64_t>> bounds;
  /// By group, elements, bytes of each, and whether it is a reduction, and one
  /// across shard groups.
  std::map<std::tuple<int, int64_t, double, bool, bool>,
           SimulationProblem::Collective>
      costs;
  mlir::SymbolTableCollection symbols;
  /// By name, their indices in the problem.
  llvm::StringMap<int> collectives, computations;
  /// Tokens of the pieces of exchanges under way.
  llvm::DenseMap<mlir::Operation *, mlir::SmallVector<int>> exchanges;
};

} // namespace poplar

#endif // POPLAR_LIB_SIMULATION_PHASEBUILDER_H
