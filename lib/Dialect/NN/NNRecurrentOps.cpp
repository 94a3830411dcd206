//===- NNRecurrentOps.cpp - Linear attention ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NNRecurrentOps.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Runtime/Recurrent.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace poplar::nn;

#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNRecurrentOps.cpp.inc"

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t getDim(Value value, unsigned index) {
  return getTensor(value).getDimSize(index);
}

/// `value` must be of this shape; elements are those of `like`, or f32 where
/// that is null.
static LogicalResult expectType(Operation *op, StringRef name, Value value,
                                ArrayRef<int64_t> shape, Value like = {}) {
  Type element = like ? getTensor(like).getElementType()
                      : Float32Type::get(op->getContext());
  auto expected = RankedTensorType::get(shape, element);
  if (value.getType() == expected)
    return success();
  return op->emitOpError() << name << " is " << value.getType() << ", expected "
                           << expected;
}

static LogicalResult expectPositions(Operation *op, Value positions, Value x) {
  if (!positions ||
      getTensor(positions).getShape() == getTensor(x).getShape().take_front(2))
    return success();
  return op->emitOpError() << "positions are " << positions.getType()
                           << ", expected one for each token of "
                           << x.getType();
}

//===----------------------------------------------------------------------===//
// Verifiers of convolutions
//===----------------------------------------------------------------------===//

/// Filters [C,1,k] for x [B,T,C], k from 1 to 16.
static LogicalResult verifyFilters(Operation *op, StringRef name, Value filters,
                                   Value x, Value like) {
  int64_t width = getDim(filters, 2);
  if (width < 1 || width > POPLAR_MAX_CONV_WIDTH)
    return op->emitOpError()
           << name << " has " << width << " taps, expected 1 to "
           << POPLAR_MAX_CONV_WIDTH;
  return expectType(op, name, filters, {getDim(x, 2), 1, width}, like);
}

// - weight [C,1,k] for x [B,T,C], of its element type; the result as x
LogicalResult CausalConvOp::verify() {
  if (failed(verifyFilters(*this, "weight", getWeight(), getX(), getX())) ||
      failed(expectPositions(*this, getPositions(), getX())))
    return failure();
  return expectType(*this, "result", getResult(), getTensor(getX()).getShape(),
                    getX());
}

LogicalResult CausalConvGradOp::verify() {
  if (failed(verifyFilters(*this, "weight", getWeight(), getDy(), getDy())) ||
      failed(expectPositions(*this, getPositions(), getDy())))
    return failure();
  return expectType(*this, "result", getResult(), getTensor(getDy()).getShape(),
                    getDy());
}

LogicalResult CausalConvGradWeightOp::verify() {
  if (failed(expectType(*this, "dy", getDy(), getTensor(getX()).getShape(),
                        getX())) ||
      failed(verifyFilters(*this, "acc", getAcc(), getX(), {})) ||
      failed(expectPositions(*this, getPositions(), getX())))
    return failure();
  return expectType(*this, "result", getResult(),
                    getTensor(getAcc()).getShape());
}

// - the cache [B,k-1,C], k at least 2
LogicalResult CachedCausalConvOp::verify() {
  if (failed(verifyFilters(*this, "weight", getWeight(), getX(), getX())) ||
      failed(expectPositions(*this, getPositions(), getX())) ||
      failed(expectType(*this, "result", getResult(),
                        getTensor(getX()).getShape(), getX())))
    return failure();
  SmallVector<int64_t> shape = {getDim(getX(), 0), getDim(getWeight(), 2) - 1,
                                getDim(getX(), 2)};
  if (failed(expectType(*this, "cache", getCache(), shape, getX())))
    return failure();
  return expectType(*this, "new_cache", getNewCache(), shape, getX());
}

//===----------------------------------------------------------------------===//
// Verifiers of the gated delta rule
//===----------------------------------------------------------------------===//

