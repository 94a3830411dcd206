//===- ShareSearch.cpp - Who holds how much of the state ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Zero/ShareSearch.h"
#include "Batch/ExactPolicy.h"
#include "Never.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Zero/ShardBounds.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

using namespace poplar;

/// With more classes of ranks, all ranks of a type hold as much.
static constexpr size_t mostVariables = 48;
/// Problems to solve for a job; fewer for policies whose plans the bounds say
/// less of.
static constexpr int64_t mostWork = 600, mostWorkOfOthers = 24;

enum Load { Gather, Reduce, Overhead, Update };

//===----------------------------------------------------------------------===//
// The linear program
//===----------------------------------------------------------------------===//

std::optional<ShareSearch>
ShareSearch::make(const ClusterView &view, const ModelFacts &model,
                  const BatchPolicy &policy, int stage, int64_t globalBatch,
                  const std::vector<size_t> &classes, RankTraffic &traffic,
                  std::string &error) {
  auto problem = listDeviceTypes(view, view.countRanks(), model, stage,
                                 globalBatch, error);
  if (!problem)
    return std::nullopt;
  ShareSearch search(view, model, policy, std::move(*problem));
  if (!search.readMemory(stage, error))
    return std::nullopt;
  search.addLoads(classes, traffic);
  return search;
}

bool ShareSearch::readMemory(int stage, std::string &error) {
  numUnits = (model.countElements() + shardAlignment - 1) / shardAlignment;
  size_t numTypes = problem.types.size();
  freeBytes.resize(numTypes);
  unitBytes.resize(numTypes, 1);
  sampleBytes.resize(numTypes);
  for (size_t i = 0; i < numTypes; ++i) {
    auto type = static_cast<int>(i);
    if (problem.types[i].count == 0)
      continue;
    const DeviceType &device = view.types[i];
    const DeviceProfile *profile =
        view.findProfile(type, stage, model.fingerprint);
    auto memory = getMeasuredMemory(*profile, device, error);
    if (!memory)
      return false;
    freeBytes[i] = device.memory -
                   getFixedBytes(*profile, device, model, stage, 0, view.wires);
    int64_t sharded = model.getShardedBytes(
        StateFormat::of(device.getWorkingFormat()), stage);
    unitBytes[i] = (sharded * shardAlignment + model.countElements() - 1) /
                   std::max<int64_t>(model.countElements(), 1);
    sampleBytes[i] = memory->perSample;
    if (profile->optimizerSeconds)
      update = std::max(update,
                        *profile->optimizerSeconds / double(view.ranks.size()));
  }
  return true;
}

void ShareSearch::addLoad(size_t load, const CollectiveCost::Load &of,
                          double scale) {
  size_t numVariables = ownership.numVariables;
  std::vector<double> row(numVariables + numLoads + 1);
  double ranks = double(view.ranks.size());
  for (size_t i = 0; i < numVariables; ++i)
    row[i] = of.factors[i] / ranks * scale;
  row[numVariables + load] = -1;
  program.addRow(row, -of.constant * scale);
  hasLoad[load] = true;
}

RankTraffic::Loads ShareSearch::listLoads() const {
  CollectiveCost cost(view, view.ranks);
  RankTraffic::Loads loads;
  if (rates.gather > 0) {
    loads.gathers = cost.listPorts(ownership, false);
    loads.reductions = cost.listPorts(
        ownership, true, double(gradientWireBytes) / getGradientBytes(view));
  }
  if (rates.gatherOverhead > 0)
    loads.ranks = cost.listRanks(ownership);
  return loads;
}

