//===- GeoBound.cpp - What any plan over distant devices costs at least ---===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Let w_u(d) be the seconds of unit u on device d in its fastest mode, W(d)
// their sum over all units. A plan of S stages and D pipelines has
//
//   P_k >= the greatest load of its devices >= sigma / sum_j 1 / W(d_j), with
//     sigma = sum_u min_d w_u(d) / W(d): by duality of linear programs, as in
//     StageBounds.cpp. So sum_k 1 / P_k is at most the sum of the S D greatest
//     1 / W(d), divided by sigma.
//   P_k >= max_u min_d w_u(d)
//   P_k >= c of each message; with GPipe, twice that. With 1F1B, S P_k is at
//     least the round trip, and P_k at least a message and half of the work of
//     the stages that it joins.
//   E_k >= sum_u min_d w_u(d) + 2 path_k, the messages of pipeline k added up.
//
// Pipelines are paths without a device in common, so their messages are edges
// without a circle: any x of them cost at least the first x edges that Kruskal
// takes for the minimum spanning tree.
//
//   T >= (M - D + sum_k E_k / P_k) / sum_k 1 / P_k
//     >= min_k E_k + (M - D) / sum_k 1 / P_k, as the shares add up to M.
//   T >= max_k E_k, whose path is at least the mean of all.
//   T >= all forward passes and s_j of the stage with the most elements, which
//     are at least 1 / S of all. Its s_j is that of D devices on n nodes, for
//     the n that is best, with the best links of the node where it is least.
//
//===----------------------------------------------------------------------===//

#include "Never.h"
#include "Poplar/Planner/Cluster/ExchangeCost.h"
#include "Poplar/Planner/Geo/GeoSearch.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

using namespace poplar;

/// Messages that join all devices at the least cost (Prim), ascending.
static std::vector<double> findTree(const GeoProblem &problem) {
  size_t nodes = problem.nodes.size();
  std::vector<int> left(nodes);
  for (const GeoProblem::Device &device : problem.devices)
    ++left[device.node];
  std::vector<double> edges, reach(nodes, never);
  auto message = [&](size_t from, size_t to) {
    const LinkSpeed &link =
        problem.getLink(static_cast<int>(from), static_cast<int>(to));
    return getMessageSeconds(link, problem.boundaryBytes);
  };
  size_t last = problem.devices.front().node;
  --left[last];
  for (size_t i = 1; i < problem.devices.size(); ++i) {
    size_t next = nodes;
    for (size_t node = 0; node < nodes; ++node) {
      if (left[node] == 0)
        continue;
      reach[node] = std::min(reach[node], message(last, node));
      if (next == nodes || reach[node] < reach[next])
        next = node;
    }
    edges.push_back(reach[next]);
    --left[next];
    last = next;
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

GeoBound::GeoBound(const GeoProblem &problem) : problem(problem) {
  using Kind = GeoProblem::Kind;
  std::vector<int> counts(problem.nodes.size());
  std::vector<bool> isUsed(problem.kinds.size());
  for (const GeoProblem::Device &device : problem.devices) {
    mostInNode = std::max(mostInNode, ++counts[device.node]);
    isUsed[device.kind] = true;
  }
  auto seconds = [](const Kind &kind, size_t unit) {
    return kind.modes[0].forward[unit] + kind.modes[0].backward[unit];
  };
  std::vector<double> all;
  leastOptimizer = never;
  for (size_t i = 0; i < problem.kinds.size(); ++i) {
    all.push_back(0);
    for (size_t unit = 0; unit < problem.parameters.units.size(); ++unit)
      all.back() += seconds(problem.kinds[i], unit);
    if (isUsed[i])
      leastOptimizer =
          std::min(leastOptimizer, problem.kinds[i].optimizerSeconds);
  }
  for (size_t unit = 0; unit < problem.parameters.units.size(); ++unit) {
    double least = never, leastForward = never, leastShare = never;
    for (size_t i = 0; i < problem.kinds.size(); ++i) {
      if (!isUsed[i])
        continue;
      double own = seconds(problem.kinds[i], unit);
      least = std::min(least, own);
      leastShare = std::min(leastShare, own / all[i]);
      leastForward =
          std::min(leastForward, problem.kinds[i].modes[0].forward[unit]);
    }
    forward += leastForward;
    both += least;
    longestUnit = std::max(longestUnit, least);
    shareSum += leastShare;
  }
  std::vector<double> each;
  for (const GeoProblem::Device &device : problem.devices)
    each.push_back(1 / all[device.kind]);
  std::sort(each.begin(), each.end(), std::greater<>());
  rates.push_back(0);
  for (double rate : each)
    rates.push_back(rates.back() + rate);
  joins.push_back(0);
  for (double edge : findTree(problem))
    joins.push_back(joins.back() + edge);
  elements =
      static_cast<double>(problem.parameters.count(0, problem.units()).trained);
  int nodes = static_cast<int>(problem.nodes.size());
  for (int node = 0; node < nodes; ++node) {
    LinkSpeed link{never, 0};
    for (int other = 0; other < nodes; ++other)
      if (other != node) {
        link.latency =
            std::min(link.latency, problem.getLink(node, other).latency);
        link.bandwidth =
            std::max(link.bandwidth, problem.getLink(node, other).bandwidth);
      }
    best.push_back(link);
    bestInside.bandwidth =
        std::max(bestInside.bandwidth, problem.nodes[node].inside.bandwidth);
  }
}

/// Seconds of the gradient exchange of the stage with the most elements.
double GeoBound::getSync(int stages, int pipelines) const {
  // Beside what is tied, which goes between two stages.
  double tied = stages > 1
                    ? static_cast<double>(problem.parameters.tied.trained)
                    : 0,
         most = elements / stages,
         bytes = (elements - tied) / stages *
                 (problem.gradientBytes + problem.parameterBytes),
         optimizer = leastOptimizer * most / pipelines;
  if (pipelines == 1)
    return optimizer;
  int fewest = (pipelines + mostInNode - 1) / mostInNode,
      nodes = std::min<int>(pipelines, static_cast<int>(best.size()));
  double least = never;
  if (fewest == 1)
    least = getRemotePart(pipelines) * bytes / bestInside.bandwidth;
  for (int n = std::max(fewest, 2); n <= nodes; ++n)
    for (const LinkSpeed &link : best)
      least = std::min(
          least, (n - 1) * (2 * link.latency + bytes / (n * link.bandwidth)));
  return least + optimizer;
}

double GeoBound::get(int stages, int pipelines,
                     PipelineSchedule schedule) const {
  bool isGPipe = schedule == PipelineSchedule::GPipe;
  double path = joins[stages - 1],
         meanPath = joins[size_t(stages - 1) * pipelines] / pipelines,
         period = longestUnit;
  if (stages > 1) {
    double message = path / (stages - 1);
    period = std::max(period, isGPipe ? 2 * message : message);
    if (!isGPipe)
      period = std::max(period, (both + 2 * path) / stages);
  }
  double rate = std::min(rates[size_t(stages) * pipelines] / shareSum,
                         pipelines / period);
  auto shared = static_cast<double>(problem.microBatches - pipelines);
  double seconds =
      std::max({both + 2 * path + shared / rate, both + 2 * meanPath,
                forward + getSync(stages, pipelines)});
  // Sums in another order are rounded differently.
  return seconds * (1 - 1e-9);
}
