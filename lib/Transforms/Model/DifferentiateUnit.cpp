//===- DifferentiateUnit.cpp - Forward and backward of a unit -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reverse pass is appended to a clone of the unit, where it may read every
// value of the forward pass. What it does read decides the cut: the policy says
// which of these values cross it as residuals, and the ops that make the others
// are cloned in front of the reverse pass.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Model/DifferentiateUnit.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

void poplar::eraseDeadOps(Block &block) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(block.getOperations())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// Functions alone call units: what else is in a module may be as long as its
/// cluster, and is not walked.
void poplar::eraseUnusedUnits(ModuleOp module) {
  llvm::DenseSet<StringAttr> used;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto uses = SymbolTable::getSymbolUses(function.getOperation());
    assert(uses && "functions have no unknown symbol tables");
    for (SymbolTable::SymbolUse use : *uses)
      used.insert(use.getSymbolRef().getRootReference());
  }
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function.isPrivate() && function->hasAttr(nn::kUnitAttr) &&
        !used.contains(function.getSymNameAttr()))
      function.erase();
}

static bool isDifferentiable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

static bool isParameter(func::FuncOp unit, unsigned index) {
  return unit.getArgAttr(index, kParameterAttr) != nullptr;
}

/// Everything `op` reads, in its regions too.
static llvm::SetVector<Value> getReadValues(Operation *op) {
  llvm::SetVector<Value> values;
  values.insert(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), values);
  return values;
}

namespace {
class UnitDifferentiation {
public:
  UnitDifferentiation(func::FuncOp unit, func::FuncOp work,
                      const Differentiation &how)
      : unit(unit), work(work), how(how), body(work.front()),
        numArguments(unit.getNumArguments()),
        chunkBytes(nn::getChunkBytes(unit)) {}

  /// Appends the reverse pass to the clone `work`.
  LogicalResult buildReverse();
  /// Divides what the reverse pass reads in residuals, arguments and ops to
  /// run again.
  void chooseResiduals();
  func::FuncOp buildBackward();
  /// Makes @f.forward of the clone, which loses its reverse pass.
  func::FuncOp buildForward();

  DifferentiatedUnit takeInfo() { return std::move(info); }

private:
  bool isReverse(Operation *op) const { return reverseOps.contains(op); }
  /// Whether the results of a forward op may be residuals: all or none.
  bool canKeep(Operation *op) const;
  /// Whether a value is too large to be whole in memory.
  bool isChunked(Value value) const {
    return chunkBytes &&
           exec::getBufferSize(value.getType()).bytes > *chunkBytes;
  }

  func::FuncOp unit, work;
  const Differentiation &how;
  Block &body;
  unsigned numArguments;
  std::optional<int64_t> chunkBytes;
  DifferentiatedUnit info;

  /// Results of the unit, in the clone.
  SmallVector<Value> results;
  /// What @f.backward returns: cotangents, then running gradients.
  SmallVector<Value> gradients;
  llvm::DenseSet<Operation *> reverseOps;
  /// Values that depend on an activation; the others, made of parameters and
  /// constants alone, are never residuals: their inputs are at hand.
  llvm::DenseSet<Value> batchDependent;

  SmallVector<Value> residuals;
  llvm::DenseSet<Operation *> recomputed;
};
} // namespace

