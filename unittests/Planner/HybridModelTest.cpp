//===- HybridModelTest.cpp - Hybrid problems of clusters, and reviews -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "HybridOracle.h"
#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include "Poplar/Planner/Geo/GeoModel.h"
#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace poplar;

namespace {

/// Two nodes of two fast devices, one of four slow ones.
ClusterView makeCluster() {
  ClusterView cluster;
  for (const char *name : {"fast", "slow"}) {
    DeviceType type{
        name, "cuda:sm_80", 1 << 30, NumberFormat::BF16, RecomputePolicy::Keep,
        {},   {},           {}};
    type.flops = {{NumberFormat::BF16, name[0] == 'f' ? 2e14 : 1e14}};
    type.bandwidth = 1e12;
    cluster.types.push_back(type);
  }
  int rank = 0;
  for (auto [count, type] : {std::pair(2, 0), {4, 1}, {2, 0}}) {
    cluster.nodes.push_back({"n" + std::to_string(rank), rank, count});
    for (int i = 0; i < count; ++i, ++rank)
      cluster.ranks.push_back(
          {static_cast<int>(cluster.nodes.size()) - 1, type});
  }
  cluster.defaultInside = LinkSpeed{1e-6, 1e11};
  cluster.defaultBetween = LinkSpeed{1e-5, 1e10};
  cluster.links[{0, 2}] = {2e-5, 5e9};
  return cluster;
}

HybridModel makeModel(const ClusterView &cluster) {
  HybridModel model;
  model.names = {"front", "block.0", "block.1", "back"};
  model.parameters = {{{100}, {1000}, {1000}, {300}}, {100}};
  model.mostTensorDegree = 4;
  RooflineOp op;
  op.kind = RooflineOp::Kind::Gemm;
  op.flops = 1e12;
  op.rows = op.columns = op.depth = 4096;
  HybridModel::Variant variant;
  variant.recompute = RecomputePolicy::Keep;
  variant.boundaryBytes = 1 << 20;
  variant.scratchBytes = 64;
  variant.units.resize(4);
  std::vector<HybridModel::Variant> variants;
  for (int degree : {1, 2, 4}) {
    variant.tensorDegree = degree;
    for (UnitWork &unit : variant.units) {
      unit.forward = {op};
      unit.backward = {op, op};
      unit.savedBytes = 4096 / degree;
      unit.workBytes = 512 / degree;
      if (degree > 1)
        unit.forwardExchanges =
            unit.backwardExchanges = {4, (1 << 21) / degree};
    }
    variants.push_back(variant);
    op.flops /= 2;
    op.columns /= 2;
  }
  model.shared[2] = {{{{60}, {510}, {510}, {160}}, {50}},
                     {{{20}, {20}, {20}, {20}}, {}}};
  model.variants.assign(cluster.types.size(), variants);
  return model;
}

} // namespace

TEST(HybridModel, TakesDevicesAndLinksFromTheCluster) {
  ClusterView cluster = makeCluster();
  HybridModel model = makeModel(cluster);
  std::string error;
  std::vector<HybridCluster> problems =
      makeHybridProblems(cluster, model, 16, error);
  ASSERT_FALSE(problems.empty()) << error;
  const HybridProblem *problem = &problems[0].problem;
  const std::vector<HybridCluster::Devices> &devices = problems[0].devices;
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].type, 0);
  EXPECT_EQ(devices[0].ranks, (std::vector<int>{0, 1, 6, 7}));
  EXPECT_EQ(devices[1].ranks, (std::vector<int>{2, 3, 4, 5}));
  ASSERT_EQ(problem->types.size(), 2u);
  EXPECT_EQ(problem->types[0].count, 4);
  EXPECT_EQ(problem->types[0].perNode, 2);
  EXPECT_EQ(problem->types[1].count, 4);
  EXPECT_EQ(problem->types[1].perNode, 4);
  EXPECT_EQ(problem->types[0].inside.bandwidth, 1e11);
  // The slowest link between nodes of the type, in either direction.
  EXPECT_EQ(problem->getLink(0, 0).speed.bandwidth, 5e9);
  EXPECT_EQ(problem->getLink(0, 0).speed.latency, 2e-5);
  EXPECT_TRUE(problem->getLink(0, 0).isShared);
  EXPECT_EQ(problem->getLink(0, 1).speed.bandwidth, 1e10);
  EXPECT_TRUE(problem->getLink(0, 1).isShared);
  // All slow devices are in one node.
  EXPECT_EQ(problem->getLink(1, 1).speed.bandwidth, 1e11);
  EXPECT_FALSE(problem->getLink(1, 1).isShared);
  EXPECT_EQ(problem->parameterBytes, 2);
  EXPECT_EQ(problem->parameters.count(0, 4).trained, 2300);
  EXPECT_EQ(problem->parameters.count(0, 2).trained, 1100);
}

