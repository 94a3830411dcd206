//===- PortSharing.cpp - Collectives that share ports ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulation/PortSharing.h"
#include <algorithm>
#include <limits>

using namespace poplar;

PortSharing::PortSharing(const SimulationProblem &problem)
    : problem(problem), taken(problem.ports), demand(problem.ports) {
  for (const SimulationProblem::Collective &collective : problem.collectives)
    aloneSeconds.push_back(collective.seconds() - collective.latency);
}

/// Rates of infinity are of what needs no port.
double PortSharing::getDone(const Transfer &transfer) const {
  return now + std::max(transfer.rest, 0.0) / transfer.rate;
}

void PortSharing::moveTo(double time) {
  if (isStale && time > now)
    setRates();
  for (Transfer &transfer : active)
    if (transfer.rate < std::numeric_limits<double>::infinity())
      transfer.rest -= transfer.rate * (time - now);
  now = time;
}

/// Raises the speed of all, relative to their speeds when alone, until a port
/// is full; what needs it stays there, and the others go on.
void PortSharing::setRates() {
  isStale = false;
  auto uses = [&](const Transfer &transfer) -> const auto & {
    return problem.collectives[transfer.collective].uses;
  };
  auto alone = [&](const Transfer &transfer) {
    return aloneSeconds[transfer.collective];
  };
  std::vector<Transfer *> rising;
  for (Transfer &transfer : active) {
    transfer.rate = 1 / alone(transfer);
    if (active.size() > 1 && alone(transfer) > 0)
      rising.push_back(&transfer);
    for (const auto &use : uses(transfer))
      taken[use.port] = 0;
  }
  while (!rising.empty()) {
    for (Transfer *transfer : rising)
      for (const auto &use : uses(*transfer))
        demand[use.port] = 0;
    for (Transfer *transfer : rising)
      for (const auto &use : uses(*transfer))
        demand[use.port] += use.seconds / alone(*transfer);
    auto limit = [&](const Transfer &transfer) {
      double speed = 1;
      for (const auto &use : uses(transfer))
        if (use.seconds > 0)
          speed = std::min(speed, (1 - taken[use.port]) / demand[use.port]);
      return std::max(speed, 0.0);
    };
    double speed = 1;
    for (Transfer *transfer : rising)
      speed = std::min(speed, limit(*transfer));
    // Those at a port that is full.
    std::vector<Transfer *> limited, others;
    for (Transfer *transfer : rising)
      (limit(*transfer) <= speed ? limited : others).push_back(transfer);
    for (Transfer *transfer : limited) {
      transfer->rate = speed / alone(*transfer);
      for (const auto &use : uses(*transfer))
        taken[use.port] += use.seconds * transfer->rate;
    }
    rising = std::move(others);
  }
}

void PortSharing::add(double time, int key, int collective) {
  moveTo(time);
  active.push_back({key, collective});
  isStale = true;
}

std::optional<PortSharing::Completion> PortSharing::getNext() {
  if (isStale)
    setRates();
  std::optional<Completion> next;
  for (const Transfer &transfer : active)
    if (double done = getDone(transfer); !next || done < next->time)
      next = Completion{done, transfer.key};
  return next;
}

void PortSharing::remove(const Completion &completion) {
  moveTo(completion.time);
  active.erase(
      std::find_if(active.begin(), active.end(), [&](const Transfer &transfer) {
        return transfer.key == completion.key;
      }));
  isStale = true;
}
