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

namespace poplar {

/// The best plan of all choices of devices, of which `poplar build` makes
/// stages unless hypothetical ones are wanted.
HybridSelection selectDevices(const ClusterView &cluster,
                              const HybridModel &model,
                              const HybridRequest &args, int64_t mostChoices,
                              std::vector<UnbuildableDevices> &leftOut);

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