TEST(HybridModel, LinksKeepTheirOverheadInAllProblems) {
  ClusterView cluster = makeCluster();
  cluster.defaultInside->overhead = 1e-10;
  cluster.links[{0, 2}].overhead = 3e-10;
  std::string error;
  std::vector<HybridCluster> hybrid =
      makeHybridProblems(cluster, makeModel(cluster), 16, error);
  ASSERT_FALSE(hybrid.empty()) << error;
  EXPECT_EQ(hybrid[0].problem.getLink(0, 0).speed.overhead, 3e-10);
  EXPECT_EQ(hybrid[0].problem.types[1].inside.overhead, 1e-10);
  std::optional<HybridCluster> source =
      makeGeoSource(cluster, makeModel(cluster), 16, error);
  ASSERT_TRUE(source) << error;
  std::vector<GeoCluster> geo = makeGeoProblems(cluster, *source, error);
  ASSERT_FALSE(geo.empty()) << error;
  for (const GeoCluster &each : geo) {
    // Those that share a unit have a part of the message each.
    auto degree = static_cast<double>(each.tensorDegrees[0]);
    EXPECT_EQ(each.problem.getLink(0, 2).overhead, 3e-10 / degree);
    EXPECT_EQ(each.problem.getLink(2, 0).overhead, 3e-10 / degree);
    EXPECT_EQ(each.problem.getLink(0, 1).overhead, 0);
    EXPECT_EQ(each.problem.getLink(0, 0).overhead, 1e-10 / degree);
  }
}

TEST(HybridModel, LeavesDevicesOverWhereOthersShareUnits) {
  ClusterView cluster = makeCluster();
  // A fifth slow device.
  cluster.ranks.insert(cluster.ranks.begin() + 6, {1, 1});
  ++cluster.nodes[1].numRanks;
  ++cluster.nodes[2].firstRank;
  std::string error;
  std::optional<HybridCluster> source =
      makeGeoSource(cluster, makeModel(cluster), 16, error);
  ASSERT_TRUE(source) << error;
  std::vector<GeoCluster> geo = makeGeoProblems(cluster, *source, error);
  auto find = [&](std::vector<int> degrees) {
    return std::find_if(geo.begin(), geo.end(), [&](const GeoCluster &each) {
      return each.tensorDegrees == degrees;
    });
  };
  // The slow devices one by one, which the node has five of; or four together.
  ASSERT_NE(find({2, 1}), geo.end());
  EXPECT_EQ(find({2, 1})->ranks.size(), 7u);
  ASSERT_NE(find({2, 4}), geo.end());
  EXPECT_EQ(find({2, 4})->ranks.size(), 3u);
}

