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
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Cluster/Links.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Pipeline/UnitTimes.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

using namespace poplar;

/// Pairs of device types and sites: more make the search long.
static constexpr size_t mostKinds = 4;
/// How finely the parts of a team follow the speeds of its devices.
static constexpr double partsOfSlowest = 10;

//===----------------------------------------------------------------------===//
// Teams
//===----------------------------------------------------------------------===//

static std::map<int, int64_t> countTypes(const ClusterView &cluster,
                                         const ClusterNode &node) {
  std::map<int, int64_t> counts;
  for (int rank = node.firstRank; rank < node.firstRank + node.numRanks; ++rank)
    ++counts[cluster.ranks[rank].type];
  return counts;
}

static DeviceTeam findTeam(const ClusterView &cluster,
                           const ClusterNode &node) {
  std::map<int, int64_t> counts = countTypes(cluster, node);
  int64_t teams = 0;
  for (auto [type, count] : counts)
    teams = std::gcd(teams, count);
  DeviceTeam team;
  for (auto [type, count] : counts)
    team.insert(team.end(), count / teams, type);
  return team;
}

static bool canShare(const ClusterView &cluster, const DeviceTeam &team) {
  const DeviceType &first = cluster.types[team.front()];
  return std::all_of(team.begin(), team.end(), [&](int index) {
    const DeviceType &type = cluster.types[index];
    return explainUnlikeSharers(first, type).empty() &&
           type.getWorkingFormat() == first.getWorkingFormat() &&
           explainUnbuildableStage(type, static_cast<int>(team.size())).empty();
  });
}

