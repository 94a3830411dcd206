//===- ElementwiseToLinalg.cpp - Lower elementwise nn ops -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

// exp overflows to inf for very negative x, which gives 0.
Value poplar::sigmoid(ElementBuilder &b, Value x) {
  Value one = b.f32(1.0);
  return b.div(one, b.add(one, math::ExpOp::create(b, b.neg(x))));
}

Value poplar::sigmoidGrad(ElementBuilder &b, Value dy, Value s) {
  return b.mul(dy, b.mul(s, b.sub(b.f32(1.0), s)));
}

static SmallVector<Value> lowerAdd(LinalgBuilder &l, AddOp op) {
  return {l.mapElements(
      op.getType(), op->getOperands(),
      [](ElementBuilder &b, ValueRange in) { return b.add(in[0], in[1]); })};
}

static SmallVector<Value> lowerMul(LinalgBuilder &l, MulOp op) {
  return {l.mapElements(
      op.getType(), op->getOperands(),
      [](ElementBuilder &b, ValueRange in) { return b.mul(in[0], in[1]); })};
}

static SmallVector<Value> lowerCast(LinalgBuilder &l, CastOp op) {
  return {l.mapElements(op.getType(), op->getOperands(),
                        [](ElementBuilder &, ValueRange in) { return in[0]; })};
}

static SmallVector<Value> lowerRelu(LinalgBuilder &l, ReluOp op) {
  return {l.mapElements(op.getType(), op->getOperands(),
                        [](ElementBuilder &b, ValueRange in) -> Value {
                          return arith::MaximumFOp::create(b, in[0],
                                                           b.f32(0.0));
                        })};
}

static SmallVector<Value> lowerReluGrad(LinalgBuilder &l, ReluGradOp op) {
  return {l.mapElements(op.getType(), {op.getDy(), op.getX()},
                        [](ElementBuilder &b, ValueRange in) -> Value {
                          Value zero = b.f32(0.0);
                          Value positive = arith::CmpFOp::create(
                              b, arith::CmpFPredicate::OGT, in[1], zero);
                          return arith::SelectOp::create(b, positive, in[0],
                                                         zero);
                        })};
}

static SmallVector<Value> lowerSilu(LinalgBuilder &l, SiluOp op) {
  return {l.mapElements(op.getType(), op->getOperands(),
                        [](ElementBuilder &b, ValueRange in) {
                          return b.mul(in[0], sigmoid(b, in[0]));
                        })};
}

static SmallVector<Value> lowerSiluGrad(LinalgBuilder &l, SiluGradOp op) {
  // s (1 + x (1 - s)) with s = sigmoid(x).
  return {l.mapElements(op.getType(), {op.getDy(), op.getX()},
                        [](ElementBuilder &b, ValueRange in) {
                          Value one = b.f32(1.0), s = sigmoid(b, in[1]);
                          Value slope =
                              b.mul(s, b.add(one, b.mul(in[1], b.sub(one, s))));
                          return b.mul(in[0], slope);
                        })};
}

static SmallVector<Value> lowerSigmoid(LinalgBuilder &l, SigmoidOp op) {
  return {l.mapElements(
      op.getType(), op->getOperands(),
      [](ElementBuilder &b, ValueRange in) { return sigmoid(b, in[0]); })};
}

static SmallVector<Value> lowerSigmoidGrad(LinalgBuilder &l, SigmoidGradOp op) {
  return {l.mapElements(op.getType(), {op.getDy(), op.getX()},
                        [](ElementBuilder &b, ValueRange in) {
                          return sigmoidGrad(b, in[0], in[1]);
                        })};
}

// gelu(x) = x Phi(x), Phi(x) = (1 + erf(x / sqrt 2)) / 2, or the approximation
// Phi(x) = (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).
static constexpr double kTanhCubic = 0.044715;
static const double kTanhScale = std::sqrt(2.0 * llvm::numbers::inv_pi);

static Value tanhOfGelu(ElementBuilder &b, Value x) {
  Value cubic = b.mul(b.mul(x, x), b.f32(kTanhScale * kTanhCubic));
  Value u = b.mul(x, b.add(b.f32(kTanhScale), cubic));
  return math::TanhOp::create(b, u);
}

