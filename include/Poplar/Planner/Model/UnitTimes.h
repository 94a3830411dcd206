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
// A unit that t devices share (Shoeybi et al., Megatron-LM, 2019, with the rest
// of the unit cut along the sequence: Korthikanti et al., 2022) does 1/t of the
// arithmetic and traffic, keeps 1/t of the activations, and in products of
// which each device has 1/t of the columns. A repeated unit exchanges its
// activations twice in each direction, and twice more where it is computed
// again; the units in front once in forward, those behind once in backward.
// None of that is hidden.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_UNITTIMES_H
#define POPLAR_PLANNER_MODEL_UNITTIMES_H

#include "Poplar/Planner/Batch/Curve.h"
#include "Poplar/Planner/Pipeline/HybridModel.h"

namespace poplar {

/// Of a model on one device type of a cluster.
class UnitTimes {
public:
  /// Empty, with `error` set, where the type has neither a profile nor figures.
  static std::optional<UnitTimes> get(const ClusterView &cluster,
                                      const HybridModel &model, int type,
                                      std::string &error);

  /// By unit, of a micro-batch of `microBatch` > 0 samples on `degree` devices,
  /// linked at `inside` if they are several. Empty where larger than measured.
  std::vector<HybridProblem::UnitCost>
  getCosts(const HybridModel::Variant &variant, int64_t microBatch,
           int degree = 1, const LinkSpeed &inside = {0, 0}) const;

  /// Of the optimizer, per element of a shard; 0 where nothing is known.
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

#endif // POPLAR_PLANNER_MODEL_UNITTIMES_H
