//===- PlanSearch.cpp - From a cluster to a plan --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Cluster/ReplicaCost.h"
#include "Poplar/Planner/Zero/ZeroBound.h"
#include "Zero/ShareSearch.h"
#include <algorithm>
#include <limits>
#include <map>

using namespace poplar;

/// Choices of what the types recompute that are tried one by one.
static constexpr size_t fewCombinations = 27;

/// Numbers of layers that may recompute, for a type, which are tried one by
/// one; none are for plans that take more than so many times the best plan's
/// time, as what is computed again is a third of a step.
static constexpr size_t mostLayerCounts = 8;
static constexpr double farFromBest = 4.0 / 3;

/// How much work a search may be, in units of about a microsecond, and what it
/// takes to pose and solve one problem of a cluster. By size and not by the
/// clock, so that the same input gives the same plan on any machine.
static constexpr int64_t workOfSearch = 1200000;
/// Problems of each combination and in all, at least; and where each is one for
/// every number of replicas, of so many ranks or more.
static constexpr int64_t fewestProblems = 64, fewestReplicated = 8;
static constexpr size_t manyRanks = 1024;
static int64_t workOfProblem(const ClusterView &cluster, Sharding sharding) {
  size_t points = 0;
  for (const DeviceProfile &profile : cluster.profiles)
    if (!profile.microBatches.empty())
      points += profile.microBatches.back();
  auto work = 20 + static_cast<int64_t>(cluster.ranks.size() + points) / 8;
  switch (sharding) {
  case Sharding::Equal:
    return work;
  case Sharding::Memory:
    return 4 * work;
  case Sharding::Replicated:
    break;
  }
  return 40 * work;
}

/// Differences by rounding are none.
static bool isFaster(const Allocation &a, const Allocation &b) {
  return a.seconds < b.seconds * (1 - 1e-12);
}

const char *poplar::toString(Sharding sharding) {
  switch (sharding) {
  case Sharding::Equal:
    return "equal";
  case Sharding::Memory:
    return "memory";
  case Sharding::Replicated:
    break;
  }
  return "replicated";
}

std::vector<Sharding> poplar::readShardings(const std::string &word) {
  std::vector<Sharding> shardings;
  for (Sharding sharding :
       {Sharding::Equal, Sharding::Memory, Sharding::Replicated})
    if (word == "auto" || word == toString(sharding))
      shardings.push_back(sharding);
  return shardings;
}

std::string Untried::describe() const {
  std::string text;
  auto add = [&](bool isUntried, const char *what) {
    if (isUntried)
      text += (text.empty() ? "" : " and ") + std::string(what);
  };
  add(devices, "devices");
  add(recompute, "what types recompute");
  add(shares, "shares of the state");
  return text;
}

/// The ranks of a choice of devices: of each slot the first.
static std::optional<ClusterView> takeChoice(const ClusterView &cluster,
                                             const DeviceSpace &space,
                                             const std::vector<int64_t> &choice,
                                             std::vector<int> *kept = nullptr) {
  std::vector<int64_t> copies(cluster.ranks.size());
  for (size_t slot = 0; slot < choice.size(); ++slot) {
    const ClusterNode &node = cluster.nodes[space.slots[slot].node];
    int64_t left = choice[slot];
    for (int rank = node.firstRank;
         left > 0 && rank < node.firstRank + node.numRanks; ++rank)
      if (cluster.ranks[rank].type == space.slots[slot].type) {
        copies[rank] = 1;
        --left;
      }
  }
  return takeRanks(cluster, copies, kept);
}

static std::optional<PosedJob> poseEqually(const ClusterView &view,
                                           const TrafficRates &rates,
                                           const ModelFacts &model, int stage,
                                           int64_t globalBatch,
                                           std::string &error) {
  PosedJob job;
  job.state.assign(view.ranks.size(), 1.0);
  job.replicas = rates.replicas;
  job.problem = makeBatchProblem(view, model, stage, globalBatch, job.state,
                                 rates, error);
  if (!job.problem)
    return std::nullopt;
  return job;
}

