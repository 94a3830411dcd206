//===- Simulated.h - The plan of a module, to be simulated ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_SIMULATED_H
#define POPLAR_DRIVER_SIMULATED_H

#include "Poplar/Driver/Compilation.h"
#include "Poplar/Simulation/PlanSimulation.h"

namespace poplar {

/// Schedules the programs of a module's plan, with pipeline stages or without,
/// and reads what they do. The programs take the place of the plan. Stages are
/// of `model`; of the module's, if that is null. Nothing, with an error said or
/// in `compilation`, where the plan or its profiles do not allow it. Programs
/// of a candidate, a plan of this search, are not checked.
std::optional<PlanSimulation> readSimulation(Compilation &compilation,
                                             mlir::ModuleOp module,
                                             const OverlapOptions &options,
                                             const HybridModel *model = nullptr,
                                             bool isCandidate = false);

} // namespace poplar

#endif // POPLAR_DRIVER_SIMULATED_H
