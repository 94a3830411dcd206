//===- DeviceSpace.cpp - Devices that can take part in a job --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/DeviceSpace.h"
#include "Cluster/NodeSets.h"
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

using namespace poplar;

/// In a class with more nodes than this, single nodes are no groups.
static constexpr size_t mostSingleNodes = 8;
static constexpr size_t mostGroups = 512;
/// Bandwidths at which sites are looked for.
static constexpr size_t mostLevels = 16;

//===----------------------------------------------------------------------===//
// Interchangeable nodes
//===----------------------------------------------------------------------===//

using LinkKey = std::tuple<double, double, double>;
static LinkKey getKey(const std::optional<LinkSpeed> &link) {
  return link ? LinkKey{link->bandwidth, link->latency, link->overhead}
              : LinkKey{-1, -1, -1};
}

namespace {

/// Tells nodes of a cluster apart by what they have and how they are linked.
class NodeColours {
public:
  NodeColours(const ClusterView &cluster, const std::vector<bool> &usable);

  /// Nodes by colour; nodes of one colour are almost always interchangeable.
  std::vector<int> colours;
  std::vector<std::vector<int64_t>> devices;
  /// Nodes with links that are not the default one.
  std::vector<std::vector<int>> neighbours;

  /// Exchanging them changes nothing.
  bool areInterchangeable(int a, int b) const;

private:
  void refine();

  const ClusterView &cluster;
};

} // namespace

NodeColours::NodeColours(const ClusterView &cluster,
                         const std::vector<bool> &usable)
    : cluster(cluster) {
  size_t numNodes = cluster.nodes.size();
  devices.assign(numNodes, std::vector<int64_t>(cluster.types.size()));
  neighbours.resize(numNodes);
  for (const ClusterRank &rank : cluster.ranks)
    if (usable[rank.type])
      ++devices[rank.node][rank.type];
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second) {
      neighbours[ends.first].push_back(ends.second);
      neighbours[ends.second].push_back(ends.first);
    }
  using Key = std::pair<std::vector<int64_t>, LinkKey>;
  std::map<Key, int> numbers;
  std::vector<Key> keys;
  for (size_t node = 0; node < numNodes; ++node) {
    std::vector<int> &others = neighbours[node];
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    auto index = static_cast<int>(node);
    keys.emplace_back(devices[node], getKey(cluster.findLink(index, index)));
    numbers.try_emplace(keys.back(), 0);
  }
  int next = 0;
  for (auto &[key, number] : numbers)
    number = next++;
  for (const Key &key : keys)
    colours.push_back(numbers.find(key)->second);
  // Nodes that differ only in what their neighbours are linked with are told
  // apart by further rounds.
  for (int round = 0; round < 3; ++round)
    refine();
}

void NodeColours::refine() {
  using Edge = std::tuple<LinkKey, LinkKey, int>;
  using Key = std::pair<int, std::vector<Edge>>;
  std::map<Key, int> numbers;
  std::vector<Key> keys;
  for (size_t node = 0; node < colours.size(); ++node) {
    std::vector<Edge> edges;
    auto index = static_cast<int>(node);
    for (int other : neighbours[node])
      edges.emplace_back(getKey(cluster.findLink(index, other)),
                         getKey(cluster.findLink(other, index)),
                         colours[other]);
    std::sort(edges.begin(), edges.end());
    keys.emplace_back(colours[node], std::move(edges));
    numbers.try_emplace(keys.back(), 0);
  }
  int next = 0;
  for (auto &[key, number] : numbers)
    number = next++;
  for (size_t node = 0; node < colours.size(); ++node)
    colours[node] = numbers.find(keys[node])->second;
}

bool NodeColours::areInterchangeable(int a, int b) const {
  auto key = [&](int from, int to) {
    return getKey(cluster.findLink(from, to));
  };
  if (colours[a] != colours[b] || key(a, b) != key(b, a))
    return false;
  for (int of : {a, b})
    for (int other : neighbours[of])
      if (other != a && other != b &&
          (key(a, other) != key(b, other) || key(other, a) != key(other, b)))
        return false;
  return true;
}

/// For each node the bandwidth of its best link to another.
static std::vector<double> getBestLinks(const ClusterView &cluster,
                                        const NodeColours &colours) {
  std::vector<double> best(cluster.nodes.size());
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second)
      best[ends.first] = std::max(best[ends.first], link.bandwidth);
  if (cluster.defaultBetween)
    for (size_t node = 0; node < best.size(); ++node)
      if (colours.neighbours[node].size() + 1 < best.size())
        best[node] = std::max(best[node], cluster.defaultBetween->bandwidth);
  return best;
}

