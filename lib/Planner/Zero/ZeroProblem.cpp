//===- ZeroProblem.cpp - The batch problem of a cluster -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/ZeroProblem.h"
#include "Division.h"
#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include "Poplar/Planner/Cluster/HostRounding.h"
#include "Poplar/Planner/Cluster/ReplicaCost.h"
#include "Poplar/Planner/Model/OptimizerBytes.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Model/ZeroRounds.h"
#include "Poplar/Planner/Zero/ShardBounds.h"
#include "Zero/ShareSearch.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace poplar;

WireFormat poplar::getExactWire(const ClusterView &cluster,
                                const std::vector<int> &ranks) {
  int known = cluster.ranks[ranks.front()].type;
  NumberFormat format = cluster.types[known].getWorkingFormat();
  for (int rank : ranks) {
    if (cluster.ranks[rank].type == known)
      continue;
    known = cluster.ranks[rank].type;
    format = joinWireFormats(format, cluster.types[known].getWorkingFormat());
  }
  return getExactWire(format);
}

WireFormat poplar::getExactWire(const ClusterView &cluster) {
  std::vector<int> all(cluster.ranks.size());
  std::iota(all.begin(), all.end(), 0);
  return getExactWire(cluster, all);
}

double poplar::getParameterBytes(const ClusterView &cluster) {
  std::optional<WireFormat> lossy = cluster.wires.parameters;
  return getElementBytes(lossy ? *lossy : getExactWire(cluster));
}

double poplar::getGradientBytes(const ClusterView &cluster) {
  std::optional<WireFormat> lossy = cluster.wires.gradients;
  return lossy ? getElementBytes(*lossy) : double(gradientWireBytes);
}

/// There are so many elements that rounding shards to whole ones does not
/// matter.
static constexpr double manyElements = 1ull << 40;

/// Bounds of the first ranks, a shard group's, which hold these shares.
static std::vector<int64_t> getManyBounds(const std::vector<double> &state,
                                          size_t ranks) {
  double total = 0, sum = 0;
  for (size_t rank = 0; rank < ranks; ++rank)
    total += state[rank];
  std::vector<int64_t> bounds = {0};
  for (size_t rank = 0; rank < ranks; ++rank) {
    sum += state[rank];
    bounds.push_back(std::llround(sum / total * manyElements));
  }
  return bounds;
}

/// Both halves of the sum of shards, and the collectives of shard groups.
static std::pair<SimulationProblem::Collective, SimulationProblem::Collective>
setReplicas(const ClusterView &cluster, const std::vector<int64_t> &bounds,
            TrafficRates &rates) {
  ReplicaCost cost(cluster, cluster.ranks, rates.replicas);
  for (const SimulationProblem::Collective &half :
       {cost.reduceShards("", bounds, gradientWireBytes),
        cost.gatherShards("", bounds, gradientWireBytes)}) {
    rates.sumLatency += half.latency;
    rates.sum += (half.seconds() - half.latency) / manyElements;
    rates.sumOverhead += half.overhead / manyElements;
  }
  return {cost.allGather("", bounds, rates.parameterBytes),
          cost.reduceScatter("", bounds, gradientWireBytes)};
}

/// The rates of an all-gather and a reduce-scatter.
static void setRates(const SimulationProblem::Collective &gather,
                     const SimulationProblem::Collective &reduce,
                     TrafficRates &rates) {
  rates.latency = gather.latency;
  rates.gather = (gather.seconds() - gather.latency) / manyElements;
  rates.reduce = (reduce.seconds() - reduce.latency) / manyElements;
  rates.gatherOverhead = gather.overhead / manyElements;
  rates.reduceOverhead = reduce.overhead / manyElements;
}

TrafficRates poplar::getTrafficRates(const ClusterView &cluster,
                                     const std::vector<double> &state) {
  TrafficRates rates;
  if (cluster.ranks.size() < 2)
    return rates;
  CollectiveCost cost(cluster, cluster.ranks);
  rates.parameterBytes = getParameterBytes(cluster);
  auto [gather, reduce] = cost.gatherAndReduce(
      getManyBounds(state, state.size()), rates.parameterBytes,
      getGradientBytes(cluster), gradientWireBytes);
  setRates(gather, reduce, rates);
  // Three of one word and one of two.
  SimulationProblem::Collective word = cost.exchange("", sizeof(int64_t));
  rates.exchanges = 5 * word.seconds() - word.latency;
  return rates;
}

