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
#include "Poplar/Transforms/Model/Layers.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
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

/// A unit that is being made, of the one position that the device has or of all
/// of them.
class ModelSharding::Unit {
public:
  Unit(ModelSharding &model, func::CallOp call, func::FuncOp old,
       OpBuilder &builder);

  FailureOr<Sharded> run();
  /// How the unit takes an argument, if it is split.
  std::optional<Ranges> findSplit(Value argument);

private:
  class Position;

  LogicalResult shardOps();
  FailureOr<SmallVector<Value>> getReturned();

  ModelSharding &model;
  func::CallOp call;
  func::FuncOp old;
  OpBuilder &builder;
  SmallVector<std::unique_ptr<Position>, 1> positions;
  /// Sums over the positions, where the device has all of them.
  DenseMap<Value, Value> sums;
  Sharded result;
};

/// What the unit is at one position.
class ModelSharding::Unit::Position : public nn::UnitSharding {
public:
  Position(Unit &unit, const nn::TensorGroup &group)
      : UnitSharding(unit.builder, group), unit(unit), model(unit.model) {}

protected:
  Value gatherTokens(Location loc, Value tokens) override {
    if (model.joinsParts())
      return tokens;
    auto type = cast<RankedTensorType>(tokens.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = model.tokens;
    return zero::GatherTokensOp::create(
        builder, loc, RankedTensorType::get(shape, type.getElementType()),
        tokens, group.divide(model.tokens), group.getPosition());
  }
  Value scatterTokens(Value old) override;
  std::pair<int64_t, int64_t> getTokenRange(int64_t count) const override {
    return model.joinsParts() ? std::pair(int64_t(0), count)
                              : group.getRange(count);
  }
  std::pair<Value, Value> buildCrossEntropy(Location loc, Value logits,
                                            Value targets,
                                            int64_t firstColumn) override {
    auto type = cast<RankedTensorType>(logits.getType());
    Type perToken = RankedTensorType::get(type.getShape().drop_back(),
                                          builder.getF32Type());
    auto op = zero::CrossEntropyOp::create(builder, loc, perToken, perToken,
                                           logits, targets, firstColumn,
                                           group.divide(model.tokens));
    return {op.getLoss(), op.getLse()};
  }
  std::optional<Ranges> findSplitOfResult(unsigned index) override {
    return model.findSplit(unit.call, index);
  }
  Value takeParameter(Value parameter, const ParameterShare &share) override;

private:
  Unit &unit;
  ModelSharding &model;
};

Value ModelSharding::Unit::Position::scatterTokens(Value old) {
  Value partial = get(old);
  if (!model.joinsParts())
    return zero::ScatterTokensOp::create(
        builder, old.getLoc(), model.getTokensType(partial.getType()), partial,
        group.divide(model.tokens), group.getPosition());
  // Every position asks, the first one before any has taken the sum.
  Value &sum = unit.sums[old];
  if (sum)
    return sum;
  for (const std::unique_ptr<Position> &position : unit.positions)
    sum =
        sum ? nn::AddOp::create(builder, old.getLoc(), sum, position->get(old))
                  .getResult()
            : position->get(old);
  return sum;
}

/// The argument stands for what the first position holds. Slices of others
/// become arguments of their own.
Value ModelSharding::Unit::Position::takeParameter(
    Value parameter, const ParameterShare &share) {
  Sharded &result = unit.result;
  unsigned index = cast<BlockArgument>(parameter).getArgNumber();
  BlockArgument argument = result.function.getArgument(index);
  Type type =
      nn::getShareType(cast<RankedTensorType>(parameter.getType()), share);
  bool isFirst = this == unit.positions.front().get();
  if (share.kind == ParameterShare::Slice && !isFirst) {
    result.others.push_back({index, share});
    return result.function.front().addArgument(type, argument.getLoc());
  }
  if (isFirst) {
    result.parameters[index] = share;
    argument.setType(type);
  }
  if (share.kind != ParameterShare::First || group.getPosition() == 0)
    return argument;
  if (isFirst)
    result.dropped.set(index);
  return {};
}

ModelSharding::Unit::Unit(ModelSharding &model, func::CallOp call,
                          func::FuncOp old, OpBuilder &builder)
    : model(model), call(call), old(old), builder(builder) {
  for (const nn::TensorGroup &group : model.groups)
    positions.push_back(std::make_unique<Position>(*this, group));
}

std::optional<Ranges> ModelSharding::Unit::findSplit(Value argument) {
  return positions.front()->findSplit(argument);
}

/// Op by op, each at all positions, so that sums find their addends.
LogicalResult ModelSharding::Unit::shardOps() {
  Block &block = result.function.front();
  for (auto [index, argument] : llvm::enumerate(old.getArguments())) {
    Layout layout = model.layouts.lookup(call.getOperand(index));
    result.arguments.push_back(layout);
    if (old.getArgAttr(index, nn::kParameterAttr))
      continue;
    block.getArgument(index).setType(call.getOperand(index).getType());
    for (std::unique_ptr<Position> &position : positions)
      position->set(argument, block.getArgument(index), layout);
  }
  for (Operation &op : old.front().without_terminator()) {
    auto parallel = dyn_cast<nn::TensorParallelOpInterface>(op);
    if (!parallel)
      return op.emitOpError("is in a unit that devices share, but does not say "
                            "how it is divided (TensorParallelOpInterface)");
    for (std::unique_ptr<Position> &position : positions)
      if (failed(parallel.shard(*position)) || position->hasFailed())
        return failure();
  }
  return success();
}

FailureOr<SmallVector<Value>> ModelSharding::Unit::getReturned() {
  SmallVector<Value> returned;
  Position &first = *positions.front();
  for (Value value : old.front().getTerminator()->getOperands()) {
    // Between units, nothing is left to be added up.
    if (first.getLayout(value).kind == Layout::Partial &&
        !first.getTokens(value))
      return failure();
    returned.push_back(first.get(value));
    result.results.push_back(first.getLayout(value));
  }
  return returned;
}

FailureOr<ModelSharding::Sharded> ModelSharding::Unit::run() {
  unsigned count = old.getNumArguments();
  result.parameters.resize(count);
  result.dropped.resize(count);
  result.function = func::FuncOp::create(old.getLoc(), old.getSymName(),
                                         old.getFunctionType());
  OwningOpRef<func::FuncOp> owner(result.function);
  result.function->setAttrs(old->getAttrs());
  builder.setInsertionPointToStart(result.function.addEntryBlock());
  if (failed(shardOps()))
    return failure();
  FailureOr<SmallVector<Value>> returned = getReturned();
  if (failed(returned))
    return failure();
  func::ReturnOp::create(builder, old.front().getTerminator()->getLoc(),
                         *returned);
  SmallVector<DictionaryAttr> attributes;
  old.getAllArgAttrs(attributes);
  for (const Sharded::Other &other : result.others)
    attributes.push_back(attributes[other.index]);
  result.function.setFunctionType(
      builder.getFunctionType(result.function.front().getArgumentTypes(),
                              ValueRange(*returned).getTypes()));
  result.function.setAllArgAttrs(attributes);
  result.dropped.resize(attributes.size());
  if (failed(result.function.eraseArguments(result.dropped)))
    return failure();
  // What is computed token by token is the same at all positions.
  if (model.joinsParts()) {
    IRRewriter rewriter(builder.getContext());
    DominanceInfo dominance(result.function);
    eliminateCommonSubExpressions(rewriter, dominance, result.function);
  }
  owner.release();
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

// Where it can be, moments in blocks are divided between blocks.
ModelSharding::ModelSharding(ModuleOp module, ArrayRef<int64_t> parts,
                             int64_t position)
    : module(module), isJoining(position == int64_t(parts.size())) {
  int64_t block = zero::getStateBits(module) ? POPLAR_STATE_BLOCK : 1;
  for (int64_t own = isJoining ? 0 : position;
       own < (isJoining ? position : position + 1); ++own)
    groups.push_back(nn::TensorGroup(parts, own, block));
}

Type ModelSharding::getTokensType(Type type) const {
  if (joinsParts())
    return type;
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  auto [begin, end] = groups.front().getRange(tokens);
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
                                               unsigned index) {
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
LogicalResult ModelSharding::takeParameter(nn::GetParameterOp get,
                                           const ParameterShare &share) {
  auto [entry, isNew] = shares.insert({get.getParameterAttr().getAttr(), {}});
  if (isNew)
    entry->second.push_back(share);
  else if (!(entry->second.front() == share))
    return get.emitOpError(
        "has uses in shared units that need different splits");
  reads[get] = share;
  if (share.kind == ParameterShare::Slice)
    get.getValue().setType(nn::getShareType(get.getValue().getType(), share));
  return success();
}

/// The share of a position behind the first one, where the device has all.
Value ModelSharding::takeOther(nn::GetParameterOp get,
                               const ParameterShare &share) {
  StringAttr name = get.getParameterAttr().getAttr();
  OpBuilder builder(get);
  auto parameter = module.lookupSymbol<nn::ParameterOp>(name);
  auto type = cast<RankedTensorType>(parameter.getType());
  if (!nn::isQuantized(type))
    type = type.clone(get.getValue().getType().getElementType());
  auto other = nn::GetParameterOp::create(builder, get.getLoc(),
                                          nn::getShareType(type, share), name);
  reads[other] = share;
  SmallVectorImpl<ParameterShare> &known = shares.find(name)->second;
  if (!llvm::is_contained(known, share))
    known.push_back(share);
  return other;
}

/// Whether a unit makes logits, which may be as wide as activations: what the
/// loss reads, which has no parameters.
static bool makesLogits(func::CallOp call) {
  return llvm::any_of(call->getUsers(), [](Operation *user) {
    return isa<func::CallOp>(user) &&
           llvm::none_of(user->getOperands(), [](Value operand) {
             return operand.getDefiningOp<nn::GetParameterOp>();
           });
  });
}

/// A device that computes whole units takes layers in parts. What is before and
/// behind them is divided by the vocabulary, whose rows lie one behind the
/// other.
LogicalResult ModelSharding::shardCall(func::CallOp call) {
  if (joinsParts() && (!getTaken(call) || makesLogits(call))) {
    for (Value result : call.getResults())
      if (auto type = cast<RankedTensorType>(result.getType());
          type.getRank() == 3 && isa<FloatType>(type.getElementType()))
        layouts[result] = {Layout::Tokens, {}};
    for (Value operand : call.getOperands())
      if (auto get = operand.getDefiningOp<nn::GetParameterOp>();
          get && failed(takeParameter(get, {})))
        return failure();
    return success();
  }
  // Shared values are changed once, by their first reader.
  FailureOr<const Sharded *> unit = shardUnit(call);
  if (failed(unit))
    return failure();
  SmallVector<Value> operands;
  for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
    auto get = operand.getDefiningOp<nn::GetParameterOp>();
    if (get && layouts.try_emplace(operand).second &&
        failed(takeParameter(get, (*unit)->parameters[index])))
      return failure();
    if (!(*unit)->dropped.test(index))
      operands.push_back(operand);
  }
  for (const Sharded::Other &other : (*unit)->others)
    operands.push_back(takeOther(
        call.getOperand(other.index).getDefiningOp<nn::GetParameterOp>(),
        other.share));
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
  if (int64_t size = groups.front().size(); tokens < size)
    return model.emitOpError("has ")
           << tokens << " tokens a sample, fewer than the " << size
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
    for (Value operand : joinsParts() ? ValueRange() : op.getOperands())
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
