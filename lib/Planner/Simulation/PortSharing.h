//===- PortSharing.h - Collectives that share ports -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How fast the collectives under way go while they need the same ports, and
// which is done first. See Simulator.h for the model.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_SIMULATION_PORTSHARING_H
#define POPLAR_PLANNER_SIMULATION_PORTSHARING_H

#include "Poplar/Planner/Simulation/Simulator.h"

namespace poplar {

class PortSharing {
public:
  explicit PortSharing(const SimulationProblem &problem);

  /// `key` is the caller's. Times never decrease from call to call.
  void add(double time, int key, int collective);

  struct Completion {
    double time;
    int key;
  };
  /// Which is done next if none is added; of several, the one added first.
  std::optional<Completion> getNext();
  /// Takes what getNext() has told of out.
  void remove(const Completion &completion);
  /// The time of the last add() or remove().
  double getNow() const { return now; }

private:
  struct Transfer {
    int key, collective;
    /// From 1 to 0, and by how much in a second.
    double rest = 1, rate = 0;
    /// For setRates: the most speed that its ports allow.
    double limit = 0;
    bool isChanged = false;
  };
  const std::vector<SimulationProblem::Collective::Use> &
  getUses(const Transfer &transfer) const {
    return problem.collectives[transfer.collective].uses;
  }
  double getAlone(const Transfer &transfer) const {
    return aloneSeconds[transfer.collective];
  }
  double getDone(const Transfer &transfer) const;
  void moveTo(double time);
  void setRates();
  void findChanged();
  /// Rates of what uses these ports are not what they were.
  void markPorts(const Transfer &transfer);

  const SimulationProblem &problem;
  std::vector<double> aloneSeconds;
  std::vector<Transfer> active;
  double now = 0;
  /// Rates are those of other transfers than the active ones. They are set when
  /// they are needed, so that what begins at once sets them once.
  bool hasChanged = false;
  /// Ports of what has come or gone since rates were set.
  std::vector<bool> isStale;
  std::vector<int> stalePorts;
  std::vector<Transfer *> changed;
  /// By port, for setRates: how much of it is taken, and what of it each
  /// transfer that is not at its limit yet takes per unit of speed.
  std::vector<double> taken, demand;
};

} // namespace poplar

#endif // POPLAR_PLANNER_SIMULATION_PORTSHARING_H
