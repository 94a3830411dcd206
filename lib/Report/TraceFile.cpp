//===- TraceFile.cpp - Reading what poplar train --trace wrote ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/PlanReport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>

using namespace poplar;
using llvm::StringRef;

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

static void readEvent(const llvm::json::Object &event, Ranks &ranks) {
  StringRef phase = event.getString("ph").value_or(""),
            name = event.getString("name").value_or("");
  Rank &rank = ranks[event.getInteger("pid").value_or(0)];
  const llvm::json::Object *arguments = event.getObject("args");
  if (phase == "M" && name == "process_name" && arguments)
    rank.name = arguments->getString("name").value_or("").str();
  if (phase != "X")
    return;
  double begin = event.getNumber("ts").value_or(0) * 1e-6;
  Event it = {begin, begin + event.getNumber("dur").value_or(0) * 1e-6,
              arguments ? arguments->getInteger("number").value_or(-1) : -1};
  switch (event.getInteger("tid").value_or(-1)) {
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
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    error = path + ": " + file.getError().message();
    return std::nullopt;
  }
  auto parsed = llvm::json::parse((*file)->getBuffer());
  if (!parsed) {
    error = path + ": " + llvm::toString(parsed.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *root = parsed->getAsObject();
  const llvm::json::Array *events =
      root ? root->getArray("traceEvents") : nullptr;
  Ranks ranks;
  if (events)
    for (const llvm::json::Value &event : *events)
      if (const llvm::json::Object *object = event.getAsObject())
        readEvent(*object, ranks);
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
