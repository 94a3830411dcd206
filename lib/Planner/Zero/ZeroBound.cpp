//===- ZeroBound.cpp - What no plan of ZeRO takes less than ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Let r_i be the most samples per second of rank i in any micro-batch that its
// profile reaches and with any recomputation, G the global batch, and u the
// least seconds of an update. Whoever takes part,
//
//   T >= G / sum_i r_i + u: nobody is faster, and nothing hides the update.
//
// Devices of one node are at most all of that node. Devices of several nodes
// exchange over links between nodes. Of E elements that are gathered, or
// reduced, the node that holds the fewest of them receives at least half, as
// there are two; that takes E/2 elements' bytes / B with the fastest link's
// bandwidth B. Then
//
//   T >= max(G / sum_i r_i, reductions, gathers of a step)
//        + max(u, gathers of an iteration)
//
// since computation hides no more than all of the former, in one step or more,
// and the update hides no more than itself of the latter. Where shard groups
// hold replicas, only gradients need cross between nodes, once.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/ZeroBound.h"
#include "Never.h"
#include "Poplar/Planner/Model/ZeroRounds.h"
#include <algorithm>

using namespace poplar;

namespace {

/// The best that a device can do.
struct Pace {
  double samplesPerSecond = 0, updateSeconds = never;
};

class ZeroBound {
public:
  ZeroBound(const ClusterView &cluster, const ModelFacts &model,
            const PlanChoices &choices);
  double get(int stage) const;

private:
  Pace getPace(int type, int stage) const;
  /// The bound for devices of one node, and for devices of several.
  double getInside(int stage, const ClusterNode &node,
                   const std::vector<Pace> &paces) const;
  double getAcross(int stage, const std::vector<Pace> &paces) const;
  double getComputing(const std::vector<Pace> &paces,
                      const std::vector<int> &counts, int stage,
                      double &update) const;

  const ClusterView &cluster;
  const ModelFacts &model;
  const PlanChoices &choices;
  /// The greatest of any link between nodes, and the least that a parameter
  /// takes on the wire.
  double bandwidth = 0, parameterBytes = sizeof(float);
};

} // namespace

ZeroBound::ZeroBound(const ClusterView &cluster, const ModelFacts &model,
                     const PlanChoices &choices)
    : cluster(cluster), model(model), choices(choices) {
  if (cluster.defaultBetween)
    bandwidth = cluster.defaultBetween->bandwidth;
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second)
      bandwidth = std::max(bandwidth, link.bandwidth);
  for (const DeviceType &type : cluster.types)
    parameterBytes = std::min<double>(
        parameterBytes,
        getElementBytes(poplar::getExactWire(type.getWorkingFormat())));
}

Pace ZeroBound::getPace(int type, int stage) const {
  Pace pace;
  std::vector<DeviceProfile> profiles;
  for (Recomputation policy : getProfiledRecompute(cluster, model, type, stage))
    if (choices.chooseRecompute || policy == cluster.types[type].recompute)
      profiles.push_back(
          *cluster.findProfile(type, stage, model.fingerprint, policy));
  // More layers take more time.
  if (choices.chooseRecompute && !cluster.types[type].isRecomputeFixed &&
      static_cast<size_t>(type) < choices.layers.size())
    for (const RecomputedLayers &own : choices.layers[type]) {
      const DeviceProfile *keep = cluster.findProfile(type, stage,
                                                      model.fingerprint,
                                                      RecomputePolicy::Keep),
                          *all = cluster.findProfile(
                              type, stage, model.fingerprint, own.policy);
      if (!keep || !all || own.layers.empty())
        continue;
      if (std::optional<DeviceProfile> profile = own.derive(*keep, *all, 1))
        profiles.push_back(std::move(*profile));
    }
  for (const DeviceProfile &profile : profiles) {
    std::string error;
    std::optional<Curve> curve = profile.fitCurve(error);
    if (!curve)
      continue;
    int64_t largest = std::min(
        curve->largest(), profile.maxMicroBatch.value_or(curve->largest()));
    if (int64_t peak = curve->peak(largest))
      pace.samplesPerSecond =
          std::max(pace.samplesPerSecond, curve->throughput(peak));
    pace.updateSeconds =
        std::min(pace.updateSeconds, profile.optimizerSeconds.value_or(0));
  }
  return pace;
}

