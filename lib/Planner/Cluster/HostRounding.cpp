//===- HostRounding.cpp - What rounding takes beside GPUs -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/HostRounding.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include <algorithm>
#include <cassert>

using namespace poplar;

bool poplar::roundsOnHost(const DeviceType &type) {
  const TargetKind *kind = findTargetKind(type.target);
  return kind && !kind->isHost();
}

static void slowDown(LinkSpeed &link, double secondsPerByte) {
  link.bandwidth = 1 / (1 / link.bandwidth + secondsPerByte);
}

ClusterView poplar::withWires(const ClusterView &cluster,
                              const LossyWires &wires) {
  ClusterView view = cluster;
  if (view.wires == wires)
    return view;
  assert(!cluster.wires.any() && "links are slowed down once");
  view.wires = wires;
  std::vector<bool> isHandled(view.nodes.size());
  for (const ClusterRank &rank : view.ranks)
    if (roundsOnHost(view.types[rank.type]))
      isHandled[rank.node] = true;
  if (std::count(isHandled.begin(), isHandled.end(), true) == 0)
    return view;
  // Values are f32 inside of a node. Between nodes, what is rounded most has
  // the most values in a byte.
  double inside = (hostCopySeconds + hostAdditionSeconds) / 4, bytes = 4;
  for (std::optional<WireFormat> wire : {wires.gradients, wires.parameters})
    if (wire)
      bytes = std::min(bytes, getElementBytes(*wire));
  double between =
      (hostCopySeconds + hostRoundingSeconds + hostAdditionSeconds) / bytes;
  for (auto &[ends, link] : view.links) {
    auto [from, to] = ends;
    if (isHandled[from] || isHandled[to])
      slowDown(link, from == to ? inside : between);
  }
  // The default of nodes becomes a link of each. Between nodes it stays one,
  // also for hosts alone.
  for (size_t node = 0; view.defaultInside && node < isHandled.size(); ++node) {
    auto [own, isNew] = view.links.try_emplace(std::pair<int, int>(node, node),
                                               *view.defaultInside);
    if (isNew && isHandled[node])
      slowDown(own->second, inside);
  }
  if (view.defaultBetween)
    slowDown(*view.defaultBetween, between);
  return view;
}