LogicalResult UnitDifferentiation::buildReverse() {
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  Gradients grads(builder);
  llvm::append_range(results, body.getTerminator()->getOperands());
  body.getTerminator()->erase();

  SmallVector<Operation *> forwardOps;
  for (Operation &op : body)
    forwardOps.push_back(&op);
  for (unsigned i = 0; i != numArguments; ++i) {
    if (!isDifferentiable(body.getArgument(i).getType()) || how.frozen[i])
      continue;
    grads.setNeeded(body.getArgument(i));
    (isParameter(unit, i) ? info.parameters : info.activations).push_back(i);
  }
  for (Operation *op : forwardOps)
    grads.propagateNeeded(op);

  for (auto [index, result] : llvm::enumerate(results)) {
    if (!isDifferentiable(result.getType()))
      continue;
    info.cotangentResults.push_back(index);
    grads.add(result, body.addArgument(result.getType(), result.getLoc()));
  }
  for (unsigned parameter : info.parameters) {
    Value value = body.getArgument(parameter);
    auto type = cast<RankedTensorType>(value.getType());
    grads.setAccumulator(
        value,
        body.addArgument(type.clone(builder.getF32Type()), value.getLoc()));
  }
  for (Operation *op : llvm::reverse(forwardOps))
    if (failed(buildVJP(op, builder, grads)))
      return failure();

  // An activation that influences nothing has no cotangent to return.
  llvm::erase_if(info.activations, [&](unsigned index) {
    return !grads.cotangent(body.getArgument(index));
  });
  for (unsigned index : info.activations)
    gradients.push_back(grads.cotangent(body.getArgument(index)));
  for (unsigned index : info.parameters)
    gradients.push_back(grads.accumulator(body.getArgument(index)));

  // The terminator holds all that either function returns while dead ops go.
  SmallVector<Value> returned(results);
  llvm::append_range(returned, gradients);
  func::ReturnOp::create(builder, unit.getLoc(), returned);
  llvm::DenseSet<Operation *> isForward(forwardOps.begin(), forwardOps.end());
  eraseDeadOps(body);
  for (Operation &op : body.without_terminator())
    if (!isForward.contains(&op))
      reverseOps.insert(&op);

  for (unsigned i = 0; i != numArguments; ++i)
    if (!isParameter(unit, i))
      batchDependent.insert(body.getArgument(i));
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(getReadValues(&op), [&](Value value) {
          return batchDependent.contains(value);
        }))
      batchDependent.insert(op.result_begin(), op.result_end());
  return success();
}

bool UnitDifferentiation::canKeep(Operation *op) const {
  for (Value result : op->getResults())
    if (!isa<RankedTensorType>(result.getType()) ||
        !batchDependent.contains(result))
      return false;
  // Only a shape: its size may depend on the batch, its elements do not.
  if (isa<tensor::EmptyOp, linalg::FillOp>(op))
    return false;
  auto isLarge = [&](Value value) { return isChunked(value); };
  if (llvm::any_of(op->getResults(), isLarge))
    return false;
  // They are not made again for what is small, such as statistics of logits.
  if (llvm::any_of(op->getOperands(), isLarge))
    return true;
  switch (how.policy) {
  case RecomputePolicy::Keep:
    return true;
  case RecomputePolicy::Attention: {
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    return !differentiable || !differentiable.isRecomputedWithAttention();
  }
  case RecomputePolicy::Unit:
    return false;
  }
  llvm_unreachable("every policy returns");
}

void UnitDifferentiation::chooseResiduals() {
  llvm::SetVector<Value> read;
  for (Operation &op : body)
    if (isReverse(&op)) {
      llvm::SetVector<Value> values = getReadValues(&op);
      read.insert(values.begin(), values.end());
    }
  read.insert(gradients.begin(), gradients.end());

  llvm::DenseSet<Value> kept, passed;
  // `read` grows while ops to recompute are found.
  for (unsigned i = 0; i != read.size(); ++i) {
    Value value = read[i];
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      passed.insert(argument);
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (op->getBlock() != &body || isReverse(op))
      continue;
    if (canKeep(op)) {
      kept.insert(value);
      continue;
    }
    recomputed.insert(op);
    llvm::SetVector<Value> values = getReadValues(op);
    read.insert(values.begin(), values.end());
  }

  bool passesFrozen = how.passesFrozen && !gradients.empty();
  for (unsigned i = 0; i != numArguments; ++i)
    if (passed.contains(body.getArgument(i)) || (passesFrozen && how.frozen[i]))
      info.passedArguments.push_back(i);
  unsigned numReturned = results.size();
  for (Operation &op : body)
    for (Value value : op.getResults()) {
      if (!kept.contains(value))
        continue;
      residuals.push_back(value);
      auto *result = llvm::find(results, value);
      info.residuals.push_back(result != results.end()
                                   ? std::distance(results.begin(), result)
                                   : numReturned++);
    }
}