TEST(HybridModel, PartsTheClusterWhereLinksAreSlow) {
  // Sites of two nodes of each type, far from each other.
  ClusterView cluster = makeCluster();
  cluster.nodes.clear();
  cluster.ranks.clear();
  cluster.links.clear();
  for (int node = 0; node < 8; ++node) {
    cluster.nodes.push_back({"n" + std::to_string(node), 2 * node, 2});
    for (int i = 0; i < 2; ++i)
      cluster.ranks.push_back({node, node / 2 % 2});
  }
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b)
      if (a / 4 != b / 4)
        cluster.links[{a, b}] = {1e-2, 1e8};
  HybridModel model = makeModel(cluster);
  std::string error;
  std::vector<HybridCluster> problems =
      makeHybridProblems(cluster, model, 16, error);
  ASSERT_EQ(problems.size(), 2u) << error;
  EXPECT_EQ(problems[0].problem.types.size(), 2u);
  EXPECT_EQ(problems[0].problem.getLink(0, 0).speed.bandwidth, 1e8);
  const HybridProblem &parted = problems[1].problem;
  ASSERT_EQ(parted.types.size(), 4u);
  EXPECT_EQ(parted.types[1].name, "fast at n4");
  EXPECT_EQ(problems[1].devices[1].ranks, (std::vector<int>{8, 9, 10, 11}));
  EXPECT_EQ(problems[1].findTypes(0), (std::vector<int>{0, 1}));
  EXPECT_EQ(parted.getLink(0, 0).speed.bandwidth, 1e10);
  EXPECT_EQ(parted.getLink(0, 1).speed.bandwidth, 1e8);
  EXPECT_EQ(parted.getLink(0, 2).speed.bandwidth, 1e10);
  // The same links everywhere part nothing: there would be too many sites.
  cluster.links.clear();
  EXPECT_EQ(makeHybridProblems(cluster, model, 16, error).size(), 1u);
  // Few nodes are sites of their own if they are close inside.
  cluster.nodes.resize(2);
  cluster.ranks.resize(4);
  cluster.defaultBetween = LinkSpeed{1e-5, 1e9};
  problems = makeHybridProblems(cluster, model, 16, error);
  ASSERT_EQ(problems.size(), 2u) << error;
  ASSERT_EQ(problems[1].problem.types.size(), 2u);
  EXPECT_EQ(problems[1].problem.types[0].name, "fast at n0");
  EXPECT_EQ(problems[1].problem.types[1].name, "fast at n1");
  // And not where links are as fast as inside.
  cluster.defaultBetween = LinkSpeed{1e-6, 9e10};
  EXPECT_EQ(makeHybridProblems(cluster, model, 16, error).size(), 1u);
}

/// Nodes of two devices at random, of which some are linked otherwise than by
/// default.
static ClusterView makeLinkedCluster(std::mt19937 &random, int nodes) {
  auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  ClusterView cluster = makeCluster();
  cluster.nodes.clear();
  cluster.ranks.clear();
  cluster.links.clear();
  for (int node = 0; node < nodes; ++node) {
    cluster.nodes.push_back({"n" + std::to_string(node), 2 * node, 2});
    int type = below(2);
    cluster.ranks.insert(cluster.ranks.end(), 2, {node, type});
  }
  const double bandwidths[] = {1e8, 1e9, 1e10, 5e10};
  cluster.defaultBetween = LinkSpeed{1e-5, bandwidths[below(4)]};
  for (int count = below(2 * nodes); count > 0; --count) {
    int from = below(nodes), to = below(nodes);
    LinkSpeed link{1e-6, bandwidths[below(4)], below(2) * 1e-10};
    if (from != to)
      cluster.links[{from, to}] = cluster.links[{to, from}] = link;
  }
  return cluster;
}

