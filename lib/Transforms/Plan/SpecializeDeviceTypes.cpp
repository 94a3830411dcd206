//===- SpecializeDeviceTypes.cpp - One program per device type ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Plan/Lanes.h"
#include "Poplar/Planner/Zero/ShardBounds.h"
#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "SliceParameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include <set>

namespace poplar {
#define GEN_PASS_DEF_SPECIALIZEDEVICETYPES
#include "Poplar/Transforms/Plan/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class SpecializeDeviceTypesPass
    : public poplar::impl::SpecializeDeviceTypesBase<
          SpecializeDeviceTypesPass> {
public:
  using Base::Base;
  void runOnOperation() override;
};

} // namespace

/// What all programs put parameters on the wire as.
static WireFormat getWire(ArrayRef<zero::ProgramInfo> programs) {
  NumberFormat format = programs.front().getWorkingFormat();
  for (const zero::ProgramInfo &program : programs)
    format = joinWireFormats(format, program.getWorkingFormat());
  return getExactWire(format);
}

/// What the plan says of slow links.
static void takeWires(zero::PlanOp plan, zero::ProgramInfo &info) {
  LossyWires wires = zero::getLossyWires(plan);
  if (wires.gradients)
    info.gradientWire = *wires.gradients;
  if (!wires.parameters)
    return;
  info.wire = *wires.parameters;
  info.hasLossyParameters = true;
}

/// What stages send each other activations as, and whether gradients carry a
/// loss scale: one for all, since it goes with the gradients through a
/// pipeline.
static void chooseMessages(MutableArrayRef<zero::ProgramInfo> programs) {
  std::vector<std::set<NumberFormat>> formats(programs.front().numGroups);
  if (formats.size() < 2)
    return;
  bool isScaled = llvm::any_of(
      programs, [](const zero::ProgramInfo &info) { return info.isScaled(); });
  for (const zero::ProgramInfo &info : programs)
    formats[info.group].insert(getStorageFormat(info.precision));
  for (zero::ProgramInfo &info : programs) {
    info.scaled = isScaled;
    auto getFormat = [&](size_t before, size_t behind) {
      NumberFormat format = getMessageFormat(formats[before], formats[behind]);
      return format == getStorageFormat(info.precision) ? std::nullopt
                                                        : std::optional(format);
    };
    size_t group = info.group, count = formats.size();
    // Where groups own several chunks, the last sends to the first.
    bool wraps = info.numChunks > 1;
    if (group > 0 || wraps)
      info.received = getFormat((group + count - 1) % count, group);
    if (group + 1 < count || wraps)
      info.sent = getFormat(group, (group + 1) % count);
  }
}

/// Says on every bucket which groups use it, and in which stage of ZeRO they
/// hold it.
static LogicalResult assignBuckets(ModuleOp module, zero::PlanOp plan) {
  SmallVector<zero::GroupOp, 0> groups = plan.getGroups();
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (!model || model.isExternal())
    return plan.emitOpError("has groups, but there is no @model to cut");
  FailureOr<ModelUnits> units = ModelUnits::get(model);
  if (failed(units))
    return failure();
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    SmallVector<int64_t> users;
    uint64_t lowest = 3;
    for (auto [index, group] : llvm::enumerate(groups)) {
      bool uses = false;
      for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>())
        for (int64_t unit : units->getReaders(name.getAttr()))
          uses |= zero::GroupOp(group).owns(unit);
      if (!uses)
        continue;
      users.push_back(index);
      lowest = std::min(lowest, zero::GroupOp(group).getStage());
    }
    bucket.setGroups(users);
    // Groups meet but once in an iteration.
    bucket.setStage(users.size() > 1 ? std::min<uint64_t>(lowest, 1) : lowest);
  }
  return success();
}

/// Shards the buckets over the ranks of the plan that hold them; where there
/// are replicas, over those of a shard group.
static LogicalResult shardBuckets(ModuleOp module, zero::PlanOp plan) {
  Plan read = zero::readPlan(plan);
  std::vector<Plan::Place> places = read.getPlaces();
  auto getShares = [&](auto holds) {
    std::vector<double> shares;
    for (int64_t rank = 0; rank < read.getShardGroupSize(); ++rank)
      shares.push_back(holds(rank) ? read.ranks[rank].state : 0);
    return shares;
  };
  auto isNothing = [](ArrayRef<double> shares) {
    return llvm::all_of(shares, [](double share) { return share == 0; });
  };
  if (isNothing(getShares([](int64_t) { return true; })))
    return plan.emitOpError("has no rank that holds any state");
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    std::vector<double> shares = getShares([&](int64_t rank) {
      return bucket.isUsedBy(read.ranks[rank].group, places[rank].position);
    });
    if (isNothing(shares))
      return plan.emitOpError("has no rank that holds any state of bucket @")
             << bucket.getSymName();
    std::vector<int64_t> bounds =
        shardByShares(zero::BucketLayout::get(bucket, symbols)->elements,
                      shares)
            .bounds;
    // Shards do not end inside of a block of moments.
    int64_t blockStates = zero::countBlockStates(bucket, symbols);
    for (int64_t &bound : bounds)
      if (bound < blockStates)
        bound = llvm::alignTo(bound, POPLAR_STATE_BLOCK);
    bucket.setBounds(bounds);
  }
  return success();
}

