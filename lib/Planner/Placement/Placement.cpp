//===- Placement.cpp - Which device computes which stage ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Placement/Placement.h"
#include "Placement/PlacementPath.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace poplar;

//===----------------------------------------------------------------------===//
// PlacementProblem
//===----------------------------------------------------------------------===//

/// "delay between devices 3 and 5".
static std::string describePair(const char *what, int d, int dPrime) {
  return std::string(what) + " between devices " + std::to_string(d) + " and " +
         std::to_string(dPrime);
}

std::string PlacementProblem::check() const {
  if (devices < 1)
    return "there are no devices";
  if (devices > largestDevices)
    return "there are " + std::to_string(devices) + " devices, more than " +
           std::to_string(largestDevices);
  size_t entries = static_cast<size_t>(devices) * devices;
  if (delay.size() != entries || bandwidth.size() != entries)
    return "the matrices of delays and bandwidths must have " +
           std::to_string(devices) + " rows and columns";
  if (stages < 1)
    return "there must be at least one stage, not " + std::to_string(stages);
  if (devices % stages)
    return std::to_string(devices) +
           " devices cannot be shared equally among " + std::to_string(stages) +
           " stages";
  if (!std::isfinite(cDP) || cDP < 0)
    return "c_DP must be finite and not negative";
  if (!std::isfinite(cPP) || cPP < 0)
    return "c_PP must be finite and not negative";
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < devices; ++j) {
      size_t at = static_cast<size_t>(i) * devices + j;
      if (i == j)
        continue;
      if (!std::isfinite(delay[at]) || delay[at] < 0)
        return describePair("delay", i, j) + " must be finite and not negative";
      if (!std::isfinite(bandwidth[at]) || bandwidth[at] <= 0)
        return describePair("bandwidth", i, j) + " must be finite and above 0";
      // Sums of them must be finite, too.
      if (!std::isfinite(getDTFMDataParallelSeconds(i, j) * devices) ||
          !std::isfinite(getDTFMPipelineSeconds(i, j) * devices))
        return describePair("the time of a message", i, j) + " is not finite";
    }
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < i; ++j) {
      size_t at = static_cast<size_t>(i) * devices + j;
      size_t mirrored = static_cast<size_t>(j) * devices + i;
      if (delay[at] != delay[mirrored])
        return describePair("delay", j, i) +
               " differs by direction; give both the greater";
      if (bandwidth[at] != bandwidth[mirrored])
        return describePair("bandwidth", j, i) +
               " differs by direction; give both the smaller";
    }
  return "";
}

double PlacementProblem::getDTFMDataParallelSeconds(int d, int dPrime) const {
  size_t at = static_cast<size_t>(d) * devices + dPrime;
  return d == dPrime ? 0
                     : 2 * (delay[at] + cDP / (pipelines() * bandwidth[at]));
}

double PlacementProblem::getDTFMPipelineSeconds(int d, int dPrime) const {
  size_t at = static_cast<size_t>(d) * devices + dPrime;
  return d == dPrime ? 0 : 2 * (delay[at] + cPP / bandwidth[at]);
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

void Placement::computeCost(const PlacementProblem &problem) {
  dataParallel = pipeline = 0;
  for (const std::vector<int> &group : stages)
    for (int d : group) {
      double sum = 0;
      for (int dPrime : group)
        sum += problem.getDTFMDataParallelSeconds(d, dPrime);
      dataParallel = std::max(dataParallel, sum);
    }
  for (size_t j = 0; j + 1 < stages.size(); ++j) {
    double slowest = 0;
    for (size_t k = 0; k < stages[j].size(); ++k)
      slowest = std::max(slowest, problem.getDTFMPipelineSeconds(
                                      stages[j][k], stages[j + 1][k]));
    pipeline += slowest;
  }
}

std::string Placement::verify(const PlacementProblem &problem) const {
  if (stages.size() != static_cast<size_t>(problem.stages))
    return "has " + std::to_string(stages.size()) + " stages, not " +
           std::to_string(problem.stages);
  std::vector<bool> taken(problem.devices);
  for (size_t j = 0; j < stages.size(); ++j) {
    std::string where = "stage " + std::to_string(j) + " has ";
    if (stages[j].size() != static_cast<size_t>(problem.pipelines()))
      return where + std::to_string(stages[j].size()) + " devices, not " +
             std::to_string(problem.pipelines());
    for (int d : stages[j]) {
      std::string device = "device " + std::to_string(d);
      if (d < 0 || d >= problem.devices)
        return where + device + ", but there are " +
               std::to_string(problem.devices);
      if (taken[d])
        return where + device + ", which has a place already";
      taken[d] = true;
    }
  }
  Placement truth = *this;
  truth.computeCost(problem);
  auto compare = [](const char *what, double claimed, double is) {
    // Not the negation: a claim of NaN is wrong, too.
    if (std::abs(claimed - is) <= 1e-12 * is)
      return std::string();
    char text[96];
    std::snprintf(text, sizeof(text), "claims %.9g s of %s, but takes %.9g s",
                  claimed, what, is);
    return std::string(text);
  };
  std::string error =
      compare("data parallelism", dataParallel, truth.dataParallel);
  return error.empty() ? compare("pipeline", pipeline, truth.pipeline) : error;
}

/// A second or two: all greedy paths of up to 242 stages.
static constexpr double finalPathEffort = 1e9;

Placement poplar::arrange(const PlacementProblem &problem,
                          const std::vector<std::vector<int>> &groups) {
  Placement placement;
  placement.stages = groups;
  arrangeGroups(PlacementCosts(problem), placement.stages, largestExactPath,
                finalPathEffort);
  placement.computeCost(problem);
  return placement;
}
