//===- NNCost.cpp - FLOPs and bytes of nn ops -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Per sample. Bytes count every operand read and every result written once, as
// if each op were a kernel of its own: an upper bound once kernels are fused.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Runtime/FP8.h"

using namespace mlir;
using namespace poplar::nn;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Elements of one sample; of the whole tensor if it has no batch.
static double getElements(Value value) {
  double elements = 1;
  for (int64_t size : getShape(value))
    if (!ShapedType::isDynamic(size))
      elements *= static_cast<double>(size);
  return elements;
}

static double getBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (isQuantized(type))
    return static_cast<double>(getStoredElements(type));
  return getElements(value) * type.getElementTypeBitWidth() / 8;
}

/// All of the op's memory traffic; what has no batch dimension is a parameter
/// or its gradient.
static OpCost getTraffic(Operation *op, OpClass opClass, double flops) {
  OpCost cost;
  cost.opClass = opClass;
  cost.flops = flops;
  auto count = [&](Value value) {
    bool perSample = llvm::any_of(getShape(value), ShapedType::isDynamic);
    (perSample ? cost.bytes : cost.fixedBytes) += getBytes(value);
  };
  llvm::for_each(op->getOperands(), count);
  llvm::for_each(op->getResults(), count);
  return cost;
}

OpCost poplar::nn::getRowCost(Operation *op, Value value,
                              double flopsPerElement) {
  return getTraffic(op, OpClass::Row, flopsPerElement * getElements(value));
}

/// A table is not read as a whole: only one row per token.
static OpCost getGatherCost(Operation *op, Value rows, Value table,
                            double flopsPerElement) {
  OpCost cost =
      getTraffic(op, OpClass::Gather, flopsPerElement * getElements(rows));
  cost.fixedBytes = 0;
  cost.bytes +=
      getElements(rows) *
      cast<RankedTensorType>(table.getType()).getElementTypeBitWidth() / 8;
  return cost;
}

/// For query i, keys from max(0, i - window + 1) to i (causal) or to the last.
int64_t poplar::nn::countAttentionPairs(int64_t length, bool isCausal,
                                        int64_t window) {
  int64_t pairs = isCausal ? length * (length + 1) / 2 : length * length;
  // Query i >= window loses i - window + 1 keys.
  int64_t beyond = window ? length - window : 0;
  if (beyond > 0)
    pairs -= beyond * (beyond + 1) / 2;
  return pairs;
}

/// `products` matrix products over the pairs, 2 d FLOPs a pair and head each.
template <typename Op>
static OpCost getAttentionCost(Op op, Value out, int products) {
  int64_t length = getShape(out)[1];
  double width = static_cast<double>(getShape(out)[2]);
  auto pairs = static_cast<double>(
      countAttentionPairs(length, op.getCausal(), op.getWindow()));
  OpCost cost =
      getTraffic(op, OpClass::Attention, 2.0 * products * width * pairs);
  cost.rows = static_cast<double>(length);
  return cost;
}

//===----------------------------------------------------------------------===//
// Matrix products: 2 m n k
//===----------------------------------------------------------------------===//

bool poplar::nn::fitsFP8(Value x, Value result) {
  return getShape(x).back() % POPLAR_FP8_SIDE == 0 &&
         getShape(result).back() % POPLAR_FP8_SIDE == 0;
}

/// Both operands are read and written in 8 bits before. A GPU scales the result
/// in memory.
static void addRounding(Value x, Value weight, Value result, OpCost &cost) {
  cost.isFP8 = true;
  cost.bytes += 2 * getElements(x) + 2 * getBytes(result);
  cost.fixedBytes += 2 * getElements(weight);
}

