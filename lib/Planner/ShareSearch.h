//===- ShareSearch.h - Who holds how much of the state ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that share the state by all their memory have as much left, each, for
// activations. That is more than a rank needs that takes few samples, and the
// shares are less equal than they could be: collectives take longer. What is
// behind a slow link had better hold less than its memory permits.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_SHARESEARCH_H
#define POPLAR_LIB_PLANNER_SHARESEARCH_H

#include "Poplar/Planner/BatchPolicy.h"
#include "Poplar/Planner/ZeroProblem.h"

namespace poplar {

class ShareSearch {
public:
  /// For the job of all ranks of `view`, as its types are set. Types that
  /// differ in nothing but their names have the same of `kinds`.
  ShareSearch(const ClusterView &view, const ModelFacts &model,
              const BatchPolicy &policy, int stage, int64_t globalBatch,
              const std::vector<size_t> &kinds)
      : view(view), model(model), policy(policy), stage(stage),
        globalBatch(globalBatch), kinds(kinds) {}

  struct Found {
    std::vector<double> state;
    BatchProblem problem;
    Allocation allocation;
  };
  /// The best; none if no shares have a plan.
  const std::optional<Found> &getBest() const { return best; }

  /// Shares that are as equal as they can be if every rank keeps memory for so
  /// many samples as a type can use; at most `tries` of them.
  void tryReserves(size_t tries);
  /// From the best: less for the devices of a kind, in sixteenths of what they
  /// hold; at most `tries` shares.
  void limitTypes(size_t tries);

private:
  std::optional<std::vector<double>> limit(const std::vector<double> &limits,
                                           int64_t reserve) const;
  bool consider(std::optional<std::vector<double>> state);

  const ClusterView &view;
  const ModelFacts &model;
  const BatchPolicy &policy;
  int stage;
  int64_t globalBatch;
  const std::vector<size_t> &kinds;
  /// What the best leaves to every rank.
  int64_t bestReserve = 0;
  std::optional<Found> best;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_SHARESEARCH_H
