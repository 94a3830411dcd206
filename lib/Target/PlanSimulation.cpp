//===- PlanSimulation.cpp - From scheduled programs to a simulation -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/PlanSimulation.h"
#include "PhaseBuilder.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "UnitCosts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <tuple>

using namespace mlir;
using namespace poplar;

using Phase = SimulationProblem::Phase;

/// Bytes of state that a part of the optimizer's step reads and writes per
/// element: zeroing and the norm touch the gradient once, AdamW reads gradient,
/// master and two moments and writes all but the gradient.
static constexpr double zeroBytes = 4, normBytes = 4, adamwBytes = 28;

namespace {

/// What ranks of a device type run.
struct Program {
  ModuleOp module;
  llvm::MapVector<Attribute, zero::BucketOp> buckets;
  Curve curve;
  /// Of the optimizer, per such byte.
  double secondsPerByte = 0;
  std::unique_ptr<UnitCosts> costs;
};

class PlanSimulationBuilder {
public:
  explicit PlanSimulationBuilder(ModuleOp module)
      : module(module), cluster(cluster::buildClusterView(module)) {}
  FailureOr<PlanSimulation> build();

private:
  LogicalResult readPlan();
  LogicalResult placeRanks();
  LogicalResult readProgram(ModuleOp module);
  void formClasses();
  LogicalResult addClass(const PlanSimulation::RankClass &members);

  FailureOr<Phase> makeTrain(Program &program, StringRef name, int64_t batch,
                             zero::RankOp rank);
  FailureOr<Phase> makeUpdate(Program &program, ArrayRef<int64_t> members);
  double getOwnElements(zero::BucketOp bucket, ArrayRef<int64_t> members);
  double getOwnElements(Program &program, ArrayRef<int64_t> members);

  ModuleOp module;
  ClusterView cluster;
  zero::PlanOp plan;
  SmallVector<zero::RankOp, 0> ranks;
  std::optional<PhaseBuilder> phases;
  llvm::MapVector<StringAttr, Program> programs;
  PlanSimulation result;
};

} // namespace

//===----------------------------------------------------------------------===//
// The plan and its programs
//===----------------------------------------------------------------------===//

LogicalResult PlanSimulationBuilder::readPlan() {
  SmallVector<ModuleOp> modules;
  for (auto program : module.getOps<ModuleOp>())
    if (program->hasAttr(zero::kProgramAttr))
      modules.push_back(program);
  if (modules.empty() || modules.front().getOps<zero::PlanOp>().empty())
    return module.emitError("has no programs with a plan: run "
                            "--specialize-device-types first");
  plan = *modules.front().getOps<zero::PlanOp>().begin();
  ranks = plan.getRanks();
  result.stage = static_cast<int64_t>(plan.getStage());
  result.globalBatch = static_cast<int64_t>(plan.getGlobalBatch());
  result.policy = plan.getPolicy().str();
  if (auto seconds = plan->getAttrOfType<FloatAttr>("predicted_seconds"))
    result.predictedSeconds = seconds.getValueAsDouble();
  if (failed(placeRanks()))
    return failure();
  for (ModuleOp program : modules)
    if (failed(readProgram(program)))
      return failure();
  return success();
}

LogicalResult PlanSimulationBuilder::placeRanks() {
  llvm::StringMap<int> indices;
  for (auto [index, node] : llvm::enumerate(cluster.nodes))
    indices[node.name] = static_cast<int>(index);
  std::vector<int> nodes, counts(cluster.nodes.size());
  for (zero::RankOp rank : ranks) {
    auto node = indices.find(rank.getNode());
    if (node == indices.end())
      return rank.emitOpError("is on node '")
             << rank.getNode() << "', which is no cluster.node";
    nodes.push_back(node->second);
    if (++counts[node->second] > 1 &&
        !cluster.findLink(node->second, node->second))
      return rank.emitOpError("shares node '")
             << rank.getNode() << "', inside which there is no link";
  }
  phases.emplace(result.problem, CollectiveCost(cluster, nodes), nodes.size());
  return success();
}

LogicalResult PlanSimulationBuilder::readProgram(ModuleOp op) {
  zero::ProgramInfo info = zero::ProgramInfo::get(op);
  std::optional<int> type = cluster.findType(info.deviceType);
  std::string model = nn::getFingerprint(op);
  int stage = static_cast<int>(result.stage);
  const DeviceProfile *profile =
      type ? cluster.findProfile(*type, stage, model) : nullptr;
  if (!profile)
    return plan.emitOpError("has ranks on device type '")
           << info.deviceType << "', which has no profile of this model ("
           << model << ") in stage " << stage
           << "; plan with --profiles, made by poplar profile --device-type "
           << info.deviceType << " --zero " << stage;
  Program &program =
      programs[StringAttr::get(op.getContext(), info.deviceType)];
  program.module = op;
  for (auto bucket : op.getOps<zero::BucketOp>())
    program.buckets[FlatSymbolRefAttr::get(bucket.getSymNameAttr())] = bucket;
  std::string error;
  std::optional<Curve> curve = profile->fitCurve(error);
  if (!curve)
    return plan.emitOpError("has ranks on device type '")
           << info.deviceType << "', whose profile is no curve: " << error;
  program.curve = *curve;
  double bytes = 0;
  for (auto [name, bucket] : program.buckets)
    bytes += double(bucket.getBounds()->back()) *
             (zeroBytes + normBytes + adamwBytes);
  program.secondsPerByte = profile->optimizerSeconds.value_or(0) / bytes;
  program.costs = std::make_unique<UnitCosts>(op, cluster.types[*type]);
  result.usesEstimates |= profile->isEstimate;
  return success();
}