void ShareSearch::addLoads(const std::vector<size_t> &classes,
                           RankTraffic &traffic) {
  ownership.classes = ownership.variables = classes;
  size_t numVariables = *std::max_element(classes.begin(), classes.end()) + 1;
  if (numVariables > mostVariables) {
    for (size_t rank = 0; rank < classes.size(); ++rank)
      ownership.variables[rank] = view.ranks[rank].type;
    numVariables = view.types.size();
    isMerged = true;
  }
  ownership.numVariables = numVariables;
  typeOf.resize(numVariables, -1);
  numRanks.resize(numVariables);
  for (size_t rank = 0; rank < classes.size(); ++rank) {
    typeOf[ownership.variables[rank]] = view.ranks[rank].type;
    ++numRanks[ownership.variables[rank]];
  }
  program = LinearProgram(numVariables + numLoads + 1);
  std::vector<double> sum;
  for (int64_t count : numRanks)
    sum.push_back(double(count) / double(classes.size()));
  program.addRow(sum, 1);
  for (double &part : sum)
    part = -part;
  program.addRow(sum, -1);

  rates = traffic.rates;
  if (!traffic.loads)
    traffic.loads = listLoads();
  const auto &[gathers, reductions, ranks] = *traffic.loads;
  double wire = getParameterBytes(view), gradient = getGradientBytes(view);
  if (rates.gather > 0) {
    isSymmetric = std::equal(
        gathers.begin(), gathers.end(), reductions.begin(), reductions.end(),
        [](const CollectiveCost::Load &a, const CollectiveCost::Load &b) {
          return a.constant == b.constant && a.factors == b.factors;
        });
    for (const CollectiveCost::Load &port : gathers)
      addLoad(Gather, port, wire / rates.gather);
    for (const CollectiveCost::Load &port : reductions)
      if (!isSymmetric)
        addLoad(Reduce, port, gradient / rates.reduce);
  }
  if (rates.gatherOverhead > 0) {
    // As much as the busiest does with equal shares.
    double equal = 0, each = 1 / double(classes.size());
    for (const CollectiveCost::Load &rank : ranks) {
      double sum = rank.constant;
      for (double factor : rank.factors)
        sum += factor * each;
      equal = std::max(equal, sum);
    }
    for (const CollectiveCost::Load &rank : ranks)
      addLoad(Overhead, rank, 1 / equal);
  }
  for (size_t i = 0; i < numVariables && update > 0; ++i) {
    if (numRanks[i] == 0)
      continue;
    const DeviceProfile *profile =
        view.findProfile(typeOf[i], problem.zeroStage, model.fingerprint);
    CollectiveCost::Load load = {0, std::vector<double>(numVariables)};
    load.factors[i] = profile->optimizerSeconds.value_or(0);
    addLoad(Update, load, 1 / update);
  }
}

std::vector<double> ShareSearch::getRooms(const Caps &caps) const {
  std::vector<double> rooms;
  for (size_t i = 0; i < ownership.numVariables; ++i) {
    double room = 0;
    if (numRanks[i] > 0) {
      int type = typeOf[i];
      int64_t bytes = freeBytes[type] - caps[type] * sampleBytes[type];
      room = double(std::clamp<int64_t>(bytes / unitBytes[type], 0, numUnits));
    }
    rooms.push_back(room / double(numUnits) * double(view.ranks.size()));
  }
  return rooms;
}

bool ShareSearch::hasRoom(const Caps &caps) const {
  int64_t units = 0;
  for (size_t type = 0; type < caps.size(); ++type) {
    int64_t bytes = freeBytes[type] - caps[type] * sampleBytes[type];
    units += problem.types[type].count *
             std::clamp<int64_t>(bytes / unitBytes[type], 0, numUnits);
  }
  return units >= numUnits;
}

LinearProgram ShareSearch::limit(const Caps &caps) const {
  LinearProgram limited = program;
  std::vector<double> rooms = getRooms(caps), row;
  for (size_t i = 0; i < rooms.size(); ++i) {
    row.assign(rooms.size(), 0);
    row[i] = 1;
    limited.addRow(row, rooms[i]);
  }
  return limited;
}

std::optional<std::vector<double>>
ShareSearch::minimize(const LinearProgram &limited, const Loads &weights,
                      double weightOfTime) const {
  // A little of each, to decide between equals.
  size_t numVariables = ownership.numVariables;
  std::vector<double> costs(numVariables);
  for (size_t load = 0; load < numLoads; ++load)
    costs.push_back(hasLoad[load] ? std::max(weights[load], 1e-7) : 0);
  costs.push_back(weightOfTime);
  auto found = limited.minimize(costs);
  if (found && isSymmetric)
    (*found)[numVariables + Reduce] = (*found)[numVariables + Gather];
  return found;
}

std::optional<ShareSearch::Loads>
ShareSearch::getLeastLoads(const Caps &caps) const {
  if (!hasRoom(caps))
    return std::nullopt;
  Loads least = {};
  LinearProgram limited = limit(caps);
  for (size_t load = 0; load < numLoads; ++load) {
    if (!hasLoad[load])
      continue;
    Loads weights = {};
    weights[load] = 1;
    auto found = minimize(limited, weights);
    if (!found)
      return std::nullopt;
    least[load] = (*found)[ownership.numVariables + load];
  }
  if (isSymmetric)
    least[Reduce] = least[Gather];
  return least;
}

