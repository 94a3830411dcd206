//===- HybridColumns.cpp - Pipelines of each type by itself ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridColumns.h"
#include "Pipeline/StageSearch.h"
#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace poplar;

/// Each time some column gets better; a few are enough.
static constexpr int mostRounds = 8;
/// Of the batch, for the bound: so many are balanced by speed; of two columns,
/// others follow where the one takes longer before and the other behind.
static constexpr int balancedSplits = 3, mostSplits = 12;
/// Micro-batches moved from one column to another.
static constexpr int mostMoves = 16;
/// Two plans by the closed form may be the other way round when simulated, if
/// they are closer than this.
static constexpr double simulationMargin = 1.02;
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

static LaneTimes getTimes(const HybridProblem &problem, const HybridPlan &plan,
                          double firstSync) {
  HybridCosts costs(problem, /*communicates=*/true, firstSync);
  return getLaneTimes(getStages(problem, plan, 0, costs), plan.schedule);
}

static std::vector<GroupPart> getOthers(const std::vector<GroupPart> &parts,
                                        size_t own) {
  std::vector<GroupPart> others = parts;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(own));
  return others;
}

/// A problem that takes no more than pose() of any others, for as many samples
/// or more: others hold as many shards as can be, and are one node that is as
/// fast as can be.
static HybridProblem relax(const HybridProblem &problem, int own,
                           int64_t samples) {
  constexpr double fastest = std::numeric_limits<double>::max();
  std::vector<GroupPart> others;
  for (size_t type = 0; type < problem.types.size(); ++type)
    if (static_cast<int>(type) != own)
      others.push_back({static_cast<int>(type),
                        static_cast<int>(problem.types[type].count), 1});
  HybridProblem column = pose(problem, own, others, samples);
  column.takesMoreSamples = true;
  for (const GroupPart &other : others) {
    HybridProblem::DeviceType &type = column.types[other.type];
    // All in one node, and no ring.
    type.perNode = other.tensorDegree;
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
    times.push_back(getTimes(problems[i], plans[i], /*firstSync=*/0));
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
    column.plan.seconds =
        times[i].getSeconds(column.plan.countMicroBatches(column.problem, 0));
    if (column.plan.seconds >= most ||
        !column.plan.verify(column.problem).empty())
      return false;
    result.predicted = std::max(result.predicted, column.plan.seconds);
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
        if (take(samples, best.predicted * simulationMargin, tried) &&
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
  double findBound(size_t own, int64_t samples, double most);
  void findBound();
  std::vector<int64_t> splitAnew(std::vector<int64_t> samples,
                                 const std::vector<double> &seconds, int round);

  const HybridProblem &problem;
  int64_t effort;
  int mostChunks;
  double limit;
  std::vector<int> types;
  int64_t used = 0;
  /// By column, plans that were found.
  std::vector<std::vector<HybridPlan>> known;
  HybridColumns best;
  double bound = 0;
  /// Splits of the batch in which each column may be done before the best
  /// columns are.
  std::set<std::vector<int64_t>> open;
  /// Of the batch for the first of two columns: with fewer samples than
  /// `fewest` the second takes longer, with more than `most` the first.
  int64_t fewest = 1, most = 0, step = 1;
};

} // namespace

/// Adds the best plans of one column.
void ColumnSearch::find(size_t own, const std::vector<GroupPart> &parts,
                        int64_t samples, double most) {
  double firstSync = 0;
  for (size_t i = 0; i < best.columns.size(); ++i)
    if (i != own)
      firstSync = std::max(firstSync, getFirstSync(best.columns[i].problem,
                                                   best.columns[i].plan));
  // In terms of what the columns take together.
  if (!best.columns.empty())
    most = std::max(most, most / best.predicted * best.simulated);
  HybridChoice choice = chooseColumnPlan(
      {pose(problem, types[own], getOthers(parts, own), samples)}, firstSync,
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
  HybridColumns made = ColumnSplit(problem, std::move(plans))
                           .run(best.predicted * simulationMargin);
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
  find(own, parts, getSamples()[own], best.predicted * simulationMargin);
  return best.simulated < before;
}

/// Of the best columns, or what they are thought to be.
std::vector<int64_t> ColumnSearch::getSamples() const {
  if (best.columns.empty())
    return guessSamples();
  std::vector<int64_t> samples;
  for (const HybridColumns::Column &column : best.columns)
    samples.push_back(column.problem.globalBatch);
  return samples;
}

/// What column `own` takes at least for so many samples, up to `most`.
double ColumnSearch::findBound(size_t own, int64_t samples, double most) {
  HybridProblem relaxed = relax(problem, types[own], samples);
  for (int chunks = 1; chunks <= (relaxed.hasEqualUnits() ? mostChunks : 1);
       ++chunks) {
    if (chunks > 1) {
      relaxed.schedules = {PipelineSchedule::Interleaved};
      relaxed.chunks = chunks;
    }
    HybridSearchResult found = searchHybridPlan(relaxed, effort, most);
    used += found.effort;
    most = std::min(most, found.lowerBound);
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
std::vector<int64_t> ColumnSearch::splitAnew(std::vector<int64_t> samples,
                                             const std::vector<double> &seconds,
                                             int round) {
  if (types.size() != 2) {
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
  return {next, problem.globalBatch - next};
}

/// See the head of HybridColumns.h. Of some splits, the one that bounds best.
void ColumnSearch::findBound() {
  double longest = std::min(best.predicted, limit);
  std::vector<int64_t> samples = getSamples();
  fewest = step = 1;
  most = problem.globalBatch - 1;
  open.clear();
  for (int round = 0; round < mostSplits && !samples.empty(); ++round) {
    std::vector<double> seconds;
    for (size_t own = 0; own < types.size(); ++own)
      seconds.push_back(findBound(own, samples[own], longest));
    bound = std::max(bound, *std::min_element(seconds.begin(), seconds.end()));
    if (bound >= longest)
      return;
    if (*std::max_element(seconds.begin(), seconds.end()) < longest)
      open.insert(samples);
    samples = splitAnew(samples, seconds, round + 1);
  }
}

/// Whether columns get faster with plans that are the best of another split.
bool ColumnSearch::searchSplits() {
  double before = best.simulated;
  std::vector<GroupPart> parts;
  for (const HybridColumns::Column &column : best.columns)
    parts.push_back(getPart(problem, column.plan));
  for (const std::vector<int64_t> &samples : open)
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
  best.lowerBound = std::min({bound, best.predicted, limit});
  best.effort = used;
  return std::move(best);
}

HybridColumns poplar::searchHybridColumns(const HybridProblem &problem,
                                          int64_t effort, int mostChunks,
                                          double limit) {
  return ColumnSearch(problem, effort, mostChunks, limit).run();
}
