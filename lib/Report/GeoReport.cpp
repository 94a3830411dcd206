//===- GeoReport.cpp - A plan over distant devices, to be read ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Report/GeoReport.h"
#include "llvm/Support/FormatVariadic.h"

using namespace poplar;

using llvm::formatv;

/// Links that the text tells of; the JSON has all.
static constexpr size_t mostLinks = 16;

const char *GeoReport::getChoice() const {
  double least =
      std::min(simulation.seconds, hybridSeconds.value_or(simulation.seconds));
  if (pure.isFasterThan(least))
    return "zero";
  return least < simulation.seconds ? "hybrid" : "geo";
}

static size_t countRanks(const GeoReport &report) {
  size_t ranks = 0;
  for (const std::vector<int> &stage : report.search.plan->stages)
    for (int d : stage)
      ranks += report.cluster.ranks[d].size();
  return ranks;
}

/// Samples of a pipeline; the last one's last micro-batch may be smaller.
static int64_t getSamples(const GeoReport &report, size_t k) {
  const GeoPlan &plan = *report.search.plan;
  const GeoCluster &cluster = report.cluster;
  int64_t excess =
      cluster.problem.microBatches * cluster.microBatch - cluster.globalBatch;
  bool isLast = k + 1 == plan.pipelines();
  return plan.microBatches[k] * cluster.microBatch - (isLast ? excess : 0);
}

/// "0-3", "0-1 and 4".
static std::string formatRanks(const std::vector<int> &ranks) {
  std::string text;
  for (size_t first = 0; first < ranks.size();) {
    size_t end = first + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[first]);
    if (end > first + 1)
      text += "-" + std::to_string(ranks[end - 1]);
    first = end;
  }
  return text;
}

static std::string formatHead(const GeoReport &report) {
  const GeoPlan &plan = *report.search.plan;
  std::string text = formatv(
      "plan      geo, {0} samples an iteration on {1} of {2} devices: {3} "
      "stages x {4} pipelines, {5}, micro-batches of {6}\n",
      report.cluster.globalBatch, countRanks(report), report.numDevices,
      plan.stages.size(), plan.pipelines(), toString(plan.schedule),
      report.cluster.microBatch);
  text += formatWires(report.wires);
  text += formatv("          {0:f4} s simulated, {1:f4} s by the closed form",
                  report.simulation.seconds, plan.seconds);
  if (report.uncertainty > 0)
    text += formatv(" (estimate, +-{0:f0} %)", 100 * report.uncertainty);
  return text + formatv("; by the latter, none takes less than {0:f4} s\n",
                        report.search.lowerBound)
                    .str();
}

static std::string formatStages(const GeoReport &report) {
  const GeoPlan &plan = *report.search.plan;
  const GeoProblem &problem = report.cluster.problem;
  std::vector<std::vector<int>> modes = plan.getModes(problem);
  double percent = 100 / report.simulation.seconds;
  std::string text;
  for (size_t j = 0; j < plan.stages.size(); ++j) {
    text += formatv("  stage {0,2}  {1}: {2} units, ZeRO 1\n", j,
                    formatUnits(report.model, plan.cuts[j], plan.cuts[j + 1]),
                    plan.cuts[j + 1] - plan.cuts[j]);
    for (size_t k = 0; k < plan.pipelines(); ++k) {
      int d = plan.stages[j][k];
      const GeoProblem::Device &device = problem.devices[d];
      const PipelineSimulation::Stage &stage = report.simulation.lanes[k][j];
      text += formatv(
          "    pipeline {0,2}  {1,-16} {2,-16} ranks {3,-8} {4,-19} computes "
          "{5,5:f1} %, waits {6,5:f1} %, exchanges {7,5:f1} %\n",
          k, problem.nodes[device.node].name, report.typeNames[device.kind],
          formatRanks(report.cluster.ranks[d]),
          toString(problem.kinds[device.kind].modes[modes[j][k]].recompute),
          percent * stage.computing, percent * stage.waiting,
          percent * stage.syncing);
    }
  }
  text += "  micro-batches of the pipelines:";
  for (int64_t count : plan.microBatches)
    text += " " + std::to_string(count);
  return text + "\n";
}

static std::string formatLinks(const GeoReport &report) {
  const GeoProblem &problem = report.cluster.problem;
  size_t nodes = problem.nodes.size();
  std::string text =
      formatv("links     {0} of {1} between nodes are used; what less an "
              "iteration would take if one was free:\n",
              report.links.size(), nodes * (nodes - 1) / 2);
  for (size_t i = 0; i < report.links.size() && i < mostLinks; ++i) {
    const GeoLinkLoad &load = report.links[i];
    const LinkSpeed &link = problem.getLink(load.node, load.otherNode);
    std::string ends = problem.nodes[load.node].name + " - " +
                       problem.nodes[load.otherNode].name;
    text +=
        formatv("    {0,-32} {1,7:f1} ms, {2,8:f3} GB/s  activations "
                "{3,8:f3} GB, gradients {4,8:f3} GB: {5:f4} s ({6:f1} %)\n",
                ends, 1e3 * link.latency, 1e-9 * link.bandwidth,
                1e-9 * load.activationBytes, 1e-9 * load.gradientBytes,
                load.seconds, 100 * load.seconds / report.simulation.seconds);
  }
  return text;
}

