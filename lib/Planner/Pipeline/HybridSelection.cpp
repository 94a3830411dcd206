//===- HybridSelection.cpp - Which devices a hybrid plan has --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridSelection.h"
#include "Never.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Cluster/DeviceSpace.h"
#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <algorithm>
#include <map>
#include <set>

using namespace poplar;

/// Groups are left out of and added to so many of the best starts.
static constexpr size_t mostStarts = 4;
/// The most choices that are all tried; of more, those without a group first.
static constexpr int64_t mostExhaustive = 128;
/// All searches but the first have the effort of one divided by this.
static constexpr int64_t partsOfOthers = 2;
/// The search of a part of the plans has the effort of one divided by this, and
/// looks for plans that cost at most so many times what the best costs.
static constexpr int64_t partsOfEffort = 8;
static constexpr double marginOfParts = 1.1;
/// The more devices, the longer a search takes: beyond `mostDevices`, of a few
/// types each is tried alone and left out, and of more nothing is left out but
/// what the search of all of them leaves idle.
static constexpr int64_t choicesTimesDevices = 8192, mostDevices = 64,
                         mostTypesOfMany = 3;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The mode of a type that computes like another but for what it recomputes;
/// -1 if there is none.
static int findMode(const HybridProblem::DeviceType &type,
                    const HybridProblem::Mode &like,
                    RecomputePolicy recompute) {
  for (size_t mode = 0; mode < type.modes.size(); ++mode)
    if (type.modes[mode].tensorDegree == like.tensorDegree &&
        type.modes[mode].microBatch == like.microBatch &&
        type.modes[mode].recompute == recompute)
      return static_cast<int>(mode);
  return -1;
}

/// Lanes by the device type of the cluster that they have in a group: where
/// slow links part it into types of the problem, there may be several.
static std::map<int, std::vector<size_t>>
groupLanes(const HybridCluster &it, const HybridPlan &plan, size_t group) {
  std::map<int, std::vector<size_t>> lanes;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane)
    lanes[it.devices[plan.lanes[lane].stages[group].type].type].push_back(lane);
  return lanes;
}

bool poplar::agreeOnRecompute(const HybridCluster &cluster, HybridPlan &plan) {
  const HybridProblem &problem = cluster.problem;
  for (size_t group = 0; group < plan.groups.size(); ++group)
    for (const auto &[type, lanes] : groupLanes(cluster, plan, group)) {
      std::set<RecomputePolicy> policies;
      for (size_t lane : lanes) {
        auto [own, mode] = plan.lanes[lane].stages[group];
        policies.insert(problem.types[own].modes[mode].recompute);
      }
      if (policies.size() < 2)
        continue;
      std::optional<HybridPlan> best;
      for (RecomputePolicy policy : policies) {
        HybridPlan changed = plan;
        bool isPossible = true;
        for (size_t lane : lanes) {
          HybridPlan::Lane::Stage &stage = changed.lanes[lane].stages[group];
          const HybridProblem::DeviceType &own = problem.types[stage.type];
          stage.mode = findMode(own, own.modes[stage.mode], policy);
          isPossible &= stage.mode >= 0;
        }
        if (!isPossible)
          continue;
        changed.seconds = changed.predict(problem);
        if (changed.verify(problem).empty() &&
            (!best || changed.seconds < best->seconds))
          best = std::move(changed);
      }
      if (!best)
        return false;
      plan = std::move(*best);
    }
  return true;
}

