//===- ZeroMaterialize.cpp - Collectives of a ZeRO stage ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Correct first: every collective is synchronous and stands where its data is
// complete, or right before it is needed. --zero-async and the passes after it
// move them.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Transforms/Model/DifferentiateUnit.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROMATERIALIZE
#include "Poplar/Transforms/Zero/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Place of a parameter: its bucket and its index there.
struct Place {
  zero::BucketOp bucket;
  unsigned index;
};

/// Current values of a bucket's parameters or gradients, in transient memory.
using Values = SmallVector<Value>;
using LiveBuckets = llvm::MapVector<zero::BucketOp, Values>;

class ZeroMaterializePass
    : public poplar::impl::ZeroMaterializeBase<ZeroMaterializePass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult findPlaces();
  void findGradients(func::FuncOp train);
  LogicalResult gatherParameters(func::FuncOp function);
  LogicalResult scatterGradients(func::FuncOp train);
  LogicalResult findAddends(ArrayRef<func::FuncOp> trains);
  void addTrainLast(func::FuncOp train, StringRef name);
  bool isReducedInUpdate(zero::BucketOp bucket) const;
  void addReduction(OpBuilder &builder, Location loc, zero::BucketOp bucket);
  void sumReplicas(func::FuncOp last);
  void addUpdate();
  /// Whether ranks meet in every micro-step for a bucket.
  bool meetsInSteps(zero::BucketOp bucket) {
    return info.getStage(bucket) >= 2;
  }

  /// Types of a bucket's parameters as `elementType`, unless it is quantised.
  SmallVector<Type> getTypes(zero::BucketOp bucket, Type elementType);

  zero::ProgramInfo info;
  Type wire, gradientWire;
  /// Those that the program's group holds.
  SmallVector<zero::BucketOp> buckets;
  DenseMap<StringAttr, Place> places;
  DenseMap<StringAttr, RankedTensorType> parameterTypes;
  /// The buckets of a parameter that has parts (ParameterParts.h).
  DenseMap<StringAttr, SmallVector<zero::BucketOp>> partsOf;
  /// Running gradients in @train: as read, and as units hand them on.
  DenseMap<Value, Place> gradients;
  /// The last op of each function that adds to the running gradients of a
  /// bucket, where ranks do not meet in every micro-step.
  DenseMap<zero::BucketOp, SmallVector<Operation *, 1>> addends;
};

} // namespace

LogicalResult ZeroMaterializePass::findPlaces() {
  ModuleOp module = getOperation();
  if (module.getOps<zero::BucketOp>().empty())
    return module.emitError("has no zero.bucket: run --zero-form-buckets "
                            "first");
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    if (info.holds(bucket))
      buckets.push_back(bucket);
    int64_t ranks = bucket.getBounds() ? bucket.getBounds()->size() - 1 : 1;
    if (ranks != info.getShardGroupSize())
      return bucket.emitOpError("is sharded over ")
             << ranks << " ranks, but the program is one of "
             << info.getShardGroupSize();
    for (auto [index, name] : llvm::enumerate(
             bucket.getParameters().getAsRange<FlatSymbolRefAttr>())) {
      auto [known, isNew] =
          places.insert({name.getAttr(), {bucket, unsigned(index)}});
      if (isNew)
        continue;
      InFlightDiagnostic diagnostic = bucket.emitOpError("holds ")
                                      << name << ", as another bucket does";
      diagnostic.attachNote(known->second.bucket.getLoc())
          << "the other bucket";
      return diagnostic;
    }
  }
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    StringAttr name = parameter.getSymNameAttr();
    SmallVector<FlatSymbolRefAttr> parts = zero::getParts(parameter);
    for (FlatSymbolRefAttr part : parts) {
      auto place = places.find(part.getAttr());
      if (place == places.end() || meetsInSteps(place->second.bucket))
        return parameter.emitOpError("has the part ")
               << part << ", which is in no zero.bucket of stage 0 or 1";
      auto type = cast<RankedTensorType>(
          module.lookupSymbol<nn::ParameterOp>(part.getAttr()).getType());
      if (part != parts.back() &&
          type.getNumElements() % zero::BucketLayout::kAlignment != 0)
        return parameter.emitOpError("has the part ")
               << part << " of " << type.getNumElements()
               << " elements, behind which there is a gap: expected a multiple "
                  "of "
               << zero::BucketLayout::kAlignment;
      partsOf[name].push_back(place->second.bucket);
      // Where the ranks meet is the same for all parts.
      places.insert({name, {place->second.bucket, 0}});
    }
    if (!places.count(name))
      return parameter.emitOpError("is in no zero.bucket");
    parameterTypes[name] = cast<RankedTensorType>(parameter.getType());
  }
  return success();
}

