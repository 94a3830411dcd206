//===- PlanFacts.cpp - What the planner has to know of a module -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <set>

using namespace mlir;
using namespace poplar;

namespace {

/// Follows a step of stages 2 and 3 through @model, as --zero-materialize does.
class TrafficCounter {
public:
  TrafficCounter(ModuleOp module, ModelFacts &model);
  void run(func::FuncOp function);

private:
  /// A bucket that an op uses, and whether its backward pass reads it.
  struct Use {
    zero::BucketOp bucket;
    bool isReadBackward;
  };
  SmallVector<Use> getUses(Operation &op);
  /// Counts buckets in use one after the other, those that were not in use
  /// before.
  void count(ArrayRef<zero::BucketOp> now, SmallVector<zero::BucketOp> &live,
             ModelFacts::Traffic &traffic);

  ModelFacts &model;
  SymbolTableCollection symbols;
  DenseMap<Attribute, zero::BucketOp> bucketOf;
  DenseMap<zero::BucketOp, int64_t> elements;
};

} // namespace

TrafficCounter::TrafficCounter(ModuleOp module, ModelFacts &model)
    : model(model) {
  ModelFacts::Trained trained;
  bool someAreFrozen = false;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    int64_t size = zero::BucketLayout::get(bucket, symbols)->elements;
    elements[bucket] = size;
    for (Attribute parameter : bucket.getParameters())
      bucketOf[parameter] = bucket;
    someAreFrozen |= bucket.getFrozen();
    ++model.buckets;
    model.parameters.getBlockStates(zero::getStateBits(module)) +=
        zero::countBlockStates(bucket, symbols);
    if (bucket.getQuantized()) {
      model.parameters.quantizedBytes += size;
      model.largestQuantizedBucket =
          std::max(model.largestQuantizedBucket, size);
      continue;
    }
    if (model.firstBucket == 0)
      model.firstBucket = size;
    model.lastBucket = size;
    model.largestBucket = std::max(model.largestBucket, size);
    if (bucket.getFrozen())
      continue;
    if (trained.buckets++ == 0)
      trained.firstBucket = size;
    trained.lastBucket = size;
    trained.largestBucket = std::max(trained.largestBucket, size);
  }
  if (someAreFrozen)
    model.someTrained = trained;
}

static bool isReadBackward(OpOperand &use) {
  auto op = dyn_cast<nn::DifferentiableOpInterface>(use.getOwner());
  return !op || op.isReadInReverse(use);
}

SmallVector<TrafficCounter::Use> TrafficCounter::getUses(Operation &op) {
  SmallVector<Use> uses;
  for (OpOperand &operand : op.getOpOperands()) {
    auto get = operand.get().getDefiningOp<nn::GetParameterOp>();
    zero::BucketOp bucket =
        get ? bucketOf.lookup(get.getParameterAttr()) : nullptr;
    if (!bucket)
      continue;
    bool isRead = isReadBackward(operand);
    if (auto call = dyn_cast<func::CallOp>(op))
      if (auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
              call, call.getCalleeAttr());
          callee && !callee.isExternal())
        isRead = llvm::any_of(
            callee.getArgument(operand.getOperandNumber()).getUses(),
            isReadBackward);
    auto *known = llvm::find_if(
        uses, [&](const Use &use) { return use.bucket == bucket; });
    if (known == uses.end())
      uses.push_back({bucket, isRead});
    else
      known->isReadBackward |= isRead;
  }
  return uses;
}

void TrafficCounter::count(ArrayRef<zero::BucketOp> now,
                           SmallVector<zero::BucketOp> &live,
                           ModelFacts::Traffic &traffic) {
  if (now.empty())
    return;
  for (zero::BucketOp bucket : now)
    if (!llvm::is_contained(live, bucket)) {
      ++traffic.buckets;
      (bucket.getQuantized() ? traffic.quantizedBytes : traffic.elements) +=
          elements[bucket];
    }
  live.assign(now.begin(), now.end());
}

void TrafficCounter::run(func::FuncOp function) {
  SmallVector<SmallVector<Use>> steps;
  SmallVector<zero::BucketOp> gathered, reduced;
  for (Operation &op : function.front()) {
    steps.push_back(getUses(op));
    SmallVector<zero::BucketOp> now;
    for (const Use &use : steps.back())
      now.push_back(use.bucket);
    count(now, gathered, model.gatheredForward);
  }
  for (const SmallVector<Use> &uses : llvm::reverse(steps)) {
    SmallVector<zero::BucketOp> read, all;
    for (const Use &use : uses) {
      if (!zero::BucketOp(use.bucket).getFrozen())
        all.push_back(use.bucket);
      if (use.isReadBackward)
        read.push_back(use.bucket);
    }
    count(read, gathered, model.gatheredBackward);
    count(all, reduced, model.reduced);
  }
}

