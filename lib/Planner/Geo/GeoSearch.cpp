//===- GeoSearch.cpp - Finding pipelines over distant devices -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Geo/GeoSearch.h"
#include "Geo/GeoAnnealing.h"
#include "Never.h"
#include "Placement/PlacementStarts.h"
#include "Poplar/Planner/Cluster/ExchangeCost.h"
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace poplar;

/// Shapes that starts are built for, and starts that are annealed.
static constexpr size_t mostShapes = 192, mostAnnealed = 48;
/// The most lengths of chains in the starts of a shape.
static constexpr size_t mostLengths = 3;

namespace {
struct Shape {
  int stages, pipelines;
  PipelineSchedule schedule;
  double bound;
};
struct Candidate {
  const Shape *shape;
  GeoState state;
  double cost;
};

class Search {
public:
  Search(const GeoProblem &problem, int64_t effort, double limit,
         const Deadline &deadline)
      : problem(problem), costs(problem), effort(effort), limit(limit),
        deadline(deadline) {}
  GeoSearchResult run();

private:
  void addShapes();
  void addStarts(const Shape &shape);
  void addStart(const Shape &shape, GeoAnnealing &annealing,
                std::vector<int> cells);
  const std::vector<std::vector<int>> &getStarts(const Shape &shape);
  /// There is a plan, and no time to look for others.
  bool isOver() const { return (best || limit < never) && deadline.isOver(); }
  void take(const Shape &shape, GeoAnnealing &annealing, const GeoState &state);
  /// Slower than the best even when its programs run, which may take a little
  /// less or more than it costs.
  bool isFar(const Shape &shape) const {
    return shape.bound >= limit ||
           (best && shape.bound >= best->seconds * simulationMargin);
  }
  bool isWorse(const Shape &shape) const {
    return best && shape.bound >= best->seconds * (1 - 1e-9);
  }

  const GeoProblem &problem;
  GeoCosts costs;
  int64_t effort;
  double limit;
  const Deadline &deadline;
  std::vector<Shape> shapes;
  double lowerBound = never;
  std::vector<Candidate> candidates;
  /// By stages and pipelines: cells. Schedules have the same.
  std::map<std::pair<int, int>, std::vector<std::vector<int>>> starts;
  std::optional<GeoPlan> best;
  std::map<const Shape *, GeoPlan> ofShape;
};
} // namespace

/// For few devices, all shapes; for many, those that use all or a part of them.
static std::set<int> getPipelines(int all) {
  std::set<int> counts;
  if (all <= 8)
    for (int k = 1; k <= all; ++k)
      counts.insert(k);
  for (int eighths = 1; eighths <= 8; ++eighths)
    counts.insert(std::max(1, all * eighths / 8));
  return counts;
}

/// No plan of any shape costs less than `lowerBound`, whether it is searched or
/// not.
void Search::addShapes() {
  GeoBound bound(costs);
  int devices = static_cast<int>(problem.devices.size()),
      least = std::max(problem.stages, 1),
      most =
          problem.stages ? problem.stages : std::min(devices, problem.units());
  for (int stages = least; stages <= most; ++stages) {
    int all = static_cast<int>(
        std::min<int64_t>(devices / stages, problem.microBatches));
    std::set<int> searched = getPipelines(all);
    for (int pipelines = 1; pipelines <= all; ++pipelines)
      for (PipelineSchedule schedule : problem.schedules) {
        Shape shape = {stages, pipelines, schedule,
                       bound.get(stages, pipelines, schedule)};
        lowerBound = std::min(lowerBound, shape.bound);
        if (searched.count(pipelines))
          shapes.push_back(shape);
      }
  }
  std::stable_sort(
      shapes.begin(), shapes.end(),
      [](const Shape &a, const Shape &b) { return a.bound < b.bound; });
}

/// Keeps a plan that is the best so far.
void Search::take(const Shape &shape, GeoAnnealing &annealing,
                  const GeoState &state) {
  GeoPlan plan;
  double seconds = annealing.share(state, plan.microBatches);
  auto known = ofShape.find(&shape);
  if (seconds == never ||
      (known != ofShape.end() && seconds >= known->second.seconds))
    return;
  plan.schedule = shape.schedule;
  for (int j = 0; j < shape.stages; ++j)
    plan.stages.emplace_back(state.cells.begin() + j * shape.pipelines,
                             state.cells.begin() + (j + 1) * shape.pipelines);
  plan.cuts = state.cuts;
  plan.seconds = seconds;
  if (!best || seconds < best->seconds)
    best = plan;
  ofShape[&shape] = std::move(plan);
}

void Search::addStart(const Shape &shape, GeoAnnealing &annealing,
                      std::vector<int> cells) {
  GeoState state = annealing.complete(std::move(cells));
  effort -= annealing.takeEffort();
  take(shape, annealing, state);
  double cost = annealing.getCost(state);
  candidates.push_back({&shape, std::move(state), cost});
}

