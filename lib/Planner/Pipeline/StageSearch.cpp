//===- StageSearch.cpp - Cutting a model into stages ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipeline/StageSearch.h"
#include "Never.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace poplar;

/// Sums in another order differ by that much, and are taken to be equal.
static constexpr double rounding = 1e-12;
/// In a coarse search, times that differ by that much are.
static constexpr double coarseness = 1e-2;
/// The effort for a way to compute a stage, in partial plans.
static constexpr int64_t optionEffort = 30;
/// See Timetable::boundInFlight().
static constexpr int64_t manyBlocks = 4;

StageSearch::StageSearch(const HybridProblem &problem, const HybridCosts &costs,
                         const UnitBounds &unitBounds, const StageShape &shape,
                         bool isCoarse)
    : problem(problem), costs(costs), shape(shape),
      tolerance(1 + (isCoarse ? coarseness : rounding)),
      hasEqualUnits(unitBounds.hasEqualUnits), units(problem.units()) {
  if (shape.lanes() == 1)
    microBatches = static_cast<double>(shape.countMicroBatches(problem));
  for (const StageShape::Kind &kind : shape.kinds) {
    bounds.emplace_back();
    leastUnits.emplace_back();
    for (size_t lane = 0; lane < shape.lanes(); ++lane) {
      bounds.back().push_back(unitBounds.find(kind.parts[lane].type,
                                              kind.parts[lane].tensorDegree,
                                              shape.microBatches[lane]));
      leastUnits.back().push_back(bounds.back().back()->leastInner);
    }
  }
  leastSync.fill(never);
  for (const StageShape::Kind &kind : shape.kinds) {
    const PerLane &least =
        unitBounds.getLeastSync(problem, costs, kind.parts, shape.chunks);
    for (size_t lane = 0; lane < shape.lanes(); ++lane)
      leastSync[lane] = std::min(leastSync[lane], least[lane]);
  }
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    auto sum = [&](std::vector<double> UnitBounds::Bound::*seconds) {
      std::vector<double> least = bounds.front()[lane]->*seconds,
                          sums(units + 1);
      for (size_t kind = 1; kind < bounds.size(); ++kind)
        for (int i = 0; i < units; ++i)
          least[i] = std::min(least[i], (bounds[kind][lane]->*seconds)[i]);
      for (int i = 0; i < units; ++i)
        sums[i + 1] = sums[i] + least[i];
      return sums;
    };
    restForward.push_back(sum(&UnitBounds::Bound::forward));
    restBackward.push_back(sum(&UnitBounds::Bound::backward));
    restBoth.push_back(sum(&UnitBounds::Bound::both));
    leastMessage[lane] = never;
    for (const StageShape::Kind &from : shape.kinds)
      for (const StageShape::Kind &to : shape.kinds)
        leastMessage[lane] =
            std::min(leastMessage[lane],
                     costs.getMessage(shape.microBatches[lane],
                                      from.parts[lane], to.parts[lane]));
  }
}

/// The pipelines that stand for all of this many micro-batches or more: with as
/// many blocks, unless all of them are full. What is in flight in `manyBlocks`
/// or more depends on their size alone, and of more there are no other sizes.
static std::vector<PipelineShape> listLarger(PipelineShape shape) {
  int64_t stages = shape.stages, blocks = shape.microBatches / stages,
          end = (blocks + 1) * stages;
  if (shape.microBatches % stages == 0)
    end = std::max(end, (manyBlocks + 1) * stages);
  std::vector<PipelineShape> shapes;
  for (; shape.microBatches < end; ++shape.microBatches)
    if (shape.hasEvenBlocks())
      shapes.push_back(shape);
  return shapes;
}

