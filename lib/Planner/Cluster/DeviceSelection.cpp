//===- DeviceSelection.cpp - Which devices to leave out -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/DeviceSelection.h"
#include "Never.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

using namespace poplar;

namespace {

using Choice = std::vector<int64_t>;
using Group = DeviceSpace::Group;

/// A choice and its time.
struct Timed {
  Choice choice;
  double seconds;
};

class Search {
public:
  Search(const DeviceSpace &space, const JobOfCounts &jobOf,
         const BatchPolicy &policy, int64_t budget)
      : space(space), available(space.all()), jobOf(jobOf), policy(policy),
        budget(budget) {}

  std::optional<DeviceSelection> run(const std::vector<Choice> &hints,
                                     std::string &error);

private:
  /// The time of a choice, or a lower bound of it that is above `limit`.
  /// Infinite if there is no plan, or the budget is spent. Keeps the choice in
  /// `best` if it is better than what there is.
  double visit(Choice &choice, double limit);
  double solve(const Choice &choice, double limit, bool &isBound);
  /// Visits the choice; moves to it if it is better than `now`.
  bool consider(Choice choice, Timed &now);

  /// True if all choices were tried.
  bool tryAll();
  void tryAllOfClass(size_t index, Choice &choice);
  void tryAllOfNode(size_t index, size_t node, size_t slot, bool isBelow,
                    Choice &choice);

  void start(Choice choice);
  void tryWholeTypes();
  void tryGroups();
  /// Climbs from the best starts, then from the best of all.
  void climbFromStarts();
  void climb(Timed now, int64_t most);
  bool addAndRemove(Timed &now);
  bool exchange(Timed &now);
  /// As `choice` with `change` more devices of the group, or less; in the
  /// group's order, the last first where there are less. False if there are
  /// not as many.
  bool change(const Group &group, int64_t change, Choice &choice) const;
  int64_t countAvailable(const Group &group) const;

  const DeviceSpace &space;
  const Choice available;
  const JobOfCounts &jobOf;
  const BatchPolicy &policy;
  /// What is left, and below which a climb stops.
  int64_t budget, floor = 0;
  /// All choices are tried, however much work each is.
  bool isComplete = false;
  /// Seconds, and whether they are a lower bound only.
  std::map<Choice, std::pair<double, bool>> known;
  std::vector<Timed> starts;
  /// The least seconds of starts, as many as are climbed from.
  std::vector<double> bestStarts;
  std::optional<DeviceSelection> best;
  /// All jobs had the best shares.
  bool isExact = true;
  std::string firstError;
};

} // namespace

/// Climbs beside the one from the best choice.
static constexpr size_t numClimbs = 4;
/// Problems that are as much work as to pose one more choice.
static constexpr int64_t workOfChoice = 4;

/// Differences by rounding are none, and then more devices are better.
static bool isBetter(double seconds, const Choice &choice, double thanSeconds,
                     const Choice &than) {
  if (seconds < thanSeconds * (1 - 1e-12))
    return true;
  auto sum = [](const Choice &counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t(0));
  };
  return seconds <= thanSeconds * (1 + 1e-12) && sum(choice) > sum(than);
}

double Search::visit(Choice &choice, double limit) {
  space.makeCanonical(choice);
  auto entry = known.find(choice);
  if (entry != known.end()) {
    auto [seconds, isBound] = entry->second;
    if (!isBound || seconds > limit)
      return seconds;
  }
  if (budget == 0)
    return never;
  --budget;
  bool isBound = false;
  double seconds = solve(choice, limit, isBound);
  known[choice] = {seconds, isBound};
  return seconds;
}

