//===- PlanSimulation.cpp - From scheduled programs to a simulation -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/PlanSimulation.h"
#include "PhaseBuilder.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Model/OptimizerBytes.h"
#include "UnitCosts.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <tuple>

using namespace mlir;
using namespace poplar;

using Phase = SimulationProblem::Phase;

namespace {

/// What ranks of a device type run.
struct Program {
  ModuleOp module;
  Curve curve;
  /// Seconds of the optimizer, per such byte.
  double secondsPerByte = 0;
  std::unique_ptr<UnitCosts> costs;
};

class PlanSimulationBuilder {
public:
  PlanSimulationBuilder(const ClusterView &cluster, const Plan &plan,
                        ProgramOfType programOf, PlanLocation where)
      : cluster(cluster), plan(plan), programOf(programOf), where(where) {}
  FailureOr<PlanSimulation> build();

private:
  LogicalResult placeRanks();
  LogicalResult readProgram(size_t rank);
  void formClasses();
  LogicalResult addClass(const PlanSimulation::RankClass &members);

  FailureOr<Phase> makeTrain(Program &program, nn::Entry entry, int64_t batch,
                             int64_t rank);
  double getOwnElements(zero::BucketOp bucket, ArrayRef<int64_t> members);

  const ClusterView &cluster;
  const Plan &plan;
  ProgramOfType programOf;
  PlanLocation where;
  std::optional<PhaseBuilder> phases;
  /// By device type.
  std::map<std::string, Program> programs;
  PlanSimulation result;
};

} // namespace

//===----------------------------------------------------------------------===//
// The plan and its programs
//===----------------------------------------------------------------------===//

LogicalResult PlanSimulationBuilder::placeRanks() {
  llvm::StringMap<int> indices;
  for (auto [index, node] : llvm::enumerate(cluster.nodes))
    indices[node.name] = static_cast<int>(index);
  std::vector<ClusterRank> ranks;
  std::vector<int> counts(cluster.nodes.size());
  std::vector<double> shares;
  for (auto [index, rank] : llvm::enumerate(plan.ranks)) {
    auto node = indices.find(rank.node);
    if (node == indices.end())
      return where(index) << "is on node '" << rank.node
                          << "', which is not a cluster.node";
    std::optional<int> type = cluster.findType(rank.type);
    if (!type)
      return where(index) << "is of device type '" << rank.type
                          << "', which the cluster lacks";
    ranks.push_back({node->second, *type});
    shares.push_back(rank.state);
    if (++counts[node->second] > 1 &&
        !cluster.findLink(node->second, node->second))
      return where(index) << "shares node '" << rank.node
                          << "', inside which there is no link";
  }
  std::vector<PhaseGroup> groups = {PhaseBuilder::makeGroup(
      CollectiveCost(cluster, ranks), std::move(shares))};
  phases.emplace(result.problem, std::move(groups));
  return success();
}

/// That of a rank's device type.
LogicalResult PlanSimulationBuilder::readProgram(size_t rank) {
  const std::string &name = plan.ranks[rank].type;
  if (programs.count(name))
    return success();
  std::optional<int> type = cluster.findType(name);
  ModuleOp op = programOf(name);
  if (!type || !op)
    return where(rank) << "is on device type '" << name
                       << "', for which there is no program";
  std::string model = nn::getFingerprint(op);
  const Plan::Rank &of = plan.ranks[rank];
  const DeviceProfile *profile = cluster.findProfile(
      *type, plan.stage, model,
      of.recompute.value_or(cluster.types[*type].recompute));
  if (!profile)
    return where(std::nullopt) << "has ranks on device type '" << name
                               << "', which has no profile of this model ("
                               << model << ") in stage " << plan.stage
                               << "; make one with: " << getProfileCommand(name)
                               << " and plan with --profiles profiles";
  Program &program = programs[name];
  program.module = op;
  std::string error;
  std::optional<Curve> curve = profile->fitCurve(error);
  if (!curve)
    return where(std::nullopt) << "has ranks on device type '" << name
                               << "', whose profile is not a curve: " << error;
  program.curve = *curve;
  double bytes = 0;
  for (auto bucket : op.getOps<zero::BucketOp>())
    if (!bucket.getFrozen())
      bytes += double(bucket.getBounds()->back()) * OptimizerBytes::total();
  program.secondsPerByte = profile->optimizerSeconds.value_or(0) / bytes;
  program.costs = std::make_unique<UnitCosts>(op, cluster.types[*type]);
  result.usesEstimates |= profile->isEstimate;
  return success();
}

//===----------------------------------------------------------------------===//
// Classes of ranks
//===----------------------------------------------------------------------===//

std::string poplar::formatRanks(ArrayRef<int64_t> ranks) {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  size_t runs = 0;
  for (size_t first = 0; first < ranks.size(); ++runs) {
    size_t end = first + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    if (runs == 3)
      return text + ", ... (" + std::to_string(ranks.size()) + ")";
    text += (runs ? ", " : "") + std::to_string(ranks[first]);
    if (end > first + 1)
      text += "-" + std::to_string(ranks[end - 1]);
    first = end;
  }
  return text;
}

/// Ranks of one type with the same batches and the same part of the state:
/// their shards are equal but for rounding.
void PlanSimulationBuilder::formClasses() {
  std::map<std::tuple<StringRef, int64_t, int64_t, int64_t, double>, size_t>
      known;
  for (auto [index, rank] : llvm::enumerate(plan.ranks)) {
    const RankShare &share = rank.share;
    auto [entry, isNew] = known.try_emplace(
        {rank.type, share.microBatch, share.steps, share.last, rank.state},
        result.classes.size());
    if (isNew)
      result.classes.push_back({rank.type, {}, share});
    result.classes[entry->second].ranks.push_back(int64_t(index));
  }
}