/// Where a link is the default one, the planner looks at no pairs of nodes.
TEST(HybridModel, LinksMeanTheSameIfAllAreWrittenOut) {
  std::mt19937 random(7);
  size_t parted = 0;
  for (int trial = 0; trial < 400; ++trial) {
    ClusterView cluster = makeLinkedCluster(random, 2 + trial % 9),
                written = cluster;
    int nodes = static_cast<int>(cluster.nodes.size());
    for (int from = 0; from < nodes; ++from)
      for (int to = 0; to < nodes; ++to)
        if (from != to)
          written.links[{from, to}] = *cluster.findLink(from, to);
    std::string error;
    auto own = makeHybridProblems(cluster, makeModel(cluster), 16, error),
         others = makeHybridProblems(written, makeModel(written), 16, error);
    ASSERT_EQ(own.size(), others.size()) << trial;
    parted += own.size() > 1;
    for (size_t i = 0; i < own.size(); ++i) {
      ASSERT_EQ(own[i].devices.size(), others[i].devices.size()) << trial;
      for (size_t type = 0; type < own[i].devices.size(); ++type)
        EXPECT_EQ(own[i].devices[type].ranks, others[i].devices[type].ranks);
      for (size_t pair = 0; pair < own[i].problem.links.size(); ++pair) {
        HybridProblem::Link a = own[i].problem.links[pair],
                            b = others[i].problem.links[pair];
        EXPECT_EQ(a.speed.bandwidth, b.speed.bandwidth) << trial;
        EXPECT_EQ(a.speed.latency, b.speed.latency) << trial;
        EXPECT_EQ(a.speed.overhead, b.speed.overhead) << trial;
        EXPECT_EQ(a.isShared, b.isShared) << trial;
      }
    }
  }
  EXPECT_GE(parted, 40u);
}

TEST(HybridModel, SharesUnitsAmongDevices) {
  ClusterView cluster = makeCluster();
  HybridModel model = makeModel(cluster);
  std::string error;
  std::vector<HybridCluster> problems =
      makeHybridProblems(cluster, model, 16, error);
  ASSERT_FALSE(problems.empty()) << error;
  const HybridProblem *problem = &problems[0].problem;
  const HybridProblem::Mode *one = nullptr, *two = nullptr;
  for (const HybridProblem::Mode &mode : problem->types[1].modes) {
    if (mode.microBatch == 2 && mode.tensorDegree == 1)
      one = &mode;
    if (mode.microBatch == 2 && mode.tensorDegree == 2)
      two = &mode;
  }
  ASSERT_TRUE(one && two);
  // Four exchanges in each direction, of two samples.
  double exchange = 4 * 1e-6 + 2 * (1 << 20) / 1e11;
  const HybridProblem::UnitCost &whole = one->units[1], &half = two->units[1];
  EXPECT_EQ(whole.communication, 0);
  EXPECT_NEAR(half.communication, 2 * exchange, 1e-12);
  // Half the columns: somewhat more than half the time.
  double computing = half.forward - exchange;
  EXPECT_GT(computing, whole.forward / 2);
  EXPECT_LT(computing, whole.forward / 2 * 1.05);
  EXPECT_EQ(half.savedBytes, whole.savedBytes / 2);
  // Units 0 to 2: what the first has, and what both have.
  HeldElements held = problem->hold(2, 0, 3);
  EXPECT_EQ(held.own.trained, 1030);
  EXPECT_EQ(held.tied.trained, 50);
  EXPECT_EQ(held.whole.trained, 60);
  // Tied parameters of all units count once. For four devices nothing is known
  // but their number.
  held = problem->hold(2, 0, 4);
  EXPECT_EQ(held.own.trained, 1190);
  EXPECT_EQ(held.tied.trained, 0);
  EXPECT_EQ(held.whole.trained, 80);
  EXPECT_EQ(problem->hold(4, 0, 4).own.trained, 575);
}

