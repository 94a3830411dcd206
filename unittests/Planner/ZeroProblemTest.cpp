//===- ZeroProblemTest.cpp - The batch problem of a cluster ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/ZeroProblem.h"
#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

constexpr int64_t elements = 1000;
constexpr int64_t fixedBytes = 20000, sampleBytes = 3000;

/// Ranks 0 and 1 of type "large" on node 0, rank 2 of type "small" on node 1.
/// Powers of two where times are compared exactly.
class ZeroProblemTest : public testing::Test {
protected:
  ZeroProblemTest() {
    cluster.types = {makeType("large", 40000), makeType("small", 30000)};
    cluster.nodes = {{"a", 0, 2}, {"b", 2, 1}};
    cluster.ranks = {{0, 0}, {0, 0}, {1, 1}};
    cluster.defaultInside = LinkSpeed{0.25, 8192};
    cluster.defaultBetween = LinkSpeed{0.5, 1024};
    for (int type = 0; type < 2; ++type)
      for (int stage = 0; stage < 4; ++stage)
        cluster.profiles.push_back(makeProfile(type, stage));
    model.parameters.trained = elements;
    model.gatheredForward = model.gatheredBackward =
        model.reduced = {0, elements};
  }

  static DeviceType makeType(const std::string &name, int64_t memory) {
    DeviceType type;
    type.name = name;
    type.target = "host";
    type.memory = memory;
    type.precision = NumberFormat::F32;
    type.recompute = RecomputePolicy::Keep;
    return type;
  }

  static DeviceProfile makeProfile(int type, int stage) {
    DeviceProfile profile;
    profile.type = type;
    profile.stage = stage;
    profile.microBatches = {1, 8};
    profile.seconds = {1, 8};
    profile.memory = DeviceProfile::Memory{fixedBytes, sampleBytes};
    profile.precision = NumberFormat::F32;
    profile.recompute = RecomputePolicy::Keep;
    profile.isEstimate = false;
    return profile;
  }

  BatchProblem pose(int stage, std::vector<double> state = {1, 1, 1}) {
    std::string error;
    std::optional<BatchProblem> problem =
        makeBatchProblem(cluster, model, stage, 100, state, error);
    EXPECT_TRUE(problem) << error;
    return problem.value_or(BatchProblem());
  }

  std::string fail(int stage) {
    std::string error;
    EXPECT_FALSE(
        makeBatchProblem(cluster, model, stage, 100, {1, 1, 1}, error));
    return error;
  }

  ClusterView cluster;
  ModelFacts model;
};

TEST_F(ZeroProblemTest, TypesAreThoseOfTheCluster) {
  cluster.types[0].flops = {{NumberFormat::F32, 2e12},
                            {NumberFormat::BF16, 4e12}};
  cluster.types.push_back(makeType("unused", 1));
  BatchProblem problem = pose(1);
  EXPECT_EQ(problem.globalBatch, 100);
  EXPECT_EQ(problem.zeroStage, 1);
  ASSERT_EQ(problem.types.size(), 3u);
  EXPECT_EQ(problem.types[0].name, "large");
  EXPECT_EQ(problem.types[0].count, 2);
  // The peak is that of the format the type computes in; unknown is 0.
  EXPECT_EQ(problem.types[0].flops, 2e12);
  EXPECT_EQ(problem.types[1].flops, 0);
  EXPECT_EQ(problem.types[0].curve.seconds(4), 4);
  EXPECT_EQ(problem.types[2].count, 0);
  EXPECT_EQ(problem.types[2].largestBatch, 0);
}

