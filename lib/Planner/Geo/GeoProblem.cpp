//===- GeoProblem.cpp - Pipelines over unlike, distant devices ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Geo/GeoProblem.h"
#include "Located.h"
#include "Poplar/Planner/Cluster/Links.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

/// Whether it is an amount of seconds or bytes.
static bool isAmount(double value) {
  return std::isfinite(value) && value >= 0;
}

static std::string checkMode(const GeoProblem::Kind &kind, size_t index,
                             size_t units) {
  const GeoProblem::Mode &mode = kind.modes[index];
  for (auto [list, name] : {std::pair(&mode.forward, "forward"),
                            std::pair(&mode.backward, "backward"),
                            std::pair(&mode.savedBytes, "savedBytes"),
                            std::pair(&mode.workBytes, "workBytes")}) {
    if (list->size() != units)
      return std::string(name) + ": expected one for each unit";
    for (size_t i = 0; i < units; ++i)
      if (!isAmount((*list)[i]))
        return at(name, i) + " must be finite and not negative";
  }
  for (size_t i = 0; i < units; ++i) {
    if (mode.forward[i] + mode.backward[i] == 0)
      return at("forward", i) + ": a unit that takes no time is none";
    if (index > 0 && (mode.forward[i] < kind.modes[index - 1].forward[i] ||
                      mode.backward[i] < kind.modes[index - 1].backward[i]))
      return at("forward", i) + ": a mode comes after those that are faster";
  }
  return "";
}

static std::string checkKind(const GeoProblem::Kind &kind, size_t units) {
  for (auto [value, name] :
       {std::pair(kind.memory, "memory"),
        std::pair(kind.fixedBytes, "fixedBytes"),
        std::pair(kind.state.replicated, "state.replicated"),
        std::pair(kind.state.sharded, "state.sharded"),
        std::pair(kind.state.savedByInt8, "state.savedByInt8"),
        std::pair(kind.state.savedByInt4, "state.savedByInt4"),
        std::pair(kind.state.frozen, "state.frozen"),
        std::pair(kind.state.quantized, "state.quantized"),
        std::pair(kind.optimizerSeconds, "optimizerSeconds")})
    if (!isAmount(value))
      return std::string(name) + " must be finite and not negative";
  for (size_t i = 0; i < kind.modes.size(); ++i)
    if (std::string error = checkMode(kind, i, units); !error.empty())
      return at("modes", i) + "." + error;
  return kind.modes.empty() ? "modes: is empty" : "";
}

/// Checks links and devices.
static std::string checkNetwork(const GeoProblem &problem) {
  int nodes = static_cast<int>(problem.nodes.size()),
      kinds = static_cast<int>(problem.kinds.size());
  if (problem.devices.empty())
    return "devices: is empty";
  if (problem.devices.size() > GeoProblem::largestDevices)
    return "devices: there are " + std::to_string(problem.devices.size()) +
           ", more than " + std::to_string(GeoProblem::largestDevices);
  std::vector<int> counts(nodes);
  for (size_t i = 0; i < problem.devices.size(); ++i) {
    const GeoProblem::Device &device = problem.devices[i];
    if (device.kind < 0 || device.kind >= kinds)
      return at("devices", i) + ": there is no kind " +
             std::to_string(device.kind);
    if (device.node < 0 || device.node >= nodes)
      return at("devices", i) + ": there is no node " +
             std::to_string(device.node);
    ++counts[device.node];
  }
  for (int i = 0; i < nodes; ++i)
    if (counts[i] > 1 && !isValidLink(problem.nodes[i].inside))
      return at("nodes", i) + ": its devices have no link";
  if (problem.links.size() != problem.nodes.size() * problem.nodes.size())
    return "links: expected one for each pair of nodes";
  for (int i = 0; i < nodes; ++i)
    for (int j = 0; j < i; ++j) {
      const LinkSpeed &link = problem.getLink(i, j),
                      &back = problem.getLink(j, i);
      std::string pair = "links: between nodes " + std::to_string(j) + " and " +
                         std::to_string(i) + " ";
      if (!isValidLink(link) || !isValidLink(back))
        return pair + "the delay must be finite and not negative, the "
                      "bandwidth above 0";
      if (link.latency != back.latency || link.bandwidth != back.bandwidth ||
          link.overhead != back.overhead)
        return pair + "they differ by direction; give both the slower";
    }
  return "";
}

std::string GeoProblem::check() const {
  if (std::string error = parameters.check(); !error.empty())
    return "parameters: " + error;
  if (!isAmount(gradientBytes) || !isAmount(parameterBytes) ||
      !isAmount(boundaryBytes))
    return "gradientBytes, parameterBytes and boundaryBytes must be finite and "
           "not negative";
  if (microBatches < 1)
    return "microBatches must be at least 1";
  if (schedules.empty())
    return "schedules: is empty";
  for (size_t i = 0; i < kinds.size(); ++i)
    if (std::string error = checkKind(kinds[i], units()); !error.empty())
      return at("kinds", i) + "." + error;
  if (std::string error = checkNetwork(*this); !error.empty())
    return error;
  if (stages < 0 || stages > units() ||
      stages > static_cast<int>(devices.size()))
    return "stages: " + std::to_string(stages) + " cannot be made of " +
           std::to_string(units()) + " units on " +
           std::to_string(devices.size()) + " devices";
  return "";
}
