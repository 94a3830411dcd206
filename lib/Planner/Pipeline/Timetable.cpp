//===- Timetable.cpp - Whose turn it is in a pipeline ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/Timetable.h"
#include <algorithm>
#include <iterator>

using namespace poplar;

bool poplar::takesChunks(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::Interleaved;
}

/// With no block smaller than the number of stages.
int64_t PipelineShape::countEvenBlocks() const {
  return std::max<int64_t>(microBatches / stages, 1);
}

bool PipelineShape::hasEvenBlocks() const {
  // The last stage has sent some, the first has memory to receive others.
  constexpr int64_t mostWaiting = 2 * Timetable::messageBuffers - 1;
  int64_t blocks = countEvenBlocks();
  return blocks == 1 || microBatches <= blocks * (stages + mostWaiting);
}

int64_t PipelineShape::countBlocks() const {
  return hasEvenBlocks() ? countEvenBlocks()
                         : (microBatches + stages - 1) / stages;
}

int64_t PipelineShape::getBlockSize() const {
  return hasEvenBlocks() ? (microBatches + countBlocks() - 1) / countBlocks()
                         : stages;
}

int64_t PipelineShape::getBlockBegin(int64_t block) const {
  return hasEvenBlocks() ? block * microBatches / countBlocks()
                         : std::min(block * stages, microBatches);
}

int64_t PipelineShape::getBlock(int64_t microBatch) const {
  // The last that does not begin behind it.
  return hasEvenBlocks() ? ((microBatch + 1) * countBlocks() - 1) / microBatches
                         : microBatch / stages;
}

/// How many turns of its direction a stage takes before this one, if all blocks
/// are as large as the largest.
static int64_t countBefore(const PipelineShape &shape, const Turn &turn) {
  if (shape.chunks == 1)
    return turn.microBatch;
  int64_t block = shape.getBlock(turn.microBatch);
  int64_t chunk = turn.isBackward ? shape.chunks - 1 - turn.chunk : turn.chunk;
  return (block * shape.chunks + chunk) * shape.getBlockSize() +
         turn.microBatch - shape.getBlockBegin(block);
}

/// How many forward turns more than backward ones a stage takes, but for one,
/// before it takes them in turns.
static int64_t countWarmUp(PipelineSchedule schedule,
                           const PipelineShape &shape, int64_t stage) {
  int64_t behind = shape.stages - 1 - stage;
  if (schedule == PipelineSchedule::GPipe)
    return (shape.microBatches + shape.stages) * shape.chunks;
  return shape.chunks == 1
             ? behind
             : (shape.chunks - 1) * shape.getBlockSize() + 2 * behind;
}

bool poplar::mustHappenBefore(PipelineSchedule schedule,
                              const PipelineShape &shape, int64_t stage,
                              const Turn &a, const Turn &b) {
  int64_t beforeA = countBefore(shape, a), beforeB = countBefore(shape, b);
  if (a.isBackward == b.isBackward)
    return beforeA < beforeB;
  int64_t warmUp = countWarmUp(schedule, shape, stage);
  return a.isBackward ? beforeB > beforeA + warmUp
                      : beforeA <= beforeB + warmUp;
}

/// The turns of one direction, in order.
static std::vector<Turn> getTurns(const PipelineShape &shape, bool isBackward) {
  std::vector<Turn> turns;
  turns.reserve(shape.chunks * shape.microBatches);
  for (int64_t block = 0; block < shape.countBlocks(); ++block)
    for (int64_t v = 0; v < shape.chunks; ++v)
      for (int64_t i = shape.getBlockBegin(block);
           i < shape.getBlockBegin(block + 1); ++i)
        turns.push_back({isBackward, i, isBackward ? shape.chunks - 1 - v : v});
  return turns;
}

Timetable Timetable::make(PipelineSchedule schedule,
                          const PipelineShape &shape) {
  Timetable table;
  table.chunks = shape.chunks;
  std::vector<Turn> forward = getTurns(shape, false),
                    backward = getTurns(shape, true);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    std::vector<Turn> turns;
    turns.reserve(forward.size() + backward.size());
    std::merge(forward.begin(), forward.end(), backward.begin(), backward.end(),
               std::back_inserter(turns), [&](const Turn &a, const Turn &b) {
                 return mustHappenBefore(schedule, shape, stage, a, b);
               });
    table.stages.push_back(std::move(turns));
  }
  return table;
}

/// Up to so many blocks, micro-batches in flight are counted: more of them
/// repeat.
static constexpr int64_t countedBlocks = 3;

