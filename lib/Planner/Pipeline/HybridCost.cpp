//===- HybridCost.cpp - What a stage of a pipeline takes ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipeline/HybridCost.h"
#include "Division.h"
#include "Poplar/Planner/Cluster/ExchangeCost.h"
#include "Poplar/Planner/Model/ZeroRounds.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace poplar;

using HybridType = HybridProblem::DeviceType;

std::vector<HybridPlan::Range> poplar::cutStage(const HybridProblem::Mode &mode,
                                                HybridPlan::Range stage,
                                                int chunks) {
  if (chunks == 1)
    return {stage};
  auto measure = [&](int unit) {
    return mode.units[unit].forward + mode.units[unit].backward;
  };
  double all = 0, before = 0;
  for (int unit = stage.first; unit < stage.end; ++unit)
    all += measure(unit);
  std::vector<HybridPlan::Range> ranges;
  int end = stage.first;
  for (int chunk = 1; chunk <= chunks; ++chunk) {
    int first = end;
    // A unit is in the chunk that its middle is in. Each chunk has one.
    double target = all * chunk / chunks * (1 + 1e-9);
    while (end < stage.end - (chunks - chunk) &&
           (end == first || chunk == chunks ||
            before + measure(end) / 2 <= target))
      before += measure(end++);
    ranges.push_back({first, end});
  }
  return ranges;
}

int64_t poplar::countInFlight(PipelineSchedule schedule,
                              const PipelineShape &shape, int64_t stage,
                              int64_t chunk) {
  switch (schedule) {
  case PipelineSchedule::GPipe:
    return shape.microBatches;
  case PipelineSchedule::OneForwardOneBackward:
    return std::min(shape.stages - stage, shape.microBatches);
  case PipelineSchedule::Interleaved:
    break;
  }
  return Timetable::boundInFlight(schedule, shape, stage, chunk);
}

bool poplar::isAligned(const HybridType &type, int tensorDegree,
                       int64_t pipelines) {
  int64_t devices = pipelines * tensorDegree;
  return type.perNode % tensorDegree == 0 &&
         (devices % type.perNode == 0 || type.perNode % devices == 0);
}

/// Replicas of a stage in one node.
static int64_t getReplicasInNode(const HybridType &type,
                                 const GroupPart &part) {
  return std::min<int64_t>(part.pipelines, type.perNode / part.tensorDegree);
}

/// Stages in one node.
static int64_t getStagesInNode(const HybridType &type, const GroupPart &part) {
  return std::max<int64_t>(type.perNode / (part.pipelines * part.tensorDegree),
                           1);
}

HybridCosts::Most::Most(std::vector<int64_t> list) : values(std::move(list)) {
  size_t count = values.size();
  fromFirst.assign(count + 1, 0);
  fromSecond.assign(count + 1, 0);
  toLast.assign(count + 1, 0);
  for (size_t i = 0; i < count; ++i) {
    fromFirst[i + 1] = std::max(fromFirst[i], values[i]);
    fromSecond[i + 1] = i == 0 ? 0 : std::max(fromSecond[i], values[i]);
  }
  for (size_t i = count; i-- > 0;)
    toLast[i] = std::max(toLast[i + 1], values[i]);
}

int64_t HybridCosts::Most::get(int first, int end) const {
  if (first <= 1)
    return (first == 0 ? fromFirst : fromSecond)[end];
  if (end == static_cast<int>(values.size()))
    return toLast[first];
  return *std::max_element(values.begin() + first, values.begin() + end);
}

/// One amount of each unit.
static std::vector<int64_t> listUnits(const HybridProblem &problem,
                                      int64_t ParameterElements::*amount) {
  std::vector<int64_t> amounts;
  for (const ParameterElements &unit : problem.parameters.units)
    amounts.push_back(unit.*amount);
  return amounts;
}

