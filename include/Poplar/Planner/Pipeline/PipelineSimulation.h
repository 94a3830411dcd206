//===- PipelineSimulation.h - A hybrid plan, event by event -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every stage computes forward and backward passes of micro-batches in the
// order of its schedule, each as soon as what it needs has come:
//
//   stage 0  F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3 | gradients, optimizer
//               \  \  \     /     /
//   stage 1     F0 F1 .. B0 F2 B1 F3 B2 B3 | gradients, optimizer
//
// A message leaves once it is computed and those before it have left; the two
// directions of a link do not disturb each other. Of several chunks, a stage
// takes the turns of its Timetable, and the last one sends to the first. A
// group exchanges gradients once all of its ranks have computed theirs.
// Pipelines of a lane do the same at the same time, so each lane is simulated
// once. Times of computation, messages and exchanges are those of the cost in
// HybridProblem.h, of which only the waiting is a closed form.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_PIPELINESIMULATION_H
#define POPLAR_PLANNER_PIPELINE_PIPELINESIMULATION_H

#include "Poplar/Planner/Pipeline/HybridProblem.h"
#include "Poplar/Planner/Simulation/Timeline.h"

namespace poplar {

/// A simulation may take less than the cost says, by less than this: what costs
/// so many times what another plan takes is not faster.
constexpr double simulationMargin = 1.25;

struct PipelineSimulation {
  /// Seconds of an iteration.
  double seconds = 0;
  /// Seconds of a rank. They add up to `seconds`.
  struct Stage {
    /// Micro-batches, with what ZeRO and tensor parallelism exchange for them.
    double computing = 0;
    /// For messages and for other ranks.
    double waiting = 0;
    /// Gradients, parameters and the optimizer at the end.
    double syncing = 0;
  };
  /// By lane and group.
  std::vector<std::vector<Stage>> lanes;
  /// A class of ranks for each stage of each lane. Filled in if asked for.
  Timeline timeline;
};

/// Simulates an iteration of a plan that solves `problem`. Deterministic; takes
/// time proportional to the micro-batches of all stages.
PipelineSimulation simulatePipeline(const HybridProblem &problem,
                                    const HybridPlan &plan,
                                    bool recordsTimeline = false);

/// The same of plans at once, whose units are cut each in its own way: their
/// lanes follow one another.
PipelineSimulation simulatePipelines(const std::vector<SolvedProblem> &solved,
                                     bool recordsTimeline = false);

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_PIPELINESIMULATION_H