TEST_F(ZeroProblemTest, CollectivesAreThoseOfTheStage) {
  model.buckets = 5;
  model.firstBucket = 100;
  model.lastBucket = 150;
  model.gatheredForward = {6, 1100};
  model.gatheredBackward = {3, 700};
  model.reduced = {7, 1200};
  CollectiveCost cost(cluster, cluster.ranks);
  // Thirds of a bucket, for as many buckets with as many elements.
  auto gather = [&](int64_t buckets, double elements) {
    auto one = cost.allGather("", {0, 1000, 2000, 3000}, 4);
    return double(buckets) * one.latency +
           elements / 3000 * (one.seconds() - one.latency);
  };
  auto reduce = [&](int64_t buckets, double elements) {
    auto one = cost.reduceScatter("", {0, 1000, 2000, 3000}, 4);
    return double(buckets) * one.latency +
           elements / 3000 * (one.seconds() - one.latency);
  };
  double exchanges =
      3 * cost.exchange("", 8).seconds() + cost.exchange("", 16).seconds();
  // Two collectives on links that go both ways both take as long.
  double iteration[] = {exchanges + 2 * reduce(1, 100),
                        exchanges + reduce(1, 100) + gather(5, 1000),
                        exchanges + gather(5, 1000), exchanges};
  double step[] = {0, 0, reduce(1, 100), reduce(1, 100) + gather(1, 100)};
  double forward[] = {0, 0, 0, gather(5, 1000)};
  double backward[] = {2 * reduce(4, 900), reduce(4, 900), reduce(6, 1100),
                       reduce(6, 1100) + gather(3, 700)};
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = pose(stage);
    EXPECT_NEAR(problem.iterationSync, iteration[stage], 1e-8) << stage;
    EXPECT_NEAR(problem.stepSync, step[stage], 1e-8) << stage;
    EXPECT_NEAR(problem.forwardSync, forward[stage], 1e-8) << stage;
    EXPECT_NEAR(problem.backwardSync, backward[stage], 1e-8) << stage;
  }
}

TEST_F(ZeroProblemTest, TheUpdateHidesGathers) {
  model.buckets = 4;
  model.firstBucket = model.lastBucket = 250;
  double gather = pose(1).iterationSync, exchanges = pose(3).iterationSync;
  gather -= exchanges + pose(2).stepSync; // the last reduction
  // A third of 9 seconds, and of these 7/9 are AdamW's.
  for (DeviceProfile &profile : cluster.profiles)
    profile.optimizerSeconds = 9;
  double update = pose(2).iterationSync - exchanges;
  EXPECT_NEAR(update, 3 + std::max(gather / 4, gather - 7.0 / 3 * 3 / 4), 1e-9);
  for (DeviceProfile &profile : cluster.profiles)
    profile.optimizerSeconds = 900;
  EXPECT_NEAR(pose(2).iterationSync - exchanges, 300 + gather / 4, 1e-9);
}

TEST_F(ZeroProblemTest, OneRankTalksToNobody) {
  cluster.ranks = {{0, 0}};
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = pose(stage, {1});
    EXPECT_EQ(problem.iterationSync, 0);
    EXPECT_EQ(problem.stepSync, 0);
    EXPECT_EQ(problem.forwardSync, 0);
    EXPECT_EQ(problem.backwardSync, 0);
    // Holds the whole state in any stage.
    EXPECT_EQ(problem.types[0].fixedBytes, fixedBytes);
  }
}

TEST_F(ZeroProblemTest, TheWireIsTheFormatOfAllOrF32) {
  std::string target = "cuda:sm_80";
  auto parameterSeconds = [&](NumberFormat large, NumberFormat small) {
    cluster.types[0].precision = large;
    cluster.types[1].precision = small;
    cluster.types[0].target = cluster.types[1].target = target;
    for (DeviceProfile &profile : cluster.profiles)
      profile.precision = profile.type == 0 ? large : small;
    return pose(3).forwardSync;
  };
  double single = parameterSeconds(NumberFormat::F32, NumberFormat::F32);
  EXPECT_DOUBLE_EQ(parameterSeconds(NumberFormat::BF16, NumberFormat::BF16),
                   single / 2);
  EXPECT_DOUBLE_EQ(parameterSeconds(NumberFormat::F16, NumberFormat::F16),
                   single / 2);
  EXPECT_DOUBLE_EQ(parameterSeconds(NumberFormat::BF16, NumberFormat::F32),
                   single);
  EXPECT_DOUBLE_EQ(parameterSeconds(NumberFormat::BF16, NumberFormat::F16),
                   single);
  // Hosts keep activations in f16, and parameters in f32.
  target = "host:f16-storage";
  EXPECT_DOUBLE_EQ(parameterSeconds(NumberFormat::F16, NumberFormat::F16),
                   single);
  EXPECT_DOUBLE_EQ(parameterSeconds(NumberFormat::F16, NumberFormat::F32),
                   single);
}

