//===- PlanSimulation.cpp - From scheduled programs to a simulation -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/PlanSimulation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Planner/Cluster/HostRounding.h"
#include "Poplar/Planner/Model/OptimizerBytes.h"
#include "Poplar/Planner/Pipeline/UnitTimes.h"
#include "RankClasses.h"
#include "UnitCosts.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <tuple>

using namespace mlir;
using namespace poplar;

using Phase = SimulationProblem::Phase;
using Step = SimulationProblem::Operation;

namespace {

/// What ranks of a device type in a group run. Its seconds are those of a
/// profile, if it is of the whole model, or of its units.
struct Program {
  ModuleOp module;
  zero::ProgramInfo info;
  std::optional<Curve> curve;
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

class PlanSimulationBuilder {
public:
  PlanSimulationBuilder(const ClusterView &cluster, const Plan &plan,
                        PlanLocation where, const HybridModel *model)
      : cluster(cluster), plan(plan), where(where), model(model),
        classes(plan, cluster, model ? model->tokens : 0, where) {}
  FailureOr<PlanSimulation> build(ProgramOfName programOf);

private:
  LogicalResult readPrograms(ProgramOfName programOf);
  LogicalResult readCurve(Program &program, int64_t rank, int type);
  LogicalResult readUnits(Program &program, int64_t rank, int type);
  Recomputation getRecompute(int64_t rank, int type) const {
    return plan.ranks[rank].recompute.value_or(cluster.types[type].recompute);
  }
  Program &getProgram(size_t index) { return *programOfClass[index]; }

  LogicalResult addClass(size_t index);
  LogicalResult addSteps(size_t index, SimulationProblem::RankClass &rankClass);
  LogicalResult addTurns(size_t index, SimulationProblem::RankClass &rankClass);
  FailureOr<Phase> makeTurn(size_t index, const Turn &turn, bool isLast);
  FailureOr<Phase> makePass(size_t index, StringRef name, int64_t batch,
                            double seconds, int64_t chunk, bool isBackward);
  double getWork(size_t index, StringRef name, int64_t batch);
  FailureOr<HybridProblem::UnitCost> getSeconds(size_t index, StringRef name,
                                                int64_t chunk, int64_t batch);
  double getOwnElements(zero::BucketOp bucket, size_t index);

