//===- DeviceSelection.h - Which devices to leave out -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A job need not use every device: a slow link makes everyone wait in every
// collective, and where ranks meet in every step a few slow devices may cost
// more than they bring. But with fewer devices each holds a larger shard, so
// fewer samples fit. Hence every choice of devices is a problem of its own.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_DEVICESELECTION_H
#define POPLAR_PLANNER_CLUSTER_DEVICESELECTION_H

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include "Poplar/Planner/Cluster/DeviceSpace.h"
#include <functional>

namespace poplar {

/// Poses the problem for this many devices of each slot: their curves, the
/// micro-batches that fit, and the time of their collectives. Types are those
/// of the whole job, in its order, with these counts. None if there is no such
/// job.
using ProblemOfCounts = std::function<std::optional<BatchProblem>(
    const std::vector<int64_t> &counts)>;

/// A job of some devices: its problem, and the shares of the state by rank.
struct PosedJob {
  /// None if no plan of the job takes at most the limit.
  std::optional<BatchProblem> problem;
  std::vector<double> state;
  /// No plan of the job takes less, whatever the shares.
  double least = 0;
  /// The shares are the best, or nearly so.
  bool isExact = true;
  /// Problems that were solved to choose the shares.
  int64_t work = 0;
  /// The shard groups that hold the state.
  int64_t replicas = 1;
};
/// As ProblemOfCounts, for a search that has no use for plans that take more
/// than `limit` seconds.
using JobOfCounts = std::function<std::optional<PosedJob>(
    const std::vector<int64_t> &counts, double limit)>;

struct DeviceSelection {
  /// Devices in use, by slot.
  std::vector<int64_t> counts;
  /// The problem of these devices, but with all devices counted, so that
  /// `allocation`, which drops the others, is a solution of it.
  BatchProblem problem;
  Allocation allocation;
  /// By rank in use, as the job was posed.
  std::vector<double> state;
  int64_t replicas = 1;
  /// Every choice was tried, so there is none better if each job that was
  /// posed had its best shares.
  bool exhaustive = false, hasBestShares = true;
};

/// Finds devices for which `policy` takes least time, and more of them where it
/// makes no difference. Tries all choices where there are at most `budget` that
/// differ by more than an exchange of interchangeable nodes. Else it tries all
/// devices, the `hints`, all choices of whole types, every group of the space
/// alone, and everything but a group; from the best of these it adds and
/// removes parts of groups, and exchanges parts of one group for parts of
/// another, while that helps; at most `budget` choices in all. Where all
/// devices together have no plan, as many starts as it takes to find one. With
/// a budget of 1, all devices. Deterministic. On failure sets `error` to why
/// all devices together do not solve the problem.
std::optional<DeviceSelection>
selectDevices(const DeviceSpace &space, const JobOfCounts &jobOf,
              const BatchPolicy &policy, std::string &error,
              int64_t budget = 4096,
              const std::vector<std::vector<int64_t>> &hints = {});

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_DEVICESELECTION_H