/// What may go through a pipeline of a lane: of the only lane that is known, of
/// one of several it is whatever has the most in flight.
std::vector<PipelineShape> StageSearch::getPipelines(size_t lane) const {
  // How many stages there are matters only where it is known, as of all
  // schedules with chunks.
  int64_t stages = shape.usesAllSlots ? shape.countSlots() : units;
  if (shape.lanes() == 1) {
    int64_t microBatches = shape.countMicroBatches(problem);
    if (problem.takesMoreSamples && shape.chunks > 1)
      return listLarger({stages, shape.chunks, microBatches});
    return {{stages, shape.chunks, microBatches}};
  }
  // As many as there are, if the others take no more than they have to.
  if (shape.chunks == 1) {
    int64_t others = static_cast<int64_t>(shape.lanes()) - 1;
    return {{stages, 1,
             (problem.globalBatch - others + shape.getStep(lane) - 1) /
                 shape.getStep(lane)}};
  }
  std::vector<PipelineShape> pipelines;
  // The larger a block, the more; and the more blocks, until they are many.
  int64_t least = std::max<int64_t>(shape.leastMicroBatches / stages, 1);
  for (int64_t blocks = least; blocks <= 8 * least; blocks *= 2) {
    PipelineShape pipeline{stages, shape.chunks, (blocks + 1) * stages - 1};
    while (!pipeline.hasEvenBlocks())
      --pipeline.microBatches;
    pipelines.push_back(pipeline);
  }
  return pipelines;
}

void StageSearch::findInFlight() {
  if (!inFlight.empty())
    return;
  isMonotone = hasEqualUnits;
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    auto &own = inFlight.emplace_back();
    for (const PipelineShape &pipeline : getPipelines(lane)) {
      own.resize(pipeline.stages + 1, {});
      for (int64_t depth = 1; depth <= pipeline.stages; ++depth)
        for (int chunk = 0; chunk < shape.chunks; ++chunk) {
          int64_t &most = own[depth][chunk],
                  count = countInFlight(shape.schedule, pipeline,
                                        pipeline.stages - depth, chunk);
          // With more samples than needed, what any number of micro-batches
          // has.
          bool isLess = problem.takesMoreSamples && most > 0;
          most = isLess ? std::min(most, count) : std::max(most, count);
        }
    }
    isMonotone &= std::all_of(own.begin(), own.end(), [&](auto &chunks) {
      return std::is_sorted(chunks.begin(), chunks.begin() + shape.chunks,
                            std::greater<>());
    });
  }
}

//===----------------------------------------------------------------------===//
// Ways to compute a range of units
//===----------------------------------------------------------------------===//

/// With one chunk, what the whole stage takes says it all.
bool StageSearch::isAtMost(const ChunkSeconds &a, const ChunkSeconds &b) const {
  for (int chunk = 0; shape.chunks > 1 && chunk < shape.chunks; ++chunk)
    if (!isLess(a[chunk], b[chunk]))
      return false;
  return true;
}

bool StageSearch::isAtMost(const Option &a, const Option &b) const {
  if (a.mostDepth < b.mostDepth)
    return false;
  for (size_t lane = 0; lane < shape.lanes(); ++lane)
    if (!isLess(a.costs[lane].forward, b.costs[lane].forward) ||
        !isLess(a.costs[lane].backward, b.costs[lane].backward) ||
        !isLess(a.costs[lane].sync, b.costs[lane].sync) ||
        !isAtMost(a.costs[lane].chunks, b.costs[lane].chunks))
      return false;
  return true;
}

/// From the stage in front, only the time of its chunks matters to what is set
/// in front of it.
bool StageSearch::isAtMost(const Label &a, const Label &b) const {
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    const LaneTimes &own = a.times[lane], &other = b.times[lane];
    if (!isLess(own.period, other.period) ||
        !isLess(own.backwardPeriod, other.backwardPeriod) ||
        !isLess(own.roundTrip, other.roundTrip) || !isLess(own.end, other.end))
      return false;
    const StageCost &head = a.option->costs[lane],
                    &otherHead = b.option->costs[lane];
    if (shape.schedule != PipelineSchedule::GPipe &&
        (!isLess(head.both(), otherHead.both()) ||
         !isAtMost(head.chunks, otherHead.chunks)))
      return false;
  }
  return true;
}

