//===- GeoOracle.cpp - Every plan over distant devices --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GeoOracle.h"
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

using namespace poplar;

static constexpr double never = std::numeric_limits<double>::infinity();

GeoProblem poplar::makeRandomGeo(std::mt19937 &random) {
  auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  GeoProblem problem;
  int units = 1 + below(4), devices = 1 + below(5), nodes = 1 + below(devices),
      kinds = 1 + below(3);
  UnitElements &parameters = problem.parameters;
  parameters.units.resize(units);
  for (ParameterElements &unit : parameters.units)
    unit.trained = 10 * (1 + below(4));
  parameters.tied.trained = below(3) ? 0 : 10;
  if (below(2)) {
    for (ParameterElements &unit : parameters.units)
      unit.frozen = 20 * (1 + below(5));
    parameters.tied.frozen = parameters.tied.trained;
  }
  // This makes half of all problems.
  if (parameters.units[0].trained > 20) {
    for (ParameterElements &unit : parameters.units)
      unit.int8States = unit.trained / 4 * 3;
    parameters.tied.int8States =
        std::min(parameters.tied.trained, parameters.units.back().int8States);
  }
  problem.boundaryBytes = below(40);
  problem.microBatches = 1 + below(7);
  problem.gradientBytes = below(5);
  for (int i = 0; i < kinds; ++i) {
    GeoProblem::Kind kind;
    kind.name = "kind" + std::to_string(i);
    kind.memory = below(3) ? 1e6 : 100 + below(1000);
    kind.fixedBytes = below(20);
    kind.state.replicated = below(6);
    kind.state.sharded = below(12);
    kind.state.savedByInt8 = kind.state.sharded / 2;
    kind.state.frozen = below(6);
    kind.optimizerSeconds = below(3) * 0.01;
    GeoProblem::Mode mode;
    for (int unit = 0; unit < units; ++unit) {
      mode.forward.push_back(0.25 * (1 + below(6)));
      mode.backward.push_back(mode.forward.back() * (1 + below(3)));
      mode.savedBytes.push_back(below(60));
      mode.workBytes.push_back(below(60));
    }
    kind.modes.push_back(mode);
    if (below(2)) {
      for (int unit = 0; unit < units; ++unit) {
        mode.backward[unit] += mode.forward[unit];
        mode.savedBytes[unit] /= 4;
      }
      kind.modes.push_back(mode);
    }
    problem.kinds.push_back(kind);
  }
  for (int i = 0; i < nodes; ++i)
    problem.nodes.push_back(
        {"node" + std::to_string(i),
         {below(2) * 0.01, 100.0 + below(500), below(2) * 0.001}});
  for (int i = 0; i < devices; ++i)
    problem.devices.push_back({below(kinds), below(nodes)});
  for (int i = 0; i < nodes; ++i)
    for (int j = 0; j < nodes; ++j) {
      LinkSpeed link{below(4) * 0.1, below(2) ? 5.0 + below(50) : 300.0,
                     below(3) * 0.001};
      if (j < i)
        link = problem.links[j * nodes + i];
      problem.links.push_back(link);
    }
  return problem;
}

//===----------------------------------------------------------------------===//
// The cost
//===----------------------------------------------------------------------===//

namespace {
class Definition {
public:
  Definition(const GeoProblem &problem, const GeoPlan &plan)
      : problem(problem), plan(plan) {}
  double getSeconds() const;

private:
  const GeoProblem::Device &device(size_t j, size_t k) const {
    return problem.devices[plan.stages[j][k]];
  }
  const GeoProblem::Kind &kind(size_t j, size_t k) const {
    return problem.kinds[device(j, k).kind];
  }
  const LinkSpeed &link(int node, int other) const {
    return node == other ? problem.nodes[node].inside
                         : problem.links[node * problem.nodes.size() + other];
  }
  double getElements(size_t j) const;
  double getMessage(size_t j, size_t k) const;
  double getCopy(size_t j, size_t k) const {
    return problem.boundaryBytes *
           link(device(j, k).node, device(j + 1, k).node).overhead;
  }
  double getSync(size_t j, size_t k) const;
  const GeoProblem::Mode *getMode(size_t j, size_t k) const;
  double sum(const std::vector<double> &ofUnits, size_t j) const {
    return std::accumulate(ofUnits.begin() + plan.cuts[j],
                           ofUnits.begin() + plan.cuts[j + 1], 0.0);
  }

