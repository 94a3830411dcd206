//===- ClusterViewTest.cpp - Clusters as the planner sees them ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

class ClusterViewTest : public testing::Test {
protected:
  ClusterView build(llvm::StringRef text) {
    context.loadDialect<cluster::ClusterDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module ? cluster::buildClusterView(*module) : ClusterView();
  }

  mlir::MLIRContext context;
};

// ODS has a list of its own, for the keyword that ops print.
TEST(FormatKeywordTest, IsTheWordOfTheFormat) {
  for (NumberFormat format : listWords<NumberFormat>()) {
    cluster::FormatKeyword keyword = cluster::toKeyword(format);
    EXPECT_EQ(cluster::stringifyFormatKeyword(keyword), toString(format));
    EXPECT_EQ(cluster::symbolizeFormatKeyword(toString(format)), keyword);
  }
}

// Ops may come in any order; indices follow the nodes and types among
// themselves.
TEST_F(ClusterViewTest, Ranks) {
  ClusterView view = build(R"mlir(
    cluster.node @n devices [@v100, 2 x @a100]
    cluster.link inside nodes latency 1.0e-6 bandwidth 1.0e10
    cluster.link between nodes latency 1.0e-5 bandwidth 1.0e9
    cluster.device_type @a100 target "cuda:sm_80" memory 100 precision bf16
        recompute "recompute-unit" flops {bf16 = 3.0e14} bandwidth 2.0e12
    cluster.node @m devices [@cpu]
    cluster.device_type @v100 target "cuda:sm_70" memory 50 precision f16
    cluster.device_type @cpu target "host" memory 20 precision f32 threads 3
  )mlir");
  ASSERT_EQ(view.types.size(), 3u);
  const DeviceType &a100 = view.types[0], &v100 = view.types[1],
                   &cpu = view.types[2];
  EXPECT_EQ(a100.name, "a100");
  EXPECT_EQ(a100.target, "cuda:sm_80");
  EXPECT_EQ(a100.memory, 100);
  EXPECT_EQ(a100.precision, NumberFormat::BF16);
  EXPECT_EQ(a100.recompute, RecomputePolicy::Unit);
  EXPECT_EQ(a100.flops,
            (std::map<NumberFormat, double>{{NumberFormat::BF16, 3e14}}));
  EXPECT_EQ(a100.bandwidth, 2e12);
  EXPECT_EQ(a100.threads, std::nullopt);
  EXPECT_EQ(v100.recompute, RecomputePolicy::Keep);
  EXPECT_EQ(v100.bandwidth, std::nullopt);
  EXPECT_EQ(cpu.threads, 3);

  ASSERT_EQ(view.nodes.size(), 2u);
  EXPECT_EQ(view.nodes[0].name, "n");
  EXPECT_EQ(view.nodes[0].firstRank, 0);
  EXPECT_EQ(view.nodes[0].numRanks, 3);
  EXPECT_EQ(view.nodes[1].firstRank, 3);
  EXPECT_EQ(view.nodes[1].numRanks, 1);
  std::vector<std::pair<int, int>> ranks;
  for (const ClusterRank &rank : view.ranks)
    ranks.emplace_back(rank.node, rank.type);
  EXPECT_EQ(ranks,
            (std::vector<std::pair<int, int>>{{0, 1}, {0, 0}, {0, 0}, {1, 2}}));
  EXPECT_EQ(view.countRanks(), (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(view.findType("cpu"), 2);
  EXPECT_EQ(view.findType("n"), std::nullopt);
}

// A pair's own link goes before the default, and directions are apart.
TEST_F(ClusterViewTest, Links) {
  ClusterView view = build(R"mlir(
    cluster.device_type @a target "host" memory 1 precision f32
    cluster.node @p devices [2 x @a]
    cluster.node @q devices [2 x @a]
    cluster.node @r devices [@a]
    cluster.link inside nodes latency 1 bandwidth 10
    cluster.link inside @q latency 2 bandwidth 20
    cluster.link between nodes latency 3 bandwidth 30
    cluster.link between @p and @q latency 4 bandwidth 40
    cluster.link from @r to @p latency 5 bandwidth 50
  )mlir");
  auto latency = [&](int from, int to) {
    LinkSpeed link = view.getLink(from, to);
    EXPECT_EQ(link.bandwidth, 10 * link.latency);
    return link.latency;
  };
  EXPECT_EQ(latency(0, 1), 1);
  EXPECT_EQ(latency(2, 3), 2);
  EXPECT_EQ(latency(0, 2), 4);
  EXPECT_EQ(latency(3, 1), 4);
  EXPECT_EQ(latency(4, 0), 5);
  EXPECT_EQ(latency(0, 4), 3);
  EXPECT_EQ(latency(2, 4), 3);
  EXPECT_EQ(view.getLink(1, 1).latency, 0);
  EXPECT_TRUE(std::isinf(view.getLink(1, 1).bandwidth));
}

TEST_F(ClusterViewTest, LinksThatAreNotThere) {
  ClusterView view = build(R"mlir(
    cluster.device_type @a target "host" memory 1 precision f32
    cluster.node @alone devices [@a]
  )mlir");
  EXPECT_FALSE(view.findLink(0, 0));
}

TEST_F(ClusterViewTest, NoCluster) {
  ClusterView view = build("");
  EXPECT_TRUE(view.ranks.empty());
  EXPECT_TRUE(view.types.empty());
}

TEST_F(ClusterViewTest, Profiles) {
  ClusterView view = build(R"mlir(
    cluster.device_type @a target "cuda:sm_80" memory 1 precision bf16
    cluster.device_type @b target "host" memory 1 precision f32
    cluster.profile @a stage 1 micro_batches [1, 2] seconds [1.0, 2.0]
        spread [0.1, 0.2] max_micro_batch 5 memory fixed 7 per_sample 3
        optimizer 0.5 estimate model "x"
    cluster.profile @a stage 1 micro_batches [1, 2] seconds [1.5, 2.5] model "x"
    cluster.profile @a stage 1 micro_batches [1, 2] seconds [3.0, 4.0]
    cluster.profile @a stage 1 micro_batches [1, 2] seconds [5.0, 6.0]
        precision f32 model "x"
    cluster.profile @a stage 1 micro_batches [1, 2] seconds [7.0, 8.0]
        recompute "recompute-unit" model "x"
    cluster.profile @a stage 2 micro_batches [1, 2] seconds [9.0, 10.0]
        estimate model "x"
    cluster.profile @b stage 2 micro_batches [] seconds [] max_micro_batch 0
  )mlir");
  ASSERT_EQ(view.profiles.size(), 7u);
  const DeviceProfile &first = view.profiles[0];
  EXPECT_EQ(first.type, 0);
  EXPECT_EQ(first.stage, 1);
  EXPECT_EQ(first.microBatches, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(first.seconds, (std::vector<double>{1, 2}));
  EXPECT_EQ(first.spread, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(first.maxMicroBatch, 5);
  ASSERT_TRUE(first.memory);
  EXPECT_EQ(first.memory->fixed, 7);
  EXPECT_EQ(first.memory->perSample, 3);
  EXPECT_EQ(first.optimizerSeconds, 0.5);
  EXPECT_EQ(first.precision, NumberFormat::BF16);
  EXPECT_EQ(first.recompute, RecomputePolicy::Keep);
  EXPECT_TRUE(first.isEstimate);
  EXPECT_EQ(first.model, "x");
  const DeviceProfile &second = view.profiles[1];
  EXPECT_FALSE(second.isEstimate);
  EXPECT_FALSE(second.memory);
  EXPECT_EQ(second.maxMicroBatch, std::nullopt);
  EXPECT_EQ(view.profiles[3].precision, NumberFormat::F32);
  EXPECT_EQ(view.profiles[4].recompute, RecomputePolicy::Unit);

  // What is measured goes before what is estimated, the model's own before any.
  EXPECT_EQ(view.findProfile(0, 1, "x"), &view.profiles[1]);
  EXPECT_EQ(view.findProfile(0, 1, "y"), &view.profiles[2]);
  EXPECT_EQ(view.findProfile(0, 2, "x"), &view.profiles[5]);
  EXPECT_EQ(view.findProfile(0, 2, "y"), nullptr);
  EXPECT_EQ(view.findProfile(0, 2), &view.profiles[5]);
  EXPECT_EQ(view.findProfile(0, 3), nullptr);
  EXPECT_EQ(view.findProfile(1, 2, "x"), &view.profiles[6]);
  // As the type is set up: not the curve of another policy.
  view.types[0].recompute = RecomputePolicy::Unit;
  EXPECT_EQ(view.findProfile(0, 1, "x"), &view.profiles[4]);
}

} // namespace
