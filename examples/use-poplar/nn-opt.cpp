//===- nn-opt.cpp - Poplar's dialects and passes in another project -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Tools/OptMain.h"
#include "mlir/Pass/Pass.h"

namespace {

/// Prints how many operations of the nn dialect a module has.
struct CountNN
    : mlir::PassWrapper<CountNN, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountNN)
  llvm::StringRef getArgument() const override { return "count-nn"; }
  void runOnOperation() override {
    int count = 0;
    getOperation().walk([&](mlir::Operation *op) {
      count += op->getName().getDialectNamespace() == "nn";
    });
    llvm::errs() << "nn operations: " << count << "\n";
  }
};

} // namespace

int main(int argc, char **argv) {
  mlir::PassRegistration<CountNN>();
  mlir::DialectRegistry registry;
  return poplar::runOptMain(argc, argv, registry);
}