TrafficRates poplar::getReplicatedRates(const ClusterView &cluster,
                                        const std::vector<double> &state,
                                        int64_t replicas,
                                        const TrafficRates &ofOne) {
  TrafficRates rates;
  rates.parameterBytes = ofOne.parameterBytes;
  rates.exchanges = ofOne.exchanges;
  rates.replicas = replicas;
  auto [gather, reduce] = setReplicas(
      cluster,
      getManyBounds(state, state.size() / static_cast<size_t>(replicas)),
      rates);
  setRates(gather, reduce, rates);
  return rates;
}

void poplar::setSync(const ModelFacts &model, const TrafficRates &rates,
                     double update, BatchProblem &problem) {
  using Traffic = ModelFacts::Traffic;
  // As many elements as take as long on the wire.
  auto countGathered = [&](const Traffic &traffic) {
    return double(traffic.elements) +
           double(traffic.quantizedBytes) / rates.parameterBytes;
  };
  auto gather = [&](const Traffic &traffic) {
    return double(traffic.buckets) * rates.latency +
           countGathered(traffic) * rates.gather;
  };
  auto reduce = [&](const Traffic &traffic) {
    return double(traffic.buckets) * rates.latency +
           double(traffic.elements) * rates.reduce;
  };
  // What they take away from the computation that hides them.
  auto gatherOverhead = [&](const Traffic &traffic) {
    return countGathered(traffic) * rates.gatherOverhead;
  };
  auto reduceOverhead = [&](const Traffic &traffic) {
    return double(traffic.elements) * rates.reduceOverhead;
  };
  auto without = [](const Traffic &all, const Traffic &part) {
    return Traffic{std::max<int64_t>(all.buckets - part.buckets, 0),
                   std::max<int64_t>(all.elements - part.elements, 0),
                   all.quantizedBytes};
  };
  // What is reduced and updated; what is gathered in steps begins with a bucket
  // that may be frozen.
  ModelFacts::Trained trained = model.getTrained();
  int64_t one = std::min<int64_t>(trained.buckets, 1);
  Traffic all = {trained.buckets, model.parameters.trained},
          first = {one, trained.firstBucket}, last = {one, trained.lastBucket},
          gathered = {std::min<int64_t>(model.buckets, 1), model.firstBucket};
  ZeroRounds rounds = ZeroRounds::of(problem.zeroStage);
  problem.forwardSync = problem.backwardSync = problem.stepSync = 0;
  problem.lastBackwardSync = 0;
  problem.iterationSync = update + rates.exchanges;
  // Sums are gathered in as long as it takes to reduce them.
  if (int times = rounds.reductions + rounds.gradientGathers) {
    Traffic beside = without(all, first);
    problem.backwardSync += times * reduce(beside);
    problem.iterationSync += times * (reduce(first) + reduceOverhead(beside));
  }
  if (rounds.stepReductions) {
    Traffic beside = without(model.reduced, first);
    problem.backwardSync += reduce(beside);
    problem.stepSync += reduce(first) + reduceOverhead(beside);
  }
  if (rates.replicas > 1) {
    auto add = [&](const Traffic &traffic) {
      return double(traffic.buckets) * rates.sumLatency +
             double(traffic.elements) * rates.sum;
    };
    Traffic beside = without(all, first);
    (problem.sharesSteps() ? problem.lastBackwardSync : problem.backwardSync) +=
        add(beside);
    problem.iterationSync +=
        add(first) + double(beside.elements) * rates.sumOverhead;
  }
  if (rounds.gathersForward) {
    Traffic beside = without(model.gatheredForward, gathered);
    problem.forwardSync += gather(beside);
    problem.stepSync += gather(gathered) + gatherOverhead(beside);
  }
  if (rounds.gathersBackward) {
    problem.backwardSync += gather(model.gatheredBackward);
    problem.stepSync += gatherOverhead(model.gatheredBackward);
  }
  if (rounds.parameterGathers) {
    // Buckets are gathered in the order of the update, while it goes on.
    constexpr double share =
        double(OptimizerBytes::adamw) / double(OptimizerBytes::total());
    double adamw = share * update;
    problem.iterationSync += std::max(
        gather(last), gather(all) - adamw * (1 - double(first.elements) /
                                                     double(all.elements)));
  }
}

