//===- HybridPlan.cpp - What a hybrid plan costs, and if it is one --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Division.h"
#include "Located.h"
#include "Pipeline/HybridCost.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace poplar;

using Lane = HybridPlan::Lane;

static const HybridProblem::Mode &getMode(const HybridProblem &problem,
                                          const Lane::Stage &stage) {
  return problem.types[stage.type].modes[stage.mode];
}

int64_t HybridPlan::getMicroBatch(const HybridProblem &problem,
                                  size_t lane) const {
  return getMode(problem, lanes[lane].stages.front()).microBatch;
}

int64_t HybridPlan::countMicroBatches(const HybridProblem &problem,
                                      size_t lane) const {
  const Lane &it = lanes[lane];
  int64_t most = divideUp(it.samples, it.pipelines),
          size = getMicroBatch(problem, lane);
  return divideUp(most, size);
}

PipelineShape HybridPlan::getShape(const HybridProblem &problem,
                                   size_t lane) const {
  return {static_cast<int64_t>(groups.size()), chunks,
          countMicroBatches(problem, lane)};
}

std::vector<std::vector<HybridPlan::Range>>
HybridPlan::cutUnits(const HybridProblem &problem) const {
  std::vector<std::vector<Range>> ranges;
  for (size_t j = 0; j < groups.size(); ++j)
    ranges.push_back(cutStage(getMode(problem, lanes[0].stages[j]),
                              {groups[j].first, groups[j].end}, chunks));
  int next = 0;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (std::vector<Range> &ofGroup : ranges) {
      Range &range = ofGroup[chunk];
      range = {next, next + range.end - range.first};
      next = range.end;
    }
  return ranges;
}

std::vector<int64_t>
HybridPlan::countDevices(const HybridProblem &problem) const {
  std::vector<int64_t> devices(problem.types.size());
  for (const Lane &lane : lanes)
    for (const Lane::Stage &stage : lane.stages)
      devices[stage.type] +=
          lane.pipelines * getMode(problem, stage).tensorDegree;
  return devices;
}

std::vector<GroupPart> poplar::getParts(const HybridProblem &problem,
                                        const HybridPlan &plan, size_t group) {
  std::vector<GroupPart> parts;
  for (const Lane &lane : plan.lanes)
    parts.push_back({lane.stages[group].type,
                     getMode(problem, lane.stages[group]).tensorDegree,
                     lane.pipelines});
  return parts;
}

int64_t HybridPlan::countRanks(const HybridProblem &problem,
                               size_t group) const {
  int64_t ranks = 0;
  for (const GroupPart &part : getParts(problem, *this, group))
    ranks += part.pipelines * part.tensorDegree;
  return ranks;
}

std::vector<PlannedStage> poplar::getStages(const HybridProblem &problem,
                                            const HybridPlan &plan, size_t lane,
                                            const HybridCosts &costs) {
  std::vector<PlannedStage> stages;
  std::vector<std::vector<HybridPlan::Range>> ranges = plan.cutUnits(problem);
  PipelineShape shape = plan.getShape(problem, lane);
  for (size_t j = 0; j < plan.groups.size(); ++j) {
    const HybridPlan::Group &group = plan.groups[j];
    std::vector<GroupPart> parts = getParts(problem, plan, j);
    auto [type, mode] = plan.lanes[lane].stages[j];
    PlannedStage stage;
    stage.cost = costs.getStage(group, parts, lane, mode, ranges[j]);
    stage.bytes = stage.cost.fixedBytes;
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      HybridPlan::Range units = ranges[j][chunk];
      StageCost cost = costs.getStage({units.first, units.end, group.zeroStage},
                                      parts, lane, mode, {units});
      stage.chunks.push_back({cost.forward, cost.backward});
      stage.bytes += countInFlight(plan.schedule, shape, int64_t(j), chunk) *
                     costs.getSavedBytes(type, mode, units);
    }
    bool isLast = j + 1 == plan.groups.size();
    if (!isLast || plan.chunks > 1)
      stage.message =
          costs.getMessage(plan.getMicroBatch(problem, lane), parts[lane],
                           getParts(problem, plan, isLast ? 0 : j + 1)[lane]);
    stages.push_back(std::move(stage));
  }
  return stages;
}