TEST(HybridModel, UnlikeDevicesOfANodeAreATeam) {
  // Two nodes of two fast devices and a slow one each, and one of two fast
  // ones.
  ClusterView cluster = makeCluster();
  cluster.nodes = {{"n0", 0, 3}, {"n1", 3, 3}, {"n2", 6, 2}};
  cluster.ranks = {{0, 0}, {0, 1}, {0, 0}, {1, 1},
                   {1, 0}, {1, 0}, {2, 0}, {2, 0}};
  cluster.links.clear();
  EXPECT_EQ(findTeam(cluster), (DeviceTeam{0, 0, 1}));
  HybridModel model = makeModel(cluster);
  for (auto &variants : model.variants) {
    variants.push_back(variants.back());
    variants.back().tensorDegree = 3;
  }
  cluster.types[1].memory = 1 << 28;
  std::string error;
  std::vector<HybridCluster> problems =
      makeHybridProblems(cluster, model, 16, error);
  ASSERT_EQ(problems.size(), 2u) << error;
  ASSERT_EQ(problems[1].devices.size(), 2u);
  // Team by team, in the order of the team.
  EXPECT_EQ(problems[1].devices[0].ranks, (std::vector<int>{0, 2, 1, 4, 5, 3}));
  EXPECT_EQ(problems[1].devices[1].ranks, (std::vector<int>{6, 7}));
  const HybridProblem::DeviceType &team = problems[1].problem.types[0];
  EXPECT_EQ(team.name, "fast+fast+slow");
  EXPECT_EQ(team.count, 6);
  EXPECT_EQ(team.perNode, 3);
  // The fast ones compute about twice as much.
  ASSERT_EQ(team.parts.size(), 3u);
  EXPECT_EQ(team.parts[0], team.parts[1]);
  EXPECT_NEAR(double(team.parts[0]) / double(team.parts[2]), 2, 0.1);
  for (const HybridProblem::Mode &mode : team.modes)
    EXPECT_EQ(mode.tensorDegree, 3);
  // All four heads may be rounded to what fills the slow one: two of them.
  EXPECT_EQ(team.memory, 64 + ((1 << 28) - 64) / 3 * 4);
  // Another format, or other numbers in another node, and there is none.
  ClusterView other = cluster;
  other.types[1].precision = NumberFormat::F32;
  EXPECT_TRUE(findTeam(other).empty());
  other = cluster;
  other.ranks[5].type = 1;
  EXPECT_TRUE(findTeam(other).empty());
}

TEST(HybridModel, TeamsHaveMicroBatchesThatAllWereMeasuredAt) {
  // In turns, each device of a team was measured less far than the other.
  for (int shorter : {0, 1}) {
    ClusterView cluster = makeCluster();
    cluster.nodes = {{"n0", 0, 2}};
    cluster.ranks = {{0, 0}, {0, 1}};
    cluster.links.clear();
    HybridModel model = makeModel(cluster);
    for (auto &variants : model.variants) {
      variants.push_back(variants.back());
      variants.back().tensorDegree = 2;
    }
    for (int type : {0, 1})
      for (int stage = 0; stage < 4; ++stage) {
        DeviceProfile profile{};
        profile.type = type;
        profile.stage = stage;
        profile.precision = NumberFormat::BF16;
        profile.recompute = RecomputePolicy::Keep;
        profile.microBatches = {1, 2};
        profile.seconds = {0.1 * (type + 1), 0.2 * (type + 1)};
        if (type != shorter) {
          profile.microBatches.push_back(4);
          profile.seconds.push_back(0.4 * (type + 1));
        }
        cluster.profiles.push_back(profile);
      }
    std::string error;
    std::vector<HybridCluster> problems =
        makeHybridProblems(cluster, model, 16, error);
    ASSERT_EQ(problems.size(), 2u) << error;
    const HybridProblem::DeviceType &team = problems[1].problem.types[0];
    EXPECT_FALSE(team.modes.empty());
    for (const HybridProblem::Mode &mode : team.modes)
      EXPECT_LE(mode.microBatch, 2);
  }
}

