//===- ShardingProblem.cpp - Jobs of a ZeRO stage -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Cluster/ReplicaCost.h"
#include "Zero/ShardingSearch.h"
#include <algorithm>

using namespace poplar;

std::optional<ClusterView>
poplar::takeChoice(const ClusterView &cluster, const DeviceSpace &space,
                   const std::vector<int64_t> &choice, std::vector<int> *kept) {
  std::vector<int64_t> copies(cluster.ranks.size());
  for (size_t slot = 0; slot < choice.size(); ++slot) {
    const ClusterNode &node = cluster.nodes[space.slots[slot].node];
    int64_t left = choice[slot];
    for (int rank = node.firstRank;
         left > 0 && rank < node.firstRank + node.numRanks; ++rank)
      if (cluster.ranks[rank].type == space.slots[slot].type) {
        copies[rank] = 1;
        --left;
      }
  }
  return takeRanks(cluster, copies, kept);
}

JobDevices::JobDevices(const ClusterView &cluster, const DeviceSpace &space,
                       const std::vector<int64_t> &choice)
    : cluster(cluster), space(space), choice(choice) {
  for (int64_t count : space.countTypes(choice)) {
    counts.push_back(static_cast<int>(count));
    numRanks += count;
  }
}

const ClusterView *JobDevices::getView() {
  if (!view)
    view = takeChoice(cluster, space, choice);
  return view ? &*view : nullptr;
}

std::vector<size_t> JobDevices::classify() {
  return space.classifyRanks(*getView(), choice);
}

std::optional<PosedJob> poplar::poseEqually(const JobDevices &devices,
                                            const TrafficRates &rates,
                                            const ModelFacts &model, int stage,
                                            int64_t globalBatch,
                                            std::string &error) {
  PosedJob job;
  job.state.assign(devices.numRanks, 1.0);
  job.replicas = rates.replicas;
  double share = 1 / (double(devices.numRanks) / double(rates.replicas));
  std::vector<double> largest;
  for (int count : devices.counts)
    largest.push_back(count > 0 ? share : 0);
  job.problem = makeBatchProblem(devices.cluster, devices.counts, largest,
                                 model, stage, globalBatch, rates, error);
  if (!job.problem)
    return std::nullopt;
  return job;
}

std::optional<PosedJob>
poplar::poseReplicated(JobDevices &devices, RankTraffic &traffic,
                       const ModelFacts &model, const BatchPolicy &policy,
                       int stage, int64_t globalBatch, double limit,
                       std::string &error) {
  if (devices.cluster.wires.any()) {
    error = "replicas and rounding between nodes are not generated together";
    return std::nullopt;
  }
  if (!traffic.replicas)
    traffic.replicas = ReplicaCost::list(devices.getView()->ranks);
  const std::vector<int64_t> &numbers = *traffic.replicas;
  if (numbers.empty()) {
    error = "nodes do not make shard groups of equally many devices";
    return std::nullopt;
  }
  auto work = static_cast<int64_t>(numbers.size());
  // Most choices of devices are too slow whatever shards exchange.
  TrafficRates none;
  none.exchanges = traffic.rates.exchanges;
  if (auto job = poseEqually(devices, none, model, stage, globalBatch, error))
    if (double least = job->problem->getLeastSeconds();
        least > limit * (1 + 1e-9))
      return PosedJob{std::nullopt, {}, least, true, work};
  std::optional<PosedJob> best;
  double least = 0;
  std::string firstError;
  for (int64_t replicas : numbers) {
    auto [rates, isNew] = traffic.ofReplicas.try_emplace(replicas);
    if (isNew)
      rates->second = getReplicatedRates(
          *devices.getView(), std::vector<double>(devices.numRanks, 1.0),
          replicas, traffic.rates);
    std::string missing;
    auto job =
        poseEqually(devices, rates->second, model, stage, globalBatch, missing);
    std::optional<Allocation> allocation;
    if (job)
      allocation = policy.solve(*job->problem, missing);
    if (!allocation) {
      if (firstError.empty())
        firstError = missing;
      continue;
    }
    if (!best || allocation->seconds < least * (1 - 1e-12)) {
      best = std::move(job);
      least = allocation->seconds;
    }
  }
  if (best)
    best->work = work;
  else
    error = firstError;
  return best;
}

std::optional<PosedJob> poplar::poseByMemory(JobDevices &devices,
                                             RankTraffic &traffic,
                                             const ModelFacts &model,
                                             const BatchPolicy &policy,
                                             int stage, int64_t globalBatch,
                                             double limit, std::string &error) {
  const ClusterView &view = *devices.getView();
  auto search = ShareSearch::make(view, model, policy, stage, globalBatch,
                                  devices.classify(), traffic, error);
  if (!search)
    return std::nullopt;
  ShareSearch::Result found = search->run(limit);
  PosedJob job = {std::nullopt, {}, found.least, found.isShown, found.work};
  if (found.state.empty()) {
    if (found.least <= limit) {
      if (shareStateByMemory(view, model, stage, error))
        error = "no sample fits beside the state on any device";
      return std::nullopt;
    }
    return job;
  }
  job.problem =
      makeBatchProblem(view, model, stage, globalBatch, found.state, error);
  job.state = std::move(found.state);
  return job;
}

std::optional<BatchProblem>
poplar::poseProblem(const ClusterView &cluster, const ModelFacts &model,
                    int stage, Sharding sharding, int64_t globalBatch,
                    std::vector<double> &state, std::string &error) {
  std::optional<PosedJob> job;
  DeviceSpace space(cluster, std::vector<bool>(cluster.types.size(), true));
  std::vector<int64_t> choice = space.all();
  JobDevices devices(cluster, space, choice);
  RankTraffic traffic(*devices.getView());
  auto exact = makePolicy("exact", error);
  if (sharding == Sharding::Equal || stage == 0) {
    job = poseEqually(devices, traffic.rates, model, stage, globalBatch, error);
  } else if (sharding == Sharding::Replicated) {
    job = poseReplicated(devices, traffic, model, *exact, stage, globalBatch,
                         std::numeric_limits<double>::infinity(), error);
  } else {
    job = poseByMemory(devices, traffic, model, *exact, stage, globalBatch,
                       std::numeric_limits<double>::infinity(), error);
  }
  if (!job)
    return std::nullopt;
  state = std::move(job->state);
  return std::move(job->problem);
}

std::vector<Recomputation>
poplar::getProfiledRecompute(const ClusterView &cluster,
                             const ModelFacts &model, int type, int stage) {
  Recomputation own = cluster.types[type].recompute;
  std::vector<Recomputation> policies = {own};
  for (Recomputation policy : listWords<RecomputePolicy>())
    if (policy != own && !cluster.types[type].isRecomputeFixed)
      policies.push_back(policy);
  auto isMissing = [&](Recomputation policy) {
    return !cluster.findProfile(type, stage, model.fingerprint, policy);
  };
  policies.erase(std::remove_if(policies.begin(), policies.end(), isMissing),
                 policies.end());
  return policies;
}