/// Shapes of the rule, whose result is of the type of `out`; fails where the
/// operands do not fit them.
// - key_heads divides value_heads, which divides the columns of out
// - x [B,T,2*Hk*dk + Hv*dv] with whole dk; dk and dv up to 128
// - a, b [B,T,Hv]; a_log, dt_bias [Hv]; all of one element type
template <typename Op>
static FailureOr<PoplarGatedDelta> verifyDelta(Op op, Value out) {
  auto keyHeads = static_cast<int64_t>(op.getKeyHeads());
  auto valueHeads = static_cast<int64_t>(op.getValueHeads());
  Value x = op.getX();
  int64_t values = getDim(out, 2), columns = getDim(x, 2) - values;
  if (keyHeads < 1 || valueHeads < 1 || valueHeads % keyHeads != 0)
    return op.emitOpError() << valueHeads << " value heads cannot share "
                            << keyHeads << " key heads evenly";
  if (values < 1 || values % valueHeads != 0 || columns < 1 ||
      columns % (2 * keyHeads) != 0)
    return op.emitOpError()
           << "cannot divide " << x.getType() << " into queries and keys of "
           << keyHeads << " heads and values of " << valueHeads << " heads, "
           << values << " columns in all";
  PoplarGatedDelta desc = {};
  desc.seq_len = getDim(x, 1);
  desc.key_heads = keyHeads;
  desc.value_heads = valueHeads;
  desc.key_dim = columns / (2 * keyHeads);
  desc.value_dim = values / valueHeads;
  if (desc.key_dim > POPLAR_MAX_DELTA_DIM ||
      desc.value_dim > POPLAR_MAX_DELTA_DIM)
    return op.emitOpError()
           << "has heads of " << desc.key_dim << " columns of keys and "
           << desc.value_dim << " of values, expected at most "
           << POPLAR_MAX_DELTA_DIM;
  SmallVector<int64_t> perHead = {getDim(x, 0), getDim(x, 1), valueHeads};
  if (failed(expectType(
          op, "out", out,
          {getDim(x, 0), getDim(x, 1), valueHeads * desc.value_dim}, x)) ||
      failed(expectType(op, "a", op.getA(), perHead, x)) ||
      failed(expectType(op, "b", op.getB(), perHead, x)) ||
      failed(expectType(op, "a_log", op.getALog(), {valueHeads}, x)) ||
      failed(expectType(op, "dt_bias", op.getDtBias(), {valueHeads}, x)) ||
      failed(expectPositions(op, op.getPositions(), x)))
    return failure();
  return desc;
}

LogicalResult GatedDeltaOp::verify() { return verifyDelta(*this, getResult()); }

// - dy as the result there; dx, da, db as x, a, b; dlog f32 [B,T,Hv]; scratch
//   [B, poplar_delta_scratch]
LogicalResult GatedDeltaGradOp::verify() {
  FailureOr<PoplarGatedDelta> desc = verifyDelta(*this, getDy());
  if (failed(desc))
    return failure();
  for (auto [name, result, operand] :
       {std::tuple<StringRef, Value, Value>("dx", getDx(), getX()),
        {"da", getDa(), getA()},
        {"db", getDb(), getB()}})
    if (failed(expectType(*this, name, result, getTensor(operand).getShape(),
                          operand)))
      return failure();
  if (failed(
          expectType(*this, "dlog", getDlog(), getTensor(getA()).getShape())))
    return failure();
  return expectType(*this, "scratch", getScratch(),
                    {getDim(getX(), 0), poplar_delta_scratch(&*desc)});
}

// - the state f32 [B,Hv,dk,dv]
LogicalResult CachedGatedDeltaOp::verify() {
  FailureOr<PoplarGatedDelta> desc = verifyDelta(*this, getResult());
  if (failed(desc))
    return failure();
  SmallVector<int64_t> shape = {getDim(getX(), 0), desc->value_heads,
                                desc->key_dim, desc->value_dim};
  if (failed(expectType(*this, "state", getState(), shape)))
    return failure();
  return expectType(*this, "new_state", getNewState(), shape);
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult CausalConvOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX()))
    grads.add(getX(),
              CausalConvGradOp::create(builder, getLoc(), getX().getType(), dy,
                                       getWeight(), getPositions()));
  grads.accumulate(getWeight(), [&](Value acc) -> Value {
    return CausalConvGradWeightOp::create(builder, getLoc(), acc.getType(), dy,
                                          getX(), getPositions(), acc);
  });
  return success();
}