/// The most stages of which it may be the first; 0 for none.
int StageSearch::findMostDepth(
    int kind, const Option &option,
    const std::vector<HybridPlan::Range> &chunks) const {
  int most = static_cast<int>(inFlight.front().size()) - 1;
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    int type = shape.kinds[kind].parts[lane].type;
    int64_t free = problem.types[type].memory - option.costs[lane].fixedBytes;
    std::array<int64_t, HybridProblem::mostChunks> saved{};
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
      saved[chunk] =
          costs.getSavedBytes(type, option.modes[lane], chunks[chunk]);
    int least = 0;
    while (least < most) {
      int middle = (least + most + 1) / 2;
      int64_t bytes = 0;
      for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
        bytes += inFlight[lane][middle][chunk] * saved[chunk];
      if (bytes <= free)
        least = middle;
      else
        most = middle - 1;
    }
  }
  return most;
}

/// Computes costs and memory of an option whose modes are chosen.
void StageSearch::complete(int kind, HybridPlan::Group group,
                           const std::vector<HybridPlan::Range> &chunks,
                           Option &option) const {
  const std::vector<GroupPart> &parts = shape.kinds[kind].parts;
  for (size_t lane = 0; lane < shape.lanes(); ++lane)
    option.costs[lane] =
        costs.getStage(group, parts, lane, option.modes[lane], chunks);
  option.mostDepth = findMostDepth(kind, option, chunks);
}

/// All modes of all lanes, in one stage of ZeRO. Chunks are cut as suits the
/// mode of the first lane; there is but one of `cuts` where it suits all.
void StageSearch::addOptions(
    int kind, HybridPlan::Group group,
    const std::vector<std::vector<HybridPlan::Range>> &cuts, Options &list) {
  std::vector<size_t> choice(shape.lanes());
  Option option;
  option.zeroStage = group.zeroStage;
  option.costs.resize(shape.lanes());
  while (true) {
    bool isTooLong = false;
    for (size_t lane = 0; lane < shape.lanes(); ++lane) {
      option.modes[lane] = bounds[kind][lane]->modes[choice[lane]];
      isTooLong |=
          costs.getSeconds(shape.kinds[kind].parts[lane].type,
                           option.modes[lane], {group.first, group.end}) >
          getLongestPeriod(lane) * (1 + 1e-9);
    }
    option.mostDepth = 0;
    if (!isTooLong) {
      *effort -= optionEffort;
      complete(kind, group, cuts[std::min(choice[0], cuts.size() - 1)], option);
    }
    auto worse = [&](const Option &other) { return isAtMost(option, other); };
    if (option.mostDepth >= 1 &&
        std::none_of(list.begin(), list.end(), [&](const Option &other) {
          return isAtMost(other, option);
        })) {
      list.erase(std::remove_if(list.begin(), list.end(), worse), list.end());
      list.push_back(option);
    }
    size_t lane = 0;
    while (lane < shape.lanes() &&
           ++choice[lane] == bounds[kind][lane]->modes.size())
      choice[lane++] = 0;
    if (lane == shape.lanes())
      return;
  }
}

/// As getOptions() asks for them.
std::unique_ptr<StageSearch::Options> &
StageSearch::getEntry(int kind, int first, int end) {
  int rows = units + 1, row = first;
  if (hasEqualUnits) {
    // Those that begin with the first unit, with the second, and that end with
    // the last.
    rows = 3;
    row = first <= 1 ? first : 2;
    if (row == 2)
      end = first;
  }
  return options[(kind * rows + row) * (units + 1) + end];
}

