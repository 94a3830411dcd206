//===- NormsToLinalg.cpp - Lower norms and sums of rows -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static double rowLength(Value activations) {
  return cast<RankedTensorType>(activations.getType()).getDimSize(2);
}

/// 1 / sqrt(sum / n + eps) of every row's `sum`.
static Value buildRstd(LinalgBuilder &l, Value sums, double n, double eps) {
  return l.mapTokens({sums}, [=](ElementBuilder &b, ValueRange in) {
    Value variance = b.mul(in[0], b.f32(1.0 / n));
    return b.div(b.f32(1.0), b.sqrt(b.add(variance, b.f32(eps))));
  });
}

/// gamma + offset.
static Value addOffset(ElementBuilder &b, Value gamma, double offset) {
  return offset == 0 ? gamma : b.add(gamma, b.f32(offset));
}

static SmallVector<Value> lowerLayerNorm(LinalgBuilder &l, LayerNormOp op) {
  Value x = op.getX();
  double n = rowLength(x);
  Value sums = l.sumRows({{x, "btd"}},
                         [](ElementBuilder &, ValueRange in) { return in[0]; });
  Value mean = l.mapTokens({sums}, [=](ElementBuilder &b, ValueRange in) {
    return b.mul(in[0], b.f32(1.0 / n));
  });
  // In a second pass, as E[x^2] - mean^2 would cancel.
  Value squares = l.sumRows({{x, "btd"}, {mean, "bt"}},
                            [](ElementBuilder &b, ValueRange in) {
                              Value centred = b.sub(in[0], in[1]);
                              return b.mul(centred, centred);
                            });
  Value rstd = buildRstd(l, squares, n, op.getEps().convertToDouble());
  SmallVector<Operand> operands = {
      {x, "btd"}, {mean, "bt"}, {rstd, "bt"}, {op.getGamma(), "d"}};
  if (op.getBeta())
    operands.push_back({op.getBeta(), "d"});
  double offset = op.getOffset().convertToDouble();
  Value y = l.map("btd", op.getResult().getType(), operands,
                  [=](ElementBuilder &b, ValueRange in) {
                    Value xhat = b.mul(b.sub(in[0], in[1]), in[2]);
                    Value scaled = b.mul(xhat, addOffset(b, in[3], offset));
                    return in.size() == 5 ? b.add(scaled, in[4]) : scaled;
                  });
  return {y, mean, rstd};
}

Value poplar::mapHeads(LinalgBuilder &l, Value like, int64_t heads,
                       ArrayRef<Operand> operands,
                       LinalgBuilder::MapBody body) {
  auto type = cast<RankedTensorType>(like.getType());
  Value init = l.empty(like, type.getShape(), type.getElementType());
  return l.generic("btd", operands, {{init, "btd", 0, heads}},
                   [&](ElementBuilder &b, ValueRange in, ValueRange) {
                     return SmallVector<Value>{body(b, in)};
                   })[0];
}

static SmallVector<Value> lowerRMSNorm(LinalgBuilder &l, RMSNormOp op) {
  auto heads = static_cast<int64_t>(op.getHeads());
  double offset = op.getOffset().convertToDouble();
  Operand x{op.getX(), "btd", 0, heads};
  Value squares = l.sumRows({x}, [](ElementBuilder &b, ValueRange in) {
    return b.mul(in[0], in[0]);
  });
  Value rstd = buildRstd(l, squares, rowLength(op.getX()) / heads,
                         op.getEps().convertToDouble());
  Value y =
      mapHeads(l, op.getX(), heads, {x, {rstd, "bt"}, {op.getGamma(), "d"}},
               [=](ElementBuilder &b, ValueRange in) {
                 return b.mul(b.mul(in[0], in[1]), addOffset(b, in[2], offset));
               });
  return {y, rstd};
}

// With w = dy (gamma + offset) and xhat the normalised row,
//   layer_norm: dx = rstd (w - mean(w) - xhat mean(w xhat))
//   rms_norm:   dx = rstd (w - xhat mean(w xhat)).

