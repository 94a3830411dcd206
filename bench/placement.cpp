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
//
// The first places networks with 8 stages and, with --genetic, compares with
// the genetic algorithm of DT-FM as in the paper (4,900 offspring). The second
// compares on random networks of 16 to 256 devices, where the genetic algorithm
// has TIMES (100) times the processor time of the search. Exit status 1 if it
// was better anywhere.
//
//===----------------------------------------------------------------------===//

#include "GeneticPlacement.h"
#include "Poplar/Import/Network.h"
#include "Poplar/Planner/PlacementSearch.h"
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
static PlacementProblem makeNetwork(int number) {
  static const int sizes[][2] = {{16, 4}, {32, 4}, {64, 8}, {128, 8}, {256, 8}};
  std::mt19937 random(number);
  auto uniform = [&] { return random() / 4294967296.0; };
  PlacementProblem problem;
  problem.devices = sizes[number % 5][0];
  problem.stages = sizes[number % 5][1];
  // As in the paper.
  problem.cDP = 5.2;
  problem.cPP = 3.77;
  int kind = number / 5 % 3, clusters = 2 + static_cast<int>(uniform() * 8);
  std::vector<double> x, y, uplink, centers;
  for (int i = 0; i < 2 * clusters; ++i)
    centers.push_back(uniform());
  for (int i = 0; i < problem.devices; ++i) {
    int cluster = static_cast<int>(uniform() * clusters);
    x.push_back(kind == 0 ? uniform()
                          : centers[2 * cluster] + 0.02 * uniform());
    y.push_back(kind == 0 ? uniform()
                          : centers[2 * cluster + 1] + 0.02 * uniform());
    uplink.push_back(kind == 2 ? 0.5 * std::pow(10, uniform()) : 1);
  }
  // Up to some 140 ms across the square, and bandwidth that falls with it.
  for (int i = 0; i < problem.devices; ++i)
    for (int j = 0; j < problem.devices; ++j) {
      double distance = std::hypot(x[i] - x[j], y[i] - y[j]);
      problem.delay.push_back(0.001 + 0.1 * distance);
      problem.bandwidth.push_back(std::min(uplink[i], uplink[j]) /
                                  (0.1 + 2 * distance));
    }
  return problem;
}

/// Prints a row; true if the search was at least as good.
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

static int fail(const std::string &message) {
  std::fprintf(stderr, "placement: error: %s\n", message.c_str());
  return 1;
}

int main(int argc, char **argv) {
  bool isRandom = argc > 2 && !std::strcmp(argv[1], "--random");
  bool genetic = isRandom || (argc > 1 && !std::strcmp(argv[1], "--genetic"));
  if (argc < 2 || (genetic && argc < 3))
    return fail("usage: placement [--genetic] NETWORK.json... | --random "
                "COUNT [FIRST [TIMES]]");
  std::printf("Costs and bounds in seconds an iteration (estimates); time in "
              "seconds of one core\n%-24s %11s %9s %9s %8s %7s",
              "network", "stages", "cost", "bound", "gap", "time");
  if (genetic)
    std::printf(" | %9s %8s %9s %6s", "genetic", "time", "offspring", "ratio");
  std::printf("\n");
  int worse = 0;
  if (isRandom) {
    int count = std::atoi(argv[2]), first = argc > 3 ? std::atoi(argv[3]) : 0;
    double times = argc > 4 ? std::atof(argv[4]) : 100;
    for (int number = first; number < first + count; ++number) {
      std::string name = "random " + std::to_string(number);
      worse += !compare(name.c_str(), makeNetwork(number), true,
                        /*offspring=*/0, times);
    }
  } else {
    for (int i = 1 + genetic; i < argc; ++i) {
      std::string error;
      std::optional<PlacementProblem> problem =
          readNetwork(argv[i], "", /*stages=*/8, error);
      if (!problem)
        return fail(error);
      std::string name = argv[i];
      name.erase(0, name.rfind('/') + 1);
      worse += !compare(name.c_str(), *problem, genetic, paperOffspring, 0);
    }
  }
  if (worse)
    std::printf("the genetic algorithm was better %d times\n", worse);
  return worse ? 1 : 0;
}
