//===- GeneticGeo.cpp - A genetic algorithm, as a baseline ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GeneticGeo.h"
#include "GeneticPlacement.h"
#include "Geo/GeoGrid.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace poplar;

static constexpr double never = std::numeric_limits<double>::infinity();
static constexpr int population = 100, exchanges = 8;

namespace {
struct Individual {
  int stages = 1, pipelines = 1;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  std::vector<int> order, cuts;
  double seconds = never;
};

class GeneticGeo {
public:
  GeneticGeo(const GeoProblem &problem, unsigned seed)
      : problem(problem), costs(problem), random(seed) {}
  Individual create();
  Individual cross(const Individual &first, const Individual &second);
  void price(Individual &it);
  GeoPlan makePlan(const Individual &it);
  int below(int bound) { return static_cast<int>(random() % bound); }

private:
  void cutAnyhow(Individual &it);
  GeoGrid makeGridOf(const Individual &it);

  const GeoProblem &problem;
  GeoCosts costs;
  std::mt19937 random;
};
} // namespace

GeoGrid GeneticGeo::makeGridOf(const Individual &it) {
  GeoGrid grid(costs, it.schedule, it.stages, it.pipelines);
  grid.cells.assign(it.order.begin(),
                    it.order.begin() + it.stages * it.pipelines);
  grid.cuts = it.cuts;
  grid.refresh();
  return grid;
}

void GeneticGeo::price(Individual &it) {
  std::vector<int64_t> shares;
  it.seconds = makeGridOf(it).share(shares);
}

/// As equal as can be.
void GeneticGeo::cutAnyhow(Individual &it) {
  it.cuts.clear();
  for (int j = 0; j <= it.stages; ++j)
    it.cuts.push_back(problem.units() * j / it.stages);
}

Individual GeneticGeo::create() {
  Individual it;
  int devices = static_cast<int>(problem.devices.size());
  it.stages = 1 + below(std::min(devices, problem.units()));
  it.pipelines = 1 + below(static_cast<int>(std::min<int64_t>(
                         devices / it.stages, problem.microBatches)));
  it.schedule =
      problem.schedules[below(static_cast<int>(problem.schedules.size()))];
  it.order.resize(devices);
  std::iota(it.order.begin(), it.order.end(), 0);
  std::shuffle(it.order.begin(), it.order.end(), random);
  cutAnyhow(it);
  price(it);
  return it;
}

Individual GeneticGeo::cross(const Individual &first,
                             const Individual &second) {
  Individual child = first;
  int devices = static_cast<int>(child.order.size());
  // A part of the first's order stays; the rest is in the order of the second.
  int low = below(devices), high = below(devices);
  if (low > high)
    std::swap(low, high);
  std::vector<bool> stays(devices);
  for (int i = low; i <= high; ++i)
    stays[first.order[i]] = true;
  auto next = second.order.begin();
  for (int i = 0; i < devices; ++i) {
    if (i >= low && i <= high)
      continue;
    while (stays[*next])
      ++next;
    child.order[i] = *next++;
  }
  price(child);
  for (int i = 0; i < exchanges; ++i) {
    Individual changed = child;
    std::swap(changed.order[below(child.stages * child.pipelines)],
              changed.order[below(devices)]);
    int from = below(child.stages), to = below(child.stages);
    if (from < to && changed.cuts[from + 1] - changed.cuts[from] > 1)
      for (int j = from; j < to; ++j)
        --changed.cuts[j + 1];
    if (to < from && changed.cuts[from + 1] - changed.cuts[from] > 1)
      for (int j = to; j < from; ++j)
        ++changed.cuts[j + 1];
    price(changed);
    if (changed.seconds <= child.seconds)
      child = std::move(changed);
  }
  return child;
}

GeoPlan GeneticGeo::makePlan(const Individual &it) {
  GeoPlan plan;
  plan.schedule = it.schedule;
  for (int j = 0; j < it.stages; ++j)
    plan.stages.emplace_back(it.order.begin() + j * it.pipelines,
                             it.order.begin() + (j + 1) * it.pipelines);
  plan.cuts = it.cuts;
  plan.seconds = makeGridOf(it).share(plan.microBatches);
  return plan;
}

GeneticGeoResult planGenetically(const GeoProblem &problem, double cpuSeconds,
                                 unsigned seed) {
  double begin = getCPUSeconds();
  GeneticGeo genetic(problem, seed);
  std::vector<Individual> all;
  for (int i = 0; i < population; ++i)
    all.push_back(genetic.create());
  GeneticGeoResult result;
  for (; getCPUSeconds() - begin < cpuSeconds; ++result.offspring) {
    int first = genetic.below(population), second = genetic.below(population);
    Individual child = genetic.cross(all[first], all[second]);
    Individual &worse =
        all[first].seconds > all[second].seconds ? all[first] : all[second];
    if (child.seconds <= worse.seconds)
      worse = std::move(child);
  }
  const Individual &best = *std::min_element(
      all.begin(), all.end(), [](const Individual &a, const Individual &b) {
        return a.seconds < b.seconds;
      });
  if (best.seconds < never)
    result.plan = genetic.makePlan(best);
  result.cpuSeconds = getCPUSeconds() - begin;
  return result;
}
