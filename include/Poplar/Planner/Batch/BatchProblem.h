//===- BatchProblem.h - Who takes how many samples --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The batch-allocation problem and its solutions, apart from the algorithms
// that find them (BatchPolicy.h): a global batch of samples is shared among
// ranks on devices of unlike speed and memory so that an iteration takes least
// time. After the offline part of Poplar (Zhang et al., AAAI 2025).
//
// The cost is a closed form. Write t_i(b) for rank i's seconds in a step of b
// samples. Collectives run beside it, those of the forward pass beside a third
// of it, those of the backward pass beside the rest, but for the first and the
// last, which nothing hides. A step in which ranks meet takes, if computing
// takes x:
//
//     f(x) = max(x / 3, forwardSync) + max(2 x / 3, backwardSync) + stepSync
//
//   Stages 0 and 1: ranks meet in the last step of an iteration, so each has
//   its own number of steps s_i, of b_i samples, the last of l_i <= b_i:
//     T = max_i [ (s_i - 1) t_i(b_i) + f(t_i(l_i)) ] + iterationSync
//
//   Stages 2 and 3: ranks meet in every step, so all have the same number of
//   gradient accumulation steps s. The last one has a split of its own, l_i. As
//   a rule it is the smaller one; where a larger one saves time (by some
//   percent, at times) l_i may exceed b_i:
//     T = (s - 1) f(max_i t_i(b_i)) + f(max_i t_i(l_i)) + iterationSync
//
//   Collectives of the last step alone run beside its backward pass: there,
//   lastBackwardSync is added to backwardSync.
//
// Devices of a type are interchangeable; everything here grows with the number
// of types, not of devices.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_BATCH_BATCHPROBLEM_H
#define POPLAR_PLANNER_BATCH_BATCHPROBLEM_H

#include "Poplar/Planner/Batch/Curve.h"
#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

struct BatchProblem {
  struct DeviceType {
    std::string name;
    /// Ranks on devices of this type. May be 0.
    int64_t count = 0;
    /// In the problem's ZeRO stage.
    Curve curve;
    /// The largest micro-batch that fits in memory, at most curve.largest(). A
    /// device on which not even one sample fits (0) may still hold a shard.
    int64_t largestBatch = 0;
    /// Rated FLOP/s; only the policy `whale` asks. 0 if unknown.
    double flops = 0;
    /// Memory of a device, and of a rank: fixedBytes + b * bytesPerSample with
    /// a micro-batch of b. Used in messages; 0 if unknown.
    int64_t memoryBytes = 0, fixedBytes = 0, bytesPerSample = 0;
    /// Larger micro-batches than `largestBatch` may fit, but the curve ends.
    bool endsWithCurve = false;
  };

  std::vector<DeviceType> types;
  /// Samples per iteration.
  int64_t globalBatch = 0;
  int zeroStage = 0;
  /// Seconds per iteration that nothing hides: communication, the update.
  double iterationSync = 0;
  /// Seconds of communication in a step in which ranks meet: what nothing hides
  /// (in stages 0 and 1, that is part of iterationSync), and what computation
  /// can hide.
  double stepSync = 0, forwardSync = 0, backwardSync = 0;
  /// In stages 2 and 3, what computation can hide in the last step besides.
  double lastBackwardSync = 0;

  /// Empty if the problem makes sense and has a solution, else what is wrong
  /// with it, and where.
  std::string check() const;

  /// True if all ranks meet in every step (stages 2 and 3).
  bool sharesSteps() const { return zeroStage >= 2; }
  /// f(x) in the head of this file. Does not fall with `computing`.
  double stepSeconds(double computing) const;
  /// The same of the last step.
  double lastStepSeconds(double computing) const;
  /// No plan takes less: all compute at their best rates throughout, and meet
  /// as seldom as memory permits.
  double getLeastSeconds() const;
  int64_t rankCount() const;
  /// Index of the type `name`, or -1.
  int findType(const std::string &name) const;
};

/// What one rank does in an iteration: `steps - 1` steps of `microBatch`
/// samples and one of `last`.
struct RankShare {
  int64_t microBatch = 0, steps = 0, last = 0;

  int64_t samples() const {
    return steps == 0 ? 0 : (steps - 1) * microBatch + last;
  }
  /// The largest step, which the rank's memory must hold.
  int64_t largestStep() const {
    return steps > 1 && microBatch > last ? microBatch : last;
  }
  /// Seconds of computation.
  double seconds(const Curve &curve) const;
  /// In stages 0 and 1, seconds until all have met, if others do not wait.
  double meetingSeconds(const BatchProblem &problem, const Curve &curve) const;

  bool operator==(const RankShare &other) const {
    return microBatch == other.microBatch && steps == other.steps &&
           last == other.last;
  }
};

/// A solution. In stages 2 and 3 `steps` is the same for every rank, also one
/// without samples; in stages 0 and 1 a rank without samples has none.
struct Allocation {
  /// Devices of one type with the same share.
  struct Group {
    int64_t count;
    RankShare share;
  };
  struct TypeShares {
    /// In the order of the devices, count > 0.
    std::vector<Group> groups;
    /// Devices that take no part in the job at all, after the others.
    int64_t dropped = 0;
  };

  /// The policy that made it.
  std::string policy;
  /// Parallel to BatchProblem::types.
  std::vector<TypeShares> types;
  /// Predicted seconds of an iteration.
  double seconds = 0;

  /// The cost in the head of this file.
  double predict(const BatchProblem &problem) const;
  /// Empty if the shares solve `problem`, whatever `seconds` says, else names
  /// the violation and the type. Then there is a time to predict.
  std::string verifyShares(const BatchProblem &problem) const;
  /// Empty if this solves `problem` in the time it claims.
  std::string verify(const BatchProblem &problem) const;

  /// Share of device `device` of type `type`. A dropped device has none.
  RankShare shareOf(size_t type, int64_t device) const;
  int64_t samplesOf(size_t type) const;
  /// Samples of all ranks in a step that is not the last, and in the last.
  int64_t samplesPerStep() const;
  int64_t samplesInLastStep() const;
  /// The most steps any rank makes: the number of gradient accumulation steps.
  int64_t steps() const;
};

} // namespace poplar

#endif // POPLAR_PLANNER_BATCH_BATCHPROBLEM_H
