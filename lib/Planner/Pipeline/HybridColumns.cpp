//===- HybridColumns.cpp - Pipelines of each type by itself ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridColumns.h"
#include "Division.h"
#include "Pipeline/StageSearch.h"
#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace poplar;

/// Each time some column gets better; a few are enough.
static constexpr int mostRounds = 8;
/// Splits of the batch, for the bound: so many are balanced by speed; between
/// two columns, others follow where the one takes longer before and the other
/// behind.
static constexpr int balancedSplits = 3, mostSplits = 12;
/// How often kinds of columns are divided for the bound, and the splits of the
/// batch that each is bounded with.
static constexpr int mostDivisions = 3, splitsOfRange = 2;
/// The share of the bound that is worth a division.
static constexpr double leastGain = 1e-3;
/// Micro-batches moved from one column to another.
static constexpr int mostMoves = 16;
/// Splits into columns, and plans of a column, are simulated whose closed form
/// is at most so many times that of the best: of columns it is nearly exact.
static constexpr double columnMargin = 1.02;
/// Where nothing is known of the other columns yet, they have so many stages;
/// and a share of the batch in proportion to the speed of types is off by less
/// than this.
static constexpr int64_t guessedStages[] = {2, 8, 32};
static constexpr double guessMargin = 1.5;

std::vector<SolvedProblem> HybridColumns::getSolved() const {
  std::vector<SolvedProblem> solved;
  for (const Column &column : columns)
    solved.push_back({column.problem, column.plan});
  return solved;
}

//===----------------------------------------------------------------------===//
// One column
//===----------------------------------------------------------------------===//

/// The ZeRO stage of all columns: that of a unit is the same in all of them.
static std::optional<int> getZeroStage(const HybridProblem &problem) {
  std::optional<int> most;
  for (int stage : problem.zeroStages)
    if (stage <= 1)
      most = stage;
  return most;
}

/// A problem of type `own` alone, where there are also `others`.
static HybridProblem pose(const HybridProblem &problem, int own,
                          std::vector<GroupPart> others, int64_t samples) {
  HybridProblem column = problem;
  for (size_t type = 0; type < column.types.size(); ++type)
    if (static_cast<int>(type) != own) {
      column.types[type].count = 0;
      column.types[type].modes.resize(1);
    }
  column.elsewhere = std::move(others);
  column.globalBatch = samples;
  column.zeroStages = {*getZeroStage(problem)};
  return column;
}

static GroupPart getPart(const HybridProblem &problem, const HybridPlan &plan) {
  return getParts(problem, plan, 0).front();
}

/// Units of the first stage are in that of every column, and are exchanged once
/// all columns have their gradients. So a column is not done before it has
/// computed and the longest of these exchanges is over.
static double getFirstSync(const HybridProblem &problem,
                           const HybridPlan &plan) {
  return HybridCosts(problem).getSync(plan.groups[0],
                                      getParts(problem, plan, 0), 0);
}

/// Whether some stage does not fit.
static bool exceedsMemory(const HybridProblem &problem,
                          const HybridPlan &plan) {
  for (const PlannedStage &stage :
       getStages(problem, plan, 0, HybridCosts(problem)))
    if (stage.bytes > problem.types[plan.lanes[0].stages[0].type].memory)
      return true;
  return false;
}

static LaneTimes getTimes(const HybridProblem &problem, const HybridPlan &plan,
                          double leastFirstSync) {
  HybridCosts costs(problem, /*communicates=*/true, {leastFirstSync});
  return getLaneTimes(getStages(problem, plan, 0, costs), plan.schedule);
}

static std::vector<GroupPart> getOthers(const std::vector<GroupPart> &parts,
                                        size_t own) {
  std::vector<GroupPart> others = parts;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(own));
  return others;
}

