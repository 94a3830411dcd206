//===- ZeroProblem.cpp - The batch problem of a cluster -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/ZeroProblem.h"
#include "Poplar/Planner/ShardBounds.h"
#include "Poplar/Planner/StateBytes.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

static constexpr int64_t gradientBytes = 4;

/// Bytes of a parameter on the wire: of the format of all types in the job, or
/// of f32 where they differ.
static int64_t getWireBytes(const ClusterView &cluster) {
  const std::string first =
      cluster.types[cluster.ranks.front().type].getWorkingFormat();
  for (const ClusterRank &rank : cluster.ranks)
    if (cluster.types[rank.type].getWorkingFormat() != first)
      return 4;
  return first == "f32" ? 4 : 2;
}

/// What a stage keeps in memory for the time of a unit only: a micro-step's
/// gradients, and in stage 3 gathered parameters; of each, what is in use and
/// what is under way, at most as much as a step has. It reduces every bucket
/// once and gathers it twice.
static int64_t getTransientBytes(const ModelFacts &model,
                                 const StateFormat &format, int stage) {
  int64_t alive = 1 + model.overlapDepth,
          gradients = stage >= 2 ? std::min(alive, model.buckets) : 0,
          gathered = stage == 3 ? std::min(alive, 2 * model.buckets) : 0;
  return model.largestBucket *
         (gradients * gradientBytes + gathered * format.parameter);
}

namespace {
/// Seconds of the collectives of an iteration, and of a step.
struct SyncSeconds {
  double iteration = 0, step = 0;
};
} // namespace

static SyncSeconds estimateSync(const ClusterView &cluster,
                                const ModelFacts &model, int stage) {
  SyncSeconds sync;
  int ranks = static_cast<int>(cluster.ranks.size());
  if (ranks < 2)
    return sync;
  double latency = 0, bandwidth = HUGE_VAL;
  for (int rank = 0; rank < ranks; ++rank) {
    LinkSpeed link = cluster.getLink(rank, (rank + 1) % ranks);
    latency = std::max(latency, link.latency);
    bandwidth = std::min(bandwidth, link.bandwidth);
  }
  // All-gather or reduce-scatter of all buckets.
  auto ring = [&](int64_t bytesPerElement) {
    double bytes = double(model.elements) * double(bytesPerElement);
    return bytes * (ranks - 1) / ranks / bandwidth +
           latency * (ranks - 1) * double(model.buckets);
  };
  double gradients = ring(gradientBytes),
         parameters = ring(getWireBytes(cluster));
  switch (stage) {
  case 0:
    sync.iteration = gradients + ring(gradientBytes);
    break;
  case 1:
    sync.iteration = gradients + parameters;
    break;
  case 2:
    sync.iteration = parameters;
    sync.step = gradients;
    break;
  default:
    sync.step = 2 * parameters + gradients;
  }
  return sync;
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
            "; make one with: poplar profile --device-type " +
            cluster.types[type].name + " --zero " + std::to_string(stage) +
            "; or give its flops and bandwidth in the cluster file, or its "
            "device, for an estimate";
  return profile;
}

int64_t poplar::getFixedBytes(const DeviceProfile &profile,
                              const DeviceType &type, const ModelFacts &model,
                              int stage, double share) {
  StateFormat format = StateFormat::of(type.getWorkingFormat());
  double sharded = double(format.sharded(stage)) * double(model.elements);
  return profile.memory->fixed - std::llround(sharded * (1 - share)) +
         getTransientBytes(model, format, stage);
}

std::optional<BatchProblem>
poplar::makeBatchProblem(const ClusterView &cluster, const ModelFacts &model,
                         int stage, int64_t globalBatch,
                         const std::vector<double> &state, std::string &error) {
  BatchProblem problem;
  problem.globalBatch = globalBatch;
  problem.zeroStage = stage;
  SyncSeconds sync = estimateSync(cluster, model, stage);
  problem.iterationSync = sync.iteration;
  problem.stepSync = sync.step;

  double total = 0, slowestUpdate = 0;
  for (double share : state)
    total += share;
  std::vector<int> counts = cluster.countRanks();
  for (int type = 0; type < static_cast<int>(counts.size()); ++type) {
    const DeviceType &device = cluster.types[type];
    BatchProblem::DeviceType entry;
    entry.name = device.name;
    entry.count = counts[type];
    // Whale goes by single precision; other rates stand in for it.
    auto flops = device.flops.find("f32");
    if (flops == device.flops.end())
      flops = device.flops.find(device.precision);
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
      // The rank of the type with the most state decides.
      double share = 0;
      for (size_t rank = 0; rank < cluster.ranks.size(); ++rank)
        if (cluster.ranks[rank].type == type)
          share = std::max(share, state[rank] / total);
      if (profile->memory) {
        entry.fixedBytes = getFixedBytes(*profile, device, model, stage, share);
        entry.bytesPerSample = profile->memory->perSample;
        int64_t free = std::max<int64_t>(device.memory - entry.fixedBytes, 0);
        if (entry.bytesPerSample > 0)
          entry.largestBatch =
              std::min(entry.largestBatch, free / entry.bytesPerSample);
      }
      if (profile->optimizerSeconds)
        slowestUpdate = std::max(slowestUpdate, *profile->optimizerSeconds *
                                                    (stage ? share : 1));
    }
    problem.types.push_back(std::move(entry));
  }
  problem.iterationSync += slowestUpdate;
  error = problem.check();
  if (!error.empty())
    return std::nullopt;
  return problem;
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
    if (!profile->memory) {
      error = "profile of '" + type.name +
              "' says nothing of memory, by which the state is to be shared";
      return std::nullopt;
    }
    free.push_back(type.memory -
                   getFixedBytes(*profile, type, model, stage, 0) -
                   profile->memory->perSample);
    width = std::max(width,
                     StateFormat::of(type.getWorkingFormat()).sharded(stage));
  }
  std::optional<ShardBounds> bounds =
      shardByFreeMemory(model.elements, free, width, error);
  if (!bounds)
    return std::nullopt;
  std::vector<double> shares;
  for (int64_t rank = 0; rank < bounds->ranks(); ++rank)
    shares.push_back(double(bounds->length(rank)) / double(model.elements));
  return shares;
}
