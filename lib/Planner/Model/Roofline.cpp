//===- Roofline.cpp - Seconds of a step from published figures -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Model/Roofline.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include <algorithm>

using namespace poplar;

//===----------------------------------------------------------------------===//
// The constants of the model
//===----------------------------------------------------------------------===//

// Shares of products and attention on sm_80 and sm_90 were chosen so that
// training throughput which others published comes out right (MosaicML, LLM
// Foundry, models MPT of 125 million to 30 billion parameters in bf16 on 8
// GPUs, 2023): all 15 measurements are within 16 % of the estimate, with a
// median of 4 % (bench/estimates.py published, docs/estimates.md). They hold
// what collectives were not hidden and row kernels that were not fused.
//
// Assumed: half of the share is left at 128, the side of a tile, and at 700
// tokens; streaming kernels reach 80 % of the bandwidth, elementwise arithmetic
// a quarter of the f32 peak; 4 us for a launch; 32 MiB, what NVIDIA advises for
// cuBLAS on sm_90, for a library's workspace. Other targets are taken to be
// like one of these.
static constexpr RooflineConstants ampere = {
    /*gemmShare=*/0.70,
    /*gemmHalf=*/128,
    /*attentionShare=*/0.5,
    /*attentionHalf=*/700,
    /*attentionOnVectors=*/false,
    /*bandwidthShare=*/0.8,
    /*vectorShare=*/0.25,
    /*launchSeconds=*/4e-6,
    /*workspaceBytes=*/int64_t(32) << 20,
    /*uncertainty=*/0.2};

static constexpr RooflineConstants makeHopper() {
  RooflineConstants constants = ampere;
  constants.gemmShare = 0.53;
  constants.attentionShare = 0.35;
  return constants;
}
static constexpr RooflineConstants hopper = makeHopper();

static constexpr RooflineConstants makeLike(RooflineConstants constants,
                                            double uncertainty) {
  constants.uncertainty = uncertainty;
  return constants;
}
static constexpr RooflineConstants likeAmpere = makeLike(ampere, 0.35),
                                   likeHopper = makeLike(hopper, 0.4);

// Shares of a host's figures, which are measured (a large product, a copy), are
// close to one. Attention and row kernels run on its vector units, which reach
// what was assumed here: with 190 and 36 GFLOP/s and 15 GB/s, a small Llama is
// within 10 % of `poplar profile` for AVX-512, and 22 % above it for SSE4.1
// (docs/estimates.md).
static constexpr RooflineConstants host = {
    /*gemmShare=*/0.9,
    /*gemmHalf=*/16,
    /*attentionShare=*/0.3,
    /*attentionHalf=*/0,
    /*attentionOnVectors=*/true,
    /*bandwidthShare=*/1.0,
    /*vectorShare=*/0.1,
    /*launchSeconds=*/1e-6,
    /*workspaceBytes=*/-1,
    /*uncertainty=*/0.3};

const RooflineConstants &
poplar::getRooflineConstants(const std::string &target) {
  const TargetInfo *info = findTargetInfo(target);
  switch (info ? info->speed : SpeedModel::LikeHopper) {
  case SpeedModel::Host:
    return host;
  case SpeedModel::Ampere:
    return ampere;
  case SpeedModel::Hopper:
    return hopper;
  case SpeedModel::LikeAmpere:
    return likeAmpere;
  case SpeedModel::LikeHopper:
    break;
  }
  return likeHopper;
}

/// AdamW reads gradient, master and moments and writes the last three; the norm
/// of the gradients reads them before. Below f32, the working copy is written
/// from the master, which is read again.
static constexpr double optimizerBytes = 28 + 4, convertBytes = 4 + 2;

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

std::optional<Roofline> Roofline::get(const DeviceType &type) {
  auto find = [&](const std::string &format) {
    auto rate = type.flops.find(format);
    return rate == type.flops.end() ? 0 : rate->second;
  };
  Roofline roofline;
  std::string format = type.getWorkingFormat();
  roofline.matrixFlops = find(format);
  // No device computes slower in f32 on its vector units than on others.
  roofline.vectorFlops = find("f32") > 0 ? find("f32") : roofline.matrixFlops;
  roofline.bandwidth = type.bandwidth.value_or(0);
  roofline.isSinglePrecision = format == "f32";
  roofline.constants = &getRooflineConstants(type.target);
  if (!(roofline.matrixFlops > 0 && roofline.bandwidth > 0))
    return std::nullopt;
  return roofline;
}

/// The share of a peak that is left at `size` where half of it is at `half`.
static double saturate(double size, double half) {
  return half > 0 ? size / (size + half) : 1;
}

double Roofline::getSeconds(const RooflineOp &op, int64_t batch) const {
  if (batch == 0)
    return 0;
  double samples = static_cast<double>(batch), rate = 0;
  switch (op.kind) {
  case RooflineOp::Kind::Gemm: {
    double rows = op.rows * (op.isDeep ? 1 : samples),
           depth = op.depth * (op.isDeep ? samples : 1);
    rate = matrixFlops * constants->gemmShare *
           saturate(rows, constants->gemmHalf) *
           saturate(op.columns, constants->gemmHalf) *
           saturate(depth, constants->gemmHalf);
    break;
  }
  case RooflineOp::Kind::Attention:
    rate = (constants->attentionOnVectors ? vectorFlops : matrixFlops) *
           constants->attentionShare *
           saturate(op.rows, constants->attentionHalf);
    break;
  case RooflineOp::Kind::Kernel:
    rate = vectorFlops * constants->vectorShare;
    break;
  }
  double arithmetic = op.flops * samples / rate,
         traffic = (op.bytes * samples + op.fixedBytes) /
                   (bandwidth * constants->bandwidthShare);
  return std::max(arithmetic, traffic) + constants->launchSeconds;
}

double Roofline::getSeconds(const std::vector<RooflineOp> &ops,
                            int64_t batch) const {
  double seconds = 0;
  for (const RooflineOp &op : ops)
    seconds += op.count * getSeconds(op, batch);
  return seconds;
}

double Roofline::getOptimizerSeconds(int64_t elements) const {
  double bytes = optimizerBytes + (isSinglePrecision ? 0 : convertBytes);
  return static_cast<double>(elements) * bytes /
         (bandwidth * constants->bandwidthShare);
}
