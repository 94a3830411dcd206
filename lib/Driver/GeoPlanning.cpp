//===- GeoPlanning.cpp - Plans over slow, unlike links --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridSteps.h"

using namespace poplar;

/// Plans the best hybrid plan; `report` says why there is none. Fails with a
/// diagnostic.
static bool planHybridBeside(Compilation &compilation,
                             const ClusterView &cluster,
                             const HybridRequest &request, GeoReport &report) {
  HybridSelection found =
      selectDevices(cluster, report.model, request, /*mostChoices=*/0);
  if (found.choice.search.plan && !request.hypothetical &&
      mlir::failed(takeFastest(compilation.getModule(), cluster, request,
                               report.model, found)))
    return false;
  if (found.choice.search.plan)
    report.hybridSeconds = found.choice.seconds;
  report.hybridError = found.choice.search.error;
  return true;
}

void poplar::reviewGeo(const ClusterView &cluster, const StagedRequest &request,
                       GeoReport &report) {
  describeDevices(cluster, request, report);
  for (int type : report.cluster.types)
    report.typeNames.push_back(cluster.types[type].name);
  report.buildability.refusal = explainUnbuildable(
      cluster, writePlan(cluster, report.cluster, *report.search.plan));
  report.links = findLinkLoads(report.cluster.problem, *report.search.plan);
}

bool poplar::planGeo(Compilation &compilation, const StagedRequest &request,
                     GeoReport &report) {
  return planStaged(
      compilation, request, report, [&](const ClusterView &cluster) {
        reviewGeo(cluster, request, report);
        return planHybridBeside(compilation, cluster, request, report);
      });
}