HybridCosts::HybridCosts(const HybridProblem &problem, bool communicates,
                         const FirstStage &first)
    : problem(problem), communicates(communicates), first(first),
      trained(listUnits(problem, &ParameterElements::trained)),
      frozen(listUnits(problem, &ParameterElements::frozen)),
      quantized(listUnits(problem, &ParameterElements::quantizedBytes)) {
  int count = static_cast<int>(problem.types.size());
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to)
      messageBytes.push_back(problem.getMessageBytes({from}, {to}));
  for (const HybridType &type : problem.types) {
    sums.emplace_back();
    work.emplace_back();
    for (const HybridProblem::Mode &mode : type.modes) {
      std::vector<int64_t> bytes;
      for (const HybridProblem::UnitCost &unit : mode.units)
        bytes.push_back(unit.workBytes);
      work.back().emplace_back(std::move(bytes));
      Sums sum;
      double forward = 0, backward = 0;
      int64_t saved = 0;
      for (size_t i = 0; i <= mode.units.size(); ++i) {
        sum.forward.push_back(forward);
        sum.backward.push_back(backward);
        sum.saved.push_back(saved);
        if (i == mode.units.size())
          break;
        const HybridProblem::UnitCost &unit = mode.units[i];
        double computing = 1;
        if (!communicates && unit.forward + unit.backward > 0)
          computing = 1 - unit.communication / (unit.forward + unit.backward);
        forward += unit.forward * computing;
        backward += unit.backward * computing;
        saved += unit.savedBytes;
      }
      sums.back().push_back(std::move(sum));
    }
  }
}

double HybridCosts::getSeconds(int type, int mode,
                               HybridPlan::Range units) const {
  const Sums &sum = sums[type][mode];
  return sum.forward[units.end] - sum.forward[units.first] +
         sum.backward[units.end] - sum.backward[units.first];
}

int64_t HybridCosts::getSavedBytes(int type, int mode,
                                   HybridPlan::Range units) const {
  const std::vector<int64_t> &saved = sums[type][mode].saved;
  return saved[units.end] - saved[units.first];
}

HybridCosts::ExchangeRate
HybridCosts::getRate(const std::vector<GroupPart> &parts) const {
  if (!communicates)
    return {};
  double inside = 0, between = 0, insideLatency = 0, betweenLatency = 0;
  int64_t nodes = 0;
  std::vector<CollectiveNodes> members;
  for (const GroupPart &part : parts) {
    const HybridType &type = problem.types[part.type];
    int64_t replicas = getReplicasInNode(type, part);
    members.push_back({type.library, part.pipelines / replicas, replicas});
    nodes += members.back().nodes;
  }
  for (const GroupPart &part : parts) {
    const HybridType &type = problem.types[part.type];
    double replicas = static_cast<double>(getReplicasInNode(type, part));
    if (replicas > 1) {
      inside = std::max(inside, getRemotePart(replicas) / part.tensorDegree /
                                    type.inside.bandwidth);
      insideLatency = std::max(insideLatency, type.inside.latency);
    }
    for (const GroupPart &other : parts) {
      if (&other == &part && part.pipelines == static_cast<int64_t>(replicas))
        continue;
      const HybridProblem::Link &link = problem.getLink(part.type, other.type);
      double share = link.isShared
                         ? 1 / static_cast<double>(getStagesInNode(
                                   problem.types[part.type], part))
                         : std::min(part.tensorDegree, other.tensorDegree);
      between = std::max(between, getRemotePart(static_cast<double>(nodes)) /
                                      share / link.speed.bandwidth);
      betweenLatency = std::max(betweenLatency, link.speed.latency);
    }
  }
  return {inside, between,
          CollectiveSteps::count(members, nodes)
              .getSeconds(insideLatency, betweenLatency)};
}

const HybridCosts::ExchangeRates &
HybridCosts::getRates(const std::vector<GroupPart> &parts) const {
  if (lastRates.parts == parts)
    return lastRates;
  std::vector<GroupPart> alone = parts;
  for (GroupPart &each : alone) {
    each.pipelines *= each.tensorDegree;
    each.tensorDegree = 1;
  }
  lastRates = {parts, getRate(parts), getRate(alone)};
  return lastRates;
}

/// All that hold replicas of a group of which this problem has `parts`.
std::vector<GroupPart>
HybridCosts::getHolders(std::vector<GroupPart> parts) const {
  parts.insert(parts.end(), problem.elsewhere.begin(), problem.elsewhere.end());
  return parts;
}