/// A problem that takes no more than pose() of any others whose first stages
/// have `ranks`, for as many samples or more: others hold as many shards as can
/// be, on as few nodes as can be, which are as fast as can be.
static HybridProblem relax(const HybridProblem &problem, int own,
                           int64_t samples,
                           const std::vector<ColumnRange::Ranks> &ranks) {
  constexpr double fastest = std::numeric_limits<double>::max();
  std::vector<GroupPart> others;
  for (size_t i = 0; i < problem.types.size(); ++i)
    if (static_cast<int>(i) != own) {
      const HybridProblem::DeviceType &type = problem.types[i];
      int64_t nodes = std::max<int64_t>(ranks[i].least / type.perNode, 1),
              most = std::min(ranks[i].most, type.count);
      others.push_back({static_cast<int>(i),
                        static_cast<int>(divideUp(most, nodes)), nodes});
    }
  HybridProblem column = pose(problem, own, others, samples);
  column.takesMoreSamples = true;
  for (const GroupPart &other : others) {
    HybridProblem::DeviceType &type = column.types[other.type];
    // One in each node, and no ring.
    type.perNode = other.tensorDegree;
    type.modes.front().tensorDegree = 1;
    type.inside = {0, fastest};
    type.library = CollectiveLibrary::None;
    for (size_t third = 0; third < column.types.size(); ++third)
      for (size_t link : {other.type * column.types.size() + third,
                          third * column.types.size() + other.type})
        if (static_cast<int>(third) != own || !column.links[link].isShared)
          column.links[link] = {{0, fastest}, true};
  }
  return column;
}

//===----------------------------------------------------------------------===//
// Several
//===----------------------------------------------------------------------===//

namespace {

/// Columns whose plans are chosen, but not how many samples each takes.
class ColumnSplit {
public:
  ColumnSplit(const HybridProblem &problem, std::vector<HybridPlan> plans);
  /// Empty if that takes `most` or more by the closed form, or some column does
  /// not fit in memory.
  HybridColumns run(double most);

private:
  bool take(const std::vector<int64_t> &samples, double most,
            HybridColumns &result) const;
  void move(HybridColumns &best) const;

  int64_t globalBatch;
  std::vector<HybridProblem> problems;
  std::vector<HybridPlan> plans;
  /// Samples of a micro-batch of all pipelines; micro-batches at least.
  std::vector<int64_t> steps, least;
  /// By itself, and with what the others exchange.
  std::vector<LaneTimes> times, together;
};

} // namespace

ColumnSplit::ColumnSplit(const HybridProblem &problem,
                         std::vector<HybridPlan> chosen)
    : globalBatch(problem.globalBatch), plans(std::move(chosen)) {
  std::vector<GroupPart> parts;
  for (const HybridPlan &plan : plans)
    parts.push_back(getPart(problem, plan));
  double longest = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    problems.push_back(
        pose(problem, parts[i].type, getOthers(parts, i), globalBatch));
    steps.push_back(parts[i].pipelines * plans[i].getMicroBatch(problem, 0));
    least.push_back(
        plans[i].chunks > 1 ? static_cast<int64_t>(plans[i].groups.size()) : 1);
    times.push_back(getTimes(problems[i], plans[i], /*leastFirstSync=*/0));
    longest = std::max(longest, getFirstSync(problems[i], plans[i]));
  }
  for (size_t i = 0; i < plans.size(); ++i)
    together.push_back(getTimes(problems[i], plans[i], longest));
}

bool ColumnSplit::take(const std::vector<int64_t> &samples, double most,
                       HybridColumns &result) const {
  result.columns.clear();
  result.predicted = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    HybridColumns::Column column{problems[i], plans[i]};
    column.problem.globalBatch = column.plan.lanes[0].samples = samples[i];
    int64_t count = column.plan.countMicroBatches(column.problem, 0);
    column.plan.seconds = times[i].getSeconds(count);
    double seconds = together[i].getSeconds(count);
    if (seconds >= most || !column.plan.verify(column.problem).empty())
      return false;
    result.predicted = std::max(result.predicted, seconds);
    result.columns.push_back(std::move(column));
  }
  result.simulated = simulatePipelines(result.getSolved()).seconds;
  return true;
}

