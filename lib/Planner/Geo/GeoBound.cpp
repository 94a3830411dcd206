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
//   E_k >= sum_u min_d w_u(d) + 2 path_k + s_0, with path_k the messages of
//     pipeline k added up; and all forward passes + path_k + s_j of the stage
//     with the most elements, which are at least 1 / S of all. s_0 is at least
//     that of the first unit. Either s is that of D devices on n nodes, for the
//     n that is best, with the least delay and the greatest bandwidth of any
//     link.
//   E_k >= sigma W(d) + 2 path_k of its fastest device d. These are D unlike
//     devices, so the greatest is at least the Dth.
//
// Pipelines are paths without a device in common, so their messages are edges
// without a circle: any x of them cost at least the first x edges that Kruskal
// takes for the minimum spanning tree.
//
//   T >= (M - D + sum_k E_k / P_k) / sum_k 1 / P_k
//     >= min_k E_k + (M - D) / sum_k 1 / P_k, as the shares add up to M.
//   T >= max_k E_k, whose path is at least the mean of all.
//   T >= m_k W(d_k) + s_0 with one stage, of the D fastest devices on which
//     all units fit, in the mode in which they do. These take M whole
//     micro-batches, one each at least.
//
//===----------------------------------------------------------------------===//

#include "Geo/GeoGrid.h"
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

GeoBound::GeoBound(const GeoCosts &costs)
    : costs(costs), problem(costs.problem) {
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
  std::vector<double> sums;
  leastOptimizer = never;
  for (size_t i = 0; i < problem.kinds.size(); ++i) {
    sums.push_back(0);
    for (size_t unit = 0; unit < problem.parameters.units.size(); ++unit)
      sums.back() += seconds(problem.kinds[i], unit);
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
      leastShare = std::min(leastShare, own / sums[i]);
      leastForward =
          std::min(leastForward, problem.kinds[i].modes[0].forward[unit]);
    }
    forward += leastForward;
    both += least;
    longestUnit = std::max(longestUnit, least);
    shareSum += leastShare;
  }
  for (const GeoProblem::Device &device : problem.devices)
    whole.push_back(sums[device.kind]);
  std::sort(whole.begin(), whole.end());
  rates.push_back(0);
  for (double seconds : whole)
    rates.push_back(rates.back() + 1 / seconds);
  joins.push_back(0);
  for (double edge : findTree(problem))
    joins.push_back(joins.back() + edge);
  const UnitElements &all = problem.parameters;
  elements = static_cast<double>(all.count(0, problem.units()).trained);
  tied = static_cast<double>(all.tied.trained);
  firstElements = static_cast<double>(all.count(0, 1).trained -
                                      all.countTiedOutside(0, 1).trained);
  int nodes = static_cast<int>(problem.nodes.size());
  for (int node = 0; node < nodes; ++node) {
    for (int other = 0; other < nodes; ++other)
      if (other != node) {
        best.latency =
            std::min(best.latency, problem.getLink(node, other).latency);
        best.bandwidth =
            std::max(best.bandwidth, problem.getLink(node, other).bandwidth);
      }
    bestInside.bandwidth =
        std::max(bestInside.bandwidth, problem.nodes[node].inside.bandwidth);
  }
}

/// Seconds of the gradient exchange of a stage of so many elements.
double GeoBound::getSync(double elements, int pipelines) const {
  double bytes = elements * (problem.gradientBytes + problem.parameterBytes),
         optimizer = leastOptimizer * elements / pipelines;
  if (pipelines == 1)
    return optimizer;
  int fewest = (pipelines + mostInNode - 1) / mostInNode;
  double least = never;
  if (fewest == 1)
    least = getRemotePart(pipelines) * bytes / bestInside.bandwidth;
  // More nodes take longer.
  int n = std::max(fewest, 2);
  if (n <= static_cast<int>(problem.nodes.size()))
    least = std::min(
        least, (n - 1) * (2 * best.latency + bytes / (n * best.bandwidth)));
  return least + optimizer;
}

/// Seconds in which so many devices compute all micro-batches, each of them at
/// least one, if all units are in one stage; a little less. Infinite if they do
/// not fit on so many.
double GeoBound::getAlone(int pipelines) const {
  std::vector<double> ofKind, seconds;
  int units = problem.units();
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    double excess = 0;
    int i = static_cast<int>(kind),
        mode = costs.findMode(i, 0, units, /*inFlight=*/1, pipelines, excess);
    ofKind.push_back(excess > 0 ? never
                                : costs.getForward(i, mode, 0, units) +
                                      costs.getBackward(i, mode, 0, units));
  }
  for (const GeoProblem::Device &device : problem.devices)
    seconds.push_back(ofKind[device.kind]);
  std::nth_element(seconds.begin(), seconds.begin() + pipelines - 1,
                   seconds.end());
  double low = seconds[pipelines - 1];
  if (low == never)
    return never;
  auto fits = [&](double limit) {
    int64_t sum = 0;
    for (int k = 0; k < pipelines; ++k)
      sum += static_cast<int64_t>(limit / seconds[k]);
    return sum >= problem.microBatches;
  };
  if (fits(low))
    return low;
  // The slowest of them would do all of it.
  double high = low * static_cast<double>(problem.microBatches);
  while (high - low > 1e-4 * high) {
    double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return low;
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
  double own = stages > 1 ? elements - tied : elements,
         syncOfFirst = getSync(stages > 1 ? firstElements : own, pipelines),
         syncOfMost = getSync(own / stages, pipelines),
         first = std::max(both + 2 * path + syncOfFirst,
                          forward + path + syncOfMost);
  double seconds =
      std::max({first + shared / rate, both + 2 * meanPath + syncOfFirst,
                shareSum * whole[pipelines - 1] + 2 * path});
  if (stages == 1)
    seconds = std::max(seconds, getAlone(pipelines) + syncOfFirst);
  // Sums in another order are rounded differently.
  return seconds * (1 - 1e-9);
}