DeviceTeam poplar::findTeam(const ClusterView &cluster) {
  DeviceTeam found;
  for (const ClusterNode &node : cluster.nodes) {
    if (countTypes(cluster, node).size() < 2)
      continue;
    DeviceTeam team = ::findTeam(cluster, node);
    if (!canShare(cluster, team) || (!found.empty() && team != found))
      return {};
    found = std::move(team);
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Devices and links
//===----------------------------------------------------------------------===//

namespace {

/// Where the devices of a type of the problem are.
struct TypePlaces {
  int64_t perNode = 0, mostInNode = 0;
  std::vector<int> nodes;
};

class HybridProblemBuilder {
public:
  /// Unlike devices of a node are of `team`, if it is not empty. If devices may
  /// be left over, those that share units need not be all of a node.
  HybridProblemBuilder(const ClusterView &cluster, const HybridModel &model,
                       DeviceTeam team = {}, bool mayBeLeft = false)
      : cluster(cluster), model(model), team(std::move(team)),
        mayBeLeft(mayBeLeft) {}
  bool build(int64_t globalBatch, const std::vector<int> &sites);
  std::string error;
  HybridProblem problem;
  std::vector<HybridCluster::Devices> devices;

private:
  void findPlaces(const std::vector<int> &sites);
  void arrangeTeams();
  bool addType(size_t kind);
  bool takeTimes(const std::vector<int> &members,
                 std::vector<UnitTimes> &times);
  HybridProblem::Link getLink(size_t type, size_t otherType) const;
  bool mayRecompute(int type, RecomputePolicy recompute) const {
    const DeviceType &own = cluster.types[type];
    return !own.isRecomputeFixed || own.recompute == recompute;
  }
  bool canShare(size_t kind, int degree) const {
    return mayBeLeft ? degree <= places[kind].mostInNode
                     : places[kind].perNode % degree == 0;
  }
  bool addModes(HybridProblem::DeviceType &type, size_t kind);
  bool addTeamModes(HybridProblem::DeviceType &type);
  void divideByMemory(HybridProblem::DeviceType &type) const;
  /// The share of a device of the team.
  double getShare(const HybridProblem::DeviceType &type, size_t member) const {
    return static_cast<double>(type.parts[member]) /
           static_cast<double>(std::accumulate(type.parts.begin(),
                                               type.parts.end(), int64_t(0)));
  }

  const ClusterView &cluster;
  const HybridModel &model;
  DeviceTeam team;
  bool mayBeLeft;
  /// Parallel to `devices`. The team is the first of them.
  std::vector<TypePlaces> places;
};

} // namespace

/// Devices of one type at one site are a type of the problem, and so are all of
/// a team.
void HybridProblemBuilder::findPlaces(const std::vector<int> &sites) {
  std::map<std::pair<int, int>, size_t> kinds;
  auto getKey = [&](const ClusterRank &rank) {
    bool isOfTeam = !team.empty() &&
                    countTypes(cluster, cluster.nodes[rank.node]).size() > 1;
    return isOfTeam ? std::pair(-1, 0) : std::pair(rank.type, sites[rank.node]);
  };
  for (const ClusterRank &rank : cluster.ranks)
    kinds[getKey(rank)] = 0;
  for (auto &[key, kind] : kinds) {
    kind = devices.size();
    devices.push_back({key.first < 0 ? team.front() : key.first, {}});
  }
  places.resize(kinds.size());
  for (size_t node = 0; node < cluster.nodes.size(); ++node) {
    std::vector<int64_t> counts(kinds.size());
    const ClusterNode &it = cluster.nodes[node];
    for (int rank = it.firstRank; rank < it.firstRank + it.numRanks; ++rank) {
      size_t kind = kinds[getKey(cluster.ranks[rank])];
      devices[kind].ranks.push_back(rank);
      ++counts[kind];
    }
    for (size_t kind = 0; kind < counts.size(); ++kind)
      if (counts[kind]) {
        places[kind].nodes.push_back(static_cast<int>(node));
        // Nodes with more devices count as several.
        places[kind].perNode = std::gcd(places[kind].perNode, counts[kind]);
        places[kind].mostInNode =
            std::max(places[kind].mostInNode, counts[kind]);
      }
  }
  if (!team.empty())
    arrangeTeams();
}

/// One team after the other, each in one node.
void HybridProblemBuilder::arrangeTeams() {
  std::map<std::pair<int, int>, std::vector<int>> left;
  for (int rank : devices.front().ranks)
    left[{cluster.ranks[rank].node, cluster.ranks[rank].type}].push_back(rank);
  [[maybe_unused]] size_t count = devices.front().ranks.size();
  std::vector<int> arranged;
  for (int node : places.front().nodes)
    while (!left[{node, team.front()}].empty())
      for (int type : team) {
        std::vector<int> &ranks = left[{node, type}];
        arranged.push_back(ranks.front());
        ranks.erase(ranks.begin());
      }
  assert(arranged.size() == count && "nodes are of whole teams");
  devices.front().ranks = std::move(arranged);
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
  const std::vector<int> &own = places[type].nodes,
                         &others = places[otherType].nodes;
  auto has = [](const std::vector<int> &nodes, int node) {
    return std::binary_search(nodes.begin(), nodes.end(), node);
  };
  HybridProblem::Link slowest{{0, 0}, true};
  // Ordered pairs of nodes that have a link of their own: the rest, if there is
  // one, has the default.
  size_t pairs = 0, common = 0;
  for (const auto &[ends, link] : cluster.links) {
    auto [from, to] = ends;
    bool there = has(own, from) && has(others, to),
         back = has(others, from) && has(own, to);
    if (from == to || !(there || back))
      continue;
    pairs += there + back;
    takeSlower(slowest.speed, std::optional(link));
  }
  for (int node : own)
    common += has(others, node);
  if (pairs < 2 * (own.size() * others.size() - common))
    takeSlower(slowest.speed, cluster.defaultBetween);
  if (slowest.speed.bandwidth > 0)
    return slowest;
  std::optional<LinkSpeed> inside = cluster.findLink(own.front(), own.front());
  // A device that is alone sends nothing.
  return {
      inside.value_or(LinkSpeed{0, std::numeric_limits<double>::infinity()}),
      false};
}

bool HybridProblemBuilder::addModes(HybridProblem::DeviceType &type,
                                    size_t kind) {
  int index = devices[kind].type;
  if (const DeviceType &own = cluster.types[index];
      own.isRecomputeFixed && own.recompute.isPartial()) {
    error =
        "device type '" + own.name + "' is set to " + toString(own.recompute) +
        ", and pipeline stages recompute in all of their layers or in none: "
        "set it to " +
        toString(own.recompute.policy);
    return false;
  }
  std::optional<UnitTimes> times = UnitTimes::get(cluster, model, index, error);
  if (!times)
    return false;
  type.optimizerSeconds = times->getOptimizerSeconds();
  for (int64_t microBatch : hybridMicroBatches)
    for (const HybridModel::Variant &variant : model.variants[index]) {
      if (!canShare(kind, variant.tensorDegree) ||
          !mayRecompute(index, variant.recompute))
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

static const HybridModel::Variant *
findVariant(const std::vector<HybridModel::Variant> &variants,
            RecomputePolicy recompute, size_t degree) {
  for (const HybridModel::Variant &variant : variants)
    if (variant.recompute == recompute &&
        variant.tensorDegree == static_cast<int>(degree))
      return &variant;
  return nullptr;
}

bool HybridProblemBuilder::takeTimes(const std::vector<int> &members,
                                     std::vector<UnitTimes> &times) {
  for (int member : members) {
    std::optional<UnitTimes> own =
        UnitTimes::get(cluster, model, member, error);
    if (!own)
      return false;
    times.push_back(std::move(*own));
  }
  return true;
}

/// Each device of the team computes as much of a unit as suits its speed; the
/// slowest of them counts, and what all of them exchange.
bool HybridProblemBuilder::addTeamModes(HybridProblem::DeviceType &type) {
  std::vector<UnitTimes> times;
  if (!takeTimes(team, times))
    return false;
  std::vector<double> speeds;
  for (size_t i = 0; i < team.size(); ++i) {
    double seconds = 0;
    for (const HybridProblem::UnitCost &unit :
         times[i].getCosts(model.variants[team[i]].front(), 1))
      seconds += unit.forward + unit.backward;
    speeds.push_back(1 / seconds);
    type.optimizerSeconds =
        std::max(type.optimizerSeconds, times[i].getOptimizerSeconds());
  }
  double slowest = *std::min_element(speeds.begin(), speeds.end());
  int64_t common = 0;
  for (double speed : speeds) {
    type.parts.push_back(std::lround(partsOfSlowest * speed / slowest));
    common = std::gcd(common, type.parts.back());
  }
  for (int64_t &part : type.parts)
    part /= common;
  size_t size = team.size();
  for (int64_t microBatch : hybridMicroBatches)
    for (const HybridModel::Variant &first : model.variants[team.front()]) {
      if (first.tensorDegree != static_cast<int>(size) ||
          !std::all_of(team.begin(), team.end(), [&](int member) {
            return mayRecompute(member, first.recompute);
          }))
        continue;
      HybridProblem::Mode mode{
          static_cast<int>(size), microBatch, first.recompute,
          times.front().getCosts(first, microBatch, type.inside)};
      auto even = times.front().getShareOfCosts(first, microBatch, 1);
      // Devices may have been measured up to unlike micro-batches.
      bool isMeasured = !mode.units.empty() && !even.empty();
      std::vector<double> forward(even.size()), backward(even.size());
      for (size_t i = 0; i < size && isMeasured; ++i) {
        const HybridModel::Variant *own =
            findVariant(model.variants[team[i]], first.recompute, size);
        if (!own)
          return false;
        auto costs = times[i].getShareOfCosts(
            *own, microBatch, getShare(type, i) * static_cast<double>(size));
        isMeasured = !costs.empty();
        for (size_t unit = 0; unit < costs.size(); ++unit) {
          forward[unit] = std::max(forward[unit], costs[unit].forward);
          backward[unit] = std::max(backward[unit], costs[unit].backward);
        }
      }
      if (!isMeasured)
        continue;
      for (size_t unit = 0; unit < even.size(); ++unit) {
        mode.units[unit].forward += forward[unit] - even[unit].forward;
        mode.units[unit].backward += backward[unit] - even[unit].backward;
      }
      type.modes.push_back(std::move(mode));
    }
  return true;
}

/// As if each device of the team had an even part: what is left for that on the
/// device that fills up first. Parts are rounded to whole heads.
void HybridProblemBuilder::divideByMemory(
    HybridProblem::DeviceType &type) const {
  auto size = static_cast<double>(team.size());
  double heads = model.mostTensorDegree, least = -1;
  for (size_t i = 0; i < team.size(); ++i) {
    int64_t scratch = 0;
    for (const HybridModel::Variant &variant : model.variants[team[i]])
      scratch = std::max(scratch, variant.scratchBytes);
    type.scratchBytes = std::max(type.scratchBytes, scratch);
    double share = std::ceil(getShare(type, i) * heads) / heads;
    double room = static_cast<double>(cluster.types[team[i]].memory - scratch) /
                  (share * size);
    least = least < 0 ? room : std::min(least, room);
  }
  type.memory = type.scratchBytes + static_cast<int64_t>(std::max(least, 0.0));
}

bool HybridProblemBuilder::addType(size_t kind) {
  int index = devices[kind].type;
  const DeviceType &from = cluster.types[index];
  bool isTeam = kind == 0 && !team.empty();
  HybridProblem::DeviceType type;
  type.name = from.name;
  for (size_t i = 1; isTeam && i < team.size(); ++i)
    type.name += "+" + cluster.types[team[i]].name;
  for (size_t other = 0; other < devices.size(); ++other)
    if (team.empty() && other != kind && devices[other].type == index)
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
  for (int member : isTeam ? team : DeviceTeam())
    if (getCollectiveLibrary(cluster.types[member].target) != type.library)
      type.library = CollectiveLibrary::None;
  type.format = getStorageFormat(from.precision);
  type.state = StateFormat::of(from.getWorkingFormat());
  while (type.mostSharers < model.mostTensorDegree &&
         explainUnsharable(from, type.mostSharers + 1).empty())
    ++type.mostSharers;
  for (int node : places[kind].nodes)
    takeSlower(type.inside, cluster.findLink(node, node));
  if (isTeam) {
    type.mostSharers = static_cast<int>(team.size());
    if (!addTeamModes(type))
      return false;
    divideByMemory(type);
  } else if (!addModes(type, kind)) {
    return false;
  }
  problem.types.push_back(std::move(type));
  return true;
}

/// Bytes of a sample between two units; where formats differ, the most.
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
  NumberFormat wire = NumberFormat::F32;
  for (size_t kind = 0; kind < devices.size(); ++kind) {
    if (!addType(kind))
      return false;
    NumberFormat format = cluster.types[devices[kind].type].getWorkingFormat();
    wire = kind == 0 ? format : joinWireFormats(wire, format);
  }
  for (size_t kind = 0; kind < devices.size(); ++kind)
    for (size_t other = 0; other < devices.size(); ++other)
      problem.links.push_back(getLink(kind, other));
  static_cast<UnitParameters &>(problem) = model;
  problem.gradientBytes = gradientWireBytes;
  if (cluster.wires.gradients)
    problem.roundedGradientBytes = getElementBytes(*cluster.wires.gradients);
  problem.parameterBytes = getStorageBytes(wire);
  if (cluster.wires.parameters)
    problem.roundedParameterBytes = getElementBytes(*cluster.wires.parameters);
  for (auto [elements, quantizedBytes] :
       {std::pair(&problem.wholeStep.gatheredForward, model.quantizedForward),
        std::pair(&problem.wholeStep.gatheredBackward,
                  model.quantizedBackward)}) {
    ParameterElements quantized;
    quantized.quantizedBytes = quantizedBytes;
    *elements += quantized.countWireElements(problem.getParameterBytes());
  }
  problem.globalBatch = globalBatch;
  // A hybrid plan leaves no devices of a node over.
  error = mayBeLeft ? "" : problem.check();
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
  DeviceTeam team = findTeam(cluster);
  if (static_cast<int>(team.size()) > std::max(model.mostTensorDegree, 1))
    team.clear();
  if (!team.empty()) {
    HybridProblemBuilder builder(cluster, model, team);
    // What is known of the model may not tell of as many devices.
    if (builder.build(globalBatch, std::vector<int>(cluster.nodes.size(), 0)))
      problems.push_back(
          {std::move(builder.problem), std::move(builder.devices)});
  }
  return problems;
}

std::optional<HybridCluster> poplar::makeGeoSource(const ClusterView &given,
                                                   const HybridModel &model,
                                                   int64_t globalBatch,
                                                   std::string &error) {
  ClusterView cluster = given;
  mergeAlikeTypes(cluster);
  HybridProblemBuilder builder(cluster, model, {}, /*mayBeLeft=*/true);
  if (!builder.build(globalBatch, std::vector<int>(cluster.nodes.size(), 0))) {
    error = builder.error;
    return std::nullopt;
  }
  return HybridCluster{std::move(builder.problem), std::move(builder.devices)};
}
