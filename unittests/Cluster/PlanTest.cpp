//===- PlanTest.cpp - zero.plan and back ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace poplar;

namespace {

class PlanTest : public testing::Test {
protected:
  PlanTest() {
    context.loadDialect<cluster::ClusterDialect, nn::NNDialect,
                        zero::ZeroDialect>();
  }

  /// The plan of a module, read and added to an empty one, is printed as it
  /// was.
  void expectRoundTrip(llvm::StringRef text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    zero::PlanOp plan = *module->getOps<zero::PlanOp>().begin();
    mlir::OwningOpRef<mlir::ModuleOp> other =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    zero::PlanOp again = zero::addPlan(*other, zero::readPlan(plan));
    std::string before, behind;
    llvm::raw_string_ostream(before) << plan;
    llvm::raw_string_ostream(behind) << again;
    EXPECT_EQ(before, behind);
  }

  mlir::MLIRContext context;
};

TEST_F(PlanTest, RanksOfOneGroup) {
  expectRoundTrip(R"mlir(
    zero.plan stage 2 global_batch 15 policy "exact" attributes {
        predicted_seconds = 2.5 : f64, predicted_uncertainty = 0.1 : f64,
        simulated_seconds = 2.625 : f64, simulated_plans = [
          {plan = "stage 2", predicted_seconds = 2.5 : f64,
           simulated_seconds = 2.625 : f64},
          {plan = "stage 3", predicted_seconds = 2.0 : f64,
           simulated_seconds = 3.0 : f64}]} {
      zero.rank @a100 node "n0" micro_batch 4 steps 2 last 3 state 0.75
      zero.rank @v100 node "n1" micro_batch 4 steps 2 last 4 threads 3
    }
  )mlir");
}

TEST_F(PlanTest, Groups) {
  expectRoundTrip(R"mlir(
    zero.plan stage 1 global_batch 8 policy "stages" schedule "1f1b" {
      zero.group units [0, 3] stage 1 tensor 2 parts [3, 1]
      zero.group units [3, 5] stage 0
      zero.rank @a100 node "n0" micro_batch 2 steps 4 last 2
      zero.rank @v100 node "n0" micro_batch 2 steps 4 last 2
      zero.rank @v100 node "n1" group 1 micro_batch 2 steps 4 last 2
          recompute "recompute-unit"
    }
  )mlir");
  expectRoundTrip(R"mlir(
    zero.plan stage 0 global_batch 3 policy "stages" schedule "1f1b" {
      zero.group units [0, 3] stage 0 tensor [2, 1]
      zero.group units [3, 4] stage 0
      zero.rank @a100 node "n0" micro_batch 2 steps 1 last 2
      zero.rank @a100 node "n0" micro_batch 2 steps 1 last 2
      zero.rank @a100 node "n1" micro_batch 1 steps 1 last 1
      zero.rank @a100 node "n1" group 1 micro_batch 2 steps 1 last 2
      zero.rank @a100 node "n2" group 1 micro_batch 1 steps 1 last 1
    }
  )mlir");
}

TEST_F(PlanTest, TurnsOfTheirOwn) {
  expectRoundTrip(R"mlir(
    zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
      zero.group units [0, 1, 2, 3] stage 0
      zero.group units [1, 2, 3, 4] stage 0
      zero.rank @a100 node "n0" micro_batch 2 steps 1 last 2
          turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
      zero.rank @a100 node "n0" group 1 micro_batch 2 steps 1 last 2
          turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
    }
  )mlir");
}

} // namespace