/// Ranks that share units exchange values, in the order of their ops.
static LogicalResult verifySharers(zero::PlanOp plan, SymbolTable &symbols) {
  SmallVector<zero::RankOp, 0> ranks = plan.getRanks();
  Plan pipelines = zero::readPlan(plan);
  for (auto [index, group] : llvm::enumerate(plan.getGroups())) {
    if (std::string reason = explainUnlikeDegrees(pipelines.groups[index]);
        !reason.empty())
      return group.emitOpError(reason);
    for (ArrayRef<int64_t> members : pipelines.getPipelinesOf(index)) {
      auto typeOf = [&](int64_t member) {
        return symbols.lookup<cluster::DeviceTypeOp>(
            ranks[member].getDeviceType());
      };
      cluster::DeviceTypeOp first = typeOf(members.front());
      for (int64_t member : members) {
        cluster::DeviceTypeOp type = typeOf(member);
        zero::RankOp rank = ranks[member];
        if (type.getPrecision() != first.getPrecision())
          return rank.emitOpError("shares units with a rank of another "
                                  "precision: values are exchanged in one");
        if (rank.getRecompute().value_or(type.getRecompute()) !=
            ranks[members.front()].getRecompute().value_or(
                first.getRecompute()))
          return rank.emitOpError(
              "shares units with a rank that recomputes otherwise: give them "
              "the same `recompute`");
      }
    }
  }
  return success();
}

/// The bandwidth of the slowest link between ranks of a group that share units:
/// those on a node.
static double getSharersBandwidth(zero::PlanOp plan, int64_t group) {
  auto module = plan->getParentOfType<ModuleOp>();
  ClusterView cluster = cluster::buildClusterView(module);
  std::optional<double> slowest;
  for (zero::RankOp rank : plan.getRanks()) {
    if (int64_t(rank.getGroup()) != group)
      continue;
    auto node = llvm::find_if(cluster.nodes, [&](const ClusterNode &other) {
      return rank.getNode() == other.name;
    });
    int index = int(node - cluster.nodes.begin());
    if (std::optional<LinkSpeed> link = cluster.findLink(index, index))
      slowest = std::min(slowest.value_or(link->bandwidth), link->bandwidth);
  }
  return slowest.value_or(0);
}

/// Lossy formats are narrower than what is sent without.
static LogicalResult verifyWires(zero::PlanOp plan, WireFormat exact) {
  LossyWires wires = zero::getLossyWires(plan);
  if (wires.parameters &&
      getElementBytes(*wires.parameters) >= getElementBytes(exact))
    return plan.emitOpError("sends parameters as ")
           << toString(*wires.parameters) << ", which is no narrower than the "
           << toString(exact)
           << " that all ranks compute in: leave out parameter_wire";
  return success();
}

//===----------------------------------------------------------------------===//
// Programs of a plan
//===----------------------------------------------------------------------===//

namespace {

/// A device type in a group, at a position among those that share units: its
/// ranks run one program.
using ProgramKey = std::tuple<Operation *, int64_t, int64_t>;

struct ProgramUse {
  Recomputation recompute;
  /// The first rank that runs the program.
  zero::RankOp rank;
};

/// In the order of the ranks.
using ProgramUses = llvm::MapVector<ProgramKey, ProgramUse>;

} // namespace

/// A rank of the whole model may recompute in its first layers alone.
static LogicalResult verifyLayers(zero::PlanOp plan, zero::RankOp rank,
                                  Recomputation recompute) {
  if (!recompute.isPartial())
    return success();
  if (!plan.getGroups().empty())
    return rank.emitOpError("is to do ")
           << toString(recompute)
           << ", but ranks of a group recompute in all layers of the group or "
              "in none: give it "
           << toString(recompute.policy);
  auto model = nn::findEntry<func::FuncOp>(plan->getParentOfType<ModuleOp>(),
                                           nn::Entry::Model);
  if (!model || model.isExternal())
    return success();
  std::string reason = explainTooManyLayers(
      recompute, static_cast<int64_t>(findLayers(model).size()));
  return reason.empty() ? success() : LogicalResult(rank.emitOpError(reason));
}

