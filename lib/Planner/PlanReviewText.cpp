//===- PlanReviewText.cpp - A review for people ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/PlanReview.h"
#include <cstdio>

using namespace poplar;

/// Significant digits that times are shown with.
static std::string formatSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g s", seconds);
  return text;
}

static std::string formatMiB(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", double(bytes) / (1 << 20));
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
      add("'" + name + "' " + candidate.recompute[i]);
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
    return line + formatMiB(rank.memory->fixed) + " + " +
           std::to_string(rank.share.largestStep()) + " x " +
           formatMiB(rank.memory->perSample) + " = " +
           formatMiB(rank.memory->peak) + " of " + formatMiB(type.memory) +
           " MiB";
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

std::string poplar::describePlan(const ClusterView &cluster,
                                 const PlanCandidate &candidate,
                                 const std::string &policy) {
  const Allocation &allocation = candidate.allocation;
  int64_t steps = allocation.steps();
  std::string text = "stage " + std::to_string(candidate.stage) + ", " +
                     toString(candidate.sharding) + ", " +
                     std::to_string(steps) + (steps > 1 ? " steps" : " step");
  if (steps > 1 && candidate.problem.sharesSteps())
    text += " of " + std::to_string(allocation.samplesPerStep());
  if (std::string how = describeCandidate(cluster, candidate); !how.empty())
    text += ", " + how;
  if (allocation.policy != policy)
    text += "; shares of " + allocation.policy;
  return text;
}

static std::string formatCandidates(const PlanReview &review) {
  if (review.candidates.empty())
    return "";
  std::string text = "plans that were simulated, and what that is to the "
                     "closed form:\n";
  for (const WrittenPlan::Candidate &candidate : review.candidates) {
    char gap[32];
    std::snprintf(gap, sizeof(gap), " (%+.1f%%)",
                  100 * (candidate.simulated / candidate.predicted - 1));
    text += "  " + formatSeconds(candidate.simulated) + gap + ": " +
            candidate.description + "\n";
  }
  return text;
}

static std::string formatAlternatives(const ClusterView &cluster,
                                      const PlanReview &review) {
  std::string text = "the best by stage and sharding of the state (";
  const Untried &untried = review.alternatives.untried;
  text += untried.any()
              ? "not all choices of " + untried.describe() + " were tried):\n"
              : "everything was tried):\n";
  for (const PlanOutcome &outcome : review.alternatives.outcomes) {
    text += "  stage " + std::to_string(outcome.stage) + ", " +
            toString(outcome.sharding) + ": ";
    if (!outcome.best) {
      text += "none, " + outcome.error + "\n";
      continue;
    }
    const Allocation &best = outcome.best->allocation;
    char percent[32];
    std::snprintf(percent, sizeof(percent), " (%+.2f%%)",
                  100 * (best.seconds / review.plan.allocation.seconds - 1));
    std::string how = describeCandidate(cluster, *outcome.best);
    text += formatSeconds(best.seconds) + percent + " in " +
            std::to_string(best.steps()) + " steps" +
            (how.empty() ? "" : ", " + how) + "\n";
  }
  return text;
}

std::string poplar::formatReview(const ClusterView &cluster,
                                 const PlanReview &review) {
  const PlanCandidate &plan = review.plan;
  std::string text =
      formatExplanation(plan.problem, plan.allocation, review.explanation);
  text +=
      "communication and update: " + formatSeconds(plan.problem.iterationSync) +
      " per iteration, " + formatSeconds(plan.problem.stepSync) + " per step\n";
  for (size_t i = 0; i < review.curves.size(); ++i)
    if (review.curves[i].isEstimate)
      text += "times of '" + cluster.types[i].name +
              "' are estimates, not measurements\n";
  text += formatMemory(cluster, review);
  text += formatCandidates(review);
  text += formatAlternatives(cluster, review);
  for (const std::string &advice : review.advice)
    text += "advice: " + advice + "\n";
  return text;
}
