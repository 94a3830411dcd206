//===- HybridAllocate.cpp - Plans of pipeline stages ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossyPlans.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "StagedPass.h"
#include "llvm/Support/FormatVariadic.h"

namespace poplar {
#define GEN_PASS_DEF_HYBRIDALLOCATE
#include "Poplar/Allocation/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

std::string poplar::describeSlower(const HybridRequest &request) {
  return llvm::formatv(
      "no plan of stages was found that takes less than {0:f4} "
      "s, which another plan takes",
      request.knownSeconds);
}

/// Beside columns, plans are searched whose cost is at most so many times what
/// the columns take when simulated.
static constexpr double marginOverColumns = 1.05;

HybridFilter poplar::getFilter(const HybridRequest &request) {
  return [request](HybridProblem &problem) {
    problem.sharesAlike = !request.sharesFreely;
    for (HybridProblem::DeviceType &type : problem.types)
      llvm::erase_if(type.modes, [&](const HybridProblem::Mode &mode) {
        return (request.mostTensorDegree > 0 &&
                mode.tensorDegree > request.mostTensorDegree) ||
               (!request.sharesFreely && mode.tensorDegree > type.mostSharers);
      });
    if (request.stage != "auto")
      problem.zeroStages = {std::stoi(request.stage)};
  };
}

static int getMostChunks(const HybridRequest &request) {
  return request.mostChunks > 0 ? request.mostChunks
                                : HybridProblem::mostChunks;
}

HybridSelection poplar::selectDevices(const ClusterView &cluster,
                                      const HybridModel &model,
                                      const HybridRequest &request,
                                      int64_t mostChoices, double limit) {
  return selectHybridDevices(
      cluster, model, request.globalBatch, getFilter(request), hybridEffort,
      getMostChunks(request), mostChoices, limit, request.deadline);
}

static FailureOr<PipelineSimulation>
play(ModuleOp module, const ClusterView &cluster, const HybridRequest &request,
     const HybridModel &model, const HybridFinalist &finalist) {
  const auto &[problem, devices] = finalist.cluster;
  const HybridPlan &plan = finalist.plan;
  std::vector<int64_t> pipelines;
  for (const HybridPlan::Lane &lane : plan.lanes)
    pipelines.push_back(lane.pipelines);
  HybridRanks ranks = assignRanks(problem, devices, plan);
  return playStages(module, model, writePlan(cluster, problem, plan, ranks),
                    pipelines, request.bucketBytes, request.recordsTimeline);
}

FailureOr<PipelineSimulation>
poplar::takeFastest(ModuleOp module, const ClusterView &cluster,
                    const HybridRequest &request, const HybridModel &model,
                    HybridSelection &selection,
                    std::vector<PlayedFinalist> *report) {
  std::optional<PipelineSimulation> fastest;
  PlayedPlans plans(request);
  for (const HybridFinalist &finalist : selection.finalists) {
    if (!plans.mayBeFastest(finalist.seconds))
      break;
    FailureOr<PipelineSimulation> played =
        play(module, cluster, request, model, finalist);
    if (failed(played))
      return failure();
    const HybridPlan &plan = finalist.plan;
    if (report)
      report->push_back({plan.schedule, plan.chunks, plan.groups.size(),
                         finalist.seconds, played->seconds});
    if (!plans.add(finalist.seconds, played->seconds))
      continue;
    fastest = std::move(*played);
    selection.cluster = finalist.cluster;
    selection.choice.search.plan = plan;
    selection.choice.search.lowerBound = finalist.lowerBound;
    selection.choice.seconds = fastest->seconds;
  }
  return std::move(*fastest);
}

/// The columns of all devices. They are searched first: it takes little, and
/// other plans need not be looked for that are slower.
static HybridColumns findColumns(const ClusterView &cluster,
                                 const HybridRequest &request,
                                 HybridResult &result, std::string &error) {
  std::vector<HybridCluster> problems =
      makeHybridProblems(cluster, result.model, request.globalBatch, error);
  if (problems.empty() || !request.plansColumns)
    return {};
  HybridCluster &whole = problems.front();
  getFilter(request)(whole.problem);
  HybridColumns columns =
      searchHybridColumns(whole.problem, hybridEffort, getMostChunks(request),
                          request.getCostLimit());
  result.devices = std::move(whole.devices);
  result.whole = std::move(whole.problem);
  return columns;
}

static void takeColumns(HybridColumns &columns, HybridResult &result) {
  for (HybridColumns::Column &column : columns.columns)
    result.columns.push_back({std::move(column), {}});
  result.predicted = columns.predicted;
  result.lowerBound = columns.lowerBound;
  result.triedAllDevices = true;
}

static void takeSelection(HybridSelection &found, HybridResult &result) {
  HybridPlan &plan = *found.choice.search.plan;
  result.predicted = plan.seconds;
  result.lowerBound = found.choice.search.lowerBound;
  result.triedAllDevices = found.isExhaustive;
  result.columns.push_back(
      {{std::move(found.cluster.problem), std::move(plan)}, {}});
  result.devices = std::move(found.cluster.devices);
  result.whole = std::move(found.whole.problem);
}

/// No plan of any kind takes less by the closed form. The bound of columns
/// takes long, and is no tighter than it has to be: `result.whole` is their
/// problem.
static double findBoundOfKinds(const HybridRequest &request,
                               const HybridSelection &found,
                               const HybridResult &result, bool takesColumns,
                               HybridColumns &columns) {
  double bound = std::numeric_limits<double>::infinity();
  int mostChunks = getMostChunks(request);
  for (int chunks = 1; chunks <= mostChunks; ++chunks)
    bound = std::min(bound, found.choice.bounds[chunks]);
  if (!request.plansColumns)
    return bound;
  tightenBound(result.whole, columns, hybridEffort, mostChunks,
               takesColumns ? columns.predicted : bound);
  return std::min(bound, columns.lowerBound);
}

/// The plan of result.model.
static LogicalResult findPlanOfModel(ModuleOp module,
                                     const ClusterView &cluster,
                                     const HybridRequest &request,
                                     HybridResult &result, std::string &error) {
  HybridColumns columns = findColumns(cluster, request, result, error);
  HybridSelection found = selectDevices(
      cluster, result.model, request, /*mostChoices=*/0,
      std::min(columns.simulated * marginOverColumns, request.getCostLimit()));
  const HybridChoice &choice = found.choice;
  result.lowerBoundOfAll = found.lowerBound;
  if (!choice.search.plan && columns.columns.empty()) {
    // What is wrong with the cluster leaves nothing to search.
    result.isSlower =
        request.hasKnownPlan() && !found.whole.problem.types.empty();
    error = result.isSlower ? describeSlower(request) : choice.search.error;
    return failure();
  }
  result.isPlayed = !request.hypothetical;
  if (result.isPlayed) {
    FailureOr<PipelineSimulation> played = takeFastest(
        module, cluster, request, result.model, found, &result.finalists);
    if (failed(played))
      return failure();
    result.simulation = std::move(*played);
  }
  bool takesColumns = columns.simulated < choice.seconds;
  double bound =
      findBoundOfKinds(request, found, result, takesColumns, columns);
  if (takesColumns)
    takeColumns(columns, result);
  else
    takeSelection(found, result);
  result.lowerBoundOfKinds = std::min(bound, result.lowerBound);
  // Each column has types of its own.
  std::vector<SolvedProblem> solved;
  for (HybridResult::Column &column : result.columns) {
    column.ranks = assignRanks(column.problem, result.devices, column.plan);
    solved.push_back({column.problem, column.plan});
  }
  if (!result.isPlayed)
    result.simulation = simulatePipelines(solved, request.recordsTimeline);
  return success();
}

/// What plans of stages may round. Whether ranks that exchange parameters keep
/// them in f32 is known of all ranks of the cluster only.
static std::vector<LossyWires> listWires(const ClusterView &cluster) {
  std::vector<LossyWires> wires = listLossyWires(cluster);
  bool allWide = llvm::all_of(cluster.ranks, [&](const ClusterRank &rank) {
    return cluster.types[rank.type].getWorkingFormat() == NumberFormat::F32;
  });
  if (!allWide)
    llvm::erase_if(wires, [](const LossyWires &it) {
      return it.parameters == WireFormat::BF16;
    });
  return wires;
}

LogicalResult poplar::findPlan(ModuleOp module, const ClusterView &cluster,
                               const HybridModel &model,
                               const HybridRequest &request,
                               HybridResult &result, std::string &error) {
  return findExactOrLossy(
      cluster, model, request, listWires(cluster), result, error,
      [&](const ClusterView &view, HybridResult &found) {
        return findPlanOfModel(module, view, request, found, error);
      });
}

LogicalResult poplar::addPlan(ModuleOp module, const ClusterView &cluster,
                              const HybridRequest &request,
                              const HybridResult &result) {
  const HybridResult::Column &column = result.columns.front();
  Plan plan = writePlan(cluster, column.problem, column.plan, column.ranks);
  plan.setWires(result.wires);
  plan.predicted = result.predicted;
  if (!request.allowsLossy)
    plan.lowerBound = std::min(result.lowerBoundOfAll, result.predicted);
  if (result.isPlayed)
    plan.simulated = result.simulation.seconds;
  return addStages(module, plan, request.bucketBytes);
}

namespace {

struct HybridAllocatePass
    : StagedPass<poplar::impl::HybridAllocateBase<HybridAllocatePass>,
                 HybridResult> {
  using StagedPass::StagedPass;
};

} // namespace