static SmallVector<Value> lowerLayerNormGrad(LinalgBuilder &l,
                                             LayerNormGradOp op) {
  double n = rowLength(op.getX());
  double offset = op.getOffset().convertToDouble();
  Operand dy{op.getDy(), "btd"}, x{op.getX(), "btd"}, gamma{op.getGamma(), "d"},
      mean{op.getMean(), "bt"}, rstd{op.getRstd(), "bt"};
  // dy (gamma + offset).
  auto weigh = [=](ElementBuilder &b, ValueRange in) {
    return b.mul(in[0], addOffset(b, in[1], offset));
  };
  Value sums = l.sumRows({dy, gamma}, weigh);
  Value products = l.sumRows({dy, gamma, x, mean, rstd},
                             [=](ElementBuilder &b, ValueRange in) {
                               Value xhat = b.mul(b.sub(in[2], in[3]), in[4]);
                               return b.mul(weigh(b, in), xhat);
                             });
  return {l.map("btd", op.getType(),
                {dy, gamma, x, mean, rstd, {sums, "bt"}, {products, "bt"}},
                [=](ElementBuilder &b, ValueRange in) {
                  Value inverse = b.f32(1.0 / n), rstd = in[4];
                  Value w = weigh(b, in);
                  Value xhat = b.mul(b.sub(in[2], in[3]), rstd);
                  Value c1 = b.mul(in[5], inverse), c2 = b.mul(in[6], inverse);
                  return b.mul(rstd, b.sub(b.sub(w, c1), b.mul(xhat, c2)));
                })};
}

static SmallVector<Value> lowerRMSNormGrad(LinalgBuilder &l, RMSNormGradOp op) {
  auto heads = static_cast<int64_t>(op.getHeads());
  double n = rowLength(op.getX()) / heads;
  double offset = op.getOffset().convertToDouble();
  Operand dy{op.getDy(), "btd", 0, heads}, x{op.getX(), "btd", 0, heads},
      gamma{op.getGamma(), "d"}, rstd{op.getRstd(), "bt"};
  Value products =
      l.sumRows({dy, gamma, x, rstd}, [=](ElementBuilder &b, ValueRange in) {
        return b.mul(b.mul(in[0], addOffset(b, in[1], offset)),
                     b.mul(in[2], in[3]));
      });
  return {mapHeads(l, op.getX(), heads, {dy, gamma, x, rstd, {products, "bt"}},
                   [=](ElementBuilder &b, ValueRange in) {
                     Value w = b.mul(in[0], addOffset(b, in[1], offset)),
                           rstd = in[3];
                     Value c2 = b.mul(in[4], b.f32(1.0 / n));
                     return b.mul(rstd,
                                  b.sub(w, b.mul(b.mul(in[2], rstd), c2)));
                   })};
}

static SmallVector<Value> lowerNormGradGamma(LinalgBuilder &l,
                                             NormGradGammaOp op) {
  auto heads = static_cast<int64_t>(op.getHeads());
  SmallVector<Operand> inputs = {{op.getDy(), "btd", 0, heads},
                                 {op.getX(), "btd", 0, heads},
                                 {op.getRstd(), "bt"}};
  if (op.getMean())
    inputs.push_back({op.getMean(), "bt"});
  auto body = [](ElementBuilder &b, ValueRange in, ValueRange out) {
    Value centred = in.size() == 4 ? b.sub(in[1], in[3]) : in[1];
    Value term = b.mul(in[0], b.mul(centred, in[2]));
    return SmallVector<Value>{b.accumulate(out[0], term)};
  };
  return llvm::to_vector(l.generic("BTd", inputs, {{op.getAcc(), "d"}}, body));
}

static SmallVector<Value> lowerSumRows(LinalgBuilder &l, SumRowsOp op) {
  auto body = [](ElementBuilder &b, ValueRange in, ValueRange out) {
    return SmallVector<Value>{b.accumulate(out[0], in[0])};
  };
  return llvm::to_vector(
      l.generic("BTd", {{op.getDy(), "btd"}}, {{op.getAcc(), "d"}}, body));
}

void poplar::attachNormLowerings(MLIRContext &context) {
  attachLowering<LayerNormOp, lowerLayerNorm>(context);
  attachLowering<RMSNormOp, lowerRMSNorm>(context);
  attachLowering<LayerNormGradOp, lowerLayerNormGrad>(context);
  attachLowering<RMSNormGradOp, lowerRMSNormGrad>(context);
  attachLowering<NormGradGammaOp, lowerNormGradGamma>(context);
  attachLowering<SumRowsOp, lowerSumRows>(context);
}
