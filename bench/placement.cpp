//===- placement.cpp - Placements against the genetic algorithm -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: placement [--genetic] NETWORK.json...
//        placement --random COUNT [FIRST [TIMES]]
//        placement --unlike COUNT [FIRST [TIMES]]
//
// The first places networks with 8 stages and, with --genetic, compares with
// the genetic algorithm of DT-FM as in the paper (4,900 offspring). The second
// compares on random networks of 16 to 256 devices, where the genetic algorithm
// has TIMES (100) times the processor time of the search. Exit status 1 if it
// was better anywhere. The third does so for unlike devices on these networks
// (GeneticGeo.h), with TIMES = 1.
//
//===----------------------------------------------------------------------===//

#include "GeneticGeo.h"
#include "GeneticPlacement.h"
#include "Poplar/Import/Network.h"
#include "Poplar/Planner/Geo/GeoSearch.h"
#include "Poplar/Planner/Placement/PlacementSearch.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace poplar;

static constexpr int64_t paperOffspring = 4900;

/// By number: devices scattered over a square, in clusters on it, or in
/// clusters with an uplink of its own for each device; 16 to 256 of them.
static const char *const kinds[] = {"scattered", "regions", "unlike uplinks",
                                    "data centres", "any links"};

/// Seconds and Gbit/s between two devices, of which kind says how.
struct Link {
  double delay, bandwidth;
};

/// Racks of four, four in a data centre; between data centres, links that
/// differ by up to ten times.
static std::vector<Link> linkDataCentres(int devices, std::mt19937 &random) {
  auto uniform = [&] { return random() / 4294967296.0; };
  int centres = (devices + 15) / 16;
  std::vector<Link> wide(centres * centres), links;
  for (Link &link : wide)
    link = {0.002 + 0.1 * uniform(), 0.2 * std::pow(10, uniform())};
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < devices; ++j) {
      if (i / 4 == j / 4)
        links.push_back({1e-5, 25});
      else if (i / 16 == j / 16)
        links.push_back({1e-4, 5});
      else
        links.push_back(
            wide[std::min(i, j) / 16 * centres + std::max(i, j) / 16]);
    }
  return links;
}

/// Links whose pairs are drawn independently: no triangle has to close.
static std::vector<Link> linkAnyhow(int devices, std::mt19937 &random) {
  auto uniform = [&] { return random() / 4294967296.0; };
  std::vector<Link> links(devices * devices);
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < i; ++j)
      links[i * devices + j] = links[j * devices + i] = {
          0.001 * std::pow(100, uniform()), 0.1 * std::pow(100, uniform())};
  return links;
}

/// Devices in the plane, scattered or in regions: up to some 140 ms across, and
/// bandwidth that falls with it, at most that of the slower uplink.
static std::vector<Link> linkPlane(int devices, int kind,
                                   std::mt19937 &random) {
  auto uniform = [&] { return random() / 4294967296.0; };
  int clusters = 2 + static_cast<int>(uniform() * 8);
  std::vector<double> x, y, uplink, centers;
  for (int i = 0; i < 2 * clusters; ++i)
    centers.push_back(uniform());
  for (int i = 0; i < devices; ++i) {
    int cluster = static_cast<int>(uniform() * clusters);
    x.push_back(kind == 0 ? uniform()
                          : centers[2 * cluster] + 0.02 * uniform());
    y.push_back(kind == 0 ? uniform()
                          : centers[2 * cluster + 1] + 0.02 * uniform());
    uplink.push_back(kind == 2 ? 0.5 * std::pow(10, uniform()) : 1);
  }
  std::vector<Link> links;
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < devices; ++j) {
      double distance = std::hypot(x[i] - x[j], y[i] - y[j]);
      links.push_back({0.001 + 0.1 * distance,
                       std::min(uplink[i], uplink[j]) / (0.1 + 2 * distance)});
    }
  return links;
}

/// Five kinds of every size, one after the other.
static PlacementProblem makeNetwork(int number, std::string &name) {
  static const int sizes[][2] = {{16, 4}, {24, 4},  {32, 4},  {48, 6}, {64, 8},
                                 {96, 8}, {128, 8}, {192, 8}, {256, 8}};
  std::mt19937 random(number);
  PlacementProblem problem;
  problem.devices = sizes[number / 5 % 9][0];
  problem.stages = sizes[number / 5 % 9][1];
  // As in the paper.
  problem.cDP = 5.2;
  problem.cPP = 3.77;
  int kind = number % 5;
  name = std::to_string(number) + " " + kinds[kind];
  for (const Link &link : kind < 3    ? linkPlane(problem.devices, kind, random)
                          : kind == 3 ? linkDataCentres(problem.devices, random)
                                      : linkAnyhow(problem.devices, random)) {
    problem.delay.push_back(link.delay);
    problem.bandwidth.push_back(link.bandwidth);
  }
  return problem;
}

static bool compare(const char *name, const PlacementProblem &problem,
                    bool genetic, int64_t offspring, double timesTheTime) {
  double begin = getCPUSeconds();
  Placement placement = searchPlacement(problem);
  double seconds = getCPUSeconds() - begin;
  std::string error = placement.verify(problem);
  if (!error.empty()) {
    std::fprintf(stderr, "%s: %s\n", name, error.c_str());
    std::exit(1);
  }
  double bound = boundPlacement(problem);
  std::printf("%-24s %4d x %-4d %9.4f %9.4f %6.1f %% %7.2f", name,
              problem.stages, problem.pipelines(), placement.seconds(), bound,
              100 * (placement.seconds() - bound) / placement.seconds(),
              seconds);
  bool good = true;
  if (genetic) {
    GeneticResult other =
        placeGenetically(problem, offspring, timesTheTime * seconds, 1);
    double cost = other.placement.seconds();
    // Rounding is no difference.
    good = placement.seconds() <= cost * (1 + 1e-9);
    std::printf(" | %9.4f %8.2f %9lld %6.3f", cost, other.cpuSeconds,
                static_cast<long long>(other.offspring),
                placement.seconds() / cost);
  }
  std::printf("\n");
  std::fflush(stdout);
  return good;
}