/// As many replicas as the policy is fastest with. An error is of the fewest.
static std::optional<PosedJob>
poseReplicated(const ClusterView &view, RankTraffic &traffic,
               const ModelFacts &model, const BatchPolicy &policy, int stage,
               int64_t globalBatch, std::string &error) {
  if (view.wires.any()) {
    error = "replicas and rounding between nodes are not generated together";
    return std::nullopt;
  }
  std::vector<int64_t> numbers = ReplicaCost::list(view.ranks);
  if (numbers.empty()) {
    error = "nodes do not make shard groups of equally many devices";
    return std::nullopt;
  }
  std::optional<PosedJob> best;
  double least = 0;
  std::string firstError;
  for (int64_t replicas : numbers) {
    auto [rates, isNew] = traffic.ofReplicas.try_emplace(replicas);
    if (isNew)
      rates->second = getTrafficRates(
          view, std::vector<double>(view.ranks.size(), 1.0), replicas);
    std::string missing;
    auto job =
        poseEqually(view, rates->second, model, stage, globalBatch, missing);
    std::optional<Allocation> allocation;
    if (job)
      allocation = policy.solve(*job->problem, missing);
    if (!allocation) {
      if (firstError.empty())
        firstError = missing;
      continue;
    }
    if (!best || allocation->seconds < least * (1 - 1e-12)) {
      best = std::move(job);
      least = allocation->seconds;
    }
  }
  if (best)
    best->work = static_cast<int64_t>(numbers.size());
  else
    error = firstError;
  return best;
}

/// `classes` are DeviceSpace::classifyRanks().
static std::optional<PosedJob>
poseByMemory(const ClusterView &view, RankTraffic &traffic,
             const std::vector<size_t> &classes, const ModelFacts &model,
             const BatchPolicy &policy, int stage, int64_t globalBatch,
             double limit, std::string &error) {
  auto search = ShareSearch::make(view, model, policy, stage, globalBatch,
                                  classes, traffic, error);
  if (!search)
    return std::nullopt;
  ShareSearch::Result found = search->run(limit);
  PosedJob job = {std::nullopt, {}, found.least, found.isShown, found.work};
  if (found.state.empty()) {
    if (found.least <= limit) {
      if (shareStateByMemory(view, model, stage, error))
        error = "no sample fits beside the state on any device";
      return std::nullopt;
    }
    return job;
  }
  job.problem =
      makeBatchProblem(view, model, stage, globalBatch, found.state, error);
  job.state = std::move(found.state);
  return job;
}

std::optional<BatchProblem>
poplar::poseProblem(const ClusterView &cluster, const ModelFacts &model,
                    int stage, Sharding sharding, int64_t globalBatch,
                    std::vector<double> &state, std::string &error) {
  std::optional<PosedJob> job;
  RankTraffic traffic(cluster);
  auto exact = makePolicy("exact", error);
  if (sharding == Sharding::Equal || stage == 0) {
    job = poseEqually(cluster, traffic.rates, model, stage, globalBatch, error);
  } else if (sharding == Sharding::Replicated) {
    job = poseReplicated(cluster, traffic, model, *exact, stage, globalBatch,
                         error);
  } else {
    DeviceSpace space(cluster, std::vector<bool>(cluster.types.size(), true));
    job = poseByMemory(cluster, traffic,
                       space.classifyRanks(cluster, space.all()), model, *exact,
                       stage, globalBatch,
                       std::numeric_limits<double>::infinity(), error);
  }
  if (!job)
    return std::nullopt;
  state = std::move(job->state);
  return std::move(job->problem);
}

