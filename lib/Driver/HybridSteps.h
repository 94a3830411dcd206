//===- HybridSteps.h - What hybrid and geo planning share -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_DRIVER_HYBRIDSTEPS_H
#define POPLAR_LIB_DRIVER_HYBRIDSTEPS_H

#include "Poplar/Allocation/StagedAllocation.h"
#include "Poplar/Driver/HybridPlanning.h"

namespace poplar {

/// Forms the buckets of the module that will be planned, and reads its cluster.
bool readCluster(Compilation &compilation, const HybridRequest &request,
                 ClusterView &cluster);

/// Simulated seconds of the plan of ZeRO alone in a module, whose programs take
/// its place. None, with an error said or in `compilation`, if it cannot be
/// simulated.
std::optional<double> simulateZeroAlone(Compilation &compilation,
                                        mlir::ModuleOp module);

/// The best plan without pipelines, made and simulated on a copy of the module.
/// That there is none is no error.
bool planZeroAlone(Compilation &compilation, const HybridRequest &request,
                   ZeroAlone &pure);

/// Simulated seconds of the best plan of one device type alone; none if the
/// model does not fit on it. Fails with a diagnostic.
bool planTypeAlone(mlir::ModuleOp module, const ClusterView &cluster,
                   const HybridModel &model, const HybridRequest &request,
                   int type, std::optional<double> &seconds);

/// The relative uncertainty of the types whose times are estimates.
double getUncertainty(const ClusterView &cluster,
                      const std::vector<HybridCluster::Devices> &devices,
                      const std::string &fingerprint);

/// Plans the stages of the module as hybrid or geo planning does, and what both
/// reports say of it. `review(cluster)` adds the rest; false where it fails.
template <typename Report, typename Review>
bool planStaged(Compilation &compilation, const StagedRequest &request,
                Report &report, Review review) {
  mlir::ModuleOp module = compilation.getModule();
  ClusterView cluster;
  if (!readCluster(compilation, request, cluster) ||
      mlir::failed(
          findPlan(module, cluster, request, report, compilation.error)))
    return false;
  report.buildability.leftOut = request.leftOut;
  report.numDevices = cluster.ranks.size();
  report.uncertainty =
      getUncertainty(cluster, report.devices, report.model.fingerprint);
  return review(cluster) && planZeroAlone(compilation, request, report.pure) &&
         (!request.addsPlan ||
          mlir::succeeded(addPlan(module, cluster, request, report)));
}

} // namespace poplar

#endif // POPLAR_LIB_DRIVER_HYBRIDSTEPS_H
