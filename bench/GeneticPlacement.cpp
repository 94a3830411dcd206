//===- GeneticPlacement.cpp - DT-FM's genetic algorithm -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GeneticPlacement.h"
#include "Placement/PlacementPath.h"
#include <algorithm>
#include <ctime>
#include <limits>
#include <numeric>
#include <random>

using namespace poplar;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static constexpr int population = 100;

double getCPUSeconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

namespace {
/// By device, its group.
using Partition = std::vector<int>;

class Genetic {
public:
  Genetic(const PlacementProblem &problem, unsigned seed)
      : costs(problem), devices(problem.devices), groups(problem.stages),
        size(problem.pipelines()), random(seed) {}

  Partition shuffle();
  Partition cross(const Partition &donor, Partition offspring);
  Partition moveInCycles(const Partition &start);
  double getCost(const Partition &partition) const;
  int below(int bound) { return static_cast<int>(random() % bound); }

  std::vector<std::vector<int>> getGroups(const Partition &partition) const;

private:
  /// The best move out of each group.
  struct Moves {
    std::vector<int> device, target;
    std::vector<double> gain;
    /// From group to group, row-major.
    std::vector<double> gains;
  };
  Moves findMoves(const Partition &partition,
                  const std::vector<bool> &locked) const;

  PlacementCosts costs;
  int devices, groups, size;
  std::mt19937 random;
};
} // namespace

Partition Genetic::shuffle() {
  std::vector<int> order(devices);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Partition partition(devices);
  for (int i = 0; i < devices; ++i)
    partition[order[i]] = i / size;
  return partition;
}

Partition Genetic::cross(const Partition &donor, Partition offspring) {
  std::vector<int> points(devices);
  std::iota(points.begin(), points.end(), 0);
  std::shuffle(points.begin(), points.end(), random);
  points.resize(std::min(devices, 5));
  for (int point : points)
    offspring[point] = donor[point];
  std::vector<int> sizes(groups);
  for (int group : offspring)
    ++sizes[group];
  for (int &group : offspring)
    if (sizes[group] > size) {
      int small = 0;
      while (sizes[small] >= size)
        ++small;
      --sizes[group];
      ++sizes[small];
      group = small;
    }
  return offspring;
}

Genetic::Moves Genetic::findMoves(const Partition &partition,
                                  const std::vector<bool> &locked) const {
  std::vector<int> sizes(groups);
  for (int group : partition)
    ++sizes[group];
  // By group, the unlocked device of the fastest link inside it.
  Moves moves;
  moves.device.assign(groups, -1);
  std::vector<double> fastest(groups, infinity);
  for (int d = 0; d < devices; ++d) {
    if (locked[d])
      continue;
    const double *cost = costs.pipelineOf(d);
    for (int other = 0; other < devices; ++other)
      if (other != d && partition[other] == partition[d] &&
          cost[other] < fastest[partition[d]]) {
        fastest[partition[d]] = cost[other];
        moves.device[partition[d]] = d;
      }
  }
  moves.target.assign(groups, -1);
  moves.gain.assign(groups, -infinity);
  moves.gains.assign(groups * groups, -infinity);
  for (int group = 0; group < groups; ++group) {
    int d = moves.device[group];
    if (d < 0)
      continue;
    double *gains = &moves.gains[group * groups];
    std::vector<double> mean(groups);
    for (int other = 0; other < devices; ++other)
      mean[partition[other]] +=
          costs.pipelineOf(d)[other] / sizes[partition[other]];
    for (int target = 0; target < groups; ++target) {
      if (target == group)
        continue;
      gains[target] = mean[target] - fastest[group];
      if (gains[target] > moves.gain[group]) {
        moves.gain[group] = gains[target];
        moves.target[group] = target;
      }
    }
  }
  return moves;
}

