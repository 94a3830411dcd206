//===- ZeroCutStages.cpp - The part of a model that a group computes ------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between two virtual stages goes one value, the activations: @model of a group
// receives it before the units of each of its chunks and sends it after them.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Model/DifferentiateUnit.h"
#include "Poplar/Transforms/Plan/Buildable.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROCUTSTAGES
#include "Poplar/Transforms/Zero/Passes.h.inc"
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
  /// Its units [first, end), and what crosses their bounds; null of what is the
  /// model's own.
  struct Chunk {
    int64_t first = 0, end = 0;
    Value in, out;
  };
  LogicalResult cut(ModuleOp module);
  void addMessages(const Chunk &chunk, int64_t index, const ModelUnits &units);
  Value convert(OpBuilder &builder, Value value, Type element);
  FailureOr<Value> findBoundary(func::FuncOp model, const ModelUnits &units,
                                int64_t unit);

  zero::ProgramInfo info;
  std::optional<SymbolTable> symbols;
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

/// What ProgramInfo says of messages; by default, what values are kept in.
static Type getWire(std::optional<NumberFormat> format, RankedTensorType kept) {
  return format ? zero::getFloatType(kept.getContext(), *format)
                : kept.getElementType();
}

/// The value in the format `element`. Between units there are calls only, so
/// the cast is a unit of its own.
Value ZeroCutStagesPass::convert(OpBuilder &builder, Value value,
                                 Type element) {
  auto from = cast<RankedTensorType>(value.getType());
  if (from.getElementType() == element)
    return value;
  RankedTensorType to = from.clone(element);
  std::string name;
  llvm::raw_string_ostream(name)
      << "convert_" << from.getElementType() << "_to_" << element;
  auto unit = symbols->lookup<func::FuncOp>(name);
  if (!unit) {
    unit = func::FuncOp::create(value.getLoc(), name,
                                builder.getFunctionType(from, to));
    unit.setPrivate();
    unit->setAttr(nn::kUnitAttr, builder.getUnitAttr());
    OpBuilder body = OpBuilder::atBlockBegin(unit.addEntryBlock());
    Value converted =
        nn::CastOp::create(body, value.getLoc(), to, unit.getArgument(0));
    func::ReturnOp::create(body, value.getLoc(), converted);
    symbols->insert(unit);
  }
  return func::CallOp::create(builder, value.getLoc(), unit, value)
      .getResult(0);
}

/// Puts the receive and the send of a chunk where they belong.
void ZeroCutStagesPass::addMessages(const Chunk &chunk, int64_t index,
                                    const ModelUnits &units) {
  int64_t place = info.getVirtualStage(index);
  auto getPeer = [&](int64_t other) {
    return std::pair(other % info.numGroups, other / info.numGroups);
  };
  if (Value in = chunk.in) {
    OpBuilder builder(in.getContext());
    builder.setInsertionPointAfterValue(in);
    auto [group, from] = getPeer(place - 1);
    auto kept = cast<RankedTensorType>(in.getType());
    Type wire = getWire(info.received, kept);
    auto receive =
        zero::ReceiveOp::create(builder, in.getLoc(), kept.clone(wire),
                                zero::MessageKind::Activation, group, from);
    Value received = convert(builder, receive, kept.getElementType());
    in.replaceUsesWithIf(received, [&](OpOperand &use) {
      return isa<func::ReturnOp>(use.getOwner()) ||
             units.getUnit(use.getOwner()) >= chunk.first;
    });
  }
  if (Value out = chunk.out) {
    OpBuilder builder(out.getContext());
    builder.setInsertionPointAfterValue(out);
    auto [group, to] = getPeer(place + 1);
    auto kept = cast<RankedTensorType>(out.getType());
    Value sent = convert(builder, out, getWire(info.sent, kept));
    zero::SendOp::create(builder, out.getLoc(), zero::MessageKind::Activation,
                         sent, group, to);
  }
}

LogicalResult ZeroCutStagesPass::cut(ModuleOp module) {
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  auto plans = module.getOps<zero::PlanOp>();
  if (!model || model.isExternal() || plans.empty())
    return module.emitError("has no function @model, or no zero.plan, to cut "
                            "it by");
  SmallVector<zero::GroupOp, 0> groups = (*plans.begin()).getGroups();
  std::string reason =
      explainUnbuildable(module, info.deviceType, info.target, info.precision);
  if (!reason.empty())
    return module.emitError(reason);
  FailureOr<ModelUnits> units = ModelUnits::get(model);
  if (failed(units))
    return failure();
  int64_t end = groups.back().getEnd(info.numChunks - 1);
  if (end != units->size())
    return groups.back().emitOpError("ends with unit ")
           << end - 1 << ", but the model has " << units->size();
  // All boundaries are those of the whole model.
  zero::GroupOp group = groups[info.group];
  SmallVector<Chunk> chunks;
  for (int64_t index = 0; index < info.numChunks; ++index) {
    Chunk chunk;
    chunk.first = group.getFirst(index);
    chunk.end = group.getEnd(index);
    for (auto [unit, value] : {std::pair(chunk.first, &chunk.in),
                               std::pair(chunk.end, &chunk.out)}) {
      if (unit == 0 || unit == units->size())
        continue;
      FailureOr<Value> boundary = findBoundary(model, *units, unit);
      if (failed(boundary))
        return failure();
      *value = *boundary;
    }
    chunks.push_back(chunk);
  }

  symbols.emplace(module);
  for (auto [index, chunk] : llvm::enumerate(chunks))
    addMessages(chunk, index, *units);
  if (chunks.back().out) {
    model.front().getTerminator()->setOperands({});
    model.setFunctionType(FunctionType::get(
        &getContext(), model.getFunctionType().getInputs(), TypeRange()));
  }
  for (Operation &op : llvm::make_early_inc_range(
           llvm::reverse(model.front().getOperations()))) {
    int64_t unit = units->getUnit(&op);
    if (unit >= 0 && !group.owns(unit))
      op.erase();
  }
  eraseDeadOps(model.front());
  eraseUnusedUnits(module);
  return success();
}
