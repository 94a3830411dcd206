//===- ConvertNNToLinalg.cpp - nn to linalg ===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_CONVERTNNTOLINALG
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {
struct ConvertNNToLinalgPass : public poplar::impl::ConvertNNToLinalgBase<ConvertNNToLinalgPass> {
  using Base::Base;
  void runOnOperation() override {
    getOperation().emitError("ConvertNNToLinalg is not there yet");
    signalPassFailure();
  }
};
} // namespace