  const ClusterView &cluster;
  const Plan &plan;
  PlanLocation where;
  const HybridModel *model;
  RankClasses classes;
  /// By name; and by class.
  std::map<std::string, Program> programs;
  std::vector<Program *> programOfClass;
  std::map<int, UnitTimes> times;
  std::optional<PhaseBuilder> phases;
  PlanSimulation result;
};

} // namespace

//===----------------------------------------------------------------------===//
// The plan and its programs
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

/// The profile of whole programs.
LogicalResult PlanSimulationBuilder::readCurve(Program &program, int64_t rank,
                                               int type) {
  const std::string &name = plan.ranks[rank].type;
  std::string fingerprint = nn::getFingerprint(program.module);
  int64_t stage = plan.getStage();
  const DeviceProfile *profile = cluster.findProfile(
      type, static_cast<int>(stage), fingerprint, getRecompute(rank, type));
  if (!profile)
    return where(std::nullopt) << "has ranks on device type '" << name
                               << "', which has no profile of this model ("
                               << fingerprint << ") in stage " << stage
                               << "; make one with: " << getProfileCommand(name)
                               << " and plan with --profiles profiles";
  std::string error;
  program.curve = profile->fitCurve(error);
  if (!program.curve)
    return where(std::nullopt) << "has ranks on device type '" << name
                               << "', whose profile is not a curve: " << error;
  double bytes = 0;
  for (auto bucket : program.module.getOps<zero::BucketOp>())
    if (!bucket.getFrozen())
      bytes += double(bucket.getBounds()->back()) * OptimizerBytes::total();
  program.secondsPerByte = profile->optimizerSeconds.value_or(0) / bytes;
  result.usesEstimates |= profile->isEstimate;
  return success();
}

/// The times of the units that a program has a part of.
LogicalResult PlanSimulationBuilder::readUnits(Program &program, int64_t rank,
                                               int type) {
  assert(model && "the plan cuts the model");
  auto found = times.find(type);
  if (found == times.end()) {
    std::string error;
    auto read = UnitTimes::get(cluster, *model, type, error);
    if (!read)
      return where(rank) << "cannot be simulated: " << error;
    found = times.emplace(type, std::move(*read)).first;
  }
  program.times = &found->second;
  result.usesEstimates |= !program.times->getLargest();
  Recomputation recompute = getRecompute(rank, type);
  for (const HybridModel::Variant &variant : model->variants[type])
    if (variant.tensorDegree == 1 && variant.recompute == recompute)
      program.variant = &variant;
  if (!program.variant)
    return where(rank) << "recomputes '" << toString(recompute)
                       << "', for which there are no costs";
  program.secondsPerByte =
      program.times->getOptimizerSeconds() / OptimizerBytes::total();
  return success();
}

LogicalResult PlanSimulationBuilder::readPrograms(ProgramOfName programOf) {
  SmallVector<ModuleOp> modules;
  for (auto [index, own] : llvm::enumerate(result.classes)) {
    int64_t rank = own.ranks.front();
    std::string name =
        zero::getProgramName(plan, rank, classes[index].position);
    auto [entry, isNew] = programs.try_emplace(name);
    Program &program = entry->second;
    programOfClass.push_back(&program);
    if (!isNew)
      continue;
    program.module = programOf(name);
    if (!program.module)
      return where(rank) << "is on device type '" << own.deviceType
                         << "', for which there is no program";
    int type = *cluster.findType(own.deviceType);
    if (failed(plan.isWhole() ? readCurve(program, rank, type)
                              : readUnits(program, rank, type)))
      return failure();
    program.info = zero::ProgramInfo::get(program.module);
    program.costs =
        std::make_unique<UnitCosts>(program.module, cluster.types[type]);
    modules.push_back(program.module);
  }
  phases.emplace(
      result.problem, classes.formGroups(modules),
      [&](zero::BucketOp bucket) { return classes.getGroupOf(bucket); });
  return success();
}

//===----------------------------------------------------------------------===//
// What a class does
//===----------------------------------------------------------------------===//

/// The work of a function of the class's program, relative to that of others.
double PlanSimulationBuilder::getWork(size_t index, StringRef name,
                                      int64_t batch) {
  Program &program = getProgram(index);
  double work = 0;
  if (auto function = program.module.lookupSymbol<func::FuncOp>(name))
    for (Operation &op : function.front())
      work += program.costs->getWork(&op, batch);
  return work;
}

/// Seconds of the units of a chunk, forward and backward; of the whole model,
/// both together. A rank that shares units does what its program does of the
/// work of all sharers' programs.
FailureOr<HybridProblem::UnitCost>
PlanSimulationBuilder::getSeconds(size_t index, StringRef name, int64_t chunk,
                                  int64_t batch) {
  HybridProblem::UnitCost seconds;
  if (batch == 0)
    return seconds;
  Program &program = getProgram(index);
  const PlanSimulation::RankClass &own = result.classes[index];
  std::optional<int64_t> largest =
      program.curve ? program.curve->largest() : program.times->getLargest();
  if (largest && batch > *largest)
    return where(own.ranks.front())
           << "has a micro-batch of " << batch << ", but the profile of '"
           << own.deviceType << "'"
           << (program.curve ? " in stage " + std::to_string(plan.getStage())
                             : "")
           << " ends at " << *largest
           << "; measure larger ones with poplar profile --max-batch " << batch;
  if (program.curve) {
    seconds.forward = program.curve->seconds(batch);
    return seconds;
  }
  double share = 1;
  if (const std::vector<size_t> &sharers = classes[index].sharers;
      sharers.size() > 1) {
    double all = 0;
    for (size_t sharer : sharers)
      all += getWork(sharer, name, batch);
    share = all > 0 ? getWork(index, name, batch) / all : 1;
  }
  auto units = program.times->getShareOfCosts(*program.variant, batch, share);
  const std::vector<int64_t> &ranges = plan.groups[own.group].units;
  for (int64_t unit = ranges[2 * chunk]; unit < ranges[2 * chunk + 1]; ++unit) {
    seconds.forward += units[unit].forward;
    seconds.backward += units[unit].backward;
  }
  return seconds;
}

/// The function `name`, which takes `seconds` besides what it sends.
FailureOr<Phase> PlanSimulationBuilder::makePass(size_t index, StringRef name,
                                                 int64_t batch, double seconds,
                                                 int64_t chunk,
                                                 bool isBackward) {
  Program &program = getProgram(index);
  double work = getWork(index, name, batch);
  if (work == 0 && seconds > 0)
    return where(result.classes[index].ranks.front())
           << "runs @" << name
           << ", which calls nothing that has a cost, over which its time "
              "could "
              "be spread";
  const ChunkNeighbors &to = classes[index].neighbors[chunk];
  const std::vector<TokenChannel> &in = isBackward ? to.gradientsIn
                                                   : to.activationsIn,
                                  &out = isBackward ? to.gradientsOut
                                                    : to.activationsOut;
  auto addMessages = [&](Phase &phase, Operation *op) {
    if (auto exchange = dyn_cast<zero::ExchangeOpInterface>(op)) {
      phases->addTokens(phase, classes.getSharers(index), exchange, batch);
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
          classes.getMessage(channel, batch, tokens * tokenBytes), channel));
  };
  PhaseBuilder::Messages messages = nullptr;
  if (!plan.isWhole())
    messages = addMessages;
  double secondsPerWork = work > 0 ? seconds / work : 0;
  FailureOr<Phase> pass = phases->make(
      program.module, name,
      [&](Operation *op) {
        return program.costs->getWork(op, batch) * secondsPerWork;
      },
      messages);
  // Its own message needs one of the buffers.
  if (succeeded(pass))
    for (TokenChannel channel : out)
      pass->insert(pass->begin(),
                   Step::flush(channel.channel, Timetable::messageBuffers - 1));
  return pass;
}