/// Among units that are alike, it only matters how many there are.
const StageSearch::Options &StageSearch::getOptions(int kind, int first,
                                                    int end) {
  if (hasEqualUnits && first > 1 && end < units) {
    end -= first - 1;
    first = 1;
  }
  std::unique_ptr<Options> &found = getEntry(kind, first, end);
  if (!found) {
    found = std::make_unique<Options>();
    const auto &modes = problem.types[shape.kinds[kind].parts[0].type].modes;
    // Units that are alike are cut alike in all modes.
    bool isAlike =
        shape.chunks == 1 || (hasEqualUnits && first > 0 && end < units);
    std::vector<std::vector<HybridPlan::Range>> cuts;
    for (int mode : bounds[kind][0]->modes)
      if (!isAlike || cuts.empty())
        cuts.push_back(cutStage(modes[mode], {first, end}, shape.chunks));
    for (int zero : problem.zeroStages)
      if (zero <= 1 || shape.lanes() == 1)
        addOptions(kind, {first, end, zero}, cuts, *found);
  }
  return *found;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

int StageSearch::addTo(int use, int kind) {
  if (int known = uses[use].next[kind]; known >= 0)
    return known;
  std::vector<int> counts = uses[use].counts;
  ++counts[kind];
  auto [entry, isNew] =
      useNumbers.try_emplace(counts, static_cast<int>(uses.size()));
  if (isNew)
    uses.push_back({std::move(counts), uses[use].depth + 1,
                    std::vector<int>(shape.kinds.size(), -1)});
  return uses[use].next[kind] = entry->second;
}

StageSearch::State &StageSearch::getState(int begin, int use, int head) {
  auto &[list, places] = states[begin];
  auto [entry, isNew] = places.try_emplace(
      int64_t(use) * (static_cast<int>(shape.kinds.size()) + 1) + head + 1,
      list.size());
  if (isNew)
    list.push_back({begin, use, head, {}});
  return list[entry->second];
}

std::vector<StageSearch::State> StageSearch::takeStates(int begin) {
  std::vector<State> list = std::move(states[begin].list);
  states[begin] = States();
  std::sort(list.begin(), list.end(), [&](const State &a, const State &b) {
    return a.use == b.use ? a.head < b.head
                          : uses[a.use].counts < uses[b.use].counts;
  });
  return list;
}

void StageSearch::add(State &state, const Label &label) {
  std::vector<int> &list = state.labels;
  for (int other : list)
    if (isAtMost(labels[other], label))
      return;
  list.erase(
      std::remove_if(list.begin(), list.end(),
                     [&](int other) { return isAtMost(label, labels[other]); }),
      list.end());
  list.push_back(static_cast<int>(labels.size()));
  labels.push_back(label);
}

/// Sets the stage of a label in front of the one that it names; false if that
/// is not better than what is known.
bool StageSearch::makeLabel(const State &from, const PerLane &messages,
                            const PerLane &rest, Label &label) const {
  const Label &behind = labels[label.rest];
  int depth = uses[from.use].depth + 1;
  for (size_t lane = 0; lane < shape.lanes(); ++lane)
    label.times[lane] = behind.times[lane].prependEven(
        label.option->costs[lane],
        behind.option ? &behind.option->costs[lane] : nullptr, messages[lane],
        depth, shape.schedule);
  label.bound = getBound(label.times, label.first, depth, rest);
  if (label.bound >= limit)
    return false;
  if (shape.chunks > 1 && behind.option) {
    for (size_t lane = 0; lane < shape.lanes(); ++lane)
      label.times[lane].meetChunks(label.option->costs[lane],
                                   behind.option->costs[lane]);
    label.bound = getBound(label.times, label.first, depth, rest);
    if (label.bound >= limit)
      return false;
  }
  for (size_t lane = 0; label.first > 0 && lane < shape.lanes(); ++lane) {
    LaneTimes &times = label.times[lane];
    if (shape.schedule != PipelineSchedule::GPipe)
      times.period = std::max(times.period, rest[lane]);
    times.end = std::max(times.end, times.roundTrip +
                                        getRestEnd(lane, label.first, depth));
  }
  return true;
}

/// Sets stages of units [first, state.begin), which take `least` at least, in
/// front of all labels of a state.
void StageSearch::addStages(const State &from, int kind, int first,
                            const Times &least, const PerLane &messages) {
  int use = addTo(from.use, kind), depth = uses[use].depth;
  const PerLane &rest = getWholePeriods(first, use);
  if (getBound(least, first, depth, rest) >= limit)
    return;
  State *to = nullptr;
  for (const Option &option : getOptions(kind, first, from.begin)) {
    if (option.mostDepth < depth)
      continue;
    for (int index : from.labels) {
      --*effort;
      Label label{{}, &option, first, kind, index, 0};
      if (!makeLabel(from, messages, rest, label))
        continue;
      if (!to)
        to = &getState(first, use, kind);
      add(*to, label);
    }
  }
}

void StageSearch::expand(const State &state) {
  int depth = uses[state.use].depth;
  for (size_t kind = 0; kind < shape.kinds.size(); ++kind) {
    if (uses[state.use].counts[kind] == shape.kinds[kind].slots)
      continue;
    PerLane messages{};
    if (state.head >= 0)
      for (size_t lane = 0; lane < shape.lanes(); ++lane)
        messages[lane] = costs.getMessage(shape.microBatches[lane],
                                          shape.kinds[kind].parts[lane],
                                          shape.kinds[state.head].parts[lane]);
    int left = shape.countSlots() - depth - 1;
    for (int first = state.begin - shape.chunks; first >= 0; --first) {
      // A longer stage only takes longer.
      Times least{};
      for (size_t lane = 0; lane < shape.lanes(); ++lane) {
        const std::vector<double> &sums = bounds[kind][lane]->sums;
        least[lane].period = sums[state.begin] - sums[first];
        least[lane].roundTrip = least[lane].end =
            least[lane].period / shape.chunks;
      }
      if (getBound(least, first, depth + 1, {}) >= limit)
        break;
      if (!shape.usesAllSlots || (first == 0) == (left == 0))
        addStages(state, static_cast<int>(kind), first, least, messages);
    }
  }
}

HybridPlan StageSearch::makePlan(int index,
                                 const std::vector<int64_t> &counts) const {
  HybridPlan plan;
  plan.schedule = shape.schedule;
  plan.chunks = shape.chunks;
  plan.lanes.resize(shape.lanes());
  const std::vector<GroupPart> &parts = shape.kinds[labels[index].kind].parts;
  std::vector<int64_t> samples =
      shareSamples(shape.getSteps(), problem.globalBatch,
                   shape.getLeastMicroBatches(), counts);
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    plan.lanes[lane].pipelines = parts[lane].pipelines;
    plan.lanes[lane].samples = samples[lane];
  }
  for (; labels[index].option; index = labels[index].rest) {
    const Label &label = labels[index];
    plan.groups.push_back(
        {label.first, labels[label.rest].first, label.option->zeroStage});
    for (size_t lane = 0; lane < shape.lanes(); ++lane)
      plan.lanes[lane].stages.push_back(
          {shape.kinds[label.kind].parts[lane].type,
           label.option->modes[lane]});
  }
  for (size_t lane = 0; lane < shape.lanes(); ++lane)
    plan.seconds = std::max(
        plan.seconds,
        getLaneTimes(getStages(problem, plan, lane, costs), plan.schedule)
            .getSeconds(plan.countMicroBatches(problem, lane)));
  return plan;
}

