//===- BatchProblem.cpp - Who takes how many samples ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/BatchProblem.h"
#include "Poplar/Support/Text.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace poplar;

/// Larger numbers are typing errors, and products of them might overflow.
static constexpr int64_t largestCount = int64_t(1) << 24;

//===----------------------------------------------------------------------===//
// BatchProblem
//===----------------------------------------------------------------------===//

static std::string checkType(const BatchProblem::DeviceType &type) {
  auto number = [](int64_t value) { return std::to_string(value); };
  if (type.count < 0 || type.count > largestCount)
    return "count is " + number(type.count);
  if (type.largestBatch < 0)
    return "largest micro-batch is " + number(type.largestBatch);
  if (type.largestBatch > type.curve.largest())
    return "largest micro-batch is " + number(type.largestBatch) +
           ", but its curve ends at " + number(type.curve.largest());
  if (!std::isfinite(type.flops) || type.flops < 0)
    return "FLOP/s must be finite and not negative";
  if (type.memoryBytes < 0 || type.fixedBytes < 0 || type.bytesPerSample < 0)
    return "bytes of memory must not be negative";
  int64_t need = type.fixedBytes + type.largestBatch * type.bytesPerSample;
  if (type.memoryBytes > 0 && type.count > 0 && need > type.memoryBytes)
    return "needs " + formatMissing(need) + " at its largest micro-batch (" +
           number(type.largestBatch) + "), but has " +
           formatMissing(type.memoryBytes);
  return "";
}

/// What is missing for one sample to fit on the device that comes closest.
static std::string describeShortage(const BatchProblem &problem) {
  const BatchProblem::DeviceType *closest = nullptr;
  auto shortage = [](const BatchProblem::DeviceType &type) {
    return type.fixedBytes + type.bytesPerSample - type.memoryBytes;
  };
  for (const auto &type : problem.types)
    if (type.count > 0 && type.memoryBytes > 0 && shortage(type) > 0 &&
        (!closest || shortage(type) < shortage(*closest)))
      closest = &type;
  if (!closest)
    return "";
  return "; '" + closest->name + "' comes closest, with " +
         formatMissing(shortage(*closest)) + " more memory it would hold one";
}

std::string BatchProblem::check() const {
  if (types.empty())
    return "there are no device types";
  bool holdsSample = false;
  for (size_t i = 0; i < types.size(); ++i) {
    std::string where = "types[" + std::to_string(i) + "]";
    if (types[i].name.empty())
      return where + ": has no name";
    where += " '" + types[i].name + "': ";
    if (findType(types[i].name) != static_cast<int>(i))
      return where + "the name is taken by types[" +
             std::to_string(findType(types[i].name)) + "]";
    if (std::string problem = checkType(types[i]); !problem.empty())
      return where + problem;
    holdsSample |= types[i].count > 0 && types[i].largestBatch > 0;
  }
  if (globalBatch < 1 || globalBatch > largestCount)
    return "globalBatch: " + std::to_string(globalBatch) +
           " is not between 1 and " + std::to_string(largestCount);
  if (zeroStage < 0 || zeroStage > 3)
    return "zeroStage: " + std::to_string(zeroStage) + " is not 0, 1, 2 or 3";
  if (!std::isfinite(iterationSync) || iterationSync < 0)
    return "iterationSync: must be finite and not negative";
  if (!std::isfinite(stepSync) || stepSync < 0)
    return "stepSync: must be finite and not negative";
  if (!std::isfinite(forwardSync) || forwardSync < 0)
    return "forwardSync: must be finite and not negative";
  if (!std::isfinite(backwardSync) || backwardSync < 0)
    return "backwardSync: must be finite and not negative";
  if (!std::isfinite(lastBackwardSync) || lastBackwardSync < 0)
    return "lastBackwardSync: must be finite and not negative";
  if (!sharesSteps() && lastBackwardSync != 0)
    return "lastBackwardSync: ranks meet in no other step in stage " +
           std::to_string(zeroStage);
  if (!sharesSteps() && stepSync != 0)
    return "stepSync: ranks do not meet in every step in stage " +
           std::to_string(zeroStage);
  if (rankCount() == 0)
    return "there are no devices";
  if (!holdsSample)
    return "no device has memory for a single sample" + describeShortage(*this);
  return "";
}

/// `backwardSync` is what runs beside the backward pass.
static double getStepSeconds(const BatchProblem &problem, double computing,
                             double backwardSync) {
  // The backward pass has two matrix products for each of the forward pass. As
  // a sum, so that without communication it is what computing takes, unrounded.
  double forward = computing / 3, backward = computing - forward;
  return computing + std::max(problem.forwardSync - forward, 0.0) +
         std::max(backwardSync - backward, 0.0) + problem.stepSync;
}

double BatchProblem::stepSeconds(double computing) const {
  return getStepSeconds(*this, computing, backwardSync);
}

double BatchProblem::lastStepSeconds(double computing) const {
  return getStepSeconds(*this, computing, backwardSync + lastBackwardSync);
}

double BatchProblem::getLeastSeconds() const {
  double throughput = 0, capacity = 0;
  for (const DeviceType &type : types)
    if (int64_t peak = type.curve.peak(type.largestBatch)) {
      throughput +=
          static_cast<double>(type.count) * type.curve.throughput(peak);
      capacity += static_cast<double>(type.count * type.largestBatch);
    }
  auto batch = static_cast<double>(globalBatch);
  double steps = sharesSteps() ? std::ceil(batch / capacity) : 1;
  // Hidden altogether, or hiding all computation.
  double computing = batch / throughput + steps * stepSync;
  return std::max(computing, steps * stepSeconds(0)) + iterationSync;
}