ModelFacts zero::getModelFacts(ModuleOp module) {
  ModelFacts model;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    (nn::isQuantized(type)   ? model.quantizedElements
     : parameter.getFrozen() ? model.parameters.frozen
                             : model.parameters.trained) +=
        type.getNumElements();
  }
  model.fingerprint = nn::getFingerprint(module);
  TrafficCounter counter(module, model);
  auto function = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (model.buckets > 0 && function && !function.isExternal())
    counter.run(function);
  else // of which nothing is known but the sizes
    model.gatheredForward = model.gatheredBackward =
        model.reduced = {model.buckets, model.parameters.countPlain(),
                         model.parameters.quantizedBytes};
  return model;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Dictionaries of simulated_plans and priced_plans, see zero.plan.
static constexpr StringLiteral kDescription = "plan",
                               kPredicted = "predicted_seconds",
                               kSimulated = "simulated_seconds",
                               kDevices = "devices", kPolicy = "policy",
                               kCost = "cost";

static ArrayAttr toAttr(Builder &builder,
                        const std::vector<Plan::Candidate> &candidates) {
  SmallVector<Attribute> attributes;
  for (const Plan::Candidate &candidate : candidates)
    attributes.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(kDescription,
                              builder.getStringAttr(candidate.description)),
         builder.getNamedAttr(kPredicted,
                              builder.getF64FloatAttr(candidate.predicted)),
         builder.getNamedAttr(kSimulated,
                              builder.getF64FloatAttr(candidate.simulated))}));
  return candidates.empty() ? ArrayAttr() : builder.getArrayAttr(attributes);
}

static ArrayAttr toAttr(Builder &builder,
                        const std::vector<Plan::Priced> &frontier) {
  SmallVector<Attribute> attributes;
  for (const Plan::Priced &plan : frontier)
    attributes.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(kDevices, builder.getStringAttr(plan.devices)),
         builder.getNamedAttr(kPolicy, builder.getStringAttr(plan.policy)),
         builder.getNamedAttr(kSimulated,
                              builder.getF64FloatAttr(plan.seconds)),
         builder.getNamedAttr(kCost, builder.getF64FloatAttr(plan.cost))}));
  return frontier.empty() ? ArrayAttr() : builder.getArrayAttr(attributes);
}

void zero::setFrontier(PlanOp op, const std::vector<Plan::Priced> &frontier) {
  Builder builder(op.getContext());
  op.setPricedPlansAttr(toAttr(builder, frontier));
}

zero::PlanOp zero::addPlan(ModuleOp module, const Plan &plan) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto list = [&](const std::vector<int64_t> &values) {
    return values.empty() ? DenseI64ArrayAttr()
                          : builder.getDenseI64ArrayAttr(values);
  };
  auto wire = [&](std::optional<WireFormat> format) {
    return format ? TypeAttr::get(getWireType(module.getContext(), *format))
                  : TypeAttr();
  };
  auto seconds = [&](std::optional<double> value) {
    return value ? builder.getF64FloatAttr(*value) : FloatAttr();
  };
  auto op = PlanOp::create(
      builder, loc, uint64_t(plan.getStage()), uint64_t(plan.globalBatch),
      plan.policy,
      plan.schedule ? builder.getStringAttr(toString(*plan.schedule))
                    : StringAttr(),
      uint64_t(plan.replicas), wire(plan.wires.gradients),
      wire(plan.wires.parameters), seconds(plan.predicted),
      seconds(plan.lowerBound), seconds(plan.uncertainty),
      seconds(plan.simulated), toAttr(builder, plan.candidates),
      toAttr(builder, plan.frontier));
  builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
  for (const Plan::Group &group : plan.groups)
    if (!group.isWhole())
      GroupOp::create(builder, loc, group.units, uint64_t(group.zeroStage),
                      group.tensorDegrees, list(group.parts));
  for (const Plan::Rank &rank : plan.ranks)
    RankOp::create(
        builder, loc, SymbolRefAttr::get(module.getContext(), rank.type),
        builder.getStringAttr(rank.node),
        builder.getI64IntegerAttr(rank.share.microBatch),
        builder.getI64IntegerAttr(rank.share.steps),
        builder.getI64IntegerAttr(rank.share.last),
        builder.getI64IntegerAttr(rank.threads),
        builder.getF64FloatAttr(rank.state),
        builder.getI64IntegerAttr(rank.group), list(rank.turns),
        list(rank.chunks),
        rank.recompute ? builder.getStringAttr(toString(*rank.recompute))
                       : StringAttr());
  return op;
}

static void readSeconds(zero::PlanOp op, Plan &plan) {
  auto toSeconds = [](std::optional<APFloat> value) -> std::optional<double> {
    if (!value)
      return std::nullopt;
    return value->convertToDouble();
  };
  plan.predicted = toSeconds(op.getPredictedSeconds());
  plan.lowerBound = toSeconds(op.getLowerBoundSeconds());
  plan.uncertainty = toSeconds(op.getPredictedUncertainty());
  plan.simulated = toSeconds(op.getSimulatedSeconds());
  if (ArrayAttr candidates = op.getSimulatedPlansAttr())
    for (auto candidate : candidates.getAsRange<DictionaryAttr>())
      plan.candidates.push_back(
          {candidate.getAs<StringAttr>(kDescription).str(),
           candidate.getAs<FloatAttr>(kPredicted).getValueAsDouble(),
           candidate.getAs<FloatAttr>(kSimulated).getValueAsDouble()});
}