func::FuncOp UnitDifferentiation::buildBackward() {
  OpBuilder builder(unit.getContext());
  auto function = func::FuncOp::create(
      unit.getLoc(), (unit.getSymName() + how.suffix + ".backward").str(),
      builder.getFunctionType({}, ValueRange(gradients).getTypes()));
  function.setPrivate();
  function->setAttr(kUnitAttr, builder.getUnitAttr());
  if (chunkBytes)
    function->setAttr(kChunkBytesAttr, builder.getI64IntegerAttr(*chunkBytes));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);

  IRMapping mapping;
  SmallVector<Attribute> attributes;
  auto addArgument = [&](Value value, StringRef attribute) {
    mapping.map(value, block->addArgument(value.getType(), value.getLoc()));
    attributes.push_back(attribute.empty()
                             ? builder.getDictionaryAttr({})
                             : builder.getDictionaryAttr(builder.getNamedAttr(
                                   attribute, builder.getUnitAttr())));
  };
  for (Value residual : residuals)
    addArgument(residual, "");
  for (unsigned index : info.passedArguments)
    addArgument(body.getArgument(index),
                isParameter(unit, index) ? StringRef(kParameterAttr) : "");
  unsigned numCotangents = info.cotangentResults.size();
  for (auto [index, argument] :
       llvm::enumerate(body.getArguments().drop_front(numArguments)))
    addArgument(argument,
                index < numCotangents ? "" : StringRef(kGradientAttr));
  function.setType(builder.getFunctionType(block->getArgumentTypes(),
                                           ValueRange(gradients).getTypes()));
  function.setAllArgAttrs(attributes);

  for (Operation &op : body)
    if (recomputed.contains(&op))
      builder.clone(op, mapping);
  for (Operation &op : body)
    if (isReverse(&op))
      builder.clone(op, mapping);
  SmallVector<Value> returned;
  for (Value gradient : gradients)
    returned.push_back(mapping.lookup(gradient));
  func::ReturnOp::create(builder, unit.getLoc(), returned);
  info.backward = function;
  return function;
}

func::FuncOp UnitDifferentiation::buildForward() {
  OpBuilder builder(body.getTerminator());
  SmallVector<Value> returned(results);
  for (auto [residual, index] : llvm::zip_equal(residuals, info.residuals))
    if (index >= results.size())
      returned.push_back(residual);
  func::ReturnOp::create(builder, unit.getLoc(), returned);
  body.getTerminator()->erase();
  eraseDeadOps(body);
  body.eraseArguments(numArguments, body.getNumArguments() - numArguments);
  work.setType(builder.getFunctionType(body.getArgumentTypes(),
                                       ValueRange(returned).getTypes()));
  work.setSymName((unit.getSymName() + how.suffix + ".forward").str());
  work.setPrivate();
  work.removeResAttrsAttr();
  info.forward = work;
  return work;
}

FailureOr<DifferentiatedUnit>
poplar::differentiateUnit(func::FuncOp unit, SymbolTable &symbols,
                          const Differentiation &how) {
  for (StringRef suffix : {".forward", ".backward"})
    if (symbols.lookup((unit.getSymName() + how.suffix + suffix).str()))
      return unit.emitOpError("cannot be differentiated: there is a symbol @")
             << unit.getSymName() << how.suffix << suffix << " already";
  OwningOpRef<func::FuncOp> work = unit.clone();
  UnitDifferentiation differentiation(unit, *work, how);
  if (failed(differentiation.buildReverse()))
    return failure();
  differentiation.chooseResiduals();
  Block::iterator position = std::next(unit->getIterator());
  func::FuncOp backward = differentiation.buildBackward();
  differentiation.buildForward();
  symbols.insert(work.release(), position);
  symbols.insert(backward, position);
  return differentiation.takeInfo();
}

Value poplar::getUpdatedGradient(OpOperand &operand,
                                 SymbolTableCollection &symbols) {
  auto call = dyn_cast<func::CallOp>(operand.getOwner());
  if (!call)
    return {};
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  // They are its last results, in the order of the arguments.
  SmallVector<unsigned> gradients;
  for (unsigned i = 0, e = callee.getNumArguments(); i < e; ++i)
    if (callee.getArgAttr(i, nn::kGradientAttr))
      gradients.push_back(i);
  auto *found = llvm::find(gradients, operand.getOperandNumber());
  if (found == gradients.end())
    return {};
  return call.getResult(call.getNumResults() -
                        std::distance(found, gradients.end()));
}

llvm::DenseMap<Value, StringAttr>
poplar::findRunningGradients(func::FuncOp function,
                             SymbolTableCollection &symbols) {
  llvm::DenseMap<Value, StringAttr> gradients;
  for (auto get : function.getOps<nn::GetGradientOp>())
    gradients[get.getValue()] = get.getParameterAttr().getAttr();
  for (Operation &op : function.front())
    for (OpOperand &operand : op.getOpOperands())
      if (gradients.contains(operand.get()))
        if (Value updated = getUpdatedGradient(operand, symbols))
          gradients[updated] = gradients.lookup(operand.get());
  return gradients;
}
