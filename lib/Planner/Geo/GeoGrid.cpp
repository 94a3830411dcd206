//===- GeoGrid.cpp - What pipelines over distant devices take -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Geo/GeoGrid.h"
#include "Never.h"
#include "Poplar/Planner/Cluster/ExchangeCost.h"
#include <algorithm>
#include <limits>
#include <queue>

using namespace poplar;

/// Memory is compared in floating point.
static constexpr double rounding = 1e-9;

//===----------------------------------------------------------------------===//
// GeoCosts
//===----------------------------------------------------------------------===//

static std::vector<double> addUp(const std::vector<double> &values) {
  std::vector<double> sums = {0};
  for (double value : values)
    sums.push_back(sums.back() + value);
  return sums;
}

GeoCosts::GeoCosts(const GeoProblem &problem)
    : problem(problem), units(problem.units()) {
  elementSums.emplace_back();
  for (const ParameterElements &unit : problem.parameters.units)
    elementSums.push_back(elementSums.back() + unit);
  for (const GeoProblem::Kind &kind : problem.kinds) {
    modes.emplace_back();
    for (const GeoProblem::Mode &mode : kind.modes) {
      Sums sums{addUp(mode.forward),
                addUp(mode.backward),
                addUp(mode.savedBytes),
                {}};
      sums.work.resize((units + 1) * (units + 1));
      for (int first = 0; first < units; ++first)
        for (int end = first; end < units; ++end)
          sums.work[first * (units + 1) + end + 1] = std::max(
              sums.work[first * (units + 1) + end], mode.workBytes[end]);
      modes.back().push_back(std::move(sums));
    }
  }
}

int GeoCosts::findMode(int kind, int first, int end, double inFlight,
                       int pipelines, double &excess) const {
  const GeoProblem::Kind &it = problem.kinds[kind];
  double state =
             it.fixedBytes + it.state.getBytes(count(first, end), pipelines),
         least = never;
  for (size_t mode = 0; mode < modes[kind].size(); ++mode) {
    const Sums &sums = modes[kind][mode];
    double bytes = state + sums.work[first * (units + 1) + end] +
                   inFlight * (sums.saved[end] - sums.saved[first]);
    if (bytes <= it.memory * (1 + rounding))
      return static_cast<int>(mode);
    least = std::min(least, bytes);
  }
  excess += it.memory > 0 ? least / it.memory - 1 : least;
  return static_cast<int>(modes[kind].size()) - 1;
}

//===----------------------------------------------------------------------===//
// GeoGrid
//===----------------------------------------------------------------------===//

GeoGrid::GeoGrid(const GeoCosts &costs, PipelineSchedule schedule, int stages,
                 int pipelines)
    : stages(stages), pipelines(pipelines), schedule(schedule),
      cells(stages * pipelines), cuts(stages + 1), costs(costs),
      problem(costs.problem), exchanges(stages), optimizer(stages),
      messages(stages * pipelines), copies(stages * pipelines), syncs(stages),
      passes(stages * problem.kinds.size()), counts(problem.nodes.size()),
      otherCounts(problem.nodes.size()) {}

void GeoGrid::refreshSync(int stage) {
  const int *row = &cells[stage * pipelines];
  std::vector<int> nodes;
  optimizer[stage] = 0;
  for (int k = 0; k < pipelines; ++k) {
    const GeoProblem::Device &device = problem.devices[row[k]];
    if (counts[device.node]++ == 0)
      nodes.push_back(device.node);
    optimizer[stage] =
        std::max(optimizer[stage],
                 problem.kinds[device.kind].optimizerSeconds / pipelines);
  }
  exchanges[stage].clear();
  double share = 1.0 / static_cast<double>(nodes.size());
  for (int node : nodes) {
    DTFMExchange exchange{0, 0};
    if (double inNode = counts[node]; inNode > 1) {
      const LinkSpeed &inside = problem.nodes[node].inside;
      exchange = {2 * CollectiveSteps::countInside(problem.nodes[node].library,
                                                   counts[node])
                          .getSeconds(inside.latency, 0),
                  getRemotePart(inNode) / inside.bandwidth};
    }
    for (int other : nodes) {
      if (other == node)
        continue;
      const LinkSpeed &link = problem.getLink(node, other);
      exchange.fixed += 2 * link.latency;
      exchange.perByte += share / link.bandwidth;
    }
    exchanges[stage].push_back(exchange);
  }
  for (int node : nodes)
    counts[node] = 0;
  syncs[stage] = getSync(stage);
}

/// From a stage to the next.
void GeoGrid::refreshMessages(int stage) {
  const int *row = &cells[stage * pipelines], *next = row + pipelines;
  for (int k = 0; k < pipelines; ++k) {
    int from = problem.devices[row[k]].node, to = problem.devices[next[k]].node;
    counts[from] += from != to;
    otherCounts[to] += from != to;
  }
  for (int k = 0; k < pipelines; ++k) {
    int from = problem.devices[row[k]].node, to = problem.devices[next[k]].node;
    const LinkSpeed &link = problem.getLink(from, to);
    int sharing = from == to ? 1 : std::max(counts[from], otherCounts[to]);
    messages[stage * pipelines + k] =
        getMessageSeconds(link, sharing * problem.boundaryBytes);
    copies[stage * pipelines + k] = problem.boundaryBytes * link.overhead;
  }
  for (int k = 0; k < pipelines; ++k) {
    counts[problem.devices[row[k]].node] = 0;
    otherCounts[problem.devices[next[k]].node] = 0;
  }
}

