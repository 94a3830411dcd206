//===- GeoPlan.cpp - What a plan over distant devices costs ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Geo/GeoGrid.h"
#include "Located.h"
#include "Pipeline/PipelineLane.h"
#include "Poplar/Planner/Geo/GeoSearch.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace poplar;

GeoGrid poplar::makeGrid(const GeoCosts &costs, const GeoPlan &plan) {
  GeoGrid grid(costs, plan.schedule, static_cast<int>(plan.stages.size()),
               static_cast<int>(plan.pipelines()));
  grid.cells.clear();
  for (const std::vector<int> &stage : plan.stages)
    grid.cells.insert(grid.cells.end(), stage.begin(), stage.end());
  grid.cuts = plan.cuts;
  grid.refresh();
  return grid;
}

std::vector<std::vector<int>>
GeoPlan::getModes(const GeoProblem &problem) const {
  GeoCosts costs(problem);
  GeoGrid grid = makeGrid(costs, *this);
  std::vector<std::vector<int>> modes(stages.size());
  for (size_t j = 0; j < stages.size(); ++j) {
    // Devices of a kind run one program in a stage: they recompute what the one
    // with the most micro-batches in flight has to, which fits on all.
    std::map<int, int> most;
    for (size_t k = 0; k < pipelines(); ++k) {
      double excess = 0;
      int mode = grid.getMode(static_cast<int>(j), static_cast<int>(k),
                              microBatches[k], excess);
      modes[j].push_back(excess > 0 ? -1 : mode);
      int &own = most[problem.devices[stages[j][k]].kind];
      own = std::max(own, modes[j].back());
    }
    for (size_t k = 0; k < pipelines(); ++k)
      if (modes[j][k] >= 0)
        modes[j][k] = most[problem.devices[stages[j][k]].kind];
  }
  return modes;
}

double GeoPlan::predict(const GeoProblem &problem) const {
  GeoCosts costs(problem);
  GeoGrid grid = makeGrid(costs, *this);
  double longest = 0;
  for (size_t k = 0; k < pipelines(); ++k)
    longest = std::max(longest,
                       grid.getSeconds(static_cast<int>(k), microBatches[k]));
  return longest;
}

static std::string checkGrid(const GeoProblem &problem, const GeoPlan &plan) {
  size_t stages = plan.stages.size();
  if (plan.pipelines() == 0)
    return "stages: is empty";
  if (problem.stages && stages != static_cast<size_t>(problem.stages))
    return "stages: there are " + std::to_string(stages) + ", not " +
           std::to_string(problem.stages);
  std::vector<bool> taken(problem.devices.size());
  for (size_t j = 0; j < stages; ++j) {
    if (plan.stages[j].size() != plan.pipelines())
      return at("stages", j) + ": has not as many devices as stage 0";
    for (int d : plan.stages[j]) {
      if (d < 0 || d >= static_cast<int>(problem.devices.size()))
        return at("stages", j) + ": there is no device " + std::to_string(d);
      if (taken[d])
        return at("stages", j) + ": device " + std::to_string(d) +
               " has a place already";
      taken[d] = true;
    }
  }
  if (plan.cuts.size() != stages + 1 || plan.cuts.front() != 0 ||
      plan.cuts.back() != problem.units())
    return "cuts: do not part the units into " + std::to_string(stages) +
           " stages";
  for (size_t j = 0; j < stages; ++j)
    if (plan.cuts[j] >= plan.cuts[j + 1])
      return at("cuts", j) + ": stage " + std::to_string(j) + " has no units";
  return "";
}

std::string GeoPlan::verify(const GeoProblem &problem) const {
  if (std::find(problem.schedules.begin(), problem.schedules.end(), schedule) ==
      problem.schedules.end())
    return std::string("schedule: ") + toString(schedule) +
           " is none of the choices";
  if (std::string error = checkGrid(problem, *this); !error.empty())
    return error;
  if (microBatches.size() != pipelines())
    return "microBatches: expected one for each pipeline";
  for (size_t k = 0; k < pipelines(); ++k)
    if (microBatches[k] < 1)
      return at("microBatches", k) + ": must be at least 1";
  int64_t sum =
      std::accumulate(microBatches.begin(), microBatches.end(), int64_t(0));
  if (sum != problem.microBatches)
    return "microBatches: add up to " + std::to_string(sum) + ", not " +
           std::to_string(problem.microBatches);
  std::vector<std::vector<int>> modes = getModes(problem);
  for (size_t j = 0; j < stages.size(); ++j)
    for (size_t k = 0; k < pipelines(); ++k)
      if (modes[j][k] < 0)
        return at("stages", j) + ": exceeds the memory of device " +
               std::to_string(stages[j][k]);
  double predicted = predict(problem);
  if (!(std::abs(predicted - seconds) <= 1e-9 * predicted))
    return "seconds: claims " + std::to_string(seconds) + ", takes " +
           std::to_string(predicted);
  return "";
}

PipelineSimulation poplar::simulateGeoPlan(const GeoProblem &problem,
                                           const GeoPlan &plan,
                                           bool recordsTimeline) {
  GeoCosts costs(problem);
  GeoGrid grid = makeGrid(costs, plan);
  std::vector<PipelineLane> lanes;
  for (size_t k = 0; k < plan.pipelines(); ++k) {
    lanes.push_back({plan.schedule,
                     grid.getStages(static_cast<int>(k), plan.microBatches[k]),
                     {},
                     plan.microBatches[k],
                     {}});
    for (size_t j = 0; j < plan.stages.size(); ++j)
      lanes.back().units.push_back({{plan.cuts[j], plan.cuts[j + 1]}});
    for (const std::vector<int> &stage : plan.stages) {
      const GeoProblem::Device &device = problem.devices[stage[k]];
      lanes.back().types.push_back(problem.kinds[device.kind].name + " at " +
                                   problem.nodes[device.node].name +
                                   ", pipeline " + std::to_string(k));
    }
  }
  return simulateLanes(lanes, recordsTimeline);
}