/// What the closed form takes for the best split need not be it when simulated.
void ColumnSplit::move(HybridColumns &best) const {
  for (int moves = 0; moves < mostMoves; ++moves) {
    HybridColumns next = best;
    for (size_t from = 0; from < plans.size(); ++from)
      for (size_t to = 0; to < plans.size(); ++to) {
        std::vector<int64_t> samples;
        for (const HybridColumns::Column &column : best.columns)
          samples.push_back(column.problem.globalBatch);
        int64_t count = std::min(steps[from], steps[to]),
                fewest = (least[from] - 1) * steps[from] + 1;
        if (from == to || samples[from] - count < fewest)
          continue;
        samples[from] -= count;
        samples[to] += count;
        HybridColumns tried;
        if (take(samples, best.predicted * columnMargin, tried) &&
            tried.simulated < next.simulated * (1 - 1e-9))
          next = std::move(tried);
      }
    if (next.simulated >= best.simulated)
      return;
    best = std::move(next);
  }
}

HybridColumns ColumnSplit::run(double most) {
  int64_t fewest = 0;
  for (size_t i = 0; i < plans.size(); ++i)
    fewest += (least[i] - 1) * steps[i] + 1;
  HybridColumns best;
  if (fewest > globalBatch)
    return best;
  std::vector<int64_t> counts;
  shareMicroBatches(together, steps, globalBatch, least, counts);
  if (!take(shareSamples(steps, globalBatch, least, counts), most, best))
    return {};
  move(best);
  return best;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

namespace {

class ColumnSearch {
public:
  ColumnSearch(const HybridProblem &problem, int64_t effort, int mostChunks,
               double limit)
      : problem(problem), effort(effort), mostChunks(mostChunks), limit(limit) {
    for (size_t type = 0; type < problem.types.size(); ++type)
      types.push_back(static_cast<int>(type));
  }
  HybridColumns run();
  /// A bound of all columns, up to `enough` or a little more.
  double tighten(const ColumnRange &all, double enough);

private:
  void find(size_t own, const std::vector<GroupPart> &parts, int64_t samples,
            double most);
  std::vector<int64_t> guessSamples() const;
  std::vector<GroupPart> guessParts(int64_t stages) const;
  void start();
  bool improve(size_t own);
  bool searchSplits();
  void add(size_t own, HybridPlan plan);
  void offer(std::vector<HybridPlan> plans);
  std::vector<int64_t> getSamples() const;
  /// The batch's part for the first of two columns: with fewer samples than
  /// `fewest` the second takes longer, with more than `most` the first.
  struct Halving {
    int64_t fewest, most, step;

    std::vector<int64_t> splitAnew(std::vector<int64_t> samples,
                                   const std::vector<double> &seconds,
                                   int round);
  };
  double findBound(size_t own, int64_t samples, ColumnRange &range,
                   double most);
  void findBound(ColumnRange &range, int splits, double longest);
  std::vector<ColumnRange> divide(const ColumnRange &range) const;
  void findBound();

  const HybridProblem &problem;
  int64_t effort;
  int mostChunks;
  double limit;
  std::vector<int> types;
  int64_t used = 0;
  /// By column, plans that were found.
  std::vector<std::vector<HybridPlan>> known;
  HybridColumns best;
  /// All columns.
  ColumnRange whole;
};

} // namespace

/// Adds the best plans of one column.
void ColumnSearch::find(size_t own, const std::vector<GroupPart> &parts,
                        int64_t samples, double most) {
  FirstStage first;
  for (size_t i = 0; i < best.columns.size(); ++i)
    if (i != own)
      first.leastSync =
          std::max(first.leastSync,
                   getFirstSync(best.columns[i].problem, best.columns[i].plan));
  // In terms of what the columns take together.
  if (!best.columns.empty())
    most = std::max(most, most / best.predicted * best.simulated);
  HybridChoice choice = chooseColumnPlan(
      {pose(problem, types[own], getOthers(parts, own), samples)}, first,
      effort, mostChunks, most);
  used += choice.effort;
  if (choice.search.plan)
    add(own, std::move(*choice.search.plan));
  for (HybridChoice::Other &other : choice.others)
    add(own, std::move(other.plan));
}

/// In proportion to how fast types compute.
std::vector<int64_t> ColumnSearch::guessSamples() const {
  std::vector<double> rates;
  double all = 0;
  for (int type : types) {
    rates.push_back(findUpperBound(pose(problem, type, {}, 1)));
    all += rates.back();
  }
  std::vector<int64_t> samples;
  int64_t left = problem.globalBatch;
  for (size_t i = 0; i < types.size(); ++i) {
    auto rest = static_cast<int64_t>(types.size() - i - 1);
    int64_t share =
        std::llround(static_cast<double>(problem.globalBatch) * rates[i] / all);
    samples.push_back(rest == 0 ? left
                                : std::clamp<int64_t>(share, 1, left - rest));
    left -= samples.back();
  }
  return samples;
}

/// Takes the columns if they are the fastest so far.
void ColumnSearch::offer(std::vector<HybridPlan> plans) {
  HybridColumns made =
      ColumnSplit(problem, std::move(plans)).run(best.predicted * columnMargin);
  if (made.simulated < best.simulated * (1 - 1e-9))
    best = std::move(made);
}

/// The same stages, for any number of samples.
static bool isAlike(const HybridPlan &a, const HybridPlan &b) {
  const HybridPlan::Lane &own = a.lanes[0], &other = b.lanes[0];
  return a.schedule == b.schedule && a.chunks == b.chunks &&
         a.groups == b.groups && own.pipelines == other.pipelines &&
         std::equal(own.stages.begin(), own.stages.end(), other.stages.begin(),
                    [](const auto &x, const auto &y) {
                      return x.type == y.type && x.mode == y.mode;
                    });
}

/// Offers the plan with every choice of plans of other columns.
void ColumnSearch::add(size_t own, HybridPlan plan) {
  for (const HybridPlan &other : known[own])
    if (isAlike(plan, other))
      return;
  known[own].push_back(std::move(plan));
  for (const std::vector<HybridPlan> &plans : known)
    if (plans.empty())
      return;
  std::vector<size_t> at(known.size());
  at[own] = known[own].size() - 1;
  while (true) {
    std::vector<HybridPlan> plans;
    for (size_t i = 0; i < known.size(); ++i)
      plans.push_back(known[i][at[i]]);
    offer(std::move(plans));
    size_t i = 0;
    while (i < known.size() && (i == own || ++at[i] == known[i].size())) {
      if (i != own)
        at[i] = 0;
      ++i;
    }
    if (i == known.size())
      return;
  }
}

/// What columns are if all share units and have so many stages.
std::vector<GroupPart> ColumnSearch::guessParts(int64_t stages) const {
  std::vector<GroupPart> parts;
  for (int index : types) {
    const HybridProblem::DeviceType &type = problem.types[index];
    int degree = 1;
    for (const HybridProblem::Mode &mode : type.modes)
      degree = std::max(degree, mode.tensorDegree);
    int64_t pipelines = std::max<int64_t>(type.count / (degree * stages), 1);
    while (!isAligned(type, degree, pipelines))
      --pipelines;
    parts.push_back({index, degree, pipelines});
  }
  return parts;
}

void ColumnSearch::start() {
  std::vector<int64_t> samples = guessSamples();
  for (int64_t stages : guessedStages) {
    std::vector<GroupPart> parts = guessParts(stages);
    for (size_t own = 0; own < types.size(); ++own)
      find(own, parts, samples[own],
           std::min(limit, best.predicted) * guessMargin);
  }
}

/// Whether another plan of a column makes it faster, or lets it take more.
bool ColumnSearch::improve(size_t own) {
  std::vector<GroupPart> parts;
  for (const HybridColumns::Column &column : best.columns)
    parts.push_back(getPart(problem, column.plan));
  double before = best.simulated;
  find(own, parts, getSamples()[own], best.predicted * columnMargin);
  return best.simulated < before;
}

/// Samples of the best columns, or of what they are thought to be.
std::vector<int64_t> ColumnSearch::getSamples() const {
  if (best.columns.empty())
    return guessSamples();
  std::vector<int64_t> samples;
  for (const HybridColumns::Column &column : best.columns)
    samples.push_back(column.problem.globalBatch);
  return samples;
}

/// What column `own` takes at least for so many samples, up to `most`.
double ColumnSearch::findBound(size_t own, int64_t samples, ColumnRange &range,
                               double most) {
  HybridProblem relaxed = relax(problem, types[own], samples, range.ranks);
  FirstStage first{range.leastSync, range.mostSync, range.ranks[own].least,
                   range.ranks[own].most};
  for (int chunks = 1; chunks <= (relaxed.hasEqualUnits() ? mostChunks : 1);
       ++chunks) {
    if (chunks > 1) {
      relaxed.schedules = {PipelineSchedule::Interleaved};
      relaxed.chunks = chunks;
    }
    HybridSearchResult found = searchColumnPlan(relaxed, first, effort, most);
    used += found.effort;
    most = std::min(most, found.lowerBound);
    if (found.plan)
      range.plans[own] = std::move(found.plan);
  }
  return most;
}

/// Moves samples to columns that would be done before others.
static void balance(std::vector<int64_t> &samples,
                    const std::vector<double> &seconds) {
  double all = 0, rates = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    all += static_cast<double>(samples[i]);
    rates += static_cast<double>(samples[i]) / seconds[i];
  }
  int64_t left = std::llround(all);
  for (size_t i = 0; i < samples.size(); ++i) {
    auto rest = static_cast<int64_t>(samples.size() - i - 1);
    int64_t share = std::llround(static_cast<double>(samples[i]) / seconds[i] *
                                 all / rates);
    samples[i] = rest == 0 ? left : std::clamp<int64_t>(share, 1, left - rest);
    left -= samples[i];
  }
}