/// Devices close to each other in stages, or in pipelines, or in between; and
/// alike devices in stages, or in pipelines.
const std::vector<std::vector<int>> &Search::getStarts(const Shape &shape) {
  auto [entry, isNew] = starts.try_emplace({shape.stages, shape.pipelines});
  std::vector<std::vector<int>> &list = entry->second;
  if (!isNew)
    return list;
  int devices = static_cast<int>(problem.devices.size()),
      used = shape.stages * shape.pipelines;
  PlacementCosts network(devices);
  double bytes = static_cast<double>(costs.count(0, problem.units()).trained) /
                 shape.stages *
                 (problem.gradientBytes + problem.parameterBytes) /
                 shape.pipelines;
  for (int d = 0; d < devices; ++d)
    for (int other = 0; other < devices; ++other) {
      if (d == other)
        continue;
      const LinkSpeed &link =
          problem.getLink(problem.devices[d].node, problem.devices[other].node);
      size_t at = size_t(d) * devices + other;
      network.dataParallel[at] = getRoundTripSeconds(link, bytes);
      network.pipeline[at] = getMessageSeconds(link, problem.boundaryBytes);
    }
  for (const std::vector<std::vector<int>> &groups :
       buildStarts(network, shape.stages, shape.pipelines, mostLengths)) {
    list.emplace_back();
    for (const std::vector<int> &group : groups)
      list.back().insert(list.back().end(), group.begin(), group.end());
  }
  std::vector<int> order(devices);
  std::iota(order.begin(), order.end(), 0);
  auto seconds = [&](int d) {
    return costs.getForward(problem.devices[d].kind, 0, 0, problem.units()) +
           costs.getBackward(problem.devices[d].kind, 0, 0, problem.units());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return seconds(a) < seconds(b); });
  order.resize(used);
  list.push_back(order);
  std::vector<int> turned(used);
  for (int i = 0; i < used; ++i)
    turned[i % shape.stages * shape.pipelines + i / shape.stages] = order[i];
  list.push_back(std::move(turned));
  return list;
}

void Search::addStarts(const Shape &shape) {
  GeoAnnealing annealing(costs, shape.schedule, shape.stages, shape.pipelines);
  for (const std::vector<int> &cells : getStarts(shape))
    addStart(shape, annealing, cells);
}

GeoSearchResult Search::run() {
  GeoSearchResult result;
  int64_t given = effort;
  addShapes();
  if (shapes.empty()) {
    result.error = "there are fewer devices than stages";
    return result;
  }
  result.lowerBound = lowerBound;
  int64_t soon = effort - effort / 4;
  for (size_t i = 0; i < shapes.size() && i < mostShapes; ++i)
    if (!isFar(shapes[i]) && !isOver() && (effort > soon || i < 2))
      addStarts(shapes[i]);
  // As with placements: each start is annealed a little; then the better half
  // of what came of it, with twice the effort, until one is left.
  auto isBefore = [](const Candidate &a, const Candidate &b) {
    return a.cost < b.cost;
  };
  std::stable_sort(candidates.begin(), candidates.end(), isBefore);
  // The best start of each shape, then others.
  std::set<const Shape *> met;
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const Candidate &candidate) {
                          return met.insert(candidate.shape).second;
                        });
  if (candidates.size() > mostAnnealed)
    candidates.erase(candidates.begin() + mostAnnealed, candidates.end());
  uint64_t sequence = 0;
  while (!candidates.empty()) {
    // Rounds have about as much to do.
    int64_t rounds = 1;
    for (size_t left = candidates.size(); left > 1; left = (left + 1) / 2)
      ++rounds;
    int64_t each =
        effort / rounds / static_cast<int64_t>(candidates.size()) / 3;
    std::vector<Candidate> next;
    for (Candidate &candidate : candidates) {
      if (isWorse(*candidate.shape) || isOver())
        continue;
      GeoAnnealing annealing(costs, candidate.shape->schedule,
                             candidate.shape->stages,
                             candidate.shape->pipelines);
      for (double hot : {0.3, 0.03, 0.003}) {
        GeoState state =
            annealing.anneal(candidate.state, hot, each, ++sequence);
        take(*candidate.shape, annealing, state);
        double cost = annealing.getCost(state);
        if (cost < candidate.cost) {
          candidate.state = std::move(state);
          candidate.cost = cost;
        }
      }
      effort -= annealing.takeEffort();
      next.push_back(std::move(candidate));
    }
    std::stable_sort(next.begin(), next.end(), isBefore);
    if (candidates.size() == 1)
      break;
    if (next.size() > (candidates.size() + 1) / 2)
      next.erase(next.begin() + (candidates.size() + 1) / 2, next.end());
    candidates = std::move(next);
  }
  result.effort = given - effort;
  if (!best)
    result.error =
        limit < never && (shapes.front().bound >= limit || isOver())
            ? "no plan is as fast as required"
            : "no plan fits: of every cut into stages that was tried some "
              "stage exceeds the memory of its devices; add devices, or "
              "devices with more memory";
  else
    result.lowerBound = std::min(result.lowerBound, best->seconds);
  for (auto &[shape, plan] : ofShape)
    if (plan.stages != best->stages || plan.schedule != best->schedule)
      result.others.push_back(std::move(plan));
  std::stable_sort(result.others.begin(), result.others.end(),
                   [](const GeoPlan &a, const GeoPlan &b) {
                     return std::tie(a.seconds, a.stages) <
                            std::tie(b.seconds, b.stages);
                   });
  result.plan = std::move(best);
  return result;
}

GeoSearchResult poplar::searchGeoPlan(const GeoProblem &problem, int64_t effort,
                                      double limit, const Deadline &deadline) {
  GeoSearchResult result;
  result.error = problem.check();
  if (!result.error.empty())
    return result;
  auto devices = static_cast<int64_t>(problem.devices.size());
  return Search(problem,
                std::min(effort, geoEffortOfFew * devices * devices * devices),
                limit, deadline)
      .run();
}