/// Tied parameters whose other unit is in another group: two rounds of `bytes`
/// of each in all, over the slowest link that may be between the two.
double HybridCosts::exchangeTied(const GroupPart &part, int64_t bytes) const {
  double longest = 0;
  for (size_t other = 0; other < problem.types.size(); ++other) {
    const HybridProblem::Link &link = problem.getLink(part.type, other);
    double share = link.isShared ? 1 : part.tensorDegree;
    auto all = static_cast<double>(problem.parameters.tied.trained * bytes);
    longest = std::max(longest, getRoundTripSeconds(link.speed, all / share));
  }
  return communicates ? longest : 0;
}

/// What ZeRO exchanges of the group's own `elements`, and in every step of the
/// `gathered` ones. Of its own, a rank carries `carried`.
void HybridCosts::addExchanges(StageCost &cost, const HybridPlan::Group &group,
                               ExchangeRate rate, int64_t elements,
                               int64_t gathered, int64_t carried) const {
  ZeroRounds rounds = ZeroRounds::of(group.zeroStage);
  StepElements step = {gathered, gathered, elements};
  if (group.first == 0 && group.end == problem.units() &&
      problem.wholeStep.reduced > 0)
    step = problem.wholeStep;
  auto gradientBytes = static_cast<double>(problem.gradientBytes),
       parameterBytes = problem.getParameterBytes();
  auto go = [&](int times, int64_t size, double inside, double between) {
    return times *
           (static_cast<double>(size) * rate.getSeconds(inside, between) +
            (group.end - group.first) * rate.latency);
  };
  auto gather = [&](int times, int64_t size) {
    return go(times, size, parameterBytes, parameterBytes);
  };
  auto reduce = [&](int times, int64_t size) {
    return go(times, size, gradientBytes, problem.getGradientBytes());
  };
  int sums = rounds.reductions + rounds.gradientGathers;
  cost.forward += gather(rounds.gathersForward, step.gatheredForward);
  cost.backward += gather(rounds.gathersBackward, step.gatheredBackward) +
                   reduce(rounds.stepReductions, step.reduced);
  cost.sync +=
      reduce(sums, elements) + gather(rounds.parameterGathers, elements);
  double share = elements > 0 ? static_cast<double>(carried) /
                                    static_cast<double>(elements)
                              : 0;
  auto carry = [&](int64_t count, double bytes) {
    return static_cast<double>(count) * share * bytes;
  };
  cost.bytesPerStep +=
      carry(rounds.gathersForward * step.gatheredForward +
                rounds.gathersBackward * step.gatheredBackward,
            parameterBytes) +
      carry(rounds.stepReductions * step.reduced, problem.getGradientBytes());
  cost.bytesPerIteration +=
      carry(sums * elements, problem.getGradientBytes()) +
      carry(rounds.parameterGathers * elements, parameterBytes);
}

/// The buckets of the group's `count` parameters, as large as can be: small
/// units share buckets of the `largest` size. With those the rest is one.
BucketSizes HybridCosts::getBuckets(const Most &ofUnits,
                                    const HybridPlan::Group &group,
                                    int64_t count, int64_t largest) const {
  if (count == 0)
    return {};
  largest =
      std::min(std::max(largest, ofUnits.get(group.first, group.end)), count);
  return {largest, divideUp(count, largest)};
}

/// What a rank keeps for the time of a bucket only, of the parameters that the
/// ranks of a group divide.
int64_t HybridCosts::getTransientBytes(const HybridPlan::Group &group,
                                       const GroupPart &part,
                                       const ParameterElements &divided) const {
  const ParameterElements &largest = problem.largestBucket;
  BucketSizes ofTrained =
                  getBuckets(trained, group, divided.trained, largest.trained),
              ofFrozen =
                  getBuckets(frozen, group, divided.frozen, largest.frozen),
              ofQuantized = getBuckets(quantized, group, divided.quantizedBytes,
                                       largest.quantizedBytes),
              all = {std::max(ofTrained.largest, ofFrozen.largest),
                     ofTrained.count + ofFrozen.count + ofQuantized.count,
                     ofQuantized.largest};
  for (BucketSizes *sizes : {&all, &ofTrained})
    sizes->largest = divideUp(sizes->largest, part.tensorDegree);
  return transientBytes(problem.types[part.type].state, group.zeroStage, all,
                        ofTrained, problem.overlapDepth);
}

