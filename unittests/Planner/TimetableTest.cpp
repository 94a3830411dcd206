//===- TimetableTest.cpp - Tests of timetables ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/Timetable.h"
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

using namespace poplar;

namespace {

using Turns = std::vector<Turn>;

constexpr PipelineSchedule Schedules[] = {
    PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward,
    PipelineSchedule::Interleaved};

Turn forward(int64_t i, int64_t chunk = 0) { return {false, i, chunk}; }
Turn backward(int64_t i, int64_t chunk = 0) { return {true, i, chunk}; }

/// A second account of who can go on: every pass is an explicit state machine
/// (await, compute, hand over) over mailboxes of messages, explored from all
/// interleavings' single maximal one, as in a network with finite buffers. It
/// knows nothing of counts: a sender holds each message in a named buffer until
/// a receiver has opened a named slot for that very micro-batch and chunk.
struct Network {
  /// The message that is received: direction, the receiver's chunk,
  /// micro-batch.
  using Message = std::tuple<bool, int64_t, int64_t>;
  struct Stage {
    Turns turns;
    size_t next = 0;
    /// Receive slots that are open.
    std::set<Message> open, arrived;
    /// Sent by a chunk and not yet taken by an open slot.
    std::deque<std::pair<int64_t, Message>> leaving;
    /// By chunk, forward inputs until their backward pass.
    std::map<int64_t, std::set<int64_t>> kept;
    std::map<int64_t, size_t> keeps;
  };
  std::vector<Stage> stages;
  int64_t last;

  explicit Network(const Timetable &table)
      : last(int64_t(table.stages.size()) * table.chunks - 1) {
    for (const Turns &turns : table.stages) {
      Stage stage;
      stage.turns = turns;
      std::map<int64_t, std::set<int64_t>> begun;
      for (const Turn &turn : turns) {
        if (turn.isBackward)
          begun[turn.chunk].erase(turn.microBatch);
        else
          begun[turn.chunk].insert(turn.microBatch);
        stage.keeps[turn.chunk] =
            std::max(stage.keeps[turn.chunk], begun[turn.chunk].size() + 1);
      }
      stages.push_back(stage);
    }
  }

  /// Along the pipeline.
  int64_t place(size_t s, const Turn &turn) const {
    return turn.chunk * int64_t(stages.size()) + int64_t(s);
  }
  bool receives(size_t s, const Turn &turn) const {
    return place(s, turn) != (turn.isBackward ? last : 0);
  }
  bool sends(size_t s, const Turn &turn) const {
    return place(s, turn) != (turn.isBackward ? 0 : last);
  }

  /// Opens slots for the next two messages of each direction and chunk, where
  /// memory is.
  bool openSlots(size_t s) {
    Stage &stage = stages[s];
    bool any = false;
    std::map<std::pair<bool, int64_t>, int> ahead;
    std::set<int64_t> full;
    for (size_t t = stage.next; t < stage.turns.size(); ++t) {
      const Turn &turn = stage.turns[t];
      if (!receives(s, turn) || ++ahead[{turn.isBackward, turn.chunk}] > 2)
        continue;
      Message slot{turn.isBackward, turn.chunk, turn.microBatch};
      if (stage.open.count(slot) || stage.arrived.count(slot))
        continue;
      std::set<int64_t> &kept = stage.kept[turn.chunk];
      if (!turn.isBackward &&
          (full.count(turn.chunk) || kept.size() >= stage.keeps[turn.chunk])) {
        full.insert(turn.chunk);
        continue;
      }
      if (!turn.isBackward)
        kept.insert(turn.microBatch);
      stage.open.insert(slot);
      any = true;
    }
    return any;
  }

