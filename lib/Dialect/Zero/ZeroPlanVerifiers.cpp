//===- ZeroPlanVerifiers.cpp - Verifiers of plans, groups and ranks -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Support/Names.h"
#include "ZeroVerifiers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

/// An error at `op`, with a note at another that is not in keeping with it.
static LogicalResult reportBoth(Operation *op, Operation *other,
                                const Twine &message, StringRef note) {
  InFlightDiagnostic diagnostic = op->emitOpError(message);
  diagnostic.attachNote(other->getLoc()) << note;
  return diagnostic;
}

LogicalResult zero::verifyAttributes(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs()) {
    StringRef name = attribute.getName();
    if (!name.contains('.'))
      return op->emitOpError("has the unknown attribute ") << showName(name);
  }
  return success();
}

static bool isSeconds(Attribute attribute) {
  auto value = dyn_cast_or_null<FloatAttr>(attribute);
  return value && value.getType().isF64() &&
         std::isfinite(value.getValueAsDouble()) &&
         value.getValueAsDouble() >= 0;
}

/// What planning has found out about a plan.
static LogicalResult verifyPrediction(PlanOp plan) {
  if (failed(verifyAttributes(plan)))
    return failure();
  const std::pair<StringRef, FloatAttr> figures[] = {
      {"predicted_seconds", plan.getPredictedSecondsAttr()},
      {"lower_bound_seconds", plan.getLowerBoundSecondsAttr()},
      {"predicted_uncertainty", plan.getPredictedUncertaintyAttr()},
      {"simulated_seconds", plan.getSimulatedSecondsAttr()}};
  for (auto [name, value] : figures)
    if (value && !isSeconds(value))
      return plan.emitOpError() << name << " is " << value
                                << ", expected a finite f64, not negative";
  auto list = [](ArrayAttr dictionaries) {
    return dictionaries
               ? llvm::to_vector(dictionaries.getAsRange<DictionaryAttr>())
               : SmallVector<DictionaryAttr>();
  };
  for (DictionaryAttr priced : list(plan.getPricedPlansAttr()))
    if (!priced.getAs<StringAttr>("devices") ||
        !priced.getAs<StringAttr>("policy") ||
        !isSeconds(priced.get("simulated_seconds")) ||
        !isSeconds(priced.get("cost")))
      return plan.emitOpError("priced_plans holds ")
             << priced
             << ", expected devices, policy, simulated_seconds and cost";
  for (DictionaryAttr candidate : list(plan.getSimulatedPlansAttr()))
    if (!candidate.getAs<StringAttr>("plan") ||
        !isSeconds(candidate.get("predicted_seconds")) ||
        !isSeconds(candidate.get("simulated_seconds")))
      return plan.emitOpError("simulated_plans holds ")
             << candidate
             << ", expected plan, predicted_seconds and simulated_seconds";
  return success();
}

/// What collectives may carry where links are slow.
static LogicalResult verifyWires(PlanOp plan) {
  std::pair<StringRef, std::optional<Type>> wires[] = {
      {"gradient_wire", plan.getGradientWire()},
      {"parameter_wire", plan.getParameterWire()}};
  for (auto [name, wire] : wires) {
    if (!wire)
      continue;
    if (!wire->isBF16() && !wire->isSignlessInteger(8))
      return plan.emitOpError()
             << name << " is " << *wire << ", expected bf16 or i8";
  }
  if (plan.getParameterWire() && plan.getStage() == 0)
    return plan.emitOpError("has a parameter_wire, but in stage 0 parameters "
                            "are not sent");
  return success();
}

