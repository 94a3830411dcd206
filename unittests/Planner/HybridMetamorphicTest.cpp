//===- HybridMetamorphicTest.cpp - Hybrid plans do not get worse ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MetamorphicClusters.h"
#include "Poplar/Planner/Geo/GeoModel.h"
#include "Poplar/Planner/Pipeline/HybridSelection.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace poplar;
using namespace poplar::test;

/// By how much a plan may get worse when a cluster gets better.
static constexpr double tolerance = 0.01;

namespace {

/// A model of few units, as all types compute it.
struct RandomModel {
  HybridModel model;
  int64_t globalBatch;

  HybridModel of(const ClusterView &cluster) const {
    HybridModel all = model;
    all.variants.assign(cluster.types.size(), model.variants.front());
    return all;
  }
};

struct Planned {
  double seconds;
  std::string text;
};
using Planner = std::function<std::optional<Planned>(const ClusterView &,
                                                     const RandomModel &)>;

} // namespace

/// A variant of whole units, as `degree` devices share them.
static HybridModel::Variant share(HybridModel::Variant variant, int degree) {
  variant.tensorDegree = degree;
  for (UnitWork &unit : variant.units) {
    for (auto *ops : {&unit.forward, &unit.backward})
      for (RooflineOp &op : *ops) {
        op.flops /= degree;
        op.columns /= degree;
      }
    unit.forwardExchanges = unit.backwardExchanges = {
        4, 4 * variant.boundaryBytes * (degree - 1) / degree};
    unit.savedBytes /= degree;
    unit.workBytes /= degree;
  }
  return variant;
}

/// As large as what makeUnevenCluster() has memory and links for.
static RandomModel makeModel(std::mt19937 &random, size_t ranks) {
  auto real = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  RandomModel made;
  HybridModel &model = made.model;
  auto units = 3 + random() % 4;
  RooflineOp op;
  op.kind = RooflineOp::Kind::Gemm;
  op.flops = 1e12;
  op.rows = op.columns = op.depth = 4096;
  HybridModel::Variant keep;
  keep.recompute = RecomputePolicy::Keep;
  keep.scratchBytes = 64;
  keep.boundaryBytes = static_cast<int64_t>(1e6 * (1 + 30 * real()));
  for (size_t unit = 0; unit < units; ++unit) {
    bool isEnd = unit == 0 || unit + 1 == units;
    model.names.push_back("unit." + std::to_string(unit));
    ParameterElements elements;
    elements.trained = isEnd ? 8000000 : 100000000 / int64_t(units);
    model.parameters.units.push_back(elements);
    UnitWork work;
    work.forward = {op};
    work.backward.assign(isEnd ? 1 : 2, op);
    work.savedBytes = 20000000;
    work.workBytes = 4000000;
    keep.units.push_back(std::move(work));
  }
  model.parameters.tied.trained = random() % 2 ? 4000000 : 0;
  bool canShare = random() % 2;
  HybridModel::Variant recompute = keep;
  recompute.recompute = RecomputePolicy::Unit;
  for (UnitWork &unit : recompute.units) {
    unit.backward.insert(unit.backward.end(), unit.forward.begin(),
                         unit.forward.end());
    unit.savedBytes /= 5;
  }
  model.variants = {{keep, recompute}};
  if (canShare) {
    model.mostTensorDegree = 2;
    for (const HybridModel::Variant &whole : {keep, recompute})
      model.variants.front().push_back(share(whole, 2));
  }
  made.globalBatch = 1 + static_cast<int64_t>(random() % (4 * ranks + 8));
  return made;
}

static std::optional<Planned> planHybrid(const ClusterView &cluster,
                                         const RandomModel &model) {
  HybridSelection found = selectHybridDevices(
      cluster, model.of(cluster), model.globalBatch, [](HybridProblem &) {});
  if (!found.choice.search.plan)
    return std::nullopt;
  const HybridPlan &plan = *found.choice.search.plan;
  std::ostringstream text;
  text << found.choice.seconds << " s simulated, " << plan.seconds
       << " s, bound " << found.choice.search.lowerBound
       << (found.isExhaustive ? "" : ", not all was tried") << ", "
       << toString(plan.schedule) << " of " << plan.chunks << " chunks, units";
  for (const HybridPlan::Group &group : plan.groups)
    text << " " << group.first << "-" << group.end << "/" << group.zeroStage;
  for (const HybridPlan::Lane &lane : plan.lanes) {
    text << "; " << lane.pipelines << " x";
    for (const HybridPlan::Lane::Stage &stage : lane.stages)
      text << " " << found.cluster.problem.types[stage.type].name << "."
           << stage.mode;
    text << ", " << lane.samples << " samples";
  }
  return Planned{found.choice.seconds, text.str()};
}

static std::optional<Planned> planGeo(const ClusterView &cluster,
                                      const RandomModel &model) {
  std::string error;
  HybridModel all = model.of(cluster);
  std::optional<HybridCluster> whole =
      makeGeoSource(cluster, all, model.globalBatch, error);
  if (!whole)
    return std::nullopt;
  std::vector<GeoCluster> problems = makeGeoProblems(cluster, *whole, error);
  if (problems.empty())
    return std::nullopt;
  GeoChoice found = searchGeoClusters(problems);
  if (!found.search.plan)
    return std::nullopt;
  const GeoPlan &plan = *found.search.plan;
  std::ostringstream text;
  text << plan.seconds << " s, bound " << found.search.lowerBound << ", units";
  for (int cut : plan.cuts)
    text << " " << cut;
  for (const std::vector<int> &stage : plan.stages) {
    text << ";";
    for (int device : stage)
      text << " " << device;
  }
  return Planned{plan.seconds, text.str()};
}

/// Makes `clusters` random clusters, and each change of them.
static void check(const Planner &plan, unsigned seed, int clusters,
                  int mostNodes, int mostDevices) {
  for (int i = 0; i < clusters; ++i) {
    // Each cluster has a generator of its own, so that one can be looked at by
    // itself.
    std::mt19937 random(seed + i);
    ClusterView cluster =
        makeUnevenCluster(random, mostNodes, mostDevices).cluster;
    RandomModel model = makeModel(random, cluster.ranks.size());
    std::optional<Planned> before = plan(cluster, model);
    for (const ClusterChange &change : getClusterChanges()) {
      auto changed = change.apply(cluster, random);
      if (!changed || !before)
        continue;
      std::optional<Planned> after = plan(*changed, model);
      std::string what = std::string(change.name) + ", seed " +
                         std::to_string(seed + i) + ", " +
                         std::to_string(model.globalBatch) + " samples\n" +
                         describeCluster(cluster) + "\n" + before->text;
      ASSERT_TRUE(after) << "no plan any more: " << what;
      EXPECT_LE(after->seconds, before->seconds * (1 + tolerance))
          << what << "\nafter: " << after->text;
      if (change.isSame) {
        EXPECT_GE(after->seconds, before->seconds * (1 - tolerance))
            << what << "\nafter: " << after->text;
      }
    }
  }
}

TEST(HybridMetamorphicTest, SmallClusters) {
  check(planHybrid, chooseSeed(1), countClusters(40), 3, 2);
}

TEST(HybridMetamorphicTest, LargerClusters) {
  check(planHybrid, chooseSeed(1000), countClusters(4), 4, 4);
}

TEST(GeoMetamorphicTest, SmallClusters) {
  check(planGeo, chooseSeed(1), countClusters(5), 3, 2);
}
