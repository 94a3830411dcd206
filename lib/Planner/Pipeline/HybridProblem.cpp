//===- HybridProblem.cpp - Pipeline stages on unlike devices --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridProblem.h"
#include "Division.h"
#include "Located.h"
#include "Poplar/Planner/Cluster/Links.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include <algorithm>
#include <cmath>
#include <numeric>
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

/// Checks `elements` by unit, of which `tied` are in the first and in the last;
/// `name` is what they are.
static std::string checkElements(const char *name,
                                 const std::vector<int64_t> &elements,
                                 int64_t tied) {
  for (size_t i = 0; i < elements.size(); ++i)
    if (elements[i] < 0)
      return at(name, i) + ": must not be negative";
  int64_t most =
      elements.empty() ? 0 : std::min(elements.front(), elements.back());
  if (tied < 0 || tied > most)
    return std::string("tied ") + name + ": the first and the last unit have " +
           std::to_string(most) + ", not " + std::to_string(tied);
  return "";
}

std::string HybridProblem::check() const {
  if (elements.empty())
    return "elements: has no units";
  if (!int8States.empty() && int8States.size() != elements.size())
    return "int8States: expected none, or one number for each unit";
  if (!frozenElements.empty() && frozenElements.size() != elements.size())
    return "frozenElements: expected none, or one number for each unit";
  if (!quantizedBytes.empty() && quantizedBytes.size() != elements.size())
    return "quantizedBytes: expected none, or one number for each unit";
  for (const auto &[degree, shared] : sharedElements)
    if (degree < 2 || shared.part.size() != elements.size() ||
        shared.whole.size() != elements.size() ||
        shared.int8Part.size() != int8States.size() ||
        shared.int8Whole.size() != int8States.size() ||
        shared.frozenPart.size() != frozenElements.size() ||
        shared.frozenWhole.size() != frozenElements.size() ||
        shared.quantizedPart.size() != quantizedBytes.size())
      return "sharedElements: expected a number for each unit";
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
  std::string error = checkElements("elements", elements, tiedElements);
  if (error.empty())
    error = checkElements("int8States", int8States, tiedInt8States);
  for (size_t i = 0; i < int8States.size() && error.empty(); ++i)
    if (int8States[i] > elements[i])
      error = at("int8States", i) + ": expected 0 to the elements of the unit";
  if (error.empty())
    error = checkElements("frozenElements", frozenElements, tiedFrozenElements);
  if (error.empty())
    error = checkElements("quantizedBytes", quantizedBytes, 0);
  if (!error.empty())
    return error;
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
    std::string error = checkType(types[i], elements.size(), !isElsewhere);
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
    if (elements[i] != elements[1] ||
        (!int8States.empty() && int8States[i] != int8States[1]) ||
        (!frozenElements.empty() && frozenElements[i] != frozenElements[1]) ||
        (!quantizedBytes.empty() && quantizedBytes[i] != quantizedBytes[1]))
      return false;
    for (const HybridType &type : types)
      for (const Mode &mode : type.modes)
        if (!isEqual(mode.units[i], mode.units[1]))
          return false;
  }
  return true;
}

static int64_t countUnits(const std::vector<int64_t> &elements, int64_t tied,
                          int first, int end) {
  auto units = static_cast<int>(elements.size());
  bool both = first == 0 && end == units && end > 1;
  return std::accumulate(elements.begin() + first, elements.begin() + end,
                         both ? -tied : int64_t(0));
}

int64_t HybridProblem::countElements(int first, int end) const {
  return countUnits(elements, tiedElements, first, end);
}

int64_t HybridProblem::countFrozenElements(int first, int end) const {
  return frozenElements.empty()
             ? 0
             : countUnits(frozenElements, tiedFrozenElements, first, end);
}

int64_t HybridProblem::countQuantizedBytes(int first, int end) const {
  return quantizedBytes.empty() ? 0 : countUnits(quantizedBytes, 0, first, end);
}

/// What the first of several devices holds: its part, and what is whole.
static std::pair<int64_t, int64_t> countHeld(const std::vector<int64_t> &part,
                                             int64_t tiedPart,
                                             const std::vector<int64_t> &whole,
                                             int first, int end) {
  return {countUnits(part, tiedPart, first, end),
          countUnits(whole, 0, first, end)};
}

/// Null if parts of units that devices share are even.
static const SharedElements *findShared(const HybridProblem &problem,
                                        int degree) {
  auto found = problem.sharedElements.find(degree);
  return found == problem.sharedElements.end() ? nullptr : &found->second;
}

std::pair<int64_t, int64_t>
HybridProblem::countShared(int degree, int first, int end,
                           int64_t elsewhere) const {
  const SharedElements *shared = findShared(*this, degree);
  if (!shared)
    return {divideUp(countElements(first, end) - elsewhere, degree), 0};
  auto [part, whole] = countHeld(shared->part, divideUp(tiedElements, degree),
                                 shared->whole, first, end);
  return {part - divideUp(elsewhere, degree), whole};
}

std::pair<int64_t, int64_t>
HybridProblem::countSharedInt8(int degree, int first, int end) const {
  if (int8States.empty())
    return {0, 0};
  const SharedElements *shared = findShared(*this, degree);
  if (!shared)
    return {
        divideUp(countUnits(int8States, tiedInt8States, first, end), degree),
        0};
  return countHeld(shared->int8Part, shared->tiedInt8Part, shared->int8Whole,
                   first, end);
}

int64_t HybridProblem::countTiedInt8(int degree) const {
  const SharedElements *shared = findShared(*this, degree);
  return shared ? shared->tiedInt8Part : divideUp(tiedInt8States, degree);
}

std::pair<int64_t, int64_t>
HybridProblem::countSharedFrozen(int degree, int first, int end) const {
  if (frozenElements.empty())
    return {0, 0};
  const SharedElements *shared = findShared(*this, degree);
  if (!shared || shared->frozenPart.empty())
    return {divideUp(countFrozenElements(first, end), degree), 0};
  return countHeld(shared->frozenPart, divideUp(tiedFrozenElements, degree),
                   shared->frozenWhole, first, end);
}

int64_t HybridProblem::countSharedQuantized(int degree, int first,
                                            int end) const {
  const SharedElements *shared = findShared(*this, degree);
  if (!shared || shared->quantizedPart.empty())
    return divideUp(countQuantizedBytes(first, end), degree);
  return countUnits(shared->quantizedPart, 0, first, end);
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
