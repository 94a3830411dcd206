//===- ZeroCutStages.cpp - The part of a model that a group computes ------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between two stages goes one value, the activations, from a group to the next:
// @model of a stage receives it before its units and sends it after them.
//
//===----------------------------------------------------------------------===//

#include "DifferentiateUnit.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/ModelStages.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROCUTSTAGES
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class ZeroCutStagesPass
    : public poplar::impl::ZeroCutStagesBase<ZeroCutStagesPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    info = zero::ProgramInfo::get(module);
    if (!info.isPipelineStage())
      return;
    if (failed(cut(module)))
      signalPassFailure();
  }

private:
  LogicalResult cut(ModuleOp module);
  FailureOr<Value> findBoundary(func::FuncOp model, const ModelUnits &units,
                                int64_t unit);

  zero::ProgramInfo info;
};

} // namespace

/// The one value of units before `unit` that those from it on read.
FailureOr<Value> ZeroCutStagesPass::findBoundary(func::FuncOp model,
                                                 const ModelUnits &units,
                                                 int64_t unit) {
  llvm::SetVector<Value> crossing;
  Operation *reader = nullptr;
  for (Operation &op : model.front()) {
    bool isBehind = isa<func::ReturnOp>(op) || units.getUnit(&op) >= unit;
    if (!isBehind)
      continue;
    for (Value operand : op.getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source || units.getUnit(source) < 0 ||
          units.getUnit(source) >= unit || !crossing.insert(operand) ||
          crossing.size() < 2)
        continue;
      reader = &op;
    }
  }
  if (crossing.size() == 1)
    return crossing.front();
  if (crossing.empty())
    return model.emitOpError("has nothing that goes from its units before ")
           << unit << " to those behind them";
  InFlightDiagnostic diagnostic =
      reader->emitOpError("reads a second value of the units before unit ")
      << unit << ": a model can be cut where only the activations cross";
  diagnostic.attachNote(crossing.front().getLoc()) << "the first value";
  return diagnostic;
}

LogicalResult ZeroCutStagesPass::cut(ModuleOp module) {
  auto model = module.lookupSymbol<func::FuncOp>("model");
  auto plans = module.getOps<zero::PlanOp>();
  if (!model || model.isExternal() || plans.empty())
    return module.emitError("has no function @model, or no zero.plan, to cut "
                            "it by");
  if (info.isScaled())
    return module.emitError("program of device type '")
           << info.deviceType
           << "' keeps activations in f16, whose loss scale is a rank's own: "
              "pipeline stages are of f32 or bf16";
  SmallVector<zero::GroupOp, 0> groups = (*plans.begin()).getGroups();
  FailureOr<ModelUnits> units = ModelUnits::get(model);
  if (failed(units))
    return failure();
  if (groups.back().getEnd() != units->size())
    return groups.back().emitOpError("ends with unit ")
           << groups.back().getEnd() - 1 << ", but the model has "
           << units->size();
  zero::GroupOp group = groups[info.group];
  bool isFirst = info.group == 0, isLast = info.group + 1 == info.numGroups;
  Value in, out;
  if (!isFirst) {
    FailureOr<Value> boundary = findBoundary(model, *units, group.getFirst());
    if (failed(boundary))
      return failure();
    in = *boundary;
  }
  if (!isLast) {
    FailureOr<Value> boundary = findBoundary(model, *units, group.getEnd());
    if (failed(boundary))
      return failure();
    out = *boundary;
  }

  OpBuilder builder(model);
  if (in) {
    builder.setInsertionPointToStart(&model.front());
    in.replaceAllUsesWith(
        zero::ReceiveOp::create(builder, in.getLoc(), in.getType(),
                                zero::MessageKind::Activation, info.group - 1));
  }
  if (out) {
    builder.setInsertionPoint(model.front().getTerminator());
    zero::SendOp::create(builder, out.getLoc(), zero::MessageKind::Activation,
                         out, info.group + 1);
    model.front().getTerminator()->setOperands({});
    model.setFunctionType(builder.getFunctionType(
        model.getFunctionType().getInputs(), TypeRange()));
  }
  for (Operation &op : llvm::make_early_inc_range(
           llvm::reverse(model.front().getOperations()))) {
    int64_t unit = units->getUnit(&op);
    if (unit >= 0 && (unit < group.getFirst() || unit >= group.getEnd()))
      op.erase();
  }
  eraseDeadOps(model.front());
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function.isPrivate() && function->hasAttr(nn::kUnitAttr) &&
        SymbolTable::symbolKnownUseEmpty(function, module))
      function.erase();
  return success();
}