TEST_F(ZeroProblemTest, LossyWiresAreShorterAndTakeMemory) {
  for (int stage = 0; stage < 4; ++stage) {
    cluster.wires = {};
    BatchProblem exact = pose(stage);
    double exactBytes = getCollectiveBytes(cluster, model, stage, 1);
    cluster.wires = {WireFormat::I8, stage == 0
                                         ? std::nullopt
                                         : std::optional(WireFormat::BF16)};
    BatchProblem lossy = pose(stage);
    EXPECT_LT(lossy.backwardSync + lossy.iterationSync,
              exact.backwardSync + exact.iterationSync)
        << stage;
    EXPECT_LT(getCollectiveBytes(cluster, model, stage, 1), exactBytes * 0.51);
    if (stage == 3) {
      EXPECT_DOUBLE_EQ(lossy.forwardSync, exact.forwardSync / 2);
    }
    // Error feedback of everything, and masters apart from f32 working copies.
    int64_t more = 4 * elements;
    if (stage == 1 || stage == 2)
      more += 4 * elements / 3;
    EXPECT_NEAR(lossy.types[0].fixedBytes, exact.types[0].fixedBytes + more, 1)
        << stage;
  }
}

TEST_F(ZeroProblemTest, StateIsShardedInMemory) {
  // A third of 8, 12 and 16 bytes an element stays.
  int64_t less[] = {0, 8 * elements * 2 / 3, 12 * elements * 2 / 3,
                    16 * elements * 2 / 3};
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem::DeviceType type = pose(stage).types[0];
    EXPECT_NEAR(type.fixedBytes, fixedBytes - less[stage], 1) << stage;
    EXPECT_EQ(type.bytesPerSample, sampleBytes);
    EXPECT_EQ(type.largestBatch,
              std::min<int64_t>((40000 - type.fixedBytes) / sampleBytes, 8));
  }
  // The largest of unequal shares of a type counts: 3 of 6 parts.
  BatchProblem problem = pose(3, {1, 3, 2});
  EXPECT_EQ(problem.types[0].fixedBytes, fixedBytes - 16 * elements / 2);
  EXPECT_NEAR(problem.types[1].fixedBytes, fixedBytes - 16 * elements * 2 / 3,
              1);
}

TEST_F(ZeroProblemTest, TheStateIsInTheWorkingFormat) {
  auto fixedWithout = [&](const std::string &target, int stage) {
    for (DeviceType &type : cluster.types) {
      type.target = target;
      type.precision = NumberFormat::F16;
    }
    for (DeviceProfile &profile : cluster.profiles)
      profile.precision = NumberFormat::F16;
    return pose(stage).types[0].fixedBytes;
  };
  // Two thirds are elsewhere: of 2 + 4 + 12 bytes an element, or 4 + 4 + 8.
  int64_t half[] = {0, 12, 16, 18}, single[] = {0, 8, 12, 16};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(fixedWithout("cuda:sm_70", stage),
                fixedBytes - half[stage] * elements * 2 / 3, 1);
    EXPECT_NEAR(fixedWithout("host:f16-storage", stage),
                fixedBytes - single[stage] * elements * 2 / 3, 1);
  }
}

TEST_F(ZeroProblemTest, TransientBucketsTakeMemory) {
  int64_t without[4];
  for (int stage = 0; stage < 4; ++stage)
    without[stage] = pose(stage).types[0].fixedBytes;
  model.buckets = 4;
  model.largestBucket = 320;
  // Gradients of a step, and gathered parameters: the bucket in use and those
  // under way, of 4 and 8 in all.
  struct {
    int64_t depth, gradients, gathered;
  } cases[] = {{0, 1, 1}, {1, 2, 2}, {2, 3, 3}, {5, 4, 6}, {9, 4, 8}};
  for (auto [depth, gradients, gathered] : cases) {
    model.overlapDepth = depth;
    int64_t more[] = {0, 0, 1280 * gradients, 1280 * (gradients + gathered)};
    for (int stage = 0; stage < 4; ++stage)
      EXPECT_EQ(pose(stage).types[0].fixedBytes, without[stage] + more[stage])
          << depth << " " << stage;
  }
}

TEST_F(ZeroProblemTest, MomentsInEightBitsAreShardedFromStageOneOn) {
  const DeviceType &type = cluster.types.front();
  StateFormat format = StateFormat::of(type.getWorkingFormat());
  DeviceProfile profile;
  for (int stage = 0; stage < 4; ++stage)
    for (double share : {1.0, 0.25}) {
      model.parameters.int8States = 0;
      int64_t wide = getFixedBytes(profile, type, model, stage, share, {});
      model.parameters.int8States = 256;
      int64_t narrow = getFixedBytes(profile, type, model, stage, share, {});
      // Two moments of 1 byte instead of 4, and a block's two scales of 4.
      int64_t saved = 256 * 2 * 3 - 2 * 4;
      EXPECT_EQ(wide - narrow,
                stage >= 1 ? int64_t(double(saved) * share) : saved);
      EXPECT_EQ(model.getShardedBytes(format, stage),
                format.sharded(stage) * elements - (stage >= 1 ? saved : 0));
    }
}

