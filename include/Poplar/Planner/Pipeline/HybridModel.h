//===- HybridModel.h - The hybrid problem of a cluster ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a cluster and what a model's units do to the problem of hybrid plans.
//
// Seconds of units are those of UnitTimes.h; micro-batches larger than the last
// measured are not offered.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDMODEL_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDMODEL_H

#include "Poplar/Planner/Cluster/Roofline.h"
#include "Poplar/Planner/Pipeline/HybridProblem.h"

namespace poplar {

/// What a device sends to others that share a unit, or gets from them, for a
/// sample: in how many exchanges, and what the busier direction carries.
struct UnitExchanges {
  int64_t count = 0, bytes = 0;
};

/// What a device computes of a unit of a model for a sample.
struct UnitWork {
  std::vector<RooflineOp> forward, backward;
  UnitExchanges forwardExchanges, backwardExchanges;
  int64_t savedBytes = 0, workBytes = 0;
};

/// A model cut where it can be cut into stages: in front of, between and behind
/// its layers.
struct HybridModel : UnitParameters {
  /// "block.7"
  std::vector<std::string> names;
  /// In `wholeStep`, quantised parameters are left out: bytes of these.
  int64_t quantizedForward = 0, quantizedBackward = 0;
  /// Tokens of a sample.
  int64_t tokens = 0;
  /// The most devices that may share a unit: heads that cannot be cut.
  int mostTensorDegree = 1;
  /// Profiles of other models are not used.
  std::string fingerprint;

  /// The model as a device type computes it, alone or with others that share
  /// its units evenly.
  struct Variant {
    RecomputePolicy recompute = RecomputePolicy::Keep;
    int tensorDegree = 1;
    std::vector<UnitWork> units;
    /// Bytes of a sample between two units, on a device.
    int64_t boundaryBytes = 0;
    int64_t scratchBytes = 0;
  };
  /// By device type of the cluster; empty for those without ranks. Degrees are
  /// powers of two, as far as devices of a node can share units.
  std::vector<std::vector<Variant>> variants;
};

/// Micro-batches that are offered, as far as they fit.
constexpr int64_t hybridMicroBatches[] = {1, 2, 4, 8, 16};

/// Unlike devices of a node that can share units: the types of a cluster, as
/// often as there are devices of them, in their order.
using DeviceTeam = std::vector<int>;

/// The team that all nodes of unlike devices are made of, each of as many as it
/// can be. Empty if there is none.
DeviceTeam findTeam(const ClusterView &cluster);

/// A problem, and what its device types stand for.
struct HybridCluster {
  HybridProblem problem;
  struct Devices {
    /// The type in the cluster; for a team, that of its first device.
    int type;
    /// Those of a team follow one another.
    std::vector<int> ranks;
  };
  std::vector<Devices> devices;

  /// The types of the problem that are one of the cluster's.
  std::vector<int> findTypes(int clusterType) const;
};

/// The problems of `globalBatch` samples on all ranks of `cluster`. Types that
/// differ in nothing but their names are one, the first. In the first problem,
/// a device type is one of the problem, whose links are as slow as the slowest
/// between its nodes; in others it is one for each part of the cluster that
/// slow links separate, as long as these are few. Where nodes have unlike
/// devices that can share units (findTeam()), these are one type in the last
/// problem. Empty, with `error` set, where a type has neither a profile nor
/// figures.
std::vector<HybridCluster> makeHybridProblems(const ClusterView &cluster,
                                              const HybridModel &model,
                                              int64_t globalBatch,
                                              std::string &error);

/// What geo plans take the times of a cluster from: the first problem of
/// makeHybridProblems(), and the modes of devices that share units where some
/// of their node are left over. None, with `error` set, as there.
std::optional<HybridCluster> makeGeoSource(const ClusterView &cluster,
                                           const HybridModel &model,
                                           int64_t globalBatch,
                                           std::string &error);

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDMODEL_H