//===----------------------------------------------------------------------===//
// Sites
//===----------------------------------------------------------------------===//

/// Joins all nodes that the default link joins: those without a link of their
/// own between them.
static void joinByDefault(const ClusterView &cluster, NodeSets &sets) {
  auto numNodes = static_cast<int>(cluster.nodes.size());
  // Whom no join has reached; each pair with a link of its own is passed once.
  std::set<int> left;
  for (int node = 0; node < numNodes; ++node)
    left.insert(node);
  while (!left.empty()) {
    std::vector<int> queue = {*left.begin()};
    left.erase(left.begin());
    while (!queue.empty()) {
      int node = queue.back();
      queue.pop_back();
      for (auto it = left.begin(); it != left.end();) {
        if (cluster.links.count({node, *it}) ||
            cluster.links.count({*it, node})) {
          ++it;
          continue;
        }
        sets.join(node, *it);
        queue.push_back(*it);
        it = left.erase(it);
      }
    }
  }
}

std::vector<std::vector<int>>
poplar::findNodeSites(const ClusterView &cluster) {
  std::set<double, std::greater<>> bandwidths;
  auto slower = [&](int a, int b) {
    auto there = cluster.findLink(a, b), back = cluster.findLink(b, a);
    return there && back ? std::min(there->bandwidth, back->bandwidth) : 0;
  };
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second)
      bandwidths.insert(slower(ends.first, ends.second));
  if (cluster.defaultBetween)
    bandwidths.insert(cluster.defaultBetween->bandwidth);
  std::vector<double> levels(bandwidths.begin(), bandwidths.end());
  std::set<std::vector<int>> known;
  std::vector<std::vector<int>> sites;
  size_t stride = levels.size() / mostLevels + 1;
  for (size_t level = 0; level < levels.size(); level += stride) {
    NodeSets sets(cluster.nodes.size());
    for (const auto &[ends, link] : cluster.links)
      if (ends.first != ends.second &&
          slower(ends.first, ends.second) >= levels[level])
        sets.join(ends.first, ends.second);
    if (cluster.defaultBetween &&
        cluster.defaultBetween->bandwidth >= levels[level])
      joinByDefault(cluster, sets);
    std::map<int, std::vector<int>> members;
    for (size_t node = 0; node < cluster.nodes.size(); ++node)
      members[sets.find(static_cast<int>(node))].push_back(
          static_cast<int>(node));
    for (auto &[root, nodes] : members)
      if (nodes.size() > 1 && nodes.size() < cluster.nodes.size() &&
          known.insert(nodes).second)
        sites.push_back(nodes);
  }
  return sites;
}

//===----------------------------------------------------------------------===//
// DeviceSpace
//===----------------------------------------------------------------------===//

DeviceSpace DeviceSpace::ofTypes(const std::vector<int64_t> &counts) {
  DeviceSpace space;
  space.numTypes = counts.size();
  NodeSlots node = {0, counts.size()};
  space.classes = {{node}};
  for (size_t type = 0; type < counts.size(); ++type) {
    space.slots.push_back({static_cast<int>(type), 0, counts[type]});
    space.groups.push_back({type});
  }
  return space;
}

DeviceSpace::DeviceSpace(const ClusterView &cluster,
                         const std::vector<bool> &usable)
    : numTypes(cluster.types.size()) {
  NodeColours colours(cluster, usable);
  std::vector<double> best = getBestLinks(cluster, colours);
  std::vector<int> order;
  std::vector<int64_t> sizes;
  for (size_t node = 0; node < cluster.nodes.size(); ++node) {
    const auto &devices = colours.devices[node];
    sizes.push_back(
        std::accumulate(devices.begin(), devices.end(), int64_t(0)));
    if (sizes.back() > 0)
      order.push_back(static_cast<int>(node));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tuple(-best[a], -sizes[a], colours.colours[a]) <
           std::tuple(-best[b], -sizes[b], colours.colours[b]);
  });
  std::vector<NodeSlots> ofNode(cluster.nodes.size());
  // Classes by their first nodes. One colour may be of several.
  std::map<int, std::vector<std::pair<int, size_t>>> known;
  for (int node : order) {
    size_t first = slots.size();
    for (size_t type = 0; type < numTypes; ++type)
      if (int64_t count = colours.devices[node][type])
        slots.push_back({static_cast<int>(type), node, count});
    ofNode[node] = {first, slots.size()};
    auto &firsts = known[colours.colours[node]];
    auto found = std::find_if(firsts.begin(), firsts.end(), [&](auto &entry) {
      return colours.areInterchangeable(entry.first, node);
    });
    if (found == firsts.end()) {
      firsts.emplace_back(node, classes.size());
      classes.emplace_back();
      found = firsts.end() - 1;
    }
    classes[found->second].push_back(ofNode[node]);
  }
  addGroups(findNodeSites(cluster));
}

