//===- ZeroProblem.h - The batch problem of a cluster -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a cluster, its profiles and a few facts of the model to the problem that
// the policies of BatchPolicy.h solve, for one stage of ZeRO.
//
// Collectives are rings over the ranks in their order, held up by the slowest
// link of the ring. With N ranks, E elements, g = 4 and p bytes of a gradient
// and a parameter on the wire, a rank sends (N-1)/N times
//
//   stage 0  2 E g per iteration      stage 2  E g per step, E p per iteration
//   stage 1  E (g + p) per iteration  stage 3  E (2 p + g) per step
//
// and each of the collectives of B buckets pays N-1 latencies, those of an
// all-reduce twice as many (papers: ZeRO, SC 2020, section 7).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZEROPROBLEM_H
#define POPLAR_PLANNER_ZEROPROBLEM_H

#include "Poplar/Planner/BatchProblem.h"
#include "Poplar/Planner/Cluster.h"

namespace poplar {

/// What the planner has to know of a model.
struct ModelFacts {
  /// Of all parameters, and of the largest bucket; how many buckets.
  int64_t elements = 0, largestBucket = 0, buckets = 0;
  /// Gathers, and reductions, under way beside the bucket in use: that of
  /// --zero-prefetch and --zero-delay-waits.
  int64_t overlapDepth = 2;
  /// Profiles of other models are not used.
  std::string fingerprint;
};

/// Makes the problem of `globalBatch` samples in `stage`. `state` is each
/// rank's share of what the stage shards; they are summed to one. Fails, with
/// `error` set, where a type in use has no profile for the stage.
std::optional<BatchProblem> makeBatchProblem(const ClusterView &cluster,
                                             const ModelFacts &model, int stage,
                                             int64_t globalBatch,
                                             const std::vector<double> &state,
                                             std::string &error);

/// Memory of a rank next to its activations, if it holds `share` of what the
/// stage shards. `profile` has to say what memory it measured.
int64_t getFixedBytes(const DeviceProfile &profile, const DeviceType &type,
                      const ModelFacts &model, int stage, double share);

/// Shares of the state in proportion to the memory that ranks have left for it,
/// next to what every rank has to hold and one sample. Fails, with `error` set,
/// where it does not fit.
std::optional<std::vector<double>>
shareStateByMemory(const ClusterView &cluster, const ModelFacts &model,
                   int stage, std::string &error);

} // namespace poplar

#endif // POPLAR_PLANNER_ZEROPROBLEM_H