TEST(HybridModel, ScalesUnitsToWhatWasMeasured) {
  ClusterView cluster = makeCluster();
  HybridModel model = makeModel(cluster);
  DeviceProfile profile{};
  profile.type = 0;
  profile.stage = 2;
  profile.microBatches = {1, 2, 4};
  profile.seconds = {1, 1.5, 3};
  profile.precision = NumberFormat::BF16;
  profile.recompute = RecomputePolicy::Keep;
  profile.optimizerSeconds = 2.3;
  cluster.profiles = {profile};
  std::string error;
  std::vector<HybridCluster> problems =
      makeHybridProblems(cluster, model, 16, error);
  ASSERT_FALSE(problems.empty()) << error;
  const HybridProblem *problem = &problems[0].problem;
  std::map<int64_t, double> sums;
  for (const HybridProblem::Mode &mode : problem->types[0].modes)
    if (mode.tensorDegree == 1)
      for (const HybridProblem::UnitCost &unit : mode.units)
        sums[mode.microBatch] += unit.forward + unit.backward;
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_NEAR(sums[1], 1, 1e-9);
  EXPECT_NEAR(sums[2], 1.5, 1e-9);
  EXPECT_NEAR(sums[4], 3, 1e-9);
  EXPECT_NEAR(problem->types[0].optimizerSeconds, 2.3 / 2300, 1e-12);
  // The optimizer updates no frozen parameters: they have no part of it.
  HybridModel adapted = model;
  for (ParameterElements &unit : adapted.parameters.units)
    unit.frozen = 5000;
  problems = makeHybridProblems(cluster, adapted, 16, error);
  ASSERT_FALSE(problems.empty()) << error;
  EXPECT_NEAR(problems[0].problem.types[0].optimizerSeconds, 2.3 / 2300, 1e-12);
  // Figures that are needed, and are not there.
  cluster.types[1].flops.clear();
  EXPECT_TRUE(makeHybridProblems(cluster, model, 16, error).empty());
  EXPECT_EQ(error, "device type 'slow' has neither a profile of this model nor "
                   "'flops' of bf16 and 'bandwidth' to estimate it from; make "
                   "one with: poplar profile --model MODEL_MLIR --cluster "
                   "CLUSTER --device-type slow -o profiles/slow.json and plan "
                   "with --profiles profiles");
  cluster.types[0].flops.clear();
  cluster.types[0].bandwidth.reset();
  profile.type = 1;
  cluster.profiles.push_back(profile);
  EXPECT_FALSE(makeHybridProblems(cluster, model, 16, error).empty()) << error;
}

/// What ZeRO exchanges is what the runtime's collectives would take.
static void checkExchange(int nodes, int perNode, const std::string &target) {
  ClusterView cluster;
  cluster.types.push_back({"a",
                           target,
                           1 << 30,
                           NumberFormat::F32,
                           RecomputePolicy::Keep,
                           {},
                           {},
                           {}});
  cluster.defaultInside = LinkSpeed{0.25, 8192};
  cluster.defaultBetween = LinkSpeed{0.5, 1024};
  std::vector<ClusterRank> places;
  std::vector<int64_t> bounds = {0};
  for (int node = 0; node < nodes; ++node)
    for (int i = 0; i < perNode; ++i) {
      places.push_back({node, 0});
      bounds.push_back(bounds.back() + 64);
    }
  CollectiveCost collectives(cluster, places);
  HybridProblem problem;
  problem.parameters.units = {{bounds.back()}};
  problem.globalBatch = nodes * perNode;
  problem.zeroStages = {1};
  HybridProblem::DeviceType type;
  type.name = "a";
  type.count = problem.globalBatch;
  type.perNode = perNode;
  type.memory = 1 << 30;
  type.inside = *cluster.defaultInside;
  type.library = getCollectiveLibrary(target);
  type.modes = {{1, 1, RecomputePolicy::Keep, {{1, 1, 0, 1, 1}}}};
  problem.types = {type};
  problem.links = {nodes > 1
                       ? HybridProblem::Link{*cluster.defaultBetween, true}
                       : HybridProblem::Link{type.inside, false}};
  HybridPlan plan;
  plan.groups = {{0, 1, 1}};
  plan.lanes = {{{{0, 0}}, type.count, problem.globalBatch}};
  double expected = 2 + collectives.reduceScatter("", bounds, 4).seconds() +
                    collectives.allGather("", bounds, 2).seconds();
  EXPECT_NEAR(plan.predict(problem), expected, 1e-9)
      << nodes << " x " << perNode << ", " << target;
}