std::string poplar::formatGeoText(const GeoReport &report) {
  std::string text =
      formatHead(report) + formatStages(report) + formatLinks(report);
  double seconds = report.simulation.seconds;
  if (report.hybridSeconds)
    text += formatv("hybrid    {0:f4} s simulated, {1:f2} x this plan's time\n",
                    *report.hybridSeconds, *report.hybridSeconds / seconds);
  else
    text += "hybrid    " + report.hybridError + "\n";
  if (report.pure.seconds)
    text +=
        formatv("ZeRO      {0:f4} s simulated without pipelines, stage {1}, "
                "{2:f2} x this plan's time\n",
                report.pure.simulatedSeconds, report.pure.stage,
                report.pure.simulatedSeconds / seconds);
  else
    text += "ZeRO      " + report.pure.error + "\n";
  llvm::StringRef choice = report.getChoice();
  if (choice == "geo")
    text += "this plan is the fastest of the three\n";
  else
    text += "advice: --policy " + (choice == "zero" ? "exact" : choice.str()) +
            ", which is faster\n";
  return text + format(report.buildability);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// As that of a hybrid plan, where each pipeline is a lane.
static void writeGroup(llvm::json::OStream &os, const GeoReport &report,
                       const std::vector<int> &modes, size_t j) {
  const GeoPlan &plan = *report.search.plan;
  const GeoCluster &cluster = report.cluster;
  os.attributeArray("units", [&] {
    os.value(plan.cuts[j]);
    os.value(plan.cuts[j + 1]);
  });
  os.attribute("names",
               formatUnits(report.model, plan.cuts[j], plan.cuts[j + 1]));
  os.attribute("zero_stage", 1);
  os.attributeArray("lanes", [&] {
    for (size_t k = 0; k < plan.pipelines(); ++k)
      os.object([&] {
        int d = plan.stages[j][k];
        const GeoProblem::Device &device = cluster.problem.devices[d];
        const GeoProblem::Kind &kind = cluster.problem.kinds[device.kind];
        const PipelineSimulation::Stage &stage = report.simulation.lanes[k][j];
        os.attribute("device_type", report.typeNames[device.kind]);
        os.attribute("node", cluster.problem.nodes[device.node].name);
        os.attribute("pipelines", 1);
        os.attribute("tensor_degree", cluster.tensorDegrees[device.kind]);
        os.attribute("recompute", toString(kind.modes[modes[k]].recompute));
        os.attribute("micro_batch", cluster.microBatch);
        os.attribute("micro_batches", plan.microBatches[k]);
        os.attribute("samples", getSamples(report, k));
        os.attribute("computing_seconds", stage.computing);
        os.attribute("waiting_seconds", stage.waiting);
        os.attribute("exchanging_seconds", stage.syncing);
        os.attributeArray("ranks", [&] {
          for (int rank : cluster.ranks[d])
            os.value(rank);
        });
      });
  });
}

static void writeLink(llvm::json::OStream &os, const GeoProblem &problem,
                      const GeoLinkLoad &load) {
  const LinkSpeed &link = problem.getLink(load.node, load.otherNode);
  os.attributeArray("between", [&] {
    os.value(problem.nodes[load.node].name);
    os.value(problem.nodes[load.otherNode].name);
  });
  os.attribute("latency", link.latency);
  os.attribute("bandwidth", link.bandwidth);
  os.attribute("activation_bytes", load.activationBytes);
  os.attribute("gradient_bytes", load.gradientBytes);
  os.attribute("seconds_if_free", load.seconds);
}

std::string poplar::formatGeoJSON(const GeoReport &report) {
  const GeoPlan &plan = *report.search.plan;
  std::vector<std::vector<int>> modes = plan.getModes(report.cluster.problem);
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream os(stream, /*IndentSize=*/2);
  os.object([&] {
    writeOutcome(os, "geo", report.cluster.globalBatch, report);
    os.attribute("schedule", toString(plan.schedule));
    os.attributeArray("groups", [&] {
      for (size_t j = 0; j < plan.stages.size(); ++j)
        os.object([&] { writeGroup(os, report, modes[j], j); });
    });
    os.attributeArray("links", [&] {
      for (const GeoLinkLoad &load : report.links)
        os.object([&] { writeLink(os, report.cluster.problem, load); });
    });
    os.attribute("samples_per_second",
                 static_cast<double>(report.cluster.globalBatch) /
                     report.simulation.seconds);
    os.attribute("choice", report.getChoice());
    os.attributeObject("hybrid", [&] {
      if (report.hybridSeconds)
        os.attribute(report.isPlayed ? "simulated_seconds"
                                     : "simulated_from_costs_seconds",
                     *report.hybridSeconds);
      else
        os.attribute("error", report.hybridError);
    });
    os.attributeObject("without_pipelines",
                       [&] { writeZeroAlone(os, report.pure); });
  });
  stream << "\n";
  return text;
}