/// Shard groups hold equal shards of a state that is sharded.
static LogicalResult verifyReplicas(PlanOp plan,
                                    MutableArrayRef<RankOp> ranks) {
  auto replicas = int64_t(plan.getReplicas());
  if (replicas == 1)
    return success();
  if (!plan.getGroups().empty())
    return plan.emitOpError("has replicas, which plans of ZeRO alone have, but "
                            "also zero.group: leave out one of them");
  if (plan.getStage() == 0)
    return plan.emitOpError("has replicas, but in stage 0 nothing is sharded: "
                            "leave them out");
  if (plan.getGradientWire() || plan.getParameterWire())
    return plan.emitOpError(
        "has replicas and rounds what crosses between "
        "nodes, which are not generated together: leave "
        "out gradient_wire and parameter_wire, or replicas");
  auto count = int64_t(ranks.size()), size = count / replicas;
  if (count % replicas != 0 || size < 2)
    return plan.emitOpError("has ")
           << count << " ranks for " << replicas
           << " replicas: shard groups have equally many, two or more";
  for (int64_t rank = size; rank < count; ++rank)
    if (ranks[rank].getState() != ranks[rank % size].getState())
      return reportBoth(ranks[rank], ranks[rank % size],
                        "holds another share of the state than the rank in its "
                        "place of the first shard group",
                        "the other rank");
  return success();
}

/// Groups own units in the order of the virtual stages: one after the other,
/// chunk by chunk.
static LogicalResult verifyUnits(PlanOp plan, MutableArrayRef<GroupOp> groups) {
  int64_t chunks = groups.front().getNumChunks();
  for (GroupOp group : groups)
    if (group.getNumChunks() != chunks)
      return reportBoth(group, groups.front(),
                        "owns " + Twine(group.getNumChunks()) +
                            " ranges of units, but the first group owns " +
                            Twine(chunks) +
                            ": micro-batches go through all groups as often",
                        "the first group");
  std::optional<PlanSchedule> written = plan.getSchedule();
  std::optional<PipelineSchedule> schedule =
      written ? getPipelineSchedule(*written) : std::nullopt;
  if (chunks > 1 && schedule && !takesChunks(*schedule))
    return groups.front().emitOpError("owns ")
           << chunks << " ranges of units, but in schedule '"
           << toString(*schedule)
           << "' groups have one: give each one, or take interleaved or custom";
  int64_t next = 0;
  GroupOp before = groups.front();
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (GroupOp group : groups) {
      if (group.getFirst(chunk) < next)
        return reportBoth(group, before,
                          "owns unit " + Twine(group.getFirst(chunk)) +
                              ", which another group owns",
                          "the other group");
      if (group.getFirst(chunk) > next)
        return reportBoth(group, before,
                          "leaves unit " + Twine(next) + " to no group",
                          "the group before");
      next = group.getEnd(chunk);
      before = group;
    }
  return success();
}

/// Whether a rank has turns of its own where it should.
static LogicalResult verifyTurns(RankOp rank, bool isCustom, int64_t chunks) {
  if (rank.getTurns().has_value() != isCustom)
    return rank.emitOpError(
        isCustom ? "has no turns, which ranks of a custom schedule have"
                 : "has turns of its own, which only ranks of a custom "
                   "schedule have");
  ArrayRef<int64_t> turns = rank.getTurns().value_or(ArrayRef<int64_t>());
  if (llvm::is_contained(turns, 0))
    return rank.emitOpError("has turn 0: i + 1 is the forward pass of "
                            "micro-batch i, -i - 1 its backward pass");
  if (!rank.getChunks()) {
    if (isCustom && chunks > 1)
      return rank.emitOpError("does not say through which of the ")
             << chunks << " chunks its turns go: add `chunks`, one for each";
    return success();
  }
  if (rank.getChunks()->size() != turns.size())
    return rank.emitOpError("has chunks for ")
           << rank.getChunks()->size() << " turns, but " << turns.size()
           << " turns";
  return success();
}

/// Whether a group's ranks can be parted into pipelines.
static LogicalResult verifyDegrees(GroupOp group, int64_t ranks) {
  ArrayRef<int64_t> degrees = group.getTensor();
  if (degrees.size() == 1 && ranks % degrees[0] != 0)
    return group.emitOpError("has ")
           << ranks << " ranks, which is not a multiple of the " << degrees[0]
           << " that share units";
  int64_t sum = std::accumulate(degrees.begin(), degrees.end(), int64_t(0));
  if (degrees.size() > 1 && ranks != sum)
    return group.emitOpError("has ")
           << ranks << " ranks, but its pipelines take " << sum;
  return success();
}