std::vector<Recomputation>
poplar::getProfiledRecompute(const ClusterView &cluster,
                             const ModelFacts &model, int type, int stage) {
  Recomputation own = cluster.types[type].recompute;
  std::vector<Recomputation> policies = {own};
  for (Recomputation policy : listWords<RecomputePolicy>())
    if (policy != own && !cluster.types[type].isRecomputeFixed)
      policies.push_back(policy);
  auto isMissing = [&](Recomputation policy) {
    return !cluster.findProfile(type, stage, model.fingerprint, policy);
  };
  policies.erase(std::remove_if(policies.begin(), policies.end(), isMissing),
                 policies.end());
  return policies;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

namespace {

/// Devices that were found to be good for some stage, sharding and
/// recomputation are worth a try for others.
using Hints = std::vector<std::vector<int64_t>>;
/// By devices. The same ones are posed for many stages and recomputations.
using KnownTraffic = std::map<std::vector<int64_t>, RankTraffic>;

/// The search for one stage and sharding.
class ShardingSearch {
public:
  ShardingSearch(const ClusterView &cluster, const ModelFacts &model,
                 const BatchPolicy &policy, const PlanChoices &choices,
                 int stage, Sharding sharding, Hints &hints,
                 KnownTraffic &traffic);

  void run();
  /// Where not everything was tried, tries what other searches found.
  void refine();
  void improveAllLayers(double seconds);
  void boundLayers();
  /// Unless something was not tried: what no plan takes less than.
  double getLowerBound() const {
    double seconds = best ? best->allocation.seconds
                          : std::numeric_limits<double>::infinity();
    return std::min(seconds, layersBound.value_or(seconds));
  }
  std::optional<double> getSeconds() const {
    return best ? std::optional(best->allocation.seconds) : std::nullopt;
  }
  /// Shares of the state were searched for.
  bool sharesByMemory() const {
    return sharding == Sharding::Memory && stage > 0;
  }
  PlanOutcome finish(Untried &untried);

private:
  using Combination = std::vector<size_t>;

  void chooseDevices();
  std::vector<Recomputation> getUsableRecompute(int type) const;
  void eraseDominated(int type, std::vector<Recomputation> &policies) const;
  /// Types of equal specifications and profiles recompute the same.
  void tieTypes();
  size_t countCombinations() const;
  void tryAllCombinations();
  void improveCombination();
  bool improveOneByOne(int64_t budget);
  /// With all devices, or those that are best for the combination. True if it
  /// is better than what there was.
  bool consider(const Combination &combination, int64_t budget);
  void apply(const Combination &combination);
  void apply(const std::vector<Recomputation> &choice);
  const RecomputedLayers *findLayers(int type, RecomputePolicy policy) const;
  std::vector<Recomputation> getRecompute() const;
  std::optional<DeviceProfile> deriveProfile(int type,
                                             Recomputation recompute) const;
  /// The largest micro-batch that fits on a type in the job of `selection`, if
  /// it recomputes like this; none where that is not known.
  std::optional<int64_t> getLargestBatch(const DeviceSelection &selection,
                                         int type,
                                         Recomputation recompute) const;
  bool tryRecompute(const std::vector<Recomputation> &choice,
                    DeviceSelection &selection);
  void takeFewestLayers(DeviceSelection &selection);
  bool improveLayers(int type);
  bool applyLeast();
  std::optional<PosedJob> pose(const std::vector<int64_t> &choice, double limit,
                               std::string &error);
  PlanCandidate makeCandidate();

  ClusterView cluster; // as the combination at hand has it
  const ModelFacts &model;
  const BatchPolicy &policy;
  const PlanChoices &choices;
  int stage;
  Sharding sharding;
  /// What each type may recompute, and the type that it has to follow in that:
  /// itself or one before it.
  std::vector<std::vector<Recomputation>> recompute;
  std::vector<size_t> leaders;
  Hints &hints;
  KnownTraffic &traffic;
  /// Devices that there are, and that the policy wants to have.
  std::vector<int64_t> counts, usable;
  DeviceSpace space = DeviceSpace::ofTypes({});
  int64_t budget = 1;
  Untried untried;

  std::optional<DeviceSelection> best;
  Combination bestCombination;
  /// What types recompute in `best`, some of it perhaps in a part of the
  /// layers.
  std::vector<Recomputation> bestRecompute;
  /// Profiles of the cluster, in front of those that are derived for what its
  /// types recompute.
  size_t numProfiles = 0;
  /// Some types may recompute in some layers; and what no plan takes less than,
  /// whatever they are.
  bool triesLayers = false;
  std::optional<double> layersBound;
  std::string firstError;
};

} // namespace

ShardingSearch::ShardingSearch(const ClusterView &cluster,
                               const ModelFacts &model,
                               const BatchPolicy &policy,
                               const PlanChoices &choices, int stage,
                               Sharding sharding, Hints &hints,
                               KnownTraffic &traffic)
    : cluster(cluster), model(model), policy(policy), choices(choices),
      stage(stage), sharding(sharding), hints(hints), traffic(traffic) {
  std::vector<DeviceProfile> &profiles = this->cluster.profiles;
  auto isOther = [&](const DeviceProfile &profile) {
    return profile.stage != stage;
  };
  profiles.erase(std::remove_if(profiles.begin(), profiles.end(), isOther),
                 profiles.end());
  numProfiles = profiles.size();
  for (int count : cluster.countRanks())
    counts.push_back(count);
}

/// The times and the memory of a job of one type, not of all devices. Where
/// nothing is left, the policy says so.
void ShardingSearch::chooseDevices() {
  usable = counts;
  space = DeviceSpace(cluster, std::vector<bool>(counts.size(), true));
  const std::string &name = policy.getName();
  const std::string homogeneous = "homogeneous:";
  if (name.compare(0, homogeneous.size(), homogeneous) != 0)
    return;
  auto type = cluster.findType(name.substr(homogeneous.size()));
  if (!type || counts[*type] == 0)
    return;
  usable.assign(counts.size(), 0);
  usable[*type] = counts[*type];
  std::vector<bool> isUsable(counts.size());
  isUsable[*type] = true;
  space = DeviceSpace(cluster, isUsable);
}

std::optional<PosedJob> ShardingSearch::pose(const std::vector<int64_t> &choice,
                                             double limit, std::string &error) {
  std::optional<ClusterView> view = takeChoice(cluster, space, choice);
  if (!view || view->ranks.empty())
    return std::nullopt;
  RankTraffic &known = traffic.try_emplace(choice, *view).first->second;
  if (sharding == Sharding::Equal || stage == 0)
    return poseEqually(*view, known.rates, model, stage, choices.globalBatch,
                       error);
  if (sharding == Sharding::Replicated)
    return poseReplicated(*view, known, model, policy, stage,
                          choices.globalBatch, error);
  // What is no better than with other recomputation is of no use, either.
  if (best)
    limit = std::min(limit, best->allocation.seconds);
  return poseByMemory(*view, known, space.classifyRanks(*view, choice), model,
                      policy, stage, choices.globalBatch, limit, error);
}

void ShardingSearch::apply(const Combination &combination) {
  std::vector<Recomputation> choice = getRecompute();
  for (size_t i = 0; i < combination.size(); ++i)
    if (!recompute[i].empty())
      choice[i] = recompute[i][combination[i]];
  apply(choice);
}

bool ShardingSearch::consider(const Combination &combination, int64_t budget) {
  apply(combination);
  std::string posed;
  auto jobOf = [&](const std::vector<int64_t> &choice, double limit) {
    std::string error;
    std::optional<PosedJob> job = pose(choice, limit, error);
    if (!job && posed.empty())
      posed = error;
    return job;
  };
  std::string error;
  auto selection = selectDevices(space, jobOf, policy, error, budget, hints);
  if (!selection) {
    if (firstError.empty())
      firstError = posed.empty() ? error : posed;
    return false;
  }
  if (budget > 1 && !selection->exhaustive)
    untried.devices = true;
  if (!selection->hasBestShares)
    untried.shares = true;
  if (budget > 1 &&
      std::find(hints.begin(), hints.end(), selection->counts) == hints.end())
    hints.push_back(selection->counts);
  takeFewestLayers(*selection);
  if (best && !isFaster(selection->allocation, best->allocation))
    return false;
  best = std::move(*selection);
  bestCombination = combination;
  bestRecompute = getRecompute();
  return true;
}

//===----------------------------------------------------------------------===//
// Recomputation of some layers
//===----------------------------------------------------------------------===//

std::vector<Recomputation> ShardingSearch::getRecompute() const {
  std::vector<Recomputation> choice;
  for (const DeviceType &type : cluster.types)
    choice.push_back(type.recompute);
  return choice;
}

/// Types that are fixed to some layers have a profile of that.
void ShardingSearch::apply(const std::vector<Recomputation> &choice) {
  cluster.profiles.erase(cluster.profiles.begin() +
                             static_cast<ptrdiff_t>(numProfiles),
                         cluster.profiles.end());
  for (size_t i = 0; i < choice.size(); ++i) {
    auto type = static_cast<int>(i);
    cluster.types[i].recompute = choice[i];
    if (choice[i].isPartial() &&
        !cluster.findProfile(type, stage, model.fingerprint))
      if (std::optional<DeviceProfile> profile = deriveProfile(type, choice[i]))
        cluster.profiles.push_back(std::move(*profile));
  }
}

/// Null where the policy holds for the whole model or nothing.
const RecomputedLayers *
ShardingSearch::findLayers(int type, RecomputePolicy policy) const {
  auto index = static_cast<size_t>(type);
  if (!choices.chooseRecompute || index >= choices.layers.size() ||
      cluster.types[index].isRecomputeFixed)
    return nullptr;
  // A profile of a device on which no sample fits has no times.
  auto isUsable = [&](RecomputePolicy known) {
    const DeviceProfile *profile =
        cluster.findProfile(type, stage, model.fingerprint, known);
    return profile && profile->memory && !profile->microBatches.empty();
  };
  for (const RecomputedLayers &own : choices.layers[index])
    if (own.policy == policy && !own.layers.empty() && isUsable(policy) &&
        isUsable(RecomputePolicy::Keep))
      return &own;
  return nullptr;
}

std::optional<DeviceProfile>
ShardingSearch::deriveProfile(int type, Recomputation recompute) const {
  const RecomputedLayers *own = findLayers(type, recompute.policy);
  if (!own)
    return std::nullopt;
  return own->derive(
      *cluster.findProfile(type, stage, model.fingerprint,
                           RecomputePolicy::Keep),
      *cluster.findProfile(type, stage, model.fingerprint, recompute.policy),
      recompute.layers);
}

std::optional<int64_t>
ShardingSearch::getLargestBatch(const DeviceSelection &selection, int type,
                                Recomputation recompute) const {
  const DeviceProfile *now =
                          cluster.findProfile(type, stage, model.fingerprint),
                      *keep =
                          cluster.findProfile(type, stage, model.fingerprint,
                                              RecomputePolicy::Keep),
                      *all = cluster.findProfile(type, stage, model.fingerprint,
                                                 recompute.policy);
  auto memory = findLayers(type, recompute.policy)
                    ->getMemory(*keep, *all, recompute.layers);
  if (!memory || !now->memory || all->microBatches.empty())
    return std::nullopt;
  // The state is the same.
  int64_t free = cluster.types[type].memory -
                 (selection.problem.types[type].fixedBytes + memory->fixed -
                  now->memory->fixed),
          largest = std::min(all->microBatches.back(), choices.globalBatch);
  if (memory->perSample > 0)
    largest = std::min(largest, std::max<int64_t>(free, 0) / memory->perSample);
  return largest;
}

/// Replaces `selection` by the same devices that recompute something else, if
/// that is faster.
bool ShardingSearch::tryRecompute(const std::vector<Recomputation> &choice,
                                  DeviceSelection &selection) {
  std::vector<Recomputation> before = getRecompute();
  apply(choice);
  std::string error;
  std::optional<PosedJob> job =
      pose(selection.counts, selection.allocation.seconds, error);
  std::optional<Allocation> allocation;
  if (job && job->problem)
    allocation = policy.solve(*job->problem, error);
  if (!allocation || !isFaster(*allocation, selection.allocation)) {
    apply(before);
    return false;
  }
  std::vector<int64_t> used = space.countTypes(selection.counts),
                       all = space.countTypes(space.all());
  for (size_t i = 0; i < used.size(); ++i) {
    allocation->types[i].dropped += all[i] - used[i];
    job->problem->types[i].count = all[i];
  }
  selection.problem = std::move(*job->problem);
  selection.allocation = std::move(*allocation);
  selection.state = std::move(job->state);
  selection.replicas = job->replicas;
  selection.hasBestShares &= job->isExact;
  return true;
}

static int64_t getLargestStep(const Allocation::TypeShares &shares) {
  int64_t largest = 0;
  for (const Allocation::Group &group : shares.groups)
    largest = std::max(largest, group.share.largestStep());
  return largest;
}

/// Of what types recompute, the least that their micro-batches need.
void ShardingSearch::takeFewestLayers(DeviceSelection &selection) {
  std::vector<Recomputation> choice = getRecompute();
  if (best &&
      selection.allocation.seconds > farFromBest * best->allocation.seconds)
    return;
  for (size_t i = 0; i < choice.size(); ++i) {
    auto type = static_cast<int>(i);
    RecomputePolicy policy = choice[i].policy;
    int64_t microBatch = getLargestStep(selection.allocation.types[i]);
    const RecomputedLayers *own = findLayers(type, policy);
    if (microBatch == 0 || !own)
      continue;
    // More fits with more layers.
    int64_t least = 1, most = own->countLayers();
    if (getLargestBatch(selection, type, {policy, most}) < microBatch)
      continue;
    while (least < most) {
      int64_t middle = (least + most) / 2;
      if (getLargestBatch(selection, type, {policy, middle}) >= microBatch)
        most = middle;
      else
        least = middle + 1;
    }
    choice[i].layers = most;
  }
  if (choice != getRecompute())
    tryRecompute(choice, selection);
}

/// Tries numbers of layers for a type of `best`: those with which a larger
/// micro-batch fits than with one less, or some of them where they are many.
bool ShardingSearch::improveLayers(int type) {
  const auto index = static_cast<size_t>(type);
  bool improved = false;
  for (RecomputePolicy policy : listWords<RecomputePolicy>()) {
    apply(bestRecompute);
    const RecomputedLayers *own = findLayers(type, policy);
    if (!own || recompute[index].size() < 2)
      continue;
    std::vector<int64_t> useful;
    std::optional<int64_t> fits;
    for (int64_t layers = 1; layers <= own->countLayers(); ++layers) {
      auto more = getLargestBatch(*best, type, {policy, layers});
      if (more && *more > fits.value_or(0))
        useful.push_back(layers);
      fits = more;
    }
    size_t step = (useful.size() + mostLayerCounts - 1) / mostLayerCounts;
    for (size_t i = 0; i < useful.size(); i += step) {
      std::vector<Recomputation> choice = bestRecompute;
      choice[index] = {policy, useful[i]};
      if (choice == bestRecompute || !tryRecompute(choice, *best))
        continue;
      takeFewestLayers(*best);
      bestRecompute = getRecompute();
      improved = true;
    }
  }
  return improved;
}

/// One type at a time, while that helps and the plan is not far from taking as
/// little as `seconds`.
void ShardingSearch::improveAllLayers(double seconds) {
  bool improved = best && best->allocation.seconds <= farFromBest * seconds;
  for (int round = 0; round < 3 && improved; ++round) {
    improved = false;
    for (size_t i = 0; i < counts.size(); ++i)
      if (best->allocation.types[i].dropped < best->problem.types[i].count)
        improved |= improveLayers(static_cast<int>(i));
  }
}

/// Lets types take the time of keeping everything, and the memory of
/// recomputing everything. False where that does not cover all that they may
/// recompute.
bool ShardingSearch::applyLeast() {
  std::vector<Recomputation> choice = getRecompute();
  std::vector<DeviceProfile> least;
  for (size_t i = 0; i < choice.size(); ++i) {
    auto type = static_cast<int>(i);
    if (recompute[i].empty())
      continue;
    const RecomputedLayers *own = findLayers(type, RecomputePolicy::Unit);
    if (recompute[i].size() == 1) {
      choice[i] = recompute[i].front();
      continue;
    }
    if (!own)
      return false;
    const DeviceProfile *all = cluster.findProfile(
        type, stage, model.fingerprint, RecomputePolicy::Unit);
    auto profile =
        own->derive(*cluster.findProfile(type, stage, model.fingerprint,
                                         RecomputePolicy::Keep),
                    *all, 0);
    if (!profile)
      return false;
    profile->memory = all->memory;
    // It is looked up as that of one layer.
    choice[i] = profile->recompute = {RecomputePolicy::Unit, 1};
    least.push_back(std::move(*profile));
  }
  apply(std::vector<Recomputation>(choice.size()));
  for (size_t i = 0; i < choice.size(); ++i)
    cluster.types[i].recompute = choice[i];
  cluster.profiles.insert(cluster.profiles.end(), least.begin(), least.end());
  return true;
}

void ShardingSearch::boundLayers() {
  if (!triesLayers || !best || untried.any() || !applyLeast())
    return;
  std::string error;
  auto jobOf = [&](const std::vector<int64_t> &choice, double limit) {
    return pose(choice, limit, error);
  };
  int64_t most = choices.leaveOut ? budget : 1;
  auto selection = selectDevices(space, jobOf, policy, error, most, hints);
  // Where none is faster than the best plan, there may be no other.
  if (!selection)
    layersBound = best->allocation.seconds;
  else if ((most == 1 || selection->exhaustive) && selection->hasBestShares)
    layersBound = selection->allocation.seconds;
}

size_t ShardingSearch::countCombinations() const {
  size_t combinations = 1;
  for (size_t i = 0; i < recompute.size(); ++i)
    if (leaders[i] == i && !recompute[i].empty())
      combinations =
          std::min(combinations * recompute[i].size(), fewCombinations + 1);
  return combinations;
}

void ShardingSearch::tieTypes() {
  auto isAlike = [&](size_t a, size_t b) {
    return recompute[a] == recompute[b] &&
           areAlike(cluster, static_cast<int>(a), static_cast<int>(b));
  };
  for (size_t i = 0; i < recompute.size(); ++i)
    for (size_t j = 0; j < i && leaders[i] == i; ++j)
      if (isAlike(i, j)) {
        leaders[i] = leaders[j];
        untried.recompute |= recompute[i].size() > 1;
      }
}

void ShardingSearch::tryAllCombinations() {
  Combination combination(recompute.size());
  while (true) {
    for (size_t i = 0; i < combination.size(); ++i)
      combination[i] = combination[leaders[i]];
    consider(combination, choices.leaveOut ? budget : 1);
    size_t i = 0;
    for (; i < combination.size(); ++i) {
      if (leaders[i] != i)
        continue;
      if (++combination[i] < recompute[i].size())
        break;
      combination[i] = 0;
    }
    if (i == combination.size())
      return;
  }
}

bool ShardingSearch::improveOneByOne(int64_t budget) {
  bool improved = false;
  for (size_t i = 0; i < recompute.size(); ++i)
    for (size_t policy = 0; policy < recompute[i].size(); ++policy) {
      Combination changed = bestCombination;
      if (leaders[i] != i || changed[i] == policy)
        continue;
      for (size_t j = i; j < changed.size(); ++j)
        if (leaders[j] == i)
          changed[j] = policy;
      improved |= consider(changed, budget);
    }
  return improved;
}

/// One type at a time with all devices, from what types are set to and from
/// what takes least memory; then the devices, then types again with these.
void ShardingSearch::improveCombination() {
  untried.recompute = true;
  Combination own(recompute.size()), least(recompute.size());
  for (size_t i = 0; i < least.size(); ++i)
    least[i] = recompute[i].empty() ? 0 : recompute[i].size() - 1;
  consider(own, 1);
  consider(least, 1);
  while (best && improveOneByOne(1))
    ;
  if (!choices.leaveOut)
    return;
  // Not all devices need fit together.
  if (best)
    consider(Combination(bestCombination), budget);
  else if (!consider(own, budget))
    consider(least, budget);
  auto few = static_cast<int64_t>(hints.size()) + 2;
  for (int round = 0; round < 3 && best && improveOneByOne(few); ++round)
    consider(Combination(bestCombination), budget / 2);
}

std::vector<Recomputation> ShardingSearch::getUsableRecompute(int type) const {
  std::vector<Recomputation> policies =
      getProfiledRecompute(cluster, model, type, stage);
  auto isOfNoUse = [&](Recomputation policy) {
    if (!choices.chooseRecompute && policy != cluster.types[type].recompute)
      return true;
    // By memory means that it has to be known.
    return sharesByMemory() &&
           !cluster.findProfile(type, stage, model.fingerprint, policy)->memory;
  };
  policies.erase(std::remove_if(policies.begin(), policies.end(), isOfNoUse),
                 policies.end());
  eraseDominated(type, policies);
  return policies;
}

/// A policy is of no use beside one that is as fast and that fits whatever the
/// rank holds of the state.
void ShardingSearch::eraseDominated(
    int type, std::vector<Recomputation> &policies) const {
  // Where memory decides who holds what, less memory is an end in itself.
  if (policies.size() < 2 || sharesByMemory())
    return;
  struct Known {
    const DeviceProfile *profile;
    Curve curve;
    int64_t largest = 0;
  };
  std::vector<Known> known;
  for (Recomputation policy : policies) {
    const DeviceProfile *profile =
        cluster.findProfile(type, stage, model.fingerprint, policy);
    std::string error;
    std::optional<Curve> curve = profile->fitCurve(error);
    if (!curve)
      return;
    Known entry = {profile, *curve, curve->largest()};
    if (profile->maxMicroBatch)
      entry.largest = std::min(entry.largest, *profile->maxMicroBatch);
    known.push_back(entry);
  }
  auto dominates = [&](const Known &a, const Known &b) {
    int64_t used = std::min(b.largest, choices.globalBatch), fits = a.largest;
    if (a.profile->memory) {
      int64_t free = cluster.types[type].memory -
                     getFixedBytes(*a.profile, cluster.types[type], model,
                                   stage, 1, cluster.wires);
      if (free < 0)
        return false;
      if (a.profile->memory->perSample > 0)
        fits = std::min(fits, free / a.profile->memory->perSample);
    }
    if (fits < used || a.profile->optimizerSeconds.value_or(0) >
                           b.profile->optimizerSeconds.value_or(0))
      return false;
    for (int64_t batch = 1; batch <= used; ++batch)
      if (a.curve.seconds(batch) > b.curve.seconds(batch))
        return false;
    return true;
  };
  // The first of equals stays.
  for (size_t i = policies.size(); i-- > 0;)
    for (size_t j = 0; j < policies.size(); ++j)
      if (i != j && dominates(known[j], known[i]) &&
          (j < i || !dominates(known[i], known[j]))) {
        policies.erase(policies.begin() + static_cast<ptrdiff_t>(i));
        known.erase(known.begin() + static_cast<ptrdiff_t>(i));
        break;
      }
}

PlanCandidate ShardingSearch::makeCandidate() {
  PlanCandidate candidate;
  candidate.stage = stage;
  candidate.sharding = sharding;
  apply(bestRecompute);
  candidate.recompute = bestRecompute;
  candidate.derived.assign(cluster.profiles.begin() +
                               static_cast<ptrdiff_t>(numProfiles),
                           cluster.profiles.end());
  takeChoice(cluster, space, best->counts, &candidate.ranks);
  candidate.state = std::move(best->state);
  candidate.replicas = best->replicas;
  candidate.problem = std::move(best->problem);
  candidate.allocation = std::move(best->allocation);
  candidate.wires = cluster.wires;
  for (size_t i = 0; i < counts.size(); ++i) {
    candidate.problem.types[i].count = counts[i];
    candidate.allocation.types[i].dropped += counts[i] - usable[i];
  }
  return candidate;
}

void ShardingSearch::run() {
  chooseDevices();
  for (size_t i = 0; i < counts.size(); ++i) {
    recompute.emplace_back();
    leaders.push_back(i);
    if (usable[i] == 0)
      continue;
    recompute[i] = getUsableRecompute(static_cast<int>(i));
    // What is not known is no reason to leave devices out: posing the problem
    // of all of them says what is missing.
    if (recompute[i].empty()) {
      std::vector<double> state;
      auto view = resizeCluster(cluster, usable);
      poseProblem(*view, model, stage, sharding, choices.globalBatch, state,
                  firstError);
      return;
    }
  }
  // Where one policy is enough, so it is for some layers.
  for (size_t i = 0; i < counts.size(); ++i)
    for (RecomputePolicy policy : listWords<RecomputePolicy>())
      triesLayers |=
          recompute[i].size() > 1 && findLayers(static_cast<int>(i), policy);
  if (countCombinations() > fewCombinations)
    tieTypes();
  auto combinations = static_cast<int64_t>(countCombinations());
  auto searches =
      static_cast<int64_t>(choices.stages.size() * choices.shardings.size());
  budget = workOfSearch / searches / workOfProblem(cluster, sharding);
  int64_t fewest =
      sharding == Sharding::Replicated && cluster.ranks.size() >= manyRanks
          ? fewestReplicated
          : fewestProblems;
  if (combinations <= static_cast<int64_t>(fewCombinations)) {
    budget = std::max(budget / combinations, fewest);
    tryAllCombinations();
  } else {
    budget = std::max(budget, fewest);
    improveCombination();
  }
}

void ShardingSearch::refine() {
  if (!best || !untried.any() || !choices.leaveOut)
    return;
  consider(Combination(bestCombination), budget);
}

PlanOutcome ShardingSearch::finish(Untried &ofAll) {
  PlanOutcome outcome = {stage, sharding, std::nullopt, ""};
  if (best) {
    outcome.best = makeCandidate();
  } else {
    outcome.error = firstError;
  }
  ofAll.devices |= untried.devices;
  ofAll.recompute |= untried.recompute || (triesLayers && best && !layersBound);
  ofAll.shares |= untried.shares;
  return outcome;
}

PlanSearchResult poplar::searchPlans(const ClusterView &cluster,
                                     const ModelFacts &model,
                                     const BatchPolicy &policy,
                                     const PlanChoices &choices) {
  PlanSearchResult result;
  Hints hints;
  KnownTraffic traffic;
  std::vector<ShardingSearch> searches;
  for (int stage : choices.stages)
    for (Sharding sharding : choices.shardings)
      // Nothing is sharded in stage 0.
      if (stage > 0 || sharding == choices.shardings.front())
        searches.emplace_back(cluster, model, policy, choices, stage, sharding,
                              hints, traffic);
  for (ShardingSearch &search : searches)
    search.run();
  for (ShardingSearch &search : searches)
    search.refine();
  double seconds = std::numeric_limits<double>::infinity();
  for (ShardingSearch &search : searches)
    seconds = std::min(seconds, search.getSeconds().value_or(seconds));
  for (ShardingSearch &search : searches)
    search.improveAllLayers(seconds);
  for (ShardingSearch &search : searches)
    search.boundLayers();
  for (ShardingSearch &search : searches) {
    PlanOutcome outcome = search.finish(result.untried);
    // Most clusters are too small for replicas, or their nodes too unlike.
    if (outcome.best || outcome.sharding != Sharding::Replicated ||
        choices.shardings.size() == 1)
      result.outcomes.push_back(std::move(outcome));
  }
  if (const PlanCandidate *best = result.best()) {
    double seconds = best->allocation.seconds;
    bool isShared = std::any_of(
        searches.begin(), searches.end(),
        [](const ShardingSearch &search) { return search.sharesByMemory(); });
    double least = seconds;
    for (const ShardingSearch &search : searches)
      least = std::min(least, search.getLowerBound());
    result.lowerBound =
        result.untried.any()
            ? std::min(findZeroBound(cluster, model, choices), seconds)
            : least * (isShared ? 1 - ShareSearch::tolerance : 1);
  }
  return result;
}

const PlanCandidate *PlanSearchResult::best() const {
  const PlanCandidate *best = nullptr;
  for (const PlanOutcome &outcome : outcomes)
    if (outcome.best &&
        (!best || isFaster(outcome.best->allocation, best->allocation)))
      best = &*outcome.best;
  return best;
}
