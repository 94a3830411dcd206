//===- PlanJSON.cpp - A review as JSON ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/PlanReport.h"
#include "llvm/Support/JSON.h"

using namespace poplar;

namespace {

class Writer {
public:
  Writer(const ClusterView &cluster, const PlanReview &review,
         const Buildability &buildability, llvm::raw_ostream &stream)
      : cluster(cluster), review(review), buildability(buildability),
        os(stream, /*IndentSize=*/2) {}

  void write();

private:
  void writeRank(size_t index);
  void writeTypes();
  void writeWhatIf();
  void writeLeftOut(const PlanCandidate &candidate);
  void writeAlternative(const PlanOutcome &outcome);

  const ClusterView &cluster;
  const PlanReview &review;
  const Buildability &buildability;
  llvm::json::OStream os;
};

} // namespace

void Writer::writeRank(size_t index) {
  const PlanReview::Rank &rank = review.ranks[index];
  os.attribute("rank", static_cast<int64_t>(index));
  os.attribute("device_type", cluster.types[rank.type].name);
  os.attribute("node", cluster.nodes[rank.node].name);
  os.attribute("micro_batch", rank.share.microBatch);
  os.attribute("steps", rank.share.steps);
  os.attribute("last", rank.share.last);
  os.attribute("samples", rank.share.samples());
  os.attribute("state_share", rank.state);
  os.attribute("limited_by", toString(rank.limit));
  os.attribute("busy_seconds", rank.busy);
  os.attribute("waiting_seconds", rank.waiting);
  if (rank.memory)
    os.attributeObject("memory", [&] {
      os.attribute("fixed", rank.memory->fixed);
      os.attribute("per_sample", rank.memory->perSample);
      os.attribute("peak", rank.memory->peak);
      os.attribute("available", cluster.types[rank.type].memory);
    });
}

void Writer::writeTypes() {
  for (size_t i = 0; i < cluster.types.size(); ++i)
    os.object([&] {
      const auto &type = review.plan.problem.types[i];
      os.attribute("name", type.name);
      os.attribute("devices", type.count);
      os.attribute("precision", toString(cluster.types[i].precision));
      os.attribute("recompute", toString(review.plan.recompute[i]));
      const PlanReview::TypeCurve &curve = review.curves[i];
      if (curve.points.empty())
        return;
      os.attribute("largest_micro_batch", type.largestBatch);
      os.attributeObject("curve", [&] {
        os.attribute("estimate", curve.isEstimate);
        os.attributeArray("micro_batches", [&] {
          for (const Curve::Point &point : curve.points)
            os.value(point.batch);
        });
        os.attributeArray("seconds", [&] {
          for (const Curve::Point &point : curve.points)
            os.value(point.seconds);
        });
      });
    });
}

void Writer::writeWhatIf() {
  for (size_t i = 0; i < review.explanation.whatIf.size(); ++i)
    os.object([&] {
      const PlanExplanation::WhatIf &whatIf = review.explanation.whatIf[i];
      os.attribute("device_type", cluster.types[i].name);
      auto write = [&](const char *key, const std::optional<double> &seconds) {
        if (seconds)
          os.attribute(key, *seconds);
      };
      write("one_more_seconds", whatIf.oneMore);
      write("one_less_seconds", whatIf.oneLess);
      write("memory_for_one_more_sample_seconds", whatIf.moreMemory);
    });
}

void Writer::writeLeftOut(const PlanCandidate &candidate) {
  os.attributeObject("left_out", [&] {
    for (size_t i = 0; i < cluster.types.size(); ++i)
      if (int64_t dropped = candidate.allocation.types[i].dropped)
        os.attribute(cluster.types[i].name, dropped);
  });
}

