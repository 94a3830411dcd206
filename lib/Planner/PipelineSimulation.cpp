//===- PipelineSimulation.cpp - A hybrid plan, event by event -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/PipelineSimulation.h"
#include "PipelineLane.h"
#include <algorithm>

using namespace poplar;

using Activity = Timeline::Activity;

namespace {

/// One pipeline.
class PipelineRun {
public:
  PipelineRun(std::vector<PlannedStage> planned, PipelineSchedule schedule,
              int64_t microBatches);
  void run();

  struct Pass {
    bool isForward;
    double begin, end;
  };
  struct Message {
    bool isForward;
    double begin, end;
  };
  struct Stage {
    /// Done, in order.
    std::vector<Pass> passes;
    /// That it sent.
    std::vector<Message> messages;
    double now = 0;
    /// When the link forward, and that back, has sent what it had.
    double forwardFree = 0, backwardFree = 0;
    /// When activations and gradients came, by micro-batch.
    std::vector<double> activations, gradients;
    int64_t forwards = 0, backwards = 0;
  };
  std::vector<Stage> stages;

private:
  bool isForwardNext(size_t j) const;
  bool step(size_t j);
  void send(size_t j, bool isForward);

  std::vector<PlannedStage> planned;
  PipelineSchedule schedule;
  int64_t microBatches;
};

} // namespace

PipelineRun::PipelineRun(std::vector<PlannedStage> list,
                         PipelineSchedule schedule, int64_t microBatches)
    : stages(list.size()), planned(std::move(list)), schedule(schedule),
      microBatches(microBatches) {
  // What the model takes and what the loss starts with is there.
  stages.front().activations.assign(microBatches, 0);
}

/// GPipe: while there is one. 1F1B: while fewer than can be are in flight.
bool PipelineRun::isForwardNext(size_t j) const {
  const Stage &stage = stages[j];
  int64_t mostInFlight = schedule == PipelineSchedule::GPipe
                             ? microBatches
                             : static_cast<int64_t>(stages.size() - j);
  return stage.forwards < microBatches &&
         stage.forwards - stage.backwards < mostInFlight;
}

void PipelineRun::send(size_t j, bool isForward) {
  Stage &from = stages[j], &to = stages[isForward ? j + 1 : j - 1];
  double seconds = planned[isForward ? j : j - 1].message;
  double &free = isForward ? from.forwardFree : from.backwardFree;
  double begin = std::max(from.now, free);
  free = begin + seconds;
  from.messages.push_back({isForward, begin, free});
  (isForward ? to.activations : to.gradients).push_back(free);
}

/// One pass of stage j; false if it is done or what it needs has not been sent.
bool PipelineRun::step(size_t j) {
  Stage &stage = stages[j];
  if (stage.backwards == microBatches)
    return false;
  bool isForward = isForwardNext(j), isLast = j + 1 == stages.size();
  double begin = stage.now;
  if (isForward || !isLast) {
    auto number =
        static_cast<size_t>(isForward ? stage.forwards : stage.backwards);
    const std::vector<double> &arrivals =
        isForward ? stage.activations : stage.gradients;
    if (arrivals.size() <= number)
      return false;
    begin = std::max(begin, arrivals[number]);
  }
  const StageCost &cost = planned[j].cost;
  stage.now = begin + (isForward ? cost.forward : cost.backward);
  stage.passes.push_back({isForward, begin, stage.now});
  ++(isForward ? stage.forwards : stage.backwards);
  if (isForward ? !isLast : j > 0)
    send(j, isForward);
  return true;
}

void PipelineRun::run() {
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t j = 0; j < stages.size(); ++j)
      while (step(j))
        moves = true;
  }
}

/// Ranks of a stage of a lane, with their intervals up to the exchange.
static Timeline::RankClass makeTimeline(const std::string &name,
                                        const PipelineRun::Stage &stage) {
  Timeline::RankClass ranks{name, {}, {}};
  double now = 0;
  for (const PipelineRun::Pass &pass : stage.passes) {
    if (pass.begin > now)
      ranks.computation.push_back(
          {now, pass.begin, Activity::WaitForRanks, pass.isForward ? 2 : 3});
    ranks.computation.push_back(
        {pass.begin, pass.end, Activity::Compute, pass.isForward ? 0 : 1});
    now = pass.end;
  }
  for (const PipelineRun::Message &message : stage.messages)
    ranks.communication.push_back({message.begin, message.end,
                                   Activity::Collective,
                                   message.isForward ? 2 : 3});
  std::stable_sort(
      ranks.communication.begin(), ranks.communication.end(),
      [](const auto &a, const auto &b) { return a.begin < b.begin; });
  return ranks;
}

PipelineSimulation poplar::simulateLanes(const std::vector<PipelineLane> &lanes,
                                         PipelineSchedule schedule,
                                         bool recordsTimeline) {
  std::vector<PipelineRun> runs;
  size_t groups = lanes.front().stages.size();
  std::vector<double> computed(groups);
  for (const PipelineLane &lane : lanes) {
    runs.emplace_back(lane.stages, schedule, lane.microBatches);
    runs.back().run();
    for (size_t j = 0; j < groups; ++j)
      computed[j] = std::max(computed[j], runs.back().stages[j].now);
  }
  PipelineSimulation result;
  for (const PipelineLane &lane : lanes)
    for (size_t j = 0; j < groups; ++j)
      result.seconds =
          std::max(result.seconds, computed[j] + lane.stages[j].cost.sync);
  result.timeline.names = {"forward", "backward", "activations", "gradients",
                           "all gradients, optimizer"};
  result.timeline.seconds = result.seconds;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    result.lanes.emplace_back();
    for (size_t j = 0; j < groups; ++j) {
      const PipelineRun::Stage &stage = runs[lane].stages[j];
      PipelineSimulation::Stage seconds;
      for (const PipelineRun::Pass &pass : stage.passes)
        seconds.computing += pass.end - pass.begin;
      seconds.syncing = lanes[lane].stages[j].cost.sync;
      // Not below 0 by rounding.
      seconds.waiting =
          std::max(result.seconds - seconds.computing - seconds.syncing, 0.0);
      result.lanes.back().push_back(seconds);
      if (!recordsTimeline)
        continue;
      Timeline::RankClass ranks = makeTimeline(
          lanes[lane].types[j] + ", stage " + std::to_string(j), stage);
      if (computed[j] > stage.now)
        ranks.computation.push_back(
            {stage.now, computed[j], Activity::WaitForRanks, 4});
      if (seconds.syncing > 0)
        ranks.computation.push_back({computed[j], computed[j] + seconds.syncing,
                                     Activity::WaitForLink, 4});
      result.timeline.classes.push_back(std::move(ranks));
    }
  }
  return result;
}

PipelineSimulation poplar::simulatePipeline(const HybridProblem &problem,
                                            const HybridPlan &plan,
                                            bool recordsTimeline) {
  HybridCosts costs(problem);
  std::vector<PipelineLane> lanes;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    lanes.push_back({getStages(problem, plan, lane, costs),
                     plan.countMicroBatches(problem, lane),
                     {}});
    for (const HybridPlan::Lane::Stage &stage : plan.lanes[lane].stages)
      lanes.back().types.push_back(problem.types[stage.type].name);
  }
  return simulateLanes(lanes, plan.schedule, recordsTimeline);
}