/// The product counts: of what is done on its way to memory, nothing is seen.
template <typename Op> static OpCost getProductCost(Op op) {
  ArrayRef<int64_t> result = getShape(op.getResult());
  double inputs = static_cast<double>(getShape(op.getX())[2]);
  OpCost cost =
      getTraffic(op, OpClass::Gemm, 2 * inputs * getElements(op.getResult()));
  // A quantised weight is written in the format of x, and read again.
  if (isQuantized(op.getWeight().getType()))
    cost.fixedBytes +=
        2 * getElements(op.getWeight()) *
        cast<RankedTensorType>(op.getX().getType()).getElementTypeBitWidth() /
        8;
  if (op.getFp8() && fitsFP8(op.getX(), op.getResult()))
    addRounding(op.getX(), op.getWeight(), op.getResult(), cost);
  cost.rows = static_cast<double>(result[1]);
  cost.columns = static_cast<double>(result[2]);
  cost.depth = inputs;
  return cost;
}
OpCost LinearOp::getCost() {
  OpCost cost = getProductCost(*this);
  if (getBias())
    cost.flops += getElements(getResult());
  return cost;
}
OpCost LinearGeluOp::getCost() { return getProductCost(*this); }
OpCost LinearGeluGradOp::getCost() { return getProductCost(*this); }

template <typename Op> static OpCost getWeightGradientCost(Op op) {
  ArrayRef<int64_t> result = getShape(op.getResult());
  double inputs = static_cast<double>(getShape(op.getX())[2]);
  OpCost cost =
      getTraffic(op, OpClass::Gemm, 2 * inputs * getElements(op.getDy()));
  cost.rows = static_cast<double>(result[0]);
  cost.columns = static_cast<double>(result[1]);
  cost.depth = static_cast<double>(getShape(op.getDy())[1]);
  cost.isDeep = true;
  return cost;
}
OpCost LinearGradWeightOp::getCost() { return getWeightGradientCost(*this); }
OpCost LinearGradWeightBiasOp::getCost() {
  return getWeightGradientCost(*this);
}

//===----------------------------------------------------------------------===//
// Attention: forward QK' and PV; backward those of the scores again, dV, dP,
// dQ and dK
//===----------------------------------------------------------------------===//

OpCost AttentionOp::getCost() {
  return getAttentionCost(*this, getResult(), 2);
}
OpCost AttentionGradOp::getCost() {
  return getAttentionCost(*this, getDy(), 5);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

OpCost EmbeddingOp::getCost() {
  return getGatherCost(*this, getResult(), getTable(), 0);
}
OpCost EmbeddingGradOp::getCost() {
  // The gradient's rows are read and written.
  OpCost cost = getGatherCost(*this, getDy(), getAcc(), 1);
  cost.bytes += getElements(getDy()) * sizeof(float);
  return cost;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

OpCost PositionEmbeddingOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost LayerNormOp::getCost() { return getRowCost(*this, getX(), 8); }
OpCost RMSNormOp::getCost() { return getRowCost(*this, getX(), 4); }
OpCost RopeOp::getCost() { return getRowCost(*this, getX(), 3); }
OpCost GeluOp::getCost() { return getRowCost(*this, getX(), 8); }
OpCost SiluOp::getCost() { return getRowCost(*this, getX(), 4); }
OpCost SigmoidOp::getCost() { return getRowCost(*this, getX(), 3); }
OpCost ReluOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost AddOp::getCost() { return getRowCost(*this, getLhs(), 1); }
OpCost MulOp::getCost() { return getRowCost(*this, getLhs(), 1); }
OpCost CastOp::getCost() { return getRowCost(*this, getX(), 0); }
// The hash is integer arithmetic.
OpCost DropoutOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost NoiseOp::getCost() { return getRowCost(*this, getX(), 3); }
OpCost CrossEntropyOp::getCost() { return getRowCost(*this, getLogits(), 4); }

OpCost PositionEmbeddingGradOp::getCost() {
  return getRowCost(*this, getDy(), 1);
}
OpCost SumRowsOp::getCost() { return getRowCost(*this, getDy(), 1); }
OpCost NormGradGammaOp::getCost() { return getRowCost(*this, getDy(), 4); }
OpCost LayerNormGradOp::getCost() { return getRowCost(*this, getDy(), 11); }
OpCost RMSNormGradOp::getCost() { return getRowCost(*this, getDy(), 8); }
OpCost GeluGradOp::getCost() { return getRowCost(*this, getX(), 13); }
OpCost SiluGradOp::getCost() { return getRowCost(*this, getX(), 7); }
OpCost SigmoidGradOp::getCost() { return getRowCost(*this, getX(), 3); }
OpCost ReluGradOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost CrossEntropyGradOp::getCost() {
  return getRowCost(*this, getLogits(), 4);
}