LaneTimes poplar::getLaneTimes(const std::vector<PlannedStage> &stages,
                               PipelineSchedule schedule) {
  LaneTimes times;
  times.chunks = static_cast<int>(stages.front().chunks.size());
  int count = static_cast<int>(stages.size());
  const StageCost *behind = nullptr;
  for (int j = count; j-- > 0; behind = &stages[j].cost)
    times = times.prepend(stages[j].cost, behind,
                          behind ? stages[j].message : 0, count - j, schedule);
  return times;
}

std::vector<HybridPlan::RankBytes>
HybridPlan::countBytes(const HybridProblem &problem, size_t lane) const {
  std::vector<RankBytes> bytes;
  auto steps = static_cast<double>(countMicroBatches(problem, lane));
  for (const PlannedStage &stage :
       getStages(problem, *this, lane, HybridCosts(problem))) {
    // Activations to the next stage, and gradients to the one before it.
    size_t group = bytes.size();
    int degree = getMode(problem, lanes[lane].stages[group]).tensorDegree;
    size_t count = groups.size();
    auto getBytes = [&](size_t before, size_t behind) {
      std::vector<int> types[2];
      for (const Lane &each : lanes) {
        types[0].push_back(each.stages[before].type);
        types[1].push_back(each.stages[behind].type);
      }
      return problem.getMessageBytes(types[0], types[1]);
    };
    int64_t messageBytes =
        (chunks - (group + 1 == count)) * getBytes(group, (group + 1) % count) +
        (chunks - (group == 0)) * getBytes((group + count - 1) % count, group);
    // The last micro-batch of a pipeline may be smaller.
    double samples = static_cast<double>(lanes[lane].samples) /
                     static_cast<double>(lanes[lane].pipelines);
    bytes.push_back(
        {stage.bytes,
         stage.cost.bytesPerIteration + steps * stage.cost.bytesPerStep,
         samples * static_cast<double>(messageBytes) / degree});
  }
  return bytes;
}

double HybridPlan::predict(const HybridProblem &problem) const {
  HybridCosts costs(problem);
  double longest = 0;
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    longest = std::max(
        longest, getLaneTimes(getStages(problem, *this, lane, costs), schedule)
                     .getSeconds(countMicroBatches(problem, lane)));
  return longest;
}

//===----------------------------------------------------------------------===//
// Is it one?
//===----------------------------------------------------------------------===//

static std::string checkGroups(const HybridProblem &problem,
                               const HybridPlan &plan) {
  int next = 0;
  for (size_t j = 0; j < plan.groups.size(); ++j) {
    const HybridPlan::Group &group = plan.groups[j];
    if (group.first != next || group.end <= next || group.end > problem.units())
      return at("groups", j) + ": units " + std::to_string(group.first) +
             " to " + std::to_string(group.end) + " do not follow unit " +
             std::to_string(next);
    const std::vector<int> &stages = problem.zeroStages;
    if (std::find(stages.begin(), stages.end(), group.zeroStage) ==
        stages.end())
      return at("groups", j) + ": ZeRO stage " +
             std::to_string(group.zeroStage) + " is none of the choices";
    if (plan.lanes.size() > 1 && group.zeroStage > 1)
      return at("groups", j) +
             ": ranks of different lanes cannot meet in every "
             "micro-batch, as ZeRO stage " +
             std::to_string(group.zeroStage) + " demands";
    next = group.end;
  }
  return next == problem.units() ? "" : "groups: some units are in none";
}

