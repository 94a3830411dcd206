//===- LinalgDifferentiation.cpp - Reverse mode of linalg.generic ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op computes, at every point of its iteration domain, a scalar function f
// of the elements its maps select, and either stores it (elementwise) or adds
// it to its output (sum reduction). With dy the cotangent of the output,
//
//   dx[map_x(i)] += dy[map_y(i)] * df/dx(i)     for every point i
//
// is again such an op on the same domain: what x was broadcast along is summed,
// what was summed is broadcast. One op is built per operand that needs it.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "ScalarReverse.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace poplar::nn;

/// For output `index` of a sum reduction, the scalar that is added to it; null
/// if the body does anything else with the output.
static Value getSummand(linalg::GenericOp op, unsigned index) {
  BlockArgument output = op.getRegionOutputArgs()[index];
  auto add = op.getBody()
                 ->getTerminator()
                 ->getOperand(index)
                 .getDefiningOp<arith::AddFOp>();
  if (!add || !output.hasOneUse() || !add->hasOneUse() ||
      *output.user_begin() != add)
    return {};
  return add.getLhs() == output ? add.getRhs() : add.getLhs();
}

/// The result holds every point of the domain, so nothing is summed into it.
static bool isElementwise(linalg::GenericOp op, unsigned index) {
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(index));
  return map.getNumResults() == op.getNumLoops();
}

/// Refuses what the file comment's formula does not cover.
static LogicalResult checkSupported(linalg::GenericOp op,
                                    const Gradients &grads) {
  if (!op.hasPureTensorSemantics())
    return op.emitOpError(
        "has no derivative: its operands are not all tensors");
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (grads.isNeeded(operand.get()) && !map.isProjectedPermutation())
      return op.emitOpError("has no derivative: the indexing map of operand ")
             << operand.getOperandNumber() << " is not a projected permutation";
    if (grads.isNeeded(operand.get()) &&
        !isa<RankedTensorType>(operand.get().getType()))
      return op.emitOpError("has no derivative: operand ")
             << operand.getOperandNumber() << " is a scalar that needs one";
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    if (!grads.cotangent(result))
      continue;
    AffineMap map = op.getIndexingMapMatchingResult(cast<OpResult>(result));
    if (!map.isProjectedPermutation())
      return op.emitOpError("has no derivative: the indexing map of result ")
             << index << " is not a projected permutation";
    if (!isElementwise(op, index) && !getSummand(op, index))
      return op.emitOpError("has no derivative: result ")
             << index
             << " is reduced by something else than adding to it "
                "(only sums are supported)";
  }
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  for (Value value : captured)
    if (grads.isNeeded(value))
      return op.emitOpError("has no derivative: its body captures a value that "
                            "needs one");
  return success();
}

namespace {
/// Builds the op that yields the cotangent of one operand of `op`.
class OperandVJP {
public:
  OperandVJP(linalg::GenericOp op, OpOperand &operand, OpBuilder &builder,
             Gradients &grads)
      : op(op), operand(operand), map(op.getMatchingIndexingMap(&operand)),
        builder(builder), grads(grads), loc(op.getLoc()) {}

  LogicalResult build();

private:
  /// Something the new op may read.
  struct Input {
    Value value;
    AffineMap map;
    BlockArgument scalar;
    bool chosen = false;
  };

  /// Clones the body into `scratch`, with one argument per possible input, and
  /// appends its reverse. Returns the adjoint of the operand, null if it
  /// influences nothing.
  FailureOr<Value> buildBody();
  /// Chooses the inputs that the adjoint reads or that are needed to know the
  /// extent of a loop: each one more may be one more residual.
  void chooseInputs(Value adjoint);
  Value getInit(RankedTensorType type, bool zeroed);
  Value convert(OpBuilder &builder, Value scalar, Type type);

  linalg::GenericOp op;
  OpOperand &operand;
  AffineMap map;
  OpBuilder &builder;
  Gradients &grads;
  Location loc;
  SmallVector<Input> inputs;
  Block scratch;
};
} // namespace

FailureOr<Value> OperandVJP::buildBody() {
  auto addInput = [&](Value value, AffineMap map) {
    BlockArgument scalar =
        scratch.addArgument(getElementTypeOrSelf(value.getType()), loc);
    inputs.push_back({value, map, scalar});
    return scalar;
  };
  IRMapping mapping;
  for (OpOperand &other : op->getOpOperands())
    mapping.map(op.getMatchingBlockArgument(&other),
                addInput(other.get(), op.getMatchingIndexingMap(&other)));

  OpBuilder body(op.getContext());
  body.setInsertionPointToEnd(&scratch);
  ScalarReverse reverse(body, loc,
                        mapping.lookup(op.getMatchingBlockArgument(&operand)));
  SmallVector<Operation *> forward;
  for (Operation &scalarOp : op.getBody()->without_terminator()) {
    forward.push_back(body.clone(scalarOp, mapping));
    reverse.propagateActive(forward.back());
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    Value dy = grads.cotangent(result);
    if (!dy)
      continue;
    Value scalar = isElementwise(op, index)
                       ? op.getBody()->getTerminator()->getOperand(index)
                       : getSummand(op, index);
    reverse.add(mapping.lookupOrDefault(scalar),
                addInput(dy, op.getIndexingMapMatchingResult(result)));
  }
  for (Operation *scalarOp : llvm::reverse(forward))
    if (failed(reverse.reverse(scalarOp)))
      return op.emitOpError("has no derivative: '")
             << scalarOp->getName() << "' in its body has none";

  Value adjoint = reverse.adjoint(inputs[operand.getOperandNumber()].scalar);
  if (!adjoint)
    return Value();
  // What is dead now would keep inputs alive.
  for (Operation &scalarOp :
       llvm::make_early_inc_range(llvm::reverse(scratch.getOperations())))
    if (&scalarOp != adjoint.getDefiningOp() && isOpTriviallyDead(&scalarOp))
      scalarOp.erase();
  return adjoint;
}