SmallVector<Type> ZeroMaterializePass::getTypes(zero::BucketOp bucket,
                                                Type elementType) {
  SmallVector<Type> types;
  for (auto name : bucket.getParameters().getAsRange<FlatSymbolRefAttr>()) {
    RankedTensorType type = parameterTypes[name.getAttr()];
    types.push_back(bucket.getQuantized() ? type : type.clone(elementType));
  }
  return types;
}

/// Whether it is run for a micro-batch.
static bool isStep(func::FuncOp function) {
  auto is = [&](nn::Entry entry) {
    return function.getSymName() == nn::getName(entry);
  };
  return function->hasAttr(zero::kTurnAttr) || is(nn::Entry::Train) ||
         is(nn::Entry::Evaluate) || is(nn::Entry::Infer) ||
         (function->hasAttr(nn::kDecodingAttr) &&
          !function->hasAttr(nn::kUnitAttr));
}

void ZeroMaterializePass::findGradients(func::FuncOp train) {
  SymbolTableCollection symbols;
  for (auto [value, parameter] : findRunningGradients(train, symbols))
    gradients[value] = places.lookup(parameter);
}

/// Stage 3: gathers a bucket before each op that reads it, unless the op before
/// that reads parameters has it, too.
///
/// What a backward pass reads depends on what it recomputes; the parameters
/// whose gradients it adds to do not, and what it reads is among them. Where
/// device types differ in their policy, all gather these, so that all issue the
/// same collectives.
LogicalResult ZeroMaterializePass::gatherParameters(func::FuncOp function) {
  Type working = zero::getFloatType(&getContext(), info.getWorkingFormat());
  LiveBuckets live;
  for (Operation &op : function.front()) {
    LiveBuckets now;
    auto gather = [&](zero::BucketOp bucket) -> Values & {
      Values &values = now[bucket];
      if (values.empty())
        values = live.lookup(bucket);
      if (values.empty()) {
        OpBuilder builder(&op);
        auto gathered = zero::AllGatherOp::create(
            builder, op.getLoc(), getTypes(bucket, working),
            bucket.getSymName(), TypeAttr::get(bucket.getStorageType(wire)));
        llvm::append_range(values, gathered.getValues());
      }
      return values;
    };
    if (info.mixedRecompute && isa<func::CallOp>(op))
      for (Value operand : op.getOperands())
        if (auto entry = gradients.find(operand);
            entry != gradients.end() &&
            info.getStage(entry->second.bucket) == 3)
          gather(entry->second.bucket);
    for (OpOperand &operand : op.getOpOperands()) {
      auto get = operand.get().getDefiningOp<nn::GetParameterOp>();
      if (!get)
        continue;
      Place place = places.lookup(get.getParameterAttr().getAttr());
      if (info.getStage(place.bucket) < 3)
        continue;
      Type element = getElementTypeOrSelf(get.getType());
      if (element != working && !nn::isQuantized(element))
        return get.emitOpError("reads a parameter as ")
               << get.getType() << " in a program of precision "
               << toString(info.precision);
      operand.set(gather(place.bucket)[place.index]);
    }
    if (!now.empty())
      live = std::move(now);
  }
  for (auto get :
       llvm::make_early_inc_range(function.getOps<nn::GetParameterOp>()))
    if (get->use_empty())
      get.erase();
  return success();
}

