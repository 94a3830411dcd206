//===- TimetableTest.cpp --------------------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Timetable.h"
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace poplar;

namespace {

using Turns = std::vector<Turn>;

constexpr PipelineSchedule Schedules[] = {
    PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward};

Turn forward(int64_t i) { return {false, i}; }
Turn backward(int64_t i) { return {true, i}; }

/// A second account of who can go on: every pass is an explicit state machine
/// (await, compute, hand over) over mailboxes of messages, explored from all
/// interleavings' single maximal one, as in a network with finite buffers. It
/// knows nothing of counts: a sender holds each message in a named buffer until
/// a receiver has opened a named slot for that very micro-batch.
struct Network {
  struct Stage {
    Turns turns;
    size_t next = 0;
    /// Receive slots that are open, by direction and micro-batch.
    std::set<std::pair<bool, int64_t>> open, arrived;
    /// Sent and not yet taken by an open slot.
    std::deque<std::pair<bool, int64_t>> leaving;
    std::set<int64_t> kept; // forward inputs until their backward pass
    size_t keeps = 0;
  };
  std::vector<Stage> stages;

  explicit Network(const Timetable &table) {
    for (const Turns &turns : table.stages) {
      Stage stage;
      stage.turns = turns;
      std::set<int64_t> begun;
      for (const Turn &turn : turns) {
        if (turn.isBackward)
          begun.erase(turn.microBatch);
        else
          begun.insert(turn.microBatch);
        stage.keeps = std::max(stage.keeps, begun.size());
      }
      ++stage.keeps;
      stages.push_back(stage);
    }
  }

  bool hasSource(size_t s, bool isBackward) const {
    return isBackward ? s + 1 < stages.size() : s > 0;
  }

  /// Opens slots for the next two messages of each direction, where memory is.
  bool openSlots(size_t s) {
    Stage &stage = stages[s];
    bool any = false;
    for (bool isBackward : {false, true}) {
      if (!hasSource(s, isBackward))
        continue;
      int ahead = 0;
      for (size_t t = stage.next; t < stage.turns.size() && ahead < 2; ++t) {
        const Turn &turn = stage.turns[t];
        if (turn.isBackward != isBackward)
          continue;
        ++ahead;
        std::pair<bool, int64_t> slot{isBackward, turn.microBatch};
        if (stage.open.count(slot) || stage.arrived.count(slot))
          continue;
        if (!isBackward && stage.kept.size() >= stage.keeps)
          break;
        if (!isBackward)
          stage.kept.insert(turn.microBatch);
        stage.open.insert(slot);
        any = true;
      }
    }
    return any;
  }

  bool deliver(size_t s) {
    Stage &stage = stages[s];
    for (auto it = stage.leaving.begin(); it != stage.leaving.end(); ++it) {
      Stage &to = stages[it->first ? s - 1 : s + 1];
      if (!to.open.erase(*it))
        continue;
      to.arrived.insert(*it);
      stage.leaving.erase(it);
      return true;
    }
    return false;
  }

  bool compute(size_t s) {
    Stage &stage = stages[s];
    if (stage.next == stage.turns.size())
      return false;
    Turn turn = stage.turns[stage.next];
    std::pair<bool, int64_t> message{turn.isBackward, turn.microBatch};
    if (hasSource(s, turn.isBackward) && !stage.arrived.count(message))
      return false;
    bool sends = turn.isBackward ? s > 0 : s + 1 < stages.size();
    auto waiting = std::count_if(
        stage.leaving.begin(), stage.leaving.end(),
        [&](const auto &other) { return other.first == turn.isBackward; });
    if (sends && waiting >= 2)
      return false;
    stage.arrived.erase(message);
    if (turn.isBackward)
      stage.kept.erase(turn.microBatch);
    if (sends)
      stage.leaving.push_back(message);
    ++stage.next;
    return true;
  }

  bool completes() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t s = 0; s < stages.size(); ++s) {
        moves |= openSlots(s);
        moves |= deliver(s);
        moves |= compute(s);
      }
    }
    return std::all_of(stages.begin(), stages.end(), [](const Stage &stage) {
      return stage.next == stage.turns.size();
    });
  }
};