/// The programs that the ranks run; all ranks of one recompute the same.
static FailureOr<ProgramUses> collectPrograms(zero::PlanOp plan,
                                              SymbolTable &symbols) {
  ProgramUses programs;
  std::vector<Plan::Place> places = zero::readPlan(plan).getPlaces();
  for (auto [index, rank] : llvm::enumerate(plan.getRanks())) {
    auto type = symbols.lookup<cluster::DeviceTypeOp>(rank.getDeviceType());
    if (!type)
      return rank.emitOpError("is on a device of type @")
             << rank.getDeviceType() << ", which is not a cluster.device_type";
    if (!symbols.lookup<cluster::NodeOp>(rank.getNode()))
      return rank.emitOpError("is on node '")
             << rank.getNode() << "', which is not a cluster.node";
    ProgramKey key = {type, int64_t(rank.getGroup()), places[index].position};
    ProgramUse use = {rank.getRecompute().value_or(type.getRecompute()), rank};
    if (failed(verifyLayers(plan, rank, use.recompute)))
      return failure();
    auto [known, isNew] = programs.insert({key, use});
    if (!isNew && known->second.recompute != use.recompute) {
      InFlightDiagnostic diagnostic =
          rank.emitOpError("recomputes otherwise than another rank of its type "
                           "in the group, which runs the same program");
      diagnostic.attachNote(known->second.rank.getLoc()) << "the other rank";
      return diagnostic;
    }
  }
  return programs;
}

/// Gives every bucket its groups, its stage and its bounds.
static LogicalResult distributeBuckets(ModuleOp module, zero::PlanOp plan,
                                       SymbolTable &symbols) {
  for (auto bucket : module.getOps<zero::BucketOp>())
    if (bucket.getBounds() || bucket.getGroups() || bucket.getStage())
      return bucket.emitOpError("has bounds, groups or a stage of its own, "
                                "which follow from the plan: who holds how "
                                "much is the `state` of its ranks");
  SmallVector<zero::GroupOp, 0> groups = plan.getGroups();
  if (llvm::any_of(groups, [](zero::GroupOp group) {
        return group.getLargestTensorDegree() > 1;
      })) {
    if (failed(verifySharers(plan, symbols)) ||
        failed(sliceParameters(module, plan)))
      return failure();
  } else if (groups.size() > 1 && failed(assignBuckets(module, plan))) {
    return failure();
  }
  return shardBuckets(module, plan);
}

static zero::ProgramInfo describeProgram(zero::PlanOp op, const Plan &plan,
                                         ProgramKey key,
                                         const ProgramUses &programs) {
  auto [device, group, position] = key;
  auto type = cast<cluster::DeviceTypeOp>(device);
  zero::ProgramInfo info;
  info.deviceType = type.getSymName().str();
  info.target = type.getTarget().str();
  info.precision = type.getPrecision();
  info.recompute = programs.find(key)->second.recompute;
  info.mixedRecompute =
      llvm::any_of(programs, [&, group = group](const auto &other) {
        return std::get<1>(other.first) == group &&
               other.second.recompute != info.recompute;
      });
  info.stage = plan.groups[group].zeroStage;
  info.worldSize = int64_t(plan.ranks.size());
  info.replicas = plan.replicas;
  info.group = group;
  info.numGroups = int64_t(plan.groups.size());
  info.numChunks = plan.getNumChunks();
  info.parts = llvm::to_vector(plan.groups[group].getPartsOfRanks());
  info.position = position;
  if (info.sharesUnits())
    info.sharersBandwidth = getSharersBandwidth(op, group);
  return info;
}

/// Moves the model, its buckets and the plan into a module for each program.
static void cloneIntoPrograms(ModuleOp module, const ProgramUses &programs,
                              ArrayRef<zero::ProgramInfo> infos) {
  SmallVector<Operation *> shared;
  for (Operation &op : *module.getBody())
    if (isa<nn::ParameterOp, func::FuncOp, zero::BucketOp, zero::PlanOp>(op))
      shared.push_back(&op);
  Attribute model = module->getAttr(nn::kModelAttr);
  for (const auto &[program, info] : llvm::zip_equal(programs, infos)) {
    Location loc = std::get<0>(program.first)->getLoc();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto nested =
        ModuleOp::create(builder, loc, info.getProgramName() + ".program");
    if (model)
      nested->setAttr(nn::kModelAttr, model);
    builder.setInsertionPointToStart(nested.getBody());
    info.create(builder, loc);
    for (Operation *op : shared)
      builder.clone(*op);
  }
  for (Operation *op : shared)
    op->erase();
  module->removeAttr(nn::kModelAttr);
}

void SpecializeDeviceTypesPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto plans = module.getOps<zero::PlanOp>();
  if (!llvm::hasSingleElement(plans)) {
    module.emitError("expected exactly one zero.plan");
    return signalPassFailure();
  }
  zero::PlanOp plan = *plans.begin();
  SymbolTable symbols(module);
  FailureOr<ProgramUses> programs = collectPrograms(plan, symbols);
  if (failed(programs) || failed(distributeBuckets(module, plan, symbols)))
    return signalPassFailure();

  SmallVector<zero::ProgramInfo, 0> infos;
  Plan read = zero::readPlan(plan);
  for (const auto &program : *programs)
    infos.push_back(describeProgram(plan, read, program.first, *programs));
  WireFormat wire = getWire(infos);
  if (failed(verifyWires(plan, wire)))
    return signalPassFailure();
  chooseMessages(infos);
  for (zero::ProgramInfo &info : infos) {
    info.wire = wire;
    takeWires(plan, info);
  }
  cloneIntoPrograms(module, *programs, infos);
}
