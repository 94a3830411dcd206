//===- Plan.cpp - A plan, whoever made it ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Plan/Plan.h"
#include "Division.h"
#include "Poplar/Planner/Cluster/Buildable.h"
#include "Poplar/Planner/Plan/Lanes.h"
#include <algorithm>
#include <cstdlib>
#include <numeric>

using namespace poplar;

//===----------------------------------------------------------------------===//
// Groups and pipelines
//===----------------------------------------------------------------------===//

int64_t Plan::Group::getLargestTensorDegree() const {
  return *std::max_element(tensorDegrees.begin(), tensorDegrees.end());
}

bool poplar::hasUnlikeDegrees(const Plan::Group &group) {
  return std::any_of(
      group.tensorDegrees.begin(), group.tensorDegrees.end(),
      [&](int64_t degree) { return degree != group.tensorDegrees.front(); });
}

std::vector<int64_t> Plan::Group::getPartsOfRanks() const {
  return parts.empty() ? std::vector<int64_t>(getLargestTensorDegree(), 1)
                       : parts;
}

std::vector<int64_t> poplar::getPartsOfRanks(const Plan::Group &group,
                                             size_t pipeline) {
  int64_t degree = group.getTensorDegree(pipeline);
  return degree > 1 && !group.parts.empty() ? group.parts
                                            : std::vector<int64_t>(degree, 1);
}

int64_t Plan::getStage() const {
  int64_t highest = 0;
  for (const Group &group : groups)
    highest = std::max(highest, group.zeroStage);
  return highest;
}

void Plan::setWires(const LossyWires &chosen) {
  wires = chosen;
  if (getStage() == 0)
    wires.parameters.reset();
}

std::vector<std::vector<int64_t>> Plan::getPipelinesOf(size_t group) const {
  std::vector<std::vector<int64_t>> pipelines;
  int64_t missing = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].group != static_cast<int64_t>(group))
      continue;
    if (missing == 0) {
      missing = groups[group].getTensorDegree(pipelines.size());
      pipelines.emplace_back();
    }
    pipelines.back().push_back(static_cast<int64_t>(rank));
    --missing;
  }
  return pipelines;
}

std::vector<Plan::Place> Plan::getPlaces() const {
  std::vector<Place> places(ranks.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    int64_t pipeline = 0;
    int64_t largest = groups[group].getLargestTensorDegree();
    for (const std::vector<int64_t> &members : getPipelinesOf(group)) {
      for (size_t i = 0; i < members.size(); ++i)
        places[members[i]] = {pipeline, static_cast<int64_t>(i)};
      if (members.size() == 1 && largest > 1)
        places[members.front()].position = largest;
      ++pipeline;
    }
  }
  return places;
}

int64_t Plan::findVirtualStage(int64_t unit) const {
  if (isWhole())
    return 0;
  size_t count = groups.size(), all = count * getNumChunks(), index = 0;
  while (index < all &&
         groups[index % count].units[2 * (index / count) + 1] <= unit)
    ++index;
  return static_cast<int64_t>(index);
}

/// The turns that a rank of schedule "custom" lists.
static std::vector<Turn> readTurns(const Plan::Rank &rank) {
  std::vector<Turn> turns;
  for (int64_t turn : rank.turns)
    turns.push_back({turn < 0, std::abs(turn) - 1});
  for (size_t i = 0; i < std::min(turns.size(), rank.chunks.size()); ++i)
    turns[i].chunk = rank.chunks[i];
  return turns;
}

Timetable Plan::getTimetable(size_t pipeline) const {
  auto getFirstRank = [&](size_t group) -> const Rank & {
    return ranks[getPipelinesOf(group)[pipeline].front()];
  };
  if (std::optional<PipelineSchedule> known =
          schedule ? getPipelineSchedule(*schedule) : std::nullopt)
    return Timetable::make(*known,
                           {static_cast<int64_t>(groups.size()), getNumChunks(),
                            getFirstRank(0).share.steps});
  Timetable table;
  table.chunks = getNumChunks();
  for (size_t group = 0; group < groups.size(); ++group)
    table.stages.push_back(readTurns(getFirstRank(group)));
  return table;
}

//===----------------------------------------------------------------------===//
// From stages to a plan
//===----------------------------------------------------------------------===//

std::vector<RankShare>
poplar::sharePipelines(int64_t samples, const std::vector<int64_t> &weights,
                       int64_t microBatch, bool sameSteps) {
  std::vector<RankShare> shares;
  int64_t sum = std::accumulate(weights.begin(), weights.end(), int64_t(0));
  int64_t most = divideUp(
      samples * *std::max_element(weights.begin(), weights.end()), sum);
  int64_t before = 0;
  for (int64_t weight : weights) {
    int64_t own = samples * (before + weight) / sum - samples * before / sum;
    before += weight;
    int64_t steps =
        std::max<int64_t>(1, divideUp(sameSteps ? most : own, microBatch));
    int64_t size = std::min(microBatch, own);
    // The last step has what is left, which is not less than nothing.
    while ((steps - 1) * size > own)
      --size;
    shares.push_back({size, steps, own - (steps - 1) * size});
  }
  return shares;
}

