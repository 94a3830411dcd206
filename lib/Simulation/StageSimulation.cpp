//===- StageSimulation.cpp - From pipeline stages to a simulation ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks take the turns of the plan's timetable, as
// runtime/training/Pipeline.cpp does. Pipelines with the same types, batches
// and links do the same at the same time: each stage of those is a class of
// ranks, with channels for every chunk.
//
//===----------------------------------------------------------------------===//

#include "PhaseBuilder.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Model/OptimizerBytes.h"
#include "Poplar/Planner/Model/UnitTimes.h"
#include "Poplar/Simulation/PlanSimulation.h"
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
  /// Of the optimizer, per such byte.
  double secondsPerByte = 0;
};

/// Channels of a chunk of a class of ranks; -1 where there is none.
struct Neighbors {
  int activationsIn = -1, activationsOut = -1, gradientsIn = -1,
      gradientsOut = -1;
};

/// How far a rank has come with a chunk, and what it has given memory for (see
/// runtime/training/Pipeline.cpp); the phases that give more.
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
        groups(plan.getGroups()) {}
  FailureOr<PlanSimulation> build(ProgramOfType programOf);

private:
  LogicalResult placeRanks();
  LogicalResult readPrograms(ProgramOfType programOf);
  LogicalResult readProgram(zero::RankOp rank, ProgramOfType programOf);
  Program &getProgram(zero::RankOp rank) {
    return programs.at({rank.getDeviceType().str(), rank.getGroup()});
  }

  LogicalResult formClasses();
  std::optional<LinkSpeed> findLink(int64_t rank, int64_t other) const {
    return cluster.findLink(nodes[rank], nodes[other]);
  }
  void addChannels(size_t firstClass);
  void addChannel(size_t from, size_t to, bool isForward, int64_t fromChunk,
                  int64_t toChunk);
  void formGroups();
  int getMessage(int channel, int64_t samples, int64_t sampleBytes);

  LogicalResult addClass(size_t index);
  FailureOr<Phase> makeTurn(size_t index, const Turn &turn, bool isLast);
  FailureOr<double> getSeconds(zero::RankOp rank, const Turn &turn,
                               int64_t batch);
  double getOwnElements(zero::BucketOp bucket, size_t index);

  /// A port of each class and direction, then one of each node.
  int getPort(CollectiveCost::Port kind, size_t index) const {
    switch (kind) {
    case CollectiveCost::DeviceOut:
      return static_cast<int>(2 * index);
    case CollectiveCost::DeviceIn:
      return static_cast<int>(2 * index + 1);
    case CollectiveCost::NodeOut:
      return static_cast<int>(2 * (result.classes.size() + index));
    case CollectiveCost::NodeIn:
      return static_cast<int>(2 * (result.classes.size() + index) + 1);
    }
    llvm_unreachable("no such port");
  }

  zero::PlanOp plan;
  const ClusterView &cluster;
  const HybridModel &model;
  SmallVector<zero::RankOp, 0> ranks;
  SmallVector<zero::GroupOp, 0> groups;
  /// By rank.
  std::vector<int> nodes;
  /// By group, its ranks: those of a pipeline have the same place.
  std::vector<SmallVector<int64_t>> members;
  /// By name and group.
  std::map<std::pair<std::string, int64_t>, Program> programs;
  std::map<int, UnitTimes> times;
  /// By class: a pipeline that it is of.
  std::vector<int64_t> pipelines;
  /// By class and chunk.
  std::vector<std::vector<Neighbors>> neighbors;
  /// By channel and samples.
  std::map<std::pair<int, int64_t>, int> messages;
  std::optional<PhaseBuilder> phases;
  PlanSimulation result;
};

} // namespace

//===----------------------------------------------------------------------===//
// The plan and its programs
//===----------------------------------------------------------------------===//

LogicalResult StageSimulationBuilder::placeRanks() {
  for (zero::GroupOp group : groups)
    if (group.getLargestTensorDegree() > 1)
      return group.emitOpError("shares units among devices, which is not "
                               "simulated yet; poplar build and poplar train "
                               "take such plans");
  llvm::StringMap<int> indices;
  for (auto [index, node] : llvm::enumerate(cluster.nodes))
    indices[node.name] = static_cast<int>(index);
  for (zero::RankOp rank : ranks) {
    auto node = indices.find(rank.getNode());
    if (node == indices.end())
      return rank.emitOpError("is on node '")
             << rank.getNode() << "', which is not a cluster.node";
    nodes.push_back(node->second);
  }
  for (size_t group = 0; group < groups.size(); ++group)
    members.push_back(plan.getRanksOf(int64_t(group)));
  // CollectiveCost takes it that ranks which meet are linked.
  std::map<int, int64_t> firstOf;
  for (int64_t rank = 0; rank < int64_t(ranks.size()); ++rank) {
    auto [own, isFirst] = firstOf.try_emplace(nodes[rank], rank);
    for (auto [node, other] : firstOf)
      if (other != rank && (isFirst || node == nodes[rank]) &&
          (!findLink(rank, other) || !findLink(other, rank)))
        return ranks[rank].emitOpError("is on node '")
               << ranks[rank].getNode() << "', which has no link with node '"
               << ranks[other].getNode() << "' of rank " << other;
  }
  return success();
}

