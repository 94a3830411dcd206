//===- Cluster.cpp - A cluster as the planner sees it ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Cluster.h"
#include <cassert>
#include <limits>

using namespace poplar;

std::optional<Curve> DeviceProfile::fitCurve(std::string &error) const {
  if (microBatches.empty())
    return Curve();
  std::vector<Curve::Point> points;
  for (size_t i = 0; i < microBatches.size(); ++i)
    points.push_back({microBatches[i], seconds[i]});
  return Curve::fit(std::move(points), error);
}

std::optional<LinkSpeed> ClusterView::findLink(int fromNode, int toNode) const {
  auto link = links.find({fromNode, toNode});
  if (link != links.end())
    return link->second;
  return fromNode == toNode ? defaultInside : defaultBetween;
}

LinkSpeed ClusterView::getLink(int fromRank, int toRank) const {
  if (fromRank == toRank)
    return {0, std::numeric_limits<double>::infinity()};
  std::optional<LinkSpeed> link =
      findLink(ranks[fromRank].node, ranks[toRank].node);
  assert(link && "the verifier refuses clusters with unreachable ranks");
  return *link;
}

std::vector<int> ClusterView::countRanks() const {
  std::vector<int> counts(types.size());
  for (const ClusterRank &rank : ranks)
    ++counts[rank.type];
  return counts;
}

std::optional<int> ClusterView::findType(const std::string &name) const {
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].name == name)
      return static_cast<int>(i);
  return std::nullopt;
}

const DeviceProfile *ClusterView::findProfile(int type, int stage,
                                              const std::string &model,
                                              Recomputation recompute) const {
  const DeviceProfile *best = nullptr;
  int bestScore = 0;
  for (const DeviceProfile &profile : profiles) {
    bool ofModel = model.empty() || profile.model == model;
    if (profile.type != type || profile.stage != stage ||
        profile.precision != types[type].precision ||
        profile.recompute != recompute || !(ofModel || profile.model.empty()))
      continue;
    int score = 1 + 2 * ofModel + !profile.isEstimate;
    if (score > bestScore) {
      best = &profile;
      bestScore = score;
    }
  }
  return best;
}

std::string poplar::getProfileCommand(const std::string &type) {
  return "poplar profile --model MODEL_MLIR --cluster CLUSTER --device-type " +
         type + " -o profiles/" + type + ".json";
}
