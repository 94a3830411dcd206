//===- JoinMachinesTest.cpp - One cluster of several machines -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/JoinMachines.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace poplar;

namespace {

class JoinMachines : public testing::Test {
protected:
  JoinMachines() { context.loadDialect<cluster::ClusterDialect>(); }

  /// A machine with two GPUs of a type `t`.
  void addMachine(const std::string &name, const std::string &memory,
                  const std::string &bandwidth) {
    std::string text =
        "cluster.device_type @t target \"cuda:sm_80\" memory " + memory +
        " precision bf16 bandwidth " + bandwidth +
        "\ncluster.node @localhost devices [2 x @t]\n"
        "cluster.link inside nodes latency 1.0e-06 bandwidth 1.0e+10\n";
    machines.push_back(
        {name, mlir::parseSourceString<mlir::ModuleOp>(text, &context)});
    ASSERT_TRUE(machines.back().cluster);
  }
  ClusterView join() {
    module = joinMachines(machines, {1e-4, 1e8, "said"}, context, error);
    return module ? cluster::buildClusterView(*module) : ClusterView();
  }

  mlir::MLIRContext context;
  std::vector<DetectedMachine> machines;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string error;
};

TEST_F(JoinMachines, AlikeTypesAreOneWithTheLeastMemory) {
  addMachine("a", "2000", "1.0e+12");
  addMachine("b", "1000", "1.0e+12");
  ClusterView cluster = join();
  ASSERT_EQ(cluster.types.size(), 1u) << error;
  EXPECT_EQ(cluster.types[0].name, "t");
  EXPECT_EQ(cluster.types[0].memory, 1000);
  ASSERT_EQ(cluster.nodes.size(), 2u);
  EXPECT_EQ(cluster.nodes[1].name, "b");
  EXPECT_EQ(cluster.ranks.size(), 4u);
  EXPECT_EQ(cluster.findLink(1, 1)->bandwidth, 1e10);
  EXPECT_EQ(cluster.findLink(0, 1)->bandwidth, 1e8);
  EXPECT_EQ(cluster.findLink(1, 0)->latency, 1e-4);
}

TEST_F(JoinMachines, OthersOfTheSameNameAreNamedAfterTheirMachine) {
  addMachine("a", "2000", "1.0e+12");
  addMachine("b", "2000", "2.0e+12");
  addMachine("c", "1500", "2.0e+12");
  ClusterView cluster = join();
  ASSERT_EQ(cluster.types.size(), 2u) << error;
  auto find = [&](int rank) { return cluster.types[cluster.ranks[rank].type]; };
  EXPECT_EQ(find(0).name, "t");
  EXPECT_EQ(find(0).bandwidth, 1e12);
  EXPECT_EQ(find(2).name, "b-t");
  EXPECT_EQ(find(2).bandwidth, 2e12);
  EXPECT_EQ(find(2).memory, 1500);
  EXPECT_EQ(find(5).name, "b-t");
}

TEST_F(JoinMachines, RefusesWhatCannotBeJoined) {
  addMachine("a", "2000", "1.0e+12");
  addMachine("a", "2000", "1.0e+12");
  join();
  EXPECT_EQ(error, "a is named twice");
  machines.pop_back();
  error.clear();
  addMachine("b c", "2000", "1.0e+12");
  join();
  EXPECT_EQ(error.substr(0, 6), "'b c':");
  machines.pop_back();
  error.clear();
  machines.push_back({"d", mlir::parseSourceString<mlir::ModuleOp>(
                               "cluster.device_type @host target \"host\" "
                               "memory 1000 precision f32\n"
                               "cluster.node @localhost devices [@host]\n",
                               &context)});
  join();
  EXPECT_EQ(error.substr(0, 14), "d: has no GPUs");
}

} // namespace