/// Ranks that share units do the same, and lie next to each other.
static LogicalResult verifySharing(RankOp rank, RankOp first) {
  std::string difference;
  if (rank.getNode() != first.getNode())
    difference = ("on node '" + first.getNode() + "', but is on node '" +
                  rank.getNode() + "': units are shared inside a node")
                     .str();
  else if (rank.getRecomputeAttr() != first.getRecomputeAttr())
    difference = "that recomputes otherwise: they share the same passes";
  else if (rank.getTurns() != first.getTurns() ||
           rank.getChunks() != first.getChunks())
    difference = "that takes other turns: they share the same passes";
  else
    return success();
  return reportBoth(rank, first, "shares units with a rank " + difference,
                    "the rank it shares units with");
}

/// Every pipeline goes through all groups.
static LogicalResult verifyPipelines(PlanOp op, MutableArrayRef<GroupOp> groups,
                                     MutableArrayRef<RankOp> ranks) {
  Plan plan = readPlan(op);
  std::vector<int64_t> counts(groups.size());
  for (RankOp rank : ranks)
    ++counts[rank.getGroup()];
  std::vector<std::vector<int64_t>> first;
  for (auto [index, group] : llvm::enumerate(groups)) {
    if (failed(verifyDegrees(group, counts[index])))
      return failure();
    auto pipelines = plan.getPipelinesOf(index);
    if (index == 0)
      first = pipelines;
    if (pipelines.size() != first.size() || pipelines.empty())
      return reportBoth(group, groups.front(),
                        "has ranks for " + Twine(pipelines.size()) +
                            " pipelines, but the first group for " +
                            Twine(first.size()) +
                            ": a pipeline goes through all groups",
                        "the first group");
    for (auto [members, begin] : llvm::zip_equal(pipelines, first))
      for (int64_t member : members) {
        RankOp rank = ranks[member], peer = ranks[begin.front()];
        if (peer.getMicroBatch() != rank.getMicroBatch() ||
            peer.getSteps() != rank.getSteps() ||
            peer.getLast() != rank.getLast())
          return reportBoth(rank, peer,
                            "has other micro-batches than the first rank of "
                            "its pipeline",
                            "the first rank");
        if (failed(verifySharing(rank, ranks[members.front()])))
          return failure();
      }
  }
  return success();
}

/// Groups own all units, and all pipelines go through them.
static LogicalResult verifyGroups(PlanOp plan, MutableArrayRef<GroupOp> groups,
                                  MutableArrayRef<RankOp> ranks) {
  if (groups.size() == 1 && groups.front().getLargestTensorDegree() == 1)
    return groups.front().emitOpError(
        "is the only one, and its ranks share no units: a plan of one group "
        "has no zero.group");
  if (groups.size() == 1 && plan.getSchedule())
    return plan.emitOpError("has a schedule, but no pipeline to follow it: "
                            "there is one group");
  StringRef schedule;
  if (StringAttr attr = plan.getScheduleAttr())
    schedule = attr.getValue();
  if (groups.size() > 1 && !parseWord<PlanSchedule>(schedule))
    return plan.emitOpError("has groups, but its schedule is '")
           << schedule << "', expected gpipe, 1f1b, interleaved or custom";
  if (failed(verifyUnits(plan, groups)))
    return failure();
  uint64_t highest = 0;
  for (GroupOp group : groups)
    highest = std::max(highest, group.getStage());
  if (highest != plan.getStage())
    return plan.emitOpError("is of stage ")
           << plan.getStage() << ", but the highest of its groups is "
           << highest;
  for (RankOp rank : ranks) {
    if (rank.getGroup() >= groups.size())
      return rank.emitOpError("is of group ")
             << rank.getGroup() << ", but there are " << groups.size();
    if (failed(verifyTurns(rank, plan.getSchedule() == PlanSchedule::Custom,
                           groups.front().getNumChunks())))
      return failure();
  }
  return verifyPipelines(plan, groups, ranks);
}

