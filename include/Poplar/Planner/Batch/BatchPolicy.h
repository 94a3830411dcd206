//===- BatchPolicy.h - Algorithms of batch allocation -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Algorithms for BatchProblem behind one interface.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_BATCH_BATCHPOLICY_H
#define POPLAR_PLANNER_BATCH_BATCHPOLICY_H

#include "Poplar/Planner/Batch/BatchProblem.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

class BatchPolicy {
public:
  virtual ~BatchPolicy();

  /// As makePolicy() takes it.
  const std::string &getName() const { return name; }

  /// Checks `problem` and solves it. Deterministic. On failure sets `error` to
  /// what is wrong with the problem, or why the policy has no solution.
  std::optional<Allocation> solve(const BatchProblem &problem,
                                  std::string &error) const;

protected:
  explicit BatchPolicy(std::string name) : name(std::move(name)) {}

  /// Solves a problem that makes sense. Name and time are filled in by solve().
  virtual std::optional<Allocation> allocate(const BatchProblem &problem,
                                             std::string &error) const = 0;

private:
  std::string name;
};

/// Makes the policy called `name`, or sets `error`:
///
/// - `exact`: the least time there is. In stages 2 and 3 over every number of
///   steps, every size of a step and of the last step, and every split of both;
///   in stages 0 and 1 over every share of every rank and every micro-batch.
///   Of plans of equal time, one with the fewest steps.
/// - `poplar`: the paper's method as far as it could be reconstructed. Stages 0
///   and 1: every rank runs at the micro-batch of its highest throughput and
///   takes samples in proportion to it, rounded down; what is left over goes,
///   sample by sample, to the rank that would be done with it first. Stages 2
///   and 3: sweeps a limit on the time of a step; every rank takes what it can
///   in that time; the last step takes the remainder.
/// - `uniform`: DeepSpeed. One micro-batch and one number of steps for all, so
///   the device with the least memory decides. DeepSpeed demands that the
///   global batch be a multiple of micro-batch times ranks; to meet any batch,
///   the last step is smaller here and shared equally, differences of one
///   sample going to the fastest types. Of all micro-batches that fit, the best
///   is taken.
/// - `whale`: Whale (ATC 2022). The samples of a step are shared in proportion
///   to rated FLOP/s, then moved from devices whose memory they exceed to the
///   least loaded others. Whale knows of neither accumulation nor ZeRO: here
///   its balance is made for one step, in what memory the state leaves free,
///   and of all numbers of steps the best is taken. The last step takes the
///   remainder in the same proportion.
/// - `homogeneous:T`: the exact policy on devices of type T alone; the others
///   are dropped. Times, memory and synchronisation are taken as the problem
///   has them; for those of a job of this size, pose a problem of this size.
/// - `batch:T=N,T=N,...`: what the user says, see makeSharesPolicy().
std::unique_ptr<BatchPolicy> makePolicy(const std::string &name,
                                        std::string &error);

/// A user's own shares, such as `a100=15,v100=2`: how many samples all devices
/// of a type together take in a step. They spread evenly, so that four devices
/// take 15 samples as 4, 4, 4 and 3. Every type must be named (0 is allowed).
/// Steps repeat until the global batch is reached; the last one takes the
/// remainder in the same proportion. Shares that do not fit in memory, or
/// exceed the global batch, are refused.
std::unique_ptr<BatchPolicy> makeSharesPolicy(const std::string &shares,
                                              std::string &error);

/// The best plan and up to `count` - 1 others, by time. Empty, with `error`
/// set, if the problem makes no sense.
///
/// Stages 2 and 3: each has another number of steps, and is the best found for
/// it, so the second is the best of all plans with another number of steps.
/// Stages 0 and 1: for each type, the best plan in which it keeps below the
/// largest micro-batch it has in the best plan.
std::vector<Allocation> bestAllocations(const BatchProblem &problem,
                                        size_t count, std::string &error);

} // namespace poplar

#endif // POPLAR_PLANNER_BATCH_BATCHPOLICY_H