double poplar::getCollectiveBytes(const ClusterView &cluster,
                                  const ModelFacts &model, int stage,
                                  int64_t steps, int64_t replicas) {
  if (cluster.ranks.size() < 2)
    return 0;
  ZeroRounds rounds = ZeroRounds::of(stage);
  int64_t trained = model.parameters.trained;
  double quantized = double(
      steps * (rounds.gathersForward * model.gatheredForward.quantizedBytes +
               rounds.gathersBackward * model.gatheredBackward.quantizedBytes));
  double gradients =
             double((rounds.reductions + rounds.gradientGathers) * trained),
         parameters = double(rounds.parameterGathers * trained);
  if (replicas > 1)
    gradients += 2.0 * double(trained); // reduced and gathered
  gradients += double(steps * rounds.stepReductions * model.reduced.elements);
  parameters += double(
      steps * (rounds.gathersForward * model.gatheredForward.elements +
               rounds.gathersBackward * model.gatheredBackward.elements));
  return gradients * getGradientBytes(cluster) +
         parameters * getParameterBytes(cluster) + quantized;
}

static const DeviceProfile *findProfile(const ClusterView &cluster,
                                        const ModelFacts &model, int type,
                                        int stage, std::string &error) {
  const DeviceProfile *profile =
      cluster.findProfile(type, stage, model.fingerprint);
  if (!profile)
    error = "device type '" + cluster.types[type].name +
            "' has no profile of this model (" + model.fingerprint +
            ") in stage " + std::to_string(stage) +
            "; make one with: " + getProfileCommand(cluster.types[type].name) +
            " and plan with --profiles profiles; or give its flops and "
            "bandwidth in the cluster file, or its "
            "device, for an estimate";
  return profile;
}

/// What error feedback may take, and masters beside working copies in f32.
static int64_t getLossyBytes(const LossyWires &wires, const DeviceType &type,
                             const ModelFacts &model, int stage, double share) {
  auto trained = double(model.parameters.trained);
  bool hasMasters = wires.parameters && (stage == 1 || stage == 2) &&
                    type.getWorkingFormat() == NumberFormat::F32;
  // No rank sends more to other nodes than all there is.
  bool keepsFeedback = wires.gradients && !roundsOnHost(type);
  double elements =
      (keepsFeedback ? trained : 0) + (hasMasters ? trained * share : 0);
  return std::llround(elements * sizeof(float));
}

int64_t poplar::getFixedBytes(const DeviceProfile &profile,
                              const DeviceType &type, const ModelFacts &model,
                              int stage, double share,
                              const LossyWires &wires) {
  StateFormat format = StateFormat::of(type.getWorkingFormat());
  ModelFacts::Trained trained = model.getTrained();
  auto sharded = double(model.getShardedBytes(format, stage));
  int64_t fixed =
      profile.memory ? profile.memory->fixed : model.getStateBytes(format);
  return fixed - std::llround(sharded * (1 - share)) +
         getLossyBytes(wires, type, model, stage, share) +
         transientBytes(
             format, stage,
             {model.largestBucket, model.buckets, model.largestQuantizedBucket},
             {trained.largestBucket, trained.buckets}, model.overlapDepth);
}

std::optional<BatchProblem>
poplar::listDeviceTypes(const ClusterView &cluster,
                        const std::vector<int> &counts, const ModelFacts &model,
                        int stage, int64_t globalBatch, std::string &error) {
  BatchProblem problem;
  problem.globalBatch = globalBatch;
  problem.zeroStage = stage;
  // Whale rates devices by single precision. Where a type's is not known, all
  // are rated by the format that they train in: two formats do not compare.
  bool byF32 = true;
  for (size_t type = 0; type < counts.size(); ++type)
    byF32 &= counts[type] == 0 ||
             cluster.types[type].flops.count(NumberFormat::F32) != 0;
  for (int type = 0; type < static_cast<int>(counts.size()); ++type) {
    const DeviceType &device = cluster.types[type];
    BatchProblem::DeviceType entry;
    entry.name = device.name;
    entry.count = counts[type];
    auto flops =
        device.flops.find(byF32 ? NumberFormat::F32 : device.precision);
    if (flops != device.flops.end())
      entry.flops = flops->second;
    entry.memoryBytes = device.memory;
    if (entry.count) {
      const DeviceProfile *profile =
          findProfile(cluster, model, type, stage, error);
      if (!profile)
        return std::nullopt;
      std::optional<Curve> curve = profile->fitCurve(error);
      if (!curve) {
        error = "profile of '" + device.name + "': " + error;
        return std::nullopt;
      }
      entry.curve = *curve;
      entry.largestBatch = curve->largest();
      if (profile->maxMicroBatch)
        entry.largestBatch =
            std::min(entry.largestBatch, *profile->maxMicroBatch);
      entry.endsWithCurve = entry.largestBatch != profile->maxMicroBatch;
    }
    problem.types.push_back(std::move(entry));
  }
  return problem;
}

