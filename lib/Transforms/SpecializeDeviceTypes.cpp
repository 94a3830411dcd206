//===- SpecializeDeviceTypes.cpp - One program per device type ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/ShardBounds.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {
#define GEN_PASS_DEF_SPECIALIZEDEVICETYPES
#include "Poplar/Transforms/Passes.h.inc"
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

/// What all programs put parameters on the wire as: the format of all, or f32
/// where they differ.
static std::string getWire(ArrayRef<zero::ProgramInfo> programs) {
  for (const zero::ProgramInfo &program : programs)
    if (program.getWorkingFormat() != programs.front().getWorkingFormat())
      return "f32";
  return programs.front().getWorkingFormat();
}

/// Shards the buckets over the ranks of the plan.
static LogicalResult shardBuckets(ModuleOp module, zero::PlanOp plan) {
  std::vector<double> shares;
  for (zero::RankOp rank : plan.getRanks())
    shares.push_back(rank.getState().convertToDouble());
  if (llvm::all_of(shares, [](double share) { return share == 0; }))
    return plan.emitOpError("has no rank that holds any state");
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>())
    bucket.setBounds(
        shardByShares(zero::BucketLayout::get(bucket, symbols)->elements,
                      shares)
            .bounds);
  return success();
}

void SpecializeDeviceTypesPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto plans = module.getOps<zero::PlanOp>();
  if (!llvm::hasSingleElement(plans)) {
    module.emitError("expected one zero.plan to make programs for");
    return signalPassFailure();
  }
  zero::PlanOp plan = *plans.begin();
  SymbolTable symbols(module);
  llvm::SmallSetVector<Operation *, 4> used;
  for (zero::RankOp rank : plan.getRanks()) {
    auto type = symbols.lookup<cluster::DeviceTypeOp>(rank.getDeviceType());
    if (!type) {
      rank.emitOpError("is on a device of type @")
          << rank.getDeviceType() << ", which is no cluster.device_type";
      return signalPassFailure();
    }
    used.insert(type);
  }
  SmallVector<cluster::DeviceTypeOp> types;
  for (Operation *op : used)
    types.push_back(cast<cluster::DeviceTypeOp>(op));

  if (failed(shardBuckets(module, plan)))
    return signalPassFailure();
  SmallVector<Operation *> shared;
  for (Operation &op : *module.getBody())
    if (isa<nn::ParameterOp, func::FuncOp, zero::BucketOp, zero::PlanOp>(op))
      shared.push_back(&op);
  Attribute model = module->getAttr(nn::kModelAttr);
  SmallVector<zero::ProgramInfo> programs;
  for (cluster::DeviceTypeOp type : types) {
    zero::ProgramInfo info;
    info.deviceType = type.getSymName().str();
    info.target = type.getTarget().str();
    info.precision = cluster::stringifyNumberFormat(type.getPrecision()).str();
    info.recompute = type.getRecompute().str();
    info.mixedRecompute = llvm::any_of(types, [&](cluster::DeviceTypeOp other) {
      return other.getRecompute() != type.getRecompute();
    });
    info.stage = plan.getStage();
    info.worldSize = plan.getRanks().size();
    programs.push_back(std::move(info));
  }
  std::string wire = getWire(programs);
  for (auto [type, info] : llvm::zip_equal(types, programs)) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto program = ModuleOp::create(builder, type.getLoc(),
                                    (type.getSymName() + ".program").str());
    info.wire = wire;
    program->setAttr(zero::kProgramAttr, info.getAttr(&getContext()));
    if (model)
      program->setAttr(nn::kModelAttr, model);
    builder.setInsertionPointToStart(program.getBody());
    for (Operation *op : shared)
      builder.clone(*op);
  }
  for (Operation *op : shared)
    op->erase();
  module->removeAttr(nn::kModelAttr);
}