namespace {

using Choice = std::vector<int64_t>;

class Selector {
public:
  Selector(const ClusterView &whole, const HybridModel &model,
           int64_t globalBatch, const HybridFilter &filter, int64_t effort,
           int mostChunks, int64_t mostChoices, double limit,
           const Deadline &deadline);
  HybridSelection run();

private:
  ClusterView take(const Choice &choice, std::vector<int> &kept) const;
  bool isLeft() const;
  /// There is a plan, and no time to look for others.
  bool isOver() const {
    return (limit < never || best.choice.search.plan) && deadline.isOver();
  }
  double consider(Choice choice);
  std::vector<HybridCluster> pose(const ClusterView &view,
                                  std::string &error) const;
  void search(const Choice &choice, double &seconds);
  void searchPart(const HybridFilter &restrict);
  void searchParts();
  void offer(const HybridCluster &cluster, const std::vector<int> &kept,
             const HybridPlan &plan, double lowerBound, double seconds,
             size_t most = mostFinalists);
  void tryAll();
  void tryGroups();
  void improve(Choice choice);
  Choice change(Choice choice, const DeviceSpace::Group &group,
                bool isIn) const;
  double findLowerBound() const;

  ClusterView cluster;
  const HybridModel &model;
  int64_t globalBatch;
  const HybridFilter &filter;
  int64_t effort;
  int mostChunks;
  int64_t mostChoices;
  double limit;
  const Deadline &deadline;
  std::optional<DeviceSpace> space;
  /// Seconds of the choices that were searched.
  std::map<Choice, double> tried;
  int64_t used = 0;
  HybridSelection best;
  /// The devices of the best plan.
  Choice bestChoice;
  /// By chunks: no plan of the choices that were posed costs less.
  std::array<double, HybridProblem::mostChunks + 1> bounds;
};

} // namespace

static int64_t limitChoices(const ClusterView &cluster) {
  auto devices = static_cast<int64_t>(cluster.ranks.size());
  if (devices > mostDevices) {
    std::vector<int> counts = cluster.countRanks();
    int64_t types = std::count_if(counts.begin(), counts.end(),
                                  [](int count) { return count > 0; });
    // All and none of the devices, too.
    return types > mostTypesOfMany ? 1 : 2 + 2 * types;
  }
  return std::min<int64_t>(choicesTimesDevices / devices, 2048);
}

Selector::Selector(const ClusterView &whole, const HybridModel &model,
                   int64_t globalBatch, const HybridFilter &filter,
                   int64_t effort, int mostChunks, int64_t mostChoices,
                   double limit, const Deadline &deadline)
    : cluster(whole), model(model), globalBatch(globalBatch), filter(filter),
      effort(effort), mostChunks(mostChunks),
      mostChoices(mostChoices ? mostChoices : limitChoices(whole)),
      limit(limit), deadline(deadline) {
  bounds.fill(never);
  mergeAlikeTypes(cluster);
  space.emplace(cluster, std::vector<bool>(cluster.types.size(), true));
}

/// The devices of a choice as if there were no others.
ClusterView Selector::take(const Choice &choice, std::vector<int> &kept) const {
  ClusterView view = cluster;
  view.nodes.clear();
  view.ranks.clear();
  view.links.clear();
  std::vector<int> numbers(cluster.nodes.size(), -1);
  for (size_t node = 0; node < cluster.nodes.size(); ++node) {
    std::vector<int64_t> left(cluster.types.size());
    for (size_t slot = 0; slot < choice.size(); ++slot)
      if (space->slots[slot].node == static_cast<int>(node))
        left[space->slots[slot].type] = choice[slot];
    const ClusterNode &from = cluster.nodes[node];
    ClusterNode taken{from.name, static_cast<int>(view.ranks.size()), 0};
    auto index = static_cast<int>(view.nodes.size());
    for (int i = from.firstRank; i < from.firstRank + from.numRanks; ++i)
      if (left[cluster.ranks[i].type]-- > 0) {
        view.ranks.push_back({index, cluster.ranks[i].type});
        kept.push_back(i);
        ++taken.numRanks;
      }
    if (taken.numRanks == 0)
      continue;
    numbers[node] = index;
    view.nodes.push_back(std::move(taken));
  }
  for (const auto &[ends, link] : cluster.links)
    if (numbers[ends.first] >= 0 && numbers[ends.second] >= 0)
      view.links[{numbers[ends.first], numbers[ends.second]}] = link;
  return view;
}

bool Selector::isLeft() const {
  return static_cast<int64_t>(tried.size()) < mostChoices &&
         used < effort / partsOfOthers && !deadline.isOver();
}

