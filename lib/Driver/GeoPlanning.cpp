//===- GeoPlanning.cpp - Plans over slow, unlike links --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridSteps.h"

using namespace poplar;

namespace {
/// The best plan of some devices; types and ranks are those of all.
struct GeoFound {
  GeoCluster cluster;
  GeoSearchResult search;
  std::vector<HybridCluster::Devices> devices;
};
} // namespace

/// Fails with `error` set.
static std::optional<GeoFound> search(const BuildablePart &part,
                                      const HybridModel &model,
                                      const HybridRequest &args,
                                      std::string &error) {
  std::vector<HybridCluster> hybrids =
      makeHybridProblems(part.cluster, model, args.globalBatch, error);
  if (hybrids.empty())
    return std::nullopt;
  HybridCluster &whole = hybrids.front();
  getFilter(args)(whole.problem);
  std::vector<GeoCluster> problems =
      makeGeoProblems(part.cluster, whole, error);
  if (problems.empty())
    return std::nullopt;
  GeoChoice choice = searchGeoClusters(problems);
  if (!choice.search.plan) {
    error = choice.search.error;
    return std::nullopt;
  }
  GeoFound found{std::move(problems[choice.problem]), std::move(choice.search),
                 std::move(whole.devices)};
  for (std::vector<int> &ranks : found.cluster.ranks)
    for (int &rank : ranks)
      rank = part.ranks[rank];
  return found;
}

/// All devices, as a part.
static BuildablePart takeAll(const ClusterView &cluster) {
  BuildablePart all{cluster, {}, {}};
  for (size_t rank = 0; rank < cluster.ranks.size(); ++rank)
    all.ranks.push_back(static_cast<int>(rank));
  return all;
}

/// The best plan of all parts that can be built, or of all devices if
/// hypothetical plans are wanted.
static std::optional<GeoFound>
searchParts(const ClusterView &cluster, const HybridModel &model,
            const HybridRequest &args, std::vector<UnbuildableDevices> &leftOut,
            std::string &error) {
  std::vector<BuildablePart> parts;
  if (args.hypothetical)
    parts.push_back(takeAll(cluster));
  else
    parts = partBuildable(cluster, error);
  std::optional<GeoFound> best;
  double bound = std::numeric_limits<double>::infinity();
  const BuildablePart *chosen = nullptr;
  for (const BuildablePart &part : parts) {
    std::optional<GeoFound> found = search(part, model, args, error);
    if (!found)
      continue;
    bound = std::min(bound, found->search.lowerBound);
    if (best && best->search.plan->seconds <= found->search.plan->seconds)
      continue;
    best = std::move(found);
    chosen = &part;
  }
  if (!best)
    return best;
  best->search.lowerBound = bound;
  for (UnbuildableDevices &devices : chosen->getLeftOut(cluster))
    leftOut.push_back(std::move(devices));
  return best;
}

static std::string explainPlan(const ClusterView &cluster,
                               const GeoReport &report) {
  const GeoPlan &plan = *report.search.plan;
  std::vector<std::vector<StageDevices>> stages;
  for (const std::vector<int> &stage : plan.stages) {
    std::vector<StageDevices> &devices = stages.emplace_back();
    for (int device : stage) {
      int kind = report.cluster.problem.devices[device].kind;
      devices.push_back({&cluster.types[report.cluster.types[kind]],
                         report.cluster.tensorDegrees[kind]});
    }
  }
  return explainRefusal(stages);
}

/// Of the best hybrid plan; `report` says why there is none. Fails with a
/// diagnostic.
static bool planHybridBeside(Compilation &compilation,
                             const ClusterView &cluster,
                             const HybridRequest &args, GeoReport &report) {
  std::vector<UnbuildableDevices> ofHybrid;
  HybridSelection found = selectDevices(cluster, report.model, args,
                                        /*mostChoices=*/1, ofHybrid);
  if (found.choice.search.plan && !args.hypothetical &&
      mlir::failed(takeFastest(compilation.getModule(), cluster, args,
                               report.model, found)))
    return false;
  if (found.choice.search.plan)
    report.hybridSeconds = found.choice.seconds;
  report.hybridError = found.choice.search.error;
  return true;
}

bool poplar::planGeo(Compilation &compilation, const HybridRequest &args,
                     GeoReport &report) {
  ClusterView cluster;
  if (!readHybridModel(compilation, args, cluster, report.model))
    return false;
  mlir::ModuleOp module = compilation.getModule();
  report.buildability.leftOut = args.leftOut;
  std::optional<GeoFound> found =
      searchParts(cluster, report.model, args, report.buildability.leftOut,
                  compilation.error);
  if (!found)
    return false;
  compilation.error.clear();
  report.numDevices = cluster.ranks.size();
  report.cluster = std::move(found->cluster);
  report.search = std::move(found->search);
  const GeoPlan &plan = *report.search.plan;
  for (int type : report.cluster.types)
    report.typeNames.push_back(cluster.types[type].name);
  report.buildability.refusal = explainPlan(cluster, report);
  StagePlan stages = makeStagePlan(report.cluster, plan);
  if (args.hypothetical) {
    report.simulation =
        simulateGeoPlan(report.cluster.problem, plan, args.recordsTimeline);
  } else {
    HostOptions options;
    options.bucketBytes = args.bucketBytes;
    mlir::FailureOr<PipelineSimulation> played =
        playStages(module, cluster, report.model, stages,
                   std::vector<int64_t>(plan.pipelines(), 1), options,
                   args.recordsTimeline);
    if (mlir::failed(played))
      return false;
    report.simulation = std::move(*played);
    report.isPlayed = true;
  }
  report.links = findLinkLoads(report.cluster.problem, plan);
  report.uncertainty =
      getUncertainty(cluster, found->devices, report.model.fingerprint);
  return planHybridBeside(compilation, cluster, args, report) &&
         planZeroAlone(compilation, args, report.pure) &&
         (!args.addsPlan ||
          recordPlan(module, cluster, stages, args.bucketBytes, plan.seconds,
                     report.simulation.seconds));
}
