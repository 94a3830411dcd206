//===- HybridProblem.cpp - Pipeline stages on unlike devices --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridProblem.h"
#include "Located.h"
#include "Poplar/Planner/Cluster/Links.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace poplar;

using HybridType = HybridProblem::DeviceType;
using Mode = HybridProblem::Mode;

static bool isTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

static std::string checkMode(const HybridType &type, const Mode &mode,
                             size_t units) {
  if (mode.tensorDegree < 1 || type.perNode % mode.tensorDegree != 0)
    return "tensorDegree: " + std::to_string(mode.tensorDegree) +
           " does not divide the " + std::to_string(type.perNode) +
           " devices of a node";
  if (mode.microBatch < 1)
    return "microBatch must be at least 1";
  if (mode.units.size() != units)
    return "has costs of " + std::to_string(mode.units.size()) + " of " +
           std::to_string(units) + " units";
  for (size_t i = 0; i < units; ++i) {
    const HybridProblem::UnitCost &unit = mode.units[i];
    if (!isTime(unit.forward) || !isTime(unit.backward) ||
        !isTime(unit.communication) ||
        unit.communication > unit.forward + unit.backward)
      return at("units", i) + ": seconds must be finite and not negative";
    if (unit.savedBytes < 0 || unit.workBytes < 0)
      return at("units", i) + ": bytes must not be negative";
  }
  return "";
}

/// Some types need no devices.
static std::string checkType(const HybridType &type, size_t units,
                             bool needsDevices) {
  if (type.count < (needsDevices ? 1 : 0) || type.perNode < 1 ||
      type.count % type.perNode != 0)
    return "count: " + std::to_string(type.count) +
           " devices do not fill nodes of " + std::to_string(type.perNode);
  if (type.memory < 0 || type.scratchBytes < 0)
    return "memory: bytes must not be negative";
  if (type.perNode > 1 && !isValidLink(type.inside))
    return "inside: has no bandwidth";
  if (!isTime(type.optimizerSeconds))
    return "optimizerSeconds must be finite and not negative";
  for (size_t i = 0; i < type.modes.size(); ++i) {
    std::string error = checkMode(type, type.modes[i], units);
    if (!error.empty())
      return at("modes", i) + ": " + error;
  }
  return type.modes.empty() ? "has no modes" : "";
}

int64_t HybridProblem::getMessageBytes(const std::vector<int> &before,
                                       const std::vector<int> &behind) const {
  auto getFormats = [&](const std::vector<int> &indices) {
    std::set<NumberFormat> formats;
    for (int index : indices)
      formats.insert(types[index].format);
    return formats;
  };
  int64_t widest = 0;
  for (const DeviceType &type : types)
    widest = std::max(widest, getStorageBytes(type.format));
  NumberFormat format =
      getMessageFormat(getFormats(before), getFormats(behind));
  return boundaryBytes * getStorageBytes(format) / widest;
}

std::string HybridProblem::check() const {
  if (std::string error = parameters.check(); !error.empty())
    return "parameters: " + error;
  for (const auto &[degree, held] : shared)
    if (degree < 2 || held.part.size() != units() ||
        held.whole.size() != units())
      return "shared: expected a number for each unit";
  if (types.empty())
    return "types: is empty";
  if (globalBatch < 1)
    return "globalBatch must be at least 1";
  if (boundaryBytes < 0)
    return "boundaryBytes must not be negative";
  if (links.size() != types.size() * types.size())
    return "links: expected one for each pair of types";
  for (size_t i = 0; i < links.size(); ++i)
    if (!isValidLink(links[i].speed))
      return at("links", i) + ": has no bandwidth";
  for (int stage : zeroStages)
    if (stage < 0 || stage > 3)
      return "zeroStages: there is no stage " + std::to_string(stage);
    else if (stage > 1 && !elsewhere.empty())
      return "zeroStages: pipelines that are cut at other units do not meet in "
             "every micro-batch, as ZeRO stage " +
             std::to_string(stage) + " demands";
  for (size_t i = 0; i < elsewhere.size(); ++i)
    if (elsewhere[i].type < 0 ||
        elsewhere[i].type >= static_cast<int>(types.size()) ||
        elsewhere[i].tensorDegree < 1 || elsewhere[i].pipelines < 1)
      return at("elsewhere", i) + ": has no such type, or no devices";
  if (zeroStages.empty() || schedules.empty())
    return "zeroStages and schedules: there is nothing to choose from";
  for (size_t i = 0; i < types.size(); ++i) {
    bool isElsewhere =
        std::any_of(elsewhere.begin(), elsewhere.end(),
                    [&](const GroupPart &part) { return part.type == int(i); });
    std::string error = checkType(types[i], units(), !isElsewhere);
    if (!error.empty())
      return at("types", i) + ": " + error;
  }
  if (std::any_of(schedules.begin(), schedules.end(), takesChunks)) {
    if (chunks < 2 || chunks > mostChunks)
      return "chunks: interleaved stages have 2 to " +
             std::to_string(mostChunks);
    if (!hasEqualUnits())
      return "chunks: units between the first and the last differ";
  }
  return "";
}

static bool isEqual(const HybridProblem::UnitCost &a,
                    const HybridProblem::UnitCost &b) {
  return a.forward == b.forward && a.backward == b.backward &&
         a.communication == b.communication && a.savedBytes == b.savedBytes &&
         a.workBytes == b.workBytes;
}

bool HybridProblem::hasEqualUnits() const {
  for (int i = 2; i < units() - 1; ++i) {
    if (parameters.units[i] != parameters.units[1])
      return false;
    for (const HybridType &type : types)
      for (const Mode &mode : type.modes)
        if (!isEqual(mode.units[i], mode.units[1]))
          return false;
  }
  return true;
}

HeldElements UnitParameters::hold(int degree, int first, int end) const {
  auto found = shared.find(degree);
  return found == shared.end()
             ? HeldElements::divideEvenly(parameters, degree, first, end)
             : HeldElements::of(found->second, first, end);
}

HybridProblem HybridProblem::restrictTo(const std::vector<int> &kept) const {
  HybridProblem part = *this;
  part.types.clear();
  part.links.clear();
  for (int type : kept) {
    part.types.push_back(types[type]);
    for (int other : kept)
      part.links.push_back(getLink(type, other));
  }
  return part;
}