/// Stages 2 and 3: the gradients of a micro-step are added in transient memory
/// and leave it when the unit, or the last one in a row that shares the bucket,
/// is done.
LogicalResult ZeroMaterializePass::scatterGradients(func::FuncOp train) {
  SymbolTableCollection symbols;
  Type f32 = Float32Type::get(&getContext());
  LiveBuckets live;
  Operation *last = nullptr;
  auto close = [&](const LiveBuckets &kept) {
    for (auto &[bucket, values] : live) {
      if (kept.contains(bucket))
        continue;
      OpBuilder builder(last->getBlock(), std::next(last->getIterator()));
      last = zero::ReduceScatterOp::create(
          builder, last->getLoc(), bucket.getSymName(),
          TypeAttr::get(gradientWire), info.isScaled(), values);
    }
  };
  for (Operation &op : train.front()) {
    LiveBuckets now;
    for (OpOperand &operand : op.getOpOperands()) {
      auto entry = gradients.find(operand.get());
      if (entry == gradients.end() || isa<nn::SetGradientOp>(op) ||
          !meetsInSteps(entry->second.bucket))
        continue;
      Place place = entry->second;
      Value updated = getUpdatedGradient(operand, symbols);
      if (!updated)
        return op.emitOpError("uses a parameter outside of a unit; in stage ")
               << info.stage << " only units can";
      Values &values = now[place.bucket];
      if (values.empty())
        values = live.lookup(place.bucket);
      if (values.empty()) {
        OpBuilder builder(&op);
        auto zeroed = zero::GradientsOp::create(builder, op.getLoc(),
                                                getTypes(place.bucket, f32),
                                                place.bucket.getSymName());
        llvm::append_range(values, zeroed.getValues());
      }
      operand.set(values[place.index]);
      values[place.index] = updated;
    }
    if (now.empty())
      continue;
    close(now);
    live = std::move(now);
    last = &op;
  }
  close({});
  auto erase = [&](auto op) {
    if (meetsInSteps(places.lookup(op.getParameterAttr().getAttr()).bucket))
      op.erase();
  };
  for (auto set : llvm::make_early_inc_range(train.getOps<nn::SetGradientOp>()))
    erase(set);
  for (auto get : llvm::make_early_inc_range(train.getOps<nn::GetGradientOp>()))
    erase(get);
  return success();
}

/// Where there are replicas: shards of gradients are complete when the
/// reduce-scatters of the last micro-step are, which have also unscaled them.
void ZeroMaterializePass::sumReplicas(func::FuncOp last) {
  llvm::MapVector<StringRef, zero::ReduceScatterOp> complete;
  for (auto scatter : last.getOps<zero::ReduceScatterOp>())
    complete[scatter.getBucket()] = scatter;
  for (zero::BucketOp bucket : buckets)
    if (zero::ReduceScatterOp scatter = complete.lookup(bucket.getSymName())) {
      OpBuilder builder(last.getContext());
      builder.setInsertionPointAfter(scatter);
      zero::AllReduceOp::create(builder, scatter.getLoc(), bucket.getSymName(),
                                TypeAttr::get(gradientWire),
                                /*unscale=*/false);
    }
}

/// Stages 0 and 1: replaces the running gradients, or the rank's slice of them,
/// by the sum.
void ZeroMaterializePass::addReduction(OpBuilder &builder, Location loc,
                                       zero::BucketOp bucket) {
  TypeAttr carried = TypeAttr::get(gradientWire);
  if (info.getStage(bucket) == 0)
    zero::AllReduceOp::create(builder, loc, bucket.getSymName(), carried,
                              info.isScaled());
  else
    zero::ReduceScatterOp::create(builder, loc, bucket.getSymName(), carried,
                                  info.isScaled(), ValueRange());
}

LogicalResult ZeroMaterializePass::findAddends(ArrayRef<func::FuncOp> trains) {
  for (func::FuncOp train : trains) {
    DenseMap<zero::BucketOp, Operation *> complete;
    for (auto set : train.getOps<nn::SetGradientOp>()) {
      StringAttr name = set.getParameterAttr().getAttr();
      complete[places.lookup(name).bucket] = set;
      for (zero::BucketOp bucket : partsOf.lookup(name))
        complete[bucket] = set;
    }
    for (auto [bucket, set] : complete)
      if (!meetsInSteps(bucket))
        addends[bucket].push_back(set);
  }
  for (zero::BucketOp bucket : buckets)
    if (!bucket.getFrozen() && !meetsInSteps(bucket) &&
        !addends.contains(bucket))
      return bucket.emitOpError("has no gradients: no parameter of it is "
                                "differentiated in @")
             << func::FuncOp(trains.front()).getSymName();
  return success();
}

/// A group that waited in a turn for another would keep it from what that waits
/// for: the gradients that go back between them. And what several chunks add to
/// is complete when all of them have.
bool ZeroMaterializePass::isReducedInUpdate(zero::BucketOp bucket) const {
  return info.isShared(bucket) || addends.lookup(bucket).size() > 1;
}