static std::string checkLane(const HybridProblem &problem,
                             const HybridPlan &plan, const Lane &lane) {
  if (lane.stages.size() != plan.groups.size())
    return "has not as many stages as there are groups";
  if (lane.pipelines < 1 || lane.samples < 1)
    return "has no pipelines, or no samples";
  std::vector<int> degrees(problem.types.size());
  for (size_t j = 0; j < lane.stages.size(); ++j) {
    const Lane::Stage &stage = lane.stages[j];
    int types = static_cast<int>(problem.types.size());
    if (stage.type < 0 || stage.type >= types || stage.mode < 0 ||
        stage.mode >= static_cast<int>(problem.types[stage.type].modes.size()))
      return at("stages", j) + ": there is no such type, or mode of it";
    const HybridProblem::Mode &mode = getMode(problem, stage);
    if (mode.microBatch != getMode(problem, lane.stages[0]).microBatch)
      return at("stages", j) + ": has another micro-batch than stage 0";
    int &degree = degrees[stage.type];
    if (degree > 0 && degree != mode.tensorDegree)
      return at("stages", j) +
             ": has another tensor degree than other stages of its type";
    degree = mode.tensorDegree;
    if (!isAligned(problem.types[stage.type], degree, lane.pipelines))
      return at("stages", j) + ": its devices neither fill nodes nor share one "
                               "evenly";
  }
  return "";
}

static std::string checkChunks(const HybridProblem &problem,
                               const HybridPlan &plan) {
  if ((plan.chunks > 1) != takesChunks(plan.schedule))
    return "chunks: " + std::to_string(plan.chunks) +
           " do not go with the schedule " + toString(plan.schedule);
  if (plan.chunks <= 1)
    return plan.chunks == 1 ? "" : "chunks: there must be one at least";
  if (!problem.hasEqualUnits())
    return "chunks: units between the first and the last differ";
  if (plan.groups.size() < 2)
    return "chunks: a single stage has one";
  for (size_t j = 0; j < plan.groups.size(); ++j)
    if (plan.groups[j].end - plan.groups[j].first < plan.chunks)
      return at("groups", j) + ": has fewer units than chunks";
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane)
    if (plan.countMicroBatches(problem, lane) < int64_t(plan.groups.size()))
      return at("lanes", lane) +
             ": has fewer micro-batches than stages, which then wait in every "
             "chunk";
  return "";
}

static std::string checkMemory(const HybridProblem &problem,
                               const HybridPlan &plan) {
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    std::vector<HybridPlan::RankBytes> bytes = plan.countBytes(problem, lane);
    for (size_t j = 0; j < bytes.size(); ++j) {
      const auto &type = problem.types[plan.lanes[lane].stages[j].type];
      if (bytes[j].peak > type.memory)
        return at("lanes", lane) + "." + at("stages", j) +
               ": exceeds the memory of device type '" + type.name + "'";
    }
  }
  return "";
}

std::string HybridPlan::verify(const HybridProblem &problem) const {
  std::string error = checkGroups(problem, *this);
  if (!error.empty())
    return error;
  if (lanes.empty())
    return "lanes: is empty";
  int64_t samples = 0;
  std::set<int> types;
  for (size_t i = 0; i < lanes.size(); ++i) {
    error = checkLane(problem, *this, lanes[i]);
    if (!error.empty())
      return at("lanes", i) + ": " + error;
    samples += lanes[i].samples;
  }
  if (samples != problem.globalBatch)
    return "lanes: have " + std::to_string(samples) + " samples, not " +
           std::to_string(problem.globalBatch);
  if (lanes.size() > 1 && schedule == PipelineSchedule::GPipe)
    return "schedule: several lanes are 1f1b";
  std::vector<int64_t> devices = countDevices(problem);
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] > problem.types[i].count)
      return "uses " + std::to_string(devices[i]) + " devices of type '" +
             problem.types[i].name + "', of which there are " +
             std::to_string(problem.types[i].count);
  error = checkChunks(problem, *this);
  if (error.empty())
    error = checkMemory(problem, *this);
  if (!error.empty())
    return error;
  double predicted = predict(problem);
  if (std::abs(predicted - seconds) > 1e-9 * predicted)
    return "seconds: claims " + std::to_string(seconds) + ", takes " +
           std::to_string(predicted);
  return "";
}
