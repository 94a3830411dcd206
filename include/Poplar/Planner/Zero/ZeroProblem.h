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
// Collectives cost what CollectiveCost.h says, one after the other, as the
// runtime issues them for each bucket: gradients of 4 bytes an element, and
// parameters in the format of the wire (ZeRO, SC 2020, section 7).
//
//   stage 0  all-reduces beside the backward pass of the last step
//   stage 1  reductions beside it; gathers beside the update
//   stage 2  reductions beside the backward pass of each step; gathers beside
//            the update
//   stage 3  gathers beside the forward pass of each step; gathers and
//            reductions beside the backward pass
//
// Where shard groups hold replicas of the state, these are collectives of the
// groups, and sums of shards across them are beside the backward pass of the
// last step (ReplicaCost.h).
//
// What is beside computation takes the overhead of its bytes away from it. The
// first gather and the last reduction are beside nothing. Of the update,
// ranks gather a bucket while they compute the next one. The small exchanges of
// an iteration, of counts and norms, are waited for.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_ZEROPROBLEM_H
#define POPLAR_PLANNER_ZERO_ZEROPROBLEM_H

#include "Poplar/Planner/Batch/BatchProblem.h"
#include "Poplar/Planner/Cluster/Cluster.h"
#include "Poplar/Planner/Model/ParameterBytes.h"

namespace poplar {

/// What the planner has to know of a model.
struct ModelFacts {
  ParameterElements parameters;
  /// Elements of the quantised ones, and bytes of their largest bucket.
  int64_t quantizedElements = 0, largestQuantizedBucket = 0;
  /// Elements of the largest bucket that is not quantised; the number of
  /// buckets.
  int64_t largestBucket = 0, buckets = 0;
  /// Elements of the first bucket that a step uses, and of the last, likewise.
  int64_t firstBucket = 0, lastBucket = 0;
  /// Where parameters are frozen, the same of those that are trained.
  struct Trained {
    int64_t largestBucket = 0, buckets = 0;
    int64_t firstBucket = 0, lastBucket = 0;
  };
  std::optional<Trained> someTrained;
  /// Buckets that go over the wire in a step of stages 2 and 3, and their
  /// elements in all, or bytes of those that are quantised. A tied one goes
  /// several times; what the forward pass used last is not gathered again, nor
  /// what the backward pass does not read.
  struct Traffic {
    int64_t buckets = 0, elements = 0, quantizedBytes = 0;
  };
  Traffic gatheredForward, gatheredBackward, reduced;
  /// Gathers, and reductions, under way beside the bucket in use: that of
  /// --zero-prefetch and --zero-delay-waits.
  int64_t overlapDepth = 2;
  /// Profiles of other models are not used.
  std::string fingerprint;

  /// Elements of all parameters.
  int64_t countElements() const {
    return parameters.countPlain() + quantizedElements;
  }
  Trained getTrained() const {
    return someTrained.value_or(
        Trained{largestBucket, buckets, firstBucket, lastBucket});
  }
  /// Bytes of what a stage shards, and of all that there is.
  int64_t getShardedBytes(const StateFormat &format, int stage) const {
    return poplar::getStateBytes(format, stage, {}, parameters);
  }
  int64_t getStateBytes(const StateFormat &format) const {
    return poplar::getStateBytes(format, /*zeroStage=*/0, parameters, {});
  }
};

/// The part of makeBatchProblem() that is the same for all shares: `counts`
/// devices of each type, without limits by memory, and no communication.
std::optional<BatchProblem> listDeviceTypes(const ClusterView &cluster,
                                            const std::vector<int> &counts,
                                            const ModelFacts &model, int stage,
                                            int64_t globalBatch,
                                            std::string &error);

/// Makes the problem of `globalBatch` samples in `stage`. `state` is each
/// rank's share of what the stage shards; those of a replica are summed to one.
/// Fails, with `error` set, where a type in use has no profile for the stage.
std::optional<BatchProblem>
makeBatchProblem(const ClusterView &cluster, const ModelFacts &model, int stage,
                 int64_t globalBatch, const std::vector<double> &state,
                 std::string &error, int64_t replicas = 1);

/// Seconds of collectives of all ranks of a job: for each, and for an element.
/// All zero if there is one rank.
struct TrafficRates {
  double latency = 0, gather = 0, reduce = 0;
  /// Bytes of a parameter on the wire.
  double parameterBytes = 4;
  /// What computation beside it is slowed down by, per element.
  double gatherOverhead = 0, reduceOverhead = 0;
  /// The shard groups that gathers and reductions are inside of, and what it
  /// takes to add up shards across them.
  int64_t replicas = 1;
  double sumLatency = 0, sum = 0, sumOverhead = 0;
  /// Exchanges of an iteration: whether to stop, how many targets there are,
  /// the loss, and the norm.
  double exchanges = 0;
};

/// Bytes of a parameter on the wire between the ranks of a job, and of a
/// gradient between nodes.
double getParameterBytes(const ClusterView &cluster);
double getGradientBytes(const ClusterView &cluster);
/// The format in which ranks of a cluster, all of it or these, exchange
/// parameters without a loss.
WireFormat getExactWire(const ClusterView &cluster);
WireFormat getExactWire(const ClusterView &cluster,
                        const std::vector<int> &ranks);

/// The rates if ranks hold the shares `state` of every bucket.
TrafficRates getTrafficRates(const ClusterView &cluster,
                             const std::vector<double> &state);
/// The rates if those of each of two or more shard groups do, where those of
/// one group of all ranks are known.
TrafficRates getReplicatedRates(const ClusterView &cluster,
                                const std::vector<double> &state,
                                int64_t replicas, const TrafficRates &ofOne);

/// Sets what ranks communicate, the slowest taking `update` for its update. No
/// time of `problem` falls with a rate, nor with `update`.
void setSync(const ModelFacts &model, const TrafficRates &rates, double update,
             BatchProblem &problem);

/// Bytes that the collectives of an iteration of so many steps carry, of
/// parameters and gradients; those of a shard group, and across these.
double getCollectiveBytes(const ClusterView &cluster, const ModelFacts &model,
                          int stage, int64_t steps, int64_t replicas = 1);

/// Memory of a rank next to its activations, if it holds `share` of what the
/// stage shards. Of a profile that says nothing of memory, it is the least that
/// the state takes.
int64_t getFixedBytes(const DeviceProfile &profile, const DeviceType &type,
                      const ModelFacts &model, int stage, double share,
                      const LossyWires &wires);

/// Shares of the state in proportion to the memory that ranks have left for it,
/// next to what every rank has to hold and one sample. Fails, with `error` set,
/// where it does not fit.
std::optional<std::vector<double>>
shareStateByMemory(const ClusterView &cluster, const ModelFacts &model,
                   int stage, std::string &error);

/// What devices of a type need next to the state: of a profile that says
/// nothing of memory, an error.
std::optional<DeviceProfile::Memory>
getMeasuredMemory(const DeviceProfile &profile, const DeviceType &type,
                  std::string &error);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_ZEROPROBLEM_H
