//===- NNDifferentiation.cpp - Vector-Jacobian products of nn ops ===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
using namespace mlir;
using namespace poplar::nn;
LogicalResult EmbeddingOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult PositionEmbeddingOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult LinearOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult LayerNormOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult RMSNormOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult RopeOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult AttentionOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult GeluOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult CastOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult DropoutOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult CrossEntropyOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult SiluOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult ReluOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult AddOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
LogicalResult MulOp::buildVJP(OpBuilder &, Gradients &) { return failure(); }
