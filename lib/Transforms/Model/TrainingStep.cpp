//===- TrainingStep.cpp - @train, @evaluate and @infer --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingStep.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

//===----------------------------------------------------------------------===//
// @train
//===----------------------------------------------------------------------===//

namespace {
class TrainBuilder {
public:
  TrainBuilder(func::FuncOp model, SymbolTable &symbols,
               DifferentiatedUnits &units)
      : model(model), symbols(symbols), units(units),
        builder(model.getContext()), grads(builder) {}

  LogicalResult build();

private:
  LogicalResult buildForward(Operation &op);
  LogicalResult buildBackward(Operation *op);
  LogicalResult buildBackwardCall(func::CallOp forward, func::CallOp original);
  /// Reads and writes every running gradient where its chain begins and ends.
  void placeGradients();

  func::FuncOp model;
  SymbolTable &symbols;
  DifferentiatedUnits &units;
  OpBuilder builder;
  Gradients grads;

  IRMapping mapping;
  /// The ops of @train's forward part, and the call of @model each call of a
  /// @f.forward stands for.
  SmallVector<Operation *> forwardOps;
  llvm::DenseMap<Operation *, func::CallOp> originals;
  /// The one read of every parameter, by name.
  llvm::MapVector<StringAttr, GetParameterOp> parameters;
  /// The running gradient of each that is trained.
  SmallVector<std::pair<GetParameterOp, GetGradientOp>> gradientReads;
};
} // namespace

LogicalResult TrainBuilder::buildForward(Operation &op) {
  // One value per parameter, so that all uses of a tied one meet.
  if (auto get = dyn_cast<GetParameterOp>(op)) {
    GetParameterOp &known = parameters[get.getParameterAttr().getAttr()];
    if (!known) {
      known = cast<GetParameterOp>(builder.clone(op, mapping));
      auto parameter = symbols.lookup<ParameterOp>(get.getParameter());
      if (!parameter.getFrozen())
        grads.setNeeded(known);
      return success();
    }
    if (known.getType() != get.getType())
      return get.emitOpError("reads the parameter as ")
             << get.getType() << ", but elsewhere it is read as "
             << known.getType();
    mapping.map(get.getValue(), known.getValue());
    return success();
  }
  auto call = dyn_cast<func::CallOp>(op);
  if (!call) {
    forwardOps.push_back(builder.clone(op, mapping));
    grads.propagateNeeded(forwardOps.back());
    // Whoever has sent it wants its gradient.
    if (auto receive = dyn_cast<zero::ReceiveOp>(forwardOps.back()))
      grads.setNeeded(receive.getValue());
    return success();
  }
  SmallVector<Value> operands;
  for (Value operand : call.getOperands())
    operands.push_back(mapping.lookup(operand));
  auto forward = func::CallOp::create(builder, call.getLoc(),
                                      units[call].forward, operands);
  for (auto [from, to] : llvm::zip(call.getResults(), forward.getResults()))
    mapping.map(from, to);
  forwardOps.push_back(forward);
  originals[forward] = call;
  grads.propagateNeeded(forward);
  return success();
}