TEST_F(ZeroProblemTest, FrozenParametersAreGatheredOnly) {
  model.buckets = 5;
  model.largestBucket = model.firstBucket = model.lastBucket = 300;
  model.gatheredForward = {5, 1000};
  model.gatheredBackward = {4, 700};
  // A tenth is trained.
  model.someTrained = ModelFacts::Trained{60, 2, 40, 60};
  model.reduced = {2, elements / 10};
  int64_t trained = elements / 10, frozen = elements - trained;
  model.parameters.trained = trained;
  model.parameters.frozen = frozen;
  // Each of three ranks lacks two thirds of what is sharded and the profile
  // found: optimizer, gradients, then all parameters.
  int64_t sharded[] = {0, 8 * trained, 12 * trained, 16 * trained + 4 * frozen};
  // At most two trained buckets are reduced, three of any are gathered.
  int64_t transient[] = {0, 0, 2 * 60 * 4, 2 * 60 * 4 + 3 * 300 * 4};
  CollectiveCost cost(cluster, cluster.ranks);
  auto reduce = [&](int64_t buckets, double size) {
    auto one = cost.reduceScatter("", {0, 1000, 2000, 3000}, 4);
    return double(buckets) * one.latency +
           size / 3000 * (one.seconds() - one.latency);
  };
  auto gather = [&](int64_t buckets, double size) {
    auto one = cost.allGather("", {0, 1000, 2000, 3000}, 4);
    return double(buckets) * one.latency +
           size / 3000 * (one.seconds() - one.latency);
  };
  double backward[] = {2 * reduce(1, 60), reduce(1, 60), reduce(1, 60),
                       reduce(1, 60) + gather(4, 700)};
  double forward[] = {0, 0, 0, gather(4, 700)};
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = pose(stage);
    EXPECT_NEAR(problem.types[0].fixedBytes,
                fixedBytes - sharded[stage] * 2 / 3 + transient[stage], 1)
        << stage;
    EXPECT_NEAR(problem.backwardSync, backward[stage], 1e-8) << stage;
    EXPECT_NEAR(problem.forwardSync, forward[stage], 1e-8) << stage;
  }
  // Without a profile of memory: a copy of all, the rest of a tenth.
  for (DeviceProfile &profile : cluster.profiles)
    profile.memory.reset();
  EXPECT_EQ(pose(0).types[0].fixedBytes, 16 * trained + 4 * frozen);
}

TEST_F(ZeroProblemTest, TheSmallestLimitHolds) {
  EXPECT_EQ(pose(0).types[0].largestBatch, 6); // 20 000 bytes of 3000
  EXPECT_EQ(pose(0).types[1].largestBatch, 3);
  for (DeviceProfile &profile : cluster.profiles)
    profile.maxMicroBatch = 2;
  EXPECT_EQ(pose(0).types[0].largestBatch, 2);
  // Nothing is known of memory: what was measured, next to the state.
  for (DeviceProfile &profile : cluster.profiles) {
    profile.maxMicroBatch.reset();
    profile.memory.reset();
  }
  EXPECT_EQ(pose(0).types[0].largestBatch, 8);
  EXPECT_EQ(pose(0).types[0].fixedBytes, 16 * elements);
}

TEST_F(ZeroProblemTest, TheSlowestUpdateCounts) {
  cluster.ranks = {{0, 0}, {1, 1}};
  cluster.defaultBetween = LinkSpeed{0, HUGE_VAL};
  for (DeviceProfile &profile : cluster.profiles)
    profile.optimizerSeconds = profile.type == 0 ? 4 : 2;
  // Stage 0 updates everything everywhere; then the shard: a quarter of 4
  // seconds, three quarters of 2.
  EXPECT_DOUBLE_EQ(pose(0, {1, 3}).iterationSync, 4);
  EXPECT_DOUBLE_EQ(pose(1, {1, 3}).iterationSync, 1.5);
}

