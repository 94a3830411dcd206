//===- RankClasses.cpp - Ranks that do the same ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankClasses.h"
#include "llvm/ADT/StringMap.h"
#include <numeric>
#include <set>
#include <tuple>

using namespace mlir;
using namespace poplar;

LogicalResult RankClasses::placeRanks() {
  llvm::StringMap<int> indices;
  for (auto [index, node] : llvm::enumerate(cluster.nodes))
    indices[node.name] = static_cast<int>(index);
  for (auto [index, rank] : llvm::enumerate(plan.ranks)) {
    auto node = indices.find(rank.node);
    if (node == indices.end())
      return where(index) << "is on node '" << rank.node
                          << "', which is not a cluster.node";
    if (!cluster.findType(rank.type))
      return where(index) << "is of device type '" << rank.type
                          << "', which the cluster lacks";
    nodes.push_back(node->second);
  }
  for (size_t group = 0; group < plan.groups.size(); ++group)
    members.push_back(plan.getPipelinesOf(group));
  places = plan.getPlaces();
  return success();
}

//===----------------------------------------------------------------------===//
// Classes and channels
//===----------------------------------------------------------------------===//

LogicalResult RankClasses::form(PlanSimulation &simulation) {
  result = &simulation;
  if (failed(placeRanks()))
    return failure();
  using Rank =
      std::tuple<int64_t, StringRef, int64_t, int64_t, int64_t, double>;
  using Hop = std::tuple<bool, double, double, double>;
  std::map<std::pair<std::vector<Rank>, std::vector<Hop>>, size_t> known;
  bool isCustom = plan.schedule == PlanSchedule::Custom;
  size_t groups = plan.groups.size();
  for (size_t pipeline = 0; pipeline < members.front().size(); ++pipeline) {
    std::pair<std::vector<Rank>, std::vector<Hop>> key;
    auto addHop = [&](int64_t from, int64_t to) {
      LinkSpeed link = findLink(from, to);
      key.second.emplace_back(nodes[from] == nodes[to], link.latency,
                              link.bandwidth, link.overhead);
    };
    for (size_t group = 0; group < groups; ++group)
      for (int64_t index : members[group][pipeline]) {
        const Plan::Rank &rank = plan.ranks[index];
        const RankShare &share = rank.share;
        key.first.emplace_back(rank.group, rank.type, share.microBatch,
                               share.steps, share.last, rank.state);
        if (int64_t first = members[group][pipeline].front(); first != index)
          addHop(first, index);
        // From the last group goes what comes to the next chunk of the first.
        if (groups == 1 || (group == 0 && plan.getNumChunks() == 1))
          continue;
        size_t before = (group + groups - 1) % groups;
        for (int64_t other : members[before][pipeline])
          addHop(other, index);
      }
    auto [entry, isNew] = known.try_emplace(std::move(key), list.size());
    if (isNew || isCustom) {
      entry->second = list.size();
      addPipeline(pipeline);
    }
    size_t index = entry->second;
    for (size_t group = 0; group < groups; ++group)
      for (int64_t rank : members[group][pipeline])
        result->classes[index++].ranks.push_back(rank);
  }
  return success();
}

void RankClasses::addPipeline(size_t pipeline) {
  size_t first = list.size();
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    ArrayRef<int64_t> own = members[group][pipeline];
    std::vector<size_t> sharers(own.size());
    std::iota(sharers.begin(), sharers.end(), list.size());
    for (int64_t index : own) {
      const Plan::Rank &rank = plan.ranks[index];
      result->classes.push_back({rank.type, {}, rank.share, int64_t(group)});
      list.push_back({int64_t(pipeline), places[index].position, sharers,
                      std::vector<ChunkNeighbors>(plan.getNumChunks())});
    }
  }
  addChannels(first);
}

/// Between the virtual stages of a class of pipelines, wherever tokens of the
/// one are tokens of the other.
void RankClasses::addChannels(size_t firstClass) {
  int64_t count = int64_t(plan.groups.size()), chunks = plan.getNumChunks();
  if (count == 1)
    return;
  std::vector<size_t> firstOf;
  size_t end = firstClass;
  for (int64_t group = 0; group < count; ++group) {
    firstOf.push_back(end);
    end += list[end].sharers.size();
  }
  for (int64_t stage = 1; stage < count * chunks; ++stage) {
    int64_t before = (stage - 1) % count, behind = stage % count;
    int64_t pipeline = list[firstClass].pipeline;
    SmallVector<int64_t> sent = getBounds(before, pipeline),
                         taken = getBounds(behind, pipeline);
    for (size_t from = 0; from + 1 < sent.size(); ++from)
      for (size_t to = 0; to + 1 < taken.size(); ++to) {
        int64_t shared = std::min(sent[from + 1], taken[to + 1]) -
                         std::max(sent[from], taken[to]);
        if (shared <= 0)
          continue;
        size_t sender = firstOf[before] + from, receiver = firstOf[behind] + to;
        int64_t fromChunk = (stage - 1) / count, toChunk = stage / count;
        addChannel(sender, receiver, /*isForward=*/true, fromChunk, toChunk,
                   shared);
        addChannel(receiver, sender, /*isForward=*/false, toChunk, fromChunk,
                   shared);
      }
  }
}

