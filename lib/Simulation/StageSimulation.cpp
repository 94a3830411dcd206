//===- StageSimulation.cpp - From pipeline stages to a simulation ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Model/OptimizerBytes.h"
#include "Poplar/Planner/Pipeline/UnitTimes.h"
#include "Poplar/Simulation/PlanSimulation.h"
#include "StageClasses.h"
#include "UnitCosts.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace mlir;
using namespace poplar;

using Phase = SimulationProblem::Phase;
using Step = SimulationProblem::Operation;

namespace {

/// What the ranks of a device type in a group run.
struct Program {
  ModuleOp module;
  const HybridModel::Variant *variant = nullptr;
  const UnitTimes *times = nullptr;
  std::unique_ptr<UnitCosts> costs;
  /// Seconds of the optimizer, per such byte.
  double secondsPerByte = 0;
};

/// How far a rank has come with a chunk, and what it has given memory for (see
/// runtime/program/Pipeline.cpp); the phases that give more.
struct ChunkState {
  int64_t inFlight = 0, forwards = 0, backwards = 0, activations = 0,
          gradients = 0;
  int moreActivations = -1, moreGradients = -1;
};

class StageSimulationBuilder {
public:
  StageSimulationBuilder(zero::PlanOp plan, const ClusterView &cluster,
                         const HybridModel &model)
      : plan(plan), cluster(cluster), model(model), ranks(plan.getRanks()),
        groups(plan.getGroups()), stages(plan, cluster, model.tokens) {}
  FailureOr<PlanSimulation> build(ProgramOfType programOf);

private:
  LogicalResult readPrograms(ProgramOfType programOf);
  LogicalResult readProgram(size_t index, ProgramOfType programOf);
  Program &getProgram(size_t index) {
    return programs.at({result.classes[index].deviceType,
                        *result.classes[index].group, stages[index].position});
  }

  LogicalResult addClass(size_t index);
  FailureOr<Phase> makePass(size_t index, StringRef name, int64_t batch,
                            double seconds, int64_t chunk, bool isBackward);
  FailureOr<Phase> makeTurn(size_t index, const Turn &turn, bool isLast);
  LogicalResult addSteps(size_t index, SimulationProblem::RankClass &rankClass);
  LogicalResult addTurns(size_t index, SimulationProblem::RankClass &rankClass);
  double getWork(size_t index, StringRef name, int64_t batch);
  FailureOr<HybridProblem::UnitCost> getSeconds(size_t index, StringRef name,
                                                int64_t chunk, int64_t batch);
  double getOwnElements(zero::BucketOp bucket, size_t index);

  zero::PlanOp plan;
  const ClusterView &cluster;
  const HybridModel &model;
  SmallVector<zero::RankOp, 0> ranks;
  SmallVector<zero::GroupOp, 0> groups;
  StageClasses stages;
  /// By name, group and position.
  std::map<std::tuple<std::string, int64_t, int64_t>, Program> programs;
  std::map<int, UnitTimes> times;
  std::optional<PhaseBuilder> phases;
  PlanSimulation result;
};

} // namespace

//===----------------------------------------------------------------------===//
// The plan and its programs
//===----------------------------------------------------------------------===//

LogicalResult StageSimulationBuilder::readProgram(size_t index,
                                                  ProgramOfType programOf) {
  const PlanSimulation::RankClass &own = result.classes[index];
  const std::string &name = own.deviceType;
  auto [entry, isNew] =
      programs.try_emplace({name, *own.group, stages[index].position});
  if (!isNew)
    return success();
  Program &program = entry->second;
  zero::RankOp rank = ranks[own.ranks.front()];
  std::optional<int> type = cluster.findType(name);
  program.module = programOf(zero::getProgramName(plan, own.ranks.front()));
  if (!type || !program.module)
    return rank.emitOpError("is on device type '")
           << name << "', for which there is no program";
  auto found = times.find(*type);
  if (found == times.end()) {
    std::string error;
    auto read = UnitTimes::get(cluster, model, *type, error);
    if (!read)
      return rank.emitOpError("cannot be simulated: ") << error;
    found = times.emplace(*type, std::move(*read)).first;
  }
  program.times = &found->second;
  result.usesEstimates |= !program.times->getLargest();
  RecomputePolicy recompute =
      rank.getRecompute().value_or(cluster.types[*type].recompute);
  for (const HybridModel::Variant &variant : model.variants[*type])
    if (variant.tensorDegree == 1 && variant.recompute == recompute)
      program.variant = &variant;
  if (!program.variant)
    return rank.emitOpError("recomputes '")
           << toString(recompute) << "', for which there are no costs";
  program.costs =
      std::make_unique<UnitCosts>(program.module, cluster.types[*type]);
  program.secondsPerByte =
      program.times->getOptimizerSeconds() / OptimizerBytes::total();
  return success();
}