/// Seconds in which so many devices of each type compute all samples; `update`
/// is what their update takes.
double ZeroBound::getComputing(const std::vector<Pace> &paces,
                               const std::vector<int> &counts, int stage,
                               double &update) const {
  double rate = 0;
  int ranks = 0;
  update = never;
  for (size_t type = 0; type < paces.size(); ++type) {
    if (counts[type] == 0)
      continue;
    ranks += counts[type];
    rate += counts[type] * paces[type].samplesPerSecond;
    update = std::min(update, paces[type].updateSeconds);
  }
  if (rate == 0)
    return never;
  // Some rank holds no less than its part.
  if (stage > 0)
    update /= ranks;
  return static_cast<double>(choices.globalBatch) / rate;
}

double ZeroBound::getInside(int stage, const ClusterNode &node,
                            const std::vector<Pace> &paces) const {
  std::vector<int> counts(paces.size());
  for (int i = node.firstRank; i < node.firstRank + node.numRanks; ++i)
    ++counts[cluster.ranks[i].type];
  double update = 0;
  double computing = getComputing(paces, counts, stage, update);
  return computing + update;
}

double ZeroBound::getAcross(int stage, const std::vector<Pace> &paces) const {
  std::vector<int> counts = cluster.countRanks();
  double update = 0;
  double computing = getComputing(paces, counts, stage, update);
  auto getHalf = [&](double elements, double bytes) {
    return elements * bytes / 2 / bandwidth;
  };
  ZeroRounds rounds = ZeroRounds::of(stage);
  auto trained = static_cast<double>(model.parameters.trained);
  double hidden = 0;
  if (rounds.reductions)
    hidden += getHalf(rounds.reductions * trained, gradientWireBytes);
  if (rounds.stepReductions)
    hidden +=
        getHalf(static_cast<double>(model.reduced.elements), gradientWireBytes);
  if (rounds.gathersForward)
    hidden += getHalf(static_cast<double>(model.gatheredForward.elements),
                      parameterBytes);
  if (rounds.gathersBackward)
    hidden += getHalf(static_cast<double>(model.gatheredBackward.elements),
                      parameterBytes);
  double gathers =
      rounds.parameterGathers ? getHalf(trained, parameterBytes) : 0;
  // Shard groups may each be inside of a node.
  if (stage > 0 && std::count(choices.shardings.begin(),
                              choices.shardings.end(), Sharding::Replicated)) {
    hidden = std::min(hidden, getHalf(trained, gradientWireBytes));
    gathers = 0;
  }
  return std::max(computing, hidden) + std::max(update, gathers);
}

double ZeroBound::get(int stage) const {
  std::vector<Pace> paces;
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type)
    paces.push_back(counts[type] > 0 ? getPace(static_cast<int>(type), stage)
                                     : Pace());
  double least = never;
  for (const ClusterNode &node : cluster.nodes)
    if (node.numRanks > 0)
      least = std::min(least, getInside(stage, node, paces));
  return cluster.nodes.size() > 1 ? std::min(least, getAcross(stage, paces))
                                  : least;
}

double poplar::findZeroBound(const ClusterView &cluster,
                             const ModelFacts &model,
                             const PlanChoices &choices) {
  ZeroBound bound(cluster, model, choices);
  double least = never;
  for (int stage : choices.stages)
    least = std::min(least, bound.get(stage));
  // Sums in another order are rounded differently.
  return least * (1 - 1e-9);
}