/// The most that are in flight in a chunk of a stage of an interleaved
/// schedule.
static int64_t countPeak(const PipelineShape &shape, int64_t stage,
                         int64_t chunk) {
  int64_t warmUp = countWarmUp(PipelineSchedule::Interleaved, shape, stage),
          block = shape.getBlockSize(), peak = 0;
  // Turns of a direction by countBefore(), of which some are not there.
  auto count = [&](int64_t turns, int64_t number) {
    int64_t sum = 0;
    for (int64_t i = 0; i < shape.countBlocks(); ++i)
      sum += std::clamp<int64_t>(turns - (i * shape.chunks + number) * block, 0,
                                 shape.getBlockBegin(i + 1) -
                                     shape.getBlockBegin(i));
    return sum;
  };
  // In front of the first backward turn of the chunk in each block: with each
  // one more, at most one more has gone forward.
  int64_t last = shape.chunks - 1 - chunk;
  for (int64_t i = 0; i < shape.countBlocks(); ++i) {
    int64_t b = (i * shape.chunks + last) * block;
    peak = std::max(peak, count(b + warmUp + 1, chunk) - count(b, last));
  }
  return peak;
}

int64_t Timetable::boundInFlight(PipelineSchedule schedule,
                                 const PipelineShape &shape, int64_t stage,
                                 int64_t chunk) {
  int64_t warmUp = countWarmUp(schedule, shape, stage);
  if (shape.chunks == 1)
    return std::min(warmUp + 1, shape.microBatches);
  if (schedule == PipelineSchedule::Interleaved &&
      shape.countBlocks() <= countedBlocks)
    return countPeak(shape, stage, chunk);
  // Counts, among the first so many turns of a direction, those of its
  // `number`-th chunk.
  int64_t block = shape.getBlockSize(), round = shape.chunks * block;
  auto count = [&](int64_t turns, int64_t number) {
    return turns / round * block +
           std::clamp<int64_t>(turns % round - number * block, 0, block);
  };
  // In front of its backward turn b, a stage has taken b + warmUp + 1 forward
  // ones. The difference has its peak where one of the two counts begins to
  // rise or ends to, and is the same a round later.
  int64_t last = shape.chunks - 1 - chunk, most = 0;
  for (int64_t edge :
       {last * block, (last + 1) * block, chunk * block - warmUp - 1,
        (chunk + 1) * block - warmUp - 1}) {
    int64_t b = (edge % round + round) % round;
    most = std::max(most, count(b + warmUp + 1, chunk) - count(b, last));
  }
  return std::min(most, shape.microBatches);
}

int64_t Timetable::countInFlight(const std::vector<Turn> &turns,
                                 int64_t chunk) {
  int64_t now = 0, most = 0;
  for (const Turn &turn : turns) {
    if (turn.chunk != chunk)
      continue;
    now += turn.isBackward ? -1 : 1;
    most = std::max(most, now);
  }
  return most;
}

/// The micro-batches of one direction through a chunk, in the order of their
/// turns.
static std::vector<int64_t> getOrder(const std::vector<Turn> &turns,
                                     bool isBackward, int64_t chunk) {
  std::vector<int64_t> order;
  for (const Turn &turn : turns)
    if (turn.isBackward == isBackward && turn.chunk == chunk)
      order.push_back(turn.microBatch);
  return order;
}

/// " of chunk 1" where stages have several.
static std::string describeChunk(int64_t chunk, int64_t chunks) {
  return chunks > 1 ? " of chunk " + std::to_string(chunk) : "";
}

static std::string describe(const Turn &turn, int64_t chunks) {
  return std::string(turn.isBackward ? "backward" : "forward") + " pass" +
         describeChunk(turn.chunk, chunks) + " of micro-batch " +
         std::to_string(turn.microBatch);
}

namespace {
/// How far a virtual stage has come.
struct Progress {
  int64_t forwards = 0, backwards = 0, inFlight = 0;
};

/// Plays a timetable through.
class Play {
public:
  explicit Play(const Timetable &table);

  bool isDone(int64_t stage) const {
    return next[stage] == table.stages[stage].size();
  }
  const Turn &getTurn(int64_t stage) const {
    return table.stages[stage][next[stage]];
  }
  /// The stage that `stage` waits for before its next turn, if any.
  std::optional<int64_t> findAwaited(int64_t stage) const;
  void takeTurn(int64_t stage);

private:
  int64_t getVirtualStage(int64_t stage) const {
    return getTurn(stage).chunk * int64_t(table.stages.size()) + stage;
  }

  const Timetable &table;
  /// By stage, the index of its next turn.
  std::vector<size_t> next;
  /// By virtual stage.
  std::vector<Progress> progress;
};
} // namespace