LogicalResult StageSimulationBuilder::readPrograms(ProgramOfType programOf) {
  for (size_t index = 0; index < result.classes.size(); ++index)
    if (failed(readProgram(index, programOf)))
      return failure();
  SmallVector<ModuleOp> modules;
  for (auto &[key, program] : programs)
    modules.push_back(program.module);
  DenseMap<StringAttr, int> groupOf;
  std::vector<PhaseGroup> list = stages.formGroups(modules, groupOf);
  phases.emplace(result.problem, std::move(list),
                 [groupOf = std::move(groupOf)](zero::BucketOp bucket) {
                   return groupOf.at(bucket.getSymNameAttr());
                 });
  return success();
}

//===----------------------------------------------------------------------===//
// What a class does
//===----------------------------------------------------------------------===//

/// The work of a function of the class's program, relative to that of others.
double StageSimulationBuilder::getWork(size_t index, StringRef name,
                                       int64_t batch) {
  Program &program = getProgram(index);
  double work = 0;
  if (auto function = program.module.lookupSymbol<func::FuncOp>(name))
    for (Operation &op : function.front())
      work += program.costs->getWork(&op, batch);
  return work;
}

/// Seconds of the units of a chunk, forward and backward. A rank that shares
/// them does what its program does of the work of all sharers' programs.
FailureOr<HybridProblem::UnitCost>
StageSimulationBuilder::getSeconds(size_t index, StringRef name, int64_t chunk,
                                   int64_t batch) {
  HybridProblem::UnitCost seconds;
  if (batch == 0)
    return seconds;
  Program &program = getProgram(index);
  double share = 1;
  if (const std::vector<size_t> &sharers = stages[index].sharers;
      sharers.size() > 1) {
    double all = 0;
    for (size_t sharer : sharers)
      all += getWork(sharer, name, batch);
    share = all > 0 ? getWork(index, name, batch) / all : 1;
  }
  auto units = program.times->getShareOfCosts(*program.variant, batch, share);
  const PlanSimulation::RankClass &own = result.classes[index];
  if (units.empty())
    return ranks[own.ranks.front()].emitOpError("has a micro-batch of ")
           << batch << ", but the profile of '" << own.deviceType
           << "' ends at " << *program.times->getLargest()
           << "; measure larger ones with poplar profile --max-batch " << batch;
  zero::GroupOp group = groups[*own.group];
  for (int64_t unit = group.getFirst(chunk); unit < group.getEnd(chunk);
       ++unit) {
    seconds.forward += units[unit].forward;
    seconds.backward += units[unit].backward;
  }
  return seconds;
}

/// The function `name`, which takes `seconds` besides what it sends.
FailureOr<Phase> StageSimulationBuilder::makePass(size_t index, StringRef name,
                                                  int64_t batch, double seconds,
                                                  int64_t chunk,
                                                  bool isBackward) {
  Program &program = getProgram(index);
  double work = getWork(index, name, batch);
  const StageNeighbors &to = stages[index].neighbors[chunk];
  const std::vector<TokenChannel> &in = isBackward ? to.gradientsIn
                                                   : to.activationsIn,
                                  &out = isBackward ? to.gradientsOut
                                                    : to.activationsOut;
  FailureOr<Phase> pass = phases->make(
      program.module, name,
      [&](Operation *op) {
        return work > 0 ? program.costs->getWork(op, batch) * seconds / work
                        : 0;
      },
      [&](Phase &phase, Operation *op) {
        if (auto exchange = dyn_cast<zero::ExchangeOpInterface>(op)) {
          phases->addTokens(phase, stages.getSharers(index), exchange, batch);
          return;
        }
        if (isa<zero::ReceiveOp>(op)) {
          for (TokenChannel channel : in)
            phase.push_back(Step::receive(channel.channel));
          return;
        }
        auto type = cast<RankedTensorType>(op->getOperand(0).getType());
        int64_t tokenBytes = type.getElementTypeBitWidth() / 8;
        for (int64_t size : type.getShape().drop_front(2))
          tokenBytes *= size;
        for (auto [channel, tokens] : out)
          phase.push_back(Step::send(
              stages.getMessage(channel, batch, tokens * tokenBytes), channel));
      });
  // Its own message needs one of the buffers.
  if (succeeded(pass))
    for (TokenChannel channel : out)
      pass->insert(pass->begin(),
                   Step::flush(channel.channel, Timetable::messageBuffers - 1));
  return pass;
}

