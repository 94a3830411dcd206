//===- PlanSimulation.h - Programs to a simulation --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SIMULATION_PLANSIMULATION_H
#define POPLAR_SIMULATION_PLANSIMULATION_H

#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "Poplar/Planner/Simulation/Simulator.h"
#include "Poplar/Planner/Zero/PlanReview.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace poplar {

/// An iteration of a plan, ready to be simulated.
struct PlanSimulation {
  SimulationProblem problem;
  /// Parallel to SimulationProblem::classes: ranks of one device type with the
  /// same batches and the same share of the state, in one group and in
  /// pipelines that are alike.
  struct RankClass {
    std::string deviceType;
    /// In the order of the plan.
    std::vector<int64_t> ranks;
    RankShare share;
    int64_t group = 0;
  };
  std::vector<RankClass> classes;
  /// The index in RankClass::iteration, for plans of ZeRO alone: the steps
  /// before the last.
  static constexpr size_t stepRun = 1;

  int64_t stage = 0, globalBatch = 0;
  std::string policy;
  /// Whether the plan is one of ZeRO alone.
  bool isWhole = true;
  /// By the planner's closed form, where the plan says it.
  std::optional<double> predictedSeconds;
  /// Some curve was computed from published figures, not measured.
  bool usesEstimates = false;
};

/// "ranks 0-3, 8"; with many gaps, how many they are.
std::string formatRanks(llvm::ArrayRef<int64_t> ranks);

/// A scheduled program by its name (ProgramInfo::getProgramName()); null if
/// there is none.
using ProgramOfName = llvm::function_ref<mlir::ModuleOp(llvm::StringRef name)>;
/// Begins an error of a plan, or of one of its ranks.
using PlanLocation =
    llvm::function_ref<mlir::InFlightDiagnostic(std::optional<int64_t> rank)>;

/// Takes from a plan, the profiles of `cluster` and the scheduled programs of
/// the plan (--specialize-device-types, buildSchedulePipeline) what ranks do in
/// an iteration:
///
/// - Calls of units take shares of a pass's seconds for the micro-batch, in
///   proportion to a roofline of their ops' costs. A rank without samples
///   computes in no time, but takes part in all collectives.
/// - The seconds are those of the device type's profile in a plan of ZeRO
///   alone. A plan that cuts the model needs `model`, cut in units: a pass
///   takes the seconds of its units (Planner/Pipeline/UnitTimes.h).
/// - Collectives are those of the programs, where they are started and waited
///   for there, plus the small ones of the runtime's loop: whether to stop, how
///   many targets there are, the loss. Shards are those of the plan, whatever
///   the programs were made for.
/// - Messages go beside collectives, and come and go as the runtime has memory
///   for them. Ranks that share units wait for each other where their programs
///   exchange tokens.
/// - The optimizer takes its seconds times the rank's share of the state, cut
/// by
///   what zeroing, the norm and AdamW read and write.
///
/// Fails with a diagnostic where there is no such program or a type has no
/// times that serve.
llvm::FailureOr<PlanSimulation>
buildPlanSimulation(const ClusterView &cluster, const Plan &plan,
                    ProgramOfName programOf, PlanLocation where,
                    const HybridModel *model = nullptr);

/// The same for a module that holds all of it: a cluster with its profiles and,
/// for each device type and group of the plan, its program with the plan.
llvm::FailureOr<PlanSimulation>
buildPlanSimulation(mlir::ModuleOp module, const HybridModel *model = nullptr);

} // namespace poplar

#endif // POPLAR_SIMULATION_PLANSIMULATION_H
