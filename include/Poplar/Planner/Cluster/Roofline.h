//===- Roofline.h - Seconds of a step from published figures ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How long a device takes for a training step that nobody has measured on it.
// Every op takes the longer of its arithmetic and its memory traffic (the
// roofline: Williams, Waterman and Patterson, CACM 2009), at rates below the
// published ones by what its class and size allow, and a launch:
//
//   t(b) = max(flops(b) / (peak eff), bytes(b) / (bandwidth share)) + launch
//
// A matrix product's efficiency grows with each of its dimensions,
//
//   eff = share  m / (m + half)  n / (n + half)  k / (k + half),
//
// and attention's with the length of the sequence. The share is that of the
// device's class, or what its limit of power allows. All constants are in
// Roofline.cpp, with where they come from. Units: seconds, bytes, FLOP, watts.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_ROOFLINE_H
#define POPLAR_PLANNER_CLUSTER_ROOFLINE_H

#include "Poplar/Planner/Cluster/Cluster.h"
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace poplar {

/// An op of a step and how often it is in it.
struct RooflineOp {
  enum class Kind {
    /// On the matrix units; `rows` x `columns` x `depth` for one sample.
    Gemm,
    /// `rows` tokens.
    Attention,
    /// Everything else, on the vector units.
    Kernel
  };
  Kind kind = Kind::Kernel;
  /// Per sample, and bytes moved whatever the batch (parameters).
  double flops = 0, bytes = 0, fixedBytes = 0;
  double rows = 0, columns = 0, depth = 0;
  /// The depth of the product grows with the batch (gradients of weights),
  /// instead of its rows.
  bool isDeep = false;
  /// Operands are rounded to 8 bits before.
  bool isFP8 = false;
  double count = 1;

  /// All but the count.
  auto getKey() const {
    return std::make_tuple(kind, flops, bytes, fixedBytes, rows, columns, depth,
                           isDeep, isFP8);
  }
};

/// What is known of devices that were not measured, by kind of target.
struct RooflineConstants {
  /// The share of the peak that large products reach alone: of
  /// units at full and at half rate.
  double gemmShare, halfRateShare;
  /// Units that have less than this of the vector units' rate are at half rate;
  /// 0 if all are at full rate.
  double halfRate;
  /// Products in 16 bits that a joule pays for; 0 if that limits none.
  double flopsPerJoule;
  /// What is left of a product alone in a training step.
  double trainShare, halfRateTrainShare;
  /// The dimension at which half of the rate is left.
  double gemmHalf;
  /// Attention: of what products reach in a training step, or of the f32 peak
  /// if the kernel does not use matrix units; half of it is left at so many
  /// tokens.
  double attentionShare, attentionHalf;
  bool attentionOnVectors;
  /// The share of the memory's bandwidth that streaming kernels reach.
  double bandwidthShare;
  /// The share of the f32 peak that kernels bound by arithmetic reach.
  double vectorShare;
  /// From one op to the next.
  double launchSeconds;
  /// Bytes of scratch for libraries; below 0 for what the library at hand asks.
  int64_t workspaceBytes;
  /// Relative, of the seconds of a micro-step.
  double uncertainty;
};

/// The constants of a target, as docs/cluster-file.md names it.
const RooflineConstants &getRooflineConstants(const std::string &target);

/// A device type whose figures say enough: rates of the format it computes in
/// and a bandwidth.
class Roofline {
public:
  /// Nothing where a figure is missing.
  static std::optional<Roofline> get(const DeviceType &type);

  double getSeconds(const RooflineOp &op, int64_t batch) const;
  /// Seconds of all ops, each as often as it is done.
  double getSeconds(const std::vector<RooflineOp> &ops, int64_t batch) const;
  /// Seconds of AdamW on `elements` parameters: bound by memory.
  double getOptimizerSeconds(int64_t elements) const;

  const RooflineConstants &getConstants() const { return *constants; }
  /// FLOP/s of large products: alone, and in a training step.
  double getAloneRate() const { return aloneFlops; }
  double getProductRate() const { return productFlops; }
  /// FLOP/s of attention to long sequences.
  double getAttentionRate() const { return attentionFlops; }

private:
  void setProductRates(const DeviceType &type);

  const RooflineConstants *constants = nullptr;
  double matrixFlops = 0, vectorFlops = 0, bandwidth = 0;
  double aloneFlops = 0, productFlops = 0, fp8Flops = 0, attentionFlops = 0;
  bool isSinglePrecision = false;
};

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_ROOFLINE_H