/// The devices of a network with three speeds and two sizes of memory, which
/// train 32 layers.
static GeoProblem makeUnlike(const PlacementProblem &network, int number) {
  std::mt19937 random(1000 + number);
  GeoProblem problem;
  ParameterElements layer;
  layer.trained = 1000000000;
  problem.parameters.units.assign(32, layer);
  problem.gradientBytes = problem.parameterBytes = 0.2;
  problem.boundaryBytes = 2e7;
  problem.microBatches = 128;
  for (double speed : {1.0, 2.0, 4.0})
    for (double memory : {16e9, 40e9}) {
      GeoProblem::Kind kind;
      kind.name = "kind";
      kind.memory = memory;
      kind.state.replicated = 0.6;
      kind.state.sharded = 1.2;
      kind.modes.resize(1);
      kind.modes[0].forward.assign(32, 0.04 / speed);
      kind.modes[0].backward.assign(32, 0.08 / speed);
      kind.modes[0].savedBytes.assign(32, 2e8);
      kind.modes[0].workBytes.assign(32, 0);
      problem.kinds.push_back(std::move(kind));
    }
  for (int i = 0; i < network.devices; ++i) {
    problem.devices.push_back({static_cast<int>(random() % 6), i});
    problem.nodes.push_back({"device", {}});
  }
  for (size_t i = 0; i < network.delay.size(); ++i)
    problem.links.push_back({network.delay[i], network.bandwidth[i] * 1.25e8});
  return problem;
}

static bool compareUnlike(const char *name, const GeoProblem &problem,
                          double timesTheTime) {
  double begin = getCPUSeconds();
  GeoSearchResult result = searchGeoPlan(problem);
  double seconds = getCPUSeconds() - begin;
  std::string error = result.plan ? result.plan->verify(problem) : result.error;
  if (!error.empty()) {
    std::fprintf(stderr, "%s: %s\n", name, error.c_str());
    std::exit(1);
  }
  const GeoPlan &plan = *result.plan;
  std::printf("%-24s %4zu x %-4zu %9.4f %9.4f %6.1f %% %7.2f", name,
              plan.stages.size(), plan.pipelines(), plan.seconds,
              result.lowerBound, 100 * (1 - result.lowerBound / plan.seconds),
              seconds);
  GeneticGeoResult other =
      planGenetically(problem, timesTheTime * seconds, /*seed=*/1);
  double cost = other.plan ? other.plan->seconds : INFINITY;
  std::printf(" | %9.4f %8.2f %9lld %6.3f\n", cost, other.cpuSeconds,
              static_cast<long long>(other.offspring), plan.seconds / cost);
  std::fflush(stdout);
  return plan.seconds <= cost * (1 + 1e-9);
}

static int fail(const std::string &message) {
  std::fprintf(stderr, "placement: error: %s\n", message.c_str());
  return 1;
}

int main(int argc, char **argv) {
  bool isUnlike = argc > 2 && !std::strcmp(argv[1], "--unlike");
  bool isRandom = isUnlike || (argc > 2 && !std::strcmp(argv[1], "--random"));
  bool genetic = isRandom || (argc > 1 && !std::strcmp(argv[1], "--genetic"));
  if (argc < 2 || (genetic && argc < 3))
    return fail("usage: placement [--genetic] NETWORK.json... | --random "
                "COUNT [FIRST [TIMES]] | --unlike COUNT [FIRST [TIMES]]");
  std::printf("Costs and bounds in seconds an iteration (estimates); time in "
              "seconds of one core\n%-24s %11s %9s %9s %8s %7s",
              "network", "stages", "cost", "bound", "gap", "time");
  if (genetic)
    std::printf(" | %9s %8s %9s %6s", "genetic", "time", "offspring", "ratio");
  std::printf("\n");
  int worse = 0;
  if (isRandom) {
    int count = std::atoi(argv[2]), first = argc > 3 ? std::atoi(argv[3]) : 0;
    double times = argc > 4 ? std::atof(argv[4]) : isUnlike ? 1 : 100;
    for (int number = first; number < first + count; ++number) {
      std::string name;
      PlacementProblem problem = makeNetwork(number, name);
      worse += isUnlike ? !compareUnlike(name.c_str(),
                                         makeUnlike(problem, number), times)
                        : !compare(name.c_str(), problem, times > 0,
                                   /*offspring=*/0, times);
    }
  } else {
    for (int i = 1 + genetic; i < argc; ++i) {
      std::string error;
      std::optional<NetworkProblem> network =
          readNetwork(argv[i], "", /*stages=*/8, error);
      if (!network)
        return fail(error);
      auto *problem = std::get_if<PlacementProblem>(&*network);
      if (!problem)
        return fail(std::string(argv[i]) + ": its devices are unlike");
      std::string name = argv[i];
      name.erase(0, name.rfind('/') + 1);
      worse += !compare(name.c_str(), *problem, genetic, paperOffspring, 0);
    }
  }
  if (worse)
    std::printf("the genetic algorithm was better %d times\n", worse);
  return worse ? 1 : 0;
}