int64_t BatchProblem::rankCount() const {
  int64_t count = 0;
  for (const DeviceType &type : types)
    count += type.count;
  return count;
}

int BatchProblem::findType(const std::string &name) const {
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].name == name)
      return static_cast<int>(i);
  return -1;
}

//===----------------------------------------------------------------------===//
// RankShare and Allocation
//===----------------------------------------------------------------------===//

double RankShare::seconds(const Curve &curve) const {
  if (steps == 0)
    return 0;
  // Not by way of steps - 1: products and sums are rounded, and the time of s
  // equal steps should be one product.
  if (last == microBatch)
    return static_cast<double>(steps) * curve.seconds(microBatch);
  return static_cast<double>(steps - 1) * curve.seconds(microBatch) +
         curve.seconds(last);
}

double RankShare::meetingSeconds(const BatchProblem &problem,
                                 const Curve &curve) const {
  double meeting = problem.stepSeconds(curve.seconds(last));
  // As above where all steps are equal and nothing is communicated.
  return seconds(curve) + (meeting - curve.seconds(last));
}

double Allocation::predict(const BatchProblem &problem) const {
  double rank = 0, step = 0, last = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const Curve &curve = problem.types[i].curve;
    for (const Group &group : types[i].groups) {
      rank = std::max(rank, group.share.meetingSeconds(problem, curve));
      step = std::max(step, curve.seconds(group.share.microBatch));
      last = std::max(last, curve.seconds(group.share.last));
    }
  }
  if (!problem.sharesSteps())
    return rank + problem.iterationSync;
  return static_cast<double>(steps() - 1) * problem.stepSeconds(step) +
         problem.lastStepSeconds(last) + problem.iterationSync;
}

static std::string verifyShare(const BatchProblem &problem,
                               const BatchProblem::DeviceType &type,
                               const RankShare &share, int64_t steps) {
  auto number = [](int64_t value) { return std::to_string(value); };
  if (share.microBatch < 0 || share.steps < 0 || share.last < 0)
    return "has a negative share";
  if (std::max(share.microBatch, share.last) > type.largestBatch)
    return "has a micro-batch of " +
           number(std::max(share.microBatch, share.last)) + ", but only " +
           number(type.largestBatch) + " fit";
  if (problem.sharesSteps()) {
    if (share.steps != steps)
      return "makes " + number(share.steps) + " steps, others make " +
             number(steps);
    return "";
  }
  if (share.last > share.microBatch)
    return "has " + number(share.last) +
           " samples in its last step, more than " + "its micro-batch of " +
           number(share.microBatch);
  if ((share.steps == 0) != (share.last == 0))
    return "makes " + number(share.steps) + " steps and has " +
           number(share.last) + " samples in the last";
  return "";
}

std::string Allocation::verifyShares(const BatchProblem &problem) const {
  if (types.size() != problem.types.size())
    return "has shares of " + std::to_string(types.size()) + " types for " +
           std::to_string(problem.types.size());
  int64_t total = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto &type = problem.types[i];
    std::string where = "type '" + type.name + "' ";
    int64_t count = types[i].dropped;
    for (const Group &group : types[i].groups) {
      if (group.count <= 0)
        return where + "has an empty group";
      count += group.count;
      std::string error = verifyShare(problem, type, group.share, steps());
      if (!error.empty())
        return where + error;
      total += group.count * group.share.samples();
    }
    if (types[i].dropped < 0 || count != type.count)
      return where + "has shares of " + std::to_string(count) +
             " devices for " + std::to_string(type.count);
  }
  if (total != problem.globalBatch)
    return "shares add up to " + std::to_string(total) + " samples, not " +
           std::to_string(problem.globalBatch);
  return "";
}

std::string Allocation::verify(const BatchProblem &problem) const {
  if (std::string violation = verifyShares(problem); !violation.empty())
    return violation;
  double predicted = predict(problem);
  if (!(std::abs(seconds - predicted) <= 1e-12 * predicted)) {
    char text[96];
    std::snprintf(text, sizeof(text), "claims %.9g s, but takes %.9g s",
                  seconds, predicted);
    return text;
  }
  return "";
}

RankShare Allocation::shareOf(size_t type, int64_t device) const {
  for (const Group &group : types[type].groups) {
    if (device < group.count)
      return group.share;
    device -= group.count;
  }
  return {};
}

int64_t Allocation::samplesOf(size_t type) const {
  int64_t samples = 0;
  for (const Group &group : types[type].groups)
    samples += group.count * group.share.samples();
  return samples;
}

/// Sum over all ranks of a member of their shares.
static int64_t sumShares(const Allocation &allocation,
                         int64_t RankShare::*member) {
  int64_t sum = 0;
  for (const Allocation::TypeShares &type : allocation.types)
    for (const Allocation::Group &group : type.groups)
      sum += group.count * (group.share.*member);
  return sum;
}

int64_t Allocation::samplesPerStep() const {
  return sumShares(*this, &RankShare::microBatch);
}

int64_t Allocation::samplesInLastStep() const {
  return sumShares(*this, &RankShare::last);
}

int64_t Allocation::steps() const {
  int64_t steps = 0;
  for (const TypeShares &type : types)
    for (const Group &group : type.groups)
      steps = std::max(steps, group.share.steps);
  return steps;
}
