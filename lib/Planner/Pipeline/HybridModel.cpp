//===- HybridModel.cpp - The hybrid problem of a cluster ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "Cluster/Sites.h"
#include "Poplar/Planner/Cluster/Buildable.h"
#include "Poplar/Planner/Cluster/Links.h"
#include "Poplar/Planner/Model/UnitTimes.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Zero/PlanSearch.h"
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

using namespace poplar;

/// Pairs of device types and sites: more make the search long.
static constexpr size_t mostKinds = 4;

int64_t HybridModel::countElements() const {
  int64_t trained =
      std::accumulate(elements.begin(), elements.end(), -tiedElements);
  return std::accumulate(frozenElements.begin(), frozenElements.end(),
                         trained - tiedFrozenElements);
}

//===----------------------------------------------------------------------===//
// Devices and links
//===----------------------------------------------------------------------===//

namespace {

/// Where the devices of a type of the problem are.
struct TypePlaces {
  int64_t perNode = 0;
  std::vector<int> nodes;
};

class HybridProblemBuilder {
public:
  HybridProblemBuilder(const ClusterView &cluster, const HybridModel &model)
      : cluster(cluster), model(model) {}
  bool build(int64_t globalBatch, const std::vector<int> &sites);
  std::string error;
  HybridProblem problem;
  std::vector<HybridCluster::Devices> devices;

private:
  void findPlaces(const std::vector<int> &sites);
  bool addType(size_t kind);
  HybridProblem::Link getLink(size_t type, size_t otherType) const;
  bool addModes(HybridProblem::DeviceType &type, int index);

  const ClusterView &cluster;
  const HybridModel &model;
  /// Parallel to `devices`.
  std::vector<TypePlaces> places;
};

} // namespace

/// Devices of one type at one site are a type of the problem.
void HybridProblemBuilder::findPlaces(const std::vector<int> &sites) {
  std::map<std::pair<int, int>, size_t> kinds;
  for (const ClusterRank &rank : cluster.ranks)
    kinds[{rank.type, sites[rank.node]}] = 0;
  for (auto &[key, kind] : kinds) {
    kind = devices.size();
    devices.push_back({key.first, {}});
  }
  places.resize(kinds.size());
  for (size_t node = 0; node < cluster.nodes.size(); ++node) {
    std::vector<int64_t> counts(kinds.size());
    const ClusterNode &it = cluster.nodes[node];
    for (int rank = it.firstRank; rank < it.firstRank + it.numRanks; ++rank) {
      size_t kind = kinds[{cluster.ranks[rank].type, sites[node]}];
      devices[kind].ranks.push_back(rank);
      ++counts[kind];
    }
    for (size_t kind = 0; kind < counts.size(); ++kind)
      if (counts[kind]) {
        places[kind].nodes.push_back(static_cast<int>(node));
        // Nodes with more devices count as several.
        places[kind].perNode = std::gcd(places[kind].perNode, counts[kind]);
      }
  }
}

/// `speed` has no bandwidth before the first link.
static void takeSlower(LinkSpeed &speed, std::optional<LinkSpeed> link) {
  if (link)
    speed = speed.bandwidth > 0 ? poplar::takeSlower(speed, *link) : *link;
}

/// The slowest there is between nodes of the two types; inside the node, if all
/// are in one.
HybridProblem::Link HybridProblemBuilder::getLink(size_t type,
                                                  size_t otherType) const {
  HybridProblem::Link slowest{{0, 0}, true};
  for (int node : places[type].nodes)
    for (int other : places[otherType].nodes) {
      if (node == other)
        continue;
      for (std::optional<LinkSpeed> link :
           {cluster.findLink(node, other), cluster.findLink(other, node)})
        takeSlower(slowest.speed, link);
    }
  if (slowest.speed.bandwidth > 0)
    return slowest;
  int node = places[type].nodes.front();
  std::optional<LinkSpeed> inside = cluster.findLink(node, node);
  // A device that is alone sends nothing.
  return {
      inside.value_or(LinkSpeed{0, std::numeric_limits<double>::infinity()}),
      false};
}