static void readFrontier(zero::PlanOp op, Plan &plan) {
  if (ArrayAttr frontier = op.getPricedPlansAttr())
    for (auto priced : frontier.getAsRange<DictionaryAttr>())
      plan.frontier.push_back(
          {priced.getAs<StringAttr>(kDevices).str(),
           priced.getAs<StringAttr>(kPolicy).str(),
           priced.getAs<FloatAttr>(kSimulated).getValueAsDouble(),
           priced.getAs<FloatAttr>(kCost).getValueAsDouble()});
}

LossyWires zero::getLossyWires(PlanOp op) {
  auto getFormat = [](std::optional<Type> wire) -> std::optional<WireFormat> {
    if (!wire)
      return std::nullopt;
    return wire->isBF16() ? WireFormat::BF16 : WireFormat::I8;
  };
  return {getFormat(op.getGradientWire()), getFormat(op.getParameterWire())};
}

Plan zero::readPlan(PlanOp op) {
  Plan plan;
  plan.policy = op.getPolicy().str();
  plan.groups.front().zeroStage = static_cast<int64_t>(op.getStage());
  plan.globalBatch = static_cast<int64_t>(op.getGlobalBatch());
  plan.schedule = op.getSchedule();
  plan.wires = getLossyWires(op);
  plan.replicas = static_cast<int64_t>(op.getReplicas());
  if (SmallVector<GroupOp, 0> groups = op.getGroups(); !groups.empty())
    plan.groups.clear();
  for (GroupOp group : op.getGroups())
    plan.groups.push_back(
        {group.getUnits().vec(), static_cast<int64_t>(group.getStage()),
         group.getTensor().vec(),
         group.getParts().value_or(ArrayRef<int64_t>()).vec()});
  for (RankOp rank : op.getRanks()) {
    plan.ranks.push_back(
        {rank.getDeviceType().str(),
         rank.getNode().str(),
         {static_cast<int64_t>(rank.getMicroBatch()),
          static_cast<int64_t>(rank.getSteps()),
          static_cast<int64_t>(rank.getLast())},
         static_cast<int64_t>(rank.getThreads()),
         rank.getState().convertToDouble(),
         static_cast<int64_t>(rank.getGroup()),
         rank.getRecompute(),
         rank.getTurns().value_or(ArrayRef<int64_t>()).vec(),
         rank.getChunks().value_or(ArrayRef<int64_t>()).vec()});
  }
  readSeconds(op, plan);
  readFrontier(op, plan);
  return plan;
}

//===----------------------------------------------------------------------===//
// Ranks and their programs
//===----------------------------------------------------------------------===//

std::string zero::getProgramName(const Plan &plan, int64_t rank,
                                 int64_t position) {
  ProgramInfo info;
  info.deviceType = plan.ranks[rank].type;
  info.group = plan.ranks[rank].group;
  info.numGroups = int64_t(plan.groups.size());
  info.parts = llvm::to_vector<0>(plan.groups[info.group].getPartsOfRanks());
  info.position = position;
  return info.getProgramName();
}

std::vector<std::string> zero::getProgramNames(const Plan &plan) {
  std::vector<std::string> names;
  for (auto [rank, place] : llvm::enumerate(plan.getPlaces()))
    names.push_back(getProgramName(plan, int64_t(rank), place.position));
  return names;
}

std::vector<int64_t> zero::findHolders(const Plan &plan, BucketOp bucket) {
  std::vector<int64_t> holders;
  for (auto [index, rank, place] :
       llvm::enumerate(plan.ranks, plan.getPlaces()))
    if (bucket.isUsedBy(rank.group, place.position))
      holders.push_back(int64_t(index));
  return holders;
}

int64_t zero::countResidual(const Plan &plan, const ProgramInfo &info,
                            BucketOp bucket, int64_t rank) {
  if (info.gradientWire == WireFormat::F32 || info.worldSize == 1 ||
      bucket.getFrozen())
    return 0;
  // As Topology and ReduceScatter of the runtime do it, which checks the
  // number: among the ranks that hold the bucket, and reduce it.
  std::vector<int64_t> holders = findHolders(plan, bucket);
  if (!llvm::is_contained(holders, rank))
    return 0;
  const std::string &node = plan.ranks[rank].node;
  std::set<std::string> nodes;
  SmallVector<int64_t> members;
  for (int64_t holder : holders) {
    nodes.insert(plan.ranks[holder].node);
    if (plan.ranks[holder].node == node)
      members.push_back(holder);
  }
  ArrayRef<int64_t> bounds = *bucket.getBounds();
  int64_t elements = 0;
  for (auto [slice, owner] : llvm::enumerate(holders)) {
    bool isOwn = owner == rank && info.getStage(bucket) == 0,
         crosses = plan.ranks[owner].node != node &&
                   members[slice % members.size()] == rank;
    if (crosses || (isOwn && nodes.size() > 1))
      elements += bounds[owner + 1] - bounds[owner];
  }
  return elements;
}