/// Seconds of the best plan of a choice; infinite if there is none, or none
/// that is nearly as good as the best of all.
double Selector::consider(Choice choice) {
  space->makeCanonical(choice);
  auto [entry, isNew] = tried.try_emplace(choice, never);
  bool isEmpty = std::all_of(choice.begin(), choice.end(),
                             [](int64_t count) { return count == 0; });
  if (isNew && !isEmpty)
    search(choice, entry->second);
  return entry->second;
}

/// Changes plans of which poplar build could not make one program for each type
/// in a stage, or drops them. The best may then be another.
static void agree(HybridChoice &found,
                  const std::vector<HybridCluster> &problems) {
  using Other = HybridChoice::Other;
  std::vector<Other> all = std::move(found.others), kept;
  found.others.clear();
  if (found.search.plan)
    all.insert(all.begin(), {found.problem, *found.search.plan, found.seconds});
  bool isChanged = false;
  for (Other &other : all) {
    const HybridCluster &cluster = problems[other.problem];
    double before = other.plan.seconds;
    if (!agreeOnRecompute(cluster, other.plan)) {
      isChanged = true;
      continue;
    }
    if (other.plan.seconds != before) {
      other.seconds = simulatePipeline(cluster.problem, other.plan).seconds;
      isChanged = true;
    }
    kept.push_back(std::move(other));
  }
  auto best = kept.begin();
  if (isChanged)
    best = std::min_element(
        kept.begin(), kept.end(),
        [](const Other &a, const Other &b) { return a.seconds < b.seconds; });
  if (kept.empty()) {
    if (found.search.plan)
      found.search.error = "no plan was found in which devices of a type "
                           "recompute the same in each stage";
    found.search.plan.reset();
    found.seconds = never;
    return;
  }
  found.problem = best->problem;
  found.search.plan = std::move(best->plan);
  found.seconds = best->seconds;
  kept.erase(best);
  found.others = std::move(kept);
}

static bool lacksModes(const HybridCluster &cluster) {
  const std::vector<HybridProblem::DeviceType> &types = cluster.problem.types;
  return std::any_of(
      types.begin(), types.end(),
      [](const HybridProblem::DeviceType &it) { return it.modes.empty(); });
}

/// What of the problems of some devices is wanted.
std::vector<HybridCluster> Selector::pose(const ClusterView &view,
                                          std::string &error) const {
  std::vector<HybridCluster> problems =
      makeHybridProblems(view, model, globalBatch, error);
  for (HybridCluster &each : problems)
    filter(each.problem);
  // A team that may not share units is none.
  if (!problems.empty())
    problems.erase(
        std::remove_if(problems.begin() + 1, problems.end(), lacksModes),
        problems.end());
  return problems;
}

static std::vector<HybridProblem>
getProblems(const std::vector<HybridCluster> &clusters) {
  std::vector<HybridProblem> problems;
  for (const HybridCluster &each : clusters)
    problems.push_back(each.problem);
  return problems;
}

void Selector::search(const Choice &choice, double &seconds) {
  std::vector<int> kept;
  ClusterView view = take(choice, kept);
  std::string error;
  std::vector<HybridCluster> problems = pose(view, error);
  bool isFirst = tried.size() == 1;
  if (problems.empty()) {
    if (isFirst)
      best.choice.search.error = error;
    return;
  }
  std::vector<HybridProblem> posed = getProblems(problems);
  if (isFirst)
    best.cluster = best.whole = problems.front();
  double most = std::min(limit, best.choice.seconds * simulationMargin),
         least =
             static_cast<double>(globalBatch) / findUpperBound(posed.front());
  if (least >= most || isOver()) {
    best.isExhaustive &= least >= most;
    for (double &bound : bounds)
      bound = std::min(bound, least);
    return;
  }
  HybridChoice found = chooseHybridPlan(
      posed, effort / static_cast<int64_t>(posed.size()), mostChunks, most);
  if (!isFirst)
    used += found.effort;
  for (size_t chunks = 0; chunks < bounds.size(); ++chunks)
    bounds[chunks] = std::min(bounds[chunks], found.bounds[chunks]);
  if (isFirst)
    best.choice.search.error = found.search.error;
  agree(found, problems);
  if (!found.search.plan)
    return;
  seconds = found.seconds;
  auto offerPlan = [&](size_t problem, const HybridPlan &plan, double seconds) {
    offer(problems[problem], kept, plan,
          std::min(found.bounds[plan.chunks], plan.seconds), seconds);
  };
  offerPlan(found.problem, *found.search.plan, found.seconds);
  for (const HybridChoice::Other &other : found.others)
    offerPlan(other.problem, other.plan, other.seconds);
  if (seconds >= best.choice.seconds)
    return;
  bestChoice = choice;
  best.cluster = best.finalists.front().cluster;
  found.problem = 0;
  found.others.clear();
  found.search.error.clear();
  best.choice = std::move(found);
}

