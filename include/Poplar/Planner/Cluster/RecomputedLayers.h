//===- RecomputedLayers.h - Profiles of some layers -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The profile of a device whose first N layers recompute (Recomputation.h),
// from that of one which keeps everything and that of one which recomputes in
// the whole model. For a micro-batch of b samples:
//
//   t_N(b) = t_keep(b) + share_N (t_all(b) - t_keep(b))
//
// share_N is the part of the layers' recomputation in that of all units, by the
// roofline of the ops that are added. Beyond the last micro-batch of the
// profile that keeps, what is added grows in proportion to b.
//
//   bytes_N = max(bytes_keep - saved_1 - ... - saved_N, bytes_all)   a sample
//
// The peak is that of the beginning of the backward pass, when all layers have
// kept what they keep, or that of a layer that recomputes, which takes as much
// however many do. With 4 layers that keep 100 bytes each, of which each could
// save 80, 60 bytes at work, and a peak of 200 bytes where all recompute:
//
//   N      0    1    2    3    4
//   bytes  460  380  300  220  200
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_RECOMPUTEDLAYERS_H
#define POPLAR_PLANNER_CLUSTER_RECOMPUTEDLAYERS_H

#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// What a policy adds and saves in each layer of a model, on a device type.
struct RecomputedLayers {
  struct Layer {
    /// The part of all that the units of the model compute again; all layers
    /// and the other units together have 1.
    double share;
    /// Bytes of a sample that are not kept.
    int64_t savedBytes;
  };

  RecomputePolicy policy = RecomputePolicy::Unit;
  std::vector<Layer> layers;

  int64_t countLayers() const { return static_cast<int64_t>(layers.size()); }
  /// The memory of a rank whose first `count` layers recompute; none where one
  /// of the profiles does not say what it takes.
  std::optional<DeviceProfile::Memory> getMemory(const DeviceProfile &keep,
                                                 const DeviceProfile &all,
                                                 int64_t count) const;
  /// The profile with the first `count` of the layers recomputing, from those
  /// of the same type and stage that keep everything and that have the policy.
  /// None where one of these is no curve or does not say what memory it takes.
  std::optional<DeviceProfile> derive(const DeviceProfile &keep,
                                      const DeviceProfile &all,
                                      int64_t count) const;
};

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_RECOMPUTEDLAYERS_H
