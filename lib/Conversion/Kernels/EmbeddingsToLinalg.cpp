//===- EmbeddingsToLinalg.cpp - Lower embeddings and rope -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static SmallVector<Value> lowerEmbedding(LinalgBuilder &l, EmbeddingOp op) {
  Value table = op.getTable();
  int64_t rows = cast<RankedTensorType>(table.getType()).getDimSize(0);
  std::optional<uint64_t> first = op.getFirstRow();
  auto body = [=](ElementBuilder &b, ValueRange in) -> Value {
    Value row = arith::IndexCastOp::create(b, b.getIndexType(), in[0]);
    if (!first)
      return b.extract(table, {row, b.position(2)});
    // Rows that are elsewhere give 0. Below the first one, the index is huge.
    row = arith::SubIOp::create(b, row, b.index(int64_t(*first)));
    Value isHere =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, b.index(rows));
    Value read = b.toF32(
        b.extract(table, {arith::SelectOp::create(b, isHere, row, b.index(0)),
                          b.position(2)}));
    return arith::SelectOp::create(b, isHere, read, b.f32(0.0));
  };
  return {l.map("btd", op.getType(), {{op.getIds(), "bt"}}, body)};
}

/// Behind x, the positions of its tokens, if they are given.
static void addPositions(SmallVectorImpl<Operand> &inputs, Value positions) {
  if (positions)
    inputs.push_back({positions, "bt"});
}

/// Where the token at hand is in its sample.
static Value getToken(ElementBuilder &b, ValueRange in) {
  if (in.size() == 1)
    return b.position(1);
  return arith::IndexCastOp::create(b, b.getIndexType(), in[1]);
}

static SmallVector<Value> lowerPositionEmbedding(LinalgBuilder &l,
                                                 PositionEmbeddingOp op) {
  Value table = op.getTable();
  bool constantRow = op.getConstantRow();
  SmallVector<Operand> inputs = {{op.getX(), "btd"}};
  addPositions(inputs, op.getPositions());
  // The table may have more rows than there are positions, so that no operand
  // map fits it.
  auto body = [=](ElementBuilder &b, ValueRange in) {
    Value row = constantRow ? b.index(0) : getToken(b, in);
    return b.add(in[0], b.toF32(b.extract(table, {row, b.position(2)})));
  };
  return {l.map("btd", op.getType(), inputs, body)};
}

static SmallVector<Value>
lowerPositionEmbeddingGrad(LinalgBuilder &l, PositionEmbeddingGradOp op) {
  auto body = [](ElementBuilder &b, ValueRange in, ValueRange out) {
    return SmallVector<Value>{b.accumulate(out[0], in[0])};
  };
  Operand dy{op.getDy(), "btd"};
  if (op.getConstantRow())
    return llvm::to_vector(l.generic("BTd", {dy}, {{op.getAcc(), "0d"}}, body));
  int64_t rows = op.getType().getDimSize(0);
  bool fits = rows == op.getDy().getType().getDimSize(1);
  return llvm::to_vector(
      l.generic("Btd", {dy}, {{op.getAcc(), "td", fits ? 0 : rows}}, body));
}

namespace {
/// cos and sin of t * inv_freq[j], times the scale, [T, head_dim / 2]. Computed
/// in double: t * inv_freq rounded to f32 is off by a visible angle at large t.
struct RopeTables {
  int64_t length = 0;
  std::vector<double> frequencies;
  double scale = 0;
  std::vector<float> cos, sin;

  void compute();
};
} // namespace

void RopeTables::compute() {
  cos.clear();
  sin.clear();
  for (int64_t t = 0; t < length; ++t)
    for (double frequency : frequencies) {
      cos.push_back(std::cos(t * frequency) * scale);
      sin.push_back(std::sin(t * frequency) * scale);
    }
}

