//===- ScalarReverse.cpp - Reverse mode of scalars ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScalarReverse.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace poplar::nn;

void ScalarReverse::addExtremum(Operation *op, arith::CmpFPredicate wins,
                                Value dy) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  Value zero = constant(dy.getType(), 0.0);
  Value half = mul(dy, constant(dy.getType(), 0.5));
  Value tie = select(compare(arith::CmpFPredicate::OEQ, lhs, rhs), half, zero);
  if (isActive(lhs))
    add(lhs, select(compare(wins, lhs, rhs), dy, tie));
  if (isActive(rhs))
    add(rhs, select(compare(wins, rhs, lhs), dy, tie));
}

LogicalResult ScalarReverse::reverse(Operation *op) {
  if (llvm::none_of(op->getResults(),
                    [&](Value result) { return adjoint(result); }))
    return success();
  if (op->getNumResults() != 1)
    return failure();
  Value y = op->getResult(0), dy = adjoint(y);
  Type type = dy.getType();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::AddFOp op) {
        add(op.getLhs(), dy);
        add(op.getRhs(), dy);
        return success();
      })
      .Case([&](arith::SubFOp op) {
        add(op.getLhs(), dy);
        if (isActive(op.getRhs()))
          add(op.getRhs(), negate(dy));
        return success();
      })
      .Case([&](arith::MulFOp op) {
        if (isActive(op.getLhs()))
          add(op.getLhs(), mul(dy, op.getRhs()));
        if (isActive(op.getRhs()))
          add(op.getRhs(), mul(dy, op.getLhs()));
        return success();
      })
      .Case([&](arith::DivFOp op) {
        Value ratio = div(dy, op.getRhs());
        add(op.getLhs(), ratio);
        if (isActive(op.getRhs()))
          add(op.getRhs(), negate(mul(ratio, y)));
        return success();
      })
      .Case([&](arith::NegFOp op) {
        add(op.getOperand(), negate(dy));
        return success();
      })
      .Case([&](arith::ExtFOp op) {
        add(op.getIn(),
            arith::TruncFOp::create(builder, loc, op.getIn().getType(), dy));
        return success();
      })
      .Case([&](arith::TruncFOp op) {
        add(op.getIn(),
            arith::ExtFOp::create(builder, loc, op.getIn().getType(), dy));
        return success();
      })
      .Case([&](arith::SelectOp op) {
        Value zero = constant(type, 0.0);
        if (isActive(op.getTrueValue()))
          add(op.getTrueValue(), select(op.getCondition(), dy, zero));
        if (isActive(op.getFalseValue()))
          add(op.getFalseValue(), select(op.getCondition(), zero, dy));
        return success();
      })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](Operation *op) {
        addExtremum(op, arith::CmpFPredicate::OGT, dy);
        return success();
      })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([&](Operation *op) {
        addExtremum(op, arith::CmpFPredicate::OLT, dy);
        return success();
      })
      .Default([&](Operation *op) { return reverseMath(op, y, dy); });
}

LogicalResult ScalarReverse::reverseMath(Operation *op, Value y, Value dy) {
  Type type = dy.getType();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](math::ExpOp op) {
        add(op.getOperand(), mul(dy, y));
        return success();
      })
      .Case([&](math::LogOp op) {
        add(op.getOperand(), div(dy, op.getOperand()));
        return success();
      })
      .Case([&](math::SqrtOp op) {
        // 1 / (2 sqrt x)
        add(op.getOperand(), div(mul(dy, constant(type, 0.5)), y));
        return success();
      })
      .Case([&](math::RsqrtOp op) {
        // -1/2 x^(-3/2)
        Value cube = mul(mul(y, y), y);
        add(op.getOperand(), mul(mul(dy, constant(type, -0.5)), cube));
        return success();
      })
      .Case([&](math::TanhOp op) {
        // Two statements: compilers differ in which argument of a call they
        // would build first.
        Value square = mul(y, y);
        Value slope =
            arith::SubFOp::create(builder, loc, constant(type, 1.0), square);
        add(op.getOperand(), mul(dy, slope));
        return success();
      })
      .Case([&](math::ErfOp op) {
        // 2 / sqrt(pi) exp(-x^2)
        Value x = op.getOperand();
        Value bell = math::ExpOp::create(builder, loc, negate(mul(x, x)));
        Value slope = mul(constant(type, 2.0 / std::sqrt(M_PI)), bell);
        add(x, mul(dy, slope));
        return success();
      })
      .Default([](Operation *) { return failure(); });
}