FailureOr<Phase>
StageSimulationBuilder::makeTurn(size_t index, const Turn &turn, bool isLast) {
  const RankShare &share = result.classes[index].share;
  Program &program = getProgram(index);
  int64_t batch =
      turn.microBatch + 1 == share.steps ? share.last : share.microBatch;
  zero::ProgramInfo info = zero::ProgramInfo::get(program.module);
  std::string name = info.getTurnName(
      turn.isBackward ? nn::Entry::Backward : nn::Entry::Forward, turn.chunk);
  // Where nothing is reduced in the last turn alone, it is like the others.
  if (std::string last = info.getTurnName(nn::Entry::BackwardLast, turn.chunk);
      turn.isBackward && isLast &&
      program.module.lookupSymbol<func::FuncOp>(last))
    name = last;
  auto seconds = getSeconds(index, name, turn.chunk, batch);
  if (failed(seconds))
    return failure();
  return makePass(index, name, batch,
                  turn.isBackward ? seconds->backward : seconds->forward,
                  turn.chunk, turn.isBackward);
}

/// What a rank of a class updates of a bucket, the most of any.
double StageSimulationBuilder::getOwnElements(zero::BucketOp bucket,
                                              size_t index) {
  Program &program = getProgram(index);
  zero::ProgramInfo info = zero::ProgramInfo::get(program.module);
  if (!info.holds(bucket) || bucket.getFrozen())
    return 0;
  const std::vector<int64_t> &bounds = phases->getBounds(bucket);
  if (info.getStage(bucket) == 0)
    return double(bounds.back());
  int64_t most = 0;
  for (auto [place, rank] : llvm::enumerate(stages.findHolders(bucket)))
    if (llvm::is_contained(result.classes[index].ranks, rank))
      most = std::max(most, bounds[place + 1] - bounds[place]);
  return double(most);
}

static int addPhase(SimulationProblem::RankClass &rankClass, Phase phase) {
  rankClass.phases.push_back(std::move(phase));
  return static_cast<int>(rankClass.phases.size()) - 1;
}

static void addRuns(SimulationProblem::RankClass &rankClass, int phase,
                    int64_t times) {
  if (times > 0)
    rankClass.iteration.push_back({phase, times});
}

/// Adds the steps of a plan of one stage, whose programs have no turns.
LogicalResult
StageSimulationBuilder::addSteps(size_t index,
                                 SimulationProblem::RankClass &rankClass) {
  const RankShare &share = result.classes[index].share;
  ModuleOp module = getProgram(index).module;
  bool hasLast =
      nn::findEntry<func::FuncOp>(module, nn::Entry::TrainLast) != nullptr;
  for (bool isLast : {false, true}) {
    StringRef name = nn::getName(isLast && hasLast ? nn::Entry::TrainLast
                                                   : nn::Entry::Train);
    int64_t batch = isLast ? share.last : share.microBatch;
    auto seconds = getSeconds(index, name, /*chunk=*/0, batch);
    if (failed(seconds))
      return failure();
    FailureOr<Phase> step =
        makePass(index, name, batch, seconds->forward + seconds->backward,
                 /*chunk=*/0, /*isBackward=*/false);
    if (failed(step))
      return failure();
    addRuns(rankClass, addPhase(rankClass, std::move(*step)),
            isLast ? 1 : share.steps - 1);
  }
  return success();
}

