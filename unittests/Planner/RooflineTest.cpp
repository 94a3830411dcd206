//===- RooflineTest.cpp - Seconds of a step from published figures -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Roofline.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

DeviceType makeType(const std::string &target, NumberFormat precision) {
  DeviceType type;
  type.target = target;
  type.precision = precision;
  type.flops = {{NumberFormat::F32, 1e13},
                {NumberFormat::BF16, 1e14},
                {NumberFormat::F16, 1e14}};
  type.bandwidth = 1e12;
  return type;
}

Roofline makeRoofline(const std::string &target = "cuda:sm_80",
                      NumberFormat precision = NumberFormat::BF16) {
  std::optional<Roofline> roofline = Roofline::get(makeType(target, precision));
  EXPECT_TRUE(roofline);
  return roofline.value_or(Roofline());
}

RooflineOp makeGemm(double rows, double columns, double depth, bool isDeep) {
  RooflineOp op;
  op.kind = RooflineOp::Kind::Gemm;
  op.rows = rows;
  op.columns = columns;
  op.depth = depth;
  op.isDeep = isDeep;
  op.flops = 2 * rows * columns * depth;
  return op;
}

TEST(RooflineTest, AProductIsAsFastAsItsDimensionsAllow) {
  Roofline roofline = makeRoofline();
  const RooflineConstants &c = roofline.getConstants();
  // With every dimension at `half`, an eighth of what large products reach; a
  // batch lengthens the rows, or the depth.
  double h = c.gemmHalf, peak = roofline.getProductRate();
  EXPECT_DOUBLE_EQ(peak, 1e14 * c.gemmShare * c.trainShare);
  for (bool isDeep : {false, true}) {
    RooflineOp op = makeGemm(h, h, h, isDeep);
    EXPECT_DOUBLE_EQ(roofline.getSeconds(op, 1),
                     op.flops / (peak / 8) + c.launchSeconds);
    EXPECT_DOUBLE_EQ(roofline.getSeconds(op, 3),
                     3 * op.flops / (peak * 3 / 16) + c.launchSeconds);
  }
  RooflineOp large = makeGemm(1e9, 1e9, 1e9, false);
  EXPECT_NEAR(roofline.getSeconds(large, 1) / (large.flops / peak), 1, 1e-5);
}

double getAloneRate(const std::string &target, double matrix, double vector,
                    std::optional<double> power) {
  DeviceType type = makeType(
      target, target == "cuda:sm_75" ? NumberFormat::F16 : NumberFormat::BF16);
  type.flops = {{NumberFormat::F32, vector},
                {NumberFormat::BF16, matrix},
                {NumberFormat::F16, matrix}};
  type.power = power;
  return Roofline::get(type)->getAloneRate();
}

TEST(RooflineTest, WattsBindMatrixUnitsAtFullRate) {
  // A T4, an A10 and an L4 pay for less than their peak, an A100 SXM for all.
  struct Board {
    const char *target;
    double matrix, vector, power;
    bool isBound;
  };
  for (auto [target, matrix, vector, power, isBound] :
       {Board{"cuda:sm_75", 65e12, 8.1e12, 70, true},
        Board{"cuda:sm_86", 125e12, 31.2e12, 150, true},
        Board{"cuda:sm_89", 121e12, 30.3e12, 72, true},
        Board{"cuda:sm_80", 312e12, 19.5e12, 400, false}}) {
    SCOPED_TRACE(target);
    const RooflineConstants &c = getRooflineConstants(target);
    double free = getAloneRate(target, matrix, vector, std::nullopt);
    EXPECT_DOUBLE_EQ(free, matrix * c.gemmShare);
    double bound = getAloneRate(target, matrix, vector, power);
    EXPECT_DOUBLE_EQ(bound, isBound ? power * c.flopsPerJoule : free);
    // With half of the watts, no board is faster.
    EXPECT_LE(getAloneRate(target, matrix, vector, power / 2), bound);
    // f32 is not computed by these units.
    DeviceType type = makeType(target, NumberFormat::F32);
    type.power = 1;
    EXPECT_DOUBLE_EQ(Roofline::get(type)->getAloneRate(), 1e13 * c.gemmShare);
  }
}

TEST(RooflineTest, UnitsAtHalfRateReachTheirPeak) {
  // An RTX 3090 beside an A40 with the same vector units: half the peak, but
  // more of it, and no limit by watts.
  double geforce = getAloneRate("cuda:sm_86", 71e12, 35.6e12, 350),
         a40 = getAloneRate("cuda:sm_86", 150e12, 37.4e12, 300);
  const RooflineConstants &c = getRooflineConstants("cuda:sm_86");
  EXPECT_DOUBLE_EQ(geforce, 71e12 * c.halfRateShare);
  EXPECT_DOUBLE_EQ(geforce, getAloneRate("cuda:sm_86", 71e12, 35.6e12, 1));
  EXPECT_GT(geforce / 71e12, a40 / 150e12);
  // An A100 multiplies at full rate, whatever its vector units do.
  EXPECT_DOUBLE_EQ(getAloneRate("cuda:sm_80", 312e12, 300e12, {}),
                   312e12 * getRooflineConstants("cuda:sm_80").gemmShare);
  // Whose vector units are not known is not said to be at half rate.
  DeviceType type = makeType("cuda:sm_86", NumberFormat::BF16);
  type.flops.erase(NumberFormat::F32);
  EXPECT_DOUBLE_EQ(Roofline::get(type)->getAloneRate(), 1e14 * c.gemmShare);
}