FailureOr<Phase> PlanSimulationBuilder::makeTurn(size_t index, const Turn &turn,
                                                 bool isLast) {
  const RankShare &share = result.classes[index].share;
  Program &program = getProgram(index);
  int64_t batch =
      turn.microBatch + 1 == share.steps ? share.last : share.microBatch;
  const zero::ProgramInfo &info = program.info;
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
double PlanSimulationBuilder::getOwnElements(zero::BucketOp bucket,
                                             size_t index) {
  const zero::ProgramInfo &info = getProgram(index).info;
  if (!info.holds(bucket) || bucket.getFrozen())
    return 0;
  const std::vector<int64_t> &bounds = phases->getBounds(bucket);
  if (info.getStage(bucket) == 0)
    return double(bounds.back());
  int64_t most = 0;
  ArrayRef<int64_t> holders = classes.getHolders(bucket);
  bool areAll = holders.size() == plan.ranks.size();
  for (int64_t rank : result.classes[index].ranks) {
    size_t place = areAll ? rank % plan.getShardGroupSize()
                          : llvm::lower_bound(holders, rank) - holders.begin();
    if (areAll || (place < holders.size() && holders[place] == rank))
      most = std::max(most, bounds[place + 1] - bounds[place]);
  }
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

/// Adds the steps of a plan of one stage, whose programs have no turns. There
/// may be no step before the last.
LogicalResult
PlanSimulationBuilder::addSteps(size_t index,
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
    rankClass.iteration.push_back(
        {addPhase(rankClass, std::move(*step)), isLast ? 1 : share.steps - 1});
  }
  return success();
}

/// Ranks take the turns of the plan's timetable, as
/// runtime/program/Pipeline.cpp does.
LogicalResult
PlanSimulationBuilder::addTurns(size_t index,
                                SimulationProblem::RankClass &rankClass) {
  const PlanSimulation::RankClass &own = result.classes[index];
  const ClassPlace &place = classes[index];
  std::vector<Turn> turns = plan.getTimetable(place.pipeline).stages[own.group];
  int64_t count = own.share.steps;
  auto addPosts = [&](const std::vector<TokenChannel> &channels) {
    Phase phase;
    for (TokenChannel channel : channels)
      phase.push_back(Step::post(channel.channel));
    return channels.empty() ? -1 : addPhase(rankClass, std::move(phase));
  };
  std::vector<ChunkState> chunks;
  for (const ChunkNeighbors &to : place.neighbors) {
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
  for (const ChunkNeighbors &to : place.neighbors)
    for (const auto *channels : {&to.activationsOut, &to.gradientsOut})
      for (TokenChannel channel : *channels)
        end.push_back(Step::flush(channel.channel, 0));
  addRuns(rankClass, addPhase(rankClass, std::move(end)), 1);
  return success();
}

LogicalResult PlanSimulationBuilder::addClass(size_t index) {
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
  if (plan.groups.size() > 1)
    rankClass.name += ", stage " + std::to_string(own.group);
  if (classes[index].sharers.size() > 1)
    rankClass.name += ", part " + std::to_string(classes[index].position);
  rankClass.name += ", " + formatRanks(own.ranks);
  rankClass.ranks = int64_t(own.ranks.size());
  addRuns(
      rankClass,
      addPhase(rankClass, phases->makeBegin(program.module,
                                            program.secondsPerByte, elements)),
      1);
  if (failed(plan.groups.size() > 1 ? addTurns(index, rankClass)
                                    : addSteps(index, rankClass)))
    return failure();
  addRuns(rankClass, addPhase(rankClass, phases->makeEnd()), 1);
  addRuns(rankClass, addPhase(rankClass, std::move(*update)), 1);
  result.problem.classes.push_back(std::move(rankClass));
  return success();
}

FailureOr<PlanSimulation>
PlanSimulationBuilder::build(ProgramOfName programOf) {
  result.stage = plan.getStage();
  result.globalBatch = plan.globalBatch;
  result.policy = plan.policy;
  result.isWhole = plan.isWhole();
  if (failed(classes.form(result)) || failed(readPrograms(programOf)))
    return failure();
  for (size_t index = 0; index < result.classes.size(); ++index)
    if (failed(addClass(index)))
      return failure();
  return std::move(result);
}

FailureOr<PlanSimulation>
poplar::buildPlanSimulation(const ClusterView &cluster, const Plan &plan,
                            ProgramOfName programOf, PlanLocation where,
                            const HybridModel *model) {
  ClusterView view = withWires(cluster, plan.wires);
  return PlanSimulationBuilder(view, plan, where, model).build(programOf);
}

FailureOr<PlanSimulation>
poplar::buildPlanSimulation(ModuleOp module, const HybridModel *model) {
  llvm::StringMap<ModuleOp> programs;
  zero::PlanOp plan;
  for (auto program : module.getOps<ModuleOp>())
    if (zero::getProgram(program)) {
      programs[zero::ProgramInfo::get(program).getProgramName()] = program;
      if (!plan && !program.getOps<zero::PlanOp>().empty())
        plan = *program.getOps<zero::PlanOp>().begin();
    }
  if (!plan)
    return module.emitError("has no programs with a plan: run "
                            "--specialize-device-types first");
  SmallVector<zero::RankOp, 0> ranks = plan.getRanks();
  auto where = [&](std::optional<int64_t> rank) {
    return rank ? ranks[*rank].emitOpError() : plan.emitOpError();
  };
  FailureOr<PlanSimulation> simulation = buildPlanSimulation(
      cluster::buildClusterView(module), zero::readPlan(plan),
      [&](StringRef name) { return programs.lookup(name); }, where, model);
  if (succeeded(simulation))
    if (std::optional<APFloat> seconds = plan.getPredictedSeconds())
      simulation->predictedSeconds = seconds->convertToDouble();
  return simulation;
}