TEST(HybridModel, ExchangesAsTheCollectivesDo) {
  for (const char *target : {"host", "cuda:sm_80"})
    for (int nodes : {1, 2, 4})
      for (int perNode : {1, 2, 8})
        if (nodes * perNode > 1)
          checkExchange(nodes, perNode, target);
}

TEST(HybridReview, SplitsTheGapExactly) {
  std::mt19937 random(9);
  int gaps = 0;
  for (int i = 0; i < 300; ++i) {
    HybridProblem problem = makeRandomHybrid(random);
    HybridSearchResult result = searchHybridPlan(problem);
    if (!result.plan)
      continue;
    std::vector<HybridReview::Alone> alone;
    for (size_t type = 0; type < problem.types.size(); ++type) {
      HybridProblem part = problem.restrictTo({static_cast<int>(type)});
      alone.push_back(reviewAlone(part, part, chooseHybridPlan({part})));
    }
    HybridReview review = reviewHybridPlan(
        problem, {{problem, *result.plan}},
        simulatePipeline(problem, *result.plan).seconds, alone);
    std::array<double, HybridLosses::numCauses> gap = review.splitGap();
    double sum = std::accumulate(gap.begin(), gap.end(), 0.0),
           whole = review.getSumOfTypes() - review.throughput;
    EXPECT_NEAR(sum, whole, 1e-9 * review.losses.capacity) << i;
    EXPECT_LE(review.throughput, review.upperBound * (1 + 1e-9)) << i;
    EXPECT_LE(review.getSumOfTypes(), review.upperBound * (1 + 1e-9)) << i;
    // One type alone.
    if (problem.types.size() == 1)
      EXPECT_NEAR(whole, 0, 1e-9) << i;
    else
      gaps += whole > 1e-6;
    EXPECT_NEAR(std::accumulate(review.losses.lost.begin(),
                                review.losses.lost.end(), 0.0) +
                    review.throughput,
                review.losses.capacity, 1e-9 * review.losses.capacity)
        << i;
    EXPECT_GE(review.losses.lost[HybridLosses::Modes], -1e-9) << i;
    EXPECT_GE(review.losses.lost[HybridLosses::Idle], -1e-9) << i;
  }
  EXPECT_GT(gaps, 50);
}

/// Among the best plans of every number of chunks, the fastest when simulated
/// is taken.
TEST(HybridChoice, TakesTheFastestWhenSimulated) {
  std::mt19937 random(9);
  int interleaved = 0, solved = 0;
  for (int i = 0; i < 300; ++i) {
    HybridProblem problem = makeRandomInterleaved(random);
    problem.schedules = HybridProblem().schedules;
    double least = std::numeric_limits<double>::infinity();
    for (int chunks = 1; chunks <= HybridProblem::mostChunks; ++chunks) {
      HybridProblem one = problem;
      if (chunks > 1) {
        one.schedules = {PipelineSchedule::Interleaved};
        one.chunks = chunks;
      }
      if (std::optional<HybridPlan> plan = searchHybridPlan(one).plan)
        least = std::min(least, simulatePipeline(one, *plan).seconds);
    }
    HybridChoice choice = chooseHybridPlan({problem}),
                 single = chooseHybridPlan({problem}, hybridEffort, 1);
    ASSERT_EQ(choice.search.plan.has_value(), std::isfinite(least)) << i;
    EXPECT_EQ(choice.seconds, least) << i;
    EXPECT_LE(choice.seconds, single.seconds) << i;
    if (!choice.search.plan)
      continue;
    ++solved;
    EXPECT_EQ(choice.search.plan->verify(problem), "") << i;
    EXPECT_TRUE(choice.search.isProven()) << i;
    interleaved += choice.search.plan->chunks > 1;
  }
  EXPECT_GT(solved, 200);
  EXPECT_GT(interleaved, 10);
}