LogicalResult TrainBuilder::buildBackwardCall(func::CallOp forward,
                                              func::CallOp original) {
  // A unit of frozen parameters alone, in front of all that is trained.
  if (llvm::none_of(forward.getResults(),
                    [&](Value result) { return grads.isNeeded(result); }))
    return success();
  const DifferentiatedUnit &unit = units[original];
  SmallVector<Value> operands;
  for (unsigned index : unit.residuals)
    operands.push_back(forward.getResult(index));
  for (unsigned index : unit.passedArguments)
    operands.push_back(forward.getOperand(index));
  for (unsigned index : unit.cotangentResults) {
    Value cotangent = grads.cotangent(forward.getResult(index));
    if (!cotangent)
      return original.emitOpError("cannot be differentiated: result ")
             << index << " of @" << original.getCallee()
             << " does not influence the loss";
    operands.push_back(cotangent);
  }
  llvm::DenseSet<Value> seen;
  for (unsigned index : unit.parameters) {
    Value parameter = forward.getOperand(index);
    Value gradient = grads.accumulator(parameter);
    if (!gradient)
      return original.emitOpError("expected operand ")
             << index << " to be a parameter, as argument " << index << " of @"
             << original.getCallee() << " is";
    if (!seen.insert(gradient).second)
      return original.emitOpError("passes one parameter to two arguments of @")
             << original.getCallee()
             << ", which would both update its gradient in place";
    operands.push_back(gradient);
  }

  auto backward =
      func::CallOp::create(builder, original.getLoc(), unit.backward, operands);
  unsigned next = 0;
  for (unsigned index : unit.activations)
    grads.add(forward.getOperand(index), backward.getResult(next++));
  for (unsigned index : unit.parameters)
    grads.setAccumulator(forward.getOperand(index), backward.getResult(next++));
  return success();
}

LogicalResult TrainBuilder::buildBackward(Operation *op) {
  if (func::CallOp original = originals.lookup(op))
    return buildBackwardCall(cast<func::CallOp>(op), original);
  return buildVJP(op, builder, grads);
}

void TrainBuilder::placeGradients() {
  for (auto [parameter, read] : gradientReads) {
    Value sum = grads.accumulator(parameter.getValue());
    if (sum == read.getValue()) {
      read.erase();
      continue;
    }
    Operation *first = nullptr;
    for (Operation *user : read->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    read->moveBefore(first);
    // As soon as the sum is complete, so that it may be reduced over the ranks
    // while the backward pass goes on.
    builder.setInsertionPointAfterValue(sum);
    SetGradientOp::create(builder, read.getLoc(), read.getParameterAttr(), sum);
  }
}

LogicalResult TrainBuilder::build() {
  FunctionType type = model.getFunctionType();
  // The loss, but in a pipeline stage before the last.
  TypeRange outputs = type.getResults();
  SmallVector<Type> inputs(type.getInputs());
  llvm::append_range(inputs, outputs);
  Location loc = model.getLoc();
  OwningOpRef<func::FuncOp> train = func::FuncOp::create(
      loc, getName(Entry::Train), builder.getFunctionType(inputs, outputs));
  Block *block = train->addEntryBlock();
  mapping.map(model.getArguments(),
              train->getArguments().take_front(type.getNumInputs()));
  builder.setInsertionPointToStart(block);

  for (Operation &op : model.front().without_terminator())
    if (failed(buildForward(op)))
      return failure();
  SmallVector<Value> results;
  for (Value result : model.front().getTerminator()->getOperands())
    results.push_back(mapping.lookup(result));
  auto returnOp = func::ReturnOp::create(builder, loc, results);
  builder.setInsertionPoint(returnOp);

  for (Value loss : results)
    grads.add(loss, train->getArguments().back());
  for (auto &[name, parameter] : parameters) {
    if (!grads.isNeeded(parameter))
      continue;
    auto tensor = cast<RankedTensorType>(parameter.getType());
    auto read = GetGradientOp::create(builder, parameter.getLoc(),
                                      tensor.clone(builder.getF32Type()),
                                      FlatSymbolRefAttr::get(name));
    gradientReads.push_back({parameter, read});
    grads.setAccumulator(parameter, read);
  }
  for (Operation *op : llvm::reverse(forwardOps))
    if (failed(buildBackward(op)))
      return failure();
  placeGradients();
  eraseDeadOps(*block);
  symbols.insert(train.release(), std::next(model->getIterator()));
  return success();
}

LogicalResult poplar::buildTrain(func::FuncOp model, SymbolTable &symbols,
                                 DifferentiatedUnits &units) {
  return TrainBuilder(model, symbols, units).build();
}

//===----------------------------------------------------------------------===//
// @evaluate and @infer
//===----------------------------------------------------------------------===//

namespace {
/// Clones of units without dropout, made when first asked for.
class InferenceUnits {
public:
  explicit InferenceUnits(SymbolTable &symbols) : symbols(symbols) {}

  struct Unit {
    func::FuncOp function;
    /// Arguments of the original that the function has, too.
    llvm::BitVector arguments;
  };
  FailureOr<Unit> get(func::FuncOp unit);

private:
  SymbolTable &symbols;
  llvm::DenseMap<Operation *, Unit> made;
};
} // namespace

static bool isRandom(Operation &op) {
  auto random = dyn_cast<RandomOpInterface>(op);
  return random && random.isRandom();
}

FailureOr<InferenceUnits::Unit> InferenceUnits::get(func::FuncOp unit) {
  auto known = made.find(unit);
  if (known != made.end())
    return known->second;
  llvm::BitVector arguments(unit.getNumArguments(), true);
  // Keys that another device of a shared unit draws with. Of two numbers each,
  // unlike the positions of packed documents, which this device may not read.
  auto isIdle = [&](BlockArgument argument) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    return argument.use_empty() && type && type.getRank() == 2 &&
           type.getElementType().isInteger(32) && type.getDimSize(1) == 2;
  };
  if (llvm::none_of(unit.getOps(), isRandom) &&
      llvm::none_of(unit.getArguments(), isIdle))
    return made[unit] = Unit{unit, arguments};

  std::string name = (unit.getSymName() + ".inference").str();
  if (symbols.lookup(name))
    return unit.emitOpError("holds dropout, but there is a symbol @")
           << name << " already";
  func::FuncOp clone = unit.clone();
  clone.setSymName(name);
  for (auto random :
       llvm::make_early_inc_range(clone.getOps<RandomOpInterface>()))
    random.removeRandomness();
  eraseDeadOps(clone.front());
  for (unsigned i = 0, end = unit.getNumArguments(); i != end; ++i)
    if (clone.getArgument(i).use_empty() &&
        (!unit.getArgument(i).use_empty() || isIdle(unit.getArgument(i))))
      arguments.reset(i);
  if (failed(clone.eraseArguments(llvm::BitVector(arguments).flip())))
    return failure();
  symbols.insert(clone, std::next(unit->getIterator()));
  return made[unit] = Unit{clone, arguments};
}

