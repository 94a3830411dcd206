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
#include "Poplar/Simulation/ModelUnits.h"

namespace poplar {

/// Forms the buckets of the module that will be planned, and reads its cluster.
bool readCluster(Compilation &compilation, const HybridRequest &request,
                 ClusterView &cluster);

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

/// What reports of both policies say of a plan that was found.
template <typename Report>
void describeDevices(const ClusterView &cluster, const StagedRequest &request,
                     Report &report) {
  report.buildability.leftOut = request.leftOut;
  report.numDevices = cluster.ranks.size();
  report.uncertainty =
      getUncertainty(cluster, report.devices, report.model.fingerprint);
}

/// Adds to a plan that was found in the module what only its own policy says.
/// Fails with a diagnostic.
bool reviewHybrid(Compilation &compilation, const ClusterView &cluster,
                  const StagedRequest &request, HybridReport &report);
void reviewGeo(const ClusterView &cluster, const StagedRequest &request,
               GeoReport &report);

/// Plans the stages of the module as hybrid or geo planning does, and what both
/// reports say of it. `review(cluster)` adds the rest; false where it fails.
template <typename Report, typename Review>
bool planStaged(Compilation &compilation, const StagedRequest &request,
                Report &report, Review review) {
  mlir::ModuleOp module = compilation.getModule();
  ClusterView cluster;
  if (!readCluster(compilation, request, cluster))
    return false;
  mlir::FailureOr<HybridModel> model = getHybridModel(module, cluster);
  return mlir::succeeded(model) &&
         mlir::succeeded(findPlan(module, cluster, *model, request, report,
                                  compilation.error)) &&
         review(cluster) && planZeroAlone(compilation, request, report.pure) &&
         (!request.addsPlan ||
          mlir::succeeded(addPlan(module, cluster, request, report)));
}

} // namespace poplar

#endif // POPLAR_LIB_DRIVER_HYBRIDSTEPS_H