/// Another split that tells more of the bound; empty if there is none.
std::vector<int64_t>
ColumnSearch::Halving::splitAnew(std::vector<int64_t> samples,
                                 const std::vector<double> &seconds,
                                 int round) {
  int64_t globalBatch =
      std::accumulate(samples.begin(), samples.end(), int64_t(0));
  if (samples.size() != 2) {
    balance(samples, seconds);
    return round < balancedSplits ? samples : std::vector<int64_t>();
  }
  bool needsMore = seconds[0] < seconds[1];
  (needsMore ? fewest : most) = samples[0] + (needsMore ? 1 : -1);
  if (fewest > most)
    return {};
  int64_t next = (fewest + most) / 2;
  if (round < balancedSplits) {
    balance(samples, seconds);
    next = samples[0];
  } else if (most - fewest > 4 * step) {
    next = samples[0] + (needsMore ? step : -step);
    step *= 2;
  }
  next = std::clamp(next, fewest, most);
  return {next, globalBatch - next};
}

/// Finds among some splits the one that bounds best; that of the range is the
/// first.
void ColumnSearch::findBound(ColumnRange &range, int splits, double longest) {
  Halving halving{1, problem.globalBatch - 1, 1};
  std::vector<int64_t> samples = range.samples;
  for (int round = 0; round < splits && !samples.empty(); ++round) {
    std::vector<double> seconds;
    for (size_t own = 0; own < types.size(); ++own)
      seconds.push_back(findBound(own, samples[own], range, longest));
    auto least = std::min_element(seconds.begin(), seconds.end());
    if (*least > range.seconds) {
      range.seconds = *least;
      range.samples = samples;
    }
    if (range.seconds >= longest)
      break;
    if (*std::max_element(seconds.begin(), seconds.end()) < longest)
      range.open.insert(samples);
    samples = halving.splitAnew(samples, seconds, round + 1);
  }
}