/// The last micro-step, which is another than the others in stages 0 and 1, and
/// where there are replicas: it reduces every bucket as soon as its gradients
/// are complete.
void ZeroMaterializePass::addTrainLast(func::FuncOp train, StringRef name) {
  OpBuilder builder(train->getContext());
  builder.setInsertionPointAfter(train);
  IRMapping mapping;
  auto last = cast<func::FuncOp>(builder.clone(*train, mapping));
  last.setSymName(name);
  for (zero::BucketOp bucket : buckets) {
    if (bucket.getFrozen() || meetsInSteps(bucket) || isReducedInUpdate(bucket))
      continue;
    Operation *addend = addends.lookup(bucket).front();
    if (addend->getParentOp() != train.getOperation())
      continue;
    Operation *set = mapping.lookup(addend);
    builder.setInsertionPointAfter(set);
    addReduction(builder, set->getLoc(), bucket);
  }
  if (info.replicas > 1)
    sumReplicas(last);
}

void ZeroMaterializePass::addUpdate() {
  ModuleOp module = getOperation();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto update =
      func::FuncOp::create(builder, loc, nn::getName(nn::Entry::Update),
                           builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(update.addEntryBlock());
  for (zero::BucketOp bucket : buckets)
    if (info.worldSize > 1 && !bucket.getFrozen() && !meetsInSteps(bucket) &&
        isReducedInUpdate(bucket))
      addReduction(builder, bucket.getLoc(), bucket);
  // Reductions have divided by the loss scale, where there are any.
  zero::NormOp::create(builder, loc, info.isScaled() && info.worldSize == 1);
  for (zero::BucketOp bucket : buckets) {
    if (bucket.getFrozen())
      continue;
    int64_t stage = info.getStage(bucket);
    zero::AdamWOp::create(builder, bucket.getLoc(), bucket.getSymName());
    if (info.worldSize > 1 && (stage == 1 || stage == 2))
      zero::AllGatherOp::create(builder, bucket.getLoc(), TypeRange(),
                                bucket.getSymName(), TypeAttr::get(wire));
  }
  func::ReturnOp::create(builder, loc);
}

void ZeroMaterializePass::runOnOperation() {
  ModuleOp module = getOperation();
  info = zero::ProgramInfo::get(module);
  wire = zero::getWireType(&getContext(), info.wire);
  gradientWire = zero::getWireType(&getContext(), info.gradientWire);
  buckets.clear();
  places.clear();
  parameterTypes.clear();
  partsOf.clear();
  gradients.clear();
  addends.clear();
  // In a pipeline stage, the half that has gradients is what counts.
  bool splits = info.isPipelineStage();
  SmallVector<func::FuncOp> trains;
  for (int64_t chunk = 0; chunk < info.numChunks; ++chunk) {
    auto train = module.lookupSymbol<func::FuncOp>(info.getTurnName(
        splits ? nn::Entry::Backward : nn::Entry::Train, chunk));
    if (!train || train.isExternal()) {
      module.emitError(splits
                           ? "has no function @" +
                                 info.getTurnName(nn::Entry::Backward, chunk) +
                                 ": run --zero-split-turns first"
                           : "has no function @train: run "
                             "--nn-differentiate first");
      return signalPassFailure();
    }
    trains.push_back(train);
  }
  if (auto update = nn::findEntry<func::FuncOp>(module, nn::Entry::Update)) {
    update->emitError("is there already: collectives are added once");
    return signalPassFailure();
  }
  if (failed(findPlaces()) ||
      (info.worldSize > 1 && failed(findAddends(trains))))
    return signalPassFailure();
  addUpdate();
  if (info.worldSize == 1)
    return;
  for (func::FuncOp train : trains)
    findGradients(train);
  if (info.stage == 3)
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (isStep(function) && failed(gatherParameters(function)))
        return signalPassFailure();
  bool meets = false, leaves = false;
  for (zero::BucketOp bucket : buckets)
    if (!bucket.getFrozen())
      (meetsInSteps(bucket) ? meets : leaves) = true;
  for (auto [chunk, train] : llvm::enumerate(trains)) {
    if (meets && failed(scatterGradients(train)))
      return signalPassFailure();
    if (leaves || info.replicas > 1)
      addTrainLast(train, info.getTurnName(splits ? nn::Entry::BackwardLast
                                                  : nn::Entry::TrainLast,
                                           chunk));
  }
}
