//===- PlanReview.h - All there is to say of a plan -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan as it is written, held against the cluster and the profiles it was
// made for: what it costs, what binds each rank, what memory it takes, what
// other plans would cost. It may have been edited by hand. Data for
// `poplar plan --explain` and `--json`, and for `poplar report`.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_PLANREVIEW_H
#define POPLAR_PLANNER_ZERO_PLANREVIEW_H

#include "Poplar/Planner/Plan/Plan.h"
#include "Poplar/Planner/Zero/PlanExplanation.h"
#include "Poplar/Planner/Zero/PlanSearch.h"

namespace poplar {

/// A candidate for a plan of `cluster`, written.
Plan writePlan(const ClusterView &cluster, const PlanCandidate &candidate);

struct PlanReview {
  /// The plan itself. Sharding is Replicated if there are replicas, else Memory
  /// if shares of the state differ.
  PlanCandidate plan;
  PlanExplanation explanation;

  /// A rank of the job; its type and node by their index in the cluster.
  struct Rank {
    int type, node;
    RankShare share;
    /// Its share of what the stage shards; those of a replica sum up to one.
    double state;
    PlanExplanation::Limit limit;
    /// Seconds per iteration of computing, and of waiting for slower ranks.
    double busy, waiting;
    /// Bytes: fixed + b * perSample at a micro-batch of b; `peak` at the
    /// largest. As predicted from the profile, if it says what memory it
    /// measured; poplar build knows it exactly.
    struct Memory {
      int64_t fixed, perSample, peak;
    };
    std::optional<Memory> memory;
  };
  std::vector<Rank> ranks;
  /// What the collectives of an iteration carry.
  double collectiveBytes = 0;

  /// The curve of a device type in the job, and whether it is an estimate.
  struct TypeCurve {
    std::vector<Curve::Point> points;
    bool isEstimate = false;
  };
  /// By type; those without devices in the job have no points.
  std::vector<TypeCurve> curves;

  /// What a device type of the job recomputes, and whether the user set it;
  /// else what the same ranks take if it is another policy, none if it does not
  /// fit.
  struct Recompute {
    int type;
    Recomputation policy;
    bool isFixed;
    std::vector<std::pair<Recomputation, std::optional<double>>> others;
  };
  std::vector<Recompute> recompute;

  /// The plans of the same policy over all stages: which are faster, which
  /// slower, and why some stages have none.
  PlanSearchResult alternatives;

  /// As Plan has them.
  std::vector<Plan::Candidate> candidates;
  std::optional<double> simulated;

  /// A line for each thing to do that makes iterations shorter, such as
  /// leaving out devices.
  std::vector<std::string> advice;
};

/// Fails, with `error` set, if the plan names devices that the cluster does not
/// have, or asks more of a device than its profile or its memory has.
std::optional<PlanReview> reviewPlan(const ClusterView &cluster,
                                     const ModelFacts &model, const Plan &plan,
                                     std::string &error);

/// For people: lines of text.
std::string formatReview(const ClusterView &cluster, const PlanReview &review);

/// What a candidate is: "stage 2, state by memory, 4 steps of 60 samples" and
/// what describeCandidate() says. With the policy that its shares are of, where
/// that is not `policy`.
std::string describePlan(const ClusterView &cluster,
                         const PlanCandidate &candidate,
                         const std::string &policy);

/// How the state is sharded: "memory", "4 replicas".
std::string describeSharding(const PlanCandidate &candidate);

/// In what a candidate differs from all devices doing what they are set to:
/// "without 2 of 't4', 'a100' recompute-unit". May be empty.
std::string describeCandidate(const ClusterView &cluster,
                              const PlanCandidate &candidate);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_PLANREVIEW_H
