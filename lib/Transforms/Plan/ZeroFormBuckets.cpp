//===- ZeroFormBuckets.cpp - Group parameters -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROFORMBUCKETS
#include "Poplar/Transforms/Plan/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// A bucket to be: parameters, and why they are together.
struct Group {
  std::string name;
  SmallVector<Attribute> parameters;
  int64_t bytes = 0;
  /// Holds a parameter of several units, which is gathered and reduced for
  /// each of them: nothing else should travel with it.
  bool tied = false;
  /// Holds frozen parameters, and no others; quantised in this format, if any.
  bool frozen = false;
  Type quantized = {};
  /// The virtual stage of the plan: who else needs the parameter is in the same
  /// one.
  int64_t virtualStage = 0;
  /// The op of @model that uses the parameters, the first if there are several.
  Operation *user = nullptr;
};

class ZeroFormBucketsPass
    : public poplar::impl::ZeroFormBucketsBase<ZeroFormBucketsPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult collect(func::FuncOp model);
  void mergeSmall(SmallVectorImpl<Group> &groups);

  /// By kind: only neighbours of a kind are merged.
  SmallVector<Group> trained, frozen, quantized;
  /// Those whose moments are in blocks, which come first in a bucket.
  DenseSet<StringAttr> inBlocks;
};

} // namespace

/// What is in the name of a bucket before the dot: the unit's.
static StringRef getUserName(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return call.getCallee();
  return op->getName().stripDialect();
}

LogicalResult ZeroFormBucketsPass::collect(func::FuncOp model) {
  llvm::MapVector<StringAttr, llvm::SmallSetVector<Operation *, 2>> users;
  for (auto get : model.getOps<nn::GetParameterOp>())
    for (Operation *user : get->getUsers())
      users[get.getParameterAttr().getAttr()].insert(user);
  DenseMap<StringAttr, int64_t> sizes;
  DenseSet<StringAttr> areFrozen;
  DenseMap<StringAttr, Type> formats;
  for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
    if (!users.contains(parameter.getSymNameAttr()))
      return parameter.emitOpError("is not used by @model");
    if (parameter.getFrozen())
      areFrozen.insert(parameter.getSymNameAttr());
    if (zero::hasBlockStates(parameter))
      inBlocks.insert(parameter.getSymNameAttr());
    auto type = cast<RankedTensorType>(parameter.getType());
    bool isQuantized = nn::isQuantized(type);
    if (isQuantized)
      formats[parameter.getSymNameAttr()] = type.getElementType();
    sizes[parameter.getSymNameAttr()] =
        nn::getStoredElements(type) * (isQuantized ? 1 : 4);
  }

  // Where the plan cuts the model.
  Plan plan;
  for (auto op : getOperation().getOps<zero::PlanOp>())
    plan = zero::readPlan(op);
  ModelUnits units;
  if (!plan.isWhole()) {
    FailureOr<ModelUnits> found = ModelUnits::get(model);
    if (failed(found))
      return failure();
    units = std::move(*found);
  }

  llvm::StringMap<int64_t> count;
  DenseSet<StringAttr> done;
  for (Operation &op : model.front()) {
    Group group, frozenGroup;
    llvm::MapVector<Type, Group> quantizedGroups;
    group.user = &op;
    if (!plan.isWhole())
      group.virtualStage = plan.findVirtualStage(units.getUnit(&op));
    group.name =
        llvm::formatv("{0}.{1}", getUserName(&op), count[getUserName(&op)])
            .str();
    frozenGroup = group;
    frozenGroup.name += ".frozen";
    frozenGroup.frozen = true;
    for (Value operand : op.getOperands()) {
      auto get = operand.getDefiningOp<nn::GetParameterOp>();
      if (!get || !done.insert(get.getParameterAttr().getAttr()).second)
        continue;
      StringAttr name = get.getParameterAttr().getAttr();
      Attribute symbol = FlatSymbolRefAttr::get(name);
      bool isFrozen = areFrozen.contains(name);
      Type format = formats.lookup(name);
      if (users[name].size() > 1) {
        SmallVectorImpl<Group> &groups = format     ? quantized
                                         : isFrozen ? frozen
                                                    : trained;
        groups.push_back({llvm::formatv("tied.{0}", count["tied"]++).str(),
                          {symbol},
                          sizes[name],
                          true,
                          isFrozen,
                          format,
                          /*virtualStage=*/0,
                          &op});
        continue;
      }
      Group &own = format     ? quantizedGroups[format]
                   : isFrozen ? frozenGroup
                              : group;
      own.parameters.push_back(symbol);
      own.bytes += sizes[name];
    }
    if (group.parameters.empty() && frozenGroup.parameters.empty() &&
        quantizedGroups.empty())
      continue;
    ++count[getUserName(&op)];
    for (auto &[format, own] : quantizedGroups) {
      own.name = frozenGroup.name + ".quantized";
      own.frozen = true;
      own.quantized = format;
      own.virtualStage = group.virtualStage;
      own.user = &op;
      quantized.push_back(std::move(own));
    }
    if (!group.parameters.empty())
      trained.push_back(std::move(group));
    if (!frozenGroup.parameters.empty())
      frozen.push_back(std::move(frozenGroup));
  }
  return success();
}

