//===- HybridSelection.h - Which devices a hybrid plan has ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A hybrid problem takes the devices of a type to be alike: linked as slowly as
// the slowest two of them, on nodes of as many. One slow or small node makes a
// plan of all devices worse, though a plan need not use it. Hence every choice
// of devices is a problem of its own, as in DeviceSelection.h.
//
// Types that differ in nothing but their names are one type.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDSELECTION_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDSELECTION_H

#include "Poplar/Planner/Deadline.h"
#include "Poplar/Planner/Pipeline/HybridChoice.h"
#include "Poplar/Planner/Pipeline/HybridModel.h"
#include <functional>
#include <limits>

namespace poplar {

/// A plan that is nearly as fast as the best, simulated from costs.
struct HybridFinalist {
  /// As HybridSelection::cluster.
  HybridCluster cluster;
  HybridPlan plan;
  /// By the closed form, no plan of its devices in as many chunks takes less;
  /// of all devices, if every choice of them was posed.
  double lowerBound = 0;
  double seconds = 0;
};

/// The most of them, so that all of them can be played; besides, those of parts
/// of all plans (one ZeRO stage, no recomputation).
constexpr size_t mostFinalists = 8;

struct HybridSelection {
  /// What the plan is of; ranks and types are those of the whole cluster. Of
  /// types that are alike, the first.
  HybridCluster cluster;
  /// All devices, the first of makeHybridProblems().
  HybridCluster whole;
  /// `problem` is 0: that of `cluster`.
  HybridChoice choice;
  /// The fastest first, which is that of `choice`. Plans that take as long as
  /// another are taken to be the same.
  std::vector<HybridFinalist> finalists;
  /// Every choice of devices was posed, so that the bound of the choice is one
  /// for all devices.
  bool isExhaustive = false;
  /// By the closed form, no plan of any devices takes less, in any number of
  /// chunks.
  double lowerBound = 0;
};

/// Lets devices of a type of the cluster recompute the same in each group, as
/// they run one program: what costs least and fits. False if nothing does; the
/// plan may be changed then.
bool agreeOnRecompute(const HybridCluster &cluster, HybridPlan &plan);

/// Leaves modes, ZeRO stages and schedules out of a problem that are not
/// wanted.
using HybridFilter = std::function<void(HybridProblem &)>;

/// The plan of `globalBatch` samples that is fastest when simulated, of all
/// choices of devices where there are at most `mostChoices` that differ by more
/// than an exchange of interchangeable nodes. Else of all devices, every group
/// of a DeviceSpace alone, and everything but a group; then groups and single
/// devices are left out of the best of these, or added, as long as that helps,
/// at most `mostChoices` in all (0: 24 to 2048, fewer for more devices), and
/// with at most half as much effort as all devices together have. A choice that
/// computes too slowly to be better is not searched, nor are plans that take
/// `limit` or more by the cost. Deterministic, unless `deadline` ends it. Where
/// that is over and a plan of `limit` known, nothing is searched. Without a
/// plan, the error says why all devices together have none.
HybridSelection selectHybridDevices(
    const ClusterView &cluster, const HybridModel &model, int64_t globalBatch,
    const HybridFilter &filter, int64_t effort = hybridEffort,
    int mostChunks = HybridProblem::mostChunks, int64_t mostChoices = 0,
    double limit = std::numeric_limits<double>::infinity(),
    const Deadline &deadline = Deadline());

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDSELECTION_H