void DeviceSpace::addGroup(Group group) {
  if (group.empty() || groups.size() >= mostGroups ||
      std::find(groups.begin(), groups.end(), group) != groups.end())
    return;
  groups.push_back(std::move(group));
}

void DeviceSpace::addGroups(const std::vector<std::vector<int>> &sites) {
  auto addWithTypes = [&](const Group &group) {
    addGroup(group);
    for (size_t type = 0; type < numTypes; ++type) {
      Group ofType;
      for (size_t slot : group)
        if (slots[slot].type == static_cast<int>(type))
          ofType.push_back(slot);
      addGroup(std::move(ofType));
    }
  };
  Group whole(slots.size());
  std::iota(whole.begin(), whole.end(), 0);
  addWithTypes(whole);
  for (const std::vector<int> &site : sites) {
    Group group;
    for (size_t slot = 0; slot < slots.size(); ++slot)
      if (std::binary_search(site.begin(), site.end(), slots[slot].node))
        group.push_back(slot);
    addWithTypes(group);
  }
  auto addSlots = [](Group &group, NodeSlots node) {
    for (size_t slot = node.first; slot < node.end; ++slot)
      group.push_back(slot);
  };
  for (const auto &nodes : classes) {
    Group group;
    for (NodeSlots node : nodes)
      addSlots(group, node);
    addWithTypes(group);
  }
  for (const auto &nodes : classes)
    for (NodeSlots node : nodes)
      if (nodes.size() <= mostSingleNodes) {
        Group group;
        addSlots(group, node);
        addWithTypes(group);
      }
}

int64_t DeviceSpace::countChoices(int64_t most) const {
  double choices = 1;
  for (const auto &nodes : classes) {
    double ofNode = 1;
    for (size_t slot = nodes.front().first; slot < nodes.front().end; ++slot)
      ofNode *= double(slots[slot].count) + 1;
    // Multisets: nodes.size() of as many choices.
    for (size_t i = 0; i < nodes.size() && choices <= double(most); ++i)
      choices *= (ofNode + double(i)) / (double(i) + 1);
  }
  return choices < double(most) ? static_cast<int64_t>(choices + 0.5) : most;
}

void DeviceSpace::makeCanonical(std::vector<int64_t> &choice) const {
  auto at = [&](size_t slot) {
    return choice.begin() + static_cast<ptrdiff_t>(slot);
  };
  auto isGreater = [&](NodeSlots a, NodeSlots b) {
    return std::lexicographical_compare(at(b.first), at(b.end), at(a.first),
                                        at(a.end));
  };
  for (const auto &nodes : classes) {
    if (std::is_sorted(nodes.begin(), nodes.end(), isGreater))
      continue;
    std::vector<std::vector<int64_t>> parts;
    for (NodeSlots node : nodes)
      parts.emplace_back(at(node.first), at(node.end));
    std::sort(parts.begin(), parts.end(), std::greater<>());
    for (size_t i = 0; i < nodes.size(); ++i)
      std::copy(parts[i].begin(), parts[i].end(), at(nodes[i].first));
  }
}

std::vector<int64_t> DeviceSpace::all() const {
  std::vector<int64_t> counts;
  for (const Slot &slot : slots)
    counts.push_back(slot.count);
  return counts;
}

std::vector<int64_t>
DeviceSpace::countTypes(const std::vector<int64_t> &choice) const {
  std::vector<int64_t> counts(numTypes);
  for (size_t slot = 0; slot < slots.size(); ++slot)
    counts[slots[slot].type] += choice[slot];
  return counts;
}

std::vector<size_t>
DeviceSpace::classifyRanks(const ClusterView &job,
                           const std::vector<int64_t> &choice) const {
  using Key = std::pair<size_t, std::vector<int64_t>>;
  std::map<Key, size_t> numbers;
  std::vector<size_t> ofNode(job.nodes.size());
  for (size_t index = 0; index < classes.size(); ++index)
    for (NodeSlots node : classes[index]) {
      Key key = {index, {}};
      for (size_t slot = node.first; slot < node.end; ++slot)
        key.second.push_back(choice[slot]);
      ofNode[slots[node.first].node] =
          numbers.try_emplace(std::move(key), numbers.size()).first->second;
    }
  std::map<std::pair<size_t, int>, size_t> ranks;
  std::vector<size_t> ofRank;
  for (const ClusterRank &rank : job.ranks)
    ofRank.push_back(
        ranks.try_emplace({ofNode[rank.node], rank.type}, ranks.size())
            .first->second);
  return ofRank;
}