TEST(RooflineTest, MemoryBindsWhatComputesLittle) {
  Roofline roofline = makeRoofline();
  const RooflineConstants &c = roofline.getConstants();
  RooflineOp op;
  op.bytes = 3e9;
  op.fixedBytes = 1e9;
  op.flops = 1;
  EXPECT_DOUBLE_EQ(roofline.getSeconds(op, 2),
                   7e9 / (1e12 * c.bandwidthShare) + c.launchSeconds);
  // The longer of both, not their sum.
  op.flops = 1e13;
  EXPECT_DOUBLE_EQ(roofline.getSeconds(op, 2),
                   2e13 / (1e13 * c.vectorShare) + c.launchSeconds);
  RooflineOp gemm = makeGemm(1, 1, 1, false);
  gemm.fixedBytes = 1e12;
  EXPECT_DOUBLE_EQ(roofline.getSeconds(gemm, 1),
                   1 / c.bandwidthShare + c.launchSeconds);
}

TEST(RooflineTest, AttentionIsFasterOnLongSequences) {
  Roofline roofline = makeRoofline();
  const RooflineConstants &c = roofline.getConstants();
  RooflineOp op;
  op.kind = RooflineOp::Kind::Attention;
  op.flops = 1e12;
  op.rows = c.attentionHalf;
  EXPECT_DOUBLE_EQ(roofline.getSeconds(op, 1),
                   1e12 / (roofline.getAttentionRate() / 2) + c.launchSeconds);
  EXPECT_LT(roofline.getAttentionRate(), roofline.getProductRate());
  // On hosts it runs on the vector units.
  Roofline host = makeRoofline("host:amx-bf16", NumberFormat::BF16);
  const RooflineConstants &h = host.getConstants();
  op.rows = 1e9;
  EXPECT_NEAR(host.getSeconds(op, 1),
              1e12 / (1e13 * h.attentionShare) + h.launchSeconds, 1e-6);
}

TEST(RooflineTest, AStepIsTheSumOfItsOps) {
  Roofline roofline = makeRoofline();
  RooflineOp gemm = makeGemm(64, 512, 256, false), kernel;
  kernel.bytes = 1e6;
  kernel.count = 5;
  gemm.count = 2;
  EXPECT_DOUBLE_EQ(
      roofline.getSeconds(std::vector<RooflineOp>{gemm, kernel}, 4),
      2 * roofline.getSeconds(gemm, 4) + 5 * roofline.getSeconds(kernel, 4));
  EXPECT_EQ(roofline.getSeconds(std::vector<RooflineOp>{gemm, kernel}, 0), 0);
}

// A curve that fell, or whose samples became dearer, would tell of no device.
TEST(RooflineTest, CurvesRiseAndSamplesBecomeCheaper) {
  for (const char *target :
       {"host", "cuda:sm_70", "cuda:sm_80", "cuda:sm_90", "hip:gfx942"}) {
    SCOPED_TRACE(target);
    Roofline roofline = makeRoofline(target, NumberFormat::F32);
    for (bool isDeep : {false, true}) {
      RooflineOp gemm = makeGemm(128, 768, 768, isDeep);
      gemm.fixedBytes = 1e6;
      gemm.bytes = 1e5;
      double before = 0, perSample = HUGE_VAL;
      for (int64_t batch = 1; batch < 200; ++batch) {
        double seconds = roofline.getSeconds(gemm, batch);
        EXPECT_GT(seconds, before);
        EXPECT_LT(seconds / double(batch), perSample);
        before = seconds;
        perSample = seconds / double(batch);
      }
    }
  }
}

TEST(RooflineTest, TheOptimizerIsBoundByMemory) {
  double share = makeRoofline().getConstants().bandwidthShare;
  EXPECT_DOUBLE_EQ(
      makeRoofline("cuda:sm_80", NumberFormat::F32).getOptimizerSeconds(1000),
      1000 * 32 / (1e12 * share));
  EXPECT_DOUBLE_EQ(
      makeRoofline("cuda:sm_80", NumberFormat::F16).getOptimizerSeconds(1000),
      1000 * 38 / (1e12 * share));
}

TEST(RooflineTest, FiguresThatAreMissingGiveNoEstimate) {
  DeviceType type = makeType("cuda:sm_70", NumberFormat::F16);
  EXPECT_TRUE(Roofline::get(type));
  type.flops.erase(NumberFormat::F16);
  EXPECT_FALSE(Roofline::get(type));
  // Computes in f32, whatever it stores.
  type.target = "host:f16-storage";
  EXPECT_TRUE(Roofline::get(type));
  type.bandwidth.reset();
  EXPECT_FALSE(Roofline::get(type));
}

} // namespace
