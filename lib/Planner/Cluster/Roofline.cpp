//===- Roofline.cpp - Seconds of a step from published figures -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Roofline.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include <algorithm>

using namespace poplar;

//===----------------------------------------------------------------------===//
// The constants of the model
//===----------------------------------------------------------------------===//

// bench/measurements.json holds what others have published of large products
// and of training. bench/estimates.py fits the shares to half of it and checks
// them with the other half (docs/estimates.md); a test compares the figures
// below with its fit.
//
// - Matrix units at full rate reach a share of the peak, or what the watts of
//   the board pay for in its generation, whichever is less.
// - Units that add in f32 at half rate (GeForce, A10G, L20) do not reach their
//   limit of power, and boost above the clock that is published.
// - Products of a training step are slower than products alone: they alternate
//   with other kernels and wait for collectives that are not hidden. Attention
//   reaches less than they do.
//
// Assumed: half of the rate is left at 128, the side of a tile, and at 700
// tokens; streaming kernels reach 80 % of the bandwidth, elementwise arithmetic
// a quarter of the f32 peak; 4 us for a launch; 32 MiB, what NVIDIA advises for
// cuBLAS on sm_90, for a library's workspace.
static constexpr RooflineConstants makeGPU(double flopsPerJoule,
                                           double halfRate, double trainShare,
                                           double uncertainty) {
  RooflineConstants constants = {};
  constants.gemmShare = 0.85;
  constants.halfRateShare = 1.08;
  constants.flopsPerJoule = flopsPerJoule;
  constants.halfRate = halfRate;
  constants.trainShare = trainShare;
  constants.halfRateTrainShare = 0.82;
  constants.gemmHalf = 128;
  constants.attentionShare = 0.7;
  constants.attentionHalf = 700;
  constants.bandwidthShare = 0.8;
  constants.vectorShare = 0.25;
  constants.launchSeconds = 4e-6;
  constants.workspaceBytes = int64_t(32) << 20;
  constants.uncertainty = uncertainty;
  return constants;
}

/// MI300X and MI325X reach less, alone.
static constexpr RooflineConstants makeCDNA() {
  RooflineConstants constants = makeGPU(0, 0, 0.8, 0.45);
  constants.gemmShare = 0.54;
  return constants;
}

// Products per joule, matrix over vector rate at which units run at half rate,
// what is left in training, uncertainty. No product was measured whose power is
// limited where the first is 0. Training was measured on sm_80, sm_90 and
// sm_89, and once on sm_86; others are taken to lose as much as the nearest.
static constexpr RooflineConstants pascal = makeGPU(0, 0, 0.8, 0.45),
                                   volta = makeGPU(0.37e12, 0, 0.8, 0.45),
                                   turing = makeGPU(0.37e12, 6, 0.8, 0.45),
                                   ampere = makeGPU(0.98e12, 0, 0.8, 0.2),
                                   ampereRTX = makeGPU(0.38e12, 3, 1, 0.35),
                                   ada = makeGPU(1.03e12, 3, 0.8, 0.35),
                                   hopper = makeGPU(1.48e12, 0, 0.58, 0.2),
                                   blackwell = makeGPU(0, 0, 0.58, 0.45),
                                   blackwellRTX = makeGPU(0, 3, 0.8, 0.45),
                                   cdna = makeCDNA();

// Shares of a host's figures, which are measured (a large product, a copy), are
// close to one. Attention and row kernels run on its vector units, which reach
// what was assumed here: with 190 and 36 GFLOP/s and 15 GB/s, a small Llama is
// within 10 % of `poplar profile` for AVX-512, and 22 % above it for SSE4.1
// (docs/estimates.md).
static constexpr RooflineConstants makeHost() {
  RooflineConstants constants = {};
  constants.gemmShare = 0.9;
  constants.trainShare = 1;
  constants.gemmHalf = 16;
  constants.attentionShare = 0.3;
  constants.attentionOnVectors = true;
  constants.bandwidthShare = 1;
  constants.vectorShare = 0.1;
  constants.launchSeconds = 1e-6;
  constants.workspaceBytes = -1;
  constants.uncertainty = 0.3;
  return constants;
}
static constexpr RooflineConstants host = makeHost();