  const GeoProblem &problem;
  const GeoPlan &plan;
};
} // namespace

double Definition::getElements(size_t j) const {
  double all = 0;
  for (int unit = plan.cuts[j]; unit < plan.cuts[j + 1]; ++unit)
    all += static_cast<double>(problem.parameters.units[unit].trained);
  if (plan.stages.size() == 1 && problem.units() > 1)
    all -= static_cast<double>(problem.parameters.tied.trained);
  return all;
}

double Definition::getMessage(size_t j, size_t k) const {
  int from = device(j, k).node, to = device(j + 1, k).node, sends = 0,
      receives = 0;
  for (size_t i = 0; i < plan.pipelines(); ++i) {
    bool leaves = device(j, i).node != device(j + 1, i).node;
    sends += leaves && device(j, i).node == from;
    receives += leaves && device(j + 1, i).node == to;
  }
  double h = from == to ? 1 : std::max(sends, receives);
  return link(from, to).latency +
         h * problem.boundaryBytes / link(from, to).bandwidth;
}

double Definition::getSync(size_t j, size_t k) const {
  std::set<int> nodes;
  for (size_t i = 0; i < plan.pipelines(); ++i)
    nodes.insert(device(j, i).node);
  size_t last = plan.stages.size() - 1;
  bool isTied =
      last > 0 && problem.parameters.tied.trained > 0 && (j == 0 || j == last);
  double own = getElements(j) -
               (isTied ? static_cast<double>(problem.parameters.tied.trained)
                       : 0),
         each = problem.gradientBytes + problem.parameterBytes, x = own * each,
         longest = 0, optimizer = 0;
  for (int node : nodes) {
    double r = 0, seconds = 0;
    for (size_t i = 0; i < plan.pipelines(); ++i)
      r += device(j, i).node == node;
    if (r > 1)
      seconds += 2 * problem.nodes[node].inside.latency +
                 (r - 1) / r * x / problem.nodes[node].inside.bandwidth;
    for (int other : nodes)
      if (other != node)
        seconds += 2 * link(node, other).latency +
                   x / (double(nodes.size()) * link(node, other).bandwidth);
    longest = std::max(longest, seconds);
  }
  for (size_t i = 0; i < plan.pipelines(); ++i)
    optimizer =
        std::max(optimizer, kind(j, i).optimizerSeconds * getElements(j) /
                                static_cast<double>(plan.pipelines()));
  double tied = 0;
  if (isTied) {
    const LinkSpeed &speed = link(device(0, k).node, device(last, k).node);
    tied = 2 * speed.latency +
           static_cast<double>(problem.parameters.tied.trained) * each /
               speed.bandwidth;
  }
  return longest + optimizer + tied;
}

const GeoProblem::Mode *Definition::getMode(size_t j, size_t k) const {
  auto inFlight = static_cast<double>(
      plan.schedule == PipelineSchedule::GPipe
          ? plan.microBatches[k]
          : std::min(static_cast<int64_t>(plan.stages.size() - j),
                     plan.microBatches[k]));
  const GeoProblem::Kind &it = kind(j, k);
  for (const GeoProblem::Mode &mode : it.modes) {
    double work = 0, frozen = 0, wide = getElements(j);
    for (int unit = plan.cuts[j]; unit < plan.cuts[j + 1]; ++unit) {
      work = std::max(work, mode.workBytes[unit]);
      const ParameterElements &own = problem.parameters.units[unit];
      wide -= static_cast<double>(own.int8States);
      frozen += static_cast<double>(own.frozen);
    }
    if (plan.stages.size() == 1 && problem.units() > 1) {
      wide += static_cast<double>(problem.parameters.tied.int8States);
      frozen -= static_cast<double>(problem.parameters.tied.frozen);
    }
    // All that is f32 may be in one shard.
    double shard = getElements(j) / static_cast<double>(plan.pipelines()),
           int8 = shard > wide ? shard - wide : 0,
           bytes = it.fixedBytes + work + frozen * it.state.frozen +
                   inFlight * sum(mode.savedBytes, j) +
                   getElements(j) * it.state.replicated +
                   shard * it.state.sharded - int8 * it.state.savedByInt8;
    if (bytes <= it.memory * (1 + 1e-9))
      return &mode;
  }
  return nullptr;
}