//===----------------------------------------------------------------------===//
// Classes of ranks
//===----------------------------------------------------------------------===//

/// "ranks 0-3, 8"; with many gaps, how many they are.
static std::string formatRanks(ArrayRef<int64_t> ranks) {
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
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    RankShare share = {int64_t(rank.getMicroBatch()), int64_t(rank.getSteps()),
                       int64_t(rank.getLast())};
    auto [entry, isNew] =
        known.try_emplace({rank.getDeviceType(), share.microBatch, share.steps,
                           share.last, rank.getState().convertToDouble()},
                          result.classes.size());
    if (isNew)
      result.classes.push_back({rank.getDeviceType().str(), {}, share});
    result.classes[entry->second].ranks.push_back(int64_t(index));
  }
}

LogicalResult
PlanSimulationBuilder::addClass(const PlanSimulation::RankClass &members) {
  zero::RankOp rank = ranks[members.ranks.front()];
  auto program =
      programs.find(StringAttr::get(module.getContext(), members.deviceType));
  if (program == programs.end())
    return rank.emitOpError("is on device type '")
           << members.deviceType << "', for which there is no program";
  // Stages 0 and 1 have a function for the last micro-step.
  StringRef last = "train_last";
  if (!program->second.module.lookupSymbol<func::FuncOp>(last))
    last = "train";
  const RankShare &share = members.share;
  FailureOr<Phase> step = makeTrain(program->second, "train", share.microBatch,
                                    rank),
                   lastStep =
                       makeTrain(program->second, last, share.last, rank),
                   update = makeUpdate(program->second, members.ranks);
  if (failed(step) || failed(lastStep) || failed(update))
    return failure();

  // The runtime's loop (runtime/Trainer.cpp): it asks whether to stop, counts
  // targets, and adds up the loss.
  Phase begin, end;
  phases->addExchange(begin, "stop", sizeof(int64_t));
  phases->addExchange(begin, "targets", sizeof(int64_t));
  phases->addComputation(begin, "zero gradients",
                         program->second.secondsPerByte * zeroBytes *
                             getOwnElements(program->second, members.ranks));
  phases->addExchange(end, "loss", sizeof(double));
  SimulationProblem::RankClass rankClass;
  rankClass.name = members.deviceType + ", " + formatRanks(members.ranks);
  rankClass.ranks = int64_t(members.ranks.size());
  rankClass.phases = {std::move(begin), std::move(*step), std::move(*lastStep),
                      std::move(end), std::move(*update)};
  rankClass.iteration = {{0, 1}, {1, share.steps - 1}, {2, 1}, {3, 1}, {4, 1}};
  result.problem.classes.push_back(std::move(rankClass));
  return success();
}

//===----------------------------------------------------------------------===//
// Phases of programs
//===----------------------------------------------------------------------===//

FailureOr<Phase> PlanSimulationBuilder::makeTrain(Program &program,
                                                  StringRef name, int64_t batch,
                                                  zero::RankOp rank) {
  if (batch > program.curve.largest())
    return rank.emitOpError("has a micro-batch of ")
           << batch << ", but the profile of '" << rank.getDeviceType()
           << "' in stage " << result.stage << " ends at "
           << program.curve.largest()
           << "; measure larger ones with poplar profile --max-batch " << batch;
  double perWork = 0;
  if (auto function = program.module.lookupSymbol<func::FuncOp>(name);
      function && batch > 0) {
    double work = 0;
    for (Operation &op : function.front())
      work += program.costs->getWork(&op, batch);
    if (work == 0)
      return function.emitOpError("calls nothing that has a cost, over which "
                                  "the time of a step could be spread");
    perWork = program.curve.seconds(batch) / work;
  }
  return phases->make(program.module, name, [&](Operation *op) {
    return batch ? program.costs->getWork(op, batch) * perWork : 0;
  });
}

/// What a rank of a class updates of a bucket, the most of any.
double PlanSimulationBuilder::getOwnElements(zero::BucketOp bucket,
                                             ArrayRef<int64_t> members) {
  ArrayRef<int64_t> bounds = *bucket.getBounds();
  if (result.stage == 0)
    return double(bounds.back());
  int64_t most = 0;
  for (int64_t rank : members)
    most = std::max(most, bounds[rank + 1] - bounds[rank]);
  return double(most);
}

double PlanSimulationBuilder::getOwnElements(Program &program,
                                             ArrayRef<int64_t> members) {
  double own = 0;
  for (auto [name, bucket] : program.buckets)
    own += getOwnElements(bucket, members);
  return own;
}

FailureOr<Phase> PlanSimulationBuilder::makeUpdate(Program &program,
                                                   ArrayRef<int64_t> members) {
  return phases->make(program.module, "update", [&](Operation *op) {
    double bytes = 0;
    if (isa<zero::NormOp>(op))
      bytes = normBytes * getOwnElements(program, members);
    else if (auto adamw = dyn_cast<zero::AdamWOp>(op))
      bytes = adamwBytes *
              getOwnElements(program.buckets.lookup(adamw.getBucketAttr()),
                             members);
    return bytes * program.secondsPerByte;
  });
}

FailureOr<PlanSimulation> PlanSimulationBuilder::build() {
  if (failed(readPlan()))
    return failure();
  formClasses();
  for (const PlanSimulation::RankClass &members : result.classes)
    if (failed(addClass(members)))
      return failure();
  return std::move(result);
}

FailureOr<PlanSimulation> poplar::buildPlanSimulation(ModuleOp module) {
  return PlanSimulationBuilder(module).build();
}
