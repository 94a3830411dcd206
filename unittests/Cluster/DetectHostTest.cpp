//===- DetectHostTest.cpp - Cluster files of machines ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Import/Cluster.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

using namespace poplar;

namespace {

using Types = std::vector<std::string>;

HostMachine getMachine(Types features) {
  HostMachine machine;
  machine.processor = "test";
  machine.features = std::move(features);
  machine.cores = 8;
  machine.memory = 1000;
  return machine;
}

TEST(DetectHost, TypesFollowInstructions) {
  EXPECT_EQ(getHostTypes(getMachine({})), Types());
  EXPECT_EQ(getHostTypes(getMachine({"sse4.1"})), Types{"sse41-f32"});
  // AVX2 without FMA would be slower than the type promises.
  EXPECT_EQ(getHostTypes(getMachine({"sse4.1", "avx2"})), Types{"sse41-f32"});
  EXPECT_EQ(getHostTypes(getMachine({"sse4.1", "avx2", "fma"})),
            (Types{"avx2-f32", "sse41-f32"}));
  Types avx512 = {"sse4.1",   "avx2",     "fma",     "f16c",
                  "avx512bw", "avx512dq", "avx512f", "avx512vl"};
  EXPECT_EQ(getHostTypes(getMachine(avx512)),
            (Types{"avx512-f32", "avx2-f32", "f16-storage", "sse41-f32"}));
  Types amx = avx512;
  amx.insert(amx.end(), {"amx-bf16", "amx-tile"});
  EXPECT_EQ(getHostTypes(getMachine(amx)),
            (Types{"amx-bf16", "avx512-f32", "avx2-f32", "f16-storage",
                   "sse41-f32"}));
}

TEST(DetectHost, RanksShareTheMachine) {
  mlir::MLIRContext context;
  std::string error;
  auto module =
      describeHost(getMachine({"sse4.1", "avx2", "fma"}),
                   {{"avx2-f32", 1}, {"sse41-f32", 2}}, context, error);
  ASSERT_TRUE(module) << error;
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
  ClusterView view = cluster::buildClusterView(*module);
  // The types that no rank has are there for whoever edits the file.
  ASSERT_EQ(view.types.size(), 3u);
  EXPECT_EQ(view.types[0].target, "host");
  EXPECT_EQ(view.types[1].target, "host:avx2-f32");
  for (const DeviceType &type : view.types) {
    EXPECT_EQ(type.memory, 333);
    EXPECT_EQ(type.threads, 2);
  }
  EXPECT_EQ(view.countRanks(), (std::vector<int>{0, 1, 2}));
}

TEST(DetectHost, Refusals) {
  mlir::MLIRContext context;
  std::string error;
  HostMachine machine = getMachine({"sse4.1"});
  EXPECT_FALSE(describeHost(machine, {{"amx-bf16", 1}}, context, error));
  EXPECT_EQ(error, "this machine (test) has no host type 'amx-bf16' (it has: "
                   "host, sse41-f32)");
  EXPECT_FALSE(describeHost(machine, {{"host", 9}}, context, error));
  EXPECT_EQ(error, "a rank needs a core of its own: 9 ranks were asked for, "
                   "expected 1 to 8");
  EXPECT_FALSE(describeHost(machine, {}, context, error));
}

} // namespace
