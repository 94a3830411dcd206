//===- CandidateSimulator.h - Plans of a model, simulated -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SIMULATION_CANDIDATESIMULATOR_H
#define POPLAR_SIMULATION_CANDIDATESIMULATOR_H

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Target/Build.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <map>

namespace poplar {

/// Simulates plans that a search is to choose from. Programs are scheduled as
/// plans need them; what differs between plans of a stage is mostly who does
/// how much, for which no program has to be made again.
class CandidateSimulator {
public:
  /// `module` holds the model, its buckets and the cluster. It is not changed.
  /// Only those of overlap among `options` count.
  CandidateSimulator(mlir::ModuleOp module, const OverlapOptions &options)
      : module(module), options(options) {}

  /// Simulated seconds of an iteration of a plan for `cluster`, that of the
  /// module. Where ranks make many steps together, few are played through, and
  /// the others taken to last as long as the last of these. Fails with a
  /// diagnostic where the plan cannot be simulated.
  llvm::FailureOr<double> getSeconds(const ClusterView &cluster,
                                     const PlanCandidate &candidate);

private:
  /// Device types that differ in none of these run the same program, but for
  /// the code that is generated from it.
  struct ProgramKind {
    NumberFormat precision, workingFormat;
    Recomputation recompute;
    bool operator<(const ProgramKind &other) const;
  };
  using Programs = std::map<ProgramKind, mlir::ModuleOp>;
  struct Job {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    Programs programs;
  };

  static ProgramKind getKind(const DeviceType &type);
  llvm::FailureOr<const Programs *> getPrograms(const ClusterView &view,
                                                const PlanCandidate &candidate);

  mlir::ModuleOp module;
  OverlapOptions options;
  /// By stage, replicas (0: one rank; 2: any number of them), lossy wires, and
  /// the kinds of programs.
  std::map<std::tuple<int, int64_t, std::string, std::vector<ProgramKind>>, Job>
      jobs;
};

} // namespace poplar

#endif // POPLAR_SIMULATION_CANDIDATESIMULATOR_H
