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
  /// same batches and the same share of the state; of pipeline stages, those of
  /// one group whose pipelines are alike.
  struct RankClass {
    std::string deviceType;
    /// In the order of the plan.
    std::vector<int64_t> ranks;
    RankShare share;
    /// Where the plan has groups.
    std::optional<int64_t> group = std::nullopt;
  };
  std::vector<RankClass> classes;
  /// The index in RankClass::iteration, for plans without groups: the steps
  /// before the last.
  static constexpr size_t stepRun = 1;

  int64_t stage = 0, globalBatch = 0;
  std::string policy;
  /// By the planner's closed form, where the plan says it.
  std::optional<double> predictedSeconds;
  /// Some curve was computed from published figures, not measured.
  bool usesEstimates = false;
};

/// "ranks 0-3, 8"; with many gaps, how many they are.
std::string formatRanks(llvm::ArrayRef<int64_t> ranks);

/// The scheduled program of a device type, by its name; null if there is none.
using ProgramOfType = llvm::function_ref<mlir::ModuleOp(llvm::StringRef type)>;
/// Begins an error of a plan, or of one of its ranks.
using PlanLocation =
    llvm::function_ref<mlir::InFlightDiagnostic(std::optional<int64_t> rank)>;

/// Takes from a plan, the profiles of `cluster` and the scheduled programs of
/// its device types (--specialize-device-types, buildSchedulePipeline) what
/// ranks do in an iteration:
///
/// - Calls of units take shares of the profile's seconds for the micro-batch,
///   in proportion to a roofline of their ops' costs. A rank without samples
///   computes in no time, but takes part in all collectives.
/// - Collectives are those of the programs, where they are started and waited
///   for there, plus the small ones of the runtime's loop: whether to stop, how
///   many targets there are, the loss. Shards are those of the plan, whatever
///   the programs were made for.
/// - The optimizer takes the profile's seconds times the rank's share of the
///   state, cut by what zeroing, the norm and AdamW read and write.
///
/// Fails with a diagnostic where there is no such program or a type has no
/// profile that serves.
llvm::FailureOr<PlanSimulation> buildPlanSimulation(const ClusterView &cluster,
                                                    const Plan &plan,
                                                    ProgramOfType programOf,
                                                    PlanLocation where);

/// The same for a module that holds all of it: a cluster with its profiles and,
/// for each device type of the plan, its program with the plan, which has no
/// groups.
llvm::FailureOr<PlanSimulation> buildPlanSimulation(mlir::ModuleOp module);

/// The same for a plan with groups. Passes take the seconds of their
/// units (Planner/Model/UnitTimes.h) for the model of the module, cut in
/// `units`; messages go beside collectives, and come and go as the runtime has
/// memory for them. Ranks that share units wait for each other where their
/// programs exchange tokens.
llvm::FailureOr<PlanSimulation> buildStageSimulation(mlir::ModuleOp module,
                                                     const HybridModel &units);

} // namespace poplar

#endif // POPLAR_SIMULATION_PLANSIMULATION_H