LogicalResult GatedDeltaOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  RankedTensorType x = getX().getType(), a = getA().getType();
  PoplarGatedDelta desc = {};
  desc.seq_len = x.getDimSize(1);
  desc.key_heads = static_cast<int64_t>(getKeyHeads());
  desc.value_heads = static_cast<int64_t>(getValueHeads());
  int64_t values = getResult().getType().getDimSize(2);
  desc.key_dim = (x.getDimSize(2) - values) / (2 * desc.key_heads);
  desc.value_dim = values / desc.value_heads;
  Type f32 = builder.getF32Type();
  auto scratch = RankedTensorType::get(
      {x.getDimSize(0), poplar_delta_scratch(&desc)}, f32);
  auto grad = GatedDeltaGradOp::create(
      builder, getLoc(), x, a, getB().getType(), a.clone(f32), scratch,
      grads.cotangent(getResult()), getX(), getA(), getB(), getALog(),
      getDtBias(), getPositions(), getKeyHeads(), getValueHeads());
  grads.add(getX(), grad.getDx());
  grads.add(getA(), grad.getDa());
  grads.add(getB(), grad.getDb());
  grads.accumulate(getALog(), [&](Value acc) -> Value {
    return SumRowsOp::create(builder, getLoc(), acc.getType(), grad.getDlog(),
                             acc);
  });
  grads.accumulate(getDtBias(), [&](Value acc) -> Value {
    return SumRowsOp::create(builder, getLoc(), acc.getType(), grad.getDa(),
                             acc);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

OpCost CausalConvOp::getCost() {
  return getRowCost(*this, getX(), 2.0 * double(getDim(getWeight(), 2)));
}
OpCost CausalConvGradOp::getCost() {
  return getRowCost(*this, getDy(), 2.0 * double(getDim(getWeight(), 2)));
}
OpCost CausalConvGradWeightOp::getCost() {
  return getRowCost(*this, getDy(), 2.0 * double(getDim(getAcc(), 2)));
}

/// `flops` for each element of a state and each token.
template <typename Op>
static OpCost getDeltaCost(Op op, Value out, double flops) {
  int64_t keyDim = (getDim(op.getX(), 2) - getDim(out, 2)) /
                   (2 * static_cast<int64_t>(op.getKeyHeads()));
  OpCost cost = getRowCost(op, out, flops * double(keyDim));
  cost.opClass = OpClass::Attention;
  cost.rows = double(getDim(out, 1));
  return cost;
}

// Two products of the state with a vector, its decay and its update.
OpCost GatedDeltaOp::getCost() { return getDeltaCost(*this, getResult(), 7); }

// The states twice again, and backward six products with vectors.
OpCost GatedDeltaGradOp::getCost() {
  OpCost cost = getDeltaCost(*this, getDy(), 2 * 5 + 20);
  // States of chunks are written once and read once, others twice; the
  // gradients of queries and keys likewise once. One traffic is counted.
  cost.bytes += double(getDim(getScratch(), 1)) * sizeof(float);
  return cost;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

void CausalConvOp::buildDecoding(Decoding &decoding) {
  auto type = getResult().getType();
  int64_t width = getWeight().getType().getDimSize(2);
  // A filter of one tap has no memory.
  if (width == 1) {
    auto made = cast<CausalConvOp>(decoding.clone(*this));
    made.getPositionsMutable().clear();
    return;
  }
  auto cacheType =
      RankedTensorType::get({type.getDimSize(0), width - 1, type.getDimSize(2)},
                            type.getElementType());
  auto made = CachedCausalConvOp::create(
      decoding.builder, getLoc(), decoding.convert(type), cacheType,
      decoding.lookup(getX()), decoding.lookup(getWeight()), decoding.positions,
      decoding.addCache(cacheType));
  decoding.map(getResult(), made.getResult());
  decoding.setCache(made.getNewCache());
}

void GatedDeltaOp::buildDecoding(Decoding &decoding) {
  RankedTensorType type = getResult().getType(), x = getX().getType();
  int64_t values = type.getDimSize(2);
  auto keyHeads = static_cast<int64_t>(getKeyHeads());
  auto valueHeads = static_cast<int64_t>(getValueHeads());
  auto stateType = RankedTensorType::get(
      {type.getDimSize(0), valueHeads,
       (x.getDimSize(2) - values) / (2 * keyHeads), values / valueHeads},
      Float32Type::get(getContext()));
  auto made = CachedGatedDeltaOp::create(
      decoding.builder, getLoc(), decoding.convert(type), stateType,
      decoding.lookup(getX()), decoding.lookup(getA()), decoding.lookup(getB()),
      decoding.lookup(getALog()), decoding.lookup(getDtBias()),
      decoding.positions, decoding.addCache(stateType), getKeyHeads(),
      getValueHeads());
  decoding.map(getResult(), made.getResult());
  decoding.setCache(made.getNewState());
}

//===----------------------------------------------------------------------===//
// The model as a whole, and devices that share units
//===----------------------------------------------------------------------===//

SmallVector<ModelFact> GatedDeltaOp::getModelFacts() {
  return {{"objective", StringAttr::get(getContext(), "causal"),
           "an nn.gated_delta is causal"}};
}

bool GatedDeltaOp::isOncePerLayer() { return true; }

int64_t GatedDeltaOp::getTensorParts() { return 1; }

static LogicalResult refuseSharing(Operation *op) {
  return op->emitOpError("is of linear attention, which devices cannot share "
                         "yet: plan without `tensor`");
}

LogicalResult CausalConvOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
LogicalResult GatedDeltaOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
