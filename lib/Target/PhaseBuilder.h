//===- PhaseBuilder.h - A function as a simulation has it -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_PHASEBUILDER_H
#define POPLAR_TARGET_PHASEBUILDER_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/CollectiveCost.h"
#include "Poplar/Planner/ShardBounds.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <tuple>

namespace poplar {

/// Makes phases of a simulation from functions of scheduled programs, and adds
/// what they compute and communicate to the problem. Programs of the device
/// types of a plan share collectives by their names. Of the bounds of buckets,
/// only the last counts, their elements: shards are those of the plan.
class PhaseBuilder {
public:
  /// `cost` is of the plan's ranks, which hold `shares` of every bucket.
  PhaseBuilder(SimulationProblem &problem, CollectiveCost cost,
               std::vector<double> shares);

  /// Rank r of the plan owns the elements [bounds[r], bounds[r + 1]).
  const std::vector<int64_t> &getBounds(zero::BucketOp bucket);

  /// The function `name` of a program. An op computes for `seconds(op)`, by
  /// itself or, if it is a call, as its callee. Fails with a diagnostic if
  /// there is no such function.
  llvm::FailureOr<SimulationProblem::Phase>
  make(mlir::ModuleOp program, llvm::StringRef name,
       llvm::function_ref<double(mlir::Operation *)> seconds);

  /// Nothing if it takes no time.
  void addComputation(SimulationProblem::Phase &phase, llvm::StringRef name,
                      double seconds);
  /// All ranks wait for `bytes` bytes of every other one.
  void addExchange(SimulationProblem::Phase &phase, llvm::StringRef name,
                   int64_t bytes);

private:
  int addStart(SimulationProblem::Phase &phase, zero::CollectiveOpInterface op);
  /// Index of the collective `name`, which `make` makes the first time.
  int getCollective(
      const llvm::Twine &name,
      llvm::function_ref<SimulationProblem::Collective(std::string)> make);
  int getCollective(const llvm::Twine &name, zero::BucketOp bucket,
                    int64_t bytes, bool reduces);

  SimulationProblem &problem;
  CollectiveCost cost;
  std::vector<double> shares;
  /// By elements.
  std::map<int64_t, std::vector<int64_t>> bounds;
  /// By elements, bytes of each, and whether it is a reduction.
  std::map<std::tuple<int64_t, int64_t, bool>, SimulationProblem::Collective>
      costs;
  mlir::SymbolTableCollection symbols;
  /// By name, their indices in the problem.
  llvm::StringMap<int> collectives, computations;
};

} // namespace poplar

#endif // POPLAR_TARGET_PHASEBUILDER_H
