//===- PlanReviewText.cpp - A review for people ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanReview.h"
#include "Poplar/Support/Text.h"
#include <algorithm>
#include <cstdio>

using namespace poplar;

/// Significant digits that times are shown with.
static std::string formatSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g s", seconds);
  return text;
}

std::string poplar::describeCandidate(const ClusterView &cluster,
                                      const PlanCandidate &candidate) {
  std::string text;
  auto add = [&](const std::string &part) {
    text += (text.empty() ? "" : ", ") + part;
  };
  for (size_t i = 0; i < cluster.types.size(); ++i) {
    const std::string &name = cluster.types[i].name;
    int64_t count = candidate.problem.types[i].count;
    int64_t dropped = candidate.allocation.types[i].dropped;
    if (dropped > 0 && dropped == count)
      add("without '" + name + "'");
    else if (dropped > 0)
      add("without " + std::to_string(dropped) + " of " +
          std::to_string(count) + " '" + name + "'");
    if (dropped < count && candidate.recompute[i] != cluster.types[i].recompute)
      add("'" + name + "' " + toString(candidate.recompute[i]));
  }
  return text;
}

/// One line per run of ranks that are alike.
static std::string formatMemory(const ClusterView &cluster,
                                const PlanReview &review) {
  std::string text;
  const auto &ranks = review.ranks;
  auto describe = [&](const PlanReview::Rank &rank) {
    const DeviceType &type = cluster.types[rank.type];
    std::string line = "'" + type.name + "': ";
    if (!rank.memory)
      return line + "not known, the profile does not say";
    return line + formatBytes(rank.memory->fixed) + " + " +
           std::to_string(rank.share.largestStep()) + " x " +
           formatBytes(rank.memory->perSample) + " = " +
           formatBytes(rank.memory->peak) + " of " + formatBytes(type.memory);
  };
  for (size_t first = 0; first < ranks.size();) {
    std::string line = describe(ranks[first]);
    size_t end = first + 1;
    while (end < ranks.size() && describe(ranks[end]) == line)
      ++end;
    text += "memory of rank " + std::to_string(first) +
            (end > first + 1 ? "-" + std::to_string(end - 1) : "") + " " +
            line + "\n";
    first = end;
  }
  return text;
}

std::string poplar::describeSharding(const PlanCandidate &candidate) {
  return candidate.replicas > 1
             ? std::to_string(candidate.replicas) + " replicas"
             : toString(candidate.sharding);
}

std::string poplar::describePlan(const ClusterView &cluster,
                                 const PlanCandidate &candidate,
                                 const std::string &policy) {
  const Allocation &allocation = candidate.allocation;
  int64_t steps = allocation.steps();
  std::string text = "stage " + std::to_string(candidate.stage) + ", " +
                     describeSharding(candidate) + ", " +
                     formatCount(steps, "step");
  if (steps > 1 && candidate.problem.sharesSteps())
    text += " of " + std::to_string(allocation.samplesPerStep());
  if (std::string how = describeCandidate(cluster, candidate); !how.empty())
    text += ", " + how;
  if (candidate.wires.any())
    text += ", " + describeWires(candidate.wires);
  if (allocation.policy != policy)
    text += "; shares of " + allocation.policy;
  return text;
}

namespace {

/// Lines about plans, in order. Those that differ in nothing but how the state
/// is sharded are one.
class PlanLines {
public:
  /// `head` and `tail` are what stands before and behind the sharding.
  void add(const std::string &head, const std::string &sharding,
           const std::string &tail) {
    for (Line &line : lines)
      if (line.head == head && line.tail == tail) {
        if (line.sharding.find(sharding) == std::string::npos)
          line.sharding += " or " + sharding;
        return;
      }
    lines.push_back({head, sharding, tail});
  }
  std::string format() const {
    std::string text;
    for (const Line &line : lines)
      text += "  " + line.head + line.sharding + line.tail + "\n";
    return text;
  }

private:
  struct Line {
    std::string head, sharding, tail;
  };
  std::vector<Line> lines;
};

} // namespace

static std::string formatPercent(const char *format, double ratio) {
  char text[32];
  std::snprintf(text, sizeof(text), format, 100 * (ratio - 1));
  return text;
}

static std::string formatCandidates(const PlanReview &review) {
  if (review.candidates.empty())
    return "";
  PlanLines lines;
  for (const Plan::Candidate &candidate : review.candidates) {
    std::string head = formatSeconds(candidate.simulated) +
                       formatPercent(" (%+.1f%%): ",
                                     candidate.simulated / candidate.predicted);
    // "stage 3, equal, 1 step" (describePlan)
    const std::string &what = candidate.description;
    size_t first = what.find(", "), end = what.find(", ", first + 1);
    if (first == std::string::npos || end == std::string::npos)
      lines.add(head + what, "", "");
    else
      lines.add(head + what.substr(0, first + 2),
                what.substr(first + 2, end - first - 2), what.substr(end));
  }
  return "plans that were simulated, and what that is to the closed form:\n" +
         lines.format();
}

