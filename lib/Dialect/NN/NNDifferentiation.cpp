//===- NNDifferentiation.cpp - Vector-Jacobian products of nn ops ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace poplar::nn;

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// A working copy of a parameter (in the type of the activations) has the
/// running gradient of the parameter itself.
static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getX();
  return value;
}

static Value castTo(OpBuilder &builder, Location loc, Value value, Type type) {
  if (value.getType() == type)
    return value;
  return CastOp::create(builder, loc, type, value);
}

static RankedTensorType withF32(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.clone(Float32Type::get(type.getContext()));
}

Value Gradients::accumulator(Value value) const {
  return accumulators.lookup(withoutCasts(value));
}

void Gradients::setAccumulator(Value value, Value gradient) {
  accumulators[withoutCasts(value)] = gradient;
}

void Gradients::add(Value value, Value gradient) {
  if (!isNeeded(value))
    return;
  Location loc = gradient.getLoc();
  if (Value acc = accumulator(value)) {
    gradient = castTo(builder, loc, gradient, acc.getType());
    setAccumulator(value,
                   AddOp::create(builder, loc, acc.getType(), acc, gradient));
    return;
  }
  assert(gradient.getType() == value.getType() &&
         "a cotangent has the type of its value");
  Value &cotangent = cotangents[value];
  cotangent = cotangent ? AddOp::create(builder, loc, value.getType(),
                                        cotangent, gradient)
                        : gradient;
}

void Gradients::accumulate(Value value,
                           llvm::function_ref<Value(Value)> addInto) {
  if (!isNeeded(value))
    return;
  if (Value acc = accumulator(value)) {
    setAccumulator(value, addInto(acc));
    return;
  }
  RankedTensorType type = withF32(value.getType());
  Value zero = arith::ConstantOp::create(
      builder, value.getLoc(),
      DenseElementsAttr::get(type, builder.getF32FloatAttr(0.0f)));
  add(value, castTo(builder, value.getLoc(), addInto(zero), value.getType()));
}

bool Gradients::isNeeded(Value value) const { return needed.lookup(value); }

void Gradients::propagateNeeded(Operation *op) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  auto isNeededHere = [&](Value value) { return isNeeded(value); };
  if (llvm::none_of(op->getOperands(), isNeededHere) &&
      llvm::none_of(captured, isNeededHere))
    return;
  for (Value result : op->getResults())
    if (isa<FloatType>(getElementTypeOrSelf(result.getType())))
      setNeeded(result);
}

LogicalResult poplar::nn::buildVJP(Operation *op, OpBuilder &builder,
                                   Gradients &grads) {
  // What has no results influences the loss elsewhere.
  if (op->getNumResults() != 0 &&
      llvm::none_of(op->getResults(),
                    [&](Value result) { return grads.cotangent(result); }))
    return success();
  if (auto differentiable = dyn_cast<DifferentiableOpInterface>(op))
    return differentiable.buildVJP(builder, grads);
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return buildLinalgVJP(generic, builder, grads);
  return op->emitOpError("has no derivative");
}

/// Statistics (means, log-sum-exps) are results only for the gradient of their
/// own op; a use of one in the model is refused here.
static LogicalResult refuseCotangents(Operation *op, ValueRange statistics,
                                      const Gradients &grads) {
  for (Value statistic : statistics)
    if (grads.cotangent(statistic))
      return op->emitOpError("has no derivative of its result ")
             << cast<OpResult>(statistic).getResultNumber()
             << ", a statistic that only its own gradient may use";
  return success();
}

//===----------------------------------------------------------------------===//
// Ops with parameters
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  grads.accumulate(getTable(), [&](Value acc) -> Value {
    return EmbeddingGradOp::create(builder, getLoc(), acc.getType(), dy,
                                   getIds(), acc, getPaddingIdxAttr(),
                                   getFirstRowAttr());
  });
  return success();
}

// Rows are looked up by ids, which have no gradients.
bool EmbeddingOp::isReadInReverse(OpOperand &) { return false; }

bool PositionEmbeddingOp::isReadInReverse(OpOperand &) { return false; }

LogicalResult PositionEmbeddingOp::buildVJP(OpBuilder &builder,
                                            Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  grads.add(getX(), dy);
  grads.accumulate(getTable(), [&](Value acc) -> Value {
    if (getPositions())
      return EmbeddingGradOp::create(builder, getLoc(), acc.getType(), dy,
                                     getPositions(), acc,
                                     /*padding_idx=*/nullptr,
                                     /*first_row=*/nullptr);
    return PositionEmbeddingGradOp::create(builder, getLoc(), acc.getType(), dy,
                                           acc, getConstantRow());
  });
  return success();
}

LogicalResult LinearOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX())) {
    WeightLayout transposed = getLayout() == WeightLayout::OutIn
                                  ? WeightLayout::InOut
                                  : WeightLayout::OutIn;
    grads.add(getX(), LinearOp::create(builder, getLoc(), getX().getType(), dy,
                                       getWeight(), /*bias=*/Value(),
                                       transposed, getFp8()));
  }
  grads.accumulate(getWeight(), [&](Value acc) -> Value {
    return LinearGradWeightOp::create(builder, getLoc(), acc.getType(), dy,
                                      getX(), acc, getLayout());
  });
  if (getBias())
    grads.accumulate(getBias(), [&](Value acc) -> Value {
      return SumRowsOp::create(builder, getLoc(), acc.getType(), dy, acc);
    });
  return success();
}

