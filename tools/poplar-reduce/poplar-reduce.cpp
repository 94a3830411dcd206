//===- poplar-reduce.cpp - MLIR's test case reducer -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Tools/Registration.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Reducer/ReductionPatternInterface.h"
#include "mlir/Reducer/Tester.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

using namespace mlir;

namespace {

/// Replaces an op by its first operand that has the type of its result, if the
/// module stays interesting.
struct BypassOp final : RewritePattern {
  BypassOp(MLIRContext *context, Tester &tester)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context),
        tester(tester) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1)
      return failure();
    Type type = op->getResult(0).getType();
    auto operand = llvm::find_if(op->getOperands(), [&](Value value) {
      return value.getType() == type;
    });
    if (operand == op->operand_end() || !isInterestingWithout(op, *operand))
      return failure();
    rewriter.replaceOp(op, *operand);
    return success();
  }

private:
  bool isInterestingWithout(Operation *op, Value replacement) const {
    Operation *module = op;
    while (Operation *parent = module->getParentOp())
      module = parent;
    IRMapping mapping;
    OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone(mapping));
    Operation *copied = mapping.lookup(op);
    copied->getResult(0).replaceAllUsesWith(mapping.lookup(replacement));
    copied->erase();
    return tester.isInteresting(*copy).first == Tester::Interestingness::True;
  }

  Tester &tester;
};

/// MLIR's reducer by itself removes functions. A pattern must ask the tester:
/// the reducer needs the module that all patterns were applied to.
struct OpReduction final : DialectReductionPatternInterface {
  explicit OpReduction(Dialect *dialect)
      : DialectReductionPatternInterface(dialect) {}

  void populateReductionPatterns(RewritePatternSet &patterns) const override {}
  void populateReductionPatternsWithTester(RewritePatternSet &patterns,
                                           Tester &tester) const override {
    patterns.add<BypassOp>(patterns.getContext(), tester);
  }
};

} // namespace

int main(int argc, char **argv) {
  DialectRegistry registry;
  poplar::registerDialectsAndPasses(registry);
  // Every module has the builtin dialect.
  registry.addExtension(+[](MLIRContext *context, BuiltinDialect *dialect) {
    dialect->addInterfaces<OpReduction>();
  });
  MLIRContext context(registry);
  return failed(mlirReduceMain(argc, argv, context));
}