void Writer::writeAlternative(const PlanOutcome &outcome) {
  os.attribute("stage", outcome.stage);
  os.attribute("sharding", toString(outcome.sharding));
  if (!outcome.best) {
    os.attribute("error", outcome.error);
    return;
  }
  os.attribute("seconds", outcome.best->allocation.seconds);
  os.attribute("replicas", outcome.best->replicas);
  os.attribute("steps", outcome.best->allocation.steps());
  writeLeftOut(*outcome.best);
  os.attributeObject("recompute", [&] {
    for (size_t i = 0; i < cluster.types.size(); ++i)
      os.attribute(cluster.types[i].name, toString(outcome.best->recompute[i]));
  });
}

void Writer::write() {
  const PlanCandidate &plan = review.plan;
  os.object([&] {
    os.attribute("stage", plan.stage);
    os.attribute("policy", plan.allocation.policy);
    os.attribute("sharding", toString(plan.sharding));
    os.attribute("replicas", plan.replicas);
    os.attribute("global_batch", plan.problem.globalBatch);
    os.attribute("steps", plan.allocation.steps());
    if (plan.wires.gradients)
      os.attribute("gradient_wire", toString(*plan.wires.gradients));
    if (plan.wires.parameters)
      os.attribute("parameter_wire", toString(*plan.wires.parameters));
    os.attribute("predicted_seconds", plan.allocation.seconds);
    if (review.simulated)
      os.attribute("simulated_seconds", *review.simulated);
    os.attribute("samples_per_second", review.explanation.throughput);
    os.attribute("sum_of_devices_samples_per_second",
                 review.explanation.sumOfParts);
    os.attribute("sync_seconds_per_iteration", plan.problem.iterationSync);
    os.attribute("sync_seconds_per_step", plan.problem.stepSync);
    os.attribute("hideable_sync_seconds",
                 plan.problem.forwardSync + plan.problem.backwardSync);
    os.attribute("hideable_last_sync_seconds", plan.problem.lastBackwardSync);
    os.attribute("collective_bytes_per_iteration", review.collectiveBytes);
    os.attributeArray("ranks", [&] {
      for (size_t i = 0; i < review.ranks.size(); ++i)
        os.object([&] { writeRank(i); });
    });
    writeLeftOut(plan);
    poplar::write(os, buildability);
    os.attributeArray("device_types", [&] { writeTypes(); });
    os.attributeArray("what_if", [&] { writeWhatIf(); });
    os.attributeArray("same_devices", [&] {
      for (const Allocation &other : review.explanation.bestPlans)
        os.object([&] {
          os.attribute("steps", other.steps());
          os.attribute("seconds", other.seconds);
        });
    });
    os.attributeArray("simulated", [&] {
      for (const Plan::Candidate &candidate : review.candidates)
        os.object([&] {
          os.attribute("plan", candidate.description);
          os.attribute("predicted_seconds", candidate.predicted);
          os.attribute("simulated_seconds", candidate.simulated);
          os.attribute("gap", candidate.simulated / candidate.predicted - 1);
        });
    });
    const Untried &untried = review.alternatives.untried;
    os.attribute("searched_everything", !untried.any());
    if (untried.any())
      os.attribute("not_searched", untried.describe());
    os.attributeArray("alternatives", [&] {
      for (const PlanOutcome &outcome : review.alternatives.outcomes)
        os.object([&] { writeAlternative(outcome); });
    });
    os.attributeArray("advice", [&] {
      for (const std::string &advice : review.advice)
        os.value(advice);
    });
  });
}

void poplar::write(llvm::json::OStream &os, const Buildability &buildability) {
  os.attribute("buildable", buildability.refusal.empty());
  if (!buildability.refusal.empty())
    os.attribute("not_buildable_because", buildability.refusal);
  os.attributeArray("unbuildable_devices", [&] {
    for (const UnbuildableDevices &devices : buildability.leftOut)
      os.object([&] {
        os.attribute("device_type", devices.type);
        os.attribute("count", devices.count);
        os.attribute("because", devices.reason);
      });
  });
}

std::string poplar::formatPlanJSON(const ClusterView &cluster,
                                   const PlanReview &review,
                                   const Buildability &buildability) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Writer(cluster, review, buildability, stream).write();
  return text + "\n";
}