static std::string formatAlternatives(const ClusterView &cluster,
                                      const PlanReview &review) {
  std::string text = "the best by stage and sharding of the state (";
  const Untried &untried = review.alternatives.untried;
  text += untried.any()
              ? "not all choices of " + untried.describe() + " were tried):\n"
              : "everything was tried):\n";
  PlanLines lines;
  for (const PlanOutcome &outcome : review.alternatives.outcomes) {
    std::string head = "stage " + std::to_string(outcome.stage) + ", ",
                tail = ": none, " + outcome.error;
    if (outcome.best) {
      const Allocation &best = outcome.best->allocation;
      std::string how = describeCandidate(cluster, *outcome.best);
      tail = ": " + formatSeconds(best.seconds) +
             formatPercent(" (%+.2f%%)",
                           best.seconds / review.plan.allocation.seconds) +
             " in " + formatCount(best.steps(), "step") +
             (how.empty() ? "" : ", " + how);
    }
    lines.add(head,
              outcome.best ? describeSharding(*outcome.best)
                           : toString(outcome.sharding),
              tail);
  }
  return text + lines.format();
}

/// One sentence: how good the plan is, and what it leaves out.
static std::string formatVerdict(const ClusterView &cluster,
                                 const PlanReview &review) {
  const PlanCandidate &plan = review.plan;
  const PlanExplanation &explanation = review.explanation;
  char text[192];
  std::snprintf(text, sizeof(text),
                "verdict   %.4g s per iteration of %lld samples: %.4g "
                "samples/s, %.1f%% of the %.4g that all devices do on their "
                "own",
                plan.allocation.seconds,
                static_cast<long long>(plan.problem.globalBatch),
                explanation.throughput,
                100 * explanation.throughput / explanation.sumOfParts,
                explanation.sumOfParts);
  std::string verdict = text;
  for (size_t i = 0; i < cluster.types.size(); ++i) {
    const Allocation::TypeShares &share = plan.allocation.types[i];
    if (share.dropped == 0)
      continue;
    const std::optional<double> &more = explanation.whatIf[i].oneMore;
    verdict += "; left out: " + std::to_string(share.dropped) + " of " +
               std::to_string(plan.problem.types[i].count) + " '" +
               cluster.types[i].name + "'";
    if (!more)
      verdict += ", with which the job does not fit";
    else if (*more > plan.allocation.seconds)
      verdict +=
          ", with one more of which an iteration takes " + formatSeconds(*more);
    else
      verdict += ", of which one more changes nothing";
  }
  return verdict + "\n";
}

/// What is lost on the wire; nothing if nothing is.
static std::string formatWires(const LossyWires &wires) {
  if (!wires.any())
    return "";
  std::string text = "lossy     " + describeWires(wires) + " between nodes";
  if (wires.gradients)
    text += ", with error feedback";
  return text + ": --allow-lossy let the plan round them\n";
}

/// Where the state is held several times; nothing if it is not.
static std::string formatReplicas(const PlanReview &review) {
  auto replicas = static_cast<size_t>(review.plan.replicas);
  if (replicas == 1)
    return "";
  return "replicas  " + std::to_string(replicas) + " shard groups of " +
         std::to_string(review.ranks.size() / replicas) +
         " devices each hold all of the state: only gradients cross between "
         "groups, once an iteration\n";
}

/// What types recompute, and why.
static std::string formatRecompute(const ClusterView &cluster,
                                   const PlanReview &review) {
  std::string text;
  for (const PlanReview::Recompute &entry : review.recompute) {
    text += "recompute '" + cluster.types[entry.type].name +
            "': " + toString(entry.policy);
    if (entry.isFixed)
      text += ", which the user set";
    else if (entry.others.empty())
      text += ", of which alone there is a profile";
    for (const auto &[policy, seconds] : entry.others)
      text +=
          std::string("; ") + toString(policy) +
          (seconds
               ? " takes " + formatSeconds(*seconds) +
                     formatPercent(" (%+.2f%%)",
                                   *seconds / review.plan.allocation.seconds)
               : " does not fit");
    text += "\n";
  }
  return text;
}

std::string poplar::formatReview(const ClusterView &cluster,
                                 const PlanReview &review) {
  const PlanCandidate &plan = review.plan;
  std::string text =
      formatVerdict(cluster, review) + formatWires(plan.wires) +
      formatReplicas(review) +
      formatExplanation(plan.problem, plan.allocation, review.explanation);
  text +=
      "communication and update: " + formatSeconds(plan.problem.iterationSync) +
      " per iteration, " + formatSeconds(plan.problem.stepSync) + " per step\n";
  for (size_t i = 0; i < review.curves.size(); ++i)
    if (review.curves[i].isEstimate)
      text += "times of '" + cluster.types[i].name +
              "' are estimates, not measurements\n";
  text += formatRecompute(cluster, review) + formatMemory(cluster, review);
  text += formatCandidates(review);
  text += formatAlternatives(cluster, review);
  for (const std::string &advice : review.advice)
    text += "advice: " + advice + "\n";
  return text;
}
