//===- Timeline.h - Who does what when --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plain data that a simulation (Simulator.h) fills in, for traces and reports.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_SIMULATION_TIMELINE_H
#define POPLAR_PLANNER_SIMULATION_TIMELINE_H

#include <string>
#include <vector>

namespace poplar {

struct Timeline {
  enum class Activity {
    Compute,
    /// The rank has nothing to do until another one starts a collective.
    WaitForRanks,
    /// The rank has nothing to do until a collective under way is done.
    WaitForLink,
    /// A collective or a message under way.
    Collective,
  };
  struct Interval {
    /// Seconds since the first iteration began.
    double begin, end;
    Activity activity;
    /// Index into `names`: what is computed, or which collective.
    int name;
  };
  /// Ranks that do the same at the same time. Intervals of a stream are in
  /// order and do not overlap.
  struct RankClass {
    /// "a100, ranks 0-3"
    std::string name;
    std::vector<Interval> computation, communication;
    /// Messages that the ranks send and receive, a stream for each kind.
    struct Channel {
      /// "activations, out"
      std::string name;
      std::vector<Interval> messages;
    };
    std::vector<Channel> channels;
  };

  std::vector<std::string> names;
  std::vector<RankClass> classes;
  /// End of the last iteration.
  double seconds = 0;
};

/// JSON that Perfetto (https://ui.perfetto.dev) and Chrome's about:tracing
/// open: a process per rank class with a thread per stream. `title` names the
/// whole.
std::string formatChromeTrace(const Timeline &timeline,
                              const std::string &title);

/// "compute", "wait for ranks", "wait for link" or "collective".
const char *toString(Timeline::Activity activity);

} // namespace poplar

#endif // POPLAR_PLANNER_SIMULATION_TIMELINE_H
