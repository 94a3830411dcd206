//===- PlacementGrid.cpp - A placement under local search -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement/PlacementGrid.h"
#include <algorithm>
#include <cmath>
#include <tuple>

using namespace poplar;

/// An exchange is judged by the cost and, with this weight, by the means that
/// its maxima hide (of the groups' DATAP, of the links of neighbouring stages):
/// where the maxima do not move, these still point somewhere.
static constexpr double guide = 0.1;

/// What is spent on the order of the stages each time. All greedy paths of up
/// to 38 stages are tried; of more than 239, the order is left to exchanges.
static constexpr int exactStages = 10;
static constexpr double pathEffort = 4e6;

uint64_t Sequence::next() {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

PlacementGrid::PlacementGrid(const PlacementCosts &costs, int stages)
    : costs(costs), devices(costs.devices), rows(stages),
      columns(devices / stages),
      data(costs.dataParallel.begin(), costs.dataParallel.end()),
      pipe(costs.pipeline.begin(), costs.pipeline.end()), cells(devices),
      rowOf(devices), columnOf(devices), sums(devices), rowMax(rows),
      links(devices), linkMax(rows), linkSum(rows), scratch(columns),
      scratchPrime(columns) {
  auto same = [&](int i, int j) {
    for (int k = 0; k < devices; ++k)
      if (k != i && k != j &&
          (costs.dataParallelOf(i)[k] != costs.dataParallelOf(j)[k] ||
           costs.pipelineOf(i)[k] != costs.pipelineOf(j)[k]))
        return false;
    return true;
  };
  // Being twins is an equivalence, so one of each class is enough to compare.
  std::vector<int> eldest;
  for (int i = 0; i < devices; ++i) {
    auto twin = std::find_if(eldest.begin(), eldest.end(),
                             [&](int j) { return same(i, j); });
    twins.push_back(twin - eldest.begin());
    if (twin == eldest.end())
      eldest.push_back(i);
  }
}

void PlacementGrid::load(const Stages &stages) {
  greatest = 0;
  for (int j = 0; j < rows; ++j)
    for (int k = 0; k < columns; ++k) {
      int d = stages[j][k];
      cells[j * columns + k] = d;
      rowOf[d] = j;
      columnOf[d] = k;
    }
  for (int j = 0; j < rows; ++j) {
    rowMax[j] = 0;
    for (int d : stages[j]) {
      sums[d] = 0;
      for (int dPrime : stages[j])
        sums[d] += data[size_t(d) * devices + dPrime];
      rowMax[j] = std::max(rowMax[j], sums[d]);
    }
    greatest = std::max<double>(greatest, rowMax[j]);
    linkMax[j] = linkSum[j] = 0;
    for (int k = 0; j + 1 < rows && k < columns; ++k) {
      float &link = links[j * columns + k];
      link = pipe[size_t(stages[j][k]) * devices + stages[j + 1][k]];
      linkMax[j] = std::max(linkMax[j], link);
      linkSum[j] += link;
    }
  }
}

PlacementGrid::Stages PlacementGrid::save() const {
  Stages stages(rows);
  for (int j = 0; j < rows; ++j)
    stages[j].assign(cells.begin() + j * columns,
                     cells.begin() + (j + 1) * columns);
  return stages;
}

double PlacementGrid::getSeconds(const Stages &stages) const {
  double greatest = 0, path = 0;
  for (int j = 0; j < rows; ++j) {
    for (int d : stages[j]) {
      double sum = 0;
      for (int dPrime : stages[j])
        sum += costs.dataParallelOf(d)[dPrime];
      greatest = std::max(greatest, sum);
    }
    double slowest = 0;
    for (int k = 0; j + 1 < rows && k < columns; ++k)
      slowest =
          std::max(slowest, costs.pipelineOf(stages[j][k])[stages[j + 1][k]]);
    path += slowest;
  }
  return greatest + path;
}

void PlacementGrid::rearrange() {
  Stages stages = save();
  arrangeGroups(costs, stages, exactStages, pathEffort);
  load(stages);
}

inline void PlacementGrid::scoreRows(Exchange &exchange) {
  auto [d, dPrime, j, jPrime] =
      std::tuple(exchange.d, exchange.dPrime, exchange.j, exchange.jPrime);
  auto sumRow = [&](int row, const float *leaves, const float *enters,
                    int column, std::vector<float> &newSums) {
    const int *cell = &cells[row * columns];
    float most = 0, own = 0;
    for (int k = 0; k < columns; ++k) {
      int other = cell[k];
      float sum = sums[other] - leaves[other] + enters[other];
      own += enters[other];
      newSums[k] = sum;
      most = std::max(most, k == column ? 0 : sum);
    }
    own -= enters[cell[column]];
    newSums[column] = own;
    return std::max(most, own);
  };
  const float *dataD = &data[size_t(d) * devices];
  const float *dataPrime = &data[size_t(dPrime) * devices];
  exchange.newMax = sumRow(j, dataD, dataPrime, columnOf[d], scratch);
  exchange.newMaxPrime =
      sumRow(jPrime, dataPrime, dataD, columnOf[dPrime], scratchPrime);
  exchange.newGreatest = std::max(exchange.newMax, exchange.newMaxPrime);
  for (int row = 0; row < rows; ++row)
    if (row != j && row != jPrime)
      exchange.newGreatest = std::max(exchange.newGreatest, rowMax[row]);
  exchange.change =
      exchange.newGreatest - greatest +
      guide / rows *
          (exchange.newMax - rowMax[j] + exchange.newMaxPrime - rowMax[jPrime]);
}

/// Adds the link from `row` to the next one in a column, if it is there.
inline void PlacementGrid::touchLink(Exchange &exchange, int row,
                                     int column) const {
  if (row < 0 || row + 1 >= rows)
    return;
  int i = 0;
  while (i < exchange.numLinks && exchange.links[i].row != row)
    ++i;
  if (i == exchange.numLinks)
    exchange.links[exchange.numLinks++] = {row, {}, {}, 0, 0, 0};
  Exchange::Link &link = exchange.links[i];
  if (link.count == 1 && link.column[0] == column)
    return;
  auto device = [&](int row) {
    int at = cells[row * columns + column];
    return at == exchange.d        ? exchange.dPrime
           : at == exchange.dPrime ? exchange.d
                                   : at;
  };
  link.column[link.count] = column;
  link.value[link.count++] =
      pipe[size_t(device(row)) * devices + device(row + 1)];
}

inline void PlacementGrid::scoreLinks(Exchange &exchange) const {
  touchLink(exchange, exchange.j - 1, columnOf[exchange.d]);
  touchLink(exchange, exchange.j, columnOf[exchange.d]);
  touchLink(exchange, exchange.jPrime - 1, columnOf[exchange.dPrime]);
  touchLink(exchange, exchange.jPrime, columnOf[exchange.dPrime]);
  for (int i = 0; i < exchange.numLinks; ++i) {
    Exchange::Link &link = exchange.links[i];
    const float *old = &links[link.row * columns];
    float most = 0, sum = linkSum[link.row];
    bool held = false;
    for (int c = 0; c < link.count; ++c) {
      most = std::max(most, link.value[c]);
      sum += link.value[c] - old[link.column[c]];
      held |= old[link.column[c]] == linkMax[link.row];
    }
    if (!held) {
      most = std::max(most, linkMax[link.row]);
    } else {
      int first = link.column[0];
      int second = link.count > 1 ? link.column[1] : first;
      for (int k = 0; k < columns; ++k)
        most = std::max(most, k == first || k == second ? 0 : old[k]);
    }
    link.max = most;
    link.sum = sum;
    exchange.change +=
        most - linkMax[link.row] + guide / columns * (sum - linkSum[link.row]);
  }
}

inline void PlacementGrid::apply(const Exchange &exchange) {
  auto [d, dPrime, j, jPrime] =
      std::tuple(exchange.d, exchange.dPrime, exchange.j, exchange.jPrime);
  if (j != jPrime) {
    for (int k = 0; k < columns; ++k) {
      sums[cells[j * columns + k]] = scratch[k];
      sums[cells[jPrime * columns + k]] = scratchPrime[k];
    }
    sums[dPrime] = scratch[columnOf[d]];
    sums[d] = scratchPrime[columnOf[dPrime]];
    rowMax[j] = exchange.newMax;
    rowMax[jPrime] = exchange.newMaxPrime;
    greatest = exchange.newGreatest;
  }
  for (int i = 0; i < exchange.numLinks; ++i) {
    const Exchange::Link &link = exchange.links[i];
    for (int c = 0; c < link.count; ++c)
      links[link.row * columns + link.column[c]] = link.value[c];
    linkMax[link.row] = link.max;
    linkSum[link.row] = link.sum;
  }
  std::swap(cells[j * columns + columnOf[d]],
            cells[jPrime * columns + columnOf[dPrime]]);
  std::swap(rowOf[d], rowOf[dPrime]);
  std::swap(columnOf[d], columnOf[dPrime]);
}

bool PlacementGrid::tryExchange(int d, int dPrime, double allowance) {
  Exchange exchange;
  exchange.d = d;
  exchange.dPrime = dPrime;
  exchange.j = rowOf[d];
  exchange.jPrime = rowOf[dPrime];
  if (exchange.j != exchange.jPrime)
    scoreRows(exchange);
  scoreLinks(exchange);
  if (exchange.change > allowance)
    return false;
  apply(exchange);
  return true;
}

double PlacementGrid::estimateArrangement() const {
  return estimateArranging(rows, columns, exactStages, pathEffort);
}

PlacementGrid::Stages PlacementGrid::anneal(const Stages &from,
                                            const Schedule &schedule) {
  Sequence sequence(schedule.sequence);
  load(from);
  rearrange();
  Stages best = save();
  const double start = getSeconds(best);
  double bestSeconds = start;
  for (int step = 0; step < schedule.steps; ++step) {
    double progress =
        schedule.steps > 1 ? double(step) / (schedule.steps - 1) : 1;
    double temperature =
        start * schedule.hot * std::pow(schedule.cold / schedule.hot, progress);
    for (int64_t i = 0; i < schedule.exchangesPerStep; ++i) {
      int d = sequence.below(devices), dPrime = sequence.below(devices);
      if (twins[d] == twins[dPrime])
        continue;
      tryExchange(d, dPrime, -temperature * std::log(sequence.unit()));
    }
    // Also undoes the rounding that has added up.
    if ((step + 1) * schedule.arrangements / schedule.steps >
        step * schedule.arrangements / schedule.steps)
      rearrange();
    else
      load(save());
    Stages now = save();
    double seconds = getSeconds(now);
    if (seconds < bestSeconds) {
      best = std::move(now);
      bestSeconds = seconds;
    }
  }
  return best;
}