LogicalResult
PlanSimulationBuilder::addClass(const PlanSimulation::RankClass &members) {
  int64_t rank = members.ranks.front();
  Program &program = programs.at(members.deviceType);
  // Stages 0 and 1 have a function for the last micro-step.
  nn::Entry last = nn::Entry::TrainLast;
  if (!nn::findEntry<func::FuncOp>(program.module, last))
    last = nn::Entry::Train;
  auto own = [&](zero::BucketOp bucket) {
    return getOwnElements(bucket, members.ranks);
  };
  const RankShare &share = members.share;
  FailureOr<Phase> step = makeTrain(program, nn::Entry::Train, share.microBatch,
                                    rank),
                   lastStep = makeTrain(program, last, share.last, rank),
                   update = phases->makeUpdate(program.module,
                                               program.secondsPerByte, own);
  if (failed(step) || failed(lastStep) || failed(update))
    return failure();
  Phase begin = phases->makeBegin(program.module, program.secondsPerByte, own);
  SimulationProblem::RankClass rankClass;
  rankClass.name = members.deviceType + ", " + formatRanks(members.ranks);
  rankClass.ranks = int64_t(members.ranks.size());
  rankClass.phases = {std::move(begin), std::move(*step), std::move(*lastStep),
                      phases->makeEnd(), std::move(*update)};
  rankClass.iteration = {{0, 1}, {1, share.steps - 1}, {2, 1}, {3, 1}, {4, 1}};
  result.problem.classes.push_back(std::move(rankClass));
  return success();
}

//===----------------------------------------------------------------------===//
// Phases of programs
//===----------------------------------------------------------------------===//

FailureOr<Phase> PlanSimulationBuilder::makeTrain(Program &program,
                                                  nn::Entry entry,
                                                  int64_t batch, int64_t rank) {
  if (batch > program.curve.largest())
    return where(rank)
           << "has a micro-batch of " << batch << ", but the profile of '"
           << plan.ranks[rank].type << "' in stage " << plan.stage
           << " ends at " << program.curve.largest()
           << "; measure larger ones with poplar profile --max-batch " << batch;
  double perWork = 0;
  if (auto function =
          program.module.lookupSymbol<func::FuncOp>(nn::getName(entry));
      function && batch > 0) {
    double work = 0;
    for (Operation &op : function.front())
      work += program.costs->getWork(&op, batch);
    if (work == 0)
      return function.emitOpError("calls nothing that has a cost, over which "
                                  "the time of a step could be spread");
    perWork = program.curve.seconds(batch) / work;
  }
  return phases->make(program.module, nn::getName(entry), [&](Operation *op) {
    return batch ? program.costs->getWork(op, batch) * perWork : 0;
  });
}

/// What a rank of a class updates of a bucket, the most of any.
double PlanSimulationBuilder::getOwnElements(zero::BucketOp bucket,
                                             ArrayRef<int64_t> members) {
  if (bucket.getFrozen())
    return 0;
  const std::vector<int64_t> &bounds = phases->getBounds(bucket);
  if (plan.stage == 0)
    return double(bounds.back());
  int64_t most = 0;
  for (int64_t rank : members)
    most = std::max(most, bounds[rank + 1] - bounds[rank]);
  return double(most);
}

FailureOr<PlanSimulation> PlanSimulationBuilder::build() {
  result.stage = plan.stage;
  result.globalBatch = plan.globalBatch;
  result.policy = plan.policy;
  if (failed(placeRanks()))
    return failure();
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    if (failed(readProgram(rank)))
      return failure();
  formClasses();
  for (const PlanSimulation::RankClass &members : result.classes)
    if (failed(addClass(members)))
      return failure();
  return std::move(result);
}

FailureOr<PlanSimulation>
poplar::buildPlanSimulation(const ClusterView &cluster, const Plan &plan,
                            ProgramOfType programOf, PlanLocation where) {
  return PlanSimulationBuilder(cluster, plan, programOf, where).build();
}

FailureOr<PlanSimulation> poplar::buildPlanSimulation(ModuleOp module) {
  llvm::StringMap<ModuleOp> programs;
  zero::PlanOp plan;
  for (auto program : module.getOps<ModuleOp>())
    if (zero::getProgram(program)) {
      programs[zero::ProgramInfo::get(program).deviceType] = program;
      if (!plan && !program.getOps<zero::PlanOp>().empty())
        plan = *program.getOps<zero::PlanOp>().begin();
    }
  if (!plan)
    return module.emitError("has no programs with a plan: run "
                            "--specialize-device-types first");
  assert(plan.getGroups().empty() && "see buildStageSimulation()");
  SmallVector<zero::RankOp, 0> ranks = plan.getRanks();
  auto where = [&](std::optional<int64_t> rank) {
    return rank ? ranks[*rank].emitOpError() : plan.emitOpError();
  };
  FailureOr<PlanSimulation> simulation = buildPlanSimulation(
      cluster::buildClusterView(module), zero::readPlan(plan),
      [&](StringRef type) { return programs.lookup(type); }, where);
  if (succeeded(simulation))
    if (std::optional<APFloat> seconds = plan.getPredictedSeconds())
      simulation->predictedSeconds = seconds->convertToDouble();
  return simulation;
}
