//===- HybridReview.h - How good a hybrid plan is ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan on unlike devices against what its device types do each for itself:
// U = sum over types of the throughput of the best plan of that type alone,
// with the same model and the same global batch (HETHUB, arXiv 2405.16256: the
// theoretical upper bound, which it is not; how it is computed is ours).
// findUpperBound() is one.
//
// Where throughput is lost is found by taking one cause after the other away,
// starting from the simulated plan:
//
//   communication  all links infinitely fast
//   bubble         no filling and draining: m P
//   imbalance      stages share the units without remainder
//   modes          every device in its fastest mode: no recomputation, no parts
//                  of units, the largest micro-batch, whatever memory it takes
//   idle           all devices take part
//
// What is then left is the capacity C of the devices. Both the plan and the
// plans of U lose throughput to each of these causes; their difference is what
// the gap from U to the plan is made of, exactly.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDREVIEW_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDREVIEW_H

#include "Poplar/Planner/Pipeline/HybridChoice.h"
#include <array>

namespace poplar {

/// Samples per second, lost to each cause.
struct HybridLosses {
  enum Cause { Communication, Bubble, Imbalance, Modes, Idle };
  static constexpr int numCauses = 5;
  std::array<double, numCauses> lost{};
  /// The capacity of the devices, if nothing is lost.
  double capacity = 0;
};

/// "communication", "pipeline bubble", "imbalance of stages", "modes that fit
/// in memory", "idle devices".
const char *toString(HybridLosses::Cause cause);

/// The losses of a plan that takes `seconds`, as simulated.
HybridLosses findLosses(const HybridProblem &problem, const HybridPlan &plan,
                        double seconds);

/// No plan of the problem, in any of its modes, reaches more samples per second
/// than this, whatever memory and links there are. With prices p of the units
/// that sum to 1, a device earns at most the most that it can, max p_u / t_u,
/// so that all devices together make no more whole samples than they earn.
/// Prices are the times of one of the types, whichever gives the least bound.
double findUpperBound(const HybridProblem &problem);

struct HybridReview {
  /// Samples per second of the plan, simulated.
  double throughput = 0;
  /// findUpperBound().
  double upperBound = 0;
  HybridLosses losses;
  /// A type alone; without a plan if the model does not fit on it.
  struct Alone {
    HybridSearchResult search;
    /// Simulated; 0 if there is no plan.
    double throughput = 0;
    HybridLosses losses;
  };
  std::vector<Alone> alone;

  /// U. Types together have memory that none of them has alone, so that a plan
  /// may reach more.
  double getSumOfTypes() const;
  /// What of the gap from U to the plan is due to each cause, in samples per
  /// second; below 0 where the plan loses less. They add up to the gap.
  std::array<double, HybridLosses::numCauses> splitGap() const;
};

/// What was chosen of devices of one type. `whole` is a problem of all of them,
/// `problem` that of the choice, if there is a plan.
HybridReview::Alone reviewAlone(const HybridProblem &whole,
                                const HybridProblem &problem,
                                HybridChoice choice);

/// Reviews plans that take `seconds` together, simulated, given that of each
/// type alone. The devices of `whole` that their problems lack are idle; what a
/// plan waits for others, as it was given less to do, is imbalance.
HybridReview reviewHybridPlan(const HybridProblem &whole,
                              const std::vector<SolvedProblem> &solved,
                              double seconds,
                              std::vector<HybridReview::Alone> alone);

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDREVIEW_H