double Definition::getSeconds() const {
  size_t stages = plan.stages.size();
  bool gpipe = plan.schedule == PipelineSchedule::GPipe;
  double longest = 0;
  for (size_t k = 0; k < plan.pipelines(); ++k) {
    std::vector<double> f, b, c;
    for (size_t j = 0; j < stages; ++j) {
      const GeoProblem::Mode *mode = getMode(j, k);
      if (!mode)
        return never;
      double copying = (j > 0 ? getCopy(j - 1, k) : 0) +
                       (j + 1 < stages ? getCopy(j, k) : 0);
      f.push_back(sum(mode->forward, j) + copying);
      b.push_back(sum(mode->backward, j) + copying);
      c.push_back(j + 1 < stages ? getMessage(j, k) : 0);
    }
    double period = 0, forward = 0, backward = 0, end = 0, front = 0;
    for (size_t j = 0; j < stages; ++j) {
      double trip = 0;
      for (size_t i = j; i < stages; ++i)
        trip += f[i] + b[i] + 2 * c[i];
      period = std::max({period, f[j] + b[j], c[j], trip / double(stages - j)});
      if (j + 1 < stages)
        period =
            std::max(period, c[j] + (f[j] + b[j] + f[j + 1] + b[j + 1]) / 2);
      forward = std::max({forward, f[j], c[j]});
      backward = std::max({backward, b[j], c[j]});
      // Stage j begins after the forward passes in front of it.
      end = std::max(end, front + trip + getSync(j, k));
      front += f[j] + c[j];
    }
    if (gpipe)
      period = forward + backward;
    longest = std::max(
        longest, static_cast<double>(plan.microBatches[k] - 1) * period + end);
  }
  return longest;
}

double poplar::defineGeoCost(const GeoProblem &problem, const GeoPlan &plan) {
  return Definition(problem, plan).getSeconds();
}

//===----------------------------------------------------------------------===//
// All plans
//===----------------------------------------------------------------------===//

/// Calls `use` with every way to write `sum` as so many terms from `least` on.
static void forEachSum(int64_t sum, size_t terms, int64_t least,
                       std::vector<int64_t> &list,
                       const std::function<void()> &use) {
  if (terms == 0) {
    if (sum == 0)
      use();
    return;
  }
  for (int64_t term = least; term <= sum; ++term) {
    list.push_back(term);
    forEachSum(sum - term, terms - 1, least, list, use);
    list.pop_back();
  }
}

double poplar::searchAllGeoPlans(const GeoProblem &problem) {
  int devices = static_cast<int>(problem.devices.size());
  double best = never;
  for (int stages = 1; stages <= std::min(devices, problem.units()); ++stages)
    for (int pipelines = 1; pipelines <= devices / stages; ++pipelines) {
      GeoPlan plan;
      plan.stages.assign(stages, std::vector<int>(pipelines));
      std::vector<bool> taken(devices);
      std::vector<int64_t> sizes;
      auto price = [&] {
        plan.cuts = {0};
        for (int64_t size : sizes)
          plan.cuts.push_back(plan.cuts.back() + static_cast<int>(size));
        for (PipelineSchedule schedule : problem.schedules) {
          plan.schedule = schedule;
          std::vector<int64_t> shares;
          forEachSum(problem.microBatches, pipelines, 1, shares, [&] {
            plan.microBatches = shares;
            best = std::min(best, defineGeoCost(problem, plan));
          });
        }
      };
      std::function<void(int)> place = [&](int at) {
        if (at == stages * pipelines) {
          forEachSum(problem.units(), stages, 1, sizes, price);
          return;
        }
        // Pipelines have no order: their first devices ascend.
        int first = at > 0 && at < pipelines ? plan.stages[0][at - 1] + 1 : 0;
        for (int d = first; d < devices; ++d) {
          if (taken[d])
            continue;
          taken[d] = true;
          plan.stages[at / pipelines][at % pipelines] = d;
          place(at + 1);
          taken[d] = false;
        }
      };
      place(0);
    }
  return best;
}