void GeoGrid::refreshStage(int stage) {
  refreshSync(stage);
  if (stage > 0)
    refreshMessages(stage - 1);
  if (stage + 1 < stages)
    refreshMessages(stage);
}

void GeoGrid::refresh() {
  for (int j = 0; j < stages; ++j) {
    refreshSync(j);
    if (j + 1 < stages)
      refreshMessages(j);
  }
  std::fill(passes.begin(), passes.end(), Passes());
}

void GeoGrid::refreshCuts(int first, int last) {
  size_t kinds = problem.kinds.size();
  std::fill(passes.begin() + first * kinds, passes.begin() + (last + 1) * kinds,
            Passes());
  for (int j = first; j <= last; ++j)
    syncs[j] = getSync(j);
}

double GeoGrid::getSync(int stage) const {
  auto elements =
      static_cast<double>(costs.count(cuts[stage], cuts[stage + 1]).trained);
  double own = elements, longest = 0;
  // What is tied goes between the first and the last stage: getTied().
  if (stages > 1 && (stage == 0 || stage + 1 == stages))
    own -= static_cast<double>(problem.parameters.tied.trained);
  double bytes = own * (problem.gradientBytes + problem.parameterBytes);
  for (const DTFMExchange &exchange : exchanges[stage])
    longest = std::max(longest, exchange.getSeconds(bytes));
  return longest + elements * optimizer[stage];
}

double GeoGrid::getTied(int pipeline) const {
  int first = cells[pipeline],
      last = cells[(stages - 1) * pipelines + pipeline];
  const LinkSpeed &link =
      problem.getLink(problem.devices[first].node, problem.devices[last].node);
  return getRoundTripSeconds(
      link, static_cast<double>(problem.parameters.tied.trained) *
                (problem.gradientBytes + problem.parameterBytes));
}

int GeoGrid::getMode(int stage, int pipeline, int64_t microBatches,
                     double &excess) {
  return costs.findMode(
      problem.devices[at(stage, pipeline)].kind, cuts[stage], cuts[stage + 1],
      double(countInFlight(stage, microBatches)), pipelines, excess);
}

/// The seconds of a stage; without what all of its devices wait for.
StageSeconds GeoGrid::getCost(int stage, int pipeline, int64_t microBatches,
                              double &excess) {
  int kind = problem.devices[at(stage, pipeline)].kind;
  Passes &known = passes[stage * problem.kinds.size() + kind];
  int64_t inFlight = countInFlight(stage, microBatches);
  if (known.inFlight != inFlight) {
    known = {inFlight, 0, 0, 0};
    int first = cuts[stage], end = cuts[stage + 1],
        mode = costs.findMode(kind, first, end, double(inFlight), pipelines,
                              known.excess);
    known.forward = costs.getForward(kind, mode, first, end);
    known.backward = costs.getBackward(kind, mode, first, end);
  }
  excess += known.excess;
  double copying = 0;
  if (stage > 0)
    copying += copies[(stage - 1) * pipelines + pipeline];
  if (stage + 1 < stages)
    copying += copies[stage * pipelines + pipeline];
  return {known.forward + copying, known.backward + copying, 0};
}

std::vector<PlannedStage> GeoGrid::getStages(int pipeline,
                                             int64_t microBatches) {
  std::vector<PlannedStage> list;
  bool isTied = problem.parameters.tied.trained > 0 && stages > 1;
  for (int j = 0; j < stages; ++j) {
    double excess = 0;
    PlannedStage stage;
    static_cast<StageSeconds &>(stage.cost) =
        getCost(j, pipeline, microBatches, excess);
    stage.cost.sync = syncs[j];
    if (isTied && (j == 0 || j + 1 == stages))
      stage.cost.sync += getTied(pipeline);
    if (j + 1 < stages)
      stage.message = messages[j * pipelines + pipeline];
    stage.chunks = {{stage.cost.forward, stage.cost.backward}};
    list.push_back(std::move(stage));
  }
  return list;
}

LaneTimes GeoGrid::getTimes(int pipeline, int64_t microBatches,
                            double &excess) {
  LaneTimes times;
  double tied =
      problem.parameters.tied.trained > 0 && stages > 1 ? getTied(pipeline) : 0;
  StageSeconds behind;
  for (int j = stages; j-- > 0;) {
    bool isLast = j + 1 == stages;
    StageSeconds cost = getCost(j, pipeline, microBatches, excess);
    cost.sync = syncs[j] + (j == 0 || isLast ? tied : 0);
    times = times.prependEven(cost, isLast ? nullptr : &behind,
                              isLast ? 0 : messages[j * pipelines + pipeline],
                              stages - j, schedule);
    behind = cost;
  }
  return times;
}