/// Adds a function that computes `wanted`, a value of @model, from its first
/// `numInputs` arguments; or, if it is null, what @model sends.
static LogicalResult buildInference(func::FuncOp model, Entry entry,
                                    Value wanted, unsigned numInputs,
                                    SymbolTable &symbols,
                                    InferenceUnits &units) {
  OpBuilder builder(model.getContext());
  OwningOpRef<func::FuncOp> function = func::FuncOp::create(
      model.getLoc(), getName(entry),
      builder.getFunctionType(
          model.getFunctionType().getInputs().take_front(numInputs),
          wanted ? TypeRange(wanted.getType()) : TypeRange()));
  Block *block = function->addEntryBlock();
  builder.setInsertionPointToStart(block);
  IRMapping mapping;
  mapping.map(model.getArguments().take_front(numInputs),
              function->getArguments());

  llvm::DenseSet<Value> needed;
  if (wanted)
    needed.insert(wanted);
  llvm::DenseMap<Operation *, InferenceUnits::Unit> callees;
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(model.front().without_terminator())) {
    if (!isa<zero::SendOp>(op) &&
        llvm::none_of(op.getResults(),
                      [&](Value result) { return needed.contains(result); }))
      continue;
    ops.push_back(&op);
    auto call = dyn_cast<func::CallOp>(op);
    if (!call) {
      needed.insert(op.operand_begin(), op.operand_end());
      continue;
    }
    FailureOr<InferenceUnits::Unit> unit =
        units.get(symbols.lookup<func::FuncOp>(call.getCallee()));
    if (failed(unit))
      return failure();
    for (unsigned index : unit->arguments.set_bits())
      needed.insert(call.getOperand(index));
    callees[call] = *unit;
  }
  for (Operation *op : llvm::reverse(ops)) {
    for (Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand))
        if (needed.contains(argument) && argument.getArgNumber() >= numInputs)
          return op->emitOpError("needs argument ")
                 << argument.getArgNumber() << " of @model, which @"
                 << getName(entry) << " does not have";
    auto call = dyn_cast<func::CallOp>(op);
    if (!call) {
      builder.clone(*op, mapping);
      continue;
    }
    const InferenceUnits::Unit &unit = callees[call];
    SmallVector<Value> operands;
    for (unsigned index : unit.arguments.set_bits())
      operands.push_back(mapping.lookup(call.getOperand(index)));
    auto inference =
        func::CallOp::create(builder, call.getLoc(), unit.function, operands);
    mapping.map(call.getResults(), inference.getResults());
  }
  func::ReturnOp::create(builder, model.getLoc(),
                         wanted ? ValueRange(mapping.lookup(wanted))
                                : ValueRange());
  symbols.insert(function.release(), std::next(model->getIterator()));
  return success();
}

