//===- CandidateSimulator.cpp - Plans of a model, simulated ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/CandidateSimulator.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Zero/PlanReview.h"
#include "Poplar/Simulation/PlanSimulation.h"
#include "mlir/IR/Builders.h"
#include <set>
#include <tuple>

using namespace mlir;
using namespace poplar;

/// Steps before the last that are played through; by then each begins and ends
/// as the one before.
static constexpr int64_t mostSteps = 6;

bool CandidateSimulator::ProgramKind::operator<(
    const ProgramKind &other) const {
  return std::tie(precision, workingFormat, recompute) <
         std::tie(other.precision, other.workingFormat, other.recompute);
}

CandidateSimulator::ProgramKind
CandidateSimulator::getKind(const DeviceType &type) {
  return {type.precision, type.getWorkingFormat(), type.recompute};
}

/// A plan with ranks on these device types, for which programs are made.
static Plan makePlan(int stage, const std::string &node,
                     ArrayRef<std::string> types) {
  Plan plan;
  plan.policy = "programs";
  plan.groups.front().zeroStage = stage;
  plan.globalBatch = static_cast<int64_t>(types.size());
  for (const std::string &type : types)
    plan.ranks.push_back({type, node, {1, 1, 1}});
  return plan;
}

FailureOr<const CandidateSimulator::Programs *>
CandidateSimulator::getPrograms(const ClusterView &view,
                                const PlanCandidate &candidate) {
  // A device type for each kind of program.
  std::map<ProgramKind, std::string> kinds;
  std::set<int> types;
  for (int rank : candidate.ranks)
    if (int type = view.ranks[rank].type; types.insert(type).second)
      kinds.try_emplace(getKind(view.types[type]), view.types[type].name);
  bool isAlone = candidate.ranks.size() == 1;
  std::vector<ProgramKind> key;
  std::vector<std::string> representatives;
  for (const auto &[kind, type] : kinds) {
    key.push_back(kind);
    representatives.push_back(type);
  }
  // Programs of one rank have no collectives.
  if (!isAlone && representatives.size() == 1)
    representatives.push_back(representatives.front());
  // Whatever the number of replicas is, programs are those of two.
  int64_t replicas = std::min<int64_t>(candidate.replicas, 2);
  if (replicas > 1)
    llvm::append_range(representatives,
                       std::vector<std::string>(representatives));
  auto [entry, isNew] =
      jobs.try_emplace({candidate.stage, isAlone ? 0 : replicas,
                        describeWires(candidate.wires), std::move(key)});
  Job &job = entry->second;
  if (!isNew)
    return &job.programs;

  job.module = module.clone();
  for (auto [index, op] :
       llvm::enumerate(job.module->getOps<cluster::DeviceTypeOp>()))
    op.setRecompute(view.types[index].recompute);
  const std::string &node =
      view.nodes[view.ranks[candidate.ranks.front()].node].name;
  Plan plan = makePlan(candidate.stage, node, representatives);
  plan.wires = candidate.wires;
  plan.replicas = replicas;
  zero::addPlan(*job.module, plan);
  if (failed(scheduleCandidate(*job.module, options)))
    return failure();
  for (auto program : job.module->getOps<ModuleOp>())
    for (const auto &[kind, type] : kinds)
      if (zero::ProgramInfo::get(program).deviceType == type)
        job.programs[kind] = program;
  return &job.programs;
}

/// Seconds of an iteration. In stages 2 and 3 all ranks make as many steps.
static std::optional<double> getSeconds(PlanSimulation &plan,
                                        std::string &error) {
  int64_t steps = plan.classes.front().share.steps - 1;
  auto run = [&](int64_t times) -> std::optional<double> {
    for (auto &rankClass : plan.problem.classes)
      if (plan.stage >= 2)
        rankClass.iteration[PlanSimulation::stepRun].times = times;
    auto result = simulate(plan.problem, {}, error);
    if (!result)
      return std::nullopt;
    return result->seconds;
  };
  if (plan.stage < 2 || steps <= mostSteps)
    return run(steps);
  std::optional<double> less = run(mostSteps - 1), most = run(mostSteps);
  if (!less || !most)
    return std::nullopt;
  return *most + double(steps - mostSteps) * (*most - *less);
}

FailureOr<double>
CandidateSimulator::getSeconds(const ClusterView &cluster,
                               const PlanCandidate &candidate) {
  ClusterView view = cluster;
  for (auto [type, recompute] :
       llvm::zip_equal(view.types, candidate.recompute))
    type.recompute = recompute;
  FailureOr<const Programs *> programs = getPrograms(view, candidate);
  if (failed(programs))
    return failure();
  auto where = [&](std::optional<int64_t> rank) {
    InFlightDiagnostic error = module.emitError("a plan of stage ")
                               << candidate.stage << " cannot be simulated: ";
    return std::move(
        error << (rank ? "rank " + std::to_string(*rank) + " " : "it "));
  };
  FailureOr<PlanSimulation> plan = buildPlanSimulation(
      view, writePlan(view, candidate),
      [&](StringRef type) {
        return (*programs)->at(getKind(view.types[*view.findType(type.str())]));
      },
      where);
  if (failed(plan))
    return failure();
  std::string error;
  std::optional<double> seconds = ::getSeconds(*plan, error);
  if (!seconds)
    return module.emitError("a plan of stage ")
           << candidate.stage << " cannot be simulated: " << error;
  return *seconds;
}
