//===- GeoAnnealing.cpp - Local search for distant pipelines --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Geo/GeoAnnealing.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace poplar;

/// The last temperature, relative to the cost.
static constexpr double cold = 1e-4;
/// Where pipelines take fewer micro-batches each, these are shared exactly with
/// every change.
static constexpr int64_t fewMicroBatches = 8;
/// The penalty for what does not fit, as a multiple of the time, and by the
/// share of memory that it exceeds.
static constexpr double misfit = 10;

GeoAnnealing::GeoAnnealing(const GeoCosts &costs, PipelineSchedule schedule,
                           int stages, int pipelines)
    : costs(costs), problem(costs.problem),
      grid(costs, schedule, stages, pipelines),
      isExact(problem.microBatches < fewMicroBatches * pipelines) {}

void GeoAnnealing::load(const GeoState &state) {
  grid.cells = state.cells;
  grid.cuts = state.cuts;
  rest = state.rest;
  grid.refresh();
  current = price();
}

GeoState GeoAnnealing::save() const { return {grid.cells, rest, grid.cuts}; }

double GeoAnnealing::price() {
  done += static_cast<int64_t>(grid.cells.size());
  GeoGrid::Guide guide = grid.getGuide();
  bool fits = guide.excess == 0;
  if (isExact) {
    done += static_cast<int64_t>(grid.cells.size());
    double seconds = grid.share(shares);
    fits = std::isfinite(seconds);
    if (fits)
      guide.seconds = seconds;
  }
  return (guide.seconds + weight * guide.mean) *
         (fits ? 1 : 1 + misfit * (1 + guide.excess));
}

double GeoAnnealing::getCost(const GeoState &state) {
  weight = 0;
  load(state);
  weight = meanWeight;
  return current;
}

double GeoAnnealing::share(const GeoState &state,
                           std::vector<int64_t> &result) {
  load(state);
  return grid.share(result);
}