/// Parts of a range that may be bounded better, as what a column takes depends
/// on what is known of the others. None if it hardly does.
std::vector<ColumnRange> ColumnSearch::divide(const ColumnRange &range) const {
  double mostGain = range.seconds * leastGain;
  size_t cut = types.size();
  int64_t ranksOfCut = 0;
  std::vector<double> syncs;
  for (size_t own = 0; own < types.size(); ++own) {
    if (!range.plans[own])
      continue;
    const HybridPlan &plan = *range.plans[own];
    HybridProblem relaxed =
        relax(problem, types[own], range.samples[own], range.ranks);
    double sync = std::max(range.leastSync, getFirstSync(relaxed, plan));
    syncs.push_back(sync);
    for (size_t other = 0; other < types.size(); ++other) {
      if (other == own || !range.plans[other])
        continue;
      GroupPart part = getPart(problem, *range.plans[other]);
      int64_t count = part.pipelines * part.tensorDegree;
      std::vector<ColumnRange::Ranks> ranks = range.ranks;
      auto &[least, most] = ranks[other];
      // The plan may be one of what was divided.
      if (least == most || count < least || count > most)
        continue;
      least = most = count;
      HybridProblem known =
          relax(problem, types[own], range.samples[own], ranks);
      double gain = exceedsMemory(known, plan) && !exceedsMemory(relaxed, plan)
                        ? std::numeric_limits<double>::infinity()
                        : getFirstSync(known, plan) - sync;
      if (gain > mostGain) {
        mostGain = gain;
        cut = other;
        ranksOfCut = count;
      }
    }
  }
  auto [low, high] = std::minmax_element(syncs.begin(), syncs.end());
  bool cutsSyncs = low != syncs.end() && *high - *low > mostGain;
  std::vector<ColumnRange> parts;
  auto add = [&]() -> ColumnRange & {
    parts.push_back(range);
    return parts.back();
  };
  if (cutsSyncs) {
    double middle = (*low + *high) / 2;
    add().mostSync = middle;
    add().leastSync = middle;
  } else if (cut < types.size()) {
    auto [least, most] = range.ranks[cut];
    if (ranksOfCut > least)
      add().ranks[cut].most = ranksOfCut - 1;
    add().ranks[cut] = {ranksOfCut, ranksOfCut};
    if (ranksOfCut < std::min(most, problem.types[types[cut]].count))
      add().ranks[cut].least = ranksOfCut + 1;
  }
  return parts;
}

