//===- UnitTimes.h - What the units of a model take -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Seconds are those of the roofline (Roofline.h). Where a micro-step was
// measured (cluster profiles), those of all units are scaled to add up to it,
// and nothing is said of larger micro-batches than the last measured.
//
// What a device does of a unit that several share (Shoeybi et al., Megatron-LM,
// 2019, with the rest of the unit cut along the sequence: Korthikanti et al.,
// 2022) is read from its program, and so is what it exchanges, none of which is
// hidden.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_UNITTIMES_H
#define POPLAR_PLANNER_PIPELINE_UNITTIMES_H

#include "Poplar/Planner/Batch/Curve.h"
#include "Poplar/Planner/Pipeline/HybridModel.h"

namespace poplar {

/// The roofline of a type, with figures of a server core where it has none.
/// Only ratios of its times are used, to scale what was measured of other ops.
Roofline getProportions(DeviceType type);

/// Times of a model's units on one device type of a cluster.
class UnitTimes {
public:
  /// Empty, with `error` set, where the type has neither a profile nor figures.
  static std::optional<UnitTimes> get(const ClusterView &cluster,
                                      const HybridModel &model, int type,
                                      std::string &error);

  /// By unit, of a micro-batch of `microBatch` > 0 samples, on one of the
  /// devices of a variant. Those that share units are linked at `inside`. Empty
  /// where larger than measured.
  std::vector<HybridProblem::UnitCost>
  getCosts(const HybridModel::Variant &variant, int64_t microBatch,
           const LinkSpeed &inside = {0, 0}) const;
  /// The same on a device that computes `share` of each unit of a variant that
  /// is not shared, without what it exchanges for that.
  std::vector<HybridProblem::UnitCost>
  getShareOfCosts(const HybridModel::Variant &variant, int64_t microBatch,
                  double share) const;

  /// Seconds of the optimizer, per element of a shard; 0 where nothing is
  /// known.
  double getOptimizerSeconds() const { return optimizerSeconds; }
  /// The largest micro-batch measured; none if all are estimated.
  std::optional<int64_t> getLargest() const;

private:
  double getScale(int64_t microBatch) const;

  std::optional<Roofline> roofline;
  /// What was measured, and of the model in which variant.
  const HybridModel::Variant *measured = nullptr;
  std::optional<Curve> curve;
  double optimizerSeconds = 0;
  CollectiveLibrary library = CollectiveLibrary::None;
};

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_UNITTIMES_H
