//===- PlanText.cpp - Plans for people ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/PlanText.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Support/Text.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace poplar;

using llvm::formatv;

std::string poplar::formatUnits(zero::GroupOp group) {
  std::string text;
  for (int64_t chunk = 0; chunk < group.getNumChunks(); ++chunk) {
    int64_t first = group.getFirst(chunk), last = group.getEnd(chunk) - 1;
    text += (chunk ? ", " : "") + std::to_string(first) +
            (last > first ? " to " + std::to_string(last) : "");
  }
  return text;
}

/// "a0", "a0 .. a22"
static std::string formatNodes(llvm::StringRef first, llvm::StringRef last) {
  return first == last ? first.str() : (first + " .. " + last).str();
}

/// How far a plan is from a lower bound if that is worth a line.
static constexpr double leastGap = 1.001;

static std::string formatHead(const Plan &plan) {
  std::string text =
      formatv("plan      stage {0}, {1} an iteration on {2}, policy {3}",
              plan.getStage(), formatCount(plan.globalBatch, "sample"),
              formatCount(plan.ranks.size(), "rank"), plan.policy);
  if (plan.schedule)
    text += std::string(", schedule ") + toString(*plan.schedule);
  if (plan.wires.any())
    text += ", " + describeWires(plan.wires);
  if (plan.predicted)
    text += formatv(", {0:f4} s predicted", *plan.predicted);
  if (plan.simulated)
    text += formatv(", {0:f4} s simulated", *plan.simulated);
  if (plan.uncertainty)
    text += formatv(" (estimate, +-{0:f0} %)", 100 * *plan.uncertainty);
  text += "\n";
  if (plan.lowerBound && plan.policy == "exact" &&
      plan.predicted.value_or(0) > *plan.lowerBound * leastGap)
    text += formatv("  by the closed form, no plan of ZeRO alone takes less "
                    "than {0:f4} s\n",
                    *plan.lowerBound);
  return text;
}

static std::string formatGroups(zero::PlanOp plan) {
  std::string text;
  for (auto [index, op] : llvm::enumerate(plan.getGroups())) {
    zero::GroupOp group = op;
    text += formatv("  group {0}: units {1}, ZeRO stage {2}", index,
                    formatUnits(group), group.getStage());
    if (group.getLargestTensorDegree() > 1)
      text += ", shared among " +
              std::to_string(group.getLargestTensorDegree()) + " devices" +
              (llvm::is_contained(group.getTensor(), 1) ? ", or whole" : "");
    text += "\n";
  }
  return text;
}

/// What is said of ranks that differ in nothing but their node.
static mlir::DictionaryAttr getShared(zero::RankOp rank) {
  mlir::NamedAttrList attributes(rank->getAttrDictionary());
  attributes.erase(rank.getNodeAttrName());
  return attributes.getDictionary(rank.getContext());
}

/// What a rank recomputes, or what its device type does.
static Recomputation getRecompute(zero::PlanOp plan, zero::RankOp rank) {
  auto type = mlir::SymbolTable(plan->getParentOp())
                  .lookup<cluster::DeviceTypeOp>(rank.getDeviceType());
  return rank.getRecompute().value_or(type ? type.getRecompute()
                                           : RecomputePolicy::Keep);
}

std::string poplar::formatPlan(zero::PlanOp plan) {
  std::string text = formatHead(zero::readPlan(plan)) + formatGroups(plan);
  llvm::SmallVector<zero::RankOp, 0> ranks = plan.getRanks();
  for (size_t first = 0; first < ranks.size();) {
    zero::RankOp rank = ranks[first];
    size_t end = first + 1;
    while (end < ranks.size() && getShared(ranks[end]) == getShared(rank))
      ++end;
    std::string numbers = std::to_string(first);
    if (end > first + 1)
      numbers += "-" + std::to_string(end - 1);
    text += formatv("  rank {0,-9} {1,-16} {2,-12} micro-batch {3,4}, {4}",
                    numbers, rank.getDeviceType(),
                    formatNodes(rank.getNode(), ranks[end - 1].getNode()),
                    rank.getMicroBatch(),
                    formatSteps(rank.getSteps(), rank.getLast()));
    if (plan.getSchedule())
      text += ", group " + std::to_string(rank.getGroup());
    if (Recomputation recompute = getRecompute(plan, rank);
        recompute != RecomputePolicy::Keep)
      text += std::string(", ") + toString(recompute);
    text += "\n";
    first = end;
  }
  return text;
}

