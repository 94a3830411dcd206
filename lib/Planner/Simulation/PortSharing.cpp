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
    : problem(problem), isStale(problem.ports), taken(problem.ports),
      demand(problem.ports) {
  for (const SimulationProblem::Collective &collective : problem.collectives)
    aloneSeconds.push_back(collective.seconds() - collective.latency);
}

/// Rates of infinity are of what needs no port.
double PortSharing::getDone(const Transfer &transfer) const {
  return now + std::max(transfer.rest, 0.0) / transfer.rate;
}

void PortSharing::moveTo(double time) {
  if (hasChanged && time > now)
    setRates();
  for (Transfer &transfer : active)
    if (transfer.rate < std::numeric_limits<double>::infinity())
      transfer.rest -= transfer.rate * (time - now);
  now = time;
}

/// What is active and shares ports with what has come or gone since, through
/// others, too. Only that changes its rate.
void PortSharing::findChanged() {
  changed.clear();
  for (Transfer &transfer : active)
    transfer.isChanged = false;
  for (bool grows = true; grows;) {
    grows = false;
    for (Transfer &transfer : active) {
      const auto &uses = getUses(transfer);
      auto isStalePort = [&](const SimulationProblem::Collective::Use &use) {
        return isStale[use.port];
      };
      if (transfer.isChanged ||
          (transfer.rate > 0 &&
           std::none_of(uses.begin(), uses.end(), isStalePort)))
        continue;
      grows = transfer.isChanged = true;
      markPorts(transfer);
    }
  }
  for (Transfer &transfer : active)
    if (transfer.isChanged)
      changed.push_back(&transfer);
  for (int port : stalePorts)
    isStale[port] = false;
  stalePorts.clear();
}

void PortSharing::markPorts(const Transfer &transfer) {
  for (const auto &use : getUses(transfer))
    if (!isStale[use.port]) {
      isStale[use.port] = true;
      stalePorts.push_back(use.port);
    }
}

/// Raises the speed of all, relative to their speeds when alone, until a port
/// is full; what needs it stays there, and the others go on.
void PortSharing::setRates() {
  hasChanged = false;
  findChanged();
  std::vector<Transfer *> &rising = changed;
  for (Transfer *transfer : rising) {
    transfer->rate = 1 / getAlone(*transfer);
    for (const auto &use : getUses(*transfer))
      taken[use.port] = 0;
  }
  auto takesNoTime = [&](const Transfer *transfer) {
    return getAlone(*transfer) <= 0;
  };
  rising.erase(std::remove_if(rising.begin(), rising.end(), takesNoTime),
               rising.end());
  if (rising.size() == 1)
    return;
  while (!rising.empty()) {
    for (const Transfer *transfer : rising)
      for (const auto &use : getUses(*transfer))
        demand[use.port] = 0;
    for (const Transfer *transfer : rising)
      for (const auto &use : getUses(*transfer))
        demand[use.port] += use.seconds / getAlone(*transfer);
    double speed = 1;
    for (Transfer *transfer : rising) {
      double limit = 1;
      for (const auto &use : getUses(*transfer))
        if (use.seconds > 0)
          limit = std::min(limit, (1 - taken[use.port]) / demand[use.port]);
      transfer->limit = std::max(limit, 0.0);
      speed = std::min(speed, transfer->limit);
    }
    // Those at a port that is full.
    auto isLimited = [&](Transfer *transfer) {
      if (transfer->limit > speed)
        return false;
      transfer->rate = speed / getAlone(*transfer);
      for (const auto &use : getUses(*transfer))
        taken[use.port] += use.seconds * transfer->rate;
      return true;
    };
    rising.erase(std::remove_if(rising.begin(), rising.end(), isLimited),
                 rising.end());
  }
}

void PortSharing::add(double time, int key, int collective) {
  moveTo(time);
  active.push_back({key, collective});
  markPorts(active.back());
  hasChanged = true;
}

std::optional<PortSharing::Completion> PortSharing::getNext() {
  if (hasChanged)
    setRates();
  std::optional<Completion> next;
  for (const Transfer &transfer : active)
    if (double done = getDone(transfer); !next || done < next->time)
      next = Completion{done, transfer.key};
  return next;
}

void PortSharing::remove(const Completion &completion) {
  moveTo(completion.time);
  auto done =
      std::find_if(active.begin(), active.end(), [&](const Transfer &transfer) {
        return transfer.key == completion.key;
      });
  markPorts(*done);
  active.erase(done);
  hasChanged = true;
}