TEST_F(ZeroProblemTest, MissingProfilesAreNamed) {
  model.fingerprint = "f00d";
  cluster.profiles[3].model = "beef";
  EXPECT_EQ(fail(3), "device type 'large' has no profile of this model (f00d) "
                     "in stage 3; make one with: poplar profile --model "
                     "MODEL_MLIR --cluster CLUSTER --device-type large -o "
                     "profiles/large.json and plan with --profiles profiles; "
                     "or give its flops and bandwidth in the "
                     "cluster file, or its device, for an estimate");
  cluster.profiles.pop_back();
  cluster.profiles[3].model = "f00d";
  EXPECT_EQ(fail(3), "device type 'small' has no profile of this model (f00d) "
                     "in stage 3; make one with: poplar profile --model "
                     "MODEL_MLIR --cluster CLUSTER --device-type small -o "
                     "profiles/small.json and plan with --profiles profiles; "
                     "or give its flops and bandwidth in the "
                     "cluster file, or its device, for an estimate");
}

TEST_F(ZeroProblemTest, DevicesTooSmallForTheStateAreNamed) {
  cluster.types[1].memory = fixedBytes - 1;
  EXPECT_EQ(fail(0), "types[1] 'small': needs 20000 bytes at its largest "
                     "micro-batch (0), but has 19999 bytes");
}

TEST_F(ZeroProblemTest, AProfileWithoutMemoryStillNeedsRoomForTheState) {
  for (DeviceProfile &profile : cluster.profiles)
    profile.memory.reset();
  // 1000 elements of 16 bytes, whatever samples take.
  cluster.types[1].memory = 16000;
  std::string error;
  std::vector<double> state(3, 1);
  EXPECT_TRUE(makeBatchProblem(cluster, model, 0, 12, state, error)) << error;
  cluster.types[1].memory = 15999;
  EXPECT_FALSE(makeBatchProblem(cluster, model, 0, 12, state, error));
  EXPECT_NE(error.find("types[1] 'small': needs 16000 bytes"),
            std::string::npos)
      << error;
}

TEST_F(ZeroProblemTest, StateGoesWhereMemoryIs) {
  std::string error;
  // In stage 3, 4000 bytes are not sharded; next to a sample, the ranks have
  // 33 000, 33 000 and 23 000 for 63 units of 256 bytes. 16 128 in all are less
  // than twice 10 000: the small one holds none.
  auto shares = shareStateByMemory(cluster, model, 3, error);
  ASSERT_TRUE(shares) << error;
  ASSERT_EQ(shares->size(), 3u);
  EXPECT_NEAR((*shares)[0], 0.5, 0.02);
  EXPECT_NEAR((*shares)[1], 0.5, 0.02);
  EXPECT_EQ((*shares)[2], 0);
  EXPECT_DOUBLE_EQ((*shares)[0] + (*shares)[1] + (*shares)[2], 1);
  // Equal memory is shared equally, but for one unit.
  cluster.types[1].memory = 40000;
  shares = shareStateByMemory(cluster, model, 3, error);
  ASSERT_TRUE(shares) << error;
  for (double share : *shares)
    EXPECT_NEAR(share, 1.0 / 3, 0.017);
  // The problem they are made for fits where equal shares do not.
  cluster.types[1].memory = 8000;
  EXPECT_EQ(fail(3), "types[1] 'small': needs 9333 bytes at its largest "
                     "micro-batch (0), but has 8000 bytes");
  shares = shareStateByMemory(cluster, model, 3, error);
  ASSERT_TRUE(shares) << error;
  BatchProblem problem = pose(3, *shares);
  EXPECT_EQ(problem.types[1].fixedBytes, 4000);
  EXPECT_EQ(problem.types[1].largestBatch, 1);
}

TEST_F(ZeroProblemTest, NothingIsShardedInStage0) {
  // So nothing has to be known, either.
  cluster.profiles.clear();
  std::string error;
  EXPECT_EQ(shareStateByMemory(cluster, model, 0, error),
            (std::vector<double>{1, 1, 1}));
}

TEST_F(ZeroProblemTest, StateThatFitsNowhereIsRefused) {
  std::string error;
  cluster.types[0].memory = cluster.types[1].memory = 12000;
  // 5000 bytes free on each, 19 units of 256 bytes.
  EXPECT_FALSE(shareStateByMemory(cluster, model, 3, error));
  EXPECT_EQ(error, "state of 16128 bytes does not fit: the 3 ranks have room "
                   "for 14592 bytes together, 1536 bytes are missing");
  cluster.profiles[7].memory.reset();
  EXPECT_FALSE(shareStateByMemory(cluster, model, 3, error));
  EXPECT_EQ(error, "profile of 'small' has no memory figures, by which the "
                   "state is to be shared");
  cluster.profiles.clear();
  EXPECT_FALSE(shareStateByMemory(cluster, model, 3, error));
  EXPECT_NE(error.find("device type 'large' has no profile"),
            std::string::npos);
}

} // namespace