int64_t GeoAnnealing::takeEffort() {
  int64_t effort = done;
  done = 0;
  return effort;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// Places beyond the cells are of devices without one.
bool GeoAnnealing::exchange(int place, int otherPlace) {
  int cells = static_cast<int>(grid.cells.size());
  auto get = [&](int at) -> int & {
    return at < cells ? grid.cells[at] : rest[at - cells];
  };
  int &d = get(place), &other = get(otherPlace);
  const GeoProblem::Device &device = problem.devices[d],
                           &otherDevice = problem.devices[other];
  if (device.kind == otherDevice.kind && device.node == otherDevice.node)
    return false;
  std::swap(d, other);
  int row = place / grid.pipelines, otherRow = otherPlace / grid.pipelines;
  grid.refreshStage(row);
  if (otherPlace < cells && otherRow != row)
    grid.refreshStage(otherRow);
  return true;
}

bool GeoAnnealing::moveUnit(int from, int to) {
  if (from == to || grid.cuts[from + 1] - grid.cuts[from] < 2)
    return false;
  for (int j = from; j < to; ++j)
    --grid.cuts[j + 1];
  for (int j = to; j < from; ++j)
    ++grid.cuts[j + 1];
  grid.refreshCuts(std::min(from, to), std::max(from, to));
  return true;
}

/// False if it changes nothing, or cannot be.
bool GeoAnnealing::apply(const Move &move) {
  switch (move.kind) {
  case Move::Exchange:
    return exchange(move.first, move.second);
  case Move::Units:
    return moveUnit(move.first, move.second);
  case Move::Stages:
    if (move.first == move.second)
      return false;
    for (int k = 0; k < grid.pipelines; ++k)
      std::swap(grid.at(move.first, k), grid.at(move.second, k));
    grid.refreshStage(move.first);
    grid.refreshStage(move.second);
    return true;
  case Move::Cross:
    if (move.second == move.column)
      return false;
    for (int j = move.first; j < grid.stages; ++j) {
      std::swap(grid.at(j, move.second), grid.at(j, move.column));
      grid.refreshStage(j);
    }
    return true;
  }
  return false;
}

void GeoAnnealing::undo(const Move &move) {
  if (move.kind == Move::Units)
    moveUnit(move.second, move.first);
  else
    apply(move);
}

GeoAnnealing::Move GeoAnnealing::propose(Sequence &sequence) {
  int cells = static_cast<int>(grid.cells.size()),
      places = cells + static_cast<int>(rest.size()), what = sequence.below(16);
  if (what < 5 && grid.stages > 1) {
    int from = sequence.below(grid.stages);
    // Most often to the next.
    int to = sequence.below(2) ? sequence.below(grid.stages)
                               : from + 1 - 2 * sequence.below(2);
    return {Move::Units, from, std::clamp(to, 0, grid.stages - 1), 0};
  }
  if (what == 5)
    return {Move::Stages, sequence.below(grid.stages),
            sequence.below(grid.stages), 0};
  if (what == 6 && grid.stages > 1)
    return {Move::Cross, 1 + sequence.below(grid.stages - 1),
            sequence.below(grid.pipelines), sequence.below(grid.pipelines)};
  return {Move::Exchange, sequence.below(cells), sequence.below(places), 0};
}

bool GeoAnnealing::tryMove(const Move &move) {
  if (!apply(move))
    return false;
  double seconds = price();
  if (seconds < current * (1 - 1e-12)) {
    current = seconds;
    return true;
  }
  undo(move);
  return false;
}

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

void GeoAnnealing::improveCuts(int reach) {
  for (bool improves = true; improves;) {
    improves = false;
    for (int from = 0; from < grid.stages; ++from)
      for (int to = std::max(from - reach, 0);
           to <= std::min(from + reach, grid.stages - 1); ++to)
        while (tryMove({Move::Units, from, to, 0}))
          improves = true;
  }
}

GeoState GeoAnnealing::complete(std::vector<int> cells) {
  grid.cells = std::move(cells);
  std::vector<bool> taken(problem.devices.size());
  for (int d : grid.cells)
    taken[d] = true;
  rest.clear();
  for (size_t d = 0; d < taken.size(); ++d)
    if (!taken[d])
      rest.push_back(static_cast<int>(d));
  // Stages get units in proportion to their mean speed.
  int units = problem.units();
  std::vector<double> sums = {0};
  for (int j = 0; j < grid.stages; ++j) {
    double seconds = 0;
    for (int k = 0; k < grid.pipelines; ++k) {
      int kind = problem.devices[grid.at(j, k)].kind;
      seconds += costs.getForward(kind, 0, 0, units) +
                 costs.getBackward(kind, 0, 0, units);
    }
    sums.push_back(sums.back() + 1 / seconds);
  }
  for (int j = 0; j <= grid.stages; ++j)
    grid.cuts[j] =
        std::clamp(static_cast<int>(std::lround(units * sums[j] / sums.back())),
                   j > 0 ? grid.cuts[j - 1] + 1 : 0, units - (grid.stages - j));
  grid.refresh();
  current = price();
  improveCuts(/*reach=*/1);
  return save();
}

/// With the cuts that then suit.
bool GeoAnnealing::tryWithCuts(const Move &move) {
  if (tryMove(move))
    return true;
  double before = current;
  std::vector<int> cuts = grid.cuts;
  if (!apply(move))
    return false;
  current = price();
  improveCuts(grid.stages);
  if (current < before * (1 - 1e-12))
    return true;
  grid.cuts = std::move(cuts);
  grid.refreshCuts(0, grid.stages - 1);
  undo(move);
  current = before;
  return false;
}

/// Every change of a kind, over and over, as long as some improve.
void GeoAnnealing::improve(int64_t limit) {
  int cells = static_cast<int>(grid.cells.size()),
      places = cells + static_cast<int>(rest.size());
  for (bool improves = true; improves;) {
    improves = false;
    improveCuts(grid.stages);
    for (int place = 0; place < cells; ++place)
      for (int other = place + 1; other < places; ++other) {
        if (done >= limit)
          return;
        improves |= tryMove({Move::Exchange, place, other, 0});
      }
    for (int j = 0; j < grid.stages; ++j)
      for (int other = 0; other < j; ++other)
        improves |= tryWithCuts({Move::Stages, j, other, 0});
    for (int place = 0; place < cells && !improves; ++place)
      for (int other = place + 1; other < places; ++other) {
        if (done >= limit)
          return;
        improves |= tryWithCuts({Move::Exchange, place, other, 0});
      }
  }
}

GeoState GeoAnnealing::anneal(const GeoState &from, double hot, int64_t effort,
                              uint64_t number) {
  Sequence sequence(number);
  load(from);
  GeoState best = from;
  double least = current, start = current;
  int64_t begin = done;
  while (done - begin < effort) {
    double progress =
               static_cast<double>(done - begin) / static_cast<double>(effort),
           temperature = start * hot * std::pow(cold / hot, progress);
    Move move = propose(sequence);
    if (!apply(move)) {
      ++done;
      continue;
    }
    double seconds = price();
    if (seconds > current - temperature * std::log(sequence.unit())) {
      undo(move);
      continue;
    }
    current = seconds;
    if (current < least) {
      least = current;
      best = save();
    }
  }
  load(best);
  improve(begin + 3 * effort / 2);
  // What maxima hide has served its purpose.
  weight = 0;
  load(save());
  improve(begin + 2 * effort);
  weight = meanWeight;
  return save();
}
