//===- HybridPlanning.cpp - Plans of pipeline stages ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridSteps.h"
#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/Simulated.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Report/HybridReport.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include <algorithm>
#include <set>

using namespace poplar;

bool poplar::planZeroAlone(Compilation &compilation,
                           const HybridRequest &request, ZeroAlone &pure) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = compilation.getModule().clone();
  HeteroAllocateOptions allocation;
  allocation.globalBatch = request.globalBatch;
  allocation.stage = request.stage;
  if (!compilation.run(*copy, [&](mlir::OpPassManager &pm) {
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(allocation));
      })) {
    std::swap(pure.error, compilation.error);
    return true;
  }
  zero::PlanOp plan = *copy->getOps<zero::PlanOp>().begin();
  pure.stage = static_cast<int>(plan.getStage());
  pure.seconds = zero::readPlan(plan).predicted;
  std::optional<PlanSimulation> simulation =
      readSimulation(compilation, *copy, OverlapOptions(), /*model=*/nullptr,
                     /*isCandidate=*/true);
  if (!simulation)
    return false;
  std::optional<Simulation> result =
      simulate(simulation->problem, {}, compilation.error);
  if (!result)
    return false;
  pure.simulatedSeconds = result->seconds;
  return true;
}

double
poplar::getUncertainty(const ClusterView &cluster,
                       const std::vector<HybridCluster::Devices> &devices,
                       const std::string &fingerprint) {
  double uncertainty = 0;
  std::set<int> types;
  for (const HybridCluster::Devices &each : devices)
    for (int rank : each.ranks)
      types.insert(cluster.ranks[rank].type);
  for (int type : types) {
    bool isMeasured = false;
    for (int stage = 0; stage < 4; ++stage) {
      const DeviceProfile *profile =
          cluster.findProfile(type, stage, fingerprint);
      isMeasured |= profile && !profile->isEstimate;
    }
    if (!isMeasured)
      uncertainty = std::max(
          uncertainty,
          getRooflineConstants(cluster.types[type].target).uncertainty);
  }
  return uncertainty;
}

/// Those of one type.
static ClusterView takeType(const ClusterView &cluster, int type) {
  std::vector<int64_t> copies;
  for (const ClusterRank &rank : cluster.ranks)
    copies.push_back(rank.type == type);
  // Nodes of several devices have a link inside, as the cluster was verified.
  return *takeRanks(cluster, copies);
}

/// The best plan of one type; that there is none is no error.
static bool selectType(mlir::ModuleOp module, const ClusterView &cluster,
                       const HybridModel &model, const HybridRequest &request,
                       int type, HybridSelection &found) {
  ClusterView view = takeType(cluster, type);
  found = selectDevices(view, model, request, /*mostChoices=*/0);
  return !found.choice.search.plan || request.hypothetical ||
         mlir::succeeded(takeFastest(module, view, request, model, found));
}

bool poplar::planTypeAlone(mlir::ModuleOp module, const ClusterView &cluster,
                           const HybridModel &model,
                           const HybridRequest &request, int type,
                           std::optional<double> &seconds) {
  HybridSelection found;
  if (!selectType(module, cluster, model, request, type, found))
    return false;
  if (found.choice.search.plan)
    seconds = found.choice.seconds;
  return true;
}

/// What of the types alone is reviewed; nothing of one without a plan. Fails
/// with a diagnostic.
static bool planTypesAlone(Compilation &compilation, const ClusterView &cluster,
                           const HybridRequest &request, HybridReport &report,
                           std::vector<HybridReview::Alone> &alone) {
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    HybridSelection found;
    if (!selectType(compilation.getModule(), cluster, report.model, request,
                    static_cast<int>(type), found))
      return false;
    alone.push_back(reviewAlone(found.whole.problem, found.cluster.problem,
                                std::move(found.choice)));
    report.aloneNames.push_back(cluster.types[type].name);
  }
  return true;
}

bool poplar::readCluster(Compilation &compilation, const HybridRequest &request,
                         ClusterView &cluster) {
  mlir::ModuleOp module = compilation.getModule();
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({request.bucketBytes}));
      }))
    return false;
  cluster = cluster::buildClusterView(module);
  return true;
}

/// Whether two plans have the same stages and ranks.
static bool haveSameRanks(const Plan &a, const Plan &b) {
  auto isSameGroup = [](const Plan::Group &a, const Plan::Group &b) {
    return a.units == b.units && a.zeroStage == b.zeroStage &&
           a.tensorDegrees == b.tensorDegrees && a.parts == b.parts;
  };
  auto isSameRank = [](const Plan::Rank &a, const Plan::Rank &b) {
    return a.type == b.type && a.node == b.node && a.share == b.share &&
           a.group == b.group;
  };
  return a.schedule == b.schedule &&
         std::equal(a.groups.begin(), a.groups.end(), b.groups.begin(),
                    b.groups.end(), isSameGroup) &&
         std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(),
                    b.ranks.end(), isSameRank);
}

std::optional<Timeline> poplar::playHypothetical(Compilation &compilation) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = compilation.getModule().clone();
  auto written = *copy->getOps<zero::PlanOp>().begin();
  Plan plan = zero::readPlan(written);
  written.erase();
  HybridRequest request;
  request.globalBatch = plan.globalBatch;
  request.hypothetical = true;
  request.sharesFreely = true;
  request.recordsTimeline = true;
  ClusterView cluster = cluster::buildClusterView(*copy);
  HybridResult found;
  mlir::FailureOr<HybridModel> model = getHybridModel(*copy, cluster);
  if (mlir::failed(model) ||
      mlir::failed(
          findPlan(*copy, cluster, *model, request, found, compilation.error)))
    return std::nullopt;
  const HybridResult::Column &column = found.columns.front();
  if (found.columns.size() > 1 ||
      !haveSameRanks(plan, writePlan(cluster, column.problem, column.plan,
                                     column.ranks))) {
    compilation.error = "it cannot be built, and was made by other options "
                        "than --policy hybrid --hypothetical alone";
    return std::nullopt;
  }
  return std::move(found.simulation.timeline);
}

bool poplar::reviewHybrid(Compilation &compilation, const ClusterView &cluster,
                          const StagedRequest &request, HybridReport &report) {
  describeDevices(cluster, request, report);
  std::vector<SolvedProblem> solved;
  for (const HybridResult::Column &column : report.columns)
    solved.push_back({column.problem, column.plan});
  for (size_t type = 0; type < report.devices.size(); ++type) {
    const HybridProblem::DeviceType &own = solved[0].problem.types[type];
    report.typeNames.push_back(
        own.parts.empty() ? cluster.types[report.devices[type].type].name
                          : own.name);
  }
  report.buildability.refusal =
      solved.size() > 1
          ? "pipelines of its device types are cut at different units"
          : explainUnbuildable(cluster, writePlan(cluster, solved[0].problem,
                                                  solved[0].plan,
                                                  report.columns[0].ranks));
  std::vector<HybridReview::Alone> alone;
  if (!planTypesAlone(compilation, cluster, request, report, alone))
    return false;
  report.review = reviewHybridPlan(report.whole, solved,
                                   report.simulation.seconds, std::move(alone));
  return true;
}

bool poplar::planHybrid(Compilation &compilation, const StagedRequest &request,
                        HybridReport &report) {
  return planStaged(
      compilation, request, report, [&](const ClusterView &cluster) {
        return reviewHybrid(compilation, cluster, request, report);
      });
}