std::vector<RankShare> poplar::sharePipelines(int64_t samples,
                                              int64_t pipelines,
                                              int64_t microBatch,
                                              bool sameSteps) {
  return sharePipelines(samples, std::vector<int64_t>(pipelines, 1), microBatch,
                        sameSteps);
}

/// One number where it is that of all pipelines.
static std::vector<int64_t> getTensorDegrees(const StageRanks &stage) {
  std::vector<int64_t> degrees;
  for (const std::vector<int> &sharers : stage.ranks)
    degrees.push_back(static_cast<int64_t>(sharers.size()));
  if (std::count(degrees.begin(), degrees.end(), degrees.front()) ==
      static_cast<int64_t>(degrees.size()))
    degrees.resize(1);
  return degrees;
}

/// What a pipeline recomputes in a stage; none if all of its types do that
/// anyway. Ranks that share units say it alike.
static std::optional<Recomputation>
getOtherRecompute(const ClusterView &cluster, const StageRanks &stage,
                  size_t pipeline) {
  if (stage.recompute.empty())
    return std::nullopt;
  RecomputePolicy recompute = stage.recompute[pipeline];
  const std::vector<int> &ranks = stage.ranks[pipeline];
  bool isOfTypes = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return cluster.types[cluster.ranks[rank].type].recompute == recompute;
  });
  return isOfTypes ? std::nullopt : std::optional(recompute);
}

Plan poplar::writeStages(const ClusterView &cluster, std::string policy,
                         std::optional<PlanSchedule> schedule,
                         const std::vector<StageRanks> &stages,
                         const std::vector<RankShare> &shares) {
  Plan plan;
  plan.groups.clear();
  plan.policy = std::move(policy);
  for (const RankShare &share : shares)
    plan.globalBatch += share.samples();
  if (stages.size() > 1)
    plan.schedule = schedule;
  for (size_t index = 0; index < stages.size(); ++index) {
    const StageRanks &stage = stages[index];
    Plan::Group &group = plan.groups.emplace_back();
    group.zeroStage = stage.zeroStage;
    group.tensorDegrees = getTensorDegrees(stage);
    if (stages.size() > 1 || group.getLargestTensorDegree() > 1) {
      group.units = stage.units;
      group.parts = stage.parts;
    }
    for (size_t pipeline = 0; pipeline < stage.ranks.size(); ++pipeline) {
      std::optional<Recomputation> recompute =
          getOtherRecompute(cluster, stage, pipeline);
      for (int number : stage.ranks[pipeline]) {
        const DeviceType &type = cluster.types[cluster.ranks[number].type];
        Plan::Rank rank;
        rank.type = type.name;
        rank.node = cluster.nodes[cluster.ranks[number].node].name;
        rank.share = shares[pipeline];
        rank.threads = type.threads.value_or(1);
        rank.group = static_cast<int64_t>(index);
        // A rank that shares units has fewer parts, and as much of the state.
        if (hasUnlikeDegrees(group))
          rank.state = static_cast<double>(stage.ranks[pipeline].size());
        rank.recompute = recompute;
        plan.ranks.push_back(std::move(rank));
      }
    }
  }
  plan.setWires(cluster.wires);
  return plan;
}

std::string poplar::explainUnlikeDegrees(const Plan::Group &group) {
  if (!hasUnlikeDegrees(group))
    return "";
  for (int64_t degree : group.tensorDegrees)
    if (degree != 1 && degree != group.getLargestTensorDegree())
      return "has pipelines of which " + std::to_string(degree) + " and " +
             std::to_string(group.getLargestTensorDegree()) +
             " devices share units, which is not generated: beside pipelines "
             "that share units, others may only compute whole ones";
  if (group.zeroStage > 1)
    return "has pipelines of which unlike numbers of devices share units, "
           "whose ranks meet once an iteration, but is of ZeRO stage " +
           std::to_string(group.zeroStage) + ": take stage 0 or 1";
  return "";
}

static std::string explainGroup(const ClusterView &cluster, const Plan &plan,
                                int64_t index) {
  if (std::string reason = explainUnlikeDegrees(plan.groups[index]);
      !reason.empty())
    return "stage " + std::to_string(index) + " " + reason;
  for (const std::vector<int64_t> &members : plan.getPipelinesOf(index)) {
    const DeviceType *first = nullptr;
    for (int64_t member : members) {
      std::optional<int> type = cluster.findType(plan.ranks[member].type);
      if (!type)
        continue;
      if (!first)
        first = &cluster.types[*type];
      std::string reason = explainUnbuildableStage(
          cluster.types[*type], static_cast<int>(members.size()));
      if (reason.empty())
        reason = explainUnlikeSharers(*first, cluster.types[*type]);
      if (!reason.empty())
        return reason;
    }
  }
  return "";
}

std::string poplar::explainUnbuildable(const ClusterView &cluster,
                                       const Plan &plan) {
  for (size_t group = 0; group < plan.groups.size(); ++group)
    if (std::string reason =
            explainGroup(cluster, plan, static_cast<int64_t>(group));
        !reason.empty())
      return reason;
  return "";
}