/// Takes a plan of `cluster`, which has the ranks `kept`, among the finalists.
void Selector::offer(const HybridCluster &cluster, const std::vector<int> &kept,
                     const HybridPlan &plan, double lowerBound, double seconds,
                     size_t most) {
  std::vector<HybridFinalist> &list = best.finalists;
  auto at = std::upper_bound(list.begin(), list.end(), seconds,
                             [](double own, const HybridFinalist &other) {
                               return own < other.seconds;
                             });
  bool isKnown = at != list.begin() && std::prev(at)->seconds == seconds;
  if (isKnown || at - list.begin() >= static_cast<int64_t>(most))
    return;
  at = list.insert(at, {cluster, plan, lowerBound, seconds});
  for (HybridCluster::Devices &devices : at->cluster.devices)
    for (int &rank : devices.ranks)
      rank = kept[rank];
  if (list.size() > most)
    list.pop_back();
}

/// Takes the best plan of the best choice, of those that `restrict` leaves,
/// among the finalists.
void Selector::searchPart(const HybridFilter &restrict) {
  std::vector<int> kept;
  std::string error;
  std::vector<HybridCluster> problems = pose(take(bestChoice, kept), error);
  for (HybridCluster &each : problems)
    restrict(each.problem);
  problems.erase(std::remove_if(problems.begin(), problems.end(), lacksModes),
                 problems.end());
  if (problems.empty())
    return;
  HybridChoice found = chooseHybridPlan(
      getProblems(problems),
      effort / partsOfEffort / static_cast<int64_t>(problems.size()),
      mostChunks,
      std::min(limit, best.choice.search.plan->seconds * marginOfParts));
  agree(found, problems);
  if (!found.search.plan)
    return;
  HybridPlan &plan = *found.search.plan;
  offer(problems[found.problem], kept, plan,
        std::min(bounds[plan.chunks], plan.seconds), found.seconds,
        best.finalists.size() + 1);
  if (found.seconds >= best.choice.seconds)
    return;
  best.cluster = best.finalists.front().cluster;
  best.choice.search.plan = std::move(plan);
  best.choice.seconds = found.seconds;
}

/// What costs ranks closely, programs may rank otherwise: the best plan of each
/// ZeRO stage, and of those that recompute nothing, are finalists, too.
void Selector::searchParts() {
  std::vector<int> stages = best.whole.problem.zeroStages;
  for (int stage : stages)
    if (stages.size() > 1 && !deadline.isOver())
      searchPart([=](HybridProblem &problem) { problem.zeroStages = {stage}; });
  if (deadline.isOver())
    return;
  searchPart([](HybridProblem &problem) {
    for (HybridProblem::DeviceType &type : problem.types)
      type.modes.erase(std::remove_if(type.modes.begin(), type.modes.end(),
                                      [](const HybridProblem::Mode &mode) {
                                        return mode.recompute !=
                                               RecomputePolicy::Keep;
                                      }),
                       type.modes.end());
  });
}