Play::Play(const Timetable &table)
    : table(table), next(table.stages.size()),
      progress(table.stages.size() * table.chunks) {
  for (size_t index = 0; index < progress.size(); ++index)
    progress[index].inFlight = Timetable::countInFlight(
        table.stages[index % table.stages.size()],
        static_cast<int64_t>(index / table.stages.size()));
}

std::optional<int64_t> Play::findAwaited(int64_t stage) const {
  constexpr int64_t buffers = Timetable::messageBuffers;
  auto stages = static_cast<int64_t>(table.stages.size()),
       last = static_cast<int64_t>(progress.size()) - 1;
  int64_t own = getVirtualStage(stage);
  bool isBackward = getTurn(stage).isBackward;
  int64_t number =
      isBackward ? progress[own].backwards : progress[own].forwards;
  int64_t from = isBackward ? own + 1 : own - 1;
  int64_t to = isBackward ? own - 1 : own + 1;
  if (from >= 0 && from <= last) {
    const Progress &sender = progress[from];
    if ((isBackward ? sender.backwards : sender.forwards) <= number)
      return from % stages;
  }
  if (to >= 0 && to <= last) {
    // The buffer of an earlier message is free once the receiver has one for
    // it. What is received forward is kept until its backward pass.
    const Progress &receiver = progress[to];
    int64_t taken = isBackward
                        ? receiver.backwards + buffers
                        : std::min(receiver.forwards + buffers,
                                   receiver.backwards + receiver.inFlight + 1);
    if (number - buffers >= taken)
      return to % stages;
  }
  return std::nullopt;
}

void Play::takeTurn(int64_t stage) {
  Progress &own = progress[getVirtualStage(stage)];
  ++(getTurn(stage).isBackward ? own.backwards : own.forwards);
  ++next[stage];
}

/// Whether the turns of a stage are `order` in every chunk and direction.
static std::optional<Timetable::Violation>
checkTurns(const Timetable &table, int64_t stage,
           const std::vector<int64_t> &order) {
  const std::vector<Turn> &turns = table.stages[stage];
  for (const Turn &turn : turns)
    if (turn.chunk < 0 || turn.chunk >= table.chunks)
      return Timetable::Violation{
          "has a turn of chunk " + std::to_string(turn.chunk) +
              ", but there are " + std::to_string(table.chunks),
          stage, stage};
  for (int64_t chunk = 0; chunk < table.chunks; ++chunk) {
    for (bool isBackward : {false, true})
      if (getOrder(turns, isBackward, chunk) != order)
        return Timetable::Violation{
            std::string("sends and receives ") +
                (isBackward ? "gradients" : "activations") +
                describeChunk(chunk, table.chunks) +
                " of other micro-batches, or in another order, than stage 0 "
                "computes them forward",
            stage, 0};
    std::vector<bool> begun(order.size());
    for (const Turn &turn : turns) {
      if (turn.chunk != chunk)
        continue;
      if (turn.isBackward && !begun[static_cast<size_t>(turn.microBatch)])
        return Timetable::Violation{"has the " + describe(turn, table.chunks) +
                                        " before the forward pass",
                                    stage, stage};
      begun[static_cast<size_t>(turn.microBatch)] = true;
    }
  }
  return std::nullopt;
}

std::optional<Timetable::Violation> Timetable::check() const {
  if (stages.empty())
    return Violation{"has no stages", 0, 0};
  std::vector<int64_t> order = getOrder(stages.front(), false, 0);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return Violation{"has no turn, or two, for the forward pass of a "
                       "micro-batch: expected one for each from 0 on",
                       0, 0};
  auto count = static_cast<int64_t>(stages.size());
  for (int64_t stage = 0; stage < count; ++stage)
    if (std::optional<Violation> violation = checkTurns(*this, stage, order))
      return violation;

  Play play(*this);
  for (bool moves = true; moves;) {
    moves = false;
    for (int64_t stage = 0; stage < count; ++stage)
      if (!play.isDone(stage) && !play.findAwaited(stage)) {
        play.takeTurn(stage);
        moves = true;
      }
  }
  for (int64_t stage = 0; stage < count; ++stage) {
    if (play.isDone(stage))
      continue;
    // Everybody who waits waits for someone who does.
    int64_t other = *play.findAwaited(stage);
    return Violation{"waits forever in the " +
                         describe(play.getTurn(stage), chunks) + " for stage " +
                         std::to_string(other) + ", which waits with the " +
                         describe(play.getTurn(other), chunks),
                     stage, other};
  }
  return std::nullopt;
}