void ShareSearch::pose(const Caps &caps, const Loads &loads) {
  TrafficRates scaled = rates;
  scaled.gather *= loads[Gather];
  scaled.reduce *= loads[Reduce];
  scaled.gatherOverhead *= loads[Overhead];
  scaled.reduceOverhead *= loads[Overhead];
  setSync(model, scaled, update * loads[Update], problem);
  for (size_t type = 0; type < caps.size(); ++type)
    problem.types[type].largestBatch = caps[type];
}

double ShareSearch::getTime(const Allocation &allocation, const Caps &caps,
                            const Loads &loads, double unit) {
  pose(caps, loads);
  return allocation.predict(problem) / unit;
}

ShareSearch::Loads ShareSearch::getSlope(const Allocation &allocation,
                                         const Caps &caps, const Loads &loads,
                                         double unit) {
  // Beside the loads, where no two pieces of the time meet.
  constexpr double step = 1e-7;
  Loads beside = loads, slope = {};
  for (size_t load = 0; load < numLoads; ++load)
    beside[load] += 1e-6 * double(3 + 2 * load * load);
  double time = getTime(allocation, caps, beside, unit);
  for (size_t load = 0; load < numLoads; ++load) {
    Loads more = beside;
    more[load] += step;
    if (load == Gather && isSymmetric)
      more[Reduce] += step;
    if (hasLoad[load])
      slope[load] =
          std::max((getTime(allocation, caps, more, unit) - time) / step, 0.0);
  }
  return slope;
}

bool ShareSearch::balance(const Allocation &allocation, const Caps &caps,
                          Loads &loads) {
  // The time is convex in the loads, and linear in pieces: it is at least what
  // each piece says (Kelley's cutting planes, 1960).
  LinearProgram limited = limit(caps);
  double unit = allocation.seconds;
  size_t numVariables = ownership.numVariables;
  Loads point = loads;
  for (int cuts = 0; cuts < 12; ++cuts) {
    Loads slope = getSlope(allocation, caps, point, unit);
    std::vector<double> row(numVariables);
    double limit = -getTime(allocation, caps, point, unit);
    for (size_t load = 0; load < numLoads; ++load) {
      row.push_back(slope[load]);
      limit += slope[load] * point[load];
    }
    row.push_back(-1);
    limited.addRow(row, limit);
    auto found = minimize(limited, {}, 1);
    if (!found)
      return false;
    std::copy_n(found->begin() + ptrdiff_t(numVariables), numLoads,
                point.begin());
    double time = getTime(allocation, caps, point, unit);
    if (time * unit < bestSeconds * (1 - 1e-12)) {
      bestSeconds = time * unit;
      bestShares.assign(found->begin(),
                        found->begin() + ptrdiff_t(numVariables));
      loads = point;
    }
    // What the pieces say is a bound.
    if (time <= found->back() * (1 + tolerance / 10) ||
        found->back() * unit >= bestSeconds * (1 - tolerance / 10))
      break;
  }
  loads = point;
  return bestSeconds <= unit * (1 + tolerance / 10);
}

//===----------------------------------------------------------------------===//
// Branch and bound
//===----------------------------------------------------------------------===//

bool ShareSearch::setBound(Box &box) {
  pose(box.high, box.loads);
  if (!problem.check().empty())
    return false;
  ++work;
  Allocation allocation = findBestAllocations(problem, 1)[0];
  box.bound = allocation.predict(problem);
  box.used.assign(box.high.size(), 0);
  for (size_t type = 0; type < box.used.size(); ++type)
    for (const auto &group : allocation.types[type].groups)
      box.used[type] = std::max(box.used[type], group.share.largestStep());
  return true;
}

void ShareSearch::tryCaps(const Caps &caps, const Loads &least) {
  if (!tried.insert(caps).second || !hasRoom(caps))
    return;
  if (improve(caps, least))
    return;
  // Where loads cannot all be at their least, also from a compromise.
  Loads equal;
  equal.fill(1);
  if (auto found = minimize(limit(caps), equal)) {
    Loads loads;
    std::copy_n(found->end() - 1 - numLoads, numLoads, loads.begin());
    improve(caps, loads);
  }
}

bool ShareSearch::improve(const Caps &caps, Loads loads) {
  for (int round = 0; round < 4; ++round) {
    pose(caps, loads);
    std::string error;
    std::optional<Allocation> allocation = policy.solve(problem, error);
    ++work;
    if (!allocation)
      return true;
    double before = bestSeconds;
    if (balance(*allocation, caps, loads))
      return true;
    if (bestSeconds >= before * (1 - tolerance / 10))
      break;
  }
  return false;
}