LogicalResult LayerNormOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  if (failed(refuseCotangents(*this, {getMean(), getRstd()}, grads)))
    return failure();
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX()))
    grads.add(getX(), LayerNormGradOp::create(
                          builder, getLoc(), getX().getType(), dy, getX(),
                          getGamma(), getMean(), getRstd(), getOffset()));
  grads.accumulate(getGamma(), [&](Value acc) -> Value {
    return NormGradGammaOp::create(builder, getLoc(), acc.getType(), dy, getX(),
                                   getRstd(), getMean(), acc);
  });
  if (getBeta())
    grads.accumulate(getBeta(), [&](Value acc) -> Value {
      return SumRowsOp::create(builder, getLoc(), acc.getType(), dy, acc);
    });
  return success();
}

LogicalResult RMSNormOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  if (failed(refuseCotangents(*this, {getRstd()}, grads)))
    return failure();
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX()))
    grads.add(getX(), RMSNormGradOp::create(builder, getLoc(), getX().getType(),
                                            dy, getX(), getGamma(), getRstd(),
                                            getHeads(), getOffset()));
  grads.accumulate(getGamma(), [&](Value acc) -> Value {
    return NormGradGammaOp::create(builder, getLoc(), acc.getType(), dy, getX(),
                                   getRstd(), /*mean=*/Value(), acc,
                                   getHeads());
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Attention and loss
//===----------------------------------------------------------------------===//

bool AttentionOp::isRecomputedWithAttention() { return true; }

static void addSinkGradient(OpBuilder &builder, AttentionOp op,
                            Gradients &grads) {
  grads.accumulate(op.getSinks(), [&](Value acc) -> Value {
    RankedTensorType type = op.getResult().getType();
    auto heads = static_cast<int64_t>(op.getNumHeads());
    auto ofRows = RankedTensorType::get(
        {type.getDimSize(0), type.getDimSize(1), heads}, builder.getF32Type());
    Value rows = SinkGradOp::create(builder, op.getLoc(), ofRows,
                                    grads.cotangent(op.getResult()),
                                    op.getResult(), op.getLse(), op.getSinks());
    return SumRowsOp::create(builder, op.getLoc(), acc.getType(), rows, acc);
  });
}

LogicalResult AttentionOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  if (failed(refuseCotangents(*this, {getLse()}, grads)))
    return failure();
  auto typeOf = [](Value value) { return value ? value.getType() : Type(); };
  auto grad = AttentionGradOp::create(
      builder, getLoc(), getQ().getType(), typeOf(getK()), typeOf(getV()),
      grads.cotangent(getResult()), getResult(), getLse(), getQ(), getK(),
      getV(), getKeys(), getPositions(), getNumHeads(), getNumKvHeads(),
      getScale(), getCausal(), getWindow(), getDropout(), getOpId(),
      getFirstHead(), getCap());
  grads.add(getQ(), grad.getDq());
  if (!isPacked()) {
    grads.add(getK(), grad.getDk());
    grads.add(getV(), grad.getDv());
  }
  if (getSinks())
    addSinkGradient(builder, *this, grads);
  return success();
}

LogicalResult CrossEntropyOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  if (failed(refuseCotangents(*this, {getLse()}, grads)))
    return failure();
  grads.add(getLogits(),
            CrossEntropyGradOp::create(builder, getLoc(), getLogits().getType(),
                                       getLogits(), getTargets(), getLse(),
                                       grads.cotangent(getLoss()),
                                       /*first_column=*/nullptr));
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  // A scaled rotation: its transpose is the opposite rotation, equally scaled.
  grads.add(getX(), RopeOp::create(builder, getLoc(), getX().getType(),
                                   grads.cotangent(getResult()), getPositions(),
                                   getHeadDim(), getInvFreq(), getScale(),
                                   !getInverse(), getHeads(), getLength(),
                                   getInterleaved()));
  return success();
}

LogicalResult GeluOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(), GeluGradOp::create(builder, getLoc(), getX().getType(),
                                       grads.cotangent(getResult()), getX(),
                                       getForm()));
  return success();
}

LogicalResult SiluOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(), SiluGradOp::create(builder, getLoc(), getX().getType(),
                                       grads.cotangent(getResult()), getX()));
  return success();
}

LogicalResult SigmoidOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  // From the result, as relu.
  grads.add(getX(),
            SigmoidGradOp::create(builder, getLoc(), getX().getType(),
                                  grads.cotangent(getResult()), getResult()));
  return success();
}

LogicalResult ReluOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  // The result is positive where x is, and the next op most often keeps it
  // anyway, whereas x would be a residual for this alone.
  grads.add(getX(),
            ReluGradOp::create(builder, getLoc(), getX().getType(),
                               grads.cotangent(getResult()), getResult()));
  return success();
}

LogicalResult AddOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  grads.add(getLhs(), dy);
  grads.add(getRhs(), dy);
  return success();
}

LogicalResult MulOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  auto times = [&](Value factor) -> Value {
    return MulOp::create(builder, getLoc(), dy.getType(), dy, factor);
  };
  if (grads.isNeeded(getLhs()))
    grads.add(getLhs(), times(getRhs()));
  if (grads.isNeeded(getRhs()))
    grads.add(getRhs(), times(getLhs()));
  return success();
}

LogicalResult CastOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(), castTo(builder, getLoc(), grads.cotangent(getResult()),
                           getX().getType()));
  return success();
}

LogicalResult DropoutOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(), DropoutOp::create(builder, getLoc(), getX().getType(),
                                      grads.cotangent(getResult()), getKeys(),
                                      getP(), getOpId(), getTokensAttr()));
  return success();
}

LogicalResult NoiseOp::buildVJP(OpBuilder &, Gradients &grads) {
  grads.add(getX(), grads.cotangent(getResult()));
  return success();
}
