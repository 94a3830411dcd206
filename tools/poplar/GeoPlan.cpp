//===- GeoPlan.cpp - poplar plan --policy geo -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridPlan.h"
#include "Poplar/Report/GeoReport.h"
#include "llvm/Support/raw_ostream.h"

using namespace poplar;

bool planGeo(Compilation &compilation, const HybridArguments &args) {
  ClusterView cluster;
  GeoReport report;
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
      simulateGeoPlan(report.cluster.problem, plan, !args.trace.empty());
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
  if (!planZeroAlone(compilation, args, report.pure) ||
      !writePlanFiles(args, formatGeoJSON(report), report.simulation.timeline,
                      compilation.error))
    return false;
  if (args.json != "-" && args.trace != "-")
    llvm::outs() << formatGeoText(report);
  else
    llvm::errs() << format(report.buildability);
  return true;
}
