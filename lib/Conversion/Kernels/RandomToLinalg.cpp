//===- RandomToLinalg.cpp - Lower dropout and its keys --------------------===//
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

/// The sample and the token of the element at hand.
static std::pair<Value, Value> findToken(ElementBuilder &b, DropoutOp op) {
  Value sample = b.position(0), token = b.position(1);
  std::optional<ArrayRef<int64_t>> tokens = op.getTokens();
  if (!tokens)
    return {sample, token};
  auto add = [&](Value x, Value y) { return arith::AddIOp::create(b, x, y); };
  auto times = [&](Value x, int64_t count) {
    return arith::MulIOp::create(b, x, b.index(count));
  };
  Value batch = tensor::DimOp::create(b, op.getKeys(), b.index(0));
  Value row = add(times(batch, (*tokens)[0]),
                  add(times(sample, op.getType().getDimSize(1)), token));
  Value length = b.index((*tokens)[1]);
  return {arith::DivUIOp::create(b, row, length),
          arith::RemUIOp::create(b, row, length)};
}

static SmallVector<Value> lowerDropout(LinalgBuilder &l, DropoutOp op) {
  Value keys = op.getKeys();
  double p = op.getP().convertToDouble();
  // The width of a sample's row, of which the device may have some columns
  // only.
  int64_t width = op.getType().getDimSize(2);
  uint64_t first = getFirstDraw(op.getOpId());
  if (auto tokens = op.getTokens(); tokens && tokens->size() == 4) {
    first += uint64_t((*tokens)[2]);
    width = (*tokens)[3];
  }
  auto body = [=](ElementBuilder &b, ValueRange in) -> Value {
    auto toI64 = [&](Value index) -> Value {
      return arith::IndexCastOp::create(b, b.getI64Type(), index);
    };
    auto [sample, token] = findToken(b, op);
    Value element = arith::AddIOp::create(
        b, arith::MulIOp::create(b, toI64(token), b.i64(width)),
        toI64(b.position(2)));
    Value counter = arith::AddIOp::create(b, element, b.i64(first));
    Value state = arith::AddIOp::create(
        b, readKey(b, keys, sample),
        arith::MulIOp::create(b, counter, b.i64(kGoldenGamma)));
    Value bits = arith::ShRUIOp::create(b, buildMix(b, state), b.i64(40));
    // bits / 2^24 >= p, exactly, in integers.
    int64_t threshold = getDropoutThreshold(p);
    Value kept = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, bits,
                                       b.i64(threshold));
    return arith::SelectOp::create(
        b, kept, b.mul(in[0], b.f32(1.0 / (1.0 - p))), b.f32(0.0));
  };
  return {l.map("btd", op.getType(), {{op.getX(), "btd"}}, body)};
}

void poplar::attachRandomLowerings(MLIRContext &context) {
  attachLowering<FoldKeyOp, lowerFoldKey>(context);
  attachLowering<DropoutOp, lowerDropout>(context);
}