double Search::solve(const Choice &choice, double limit, bool &isBound) {
  std::string error = "there is no such job";
  std::optional<PosedJob> job = jobOf(choice, limit);
  std::optional<Allocation> allocation;
  if (job) {
    isExact &= job->isExact;
    if (!isComplete)
      budget = std::max<int64_t>(budget - job->work / workOfChoice, 0);
    double least = job->least;
    if (job->problem && std::isfinite(limit))
      least = std::max(least, job->problem->getLeastSeconds());
    // Most choices are ruled out here, some by more than rounding could do.
    if (!job->problem || least > limit * (1 + 1e-9)) {
      isBound = true;
      return least;
    }
    allocation = policy.solve(*job->problem, error);
  }
  if (!allocation) {
    if (known.empty())
      firstError = error;
    return never;
  }
  double seconds = allocation->seconds;
  if (best &&
      !isBetter(seconds, choice, best->allocation.seconds, best->counts))
    return seconds;
  Choice counts = space.countTypes(choice), all = space.countTypes(available);
  for (size_t type = 0; type < counts.size(); ++type) {
    allocation->types[type].dropped += all[type] - counts[type];
    job->problem->types[type].count = all[type];
  }
  best = {choice,
          std::move(*job->problem),
          std::move(*allocation),
          std::move(job->state),
          job->replicas,
          false};
  return seconds;
}

bool Search::consider(Choice choice, Timed &now) {
  double seconds = visit(choice, now.seconds);
  if (!isBetter(seconds, choice, now.seconds, now.choice))
    return false;
  now = {std::move(choice), seconds};
  return true;
}

//===----------------------------------------------------------------------===//
// All choices
//===----------------------------------------------------------------------===//

bool Search::tryAll() {
  if (space.countChoices(budget + 1) > budget)
    return false;
  isComplete = true;
  Choice choice = available;
  tryAllOfClass(0, choice);
  return true;
}

void Search::tryAllOfClass(size_t index, Choice &choice) {
  if (index == space.classes.size()) {
    Choice copy = choice;
    visit(copy, best ? best->allocation.seconds : never);
  } else {
    tryAllOfNode(index, 0, space.classes[index].front().first, false, choice);
  }
}

/// From all devices down. Of interchangeable nodes, none has more than the one
/// before it, the first slot in which they differ deciding; `isBelow` if they
/// differ in one before `slot`.
void Search::tryAllOfNode(size_t index, size_t node, size_t slot, bool isBelow,
                          Choice &choice) {
  const auto &nodes = space.classes[index];
  if (slot == nodes[node].end) {
    if (node + 1 < nodes.size())
      tryAllOfNode(index, node + 1, nodes[node + 1].first, false, choice);
    else
      tryAllOfClass(index + 1, choice);
    return;
  }
  int64_t most = available[slot];
  if (node > 0 && !isBelow)
    most = choice[nodes[node - 1].first + (slot - nodes[node].first)];
  for (int64_t count = most; count >= 0; --count) {
    choice[slot] = count;
    tryAllOfNode(index, node, slot + 1, isBelow || count < most, choice);
  }
}

//===----------------------------------------------------------------------===//
// Too many to try all
//===----------------------------------------------------------------------===//

/// A choice that takes longer than all that are climbed from is no start.
void Search::start(Choice choice) {
  double limit = bestStarts.size() < numClimbs ? never : bestStarts.back();
  double seconds = visit(choice, limit);
  if (!std::isfinite(seconds) || seconds > limit)
    return;
  auto isSame = [&](const Timed &other) { return other.choice == choice; };
  if (std::any_of(starts.begin(), starts.end(), isSame))
    return;
  starts.push_back({std::move(choice), seconds});
  bestStarts.insert(
      std::upper_bound(bestStarts.begin(), bestStarts.end(), seconds), seconds);
  bestStarts.resize(std::min(bestStarts.size(), numClimbs));
}

void Search::tryWholeTypes() {
  // With more types than this, only groups and their changes leave some out.
  if (space.numTypes > 10)
    return;
  int64_t choices = int64_t(1) << space.numTypes;
  // Where not all devices fit together, a start has to be found first.
  bool findsStart = starts.empty();
  if (findsStart)
    budget = std::max(budget, 2 * choices);
  else if (4 * choices > budget)
    return;
  for (int64_t out = 1; out + 1 < choices; ++out) {
    Choice choice = available;
    for (size_t slot = 0; slot < choice.size(); ++slot)
      if (out >> space.slots[slot].type & 1)
        choice[slot] = 0;
    start(std::move(choice));
    if (!starts.empty() && findsStart)
      return;
  }
}