void OperandVJP::chooseInputs(Value adjoint) {
  llvm::SmallBitVector known(op.getNumLoops());
  auto know = [&](AffineMap map) {
    for (AffineExpr expr : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        known.set(dim.getPosition());
  };
  know(map);
  for (Input &input : inputs)
    if ((input.chosen = input.scalar == adjoint || !input.scalar.use_empty()))
      know(input.map);
  for (unsigned loop = 0, end = op.getNumLoops(); loop != end; ++loop) {
    if (known[loop])
      continue;
    // Cotangents, which come last, exist anyway.
    for (Input &input : llvm::reverse(inputs)) {
      if (!input.map.isFunctionOfDim(loop) ||
          !input.map.isProjectedPermutation())
        continue;
      input.chosen = true;
      know(input.map);
      break;
    }
  }
}

Value OperandVJP::getInit(RankedTensorType type, bool zeroed) {
  SmallVector<Value> sizes;
  for (int64_t dim = 0, rank = type.getRank(); dim != rank; ++dim) {
    if (!type.isDynamicDim(dim))
      continue;
    // The operand itself is the last resort: asking for its size would make a
    // residual of it.
    Value source = operand.get();
    unsigned position = dim;
    for (Input &input : inputs) {
      auto found = input.map.getResultPosition(map.getResult(dim));
      if (!input.chosen || !found)
        continue;
      source = input.value;
      position = *found;
    }
    sizes.push_back(tensor::DimOp::create(builder, loc, source, position));
  }
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType(), sizes);
  if (!zeroed)
    return empty;
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getFloatAttr(type.getElementType(), 0.0));
  return linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
}

Value OperandVJP::convert(OpBuilder &builder, Value scalar, Type type) {
  unsigned from = scalar.getType().getIntOrFloatBitWidth();
  unsigned to = type.getIntOrFloatBitWidth();
  if (from < to)
    return arith::ExtFOp::create(builder, loc, type, scalar);
  if (from > to)
    return arith::TruncFOp::create(builder, loc, type, scalar);
  return scalar;
}

LogicalResult OperandVJP::build() {
  FailureOr<Value> adjoint = buildBody();
  if (failed(adjoint))
    return failure();
  if (!*adjoint)
    return success();
  // dx is dy where the op just passes x on (x + f(y), say).
  auto operandType = cast<RankedTensorType>(operand.get().getType());
  for (const Input &input : inputs)
    if (input.scalar == *adjoint && input.map == map &&
        input.value.getType() == operandType) {
      grads.add(operand.get(), input.value);
      return success();
    }
  chooseInputs(*adjoint);

  // Sums are formed in f32. A parameter's begins with its running gradient.
  bool sums = map.getNumResults() != op.getNumLoops();
  Value init = grads.accumulator(operand.get());
  bool intoRunning = static_cast<bool>(init);
  if (!init) {
    Type elementType = sums && operandType.getElementTypeBitWidth() < 32
                           ? builder.getF32Type()
                           : operandType.getElementType();
    init = getInit(operandType.clone(elementType), /*zeroed=*/sums);
  }

  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  SmallVector<BlockArgument> scalars;
  for (Input &input : inputs) {
    if (!input.chosen)
      continue;
    values.push_back(input.value);
    maps.push_back(input.map);
    scalars.push_back(input.scalar);
  }
  maps.push_back(map);
  SmallVector<utils::IteratorType> iterators;
  for (unsigned loop = 0, end = op.getNumLoops(); loop != end; ++loop)
    iterators.push_back(map.isFunctionOfDim(loop)
                            ? utils::IteratorType::parallel
                            : utils::IteratorType::reduction);
  auto gradient = linalg::GenericOp::create(
      builder, loc, init.getType(), values, init, maps, iterators,
      [&](OpBuilder &body, Location, ValueRange arguments) {
        IRMapping mapping;
        for (auto [from, to] : llvm::zip_equal(scalars, arguments.drop_back()))
          mapping.map(from, to);
        for (Operation &scalarOp : scratch)
          body.clone(scalarOp, mapping);
        Value sum = arguments.back();
        Value yielded =
            convert(body, mapping.lookupOrDefault(*adjoint), sum.getType());
        if (sums || intoRunning)
          yielded = arith::AddFOp::create(body, loc, sum, yielded);
        linalg::YieldOp::create(body, loc, yielded);
      });
  Value result = gradient.getResult(0);
  if (intoRunning) {
    grads.setAccumulator(operand.get(), result);
    return success();
  }
  if (result.getType() != operandType)
    result = CastOp::create(builder, loc, operandType, result);
  grads.add(operand.get(), result);
  return success();
}

LogicalResult poplar::nn::buildLinalgVJP(linalg::GenericOp op,
                                         OpBuilder &builder, Gradients &grads) {
  if (failed(checkSupported(op, grads)))
    return failure();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!grads.isNeeded(operand.get()))
      continue;
    if (op.isDpsInit(&operand)) {
      OpResult result = op.getTiedOpResult(&operand);
      Value dy = grads.cotangent(result);
      // What a sum starts from.
      if (!isElementwise(op, result.getResultNumber())) {
        if (dy)
          grads.add(operand.get(), dy);
        continue;
      }
    }
    if (failed(OperandVJP(op, operand, builder, grads).build()))
      return failure();
  }
  return success();
}