TEST(TimetableTest, GPipeComputesForwardFirst) {
  Timetable table = Timetable::make(PipelineSchedule::GPipe, 2, 2);
  Turns expected = {forward(0), forward(1), backward(0), backward(1)};
  EXPECT_EQ(table.stages[0], expected);
  EXPECT_EQ(table.stages[1], expected);
  EXPECT_EQ(Timetable::countInFlight(table.stages[0]), 2);
}

TEST(TimetableTest, OneForwardOneBackwardIsDrawn) {
  Timetable table =
      Timetable::make(PipelineSchedule::OneForwardOneBackward, 3, 4);
  EXPECT_EQ(table.stages[0],
            (Turns{forward(0), forward(1), forward(2), backward(0), forward(3),
                   backward(1), backward(2), backward(3)}));
  EXPECT_EQ(table.stages[1],
            (Turns{forward(0), forward(1), backward(0), forward(2), backward(1),
                   forward(3), backward(2), backward(3)}));
  EXPECT_EQ(table.stages[2],
            (Turns{forward(0), backward(0), forward(1), backward(1), forward(2),
                   backward(2), forward(3), backward(3)}));
}

TEST(TimetableTest, SchedulesCanBeCarriedOut) {
  for (PipelineSchedule schedule : Schedules)
    for (int64_t stages = 1; stages <= 7; ++stages)
      for (int64_t m = 0; m <= 12; ++m) {
        Timetable table = Timetable::make(schedule, stages, m);
        auto violation = table.check();
        EXPECT_FALSE(violation) << violation->message;
        EXPECT_TRUE(Network(table).completes());
        for (int64_t s = 0; s < stages; ++s)
          EXPECT_EQ(Timetable::countInFlight(table.stages[s]),
                    schedule == PipelineSchedule::GPipe
                        ? m
                        : std::min(stages - s, m));
      }
}

/// Orders that nobody would choose: whether they deadlock is found out twice.
TEST(TimetableTest, RandomOrdersAgreeWithANetwork) {
  std::mt19937 random(7);
  int deadlocks = 0, fine = 0;
  for (int round = 0; round < 4000; ++round) {
    Timetable table;
    int64_t stages = 2 + random() % 3, m = 1 + random() % 6;
    for (int64_t s = 0; s < stages; ++s) {
      // Forward and backward passes in order, merged at random.
      Turns turns;
      int64_t f = 0, b = 0;
      while (b < m) {
        bool isBackward = f == m || (b < f && random() % 2);
        turns.push_back({isBackward, isBackward ? b++ : f++});
      }
      table.stages.push_back(turns);
    }
    bool completes = Network(table).completes();
    (completes ? fine : deadlocks)++;
    auto violation = table.check();
    ASSERT_EQ(completes, !violation) << "round " << round;
    if (violation) {
      EXPECT_NE(violation->stage, violation->other);
    }
  }
  EXPECT_GT(deadlocks, 100);
  EXPECT_GT(fine, 100);
}

TEST(TimetableTest, WrongTurnsAreNamed) {
  auto check = [](std::vector<Turns> stages) {
    Timetable table;
    table.stages = std::move(stages);
    auto violation = table.check();
    return violation ? violation->message : "";
  };
  Turns good = {forward(0), backward(0), forward(1), backward(1)};
  EXPECT_EQ(check({good, good}), "");
  EXPECT_EQ(check({}), "has no stages");
  EXPECT_NE(check({{forward(0), forward(0), backward(0), backward(0)}})
                .find("two, for the forward pass"),
            std::string::npos);
  EXPECT_NE(check({{backward(0), forward(0)}}).find("before the forward pass"),
            std::string::npos);
  EXPECT_NE(check({good, {forward(0), backward(0)}}).find("activations"),
            std::string::npos);
  EXPECT_NE(check({good, {forward(0), forward(1), backward(1), backward(0)}})
                .find("gradients of other micro-batches, or in another order"),
            std::string::npos);
  // Stage 0 wants a gradient before stage 1 has what it needs for it.
  EXPECT_EQ(check({good, {forward(0), forward(1), backward(0), backward(1)}}),
            "waits for ever with the backward pass of micro-batch 0 for stage "
            "1, which waits with the forward pass of micro-batch 1");
}

} // namespace
