//===- GeoPlanning.cpp - Plans over slow, unlike links --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridSteps.h"

using namespace poplar;

bool poplar::planGeo(Compilation &compilation, const HybridRequest &args,
                     GeoReport &report) {
  ClusterView cluster;
  if (!readHybridModel(compilation, args, cluster, report.model))
    return false;
  std::vector<HybridCluster> hybrids = makeHybridProblems(
      cluster, report.model, args.globalBatch, compilation.error);
  if (hybrids.empty())
    return false;
  const HybridCluster &whole = hybrids.front();
  std::vector<GeoCluster> problems =
      makeGeoProblems(cluster, whole, compilation.error);
  if (problems.empty())
    return false;
  GeoChoice choice = searchGeoClusters(problems);
  if (!choice.search.plan) {
    compilation.error = choice.search.error;
    return false;
  }
  report.cluster = std::move(problems[choice.problem]);
  report.search = std::move(choice.search);
  const GeoPlan &plan = *report.search.plan;
  for (int type : report.cluster.types)
    report.typeNames.push_back(cluster.types[type].name);
  report.simulation =
      simulateGeoPlan(report.cluster.problem, plan, args.recordsTimeline);
  report.links = findLinkLoads(report.cluster.problem, plan);
  report.uncertainty =
      getUncertainty(cluster, whole.devices, report.model.fingerprint);
  report.buildability = {args.leftOut,
                         "it makes no programs for plans of --policy geo yet"};
  std::vector<UnbuildableDevices> ofHybrid;
  HybridChoice hybrid = selectDevices(cluster, report.model, args,
                                      /*mostChoices=*/1, ofHybrid)
                            .choice;
  if (hybrid.search.plan)
    report.hybridSeconds = hybrid.seconds;
  report.hybridError = hybrid.search.error;
  return planZeroAlone(compilation, args, report.pure);
}