/// Seconds of the exchange of a first stage of `parts` that spends `seconds` by
/// itself.
double HybridCosts::getFirstSync(double seconds,
                                 const std::vector<GroupPart> &parts) const {
  int64_t ranks = 0;
  for (const GroupPart &part : parts)
    ranks += part.pipelines * part.tensorDegree;
  bool isOne = seconds < first.mostSync && ranks >= first.leastRanks &&
               ranks <= first.mostRanks;
  return isOne ? std::max(seconds, first.leastSync)
               : std::numeric_limits<double>::infinity();
}

/// What ZeRO adds to a stage, whatever computes it.
const StageCost &HybridCosts::getZero(const HybridPlan::Group &group,
                                      const std::vector<GroupPart> &ofProblem,
                                      size_t own) const {
  if (!(lastZero.group == group) || lastZero.parts != ofProblem) {
    lastZero.group = group;
    lastZero.parts = ofProblem;
    lastZero.costs.assign(ofProblem.size(), std::nullopt);
  }
  std::optional<StageCost> &known = lastZero.costs[own];
  if (known)
    return *known;
  StageCost cost;
  const GroupPart &part = ofProblem[own];
  const HybridType &type = problem.types[part.type];
  std::vector<GroupPart> holders;
  if (!problem.elsewhere.empty())
    holders = getHolders(ofProblem);
  const std::vector<GroupPart> &parts = holders.empty() ? ofProblem : holders;
  int64_t ranks = 0, replicas = 0;
  for (const GroupPart &each : parts) {
    ranks += each.pipelines * each.tensorDegree;
    replicas += each.pipelines;
  }
  // Ranks of the first and of the last group hold what is tied together. What
  // all that share units hold whole is in buckets of its own, which are sharded
  // like tied ones.
  const auto [ownPart, tiedPart, whole] =
      problem.hold(part.tensorDegree, group.first, group.end);
  ParameterElements tied = problem.parameters.countTiedOutside(group.first,
                                                               group.end),
                    divided =
                        problem.parameters.count(group.first, group.end) - tied;
  divided.trained -= whole.trained;
  int zero = group.zeroStage, rareZero = std::min(zero, 1);
  double updated = 0;
  auto hold = [&](const ParameterElements &ofRank, int64_t sharers, int stage) {
    ParameterElements shard = ofRank.getShard(sharers, ranks);
    cost.fixedBytes += getStateBytes(type.state, stage, ofRank, shard);
    // Masters beside f32 working copies, which are rounded.
    if (problem.roundedParameterBytes && replicas > 1 &&
        (stage == 1 || stage == 2) && type.state.parameter == 4)
      cost.fixedBytes += problem.gradientBytes * shard.trained;
    updated += static_cast<double>(stage >= 1 ? shard.trained : ofRank.trained);
  };
  hold(ownPart, part.tensorDegree, zero);
  hold(tiedPart, part.tensorDegree, rareZero);
  // Beside pipelines of another degree, a rank holds the more of it, the more
  // ranks share its units (writeStages()).
  bool isBeside = std::any_of(ofProblem.begin(), ofProblem.end(),
                              [&](const GroupPart &each) {
                                return each.tensorDegree != part.tensorDegree;
                              });
  hold(whole, isBeside ? part.tensorDegree : 1, rareZero);
  // What rounding left of gradients is kept in f32, at most of all.
  if (problem.roundedGradientBytes && type.keepsFeedback() && replicas > 1)
    cost.fixedBytes +=
        problem.gradientBytes * (ownPart + tiedPart + whole).trained;
  cost.fixedBytes += getTransientBytes(group, part, divided);

  cost.sync = type.optimizerSeconds * updated;
  if (replicas > 1)
    addExchanges(cost, group, getRates(parts).divided, divided.trained,
                 divided.countWireElements(problem.getParameterBytes()),
                 ownPart.trained);
  if (whole.trained > 0) {
    HybridPlan::Group rare = group;
    rare.zeroStage = rareZero;
    addExchanges(cost, rare, getRates(parts).whole, whole.trained,
                 whole.trained, whole.trained);
  }
  if (tied.trained > 0) {
    ZeroRounds rounds = ZeroRounds::of(rareZero);
    int64_t bytes =
        (rounds.reductions + rounds.gradientGathers) * problem.gradientBytes +
        rounds.parameterGathers * problem.parameterBytes;
    cost.sync += exchangeTied(part, bytes);
    cost.bytesPerIteration += static_cast<double>(tiedPart.trained * bytes);
  }
  if (group.first == 0)
    cost.sync = getFirstSync(cost.sync, ofProblem);
  return known.emplace(cost);
}

