//===- ConvertNNToLinalg.cpp - Lower row-wise nn ops ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every iteration space is (b, t) or (b, t, d), reduced over rows (d), columns
// (b, t) or samples (b), or one flat dimension: the forms --form-kernels fuses
// and --lower-kernels emits. What is not row-wise (GEMMs, attention, the
// scatter of embedding gradients) stays in nn for the runtime's kernels.
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace poplar {
#define GEN_PASS_DEF_CONVERTNNTOLINALG
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {
class ConvertNNToLinalgPass
    : public poplar::impl::ConvertNNToLinalgBase<ConvertNNToLinalgPass> {
public:
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    addElementwiseLowerings(set);
    addEmbeddingLowerings(set);
    addLossLowerings(set);
    addNormLowerings(set);
    addRandomLowerings(set);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    walkAndApplyPatterns(getOperation(), patterns);
  }

private:
  FrozenRewritePatternSet patterns;
};
} // namespace