void ShareSearch::tryPart(const Box &box) {
  Caps caps = box.used;
  for (int part = 16; part >= 0; --part) {
    for (size_t type = 0; type < caps.size(); ++type) {
      int64_t low = std::min(box.low[type], box.used[type]);
      caps[type] = low + (box.used[type] - low) * part / 16;
    }
    if (!hasRoom(caps))
      continue;
    tryCaps(caps, box.loads);
    return;
  }
}

std::optional<size_t> ShareSearch::chooseType(const Box &box) const {
  std::optional<size_t> chosen;
  double most = 0;
  for (size_t type = 0; type < box.low.size(); ++type) {
    double units = double(problem.types[type].count) *
                   double(box.used[type] - box.low[type]) *
                   double(sampleBytes[type]) / double(unitBytes[type]);
    if (units > most) {
      chosen = type;
      most = units;
    }
  }
  return chosen;
}

ShareSearch::Result ShareSearch::run(double limit) {
  auto isWorse = [](const Box &a, const Box &b) { return a.bound > b.bound; };
  std::priority_queue<Box, std::vector<Box>, decltype(isWorse)> boxes(isWorse);
  Result result;
  bestSeconds = never;
  Box all;
  for (size_t type = 0; type < problem.types.size(); ++type) {
    int64_t most =
        std::min(problem.types[type].largestBatch, problem.globalBatch);
    if (sampleBytes[type] > 0)
      most = std::clamp<int64_t>(freeBytes[type] / sampleBytes[type], 0, most);
    all.low.push_back(sampleBytes[type] > 0 ? 0 : most);
    all.high.push_back(most);
  }
  auto loads = getLeastLoads(all.low);
  if (loads) {
    all.loads = *loads;
    if (setBound(all))
      boxes.push(all);
  }
  int64_t budget = policy.getName() == "exact" ? mostWork : mostWorkOfOthers;
  double least = never;
  while (!boxes.empty()) {
    Box box = boxes.top();
    boxes.pop();
    if (work >= budget)
      result.isShown = false;
    if (!result.isShown || box.bound > limit * (1 + 1e-9) ||
        box.bound >= bestSeconds * (1 - tolerance)) {
      least = box.bound;
      break;
    }
    tryPart(box);
    std::optional<size_t> type = chooseType(box);
    if (!type)
      continue;
    int64_t low = box.low[*type],
            middle = low + (box.used[*type] - low - 1) / 2;
    Box other = box;
    box.high[*type] = middle;
    if (setBound(box))
      boxes.push(std::move(box));
    other.low[*type] = middle + 1;
    if (auto loads = getLeastLoads(other.low)) {
      other.loads = *loads;
      if (setBound(other))
        boxes.push(std::move(other));
    }
  }
  result.least = std::min(least, bestSeconds);
  result.work = std::max<int64_t>(work, 1);
  result.isShown &= !isMerged;
  if (!bestShares.empty())
    result.state = getState();
  return result;
}

/// Whole units: each rank's share rounded down or up.
std::vector<double> ShareSearch::getState() const {
  // LP solutions may be off by rounding, rooms are whole units.
  constexpr double slack = 1e-5;
  double equal = double(numUnits) / double(view.ranks.size()), sum = 0;
  std::vector<int64_t> units;
  int64_t left = numUnits;
  for (size_t variable : ownership.variables) {
    double exact = bestShares[variable] * equal;
    sum += exact;
    int64_t until = numUnits - left;
    auto most = static_cast<int64_t>(std::ceil(exact - slack));
    units.push_back(std::clamp<int64_t>(std::llround(sum) - until, 0,
                                        std::min(most, left)));
    left -= units.back();
  }
  for (size_t rank = 0; rank < units.size() && left > 0; ++rank) {
    double exact = bestShares[ownership.variables[rank]] * equal;
    int64_t more = std::clamp<int64_t>(
        static_cast<int64_t>(std::ceil(exact - slack)) - units[rank], 0, left);
    units[rank] += more;
    left -= more;
  }
  std::vector<double> state;
  int64_t end = 0;
  for (int64_t count : units) {
    int64_t begin = std::min(end * shardAlignment, model.countElements());
    end += count;
    state.push_back(
        double(std::min(end * shardAlignment, model.countElements()) - begin) /
        double(model.countElements()));
  }
  return state;
}
