//===- Cluster.h - A cluster as the planner sees it -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plain data, made from the `cluster` ops of a module by
// cluster::buildClusterView. Types, nodes and ranks are referred to by their
// index. Units: bytes, seconds, bytes per second, FLOP per second.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_CLUSTER_H
#define POPLAR_PLANNER_CLUSTER_CLUSTER_H

#include "Poplar/Planner/Batch/Curve.h"
#include "Poplar/Planner/Model/StateBytes.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Support/Recomputation.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace poplar {

/// A message of n bytes takes latency + n / bandwidth. On either end it takes
/// n * overhead seconds of computation away.
struct LinkSpeed {
  double latency;
  double bandwidth;
  double overhead = 0;
};

/// Measured (or estimated) speed of a device type in one ZeRO stage.
struct DeviceProfile {
  /// Index of the device type, ZeRO stage 0 to 3.
  int type, stage;
  /// Increasing, and the seconds that forward and backward of one micro-step
  /// take at each, collectives excluded. As many spreads, or none.
  std::vector<int64_t> microBatches;
  std::vector<double> seconds, spread;
  /// Largest micro-batch that fits, 0 if none does; unknown if absent.
  std::optional<int64_t> maxMicroBatch;
  /// Peak of a rank that is alone: fixed + b * perSample.
  struct Memory {
    int64_t fixed, perSample;
  };
  std::optional<Memory> memory;
  /// Seconds of the optimizer's step for a rank that is alone.
  std::optional<double> optimizerSeconds;
  /// What was measured; the device type's own where the profile does not say.
  NumberFormat precision;
  Recomputation recompute;
  /// Computed from published figures instead of measured.
  bool isEstimate;
  /// Fingerprint of the model, empty if the profile does not name one.
  std::string model;

  /// The curve through the micro-batches; that of a device which holds no
  /// sample if there are none. On failure sets `error` (Curve::fit).
  std::optional<Curve> fitCurve(std::string &error) const;
};

struct DeviceType {
  /// `target` is what code is generated for: "cuda:sm_80", "host:avx2-f32".
  std::string name, target;
  /// Bytes that a rank may use.
  int64_t memory;
  NumberFormat precision = NumberFormat::F32;
  Recomputation recompute = RecomputePolicy::Keep;
  /// The user's wish: plans recompute nothing else.
  bool isRecomputeFixed = false;
  /// Peak rate of matrix products by number format, where known.
  std::map<NumberFormat, double> flops;
  /// The bandwidth of the device's memory.
  std::optional<double> bandwidth;
  /// The limit of the board, in watts.
  std::optional<double> power;
  /// The price of a device and hour, in any currency.
  std::optional<double> price;
  /// Threads of a rank; host targets only.
  std::optional<int64_t> threads;

  NumberFormat getWorkingFormat() const {
    return poplar::getWorkingFormat(target, precision);
  }
};

struct ClusterNode {
  std::string name;
  /// Ranks [firstRank, firstRank + numRanks) are this node's.
  int firstRank, numRanks;
};

/// One device.
struct ClusterRank {
  int node, type;
};

struct ClusterView {
  std::vector<DeviceType> types;
  std::vector<ClusterNode> nodes;
  std::vector<ClusterRank> ranks;
  std::vector<DeviceProfile> profiles;

  /// Links by ordered pair of nodes; a node with itself is the link inside it.
  std::map<std::pair<int, int>, LinkSpeed> links;
  std::optional<LinkSpeed> defaultInside, defaultBetween;

  /// What collectives of a job on it carry, where plans may lose something.
  LossyWires wires;

  /// The link that messages from one rank to another take. A rank reaches
  /// itself in no time. All pairs have a link in a verified cluster.
  LinkSpeed getLink(int fromRank, int toRank) const;
  /// The same between the devices of two nodes, or of one; none if there is
  /// neither a link nor a default.
  std::optional<LinkSpeed> findLink(int fromNode, int toNode) const;

  /// Ranks of each type, by the type's index.
  std::vector<int> countRanks() const;

  /// Index of a device type; none if there is no such name.
  std::optional<int> findType(const std::string &name) const;

  /// Profile of a device type in a stage as the type is set up (its precision
  /// and recomputation policy). Unless `model` is empty, one of that model is
  /// preferred to one that names no model, and others do not serve; then what
  /// is measured to what is estimated. Null if there is none.
  const DeviceProfile *findProfile(int type, int stage,
                                   const std::string &model = "") const {
    return findProfile(type, stage, model, types[type].recompute);
  }
  /// The same as if the type recomputed something else.
  const DeviceProfile *findProfile(int type, int stage,
                                   const std::string &model,
                                   Recomputation recompute) const;
};

/// The command that measures device type `type`. What the planner does not know
/// is in capitals.
std::string getProfileCommand(const std::string &type);

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_CLUSTER_H
