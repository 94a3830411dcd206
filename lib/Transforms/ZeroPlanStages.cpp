//===- ZeroPlanStages.cpp - Pipeline stages as they are described ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/ModelStages.h"
#include "Poplar/Transforms/Passes.h"
#include "Poplar/Transforms/StagePlan.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROPLANSTAGES
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// A stage as it is described: TYPE[*COUNT][@END].
struct Described {
  std::string type;
  int64_t count = 1, end = -1;
};

class ZeroPlanStagesPass
    : public poplar::impl::ZeroPlanStagesBase<ZeroPlanStagesPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    if (failed(plan(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult plan(ModuleOp module);
  FailureOr<SmallVector<Described>> parse(ModuleOp module);
  LogicalResult placeEnds(ModuleOp module, MutableArrayRef<Described> described,
                          int64_t units);
};

} // namespace

FailureOr<SmallVector<Described>> ZeroPlanStagesPass::parse(ModuleOp module) {
  SmallVector<Described> result;
  SmallVector<StringRef> parts;
  StringRef(stages).split(parts, '+');
  for (StringRef part : parts) {
    Described stage;
    auto [rest, end] = part.split('@');
    auto [type, count] = rest.split('*');
    stage.type = type.trim().str();
    if (stage.type.empty() ||
        (rest.contains('*') &&
         (count.getAsInteger(10, stage.count) || stage.count < 1)) ||
        (part.contains('@') &&
         (end.getAsInteger(10, stage.end) || stage.end < 1)))
      return module.emitError("stage '")
             << part << "' is not TYPE[*COUNT][@END], such as a100*2@12";
    result.push_back(stage);
  }
  if (result.size() < 2)
    return module.emitError("'")
           << stages
           << "' is one stage; a pipeline has at least two, joined "
              "by +";
  for (const Described &stage : result)
    if (stage.count != result.front().count)
      return module.emitError("stage '")
             << stage.type << "' has " << stage.count
             << " devices, but the first one has " << result.front().count
             << ": pipelines have one device of each stage, so give all stages "
                "as many";
  return result;
}

/// Shares the units of stages in a row, of which only the last may say its end.
LogicalResult ZeroPlanStagesPass::placeEnds(
    ModuleOp module, MutableArrayRef<Described> described, int64_t units) {
  if (described.back().end >= 0 && described.back().end != units)
    return module.emitError("the last stage ends with unit ")
           << described.back().end << ", but the model has " << units
           << " (its blocks, what is in front of them, what is behind them)";
  described.back().end = units;
  int64_t begin = 0;
  for (size_t first = 0; first < described.size();) {
    size_t last = first;
    while (described[last].end < 0)
      ++last;
    auto count = static_cast<int64_t>(last - first + 1);
    int64_t share = described[last].end - begin;
    if (share < count)
      return module.emitError("the stage of '")
             << described[last].type << "' that ends before unit "
             << described[last].end << " leaves no unit to some stage";
    for (int64_t i = 1; i < count; ++i)
      described[first + i - 1].end = begin + share * i / count;
    begin = described[last].end;
    first = last + 1;
  }
  return success();
}

LogicalResult ZeroPlanStagesPass::plan(ModuleOp module) {
  auto model = module.lookupSymbol<func::FuncOp>("model");
  if (!model || model.isExternal())
    return module.emitError("has no function @model to cut into stages");
  if (!module.getOps<zero::PlanOp>().empty())
    return (*module.getOps<zero::PlanOp>().begin())
        .emitOpError("is there already: a module has one plan");
  std::optional<PipelineSchedule> order =
      parsePipelineSchedule(std::string(schedule));
  if (!order)
    return module.emitError("unknown schedule '")
           << schedule << "', expected gpipe or 1f1b";
  int64_t zeroStage = 0;
  if (stage != "auto" && (StringRef(stage).getAsInteger(10, zeroStage) ||
                          zeroStage < 0 || zeroStage > 3))
    return module.emitError("unknown stage of ZeRO '")
           << stage << "', expected 0, 1, 2, 3 or auto";
  FailureOr<SmallVector<Described>> described = parse(module);
  if (failed(described))
    return failure();
  FailureOr<ModelUnits> units = ModelUnits::get(model);
  if (failed(units) || failed(placeEnds(module, *described, units->size())))
    return failure();
  int64_t pipelines = described->front().count;
  if (globalBatch < pipelines || microBatch < 1)
    return module.emitError("a global batch of ")
           << globalBatch.getValue() << " samples in micro-batches of "
           << microBatch.getValue() << " cannot be shared by " << pipelines
           << " pipelines";

  ClusterView cluster = cluster::buildClusterView(module);
  StagePlan result;
  result.schedule = *order;
  result.policy = "stages";
  // Ranks meet in every step in stages 2 and 3.
  result.shares =
      sharePipelines(globalBatch, pipelines, microBatch, zeroStage >= 2);
  std::vector<bool> taken(cluster.ranks.size());
  int64_t first = 0;
  for (const Described &stage : *described) {
    StagePlan::Group group;
    group.first = first;
    group.end = first = stage.end;
    group.zeroStage = zeroStage;
    for (size_t rank = 0; rank < cluster.ranks.size(); ++rank) {
      if (int64_t(group.ranks.size()) == pipelines || taken[rank] ||
          cluster.types[cluster.ranks[rank].type].name != stage.type)
        continue;
      taken[rank] = true;
      group.ranks.push_back(static_cast<int>(rank));
    }
    if (int64_t(group.ranks.size()) < pipelines)
      return module.emitError("stage ")
             << result.groups.size() << " wants " << pipelines
             << " devices of type '" << stage.type << "', but only "
             << group.ranks.size() << " are left in the cluster";
    result.groups.push_back(std::move(group));
  }
  addStagePlan(module, cluster, result);
  return success();
}
