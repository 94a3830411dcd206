//===- Timetable.h - Whose turn it is in a pipeline -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stage of a pipeline computes one pass of one micro-batch through one of its
// chunks at a time: a turn. A schedule is a predicate over turns of a stage,
// `mustHappenBefore`; the timetable of a pipeline is the order it leads to, or
// one written by hand.
//
// With several chunks, a micro-batch goes through all stages as often: chunk v
// of stage j of S is virtual stage v * S + j, and what the last stage sends
// goes to the next chunk of the first one.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_TIMETABLE_H
#define POPLAR_PLANNER_PIPELINE_TIMETABLE_H

#include "Poplar/Support/Words.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poplar {

/// In which order a stage computes: all forward passes before the backward ones
/// (Huang et al., GPipe, NeurIPS 2019); in turns once S - j micro-batches are
/// in flight (Narayanan et al., PipeDream, SOSP 2019; without its stale
/// weights: the iteration ends with all gradients); or that with several
/// chunks, whose bubble is as many times shorter (Narayanan et al., "Efficient
/// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC
/// 2021, section 2.2).
enum class PipelineSchedule : uint32_t {
  GPipe,
  OneForwardOneBackward,
  Interleaved
};
template <> struct Words<PipelineSchedule> {
  static constexpr const char *names[] = {"gpipe", "1f1b", "interleaved"};
};

/// A plan of that schedule; and that of a plan, none where ranks list their
/// turns.
constexpr PlanSchedule getPlanSchedule(PipelineSchedule schedule) {
  return static_cast<PlanSchedule>(schedule);
}
constexpr std::optional<PipelineSchedule>
getPipelineSchedule(PlanSchedule schedule) {
  if (schedule == PlanSchedule::Custom)
    return std::nullopt;
  return static_cast<PipelineSchedule>(schedule);
}
static_assert(
    [] {
      for (PipelineSchedule schedule : listWords<PipelineSchedule>())
        if (std::string_view(toString(schedule)) !=
            toString(getPlanSchedule(schedule)))
          return false;
      return listWords<PlanSchedule>().size() ==
             listWords<PipelineSchedule>().size() + 1;
    }(),
    "plans have the schedules of pipelines, and Custom");

/// Whether stages can have several chunks.
bool takesChunks(PipelineSchedule schedule);

/// A forward or backward pass of a micro-batch through a chunk.
struct Turn {
  bool isBackward = false;
  int64_t microBatch = 0, chunk = 0;

  bool operator==(const Turn &other) const {
    return isBackward == other.isBackward && microBatch == other.microBatch &&
           chunk == other.chunk;
  }
};

/// The shape of a pipeline: its stages, the chunks of each, what goes through
/// it.
struct PipelineShape {
  int64_t stages = 1, chunks = 1, microBatches = 0;

  /// In interleaved schedules, micro-batches go through a chunk block by block.
  int64_t countBlocks() const;
  /// The micro-batches of the largest.
  int64_t getBlockSize() const;
  /// The first of a block.
  int64_t getBlockBegin(int64_t block) const;
  /// That of a micro-batch.
  int64_t getBlock(int64_t microBatch) const;
  /// Whether all have as many, up to one, and no fewer than there are stages
  /// unless that is all there are.
  bool hasEvenBlocks() const;

private:
  int64_t countEvenBlocks() const;
};

/// Whether a stage has to take turn `a` before turn `b`, both of a pipeline of
/// this shape. For two different turns, one of the two orders holds.
///
///   gpipe: F(i) before B(j) (forward 0, backward 0'; 3 stages)
///   stage 0   0  1  2  3  .  .  .  .  0' 1' 2' 3'
///   stage 1   .  0  1  2  3  .  .  0' 1' 2' 3'
///   stage 2   .  .  0  1  2  3  0' 1' 2' 3'
///
///   1f1b: F(i) before B(j) if i < j + stages - stage
///   stage 0   0  1  2  .  .  0' 3  1' .  2' .  3'
///   stage 1   .  0  1  .  0' 2  1' 3  2' .  3'
///   stage 2   .  .  0  0' 1  1' 2  2' 3  3'
///
///   interleaved (0 to 3 in chunk 0 are a to d in chunk 1; 2 stages)
///   stage 0   0  1  a  b  2  a' 3  b' c  0' d  1' .  c' .  d' 2' 3'
///   stage 1   .  0  1  a  a' b  b' 2  0' 3  1' c  c' d  d' 2' 3' .
///
/// Micro-batches come in blocks of S or some more, so that the first of a block
/// is back from the last stage when the last one has left the first: a block
/// goes forward through chunk 0, then through chunk 1 ..., and backward the
/// other way round. Counting the turns of a direction in this order, F(f) comes
/// before B(b) if
///   f <= b + (V - 1) * B + 2 * (S - 1 - j)
/// with blocks of B: the first term is what a micro-batch takes to get to its
/// last chunk; the second, twice that of 1f1b, hides the messages, of which
/// there are V times as many. With one chunk, it is 1f1b.
///
/// The paper has blocks of S and wants a multiple of it. Here blocks are as
/// even as can be, so that no stage waits for rounds that are too short. Of a
/// block of more than S, micro-batches wait for the first stage; where more
/// would have to than there are buffers for, blocks are of S and the last one
/// is short. Smaller blocks count as if they were as large as the largest, and
/// what is not there takes no time: the order is that of some micro-batches
/// among more.
bool mustHappenBefore(PipelineSchedule schedule, const PipelineShape &shape,
                      int64_t stage, const Turn &a, const Turn &b);

struct Timetable {
  /// Messages of a kind that a rank has memory for on either end, for each of
  /// its chunks: what was sent and has not left, what is awaited next.
  static constexpr int64_t messageBuffers = 2;

  /// By stage, its turns in order.
  std::vector<std::vector<Turn>> stages;
  /// Chunks of every stage.
  int64_t chunks = 1;

  /// That of a pipeline whose stages follow `schedule`.
  static Timetable make(PipelineSchedule schedule, const PipelineShape &shape);

  /// The most micro-batches that are in flight in a chunk of a stage of that
  /// timetable, at least; as many where all blocks are equally large and there
  /// are enough of them. Without making it.
  static int64_t boundInFlight(PipelineSchedule schedule,
                               const PipelineShape &shape, int64_t stage,
                               int64_t chunk);

  /// The most micro-batches that a list of turns has begun in a chunk and not
  /// ended.
  static int64_t countInFlight(const std::vector<Turn> &turns,
                               int64_t chunk = 0);

  /// What is wrong, and in which stages; the same where only one is at fault.
  struct Violation {
    std::string message;
    int64_t stage = 0, other = 0;
  };
  /// Whether all stages can take all their turns: every micro-batch goes
  /// forward and then backward, once, in the same order in all chunks of all
  /// stages; and, by playing it through with `messageBuffers`, no stage waits
  /// for ever.
  std::optional<Violation> check() const;
};

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_TIMETABLE_H
