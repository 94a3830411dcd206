//===- NNFolds.cpp - Folds and canonical forms of nn ops ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace poplar::nn;

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// - cast to its own type -> x
/// - there and back -> x, if every number of x's type is one of the type in
///   between: f32 holds all of bf16 and f16, but no other pair is like that
OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  auto first = getX().getDefiningOp<CastOp>();
  if (first && first.getX().getType() == getResult().getType() &&
      getElement(getX()).isF32() && !getElement(getResult()).isF64())
    return first.getX();
  return {};
}

/// p = 0 -> x
OpFoldResult DropoutOp::fold(FoldAdaptor) {
  return getP().isZero() ? OpFoldResult(getX()) : OpFoldResult();
}

/// magnitude = 0 -> x
OpFoldResult NoiseOp::fold(FoldAdaptor) {
  return getMagnitude().isZero() ? OpFoldResult(getX()) : OpFoldResult();
}

/// Keys that no dropout draws with are not read, and need not be computed.
template <typename Op>
static LogicalResult dropUnusedKeys(Op op, PatternRewriter &rewriter) {
  if (!op.getKeys() || !op.getDropout().isZero())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getKeysMutable().clear(); });
  return success();
}

LogicalResult AttentionOp::canonicalize(AttentionOp op,
                                        PatternRewriter &rewriter) {
  return dropUnusedKeys(op, rewriter);
}

LogicalResult AttentionGradOp::canonicalize(AttentionGradOp op,
                                            PatternRewriter &rewriter) {
  return dropUnusedKeys(op, rewriter);
}