/// The logits: the one floating-point value, parameters apart, that meets the
/// targets.
static FailureOr<Value> findLogits(func::FuncOp model) {
  llvm::DenseSet<Value> dependsOnTargets = {model.getArgument(kTargets)},
                        losses;
  llvm::DenseSet<Value> dependsOnIds = {model.getArgument(kIds)};
  for (auto receive : model.getOps<zero::ReceiveOp>())
    dependsOnIds.insert(receive.getValue());
  Value logits;
  for (Operation &op : model.front().without_terminator()) {
    auto reads = [&](const llvm::DenseSet<Value> &values) {
      return llvm::any_of(op.getOperands(), [&](Value operand) {
        return values.contains(operand);
      });
    };
    if (reads(dependsOnIds))
      dependsOnIds.insert(op.result_begin(), op.result_end());
    if (!reads(dependsOnTargets))
      continue;
    bool addsToLoss = reads(losses);
    dependsOnTargets.insert(op.result_begin(), op.result_end());
    losses.insert(op.result_begin(), op.result_end());
    if (addsToLoss)
      continue;
    for (Value operand : op.getOperands()) {
      if (dependsOnTargets.contains(operand) || !dependsOnIds.contains(operand))
        continue;
      if (logits && logits != operand)
        return op.emitOpError("expected the targets to meet one value, the "
                              "logits; this is a second one");
      logits = operand;
    }
  }
  if (!logits || isa<BlockArgument>(logits))
    return model.emitOpError("expected the targets to be compared with logits");
  return logits;
}

LogicalResult poplar::buildInference(func::FuncOp model, func::FuncOp trained,
                                     SymbolTable &symbols) {
  InferenceUnits units(symbols);
  // The last one is needed where there are positions.
  bool isPacked = model.getNumArguments() > kPositions;
  unsigned ofInfer = isPacked ? kPositions + 1 : kIds + 1,
           ofEvaluate = isPacked ? kPositions + 1 : kTargets + 1;
  Operation *end = model.front().getTerminator();
  if (end->getNumOperands() == 0) // a pipeline stage before the last
    return failure(failed(::buildInference(model, Entry::Infer, Value(),
                                           ofInfer, symbols, units)) ||
                   failed(::buildInference(model, Entry::Evaluate, Value(),
                                           ofEvaluate, symbols, units)));
  FailureOr<Value> logits = findLogits(model);
  if (failed(logits))
    return failure();
  // Inserted right after the model: the last one comes first.
  if (failed(::buildInference(model, Entry::Infer, *logits, ofInfer, symbols,
                              units)))
    return failure();
  return ::buildInference(trained, Entry::Evaluate,
                          trained.front().getTerminator()->getOperand(0),
                          ofEvaluate, symbols, units);
}