std::optional<BatchProblem>
poplar::makeBatchProblem(const ClusterView &cluster, const ModelFacts &model,
                         int stage, int64_t globalBatch,
                         const std::vector<double> &state, std::string &error,
                         int64_t replicas) {
  TrafficRates rates = getTrafficRates(cluster, state);
  if (replicas > 1)
    rates = getReplicatedRates(cluster, state, replicas, rates);
  return makeBatchProblem(cluster, model, stage, globalBatch, state, rates,
                          error);
}

std::optional<BatchProblem>
poplar::makeBatchProblem(const ClusterView &cluster, const ModelFacts &model,
                         int stage, int64_t globalBatch,
                         const std::vector<double> &state,
                         const TrafficRates &rates, std::string &error) {
  // The rank of each type with the most state decides.
  std::vector<double> largest(cluster.types.size());
  double total = 0;
  for (double share : state)
    total += share;
  total /= double(rates.replicas);
  for (size_t rank = 0; rank < cluster.ranks.size(); ++rank) {
    double &share = largest[cluster.ranks[rank].type];
    share = std::max(share, state[rank] / total);
  }
  return makeBatchProblem(cluster, cluster.countRanks(), largest, model, stage,
                          globalBatch, rates, error);
}

std::optional<BatchProblem> poplar::makeBatchProblem(
    const ClusterView &cluster, const std::vector<int> &counts,
    const std::vector<double> &largest, const ModelFacts &model, int stage,
    int64_t globalBatch, const TrafficRates &rates, std::string &error) {
  std::optional<BatchProblem> problem =
      listDeviceTypes(cluster, counts, model, stage, globalBatch, error);
  if (!problem)
    return std::nullopt;
  double slowestUpdate = 0;
  for (int type = 0; type < static_cast<int>(largest.size()); ++type) {
    BatchProblem::DeviceType &entry = problem->types[type];
    if (entry.count == 0)
      continue;
    const DeviceType &device = cluster.types[type];
    const DeviceProfile *profile =
        findProfile(cluster, model, type, stage, error);
    entry.fixedBytes = getFixedBytes(*profile, device, model, stage,
                                     largest[type], cluster.wires);
    if (profile->memory) {
      entry.bytesPerSample = profile->memory->perSample;
      int64_t free = std::max<int64_t>(device.memory - entry.fixedBytes, 0);
      if (entry.bytesPerSample > 0 &&
          free / entry.bytesPerSample <= entry.largestBatch) {
        entry.largestBatch = free / entry.bytesPerSample;
        entry.endsWithCurve = false;
      }
    }
    if (profile->optimizerSeconds)
      slowestUpdate = std::max(slowestUpdate, *profile->optimizerSeconds *
                                                  (stage ? largest[type] : 1));
  }
  setSync(model, rates, slowestUpdate, *problem);
  error = problem->check();
  if (!error.empty())
    return std::nullopt;
  return problem;
}

std::optional<DeviceProfile::Memory>
poplar::getMeasuredMemory(const DeviceProfile &profile, const DeviceType &type,
                          std::string &error) {
  if (!profile.memory)
    error = "profile of '" + type.name +
            "' has no memory figures, by which the state is to be shared";
  return profile.memory;
}

std::optional<std::vector<double>>
poplar::shareStateByMemory(const ClusterView &cluster, const ModelFacts &model,
                           int stage, std::string &error) {
  if (stage == 0) // nothing is sharded
    return std::vector<double>(cluster.ranks.size(), 1.0);
  std::vector<int64_t> free;
  int64_t width = 1;
  for (const ClusterRank &rank : cluster.ranks) {
    const DeviceType &type = cluster.types[rank.type];
    const DeviceProfile *profile =
        findProfile(cluster, model, rank.type, stage, error);
    if (!profile)
      return std::nullopt;
    auto memory = getMeasuredMemory(*profile, type, error);
    if (!memory)
      return std::nullopt;
    free.push_back(
        type.memory -
        getFixedBytes(*profile, type, model, stage, 0, cluster.wires) -
        memory->perSample);
    width = std::max(
        width, divideUp(model.getShardedBytes(
                            StateFormat::of(type.getWorkingFormat()), stage),
                        model.countElements()));
  }
  std::optional<ShardBounds> bounds =
      shardByFreeMemory(model.countElements(), free, width, error);
  if (!bounds)
    return std::nullopt;
  std::vector<double> shares;
  for (int64_t rank = 0; rank < bounds->ranks(); ++rank)
    shares.push_back(double(bounds->length(rank)) /
                     double(model.countElements()));
  return shares;
}
