//===- SimulationProblem.cpp - Does a simulation make sense? --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Simulation/Simulator.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

using RankClass = SimulationProblem::RankClass;

static bool isTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

static bool isIndex(int index, size_t size) {
  return index >= 0 && static_cast<size_t>(index) < size;
}

static std::string number(int64_t value) { return std::to_string(value); }

double SimulationProblem::Collective::seconds() const {
  double longest = 0;
  for (const Use &use : uses)
    longest = std::max(longest, use.seconds);
  return latency + longest;
}

static std::string checkCollective(const SimulationProblem &problem,
                                   const SimulationProblem::Collective &it) {
  if (!isTime(it.latency))
    return "latency must be finite and not negative";
  if (!isTime(it.overhead))
    return "overhead must be finite and not negative";
  for (size_t i = 0; i < it.uses.size(); ++i) {
    std::string where = "uses[" + number(static_cast<int64_t>(i)) + "]: ";
    if (!isIndex(it.uses[i].port, static_cast<size_t>(problem.ports)))
      return where + "there is no port " + number(it.uses[i].port);
    if (i > 0 && it.uses[i].port <= it.uses[i - 1].port)
      return where + "ports must be increasing";
    if (!isTime(it.uses[i].seconds))
      return where + "seconds must be finite and not negative";
  }
  for (size_t i = 0; i < it.group.size(); ++i) {
    if (!isIndex(it.group[i], problem.classes.size()))
      return "group: there is no class " + number(it.group[i]);
    if (i > 0 && it.group[i] <= it.group[i - 1])
      return "group: classes must be increasing";
  }
  return "";
}

static bool isOfChannel(const SimulationProblem::Operation &operation) {
  using Operation = SimulationProblem::Operation;
  return operation.kind == Operation::Send ||
         operation.kind == Operation::Flush ||
         operation.kind == Operation::Post ||
         operation.kind == Operation::Receive;
}

/// Checks what class `index` does with a channel.
static std::string checkMessage(const SimulationProblem &problem, int index,
                                const SimulationProblem::Operation &operation) {
  using Operation = SimulationProblem::Operation;
  if (!isIndex(operation.token, problem.channels.size()))
    return "there is no channel " + number(operation.token);
  const SimulationProblem::Channel &channel = problem.channels[operation.token];
  bool sends =
      operation.kind == Operation::Send || operation.kind == Operation::Flush;
  if (index != (sends ? channel.from : channel.to))
    return "channel '" + channel.name + "' does not " +
           (sends ? "begin" : "end") + " at the class";
  if (operation.kind == Operation::Send &&
      !isIndex(operation.index, problem.collectives.size()))
    return "there is no message " + number(operation.index);
  if (operation.kind == Operation::Flush && operation.index < 0)
    return "fewer than no messages cannot be under way";
  return "";
}

/// Checks a phase of class `index`.
static std::string checkPhase(const SimulationProblem &problem, int index,
                              const SimulationProblem::Phase &phase) {
  // Tokens index a table of this size.
  std::vector<bool> started(phase.size()), waited(phase.size());
  for (size_t i = 0; i < phase.size(); ++i) {
    const SimulationProblem::Operation &operation = phase[i];
    std::string where = "operations[" + number(static_cast<int64_t>(i)) + "]: ";
    if (operation.kind == SimulationProblem::Operation::Compute) {
      if (!isIndex(operation.index, problem.computations.size()))
        return where + "there is no computation " + number(operation.index);
      if (!isTime(operation.seconds))
        return where + "seconds must be finite and not negative";
      continue;
    }
    if (isOfChannel(operation)) {
      if (std::string error = checkMessage(problem, index, operation);
          !error.empty())
        return where + error;
      continue;
    }
    if (!isIndex(operation.token, phase.size()))
      return where + "token " + number(operation.token) +
             " is not between 0 and the number of operations";
    if (operation.kind == SimulationProblem::Operation::Wait) {
      if (!started[operation.token])
        return where + "waits for token " + number(operation.token) +
               ", which nothing has started";
      waited[operation.token] = true;
      continue;
    }
    if (!isIndex(operation.index, problem.collectives.size()))
      return where + "there is no collective " + number(operation.index);
    const SimulationProblem::Collective &collective =
        problem.collectives[operation.index];
    if (!collective.group.empty() &&
        !std::binary_search(collective.group.begin(), collective.group.end(),
                            index))
      return where + "collective '" + collective.name +
             "' is of a group that the class is not in";
    started[operation.token] = true;
    waited[operation.token] = false;
  }
  if (started != waited)
    return "does not wait for a collective that it starts";
  return "";
}

static std::string checkClass(const SimulationProblem &problem, int index) {
  const RankClass &rankClass = problem.classes[index];
  if (rankClass.ranks < 1)
    return "has " + number(rankClass.ranks) + " ranks";
  for (size_t i = 0; i < rankClass.phases.size(); ++i)
    if (std::string error = checkPhase(problem, index, rankClass.phases[i]);
        !error.empty())
      return "phases[" + number(static_cast<int64_t>(i)) + "]: " + error;
  for (const RankClass::Run &run : rankClass.iteration) {
    if (!isIndex(run.phase, rankClass.phases.size()))
      return "iteration: there is no phase " + number(run.phase);
    if (run.times < 0)
      return "iteration: a phase runs " + number(run.times) + " times";
  }
  return "";
}

std::string SimulationProblem::check() const {
  if (classes.empty())
    return "there are no ranks";
  if (ports < 0)
    return "ports: " + number(ports) + " is negative";
  for (const Collective &collective : collectives)
    if (std::string error = checkCollective(*this, collective); !error.empty())
      return "collective '" + collective.name + "': " + error;
  for (const Channel &channel : channels)
    if (!isIndex(channel.from, classes.size()) ||
        !isIndex(channel.to, classes.size()))
      return "channel '" + channel.name + "' is of a class that there is not";
  for (size_t i = 0; i < classes.size(); ++i)
    if (std::string error = checkClass(*this, static_cast<int>(i));
        !error.empty())
      return "class '" + classes[i].name + "': " + error;
  return "";
}

CarriedBytes poplar::countBytes(const SimulationProblem &problem,
                                const SimulationProblem::RankClass &rankClass) {
  using Operation = SimulationProblem::Operation;
  CarriedBytes bytes;
  for (auto [phase, times] : rankClass.iteration)
    for (const Operation &operation : rankClass.phases[phase]) {
      bool isMessage = operation.kind == Operation::Send;
      if (!isMessage && operation.kind != Operation::Start)
        continue;
      double &sum = isMessage ? bytes.messages : bytes.collectives;
      sum += double(times) * problem.collectives[operation.index].bytes;
    }
  return bytes;
}