  bool deliver(size_t s) {
    Stage &stage = stages[s];
    for (auto it = stage.leaving.begin(); it != stage.leaving.end(); ++it) {
      bool isBackward = std::get<0>(it->second);
      size_t count = stages.size();
      Stage &to = stages[(s + (isBackward ? count - 1 : 1)) % count];
      if (!to.open.erase(it->second))
        continue;
      to.arrived.insert(it->second);
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
    Message message{turn.isBackward, turn.chunk, turn.microBatch};
    if (receives(s, turn) && !stage.arrived.count(message))
      return false;
    auto waiting = std::count_if(
        stage.leaving.begin(), stage.leaving.end(), [&](const auto &other) {
          return other.first == turn.chunk &&
                 std::get<0>(other.second) == turn.isBackward;
        });
    if (sends(s, turn) && waiting >= 2)
      return false;
    stage.arrived.erase(message);
    if (turn.isBackward)
      stage.kept[turn.chunk].erase(turn.microBatch);
    if (sends(s, turn)) {
      int64_t to = place(s, turn) + (turn.isBackward ? -1 : 1);
      stage.leaving.push_back(
          {turn.chunk,
           {turn.isBackward, to / int64_t(stages.size()), turn.microBatch}});
    }
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

/// When the last turn of a timetable ends, if all take as long and messages
/// take none.
int64_t measure(const Timetable &table, int64_t forwardTime,
                int64_t backwardTime) {
  auto stages = int64_t(table.stages.size());
  int64_t last = stages * table.chunks - 1;
  std::map<std::tuple<bool, int64_t, int64_t>, int64_t> ends;
  std::vector<size_t> next(table.stages.size());
  std::vector<int64_t> now(table.stages.size());
  for (bool moves = true; moves;) {
    moves = false;
    for (int64_t s = 0; s < stages; ++s)
      while (next[s] < table.stages[s].size()) {
        const Turn &turn = table.stages[s][next[s]];
        int64_t place = turn.chunk * stages + s, begin = now[s];
        if (place != (turn.isBackward ? last : 0)) {
          auto before =
              ends.find({turn.isBackward, place + (turn.isBackward ? 1 : -1),
                         turn.microBatch});
          if (before == ends.end())
            break;
          begin = std::max(begin, before->second);
        }
        now[s] = begin + (turn.isBackward ? backwardTime : forwardTime);
        ends[{turn.isBackward, place, turn.microBatch}] = now[s];
        ++next[s];
        moves = true;
      }
  }
  for (int64_t s = 0; s < stages; ++s)
    EXPECT_EQ(next[s], table.stages[s].size());
  return *std::max_element(now.begin(), now.end());
}

int64_t countInFlight(const Timetable &table, int64_t stage) {
  // As if all chunks were one.
  Turns turns = table.stages[stage];
  for (Turn &turn : turns)
    turn.chunk = 0;
  return Timetable::countInFlight(turns);
}

TEST(TimetableTest, GPipeComputesForwardFirst) {
  Timetable table = Timetable::make(PipelineSchedule::GPipe, {2, 1, 2});
  Turns expected = {forward(0), forward(1), backward(0), backward(1)};
  EXPECT_EQ(table.stages[0], expected);
  EXPECT_EQ(table.stages[1], expected);
  EXPECT_EQ(Timetable::countInFlight(table.stages[0]), 2);
}

TEST(TimetableTest, OneForwardOneBackwardIsDrawn) {
  Timetable table =
      Timetable::make(PipelineSchedule::OneForwardOneBackward, {3, 1, 4});
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

TEST(TimetableTest, InterleavedIsDrawn) {
  Timetable table = Timetable::make(PipelineSchedule::Interleaved, {2, 2, 4});
  EXPECT_EQ(table.stages[0],
            (Turns{forward(0), forward(1), forward(0, 1), forward(1, 1),
                   forward(2), backward(0, 1), forward(3), backward(1, 1),
                   forward(2, 1), backward(0), forward(3, 1), backward(1),
                   backward(2, 1), backward(3, 1), backward(2), backward(3)}));
  EXPECT_EQ(table.stages[1],
            (Turns{forward(0), forward(1), forward(0, 1), backward(0, 1),
                   forward(1, 1), backward(1, 1), forward(2), backward(0),
                   forward(3), backward(1), forward(2, 1), backward(2, 1),
                   forward(3, 1), backward(3, 1), backward(2), backward(3)}));
  EXPECT_EQ(Timetable::countInFlight(table.stages[0], 0), 4);
  EXPECT_EQ(Timetable::countInFlight(table.stages[0], 1), 2);
  // The paper's figure 4: four stages, two chunks, eight micro-batches, of
  // which the first stage takes eleven forward before one comes back.
  table = Timetable::make(PipelineSchedule::Interleaved, {4, 2, 8});
  Turns begin(table.stages[0].begin(), table.stages[0].begin() + 12);
  EXPECT_EQ(begin,
            (Turns{forward(0), forward(1), forward(2), forward(3),
                   forward(0, 1), forward(1, 1), forward(2, 1), forward(3, 1),
                   forward(4), forward(5), forward(6), backward(0, 1)}));
}

TEST(TimetableTest, OneChunkInterleavedIsOneForwardOneBackward) {
  for (int64_t stages = 1; stages <= 6; ++stages)
    for (int64_t m = 0; m <= 13; ++m)
      EXPECT_EQ(
          Timetable::make(PipelineSchedule::Interleaved, {stages, 1, m}).stages,
          Timetable::make(PipelineSchedule::OneForwardOneBackward,
                          {stages, 1, m})
              .stages);
}

TEST(TimetableTest, SchedulesCanBeCarriedOut) {
  for (PipelineSchedule schedule : Schedules)
    for (int64_t stages = 1; stages <= 7; ++stages)
      for (int64_t m = 0; m <= 12; ++m) {
        Timetable table = Timetable::make(schedule, {stages, 1, m});
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

/// Whatever the shape: all turns can be taken, and no more micro-batches are in
/// flight than the warm-up begins.
TEST(TimetableTest, InterleavedCanBeCarriedOut) {
  std::mt19937 random(3);
  for (int round = 0; round < 600; ++round) {
    int64_t stages = 1 + random() % 9, chunks = 2 + random() % 5,
            m = random() % (4 * stages + 3);
    Timetable table =
        Timetable::make(PipelineSchedule::Interleaved, {stages, chunks, m});
    auto violation = table.check();
    ASSERT_FALSE(violation) << stages << " stages, " << chunks << " chunks, "
                            << m << " micro-batches: " << violation->message;
    ASSERT_TRUE(Network(table).completes());
    for (int64_t s = 0; s < stages; ++s) {
      PipelineShape shape{stages, chunks, m};
      int64_t most =
          (chunks - 1) * shape.getBlockSize() + 2 * (stages - 1 - s) + 1;
      if (m % stages == 0)
        ASSERT_EQ(countInFlight(table, s), std::min(m * chunks, most));
      else
        ASSERT_LE(countInFlight(table, s), std::min(m * chunks, most));
    }
  }
}

/// What a stage has to have memory for is known without its timetable.
TEST(TimetableTest, InFlightIsBounded) {
  for (PipelineSchedule schedule : Schedules)
    for (int64_t stages = 1; stages <= 6; ++stages)
      for (int64_t chunks = 1; chunks <= (takesChunks(schedule) ? 4 : 1);
           ++chunks)
        for (int64_t m = 1; m <= 6 * stages; ++m) {
          PipelineShape shape{stages, chunks, m};
          Timetable table = Timetable::make(schedule, shape);
          for (int64_t s = 0; s < stages; ++s)
            for (int64_t v = 0; v < chunks; ++v) {
              int64_t most = Timetable::countInFlight(table.stages[s], v),
                      bound = Timetable::boundInFlight(schedule, shape, s, v);
              if (chunks == 1 || shape.countBlocks() <= 3 ||
                  (m % stages == 0 && m >= 4 * stages))
                ASSERT_EQ(most, bound) << m << " through " << stages << " x "
                                       << chunks << ", " << s << ", " << v;
              else
                ASSERT_LE(most, bound) << m << " through " << stages << " x "
                                       << chunks << ", " << s << ", " << v;
            }
        }
}

/// The bubble is that of 1F1B over the number of chunks where no block has
/// fewer micro-batches than there are stages, and never longer than that of
/// 1F1B.
/// With any number of micro-batches, as many are in flight or more as with one
/// of those that fill no more than one more block.
TEST(TimetableTest, ManyMicroBatchesKeepNoFewer) {
  for (int64_t stages : {2, 3, 4, 7, 10})
    for (int64_t chunks : {2, 3, 5})
      for (int64_t stage = 0; stage < stages; ++stage)
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          auto findLeast = [&](int64_t first, int64_t end) {
            int64_t least = std::numeric_limits<int64_t>::max();
            for (int64_t m = first; m < end; ++m)
              if (PipelineShape shape{stages, chunks, m}; shape.hasEvenBlocks())
                least = std::min(least, Timetable::boundInFlight(
                                            PipelineSchedule::Interleaved,
                                            shape, stage, chunk));
            return least;
          };
          for (int64_t blocks = 1; blocks < 8; ++blocks) {
            int64_t enough = std::max<int64_t>(blocks, 4) + 1;
            EXPECT_EQ(findLeast(blocks * stages, enough * stages),
                      findLeast(blocks * stages, 20 * stages))
                << stages << " " << chunks << " " << stage << " " << chunk;
          }
        }
}

TEST(TimetableTest, InterleavedHasAShorterBubble) {
  for (int64_t stages = 2; stages <= 8; ++stages)
    for (int64_t chunks = 2; chunks <= 5; ++chunks)
      for (int64_t m = 1; m <= 5 * stages; ++m) {
        int64_t forwardTime = 2, backwardTime = 3;
        int64_t ofPair = forwardTime + backwardTime;
        int64_t interleaved = measure(
            Timetable::make(PipelineSchedule::Interleaved, {stages, chunks, m}),
            forwardTime, backwardTime);
        int64_t whole =
            measure(Timetable::make(PipelineSchedule::OneForwardOneBackward,
                                    {stages, 1, m}),
                    forwardTime * chunks, backwardTime * chunks);
        EXPECT_EQ(whole, (m + stages - 1) * ofPair * chunks);
        PipelineShape shape{stages, chunks, m};
        if (m - shape.getBlockBegin(shape.countBlocks() - 1) >= stages)
          EXPECT_EQ(interleaved, m * ofPair * chunks + (stages - 1) * ofPair)
              << stages << " stages, " << chunks << " chunks, " << m
              << " micro-batches";
        else
          EXPECT_LE(interleaved, whole);
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

/// The same with several chunks: good orders, in which some turns of a stage
/// change places.
TEST(TimetableTest, RandomOrdersOfChunksAgreeWithANetwork) {
  std::mt19937 random(11);
  int deadlocks = 0, fine = 0;
  for (int round = 0; round < 4000; ++round) {
    int64_t stages = 2 + random() % 3, chunks = 2 + random() % 2,
            m = 1 + random() % 6;
    Timetable table =
        Timetable::make(PipelineSchedule::Interleaved, {stages, chunks, m});
    for (uint64_t swaps = random() % 40; swaps > 0; --swaps) {
      Turns &turns = table.stages[random() % stages];
      size_t at = random() % (turns.size() - 1);
      // Not of passes whose order is that of messages, or of one micro-batch.
      if (turns[at].chunk != turns[at + 1].chunk ||
          (turns[at].isBackward != turns[at + 1].isBackward &&
           turns[at].microBatch != turns[at + 1].microBatch))
        std::swap(turns[at], turns[at + 1]);
    }
    bool completes = Network(table).completes();
    (completes ? fine : deadlocks)++;
    auto violation = table.check();
    ASSERT_EQ(completes, !violation)
        << "round " << round << ": " << violation->message;
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
            "waits forever in the backward pass of micro-batch 0 for stage "
            "1, which waits with the forward pass of micro-batch 1");
}

TEST(TimetableTest, WrongTurnsOfChunksAreNamed) {
  auto check = [](std::vector<Turns> stages) {
    Timetable table;
    table.chunks = 2;
    table.stages = std::move(stages);
    auto violation = table.check();
    return violation ? violation->message : "";
  };
  Turns good = {forward(0), forward(0, 1), backward(0, 1), backward(0)};
  EXPECT_EQ(check({good, good}), "");
  EXPECT_EQ(check({good, {forward(0), backward(0), forward(0, 2)}}),
            "has a turn of chunk 2, but there are 2");
  EXPECT_EQ(check({good, {forward(0), backward(0)}}),
            "sends and receives activations of chunk 1 of other micro-batches, "
            "or in another order, than stage 0 computes them forward");
  EXPECT_EQ(
      check({good, {forward(0), backward(0, 1), forward(0, 1), backward(0)}}),
      "has the backward pass of chunk 1 of micro-batch 0 before the forward "
      "pass");
  // Chunk 1 of stage 0 waits for chunk 0 of stage 1.
  EXPECT_EQ(
      check({{forward(0, 1), forward(0), backward(0, 1), backward(0)}, good}),
      "waits forever in the forward pass of chunk 1 of micro-batch 0 for "
      "stage 1, which waits with the forward pass of chunk 0 of micro-batch 0");
}

} // namespace
