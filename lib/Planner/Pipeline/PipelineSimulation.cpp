//===- PipelineSimulation.cpp - A hybrid plan, event by event -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include "Pipeline/PipelineLane.h"
#include "Poplar/Planner/Pipeline/Timetable.h"
#include <algorithm>
#include <map>

using namespace poplar;

using Activity = Timeline::Activity;

namespace {

/// One pipeline.
class PipelineRun {
public:
  PipelineRun(const std::vector<PlannedStage> &planned,
              PipelineSchedule schedule, int64_t microBatches);
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
    /// The next turn.
    size_t next = 0;
  };
  std::vector<Stage> stages;

private:
  /// When what the turns of a chunk need has come, by micro-batch.
  struct Arrivals {
    std::vector<double> activations, gradients;
  };
  bool step(size_t j);
  void send(size_t j, const Turn &turn, size_t from, size_t to);

  const std::vector<PlannedStage> &planned;
  Timetable table;
  /// By virtual stage.
  std::vector<Arrivals> arrivals;
  /// When the link from a stage to another has sent what it had.
  std::map<std::pair<size_t, size_t>, double> free;
};

} // namespace

PipelineRun::PipelineRun(const std::vector<PlannedStage> &planned,
                         PipelineSchedule schedule, int64_t microBatches)
    : stages(planned.size()), planned(planned),
      table(Timetable::make(
          schedule,
          {static_cast<int64_t>(planned.size()),
           static_cast<int64_t>(planned.front().chunks.size()), microBatches})),
      arrivals(planned.size() * table.chunks) {
  // What the model takes and what the loss starts with is there.
  arrivals.front().activations.assign(microBatches, 0);
  arrivals.back().gradients.assign(microBatches, 0);
}

/// From a virtual stage to a neighbor.
void PipelineRun::send(size_t j, const Turn &turn, size_t from, size_t to) {
  size_t count = stages.size();
  double &freeAt = free[{from % count, to % count}];
  double begin = std::max(stages[j].now, freeAt);
  freeAt = begin + planned[std::min(from, to) % count].message;
  stages[j].messages.push_back({!turn.isBackward, begin, freeAt});
  (turn.isBackward ? arrivals[to].gradients : arrivals[to].activations)
      .push_back(freeAt);
}

/// One pass of stage j; false if it is done or what it needs has not been sent.
bool PipelineRun::step(size_t j) {
  Stage &stage = stages[j];
  const std::vector<Turn> &turns = table.stages[j];
  if (stage.next == turns.size())
    return false;
  const Turn &turn = turns[stage.next];
  size_t own = turn.chunk * stages.size() + j, last = arrivals.size() - 1;
  auto number = static_cast<size_t>(turn.microBatch);
  const std::vector<double> &came =
      turn.isBackward ? arrivals[own].gradients : arrivals[own].activations;
  if (came.size() <= number)
    return false;
  double begin = std::max(stage.now, came[number]);
  const PlannedStage::Chunk &chunk = planned[j].chunks[turn.chunk];
  stage.now = begin + (turn.isBackward ? chunk.backward : chunk.forward);
  stage.passes.push_back({!turn.isBackward, begin, stage.now});
  ++stage.next;
  if (own != (turn.isBackward ? 0 : last))
    send(j, turn, own, turn.isBackward ? own - 1 : own + 1);
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

/// When the gradients of each unit are there, in all lanes.
static std::vector<double> findComputed(const std::vector<PipelineLane> &lanes,
                                        const std::vector<PipelineRun> &runs) {
  std::vector<double> computed;
  for (size_t lane = 0; lane < lanes.size(); ++lane)
    for (size_t j = 0; j < lanes[lane].stages.size(); ++j)
      for (HybridPlan::Range units : lanes[lane].units[j]) {
        computed.resize(
            std::max(computed.size(), static_cast<size_t>(units.end)));
        for (int unit = units.first; unit < units.end; ++unit)
          computed[unit] = std::max(computed[unit], runs[lane].stages[j].now);
      }
  return computed;
}

/// When those of a stage are.
static double findComputed(const std::vector<HybridPlan::Range> &stage,
                           const std::vector<double> &ofUnits) {
  double last = 0;
  for (HybridPlan::Range units : stage)
    last = std::max(last, *std::max_element(ofUnits.begin() + units.first,
                                            ofUnits.begin() + units.end));
  return last;
}

PipelineSimulation poplar::simulateLanes(const std::vector<PipelineLane> &lanes,
                                         bool recordsTimeline) {
  std::vector<PipelineRun> runs;
  for (const PipelineLane &lane : lanes) {
    runs.emplace_back(lane.stages, lane.schedule, lane.microBatches);
    runs.back().run();
  }
  PipelineSimulation result;
  std::vector<double> ofUnits = findComputed(lanes, runs);
  std::vector<std::vector<double>> computed;
  for (const PipelineLane &lane : lanes) {
    computed.emplace_back();
    for (size_t j = 0; j < lane.stages.size(); ++j) {
      computed.back().push_back(findComputed(lane.units[j], ofUnits));
      result.seconds = std::max(result.seconds,
                                computed.back()[j] + lane.stages[j].cost.sync);
    }
  }
  result.timeline.names = {"forward", "backward", "activations", "gradients",
                           "all gradients, optimizer"};
  result.timeline.seconds = result.seconds;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    result.lanes.emplace_back();
    for (size_t j = 0; j < lanes[lane].stages.size(); ++j) {
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
      double begin = computed[lane][j];
      if (begin > stage.now)
        ranks.computation.push_back(
            {stage.now, begin, Activity::WaitForRanks, 4});
      if (seconds.syncing > 0)
        ranks.computation.push_back(
            {begin, begin + seconds.syncing, Activity::WaitForLink, 4});
      result.timeline.classes.push_back(std::move(ranks));
    }
  }
  return result;
}

PipelineSimulation poplar::simulatePipeline(const HybridProblem &problem,
                                            const HybridPlan &plan,
                                            bool recordsTimeline) {
  return simulatePipelines({{problem, plan}}, recordsTimeline);
}

PipelineSimulation
poplar::simulatePipelines(const std::vector<SolvedProblem> &solved,
                          bool recordsTimeline) {
  std::vector<PipelineLane> lanes;
  for (const SolvedProblem &each : solved) {
    const HybridProblem &problem = each.problem;
    const HybridPlan &plan = each.plan;
    HybridCosts costs(problem);
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      lanes.push_back({plan.schedule,
                       getStages(problem, plan, lane, costs),
                       plan.cutUnits(problem),
                       plan.countMicroBatches(problem, lane),
                       {}});
      for (const HybridPlan::Lane::Stage &stage : plan.lanes[lane].stages)
        lanes.back().types.push_back(problem.types[stage.type].name);
    }
  }
  return simulateLanes(lanes, recordsTimeline);
}
