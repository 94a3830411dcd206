//===- ModelSharding.cpp - What a device computes of shared units ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Plan/ModelSharding.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Runtime/Quantized.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace poplar;
using nn::Layout;
using nn::ParameterShare;
using nn::Ranges;

std::string poplar::getPartName(StringRef parameter, int64_t index) {
  return (parameter + ".part" + Twine(index)).str();
}

//===----------------------------------------------------------------------===//
// One unit
//===----------------------------------------------------------------------===//

class ModelSharding::Unit : public nn::UnitSharding {
public:
  Unit(ModelSharding &model, func::CallOp call, func::FuncOp old,
       OpBuilder &builder)
      : UnitSharding(builder, model.group), model(model), call(call), old(old) {
  }

  FailureOr<Sharded> run();

protected:
  Value gatherTokens(Location loc, Value tokens) override {
    auto type = cast<RankedTensorType>(tokens.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = model.tokens;
    return zero::GatherTokensOp::create(
        builder, loc, RankedTensorType::get(shape, type.getElementType()),
        tokens, model.getTokenBounds(model.tokens), group.getPosition());
  }
  Value scatterTokens(Location loc, Value partial) override {
    return zero::ScatterTokensOp::create(
        builder, loc, model.getTokensType(partial.getType()), partial,
        model.getTokenBounds(model.tokens), group.getPosition());
  }
  std::pair<Value, Value> buildCrossEntropy(Location loc, Value logits,
                                            Value targets,
                                            int64_t firstColumn) override {
    auto type = cast<RankedTensorType>(logits.getType());
    Type perToken = RankedTensorType::get(type.getShape().drop_back(),
                                          builder.getF32Type());
    auto op = zero::CrossEntropyOp::create(builder, loc, perToken, perToken,
                                           logits, targets, firstColumn,
                                           model.getTokenBounds(model.tokens));
    return {op.getLoss(), op.getLse()};
  }
  std::optional<Ranges> findSplitOfResult(unsigned index) override {
    return model.findSplit(call, index, *this);
  }
  Value takeParameter(Value parameter, const ParameterShare &share) override {
    unsigned index = cast<BlockArgument>(parameter).getArgNumber();
    result.parameters[index] = share;
    BlockArgument argument = result.function.getArgument(index);
    argument.setType(
        nn::getShareType(cast<RankedTensorType>(argument.getType()), share));
    if (share.kind != ParameterShare::First || group.getPosition() == 0)
      return argument;
    result.dropped.set(index);
    return {};
  }

private:
  ModelSharding &model;
  func::CallOp call;
  func::FuncOp old;
  Sharded result;
};

FailureOr<ModelSharding::Sharded> ModelSharding::Unit::run() {
  unsigned count = old.getNumArguments();
  result.parameters.resize(count);
  result.dropped.resize(count);
  result.function = func::FuncOp::create(old.getLoc(), old.getSymName(),
                                         old.getFunctionType());
  OwningOpRef<func::FuncOp> owner(result.function);
  result.function->setAttrs(old->getAttrs());
  Block *block = result.function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  for (auto [index, argument] : llvm::enumerate(old.getArguments())) {
    Layout layout = model.layouts.lookup(call.getOperand(index));
    result.arguments.push_back(layout);
    if (!old.getArgAttr(index, nn::kParameterAttr)) {
      block->getArgument(index).setType(call.getOperand(index).getType());
      set(argument, block->getArgument(index), layout);
    }
  }
  for (Operation &op : old.front().without_terminator()) {
    auto parallel = dyn_cast<nn::TensorParallelOpInterface>(op);
    if (!parallel)
      return op.emitOpError("is in a unit that devices share, but does not say "
                            "how it is divided (TensorParallelOpInterface)");
    if (failed(parallel.shard(*this)) || hasFailed())
      return failure();
  }
  SmallVector<Value> returned;
  for (Value value : old.front().getTerminator()->getOperands()) {
    // Between units, nothing is left to be added up.
    if (getLayout(value).kind == Layout::Partial && !getTokens(value))
      return failure();
    returned.push_back(get(value));
    result.results.push_back(getLayout(value));
  }
  func::ReturnOp::create(builder, old.front().getTerminator()->getLoc(),
                         returned);
  result.function.setFunctionType(builder.getFunctionType(
      block->getArgumentTypes(), ValueRange(returned).getTypes()));
  if (failed(result.function.eraseArguments(result.dropped)))
    return failure();
  owner.release();
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

// Where it can be, moments in 8 bits are divided between blocks.
ModelSharding::ModelSharding(ModuleOp module, ArrayRef<int64_t> parts,
                             int64_t position)
    : module(module),
      group(parts, position,
            zero::hasInt8States(module) ? POPLAR_STATE_BLOCK : 1) {}

Type ModelSharding::getTokensType(Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  auto [begin, end] = group.getRange(tokens);
  shape[1] = end - begin;
  return RankedTensorType::get(shape, tensor.getElementType());
}

/// How a unit takes an operand of its call, if it is split.
std::optional<Ranges> ModelSharding::findSplitOfArgument(func::CallOp call,
                                                         OpOperand &operand) {
  unsigned index = operand.getOperandNumber();
  auto known = units.find(call.getCalleeAttr().getAttr());
  if (known != units.end()) {
    // All of its calls take the same.
    const Layout &layout = known->second.arguments[index];
    return layout.kind == Layout::Columns ? std::optional(layout.ranges)
                                          : std::nullopt;
  }
  auto unit = module.lookupSymbol<func::FuncOp>(call.getCallee());
  OpBuilder builder(unit);
  return Unit(*this, call, unit, builder).findSplit(unit.getArgument(index));
}

/// Finds how a result of the unit that `call` calls is split: what the units
/// behind it take.
std::optional<Ranges> ModelSharding::findSplit(func::CallOp call,
                                               unsigned index,
                                               const nn::UnitSharding &) {
  std::optional<Ranges> found;
  for (OpOperand &use : call.getResult(index).getUses()) {
    auto reader = dyn_cast<func::CallOp>(use.getOwner());
    // A unit that is called again takes what it gives: tokens.
    if (!reader || reader.getCallee() == call.getCallee())
      return std::nullopt;
    std::optional<Ranges> ranges = findSplitOfArgument(reader, use);
    if (!ranges || (found && *found != *ranges))
      return std::nullopt;
    found = ranges;
  }
  return found;
}

FailureOr<const ModelSharding::Sharded *>
ModelSharding::shardUnit(func::CallOp call) {
  StringAttr name = call.getCalleeAttr().getAttr();
  auto known = units.find(name);
  if (known != units.end()) {
    for (auto [index, layout] : llvm::enumerate(known->second.arguments))
      if (layout != layouts.lookup(call.getOperand(index)))
        return call.emitOpError("calls a unit with an operand #")
               << index << " that lies otherwise on the devices than in an "
               << "earlier call";
    return &known->second;
  }
  auto old = module.lookupSymbol<func::FuncOp>(name);
  OpBuilder builder(module.getContext());
  FailureOr<Sharded> unit = Unit(*this, call, old, builder).run();
  if (failed(unit))
    return failure();
  // Later calls are asked for the old one's uses no more.
  builder.setInsertionPoint(old);
  builder.insert(unit->function);
  old.erase();
  return &units.insert({name, std::move(*unit)}).first->second;
}

/// @model's own value of a parameter becomes the device's share of it, which
/// has no name yet.
LogicalResult ModelSharding::takeParameter(Value parameter,
                                           const ParameterShare &share) {
  auto get = parameter.getDefiningOp<nn::GetParameterOp>();
  StringAttr name = get.getParameterAttr().getAttr();
  auto [entry, isNew] = shares.insert({name, share});
  if (!isNew && !(entry->second == share))
    return get.emitOpError(
        "has uses in shared units that need different splits");
  if (share.kind == ParameterShare::Slice)
    get.getValue().setType(nn::getShareType(get.getValue().getType(), share));
  return success();
}

LogicalResult ModelSharding::shardCall(func::CallOp call) {
  // Shared values are changed once, by their first reader.
  FailureOr<const Sharded *> unit = shardUnit(call);
  if (failed(unit))
    return failure();
  SmallVector<Value> operands;
  for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
    auto get = operand.getDefiningOp<nn::GetParameterOp>();
    if (get && layouts.try_emplace(operand).second &&
        failed(takeParameter(operand, (*unit)->parameters[index])))
      return failure();
    if (!(*unit)->dropped.test(index))
      operands.push_back(operand);
  }
  OpBuilder builder(call);
  auto made =
      func::CallOp::create(builder, call.getLoc(), (*unit)->function, operands);
  for (auto [old, result, layout] : llvm::zip_equal(
           call.getResults(), made.getResults(), (*unit)->results)) {
    old.replaceAllUsesWith(result);
    layouts[result] = layout;
  }
  call.erase();
  return success();
}

LogicalResult ModelSharding::run() {
  auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
  if (!model || model.isExternal() || model.getNumArguments() == 0)
    return module.emitError("has no function @model to divide among devices");
  tokens = cast<RankedTensorType>(model.getArgument(0).getType()).getDimSize(1);
  if (tokens < group.size())
    return model.emitOpError("has ")
           << tokens << " tokens a sample, fewer than the " << group.size()
           << " devices that share units";
  for (Operation &op : llvm::make_early_inc_range(model.front())) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (failed(shardCall(call)))
        return failure();
      continue;
    }
    if (auto receive = dyn_cast<zero::ReceiveOp>(op)) {
      receive.getValue().setType(
          cast<RankedTensorType>(getTokensType(receive.getValue().getType())));
      layouts[receive.getValue()] = {Layout::Tokens, {}};
      continue;
    }
    for (Value operand : op.getOperands())
      if (layouts.lookup(operand).kind !=
          (isa<zero::SendOp>(op) ? Layout::Tokens : Layout::Whole))
        return op.emitOpError("reads in @model what devices share");
  }
  for (auto get :
       llvm::make_early_inc_range(model.getOps<nn::GetParameterOp>()))
    if (get->use_empty())
      get.erase();
  model.setFunctionType(FunctionType::get(
      module.getContext(), model.getFunctionType().getInputs(),
      model.front().getTerminator()->getOperandTypes()));
  return success();
}