static std::pair<Value, Value> buildRopeTables(LinalgBuilder &l, RopeOp op) {
  int64_t length =
      op.getLength() ? int64_t(op.getLength()) : op.getType().getDimSize(1);
  ArrayRef<double> frequencies = op.getInvFreq();
  double scale = op.getScale().convertToDouble();
  // Nearly all ops of a model have the same, and take long to compute.
  static thread_local RopeTables last;
  if (last.length != length || ArrayRef(last.frequencies) != frequencies ||
      last.scale != scale) {
    last.length = length;
    last.frequencies = frequencies.vec();
    last.scale = scale;
    last.compute();
  }
  auto type =
      RankedTensorType::get({length, static_cast<int64_t>(frequencies.size())},
                            l.rewriter.getF32Type());
  auto constant = [&](ArrayRef<float> values) -> Value {
    return arith::ConstantOp::create(l.rewriter, l.loc,
                                     DenseElementsAttr::get(type, values));
  };
  return {constant(last.cos), constant(last.sin)};
}

static SmallVector<Value> lowerRope(LinalgBuilder &l, RopeOp op) {
  std::pair<Value, Value> tables = buildRopeTables(l, op);
  Value x = op.getX();
  int64_t headDim = op.getHeadDim();
  auto pairs = static_cast<int64_t>(op.getInvFreq().size());
  int64_t rotated = static_cast<int64_t>(op.getHeads()) * headDim;
  bool inverse = op.getInverse(), interleaved = op.getInterleaved();
  SmallVector<Operand> inputs = {{x, "btd"}};
  addPositions(inputs, op.getPositions());
  // y_j = x_j cos_j - x_{j+apart} sin_j and
  // y_{j+apart} = x_{j+apart} cos_j + x_j sin_j, in one loop over d.
  auto body = [=](ElementBuilder &b, ValueRange in) -> Value {
    Value apart = b.index(interleaved ? 1 : pairs), token = getToken(b, in),
          d = b.position(2);
    Value j = arith::RemUIOp::create(b, d, b.index(headDim));
    auto isBelow = [&](Value value, int64_t bound) -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, value,
                                   b.index(bound));
    };
    Value isFirst =
        interleaved
            ? arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                    arith::RemUIOp::create(b, j, b.index(2)),
                                    b.index(0))
                  .getResult()
            : isBelow(j, pairs);
    Value isRotated;
    if (2 * pairs < headDim)
      isRotated = isBelow(j, 2 * pairs);
    if (rotated) {
      Value isHead = isBelow(d, rotated);
      isRotated = isRotated
                      ? arith::AndIOp::create(b, isRotated, isHead).getResult()
                      : isHead;
    }
    auto select = [&](Value first, Value second) -> Value {
      return arith::SelectOp::create(b, isFirst, first, second);
    };
    Value pair = select(arith::AddIOp::create(b, d, apart),
                        arith::SubIOp::create(b, d, apart));
    Value column = interleaved
                       ? arith::DivUIOp::create(b, j, b.index(2)).getResult()
                       : select(j, arith::SubIOp::create(b, j, apart));
    if (isRotated) {
      // What stays as it is reads nothing else.
      pair = arith::SelectOp::create(b, isRotated, pair, d);
      column = arith::SelectOp::create(b, isRotated, column, b.index(0));
    }
    Value other = b.toF32(b.extract(x, {b.position(0), b.position(1), pair}));
    Value cos = b.extract(tables.first, {token, column});
    Value sin = b.extract(tables.second, {token, column});
    Value signedSin =
        inverse ? select(sin, b.neg(sin)) : select(b.neg(sin), sin);
    Value turned = b.add(b.mul(in[0], cos), b.mul(other, signedSin));
    if (!isRotated)
      return turned;
    return arith::SelectOp::create(b, isRotated, turned, in[0]);
  };
  return {l.map("btd", op.getType(), inputs, body)};
}

void poplar::attachEmbeddingLowerings(MLIRContext &context) {
  attachLowering<EmbeddingOp, lowerEmbedding>(context);
  attachLowering<PositionEmbeddingOp, lowerPositionEmbedding>(context);
  attachLowering<PositionEmbeddingGradOp, lowerPositionEmbeddingGrad>(context);
  attachLowering<RopeOp, lowerRope>(context);
}