/// Takes the best of complete plans.
void StageSearch::finish(const State &state) {
  std::vector<int64_t> steps = shape.getSteps(),
                       least = shape.getLeastMicroBatches(), counts;
  for (int index : state.labels) {
    const Times &times = labels[index].times;
    std::vector<LaneTimes> lanes(times.begin(), times.begin() + shape.lanes());
    double seconds =
        shareMicroBatches(lanes, steps, problem.globalBatch, least, counts);
    if (seconds < limit) {
      *best = makePlan(index, counts);
      limit = (*best)->seconds * (1 - rounding);
    }
  }
}

/// Forgets what is too much of what begins at a unit.
void StageSearch::narrow(std::vector<State> &list) const {
  std::vector<double> found;
  for (const State &state : list)
    for (int label : state.labels)
      found.push_back(labels[label].bound);
  if (found.size() <= width)
    return;
  std::nth_element(found.begin(), found.begin() + width - 1, found.end());
  double most = found[width - 1];
  size_t kept = 0;
  for (State &state : list) {
    std::vector<int> &own = state.labels;
    own.erase(std::remove_if(own.begin(), own.end(),
                             [&](int label) {
                               return labels[label].bound > most ||
                                      ++kept > width;
                             }),
              own.end());
  }
}

bool StageSearch::run(size_t mostLabels, double most,
                      std::optional<HybridPlan> &bestPlan,
                      int64_t &effortLeft) {
  width = mostLabels;
  best = &bestPlan;
  effort = &effortLeft;
  // This is of no use to the bounds, which is all that most shapes are looked
  // at for.
  findInFlight();
  limit = (bestPlan ? bestPlan->seconds : most) * (1 - rounding);
  labels.clear();
  states.clear();
  states.resize(units + 1);
  if (uses.empty()) {
    std::vector<int> none(shape.kinds.size());
    useNumbers[none] = 0;
    uses.push_back({none, 0, std::vector<int>(shape.kinds.size(), -1)});
  }
  options.resize(shape.kinds.size() * (hasEqualUnits ? 3 : units + 1) *
                 (units + 1));
  Times none{};
  for (LaneTimes &times : none)
    times.chunks = shape.chunks;
  wholeBound = getBound(none, units, 0, getWholePeriods(units, 0));
  if (wholeBound >= limit)
    return true;
  labels.push_back({none, nullptr, units, -1, -1, 0});
  getState(units, 0, -1).labels = {0};
  for (int begin = units; begin > 0; --begin) {
    std::vector<State> list = takeStates(begin);
    narrow(list);
    for (const State &state : list) {
      if (*effort <= 0)
        return false;
      expand(state);
    }
  }
  for (const State &state : takeStates(0))
    finish(state);
  return true;
}