/// Larger numbers of each slot first.
void Selector::tryAll() {
  Choice all = space->all(), choice = all;
  while (used < effort / partsOfOthers && !isOver()) {
    consider(choice);
    size_t slot = choice.size();
    while (slot > 0 && choice[slot - 1] == 0) {
      choice[slot - 1] = all[slot - 1];
      --slot;
    }
    if (slot == 0)
      return;
    --choice[slot - 1];
  }
  best.isExhaustive = false;
}

Choice Selector::change(Choice choice, const DeviceSpace::Group &group,
                        bool isIn) const {
  for (size_t slot : group)
    choice[slot] = isIn ? space->slots[slot].count : 0;
  return choice;
}

void Selector::tryGroups() {
  Choice all = space->all(), none(all.size());
  consider(all);
  for (const DeviceSpace::Group &group : space->groups)
    for (bool isIn : {false, true})
      if (isLeft())
        consider(change(isIn ? none : all, group, isIn));
  if (static_cast<int64_t>(cluster.ranks.size()) > mostDevices)
    return;
  std::vector<std::pair<double, Choice>> starts;
  for (const auto &[choice, seconds] : tried)
    if (seconds < never)
      starts.emplace_back(seconds, choice);
  std::stable_sort(
      starts.begin(), starts.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  starts.resize(std::min(starts.size(), mostStarts));
  for (const auto &[seconds, choice] : starts)
    improve(choice);
}

/// Takes the best of all changes, as long as there is one.
void Selector::improve(Choice choice) {
  double seconds = consider(choice);
  while (true) {
    double least = seconds;
    Choice next;
    auto take = [&](const Choice &changed) {
      double found = isLeft() ? consider(changed) : never;
      if (found < least) {
        least = found;
        next = changed;
      }
    };
    for (const DeviceSpace::Group &group : space->groups)
      for (bool isIn : {false, true})
        take(change(choice, group, isIn));
    // One device of a slot.
    for (size_t slot = 0; slot < choice.size(); ++slot)
      for (int64_t by : {-1, 1}) {
        Choice changed = choice;
        changed[slot] += by;
        if (changed[slot] >= 0 && changed[slot] <= space->slots[slot].count)
          take(changed);
      }
    if (next.empty())
      return;
    seconds = least;
    choice = std::move(next);
  }
}

double Selector::findLowerBound() const {
  double bound =
      *std::min_element(bounds.begin() + 1, bounds.begin() + mostChunks + 1);
  // Whatever devices take part, they compute no faster than all of them.
  if (!best.isExhaustive && !best.whole.problem.types.empty())
    bound = std::min(bound, static_cast<double>(globalBatch) /
                                findUpperBound(best.whole.problem));
  return bound;
}

HybridSelection Selector::run() {
  int64_t most = std::min(mostChoices, mostExhaustive);
  best.isExhaustive = space->countChoices(most + 1) <= most;
  if (best.isExhaustive)
    tryAll();
  else
    tryGroups();
  if (best.choice.search.plan &&
      static_cast<int64_t>(cluster.ranks.size()) <= mostDevices)
    searchParts();
  for (HybridFinalist &each : best.finalists)
    if (best.isExhaustive)
      each.lowerBound = std::min(bounds[each.plan.chunks], each.plan.seconds);
  if (best.choice.search.plan)
    best.choice.search.lowerBound = best.finalists.front().lowerBound;
  if (!best.choice.search.plan)
    best.choice.bounds = bounds;
  best.lowerBound = findLowerBound();
  return std::move(best);
}

HybridSelection poplar::selectHybridDevices(
    const ClusterView &cluster, const HybridModel &model, int64_t globalBatch,
    const HybridFilter &filter, int64_t effort, int mostChunks,
    int64_t mostChoices, double limit, const Deadline &deadline) {
  // What is wrong with the cluster is no reason to leave devices out.
  HybridSelection none;
  if (makeHybridProblems(cluster, model, globalBatch, none.choice.search.error)
          .empty())
    return none;
  return Selector(cluster, model, globalBatch, filter, effort, mostChunks,
                  mostChoices, limit, deadline)
      .run();
}