/// The rate of products in fp8 with sums in f32, relative to 16 bits: what
/// NVIDIA publishes for every chip that has them, from L4 and RTX 4090 (Ada) to
/// H100, B200 and RTX 5090, without sparsity. A host rounds, and gains nothing.
static double getFP8Speedup(const std::string &target) {
  const TargetInfo *info = findTargetInfo(target);
  return info && info->hasFP8Products() && !info->getKind().isHost() ? 2 : 1;
}

const RooflineConstants &
poplar::getRooflineConstants(const std::string &target) {
  const TargetInfo *info = findTargetInfo(target);
  switch (info ? info->speed : SpeedModel::Blackwell) {
  case SpeedModel::Host:
    return host;
  case SpeedModel::Pascal:
    return pascal;
  case SpeedModel::Volta:
    return volta;
  case SpeedModel::Turing:
    return turing;
  case SpeedModel::Ampere:
    return ampere;
  case SpeedModel::AmpereRTX:
    return ampereRTX;
  case SpeedModel::Ada:
    return ada;
  case SpeedModel::Hopper:
    return hopper;
  case SpeedModel::Blackwell:
    return blackwell;
  case SpeedModel::BlackwellRTX:
    return blackwellRTX;
  case SpeedModel::CDNA:
    return cdna;
  }
  return blackwell;
}

/// AdamW reads gradient, master and moments and writes the last three; the norm
/// of the gradients reads them before. Below f32, the working copy is written
/// from the master, which is read again.
static constexpr double optimizerBytes = 28 + 4, convertBytes = 4 + 2;

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

std::optional<Roofline> Roofline::get(const DeviceType &type) {
  auto find = [&](NumberFormat format) {
    auto rate = type.flops.find(format);
    return rate == type.flops.end() ? 0 : rate->second;
  };
  Roofline roofline;
  NumberFormat format = type.getWorkingFormat();
  roofline.matrixFlops = find(format);
  // No device computes slower in f32 on its vector units than on others.
  roofline.vectorFlops = find(NumberFormat::F32) > 0 ? find(NumberFormat::F32)
                                                     : roofline.matrixFlops;
  roofline.bandwidth = type.bandwidth.value_or(0);
  roofline.isSinglePrecision = format == NumberFormat::F32;
  roofline.constants = &getRooflineConstants(type.target);
  if (!(roofline.matrixFlops > 0 && roofline.bandwidth > 0))
    return std::nullopt;
  roofline.setProductRates(type);
  return roofline;
}

void Roofline::setProductRates(const DeviceType &type) {
  // Matrix units behind what others of their generation have per vector unit.
  bool half = !isSinglePrecision && type.flops.count(NumberFormat::F32) &&
              matrixFlops < constants->halfRate * vectorFlops;
  aloneFlops =
      matrixFlops * (half ? constants->halfRateShare : constants->gemmShare);
  if (!half && !isSinglePrecision && type.power && constants->flopsPerJoule > 0)
    aloneFlops = std::min(aloneFlops, *type.power * constants->flopsPerJoule);
  productFlops = aloneFlops *
                 (half ? constants->halfRateTrainShare : constants->trainShare);
  fp8Flops = productFlops * getFP8Speedup(type.target);
  attentionFlops = constants->attentionShare *
                   (constants->attentionOnVectors ? vectorFlops : productFlops);
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
    rate = (op.isFP8 ? fp8Flops : productFlops) *
           saturate(rows, constants->gemmHalf) *
           saturate(op.columns, constants->gemmHalf) *
           saturate(depth, constants->gemmHalf);
    break;
  }
  case RooflineOp::Kind::Attention:
    rate = attentionFlops * saturate(op.rows, constants->attentionHalf);
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