LogicalResult PlanOp::verifyRegions() {
  if (failed(verifyPrediction(*this)) || failed(verifyWires(*this)))
    return failure();
  SmallVector<RankOp, 0> ranks = getRanks();
  SmallVector<GroupOp, 0> groups = getGroups();
  if (ranks.size() + groups.size() != getBody().front().getOperations().size())
    return emitOpError("holds an op other than zero.rank and zero.group");
  if (ranks.empty())
    return emitOpError("has no ranks");
  if (groups.empty() && getScheduleAttr())
    return emitOpError("has a schedule, but no groups to follow it");
  for (RankOp rank : ranks)
    if (groups.empty() && (rank.getGroup() != 0 || rank.getTurns()))
      return rank.emitOpError("is of a group, but the plan has none");
  if (!groups.empty() && failed(verifyGroups(*this, groups, ranks)))
    return failure();
  if (failed(verifyReplicas(*this, ranks)))
    return failure();
  for (RankOp rank : ranks)
    if (rank.getSteps() > getGlobalBatch())
      return rank.emitOpError("has ")
             << rank.getSteps() << " micro-steps, but the global batch has "
             << getGlobalBatch() << " samples";
  // Verified after every pass, so without readPlan(), which copies all ranks.
  // The ranks of a pipeline in the first group count once.
  int64_t samples = 0, pipelines = 0, sharers = 0;
  for (RankOp rank : ranks) {
    if (rank.getGroup() != 0)
      continue;
    if (sharers == 0) {
      samples += rank.getSamples();
      sharers =
          groups.empty() ? 1 : groups.front().getTensorDegree(pipelines++);
    }
    --sharers;
  }
  if (samples != int64_t(getGlobalBatch()))
    return emitOpError("gives its ranks ")
           << samples << " samples in all, not the global batch of "
           << getGlobalBatch();
  if (getStage() < 2)
    return success();
  for (RankOp rank : ranks)
    if (rank.getSteps() != ranks.front().getSteps()) {
      InFlightDiagnostic diagnostic =
          rank.emitOpError("has ")
          << rank.getSteps() << " micro-steps, but another rank has "
          << ranks.front().getSteps() << ": in stage " << getStage()
          << " ranks meet in every micro-step; give it as many, of fewer "
             "samples "
             "or none, or use stage 1";
      diagnostic.attachNote(ranks.front().getLoc()) << "the other rank";
      return diagnostic;
    }
  return success();
}

/// What a program says of its plan is so.
static LogicalResult verifyProgram(ProgramOp program, PlanOp op) {
  SmallVector<GroupOp, 0> groups = op.getGroups();
  for (auto [what, said, known] :
       {std::tuple("ranks", program.getWorldSize(), op.getRanks().size()),
        {"replicas", program.getReplicas(), size_t(op.getReplicas())},
        {"groups", program.getGroups(), std::max<size_t>(1, groups.size())},
        {"chunks", program.getChunks(),
         groups.empty() ? 1 : size_t(groups.front().getNumChunks())}})
    if (said != known)
      return reportBoth(program, op,
                        "is of a plan of " + std::to_string(said) + " " + what +
                            ", but its plan has " + std::to_string(known),
                        "the plan");
  return success();
}