bool HybridProblemBuilder::addModes(HybridProblem::DeviceType &type,
                                    int index) {
  std::optional<UnitTimes> times = UnitTimes::get(cluster, model, index, error);
  if (!times)
    return false;
  type.optimizerSeconds = times->getOptimizerSeconds();
  for (int64_t microBatch : hybridMicroBatches)
    for (const HybridModel::Variant &variant : model.variants[index]) {
      if (type.perNode % variant.tensorDegree != 0)
        continue;
      auto units = times->getCosts(variant, microBatch, type.inside);
      if (!units.empty())
        type.modes.push_back({variant.tensorDegree, microBatch,
                              variant.recompute, std::move(units)});
    }
  if (type.modes.empty())
    error = "device type '" + type.name +
            "' has a profile without a micro-batch of 1";
  return !type.modes.empty();
}

bool HybridProblemBuilder::addType(size_t kind) {
  int index = devices[kind].type;
  const DeviceType &from = cluster.types[index];
  HybridProblem::DeviceType type;
  type.name = from.name;
  for (size_t other = 0; other < devices.size(); ++other)
    if (other != kind && devices[other].type == index)
      type.name =
          from.name + " at " + cluster.nodes[places[kind].nodes.front()].name;
  type.count = static_cast<int64_t>(devices[kind].ranks.size());
  type.perNode = places[kind].perNode;
  type.memory = from.memory;
  for (const HybridModel::Variant &variant : model.variants[index]) {
    type.scratchBytes = std::max(type.scratchBytes, variant.scratchBytes);
    problem.boundaryBytes =
        std::max(problem.boundaryBytes, variant.boundaryBytes);
  }
  type.library = getCollectiveLibrary(from.target);
  type.format = getStorageFormat(from.precision);
  type.state = StateFormat::of(from.getWorkingFormat());
  while (type.mostSharers < model.mostTensorDegree &&
         explainUnbuildableStage(from, type.mostSharers + 1).empty())
    ++type.mostSharers;
  for (int node : places[kind].nodes)
    takeSlower(type.inside, cluster.findLink(node, node));
  if (!addModes(type, index))
    return false;
  problem.types.push_back(std::move(type));
  return true;
}

/// Of a sample between two units; where formats differ, the longest.
static double getMessageBytes(const HybridModel &model) {
  int64_t bytes = 0;
  for (const std::vector<HybridModel::Variant> &variants : model.variants)
    for (const HybridModel::Variant &variant : variants)
      bytes = std::max(bytes, variant.boundaryBytes);
  return static_cast<double>(bytes);
}

bool HybridProblemBuilder::build(int64_t globalBatch,
                                 const std::vector<int> &sites) {
  findPlaces(sites);
  std::string wire;
  for (size_t kind = 0; kind < devices.size(); ++kind) {
    if (!addType(kind))
      return false;
    std::string format = cluster.types[devices[kind].type].getWorkingFormat();
    wire = kind == 0 ? format : joinWireFormats(wire, format);
  }
  for (size_t kind = 0; kind < devices.size(); ++kind)
    for (size_t other = 0; other < devices.size(); ++other)
      problem.links.push_back(getLink(kind, other));
  problem.elements = model.elements;
  problem.tiedElements = model.tiedElements;
  problem.sharedElements = model.sharedElements;
  problem.frozenElements = model.frozenElements;
  problem.tiedFrozenElements = model.tiedFrozenElements;
  problem.largestBucket = model.largestBucket;
  problem.largestFrozenBucket = model.largestFrozenBucket;
  problem.wholeStep = model.wholeStep;
  problem.gradientBytes = gradientWireBytes;
  problem.parameterBytes = getWireBytes(wire);
  problem.globalBatch = globalBatch;
  error = problem.check();
  return error.empty();
}

std::vector<int> HybridCluster::findTypes(int clusterType) const {
  std::vector<int> types;
  for (size_t type = 0; type < devices.size(); ++type)
    if (devices[type].type == clusterType)
      types.push_back(static_cast<int>(type));
  return types;
}

std::vector<HybridCluster> poplar::makeHybridProblems(const ClusterView &given,
                                                      const HybridModel &model,
                                                      int64_t globalBatch,
                                                      std::string &error) {
  ClusterView cluster = given;
  mergeAlikeTypes(cluster);
  std::vector<HybridCluster> problems;
  for (const std::vector<int> &sites :
       findSites(cluster, getMessageBytes(model), mostKinds)) {
    HybridProblemBuilder builder(cluster, model);
    if (!builder.build(globalBatch, sites)) {
      error = builder.error;
      return {};
    }
    problems.push_back(
        {std::move(builder.problem), std::move(builder.devices)});
  }
  return problems;
}