Partition Genetic::moveInCycles(const Partition &start) {
  std::vector<bool> locked(devices), entered(groups);
  std::vector<Partition> partitions = {start};
  std::vector<double> sums = {0};
  for (int cycle = 0; cycle < groups; ++cycle) {
    struct Move {
      int device, from;
    };
    Partition current = partitions.back();
    std::vector<Move> made;
    std::vector<double> gains, closing;
    Moves moves = findMoves(current, locked);
    int first = std::max_element(moves.gain.begin(), moves.gain.end()) -
                moves.gain.begin();
    int group = first;
    for (int i = 0; i < devices; ++i) {
      int device = moves.device[group], target = moves.target[group];
      if (device < 0 && made.empty())
        break;
      if (device < 0) {
        device = made.back().device;
        target = first;
      }
      current[device] = target;
      locked[device] = true;
      entered[target] = true;
      made.push_back({device, group});
      gains.push_back(moves.gain[group]);
      closing.push_back(moves.gains[group * groups + first]);
      group = target;
      if (group == first)
        break;
      moves = findMoves(current, locked);
    }
    if (made.empty())
      break;
    // As many moves as gain most if the last then closes the cycle.
    double most = 0, sum = 0;
    size_t last = 0;
    for (size_t i = 1; i < gains.size(); ++i) {
      sum += gains[i - 1];
      if (sum + closing[i] > most) {
        most = sum + closing[i];
        last = i;
      }
    }
    for (size_t i = made.size() - 1; i > last; --i)
      current[made[i].device] = made[i].from;
    current[made[last].device] = first;
    partitions.push_back(std::move(current));
    sums.push_back(most);
    if (std::all_of(entered.begin(), entered.end(), [](bool b) { return b; }))
      break;
  }
  double most = 0, sum = 0;
  size_t best = 0;
  for (size_t i = 1; i < sums.size(); ++i) {
    sum += sums[i - 1];
    if (sum > most) {
      most = sum;
      best = i - 1;
    }
  }
  return partitions[best];
}

std::vector<std::vector<int>>
Genetic::getGroups(const Partition &partition) const {
  std::vector<std::vector<int>> result(groups);
  for (int d = 0; d < devices; ++d)
    result[partition[d]].push_back(d);
  return result;
}

double Genetic::getCost(const Partition &partition) const {
  std::vector<std::vector<int>> stages = getGroups(partition);
  arrangeGroups(costs, stages, largestExactPath, /*effort=*/1e9);
  double dataParallel = 0, pipeline = 0;
  for (size_t j = 0; j < stages.size(); ++j) {
    for (int d : stages[j]) {
      double sum = 0;
      for (int other : stages[j])
        sum += costs.dataParallelOf(d)[other];
      dataParallel = std::max(dataParallel, sum);
    }
    double slowest = 0;
    for (int k = 0; j + 1 < stages.size() && k < size; ++k)
      slowest =
          std::max(slowest, costs.pipelineOf(stages[j][k])[stages[j + 1][k]]);
    pipeline += slowest;
  }
  return dataParallel + pipeline;
}

GeneticResult placeGenetically(const PlacementProblem &problem,
                               int64_t offspring, double cpuSeconds,
                               unsigned seed) {
  double begin = getCPUSeconds();
  Genetic genetic(problem, seed);
  std::vector<Partition> partitions;
  std::vector<double> scores;
  for (int i = 0; i < population; ++i) {
    partitions.push_back(genetic.shuffle());
    scores.push_back(genetic.getCost(partitions.back()));
  }
  auto least = std::min_element(scores.begin(), scores.end());
  Partition best = partitions[least - scores.begin()];
  double bestScore = *least;
  int64_t made = 0;
  for (; made < offspring || getCPUSeconds() - begin < cpuSeconds; ++made) {
    int first = genetic.below(population), second = genetic.below(population);
    Partition child = genetic.moveInCycles(
        genetic.cross(partitions[first], partitions[second]));
    double score = genetic.getCost(child);
    if (score < bestScore) {
      best = child;
      bestScore = score;
    }
    if (score > std::max(scores[first], scores[second]))
      continue;
    int worse = scores[first] > scores[second] ? first : second;
    partitions[worse] = std::move(child);
    scores[worse] = score;
  }
  return {arrange(problem, genetic.getGroups(best)), made,
          getCPUSeconds() - begin};
}