/// Ranks take the turns of the plan's timetable, as
/// runtime/program/Pipeline.cpp does.
LogicalResult
StageSimulationBuilder::addTurns(size_t index,
                                 SimulationProblem::RankClass &rankClass) {
  const PlanSimulation::RankClass &own = result.classes[index];
  const StageClass &place = stages[index];
  std::vector<Turn> turns =
      plan.getTimetable(place.pipeline).stages[*own.group];
  int64_t count = own.share.steps;
  auto addPosts = [&](const std::vector<TokenChannel> &channels) {
    Phase phase;
    for (TokenChannel channel : channels)
      phase.push_back(Step::post(channel.channel));
    return channels.empty() ? -1 : addPhase(rankClass, std::move(phase));
  };
  std::vector<ChunkState> chunks;
  for (const StageNeighbors &to : place.neighbors) {
    ChunkState chunk;
    chunk.inFlight =
        Timetable::countInFlight(turns, static_cast<int64_t>(chunks.size()));
    chunk.moreActivations = addPosts(to.activationsIn);
    chunk.moreGradients = addPosts(to.gradientsIn);
    chunks.push_back(chunk);
  }
  auto post = [&](ChunkState &chunk) {
    int64_t most = std::min({count, chunk.forwards + Timetable::messageBuffers,
                             chunk.backwards + chunk.inFlight + 1});
    if (chunk.moreActivations >= 0)
      addRuns(rankClass, chunk.moreActivations, most - chunk.activations);
    chunk.activations = most;
    most = std::min(count, chunk.backwards + Timetable::messageBuffers);
    if (chunk.moreGradients >= 0)
      addRuns(rankClass, chunk.moreGradients, most - chunk.gradients);
    chunk.gradients = most;
  };
  for (ChunkState &chunk : chunks)
    post(chunk);
  // By direction, chunk, whether the batch is the last one's, and whether the
  // turn is.
  std::map<std::tuple<bool, int64_t, bool, bool>, int> known;
  for (const Turn &turn : turns) {
    ChunkState &chunk = chunks[turn.chunk];
    bool isLast = turn.isBackward && chunk.backwards + 1 == count;
    auto [entry, isNew] = known.try_emplace(
        {turn.isBackward, turn.chunk, turn.microBatch + 1 == count, isLast});
    if (isNew) {
      FailureOr<Phase> phase = makeTurn(index, turn, isLast);
      if (failed(phase))
        return failure();
      entry->second = addPhase(rankClass, std::move(*phase));
    }
    addRuns(rankClass, entry->second, 1);
    ++(turn.isBackward ? chunk.backwards : chunk.forwards);
    post(chunk);
  }
  Phase end;
  for (const StageNeighbors &to : place.neighbors)
    for (const auto *channels : {&to.activationsOut, &to.gradientsOut})
      for (TokenChannel channel : *channels)
        end.push_back(Step::flush(channel.channel, 0));
  addRuns(rankClass, addPhase(rankClass, std::move(end)), 1);
  return success();
}

LogicalResult StageSimulationBuilder::addClass(size_t index) {
  const PlanSimulation::RankClass &own = result.classes[index];
  Program &program = getProgram(index);
  auto elements = [&](zero::BucketOp bucket) {
    return getOwnElements(bucket, index);
  };
  FailureOr<Phase> update =
      phases->makeUpdate(program.module, program.secondsPerByte, elements);
  if (failed(update))
    return failure();
  SimulationProblem::RankClass rankClass;
  rankClass.name = own.deviceType;
  if (groups.size() > 1)
    rankClass.name += ", stage " + std::to_string(*own.group);
  if (stages[index].sharers.size() > 1)
    rankClass.name += ", part " + std::to_string(stages[index].position);
  rankClass.name += ", " + formatRanks(own.ranks);
  rankClass.ranks = int64_t(own.ranks.size());
  addRuns(
      rankClass,
      addPhase(rankClass, phases->makeBegin(program.module,
                                            program.secondsPerByte, elements)),
      1);
  if (failed(groups.size() > 1 ? addTurns(index, rankClass)
                               : addSteps(index, rankClass)))
    return failure();
  addRuns(rankClass, addPhase(rankClass, phases->makeEnd()), 1);
  addRuns(rankClass, addPhase(rankClass, std::move(*update)), 1);
  result.problem.classes.push_back(std::move(rankClass));
  return success();
}

FailureOr<PlanSimulation>
StageSimulationBuilder::build(ProgramOfType programOf) {
  result.stage = plan.getStage();
  result.globalBatch = plan.getGlobalBatch();
  result.policy = plan.getPolicy().str();
  if (failed(stages.form(result)) || failed(readPrograms(programOf)))
    return failure();
  for (size_t index = 0; index < result.classes.size(); ++index)
    if (failed(addClass(index)))
      return failure();
  return std::move(result);
}

FailureOr<PlanSimulation>
poplar::buildStageSimulation(ModuleOp module, const HybridModel &units) {
  llvm::StringMap<ModuleOp> programs;
  zero::PlanOp plan;
  for (auto program : module.getOps<ModuleOp>())
    if (zero::getProgram(program)) {
      programs[zero::ProgramInfo::get(program).getProgramName()] = program;
      if (!plan && !program.getOps<zero::PlanOp>().empty())
        plan = *program.getOps<zero::PlanOp>().begin();
    }
  if (!plan || plan.getGroups().empty())
    return module.emitError("has no programs of pipeline stages: run "
                            "--specialize-device-types first");
  ClusterView cluster = cluster::buildClusterView(module);
  FailureOr<PlanSimulation> simulation =
      StageSimulationBuilder(plan, cluster, units).build([&](StringRef name) {
        return programs.lookup(name);
      });
  if (succeeded(simulation))
    if (std::optional<APFloat> seconds = plan.getPredictedSeconds())
      simulation->predictedSeconds = seconds->convertToDouble();
  return simulation;
}
