//===- Simulator.h - An iteration, event by event ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A discrete-event simulation of what the runtime does (runtime/comm). Every
// rank has two streams: one computes, one communicates, in program order.
//
//   compute  start(a) start(b) ...computes... wait(a) ...computes... wait(b)
//   stream            |===== a =====|===== b =====|
//
// A collective begins when it is at the head of the stream on all ranks of its
// group. After its latency it occupies ports, the ends of links, and is done,
// on all ranks at once, when it has had its time on every one of them.
// Collectives that need a port at the same time share it: all go equally much
// slower than they would alone, as far as ports that are full make them
// (max-min fairness, Bertsekas and Gallager, Data Networks, 6.5.2).
//
// Where a collective needs the cores that compute (copies and sums on a CPU),
// it takes time away from computation that goes on meanwhile, and none from a
// rank that waits for it. The compute stream makes up for it when the
// collective is done. So do both ends of a message.
//
// Messages between two ranks go beside that stream. Those of a channel travel
// one after the other, each from when it is sent and the receiver has memory
// for it; they share ports with what else is under way.
//
// Ranks that run the same program and wait for the same others do the same at
// the same time. They form a class, which is simulated once: the work grows
// with the number of classes, not of ranks.
//
// Units are seconds.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_SIMULATION_SIMULATOR_H
#define POPLAR_PLANNER_SIMULATION_SIMULATOR_H

#include "Poplar/Planner/Simulation/Timeline.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

struct SimulationProblem {
  /// Ports have no size of their own: collectives say how long they need them.
  int ports = 0;

  /// Or a message of a channel, which has no group.
  struct Collective {
    /// "all_gather @block.3"
    std::string name;
    double latency = 0;
    /// How long it would occupy a port if it was alone. Without uses it is done
    /// after its latency.
    struct Use {
      int port;
      double seconds;
    };
    std::vector<Use> uses;
    /// Classes that take part, with all of their ranks. Increasing; empty
    /// stands for all classes.
    std::vector<int> group;
    /// What it takes away from the computation of a rank that computes all the
    /// while.
    double overhead = 0;
    /// What it carries: all that the ranks of the group own together, or the
    /// message of a rank. No time depends on it.
    double bytes = 0;

    /// From its begin to its end if it is alone.
    double seconds() const;
  };
  std::vector<Collective> collectives;

  /// From each rank of a class to its peer in another.
  struct Channel {
    /// "activations"
    std::string name;
    int from = 0, to = 0;
  };
  std::vector<Channel> channels;

  struct Operation {
    enum Kind {
      Compute,
      Start,
      Wait,
      /// To the other end of a channel, which goes on meanwhile.
      Send,
      /// Waits until all messages sent have left, but the last few.
      Flush,
      /// Gives memory for one more message.
      Post,
      /// Waits for the next message.
      Receive
    };
    Kind kind;
    /// Compute: index into `computations`. Start, Send: of the collective.
    /// Flush: how many messages may be under way.
    int index = 0;
    /// Start and Wait: which Start of the phase a Wait waits for. Others: the
    /// channel.
    int token = 0;
    /// Compute only.
    double seconds = 0;

    static Operation compute(int computation, double seconds) {
      return {Compute, computation, 0, seconds};
    }
    static Operation start(int collective, int token) {
      return {Start, collective, token, 0};
    }
    static Operation wait(int token) { return {Wait, 0, token, 0}; }
    static Operation send(int collective, int channel) {
      return {Send, collective, channel, 0};
    }
    static Operation flush(int channel, int underWay) {
      return {Flush, underWay, channel, 0};
    }
    static Operation post(int channel) { return {Post, 0, channel, 0}; }
    static Operation receive(int channel) { return {Receive, 0, channel, 0}; }
  };
  /// Names of what is computed: "block.forward".
  std::vector<std::string> computations;

  /// Part of a program without branches.
  using Phase = std::vector<Operation>;

  struct RankClass {
    /// "a100, ranks 0-3"
    std::string name;
    int64_t ranks = 1;
    std::vector<Phase> phases;
    /// An iteration: phases by index, one after the other, repeated.
    struct Run {
      int phase;
      int64_t times;
    };
    std::vector<Run> iteration;
  };
  std::vector<RankClass> classes;

  /// Empty if the problem makes sense, else what is wrong with it, and where.
  std::string check() const;
};

struct SimulationOptions {
  /// One after the other, without a pause in between.
  int64_t iterations = 1;
  /// Fill in Simulation::timeline.
  bool recordsTimeline = false;
};

struct Simulation {
  /// Seconds of an iteration, the mean over all.
  double seconds = 0;
  /// Seconds of a rank, per iteration. Computing, waiting and exposed add up to
  /// `seconds`; exposed and hidden add up to the time that its collectives and
  /// messages were under way.
  struct ClassSeconds {
    double computing = 0;
    /// For other ranks to start a collective, to send or take a message, or to
    /// end the iteration.
    double waiting = 0;
    /// For a collective or message under way.
    double exposed = 0;
    /// One was under way while the rank computed, or waited for another.
    double hidden = 0;
  };
  /// Parallel to SimulationProblem::classes.
  std::vector<ClassSeconds> classes;
  Timeline timeline;
};

/// Bytes that a rank takes part in carrying in an iteration: the payload of
/// its collectives, and the messages that it sends.
struct CarriedBytes {
  double collectives = 0, messages = 0;
};
CarriedBytes countBytes(const SimulationProblem &problem,
                        const SimulationProblem::RankClass &rankClass);

/// Checks `problem` and simulates it. Deterministic. Fails, with `error` set,
/// where the problem makes no sense or ranks wait for each other for ever.
///
/// Takes O(n c) for n operations of c classes, and for each collective O(a p)
/// more, with a collectives and p ports in use at the time.
std::optional<Simulation> simulate(const SimulationProblem &problem,
                                   const SimulationOptions &options,
                                   std::string &error);

} // namespace poplar

#endif // POPLAR_PLANNER_SIMULATION_SIMULATOR_H