/// Every rank is a device of its own of the cluster beside the plan. A program
/// of a plan has no cluster beside it any more.
LogicalResult PlanOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *module = SymbolTable::getNearestSymbolTable(*this);
  if (auto programs = module->getRegion(0).getOps<ProgramOp>();
      !programs.empty() && failed(verifyProgram(*programs.begin(), *this)))
    return failure();
  if (module->getRegion(0).getOps<cluster::NodeOp>().empty())
    return success();
  llvm::MapVector<std::pair<StringRef, StringRef>, int64_t> taken;
  for (RankOp rank : getRanks()) {
    Operation *node = symbols.lookupSymbolIn(module, rank.getNodeAttr());
    if (!isa_and_present<cluster::NodeOp>(node))
      return rank.emitOpError("is on node '")
             << rank.getNode() << "', which is not a cluster.node";
    Operation *type = symbols.lookupSymbolIn(module, rank.getDeviceTypeAttr());
    if (!isa_and_present<cluster::DeviceTypeOp>(type))
      return rank.emitOpError("is on a device of type @")
             << rank.getDeviceType() << ", which is not a cluster.device_type";
    auto devices = cast<cluster::NodeOp>(node).getDevices();
    int64_t count = llvm::count(devices, rank.getDeviceTypeAttr());
    if (++taken[{rank.getNode(), rank.getDeviceType()}] <= count)
      continue;
    InFlightDiagnostic diagnostic =
        rank.emitOpError("is on a device of type @")
        << rank.getDeviceType() << " of node '" << rank.getNode()
        << "', which has " << count << " of them: too few for the plan";
    diagnostic.attachNote(node->getLoc()) << "the node";
    return diagnostic;
  }
  return success();
}

LogicalResult GroupOp::verify() {
  if (failed(verifyAttributes(*this)))
    return failure();
  ArrayRef<int64_t> units = getUnits();
  bool rises = !units.empty() && units[0] >= 0;
  for (size_t i = 1; i < units.size(); ++i)
    rises &= units[i - 1] < units[i];
  if (units.size() % 2 != 0 || !rises)
    return emitOpError("owns units [")
           << units << "], expected the first and the end of a range, or of "
           << "several ranges one after the other";
  // So that 64 bits hold their sum.
  constexpr int64_t limit = int64_t(1) << 31;
  auto isDegree = [](int64_t it) { return it >= 1 && it <= limit; };
  if (getTensor().empty() || !llvm::all_of(getTensor(), isDegree))
    return emitOpError("shares units among [")
           << getTensor()
           << "] devices, expected 1 or more, of all pipelines or of each";
  std::optional<ArrayRef<int64_t>> parts = getParts();
  if (!parts)
    return success();
  bool isShared = llvm::is_contained(getTensor(), int64_t(parts->size()));
  if (!isShared || llvm::any_of(getTensor(), [&](int64_t degree) {
        return degree != 1 && degree != int64_t(parts->size());
      }))
    return emitOpError("has ") << parts->size() << " parts for units that ["
                               << getTensor() << "] devices share";
  for (int64_t part : *parts)
    if (part < 1 || part > 1000000)
      return emitOpError("has a part ")
             << part << ", expected a number from 1 to 1000000";
  return success();
}

LogicalResult zero::verifyRecompute(Operation *op, StringAttr policy) {
  if (!policy || parseRecomputation(policy.getValue()))
    return success();
  return op->emitOpError("has the recompute policy ")
         << showName(policy.getValue()) << ", expected "
         << describeRecomputations();
}

LogicalResult RankOp::verify() {
  for (StringRef name : {getNode(), getDeviceType()})
    if (!isName(name))
      return emitOpError("names ")
             << showName(name) << ": " << describeNameRule();
  if (failed(verifyAttributes(*this)))
    return failure();
  constexpr uint64_t maxThreads = 4096;
  if (getThreads() > maxThreads)
    return emitOpError("has ")
           << getThreads() << " threads, expected 1 to " << maxThreads;
  if (failed(verifyRecompute(*this, getRecomputeAttr())))
    return failure();
  // So that 64 bits hold the samples of all ranks.
  constexpr int64_t limit = int64_t(1) << 31;
  int64_t samples;
  if (llvm::MulOverflow<int64_t>(getSteps() - 1, getMicroBatch(), samples) ||
      llvm::AddOverflow<int64_t>(samples, getLast(), samples) ||
      samples > limit || int64_t(getMicroBatch()) > limit)
    return emitOpError("takes more than 2^31 samples");
  double share = getState().convertToDouble();
  if (!std::isfinite(share) || share < 0)
    return emitOpError("has ")
           << share
           << " as its share of the state, expected a finite number, not "
              "negative";
  return success();
}