/// Each group alone, and all but the group. At most a third of the budget, as
/// there is more to gain in what follows.
void Search::tryGroups() {
  bool findsStart = starts.empty();
  if (findsStart)
    budget =
        std::max(budget, 4 * static_cast<int64_t>(space.groups.size()) + 1);
  int64_t kept = budget - budget / 3;
  for (const Group &group : space.groups) {
    if (budget <= kept && !findsStart)
      return;
    Choice alone(available.size()), without = available;
    for (size_t slot : group) {
      alone[slot] = available[slot];
      without[slot] = 0;
    }
    start(std::move(alone));
    start(std::move(without));
    if (!starts.empty() && findsStart)
      return;
  }
}

int64_t Search::countAvailable(const Group &group) const {
  int64_t count = 0;
  for (size_t slot : group)
    count += available[slot];
  return count;
}

bool Search::change(const Group &group, int64_t change, Choice &choice) const {
  for (size_t i = 0; i < group.size() && change > 0; ++i) {
    int64_t more = std::min(change, available[group[i]] - choice[group[i]]);
    choice[group[i]] += more;
    change -= more;
  }
  for (size_t i = group.size(); i-- > 0 && change < 0;) {
    int64_t less = std::min(-change, choice[group[i]]);
    choice[group[i]] -= less;
    change += less;
  }
  return change == 0;
}

bool Search::addAndRemove(Timed &now) {
  bool improved = false;
  for (const Group &group : space.groups)
    for (int64_t size = countAvailable(group); size > 0; size /= 2)
      for (int sign : {-1, 1}) {
        if (budget <= floor)
          return false;
        Choice choice = now.choice;
        if (change(group, sign * size, choice))
          improved |= consider(std::move(choice), now);
      }
  return improved;
}

/// All of a group, or one device, for all of another, or one.
bool Search::exchange(Timed &now) {
  for (const Group &from : space.groups)
    for (const Group &to : space.groups) {
      int64_t has = 0, free = 0;
      for (size_t slot : from)
        has += now.choice[slot];
      for (size_t slot : to)
        free += available[slot] - now.choice[slot];
      if (&from == &to || has == 0 || free == 0)
        continue;
      for (int64_t less : {has, int64_t(1)})
        for (int64_t more : {free, int64_t(1)}) {
          if (budget <= floor)
            return false;
          Choice choice = now.choice;
          if (change(from, -less, choice) && change(to, more, choice) &&
              consider(std::move(choice), now))
            return true;
        }
    }
  return false;
}

void Search::climb(Timed now, int64_t most) {
  floor = std::max<int64_t>(budget - most, 0);
  while (budget > floor && (addAndRemove(now) || exchange(now)))
    ;
}

void Search::climbFromStarts() {
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Timed &a, const Timed &b) {
                     return a.seconds < b.seconds * (1 - 1e-12);
                   });
  if (best)
    climb({best->counts, best->allocation.seconds}, budget / 2);
  for (size_t i = 0; i < std::min(starts.size(), numClimbs); ++i)
    climb(starts[i], budget / 3);
  if (best)
    climb({best->counts, best->allocation.seconds}, budget);
}

std::optional<DeviceSelection> Search::run(const std::vector<Choice> &hints,
                                           std::string &error) {
  bool all = tryAll();
  if (!all) {
    bool mayLeaveOut = budget > 1;
    start(available);
    if (mayLeaveOut) {
      for (const Choice &hint : hints)
        start(hint);
      tryWholeTypes();
      tryGroups();
      climbFromStarts();
    }
  }
  if (best) {
    best->exhaustive = all;
    best->hasBestShares = isExact;
  } else {
    error = firstError;
  }
  return best;
}

std::optional<DeviceSelection>
poplar::selectDevices(const DeviceSpace &space, const JobOfCounts &jobOf,
                      const BatchPolicy &policy, std::string &error,
                      int64_t budget, const std::vector<Choice> &hints) {
  return Search(space, jobOf, policy, budget).run(hints, error);
}
