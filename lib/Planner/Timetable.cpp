//===- Timetable.cpp - Whose turn it is in a pipeline ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Timetable.h"
#include <algorithm>

using namespace poplar;

const char *poplar::toString(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::GPipe ? "gpipe" : "1f1b";
}

std::optional<PipelineSchedule>
poplar::parsePipelineSchedule(std::string_view name) {
  for (PipelineSchedule schedule :
       {PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward})
    if (name == toString(schedule))
      return schedule;
  return std::nullopt;
}

bool poplar::mustHappenBefore(PipelineSchedule schedule, int64_t stages,
                              int64_t stage, const Turn &a, const Turn &b) {
  if (a.isBackward == b.isBackward)
    return a.microBatch < b.microBatch;
  if (a.isBackward)
    return !mustHappenBefore(schedule, stages, stage, b, a);
  return schedule == PipelineSchedule::GPipe ||
         a.microBatch < b.microBatch + stages - stage;
}

Timetable Timetable::make(PipelineSchedule schedule, int64_t stages,
                          int64_t microBatches) {
  Timetable table;
  for (int64_t stage = 0; stage < stages; ++stage) {
    std::vector<Turn> turns;
    for (bool isBackward : {false, true})
      for (int64_t i = 0; i < microBatches; ++i)
        turns.push_back({isBackward, i});
    std::sort(turns.begin(), turns.end(), [&](const Turn &a, const Turn &b) {
      return mustHappenBefore(schedule, stages, stage, a, b);
    });
    table.stages.push_back(std::move(turns));
  }
  return table;
}

int64_t Timetable::countInFlight(const std::vector<Turn> &turns) {
  int64_t now = 0, most = 0;
  for (const Turn &turn : turns) {
    now += turn.isBackward ? -1 : 1;
    most = std::max(most, now);
  }
  return most;
}

/// The micro-batches of one direction, in the order of their turns.
static std::vector<int64_t> getOrder(const std::vector<Turn> &turns,
                                     bool isBackward) {
  std::vector<int64_t> order;
  for (const Turn &turn : turns)
    if (turn.isBackward == isBackward)
      order.push_back(turn.microBatch);
  return order;
}

static std::string describe(const Turn &turn) {
  return std::string(turn.isBackward ? "backward" : "forward") +
         " pass of micro-batch " + std::to_string(turn.microBatch);
}

namespace {
/// How far a stage has come.
struct Progress {
  size_t turn = 0;
  int64_t forwards = 0, backwards = 0, inFlight = 0;
};
} // namespace

/// The stage that `stage` waits for before its next turn, if any.
static std::optional<int64_t> findAwaited(const Timetable &table,
                                          const std::vector<Progress> &progress,
                                          int64_t stage) {
  constexpr int64_t buffers = Timetable::messageBuffers;
  const Progress &own = progress[stage];
  bool isBackward = table.stages[stage][own.turn].isBackward;
  int64_t number = isBackward ? own.backwards : own.forwards;
  int64_t from = isBackward ? stage + 1 : stage - 1;
  int64_t to = isBackward ? stage - 1 : stage + 1;
  auto exists = [&](int64_t other) {
    return other >= 0 && other < static_cast<int64_t>(progress.size());
  };
  if (exists(from)) {
    const Progress &sender = progress[from];
    if ((isBackward ? sender.backwards : sender.forwards) <= number)
      return from;
  }
  if (exists(to)) {
    // The buffer of an earlier message is free once the receiver has one for
    // it. What is received forward is kept until its backward pass.
    const Progress &receiver = progress[to];
    int64_t taken = isBackward
                        ? receiver.backwards + buffers
                        : std::min(receiver.forwards + buffers,
                                   receiver.backwards + receiver.inFlight + 1);
    if (number - buffers >= taken)
      return to;
  }
  return std::nullopt;
}

std::optional<Timetable::Violation> Timetable::check() const {
  if (stages.empty())
    return Violation{"has no stages", 0, 0};
  std::vector<int64_t> order = getOrder(stages.front(), false);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return Violation{"has no turn, or two, for the forward pass of a "
                       "micro-batch: expected one for each from 0 on",
                       0, 0};
  std::vector<Progress> progress(stages.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    auto number = static_cast<int64_t>(stage);
    for (bool isBackward : {false, true})
      if (getOrder(stages[stage], isBackward) != order)
        return Violation{
            std::string("sends and receives ") +
                (isBackward ? "gradients" : "activations") +
                " of other micro-batches, or in another order, than stage 0 "
                "computes them forward",
            number, 0};
    std::vector<bool> begun(order.size());
    for (const Turn &turn : stages[stage]) {
      if (turn.isBackward && !begun[static_cast<size_t>(turn.microBatch)])
        return Violation{"has the " + describe(turn) +
                             " before the forward pass",
                         number, number};
      begun[static_cast<size_t>(turn.microBatch)] = true;
    }
    progress[stage].inFlight = countInFlight(stages[stage]);
  }

  bool moves = true;
  while (moves) {
    moves = false;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      Progress &own = progress[stage];
      if (own.turn == stages[stage].size() ||
          findAwaited(*this, progress, static_cast<int64_t>(stage)))
        continue;
      (stages[stage][own.turn].isBackward ? own.backwards : own.forwards) += 1;
      ++own.turn;
      moves = true;
    }
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    size_t turn = progress[stage].turn;
    if (turn == stages[stage].size())
      continue;
    // Everybody who waits waits for someone who does.
    auto number = static_cast<int64_t>(stage);
    int64_t other = *findAwaited(*this, progress, number);
    return Violation{"waits for ever with the " +
                         describe(stages[stage][turn]) + " for stage " +
                         std::to_string(other) + ", which waits with the " +
                         describe(stages[other][progress[other].turn]),
                     number, other};
  }
  return std::nullopt;
}
