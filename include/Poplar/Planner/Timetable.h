//===- Timetable.h - Whose turn it is in a pipeline -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stage of a pipeline computes one pass of one micro-batch at a time: a turn.
// A schedule is a predicate over turns of a stage, `mustHappenBefore`; the
// timetable of a pipeline is the order it leads to, or one written by hand.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_TIMETABLE_H
#define POPLAR_PLANNER_TIMETABLE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poplar {

/// In which order a stage computes: all forward passes before the backward ones
/// (Huang et al., GPipe, NeurIPS 2019), or in turns once S - j micro-batches
/// are in flight (Narayanan et al., PipeDream, SOSP 2019; without its stale
/// weights: the iteration ends with all gradients).
enum class PipelineSchedule { GPipe, OneForwardOneBackward };

/// "gpipe", "1f1b".
const char *toString(PipelineSchedule schedule);
std::optional<PipelineSchedule> parsePipelineSchedule(std::string_view name);

/// A forward or backward pass of a micro-batch.
struct Turn {
  bool isBackward = false;
  int64_t microBatch = 0;

  bool operator==(const Turn &other) const {
    return isBackward == other.isBackward && microBatch == other.microBatch;
  }
};

/// Whether stage `stage` of `stages` has to take turn `a` before turn `b`. For
/// two different turns, one of the two orders holds.
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
bool mustHappenBefore(PipelineSchedule schedule, int64_t stages, int64_t stage,
                      const Turn &a, const Turn &b);

struct Timetable {
  /// Messages of a kind that a rank has memory for on either end: what was sent
  /// and has not left, what is awaited next.
  static constexpr int64_t messageBuffers = 2;

  /// By stage, its turns in order.
  std::vector<std::vector<Turn>> stages;

  /// That of a pipeline whose stages follow `schedule`.
  static Timetable make(PipelineSchedule schedule, int64_t stages,
                        int64_t microBatches);

  /// The most micro-batches that a list of turns has begun and not ended.
  static int64_t countInFlight(const std::vector<Turn> &turns);

  /// What is wrong, and in which stages; the same where only one is at fault.
  struct Violation {
    std::string message;
    int64_t stage = 0, other = 0;
  };
  /// Whether all stages can take all their turns: every micro-batch goes
  /// forward and then backward, once, in the same order in all stages; and, by
  /// playing it through with `messageBuffers`, no stage waits for ever.
  std::optional<Violation> check() const;
};

} // namespace poplar

#endif // POPLAR_PLANNER_TIMETABLE_H