std::string poplar::formatLeftOut(const ClusterView &cluster,
                                  zero::PlanOp plan) {
  std::map<std::pair<std::string, std::string>, int64_t> used;
  for (zero::RankOp rank : plan.getRanks())
    ++used[{rank.getNode().str(), rank.getDeviceType().str()}];
  struct LeftOut {
    int64_t count = 0;
    std::string first, last;
  };
  std::map<std::string, LeftOut> types;
  for (const ClusterNode &node : cluster.nodes)
    for (int rank = node.firstRank; rank < node.firstRank + node.numRanks;
         ++rank) {
      const std::string &type = cluster.types[cluster.ranks[rank].type].name;
      if (used[{node.name, type}]-- > 0)
        continue;
      LeftOut &leftOut = types[type];
      if (leftOut.count++ == 0)
        leftOut.first = node.name;
      leftOut.last = node.name;
    }
  std::string text;
  for (const auto &[type, leftOut] : types)
    text += formatv("  left out {0,5} {1,-16} {2}\n", leftOut.count, type,
                    formatNodes(leftOut.first, leftOut.last));
  return text;
}

/// The spread of repeated measurements: their interquartile range over their
/// median. On an idle machine it is a few percent.
static constexpr double noisySpread = 0.1;

std::string poplar::formatNoise(const ClusterView &cluster) {
  struct Noise {
    double spread = noisySpread;
    int64_t microBatch = 0;
  };
  std::map<int, Noise> noisiest;
  for (const DeviceProfile &profile : cluster.profiles)
    for (size_t i = 0; i < profile.spread.size() && !profile.isEstimate; ++i)
      if (Noise &noise = noisiest[profile.type];
          profile.spread[i] > noise.spread)
        noise = {profile.spread[i], profile.microBatches[i]};
  std::string text;
  for (const auto &[type, noise] : noisiest)
    if (noise.microBatch > 0)
      text += formatv("note: the profile of '{0}' is noisy: measurements at "
                      "micro-batch {1} spread by {2:F0} %. Measure it again on "
                      "an idle machine: {3}\n",
                      cluster.types[type].name, noise.microBatch,
                      100 * noise.spread,
                      getProfileCommand(cluster.types[type].name));
  return text;
}

std::string poplar::formatMemory(mlir::ModuleOp program) {
  exec::ArenaOp arena = getArena(program);
  int64_t fixed = getPeakBytes(program, 0, 0), perSample = arena.getPerSample(),
          live = arena.getLivePerSample(), scratch = arena.getScratchBytes();
  std::string text = llvm::formatv("memory    peak_bytes(b) = {0} + b * {1}\n",
                                   fixed, perSample);
  for (int64_t batch : {1, 4, 16})
    text += llvm::formatv("          micro-batch {0,2}: {1,10:f1} MiB\n", batch,
                          (fixed + batch * perSample) / 1048576.0);
  return text +
         llvm::formatv(
             "          parameters, gradients and optimizer {0:f1} MiB, "
             "library scratch {1:f1} MiB\n          activations are placed "
             "within {2:f2} % of the largest sum of live bytes\n",
             (fixed - scratch) / 1048576.0, scratch / 1048576.0,
             live ? 100.0 * (perSample - live) / live : 0.0)
             .str();
}