/// See the head of HybridColumns.h.
void ColumnSearch::findBound() {
  whole = {};
  whole.samples = getSamples();
  whole.ranks.resize(types.size());
  whole.plans.resize(types.size());
  findBound(whole, mostSplits, std::min(best.predicted, limit));
}

/// Kinds of columns are divided where that helps the most.
double ColumnSearch::tighten(const ColumnRange &all, double enough) {
  std::vector<ColumnRange> ranges = {all};
  auto findLeast = [&] {
    return std::min_element(ranges.begin(), ranges.end(),
                            [](const ColumnRange &a, const ColumnRange &b) {
                              return a.seconds < b.seconds;
                            });
  };
  for (int i = 0; i < mostDivisions && findLeast()->seconds < enough; ++i) {
    auto least = findLeast();
    std::vector<ColumnRange> parts = divide(*least);
    if (parts.empty())
      break;
    ranges.erase(least);
    for (ColumnRange &part : parts) {
      findBound(part, splitsOfRange, limit);
      ranges.push_back(std::move(part));
    }
  }
  return std::min(findLeast()->seconds, limit);
}

/// Whether columns get faster with plans that are the best of another split.
bool ColumnSearch::searchSplits() {
  double before = best.simulated;
  std::vector<GroupPart> parts;
  for (const HybridColumns::Column &column : best.columns)
    parts.push_back(getPart(problem, column.plan));
  for (const std::vector<int64_t> &samples : whole.open)
    for (size_t own = 0; own < types.size() && !parts.empty(); ++own)
      find(own, parts, samples[own], best.predicted);
  return best.simulated < before;
}

HybridColumns ColumnSearch::run() {
  if (types.size() < 2 || types.size() > mostColumns ||
      !getZeroStage(problem) ||
      problem.globalBatch < static_cast<int64_t>(types.size())) {
    best.lowerBound = std::numeric_limits<double>::infinity();
    return std::move(best);
  }
  // Columns in turns, until none gets better.
  known.resize(types.size());
  start();
  do {
    size_t same = best.columns.empty() ? types.size() : 0;
    for (size_t turn = 0;
         same < types.size() && turn < mostRounds * types.size(); ++turn)
      same = improve(turn % types.size()) ? 0 : same + 1;
    findBound();
  } while (searchSplits());
  best.lowerBound = std::min({whole.seconds, best.predicted, limit});
  best.whole = std::move(whole);
  best.effort = used;
  return std::move(best);
}

HybridColumns poplar::searchHybridColumns(const HybridProblem &problem,
                                          int64_t effort, int mostChunks,
                                          double limit) {
  return ColumnSearch(problem, effort, mostChunks, limit).run();
}

void poplar::tightenBound(const HybridProblem &problem, HybridColumns &columns,
                          int64_t effort, int mostChunks, double limit) {
  // The limit is none of the search: plans of ranges show where to divide.
  double enough = std::min(columns.predicted, limit);
  if (columns.lowerBound < enough)
    columns.lowerBound =
        ColumnSearch(problem, effort, mostChunks, columns.predicted)
            .tighten(columns.whole, enough);
}