void RankClasses::addChannel(size_t from, size_t to, bool isForward,
                             int64_t fromChunk, int64_t toChunk,
                             int64_t shared) {
  std::vector<SimulationProblem::Channel> &channels = result->problem.channels;
  TokenChannel channel = {static_cast<int>(channels.size()), shared};
  std::string name = isForward ? "activations" : "gradients";
  if (plan.getNumChunks() > 1)
    name += " to chunk " + std::to_string(toChunk);
  channels.push_back(
      {std::move(name), static_cast<int>(from), static_cast<int>(to)});
  ChunkNeighbors &sender = list[from].neighbors[fromChunk],
                 &receiver = list[to].neighbors[toChunk];
  (isForward ? sender.activationsOut : sender.gradientsOut).push_back(channel);
  (isForward ? receiver.activationsIn : receiver.gradientsIn)
      .push_back(channel);
}

//===----------------------------------------------------------------------===//
// Groups of collectives, and messages
//===----------------------------------------------------------------------===//

int RankClasses::getPort(CollectiveCost::Port kind, size_t index) const {
  switch (kind) {
  case CollectiveCost::DeviceOut:
    return static_cast<int>(2 * index);
  case CollectiveCost::DeviceIn:
    return static_cast<int>(2 * index + 1);
  case CollectiveCost::NodeOut:
    return static_cast<int>(2 * (list.size() + index));
  case CollectiveCost::NodeIn:
    return static_cast<int>(2 * (list.size() + index) + 1);
  }
  llvm_unreachable("no such port");
}

/// Every rank has a port of its own to its node.
PhaseGroup RankClasses::makeGroup(ArrayRef<int64_t> members,
                                  std::vector<int> classes) const {
  std::vector<ClusterRank> places;
  std::vector<double> shares;
  std::set<int> usedNodes;
  for (int64_t index : members) {
    const Plan::Rank &rank = plan.ranks[index];
    places.push_back({nodes[index], *cluster.findType(rank.type)});
    shares.push_back(rank.state);
    usedNodes.insert(nodes[index]);
  }
  CollectiveCost cost(cluster, places);
  if (plan.isWhole()) { // no two collectives are under way at a time
    shares.resize(plan.getShardGroupSize());
    PhaseGroup group =
        PhaseBuilder::makeGroup(std::move(cost), std::move(shares));
    if (plan.replicas > 1)
      group.replicas.emplace(cluster, places, plan.replicas);
    return group;
  }
  PhaseGroup group{std::move(cost), std::move(shares), std::move(classes), {}};
  for (auto kind : {CollectiveCost::DeviceOut, CollectiveCost::DeviceIn})
    for (int index : group.classes)
      group.ports[kind].push_back(getPort(kind, index));
  for (auto kind : {CollectiveCost::NodeOut, CollectiveCost::NodeIn})
    for (int node : usedNodes)
      group.ports[kind].push_back(getPort(kind, node));
  return group;
}

std::vector<PhaseGroup> RankClasses::formGroups(ArrayRef<ModuleOp> programs) {
  std::vector<PhaseGroup> made;
  std::map<std::vector<int64_t>, int> known;
  auto addGroup = [&](std::vector<int64_t> ranks) {
    auto [entry, isNew] =
        known.try_emplace(std::move(ranks), static_cast<int>(made.size()));
    if (!isNew)
      return entry->second;
    std::vector<int> classes;
    for (auto [index, own] : llvm::enumerate(result->classes))
      if (llvm::is_contained(entry->first, own.ranks.front()))
        classes.push_back(static_cast<int>(index));
    made.push_back(makeGroup(entry->first, std::move(classes)));
    holders.push_back(entry->first);
    return entry->second;
  };
  std::vector<int64_t> all(plan.ranks.size());
  std::iota(all.begin(), all.end(), 0);
  int whole = addGroup(std::move(all));
  for (ModuleOp program : programs)
    for (auto bucket : program.getOps<zero::BucketOp>())
      if (!groupOf.count(bucket.getSymNameAttr()))
        groupOf[bucket.getSymNameAttr()] =
            bucket.getGroups() ? addGroup(zero::findHolders(plan, bucket))
                               : whole;
  // Pipelines of a class exchange at the same time, each inside a node.
  for (size_t index = 0; index < list.size(); ++index) {
    const std::vector<size_t> &sharers = list[index].sharers;
    if (sharers.size() == 1)
      continue;
    if (index == sharers.front()) {
      made.push_back(
          makeGroup(members[result->classes[index].group][list[index].pipeline],
                    {sharers.begin(), sharers.end()}));
    }
    sharersOf[index] = static_cast<int>(made.size()) - 1;
  }
  return made;
}

int RankClasses::getMessage(int channel, int64_t samples, int64_t bytes) {
  auto &collectives = result->problem.collectives;
  auto [entry, isNew] = messages.try_emplace(
      {channel, samples}, static_cast<int>(collectives.size()));
  if (!isNew)
    return entry->second;
  const SimulationProblem::Channel &ends = result->problem.channels[channel];
  SimulationProblem::Collective message;
  message.name = ends.name;
  message.bytes = double(samples * bytes);
  std::map<int, double> uses;
  for (auto [from, to] : llvm::zip(result->classes[ends.from].ranks,
                                   result->classes[ends.to].ranks)) {
    LinkSpeed link = findLink(from, to);
    message.latency = std::max(message.latency, link.latency);
    message.overhead =
        std::max(message.overhead, message.bytes * link.overhead);
    double seconds = message.bytes / link.bandwidth;
    if (nodes[from] == nodes[to]) {
      uses[getPort(CollectiveCost::DeviceOut, ends.from)] = seconds;
      uses[getPort(CollectiveCost::DeviceIn, ends.to)] = seconds;
      continue;
    }
    uses[getPort(CollectiveCost::NodeOut, nodes[from])] += seconds;
    uses[getPort(CollectiveCost::NodeIn, nodes[to])] += seconds;
  }
  for (auto [port, seconds] : uses)
    message.uses.push_back({port, seconds});
  collectives.push_back(std::move(message));
  return entry->second;
}