/// What messages of a pass take of a device that computes meanwhile: those that
/// come to the stage, and those that leave it.
double HybridCosts::getOverhead(const HybridPlan::Group &group, int type,
                                int64_t bytes, size_t chunks) const {
  if (!communicates)
    return 0;
  double overhead = 0;
  for (size_t other = 0; other < problem.types.size(); ++other)
    if (problem.types[other].count > 0)
      overhead =
          std::max(overhead, problem.getLink(type, other).speed.overhead);
  auto messages = static_cast<double>(2 * chunks - (group.first == 0) -
                                      (group.end == problem.units()));
  return messages * static_cast<double>(bytes) * overhead;
}

StageCost HybridCosts::getStage(
    const HybridPlan::Group &group, const std::vector<GroupPart> &parts,
    size_t own, int index, const std::vector<HybridPlan::Range> &chunks) const {
  int typeIndex = parts[own].type;
  const HybridType &type = problem.types[typeIndex];
  const HybridProblem::Mode &mode = type.modes[index];
  const Sums &sum = sums[typeIndex][index];
  StageCost cost;
  cost.forward = sum.forward[group.end] - sum.forward[group.first];
  cost.backward = sum.backward[group.end] - sum.backward[group.first];
  double computing = cost.both();
  int64_t message =
      divideUp(mode.microBatch * problem.boundaryBytes, mode.tensorDegree);
  double overhead = getOverhead(group, typeIndex, message, chunks.size());
  cost.forward += overhead;
  cost.backward += overhead;
  // A message each way, on its way while another is in use.
  cost.fixedBytes = type.scratchBytes +
                    work[typeIndex][index].get(group.first, group.end) +
                    static_cast<int64_t>(chunks.size()) * 2 * 2 * message;
  const StageCost &zero = getZero(group, parts, own);
  cost.forward += zero.forward;
  cost.backward += zero.backward;
  cost.sync = zero.sync;
  cost.fixedBytes += zero.fixedBytes;
  cost.bytesPerStep = zero.bytesPerStep;
  cost.bytesPerIteration = zero.bytesPerIteration;
  // What is not computed, chunks share evenly.
  double shared =
      (cost.both() - computing) / static_cast<double>(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i)
    cost.chunks[i] = getSeconds(typeIndex, index, chunks[i]) + shared;
  return cost;
}

double HybridCosts::getMessage(int64_t microBatch, const GroupPart &from,
                               const GroupPart &to) const {
  if (!communicates)
    return 0;
  const HybridProblem::Link &link = problem.getLink(from.type, to.type);
  size_t pair = from.type * problem.types.size() + to.type;
  double bytes = static_cast<double>(microBatch * messageBytes[pair]);
  if (link.isShared)
    bytes *= static_cast<double>(
        std::max(getReplicasInNode(problem.types[from.type], from),
                 getReplicasInNode(problem.types[to.type], to)));
  else
    bytes /= std::min(from.tensorDegree, to.tensorDegree);
  return getMessageSeconds(link.speed, bytes);
}

void LaneTimes::meetChunks(const StageCost &stage, const StageCost &behind) {
  double longer = 0;
  for (int own = 0; own < chunks; ++own)
    for (int other = 0; other < chunks; ++other)
      longer += std::max(stage.chunks[own], behind.chunks[other]);
  period = std::max(period, longer / chunks);
}

LaneTimes LaneTimes::prepend(const StageCost &stage, const StageCost *behind,
                             double message, int depth,
                             PipelineSchedule schedule) const {
  LaneTimes times = prependEven(stage, behind, message, depth, schedule);
  if (behind && chunks > 1)
    times.meetChunks(stage, *behind);
  return times;
}