double poplar::shareMicroBatches(const std::vector<LaneTimes> &lanes,
                                 const std::vector<int64_t> &perMicroBatch,
                                 int64_t globalBatch,
                                 const std::vector<int64_t> &least,
                                 std::vector<int64_t> &counts) {
  counts = least;
  // All of the batch is enough.
  auto countMost = [&](size_t i) {
    return std::max(least[i], 1 + globalBatch / perMicroBatch[i]);
  };
  auto countWithin = [&](double seconds) {
    int64_t samples = 0;
    for (size_t i = 0; i < lanes.size(); ++i) {
      // A micro-batch that ends just then is done, whatever rounding says.
      double more =
          (seconds - lanes[i].getSeconds(least[i])) / lanes[i].getPeriod() +
          1e-9;
      counts[i] = least[i] + static_cast<int64_t>(std::clamp(
                                 more, 0.0, double(countMost(i) - least[i])));
      samples += counts[i] * perMicroBatch[i];
    }
    return samples;
  };
  double low = 0, high = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    low = std::max(low, lanes[i].getSeconds(least[i]));
    high = std::max(high, lanes[i].getSeconds(countMost(i)));
  }
  if (countWithin(low) >= globalBatch)
    high = low;
  while (true) {
    double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high)
      break;
    (countWithin(middle) >= globalBatch ? high : low) = middle;
  }
  countWithin(high);
  double longest = 0;
  for (size_t i = 0; i < lanes.size(); ++i)
    longest = std::max(longest, lanes[i].getSeconds(counts[i]));
  return longest;
}

std::vector<int64_t>
poplar::shareSamples(const std::vector<int64_t> &perMicroBatch,
                     int64_t globalBatch, const std::vector<int64_t> &least,
                     const std::vector<int64_t> &counts) {
  std::vector<int64_t> samples;
  int64_t excess = -globalBatch;
  for (size_t i = 0; i < counts.size(); ++i) {
    samples.push_back(counts[i] * perMicroBatch[i]);
    excess += samples[i];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    int64_t fewest = (least[i] - 1) * perMicroBatch[i] + 1,
            less = std::clamp<int64_t>(samples[i] - fewest, 0, excess);
    samples[i] -= less;
    excess -= less;
  }
  return samples;
}