LogicalResult StageSimulationBuilder::readProgram(zero::RankOp rank,
                                                  ProgramOfType programOf) {
  std::string name = rank.getDeviceType().str();
  auto [entry, isNew] = programs.try_emplace({name, rank.getGroup()});
  if (!isNew)
    return success();
  Program &program = entry->second;
  std::optional<int> type = cluster.findType(name);
  program.module = programOf(
      zero::getProgramName(plan, llvm::find(ranks, rank) - ranks.begin()));
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
  std::string recompute = cluster.types[*type].recompute;
  if (auto policy = rank.getRecompute())
    recompute = cluster::stringifyRecomputePolicy(*policy).str();
  for (const HybridModel::Variant &variant : model.variants[*type])
    if (variant.recompute == recompute)
      program.variant = &variant;
  if (!program.variant)
    return rank.emitOpError("recomputes '")
           << recompute << "', which is not a policy";
  program.costs =
      std::make_unique<UnitCosts>(program.module, cluster.types[*type]);
  program.secondsPerByte =
      program.times->getOptimizerSeconds() / OptimizerBytes::total();
  return success();
}

LogicalResult StageSimulationBuilder::readPrograms(ProgramOfType programOf) {
  for (zero::RankOp rank : ranks)
    if (failed(readProgram(rank, programOf)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Classes of ranks, and what is between them
//===----------------------------------------------------------------------===//

LogicalResult StageSimulationBuilder::formClasses() {
  using Rank = std::tuple<StringRef, int64_t, int64_t, int64_t, double>;
  using Hop = std::tuple<bool, double, double, double>;
  std::map<std::pair<std::vector<Rank>, std::vector<Hop>>, size_t> known;
  bool isCustom = plan.getSchedule() == zero::PlanSchedule::Custom;
  for (size_t pipeline = 0; pipeline < members.front().size(); ++pipeline) {
    std::pair<std::vector<Rank>, std::vector<Hop>> key;
    for (size_t group = 0; group < groups.size(); ++group) {
      int64_t index = members[group][pipeline];
      zero::RankOp rank = ranks[index];
      key.first.emplace_back(rank.getDeviceType(), rank.getMicroBatch(),
                             rank.getSteps(), rank.getLast(),
                             rank.getState().convertToDouble());
      // From the last group goes what comes to the next chunk of the first.
      if (group == 0 && plan.getNumChunks() == 1)
        continue;
      int64_t before =
          members[(group + groups.size() - 1) % groups.size()][pipeline];
      LinkSpeed link = *findLink(before, index);
      key.second.emplace_back(nodes[before] == nodes[index], link.latency,
                              link.bandwidth, link.overhead);
    }
    auto [entry, isNew] =
        known.try_emplace(std::move(key), result.classes.size());
    if (isNew || isCustom) {
      entry->second = result.classes.size();
      for (size_t group = 0; group < groups.size(); ++group) {
        zero::RankOp rank = ranks[members[group][pipeline]];
        result.classes.push_back(
            {rank.getDeviceType().str(),
             {},
             {int64_t(rank.getMicroBatch()), int64_t(rank.getSteps()),
              int64_t(rank.getLast())},
             int64_t(group)});
        pipelines.push_back(int64_t(pipeline));
      }
    }
    for (size_t group = 0; group < groups.size(); ++group)
      result.classes[entry->second + group].ranks.push_back(
          members[group][pipeline]);
  }
  neighbors.assign(result.classes.size(),
                   std::vector<Neighbors>(plan.getNumChunks()));
  for (size_t first = 0; first < result.classes.size(); first += groups.size())
    addChannels(first);
  formGroups();
  return success();
}

/// Between the virtual stages of a class of pipelines.
void StageSimulationBuilder::addChannels(size_t firstClass) {
  int64_t count = int64_t(groups.size()), chunks = plan.getNumChunks();
  for (int64_t stage = 1; stage < count * chunks; ++stage) {
    size_t from = firstClass + (stage - 1) % count,
           to = firstClass + stage % count;
    int64_t fromChunk = (stage - 1) / count, toChunk = stage / count;
    addChannel(from, to, /*isForward=*/true, fromChunk, toChunk);
    addChannel(to, from, /*isForward=*/false, toChunk, fromChunk);
  }
}

void StageSimulationBuilder::addChannel(size_t from, size_t to, bool isForward,
                                        int64_t fromChunk, int64_t toChunk) {
  auto channel = static_cast<int>(result.problem.channels.size());
  std::string name = isForward ? "activations" : "gradients";
  if (plan.getNumChunks() > 1)
    name += " to chunk " + std::to_string(toChunk);
  result.problem.channels.push_back(
      {std::move(name), static_cast<int>(from), static_cast<int>(to)});
  Neighbors &sender = neighbors[from][fromChunk],
            &receiver = neighbors[to][toChunk];
  (isForward ? sender.activationsOut : sender.gradientsOut) = channel;
  (isForward ? receiver.activationsIn : receiver.gradientsIn) = channel;
}

/// All ranks; then those of each group, and all that share a bucket with
/// others. Every rank has a port of its own to its node.
void StageSimulationBuilder::formGroups() {
  std::vector<PhaseGroup> list;
  std::map<std::vector<int64_t>, int> known;
  auto addGroup = [&](const std::vector<int64_t> &held) {
    auto [entry, isNew] =
        known.try_emplace(held, static_cast<int>(list.size()));
    if (!isNew)
      return entry->second;
    std::vector<ClusterRank> places;
    std::vector<double> shares;
    std::set<int> usedNodes;
    for (int64_t rank = 0; rank < int64_t(ranks.size()); ++rank)
      if (llvm::is_contained(held, int64_t(ranks[rank].getGroup()))) {
        places.push_back({nodes[rank], *cluster.findType(
                                           ranks[rank].getDeviceType().str())});
        shares.push_back(ranks[rank].getState().convertToDouble());
        usedNodes.insert(nodes[rank]);
      }
    PhaseGroup group{
        CollectiveCost(cluster, places), std::move(shares), {}, {}};
    for (size_t index = 0; index < result.classes.size(); ++index) {
      if (!llvm::is_contained(held, *result.classes[index].group))
        continue;
      group.classes.push_back(static_cast<int>(index));
      for (auto kind : {CollectiveCost::DeviceOut, CollectiveCost::DeviceIn})
        group.ports[kind].push_back(getPort(kind, index));
    }
    for (int node : usedNodes)
      for (auto kind : {CollectiveCost::NodeOut, CollectiveCost::NodeIn})
        group.ports[kind].push_back(getPort(kind, node));
    list.push_back(std::move(group));
    return entry->second;
  };
  std::vector<int64_t> all(groups.size());
  std::iota(all.begin(), all.end(), 0);
  addGroup(all);
  llvm::DenseMap<StringAttr, int> groupOf;
  for (auto &[key, program] : programs)
    for (auto bucket : program.module.getOps<zero::BucketOp>()) {
      auto held = bucket.getGroups();
      groupOf[bucket.getSymNameAttr()] =
          held ? addGroup(std::vector<int64_t>(held->begin(), held->end())) : 0;
    }
  phases.emplace(result.problem, std::move(list),
                 [groupOf = std::move(groupOf)](zero::BucketOp bucket) {
                   return groupOf.at(bucket.getSymNameAttr());
                 });
}

/// Of a micro-batch. All pipelines of the class send at the same time.
int StageSimulationBuilder::getMessage(int channel, int64_t samples,
                                       int64_t sampleBytes) {
  auto &list = result.problem.collectives;
  auto [entry, isNew] =
      messages.try_emplace({channel, samples}, static_cast<int>(list.size()));
  if (!isNew)
    return entry->second;
  const SimulationProblem::Channel &ends = result.problem.channels[channel];
  double bytes = double(samples * sampleBytes);
  SimulationProblem::Collective message;
  message.name = ends.name;
  message.bytes = bytes;
  std::map<int, double> uses;
  for (auto [from, to] : llvm::zip(result.classes[ends.from].ranks,
                                   result.classes[ends.to].ranks)) {
    LinkSpeed link = *findLink(from, to);
    message.latency = std::max(message.latency, link.latency);
    message.overhead = std::max(message.overhead, bytes * link.overhead);
    if (nodes[from] == nodes[to]) {
      uses[getPort(CollectiveCost::DeviceOut, ends.from)] =
          bytes / link.bandwidth;
      uses[getPort(CollectiveCost::DeviceIn, ends.to)] = bytes / link.bandwidth;
      continue;
    }
    uses[getPort(CollectiveCost::NodeOut, nodes[from])] +=
        bytes / link.bandwidth;
    uses[getPort(CollectiveCost::NodeIn, nodes[to])] += bytes / link.bandwidth;
  }
  for (auto [port, seconds] : uses)
    message.uses.push_back({port, seconds});
  list.push_back(std::move(message));
  return entry->second;
}

//===----------------------------------------------------------------------===//
// What a class does
//===----------------------------------------------------------------------===//

/// Of `batch` samples in a turn.
FailureOr<double> StageSimulationBuilder::getSeconds(zero::RankOp rank,
                                                     const Turn &turn,
                                                     int64_t batch) {
  if (batch == 0)
    return 0.0;
  Program &program = getProgram(rank);
  auto units = program.times->getCosts(*program.variant, batch);
  if (units.empty())
    return rank.emitOpError("has a micro-batch of ")
           << batch << ", but the profile of '" << rank.getDeviceType()
           << "' ends at " << *program.times->getLargest()
           << "; measure larger ones with poplar profile --max-batch " << batch;
  zero::GroupOp group = groups[rank.getGroup()];
  double seconds = 0;
  for (int64_t unit = group.getFirst(turn.chunk);
       unit < group.getEnd(turn.chunk); ++unit)
    seconds += turn.isBackward ? units[unit].backward : units[unit].forward;
  return seconds;
}

FailureOr<Phase>
StageSimulationBuilder::makeTurn(size_t index, const Turn &turn, bool isLast) {
  const PlanSimulation::RankClass &own = result.classes[index];
  zero::RankOp rank = ranks[own.ranks.front()];
  Program &program = getProgram(rank);
  int64_t batch = turn.microBatch + 1 == own.share.steps ? own.share.last
                                                         : own.share.microBatch;
  zero::ProgramInfo info = zero::ProgramInfo::get(program.module);
  std::string name =
      info.getTurnName(turn.isBackward ? "backward" : "forward", turn.chunk);
  // Where nothing is reduced in the last turn alone, it is like the others.
  if (std::string last = info.getTurnName("backward_last", turn.chunk);
      turn.isBackward && isLast &&
      program.module.lookupSymbol<func::FuncOp>(last))
    name = last;
  FailureOr<double> seconds = getSeconds(rank, turn, batch);
  if (failed(seconds))
    return failure();
  double work = 0;
  if (auto function = program.module.lookupSymbol<func::FuncOp>(name))
    for (Operation &op : function.front())
      work += program.costs->getWork(&op, batch);
  const Neighbors &to = neighbors[index][turn.chunk];
  int in = turn.isBackward ? to.gradientsIn : to.activationsIn,
      out = turn.isBackward ? to.gradientsOut : to.activationsOut;
  FailureOr<Phase> pass = phases->make(
      program.module, name,
      [&](Operation *op) {
        return work > 0 ? program.costs->getWork(op, batch) * *seconds / work
                        : 0;
      },
      [&](Phase &phase, Operation *op) {
        if (isa<zero::ReceiveOp>(op)) {
          phase.push_back(Step::receive(in));
          return;
        }
        auto type = cast<RankedTensorType>(op->getOperand(0).getType());
        int64_t sampleBytes = type.getElementTypeBitWidth() / 8;
        for (int64_t size : type.getShape().drop_front())
          sampleBytes *= size;
        phase.push_back(Step::send(getMessage(out, batch, sampleBytes), out));
      });
  // Its own message needs one of the buffers.
  if (succeeded(pass) && out >= 0)
    pass->insert(pass->begin(),
                 Step::flush(out, Timetable::messageBuffers - 1));
  return pass;
}

/// What a rank of a class updates of a bucket, the most of any.
double StageSimulationBuilder::getOwnElements(zero::BucketOp bucket,
                                              size_t index) {
  const PlanSimulation::RankClass &own = result.classes[index];
  Program &program = getProgram(ranks[own.ranks.front()]);
  zero::ProgramInfo info = zero::ProgramInfo::get(program.module);
  if (!info.holds(bucket) || bucket.getFrozen())
    return 0;
  const std::vector<int64_t> &bounds = phases->getBounds(bucket);
  if (info.getStage(bucket) == 0)
    return double(bounds.back());
  // Ranks of the bucket's groups, in their order.
  auto held = bucket.getGroups();
  int64_t place = 0, most = 0;
  for (auto [number, rank] : llvm::enumerate(ranks)) {
    if (held && !llvm::is_contained(*held, int64_t(rank.getGroup())))
      continue;
    if (llvm::is_contained(own.ranks, int64_t(number)))
      most = std::max(most, bounds[place + 1] - bounds[place]);
    ++place;
  }
  return double(most);
}

LogicalResult StageSimulationBuilder::addClass(size_t index) {
  const PlanSimulation::RankClass &own = result.classes[index];
  Program &program = getProgram(ranks[own.ranks.front()]);
  auto elements = [&](zero::BucketOp bucket) {
    return getOwnElements(bucket, index);
  };
  FailureOr<Phase> update =
      phases->makeUpdate(program.module, program.secondsPerByte, elements);
  if (failed(update))
    return failure();
  SimulationProblem::RankClass rankClass;
  rankClass.name = own.deviceType + ", stage " + std::to_string(*own.group) +
                   ", " + formatRanks(own.ranks);
  rankClass.ranks = int64_t(own.ranks.size());
  auto add = [&](Phase phase) {
    rankClass.phases.push_back(std::move(phase));
    return static_cast<int>(rankClass.phases.size()) - 1;
  };
  auto runs = [&](int phase, int64_t times) {
    if (times > 0)
      rankClass.iteration.push_back({phase, times});
  };
  runs(add(phases->makeBegin(program.module, program.secondsPerByte, elements)),
       1);

  std::vector<Turn> turns =
      plan.getTimetable(pipelines[index]).stages[*own.group];
  int64_t count = own.share.steps;
  std::vector<ChunkState> chunks;
  for (const Neighbors &to : neighbors[index]) {
    ChunkState chunk;
    chunk.inFlight =
        Timetable::countInFlight(turns, static_cast<int64_t>(chunks.size()));
    if (to.activationsIn >= 0)
      chunk.moreActivations = add({Step::post(to.activationsIn)});
    if (to.gradientsIn >= 0)
      chunk.moreGradients = add({Step::post(to.gradientsIn)});
    chunks.push_back(chunk);
  }
  auto post = [&](ChunkState &chunk) {
    int64_t most = std::min({count, chunk.forwards + Timetable::messageBuffers,
                             chunk.backwards + chunk.inFlight + 1});
    if (chunk.moreActivations >= 0)
      runs(chunk.moreActivations, most - chunk.activations);
    chunk.activations = most;
    most = std::min(count, chunk.backwards + Timetable::messageBuffers);
    if (chunk.moreGradients >= 0)
      runs(chunk.moreGradients, most - chunk.gradients);
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
      entry->second = add(std::move(*phase));
    }
    runs(entry->second, 1);
    ++(turn.isBackward ? chunk.backwards : chunk.forwards);
    post(chunk);
  }
  Phase end;
  for (const Neighbors &to : neighbors[index])
    for (int channel : {to.activationsOut, to.gradientsOut})
      if (channel >= 0)
        end.push_back(Step::flush(channel, 0));
  runs(add(std::move(end)), 1);
  runs(add(phases->makeEnd()), 1);
  runs(add(std::move(*update)), 1);
  result.problem.classes.push_back(std::move(rankClass));
  return success();
}

FailureOr<PlanSimulation>
StageSimulationBuilder::build(ProgramOfType programOf) {
  result.stage = plan.getStage();
  result.globalBatch = plan.getGlobalBatch();
  result.policy = plan.getPolicy().str();
  if (failed(placeRanks()) || failed(readPrograms(programOf)) ||
      failed(formClasses()))
    return failure();
  for (size_t index = 0; index < result.classes.size(); ++index)
    if (failed(addClass(index)))
      return failure();
  return std::move(result);
}

FailureOr<PlanSimulation>
poplar::buildStageSimulation(ModuleOp module, const HybridModel &model) {
  llvm::StringMap<ModuleOp> programs;
  zero::PlanOp plan;
  for (auto program : module.getOps<ModuleOp>())
    if (program->hasAttr(zero::kProgramAttr)) {
      programs[zero::ProgramInfo::get(program).getProgramName()] = program;
      if (!plan && !program.getOps<zero::PlanOp>().empty())
        plan = *program.getOps<zero::PlanOp>().begin();
    }
  if (!plan || plan.getGroups().empty())
    return module.emitError("has no programs of pipeline stages: run "
                            "--specialize-device-types first");
  ClusterView cluster = cluster::buildClusterView(module);
  FailureOr<PlanSimulation> simulation =
      StageSimulationBuilder(plan, cluster, model).build([&](StringRef name) {
        return programs.lookup(name);
      });
  if (succeeded(simulation))
    if (auto seconds = plan->getAttrOfType<FloatAttr>(zero::kPredictedAttr))
      simulation->predictedSeconds = seconds.getValueAsDouble();
  return simulation;
}