/// Why `group` does not travel with `previous`; empty if it does.
static StringRef findObstacle(const Group &previous, const Group &group,
                              bool isLast, int64_t minBytes) {
  if (group.tied)
    return "several units use its parameter";
  if (previous.tied)
    return "several units use the parameter of the bucket before it";
  if (previous.virtualStage != group.virtualStage)
    return "the plan cuts the model before it";
  if (previous.quantized != group.quantized)
    return "its parameters are quantised differently";
  if (previous.bytes >= minBytes && (group.bytes >= minBytes || !isLast))
    return "the bucket before it is large enough";
  return "";
}

void ZeroFormBucketsPass::mergeSmall(SmallVectorImpl<Group> &groups) {
  auto getOptions = [](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("zero-form-buckets")
        .function("model");
  };
  SmallVector<Group> merged;
  for (Group &group : groups) {
    Location loc = group.user->getLoc();
    StringRef obstacle = merged.empty()
                             ? "it is the first of its kind"
                             : findObstacle(merged.back(), group,
                                            &group == &groups.back(), minBytes);
    if (!obstacle.empty()) {
      remark::missed(loc, getOptions("BeginsBucket"))
          << remark::metric("Bucket", group.name)
          << remark::metric("Bytes", group.bytes)
          << remark::reason("{0}", obstacle);
      merged.push_back(std::move(group));
      continue;
    }
    remark::passed(loc, getOptions("JoinsBucket"))
        << remark::metric("Parameters", group.name)
        << remark::metric("Bytes", group.bytes)
        << remark::metric("Bucket", merged.back().name);
    llvm::append_range(merged.back().parameters, group.parameters);
    merged.back().bytes += group.bytes;
  }
  groups = std::move(merged);
}

void ZeroFormBucketsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (minBytes < 0) {
    module.emitError("option min-bytes is ")
        << minBytes.getValue() << ", expected a number of bytes";
    return signalPassFailure();
  }
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (!model || model.isExternal()) {
    module.emitError("has no function @model to take the units from");
    return signalPassFailure();
  }
  if (!module.getOps<zero::BucketOp>().empty()) {
    (*module.getOps<zero::BucketOp>().begin())
        .emitOpError("is there already: buckets are formed once");
    return signalPassFailure();
  }
  for (auto *groups : {&trained, &frozen, &quantized})
    groups->clear();
  inBlocks.clear();
  if (failed(collect(model)))
    return signalPassFailure();
  if (trained.empty() && !(frozen.empty() && quantized.empty())) {
    module.emitError("has nothing to train: all its parameters are frozen");
    return signalPassFailure();
  }
  for (auto *groups : {&trained, &frozen, &quantized})
    mergeSmall(*groups);
  for (Group &group : trained)
    std::stable_partition(
        group.parameters.begin(), group.parameters.end(), [&](Attribute name) {
          return inBlocks.contains(cast<FlatSymbolRefAttr>(name).getAttr());
        });

  SymbolTable symbols(module);
  OpBuilder builder(model);
  for (const Group &group : llvm::concat<Group>(trained, frozen, quantized))
    // Makes the name unique.
    symbols.insert(
        zero::BucketOp::create(builder, model.getLoc(), group.name,
                               builder.getArrayAttr(group.parameters),
                               group.frozen, group.quantized != nullptr));
}