static Value geluPhi(ElementBuilder &b, Value x, GeluKind kind) {
  Value half = b.f32(0.5);
  Value odd =
      kind == GeluKind::Tanh
          ? tanhOfGelu(b, x)
          : math::ErfOp::create(b, b.mul(x, b.f32(1.0 / llvm::numbers::sqrt2)))
                .getResult();
  return b.add(half, b.mul(half, odd));
}

static SmallVector<Value> lowerGelu(LinalgBuilder &l, GeluOp op) {
  GeluKind kind = op.getForm();
  return {l.mapElements(op.getType(), op->getOperands(),
                        [=](ElementBuilder &b, ValueRange in) {
                          return b.mul(in[0], geluPhi(b, in[0], kind));
                        })};
}

static SmallVector<Value> lowerGeluGrad(LinalgBuilder &l, GeluGradOp op) {
  GeluKind kind = op.getForm();
  auto body = [=](ElementBuilder &b, ValueRange in) {
    Value x = in[1], half = b.f32(0.5), phi, slope;
    if (kind == GeluKind::Tanh) {
      // Phi' = (1 - tanh^2) u' / 2, u' = sqrt(2 / pi) (1 + 3 0.044715 x^2).
      Value tanh = tanhOfGelu(b, x);
      phi = b.add(half, b.mul(half, tanh));
      Value inner =
          b.add(b.f32(kTanhScale),
                b.mul(b.mul(x, x), b.f32(3.0 * kTanhScale * kTanhCubic)));
      Value sech2 = b.sub(b.f32(1.0), b.mul(tanh, tanh));
      slope = b.mul(b.mul(half, sech2), inner);
    } else {
      // Phi' = exp(-x^2 / 2) / sqrt(2 pi).
      phi = geluPhi(b, x, kind);
      Value density = math::ExpOp::create(b, b.mul(b.mul(x, x), b.f32(-0.5)));
      slope = b.mul(density,
                    b.f32(llvm::numbers::inv_sqrtpi / llvm::numbers::sqrt2));
    }
    return b.mul(in[0], b.add(phi, b.mul(x, slope)));
  };
  return {l.mapElements(op.getType(), {op.getDy(), op.getX()}, body)};
}

static SmallVector<Value> lowerAdamW(LinalgBuilder &l, AdamWOp op) {
  Value hyper = op.getHyper();
  auto body = [=](ElementBuilder &b, ValueRange in,
                  ValueRange out) -> SmallVector<Value> {
    auto parameter = [&](int64_t i) {
      return b.extract(hyper, ValueRange{b.index(i)});
    };
    Value lr = parameter(0), beta1 = parameter(1), beta2 = parameter(2),
          eps = parameter(3), decay = parameter(4), correction1 = parameter(5),
          correction2 = parameter(6), gradScale = parameter(7);
    Value p = out[0], m = out[1], v = out[2], one = b.f32(1.0);
    Value g = b.mul(in[0], gradScale);
    Value newM = b.add(b.mul(beta1, m), b.mul(b.sub(one, beta1), g));
    Value newV = b.add(b.mul(beta2, v), b.mul(b.sub(one, beta2), b.mul(g, g)));
    Value kept = b.mul(p, b.sub(one, b.mul(lr, decay)));
    Value norm = b.add(b.sqrt(b.div(newV, correction2)), eps);
    Value step = b.div(b.mul(lr, b.div(newM, correction1)), norm);
    return {b.sub(kept, step), newM, newV};
  };
  // The state is updated in place.
  return llvm::to_vector(
      l.generic("d", {{op.getG(), "d"}},
                {{op.getP(), "d"}, {op.getM(), "d"}, {op.getV(), "d"}}, body));
}

void poplar::attachElementwiseLowerings(MLIRContext &context) {
  attachLowering<AddOp, lowerAdd>(context);
  attachLowering<MulOp, lowerMul>(context);
  attachLowering<CastOp, lowerCast>(context);
  attachLowering<ReluOp, lowerRelu>(context);
  attachLowering<ReluGradOp, lowerReluGrad>(context);
  attachLowering<SiluOp, lowerSilu>(context);
  attachLowering<SiluGradOp, lowerSiluGrad>(context);
  attachLowering<SigmoidOp, lowerSigmoid>(context);
  attachLowering<SigmoidGradOp, lowerSigmoidGrad>(context);
  attachLowering<GeluOp, lowerGelu>(context);
  attachLowering<GeluGradOp, lowerGeluGrad>(context);
  attachLowering<AdamWOp, lowerAdamW>(context);
}
