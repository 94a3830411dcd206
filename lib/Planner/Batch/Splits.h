//===- Splits.h - Sharing the samples of a step -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared by the allocation policies. Devices of a type are alike, so a split of
// samples is a number per type; its devices share it evenly, the first ones
// having one sample more where it does not divide.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_SPLITS_H
#define POPLAR_LIB_PLANNER_SPLITS_H

#include "Poplar/Planner/Batch/BatchProblem.h"
#include <functional>

namespace poplar {

/// Samples by type.
using Split = std::vector<int64_t>;

/// Splits `total` samples in proportion to `weights`, at most `limits` each.
/// Each weight and limit is that of `counts` parts together: every part gets
/// its share rounded down, then one more by largest remainder; what limits keep
/// out goes wherever there is room. The limits must have room for all, the
/// weights a positive sum.
Split splitInProportion(int64_t total, const std::vector<double> &weights,
                        const Split &counts, const Split &limits);

/// All ranks make `steps` steps together, of which each but the last is split
/// by `step` and the last by `last`. For stages 0 and 1, `last` must not exceed
/// `step`.
Allocation makeStepwise(const BatchProblem &problem, int64_t steps,
                        const Split &step, const Split &last);

/// Every rank has its own steps: `share` makes them from the index of a type
/// and the samples of one of its devices in an iteration.
Allocation makeRankwise(
    const BatchProblem &problem, const Split &samples,
    const std::function<RankShare(size_t type, int64_t samples)> &share);

/// Steps of `microBatch` samples and a smaller last one, if need be.
RankShare makeShare(int64_t samples, int64_t microBatch);

/// S(n), the least time of a step of n samples on all devices together:
/// min over b with sum b_i = n of max_i t_i(b_i). A staircase, whose levels are
/// among the finitely many t_i(b).
class StepTimes {
public:
  struct Level {
    double seconds;
    /// The most samples a step of this time can have.
    int64_t samples;
  };

  explicit StepTimes(const BatchProblem &problem);

  /// Strictly ascending in both.
  const std::vector<Level> &getLevels() const { return levels; }
  /// The most samples a step can have.
  int64_t capacity() const { return levels.back().samples; }
  /// S(n) for 0 <= n <= capacity().
  double seconds(int64_t samples) const;
  /// A split that takes S(n). Every device gets what it can do in strictly less
  /// time; only the rest, which needs the full time, is a choice, and made type
  /// by type. Hence the split of fewer samples never exceeds that of more, on
  /// any device.
  Split split(int64_t samples) const;

private:
  const BatchProblem &problem;
  std::vector<Level> levels;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_SPLITS_H
