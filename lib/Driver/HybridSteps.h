//===- HybridSteps.h - What hybrid and geo planning share -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_DRIVER_HYBRIDSTEPS_H
#define POPLAR_LIB_DRIVER_HYBRIDSTEPS_H

#include "Poplar/Driver/HybridPlanning.h"
#include "Poplar/Planner/Pipeline/HybridSelection.h"
#include "Poplar/Simulation/HybridSimulation.h"

namespace poplar {

/// Leaves out what a request does not want.
HybridFilter getFilter(const HybridRequest &args);

/// What computes a stage in a pipeline.
struct StageDevices {
  const DeviceType *type;
  int tensorDegree;
};
/// Why poplar build does not take stages, each with the devices of all
/// pipelines; empty if it does.
std::string
explainRefusal(const std::vector<std::vector<StageDevices>> &stages);

/// The best plan of all choices of devices; of at most `mostChoices`, if that
/// is not 0.
HybridSelection selectDevices(const ClusterView &cluster,
                              const HybridModel &model,
                              const HybridRequest &args, int64_t mostChoices);

/// Plays the plan of a selection and those of other numbers of chunks, and
/// takes the fastest. Fails with a diagnostic.
mlir::FailureOr<PipelineSimulation> takeFastest(mlir::ModuleOp module,
                                                const ClusterView &cluster,
                                                const HybridRequest &args,
                                                const HybridModel &model,
                                                HybridSelection &selection);

/// Adds a plan to the module as poplar build takes it, with its seconds by the
/// closed form and by simulation. Fails with a diagnostic.
bool recordPlan(mlir::ModuleOp module, const ClusterView &cluster,
                const StagePlan &plan, int64_t bucketBytes, double predicted,
                double simulated);

/// The cluster of the module, and its model as hybrid plans cut it.
bool readHybridModel(Compilation &compilation, const HybridRequest &args,
                     ClusterView &cluster, HybridModel &model);

/// The best plan without pipelines, made and simulated on a copy of the module.
/// That there is none is no error.
bool planZeroAlone(Compilation &compilation, const HybridRequest &args,
                   ZeroAlone &pure);

/// Of the types whose times are estimates; relative.
double getUncertainty(const ClusterView &cluster,
                      const std::vector<HybridCluster::Devices> &devices,
                      const std::string &fingerprint);

} // namespace poplar

#endif // POPLAR_LIB_DRIVER_HYBRIDSTEPS_H