/// Whether pipelines take as long as each other, whatever the cuts. Messages
/// between the same nodes do.
bool GeoGrid::areAlike(int pipeline, int other) const {
  for (int j = 0; j < stages; ++j) {
    const GeoProblem::Device
        &own = problem.devices[cells[j * pipelines + pipeline]],
        &its = problem.devices[cells[j * pipelines + other]];
    if (own.kind != its.kind || own.node != its.node)
      return false;
  }
  return true;
}

double GeoGrid::getSeconds(int pipeline, int64_t microBatches) {
  double excess = 0;
  LaneTimes times = getTimes(pipeline, microBatches, excess);
  return excess > 0 ? never : times.getSeconds(microBatches);
}

/// The time in which pipelines of these times do `microBatches`, one each at
/// least, if these could be divided.
static double divideMicroBatches(const std::vector<LaneTimes> &times,
                                 double microBatches) {
  std::vector<bool> takesOne(times.size());
  while (true) {
    double rates = 0, work = microBatches, seconds = 0;
    for (size_t k = 0; k < times.size(); ++k) {
      double period = times[k].getPeriod();
      work += takesOne[k] ? -1 : times[k].end / period - 1;
      rates += takesOne[k] ? 0 : 1 / period;
    }
    if (rates > 0)
      seconds = work / rates;
    bool changes = false;
    for (size_t k = 0; k < times.size(); ++k)
      if (!takesOne[k] && times[k].end > seconds)
        changes = takesOne[k] = true;
    if (!changes || rates == 0)
      return seconds;
  }
}

GeoGrid::Guide GeoGrid::getGuide() {
  int64_t each = (problem.microBatches + pipelines - 1) / pipelines;
  double longest = 0, trips = 0, excess = 0, syncing = 0, own = 0;
  times.clear();
  for (int k = 0; k < pipelines; ++k) {
    if (k > 0 && areAlike(k, k - 1)) {
      times.push_back(times.back());
    } else {
      own = 0;
      times.push_back(getTimes(k, each, own));
    }
    excess += own;
    longest = std::max(longest, times[k].end);
    trips += times[k].roundTrip;
  }
  for (double sync : syncs)
    syncing += sync;
  double seconds = std::max(
      longest,
      divideMicroBatches(times, static_cast<double>(problem.microBatches)));
  double mean = (static_cast<double>(each) / stages + 1) * trips / pipelines +
                syncing / stages;
  return {seconds, mean, excess};
}

/// The most micro-batches, at most `limit`, that a pipeline does in `seconds`;
/// 1 if it does not one.
int64_t GeoGrid::countWithin(double seconds, int pipeline,
                             const LaneTimes &times, int64_t limit) {
  double more = (seconds - times.end) / times.getPeriod();
  int64_t most =
      1 + std::clamp<int64_t>(static_cast<int64_t>(more), 0, limit - 1);
  // With 1F1B, more than there are stages take no more memory. Before that, and
  // with GPipe, many do not fit, or only in a slower mode.
  int64_t least = 1;
  if (schedule == PipelineSchedule::OneForwardOneBackward && most > stages) {
    double excess = 0;
    LaneTimes full = getTimes(pipeline, stages, excess);
    double longer = (seconds - full.end) / full.getPeriod();
    if (excess == 0 && longer + 1 >= stages)
      return 1 + std::min(static_cast<int64_t>(longer), limit - 1);
    most = stages;
  }
  while (least < most) {
    int64_t middle = (least + most + 1) / 2;
    if (getSeconds(pipeline, middle) <= seconds)
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

// T_k(m) grows with m. Pipelines take what they can do in a time that all
// together need at least; of what is left, each micro-batch goes where it is
// done first. Were one of the shares larger in a better solution, it would take
// longer, as the others have no less than they need.
double GeoGrid::share(std::vector<int64_t> &shares) {
  std::vector<LaneTimes> least;
  double excess = 0, longest = 0;
  for (int k = 0; k < pipelines; ++k)
    least.push_back(getTimes(k, 1, excess));
  if (excess > 0 || problem.microBatches < pipelines)
    return never;
  double seconds =
      divideMicroBatches(least, static_cast<double>(problem.microBatches)) *
      (1 - rounding);
  shares.clear();
  int64_t left = problem.microBatches - pipelines;
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  for (int k = 0; k < pipelines; ++k) {
    shares.push_back(countWithin(seconds, k, least[k], 1 + left));
    left -= shares[k] - 1;
    longest = std::max(longest, getSeconds(k, shares[k]));
    next.push({getSeconds(k, shares[k] + 1), k});
  }
  for (; left > 0; --left) {
    auto [end, k] = next.top();
    if (end == never)
      return never;
    next.pop();
    longest = std::max(longest, end);
    ++shares[k];
    next.push({getSeconds(k, shares[k] + 1), k});
  }
  return longest;
}
