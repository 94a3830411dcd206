//===- RandomToLinalg.cpp - Lower dropout, noise and their keys -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "Poplar/Runtime/Dropout.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

namespace {
/// A word of Dropout.h: its operators build ops.
struct BuiltWord {
  ElementBuilder *b;
  Value value;

  BuiltWord operator^(BuiltWord other) const {
    return {b, arith::XOrIOp::create(*b, value, other.value)};
  }
  BuiltWord operator>>(int64_t bits) const {
    return {b, arith::ShRUIOp::create(*b, value, b->i64(bits))};
  }
  BuiltWord operator*(uint64_t factor) const {
    return {b, arith::MulIOp::create(*b, value, b->i64(factor))};
  }
};
} // namespace

static Value buildMix(ElementBuilder &b, Value state) {
  return mixBits(BuiltWord{&b, state}).value;
}

/// keys[b,1] << 32 | keys[b,0] of a sample.
static Value readKey(ElementBuilder &b, Value keys, Value sample) {
  auto word = [&](int64_t i) -> Value {
    return arith::ExtUIOp::create(b, b.getI64Type(),
                                  b.extract(keys, {sample, b.index(i)}));
  };
  return arith::OrIOp::create(b, arith::ShLIOp::create(b, word(1), b.i64(32)),
                              word(0));
}

static SmallVector<Value> lowerFoldKey(LinalgBuilder &l, FoldKeyOp op) {
  Value keys = op.getKeys();
  uint64_t offset = kGoldenGamma * (static_cast<uint64_t>(op.getData()) + 1);
  auto body = [=](ElementBuilder &b, ValueRange, ValueRange) {
    Value key =
        buildMix(b, arith::AddIOp::create(b, readKey(b, keys, b.position(0)),
                                          b.i64(offset)));
    Value word = arith::IndexCastOp::create(b, b.getI64Type(), b.position(1));
    Value shift = arith::MulIOp::create(b, word, b.i64(32));
    Value half = arith::ShRUIOp::create(b, key, shift);
    return SmallVector<Value>{arith::TruncIOp::create(b, b.getI32Type(), half)};
  };
  Value init = l.empty(keys, op.getType().getShape(), l.rewriter.getI32Type());
  return llvm::to_vector(l.generic("bt", {}, {{init, "bt"}}, body));
}

namespace {
/// What an op draws: 24 bits for each element of a sample.
struct Draws {
  Value keys;
  std::optional<ArrayRef<int64_t>> tokens;
  RankedTensorType type;
  uint64_t first;
  /// The width of a sample's row, of which the device may have some columns
  /// only.
  int64_t width;

  template <typename Op>
  explicit Draws(Op op)
      : keys(op.getKeys()), tokens(op.getTokens()), type(op.getType()),
        first(getFirstDraw(op.getOpId())), width(type.getDimSize(2)) {
    if (!tokens || tokens->size() != 4)
      return;
    first += uint64_t((*tokens)[2]);
    width = (*tokens)[3];
  }
  /// The sample and the token of the element at hand.
  std::pair<Value, Value> findToken(ElementBuilder &b) const;
  /// The bits of the element at hand.
  Value draw(ElementBuilder &b) const;
};
} // namespace

std::pair<Value, Value> Draws::findToken(ElementBuilder &b) const {
  Value sample = b.position(0), token = b.position(1);
  if (!tokens)
    return {sample, token};
  auto add = [&](Value x, Value y) { return arith::AddIOp::create(b, x, y); };
  auto times = [&](Value x, int64_t count) {
    return arith::MulIOp::create(b, x, b.index(count));
  };
  Value batch = tensor::DimOp::create(b, keys, b.index(0));
  Value row = add(times(batch, (*tokens)[0]),
                  add(times(sample, type.getDimSize(1)), token));
  Value length = b.index((*tokens)[1]);
  return {arith::DivUIOp::create(b, row, length),
          arith::RemUIOp::create(b, row, length)};
}

Value Draws::draw(ElementBuilder &b) const {
  auto toI64 = [&](Value index) -> Value {
    return arith::IndexCastOp::create(b, b.getI64Type(), index);
  };
  auto [sample, token] = findToken(b);
  Value element = arith::AddIOp::create(
      b, arith::MulIOp::create(b, toI64(token), b.i64(width)),
      toI64(b.position(2)));
  Value counter = arith::AddIOp::create(b, element, b.i64(first));
  Value state = arith::AddIOp::create(
      b, readKey(b, keys, sample),
      arith::MulIOp::create(b, counter, b.i64(kGoldenGamma)));
  return arith::ShRUIOp::create(b, buildMix(b, state), b.i64(40));
}

static SmallVector<Value> lowerDropout(LinalgBuilder &l, DropoutOp op) {
  double p = op.getP().convertToDouble();
  Draws draws(op);
  auto body = [&](ElementBuilder &b, ValueRange in) -> Value {
    Value bits = draws.draw(b);
    // bits / 2^24 >= p, exactly, in integers.
    Value kept = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, bits,
                                       b.i64(getDropoutThreshold(p)));
    return arith::SelectOp::create(
        b, kept, b.mul(in[0], b.f32(1.0 / (1.0 - p))), b.f32(0.0));
  };
  return {l.map("btd", op.getType(), {{op.getX(), "btd"}}, body)};
}

static SmallVector<Value> lowerNoise(LinalgBuilder &l, NoiseOp op) {
  double magnitude = op.getMagnitude().convertToDouble();
  Draws draws(op);
  auto body = [&](ElementBuilder &b, ValueRange in) -> Value {
    // The bits are below 2^24, so that bits / 2^23 - 1 is exact in f32.
    Value bits = arith::TruncIOp::create(b, b.getI32Type(), draws.draw(b));
    bits = arith::UIToFPOp::create(b, b.getF32Type(), bits);
    Value unit = b.sub(b.mul(bits, b.f32(0x1p-23)), b.f32(1.0));
    return b.add(in[0], b.mul(unit, b.f32(magnitude)));
  };
  return {l.map("btd", op.getType(), {{op.getX(), "btd"}}, body)};
}

void poplar::attachRandomLowerings(MLIRContext &context) {
  attachLowering<FoldKeyOp, lowerFoldKey>(context);
  attachLowering<DropoutOp, lowerDropout>(context);
  attachLowering<NoiseOp, lowerNoise>(context);
}
