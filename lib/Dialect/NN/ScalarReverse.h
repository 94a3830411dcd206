//===- ScalarReverse.h - Reverse mode of scalars ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_DIALECT_NN_SCALARREVERSE_H
#define POPLAR_LIB_DIALECT_NN_SCALARREVERSE_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace poplar::nn {

/// Adjoints of the scalars of a body with respect to one of them.
class ScalarReverse {
public:
  ScalarReverse(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value input)
      : builder(builder), loc(loc) {
    active.insert(input);
  }

  /// Marks the results of `op` that depend on the input; an integer result
  /// (a comparison, say) is locally constant.
  void propagateActive(mlir::Operation *op) {
    if (llvm::none_of(op->getOperands(), [&](mlir::Value value) {
          return active.contains(value);
        }))
      return;
    for (mlir::Value result : op->getResults())
      if (llvm::isa<mlir::FloatType>(result.getType()))
        active.insert(result);
  }
  bool isActive(mlir::Value value) const { return active.contains(value); }

  mlir::Value adjoint(mlir::Value value) const {
    return adjoints.lookup(value);
  }
  void add(mlir::Value value, mlir::Value adjoint) {
    if (!active.contains(value))
      return;
    mlir::Value &sum = adjoints[value];
    sum =
        sum ? mlir::arith::AddFOp::create(builder, loc, sum, adjoint) : adjoint;
  }

  /// Adds the adjoints of the operands of `op` from that of its result.
  mlir::LogicalResult reverse(mlir::Operation *op);

private:
  /// The same for an op of `math`, with the result `y`.
  mlir::LogicalResult reverseMath(mlir::Operation *op, mlir::Value y,
                                  mlir::Value dy);
  mlir::Value constant(mlir::Type type, double value) {
    return mlir::arith::ConstantOp::create(builder, loc,
                                           builder.getFloatAttr(type, value));
  }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::MulFOp::create(builder, loc, lhs, rhs);
  }
  mlir::Value div(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::DivFOp::create(builder, loc, lhs, rhs);
  }
  mlir::Value negate(mlir::Value value) {
    return mlir::arith::NegFOp::create(builder, loc, value);
  }
  mlir::Value select(mlir::Value condition, mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::SelectOp::create(builder, loc, condition, lhs, rhs);
  }
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value lhs,
                      mlir::Value rhs) {
    return mlir::arith::CmpFOp::create(builder, loc, predicate, lhs, rhs);
  }
  /// The larger (or smaller) operand gets the adjoint, equal ones half each,
  /// as torch.maximum's do.
  void addExtremum(mlir::Operation *op, mlir::arith::CmpFPredicate wins,
                   mlir::Value dy);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, mlir::Value> adjoints;
  llvm::DenseSet<mlir::Value> active;
};

} // namespace poplar::nn

#endif // POPLAR_LIB_DIALECT_NN_SCALARREVERSE_H
