//===- TraceFile.cpp - Reading what poplar train --trace wrote ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/PlanReport.h"
#include "Poplar/Support/JSON.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace poplar;

using Activity = Timeline::Activity;

namespace {

/// Lanes of a rank, as runtime/comm/Trace.h numbers them.
enum Lane { Compute = 0, Communication = 1, Device = 2, Steps = 3 };

struct Event {
  double begin, end;
  int64_t number;
};

/// What a rank recorded, in seconds.
struct Rank {
  std::string name;
  std::map<int64_t, Event> steps;
  std::vector<Event> waits, collectives;
};

using Ranks = std::map<int64_t, Rank>;

} // namespace

static void readEvent(const json::Value &event, Ranks &ranks) {
  std::string phase = event["ph"].getString(""),
              name = event["name"].getString("");
  auto integer = [](const json::Value &value, double fallback) {
    return static_cast<int64_t>(value.getNumber(fallback));
  };
  Rank &rank = ranks[integer(event["pid"], 0)];
  json::Value arguments = event["args"];
  if (phase == "M" && name == "process_name")
    rank.name = arguments["name"].getString("");
  if (phase != "X")
    return;
  double begin = event["ts"].getNumber(0) * 1e-6;
  Event it = {begin, begin + event["dur"].getNumber(0) * 1e-6,
              integer(arguments["number"], -1)};
  switch (integer(event["tid"], -1)) {
  case Compute:
  case Device:
    if (name == "wait")
      rank.waits.push_back(it);
    break;
  case Communication:
    rank.collectives.push_back(it);
    break;
  case Steps:
    rank.steps[it.number] = it;
    break;
  }
}

/// From when the first rank begins a step until the last has ended it; none of
/// one that not all have recorded.
static std::map<int64_t, Event> findSteps(const Ranks &ranks) {
  std::map<int64_t, Event> steps;
  for (const auto &[number, first] : ranks.begin()->second.steps) {
    Event all = first;
    bool isComplete = true;
    for (const auto &[index, rank] : ranks) {
      auto step = rank.steps.find(number);
      isComplete &= step != rank.steps.end();
      if (!isComplete)
        break;
      all.begin = std::min(all.begin, step->second.begin);
      all.end = std::max(all.end, step->second.end);
    }
    if (isComplete)
      steps[number] = all;
  }
  return steps;
}

/// What of the rank is in the step, relative to its begin: it computes where it
/// does not wait.
static Timeline::RankClass drawRank(const Rank &rank, const Event &step) {
  Timeline::RankClass drawn;
  drawn.name = rank.name;
  const Event &own = rank.steps.at(step.number);
  double now = own.begin;
  auto add = [&](std::vector<Timeline::Interval> &lane, double begin,
                 double end, Activity activity) {
    if (end > begin)
      lane.push_back({begin - step.begin, end - step.begin, activity, 0});
  };
  std::vector<Event> waits = rank.waits;
  llvm::sort(waits,
             [](const Event &a, const Event &b) { return a.begin < b.begin; });
  for (const Event &wait : waits) {
    if (wait.end <= now || wait.begin >= own.end)
      continue;
    add(drawn.computation, now, wait.begin, Activity::Compute);
    double end = std::min(wait.end, own.end);
    add(drawn.computation, std::max(wait.begin, now), end,
        Activity::WaitForRanks);
    now = end;
  }
  add(drawn.computation, now, own.end, Activity::Compute);
  for (const Event &it : rank.collectives)
    add(drawn.communication, std::max(it.begin, step.begin),
        std::min(it.end, step.end), Activity::Collective);
  return drawn;
}

std::optional<MeasuredTimeline> poplar::readTrace(const std::string &path,
                                                  std::string &error) {
  std::unique_ptr<json::Document> file = json::Document::open(path, path);
  Ranks ranks;
  json::Value events = file->getRoot()["traceEvents"];
  for (size_t i = 0, count = events.size(); i < count; ++i)
    readEvent(events[i], ranks);
  if (file->hasError()) {
    error = file->getError();
    return std::nullopt;
  }
  std::map<int64_t, Event> steps;
  if (!ranks.empty())
    steps = findSteps(ranks);
  if (steps.empty()) {
    error = path + ": holds no step of all ranks; write it with poplar train "
                   "--trace";
    return std::nullopt;
  }
  // The first one warms up.
  if (steps.size() > 1)
    steps.erase(steps.begin());
  auto sorted = llvm::to_vector(llvm::make_second_range(steps));
  llvm::sort(sorted, [](const Event &a, const Event &b) {
    return a.end - a.begin < b.end - b.begin;
  });
  const Event &step = sorted[(sorted.size() - 1) / 2];
  MeasuredTimeline measured;
  measured.step = step.number;
  measured.timeline.seconds = step.end - step.begin;
  for (const auto &[index, rank] : ranks)
    measured.timeline.classes.push_back(drawRank(rank, step));
  return measured;
}
