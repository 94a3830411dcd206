//===- PlaceCommand.cpp - poplar place ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Poplar/Import/Network.h"
#include "Poplar/Planner/Geo/GeoSearch.h"
#include "Poplar/Planner/Placement/PlacementSearch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

using namespace poplar;

namespace {
struct Arguments {
  std::string network, scenario, output, stages;
};
} // namespace

static std::string formatNumber(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

template <typename T>
static std::string formatList(const std::vector<T> &list) {
  std::string text;
  for (T value : list)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

static std::string formatStages(const std::vector<std::vector<int>> &stages) {
  std::string text = "  \"stages\": [\n";
  for (size_t j = 0; j < stages.size(); ++j)
    text += (j ? ",\n    " : "    ") + formatList(stages[j]);
  return text + "\n  ],\n";
}

static std::string formatJSON(const Placement &placement, double bound) {
  std::string text = "{\n" + formatStages(placement.stages);
  text += "  \"cost\": {\n    \"data_parallel_seconds\": " +
          formatNumber(placement.dataParallel) +
          ",\n    \"pipeline_seconds\": " + formatNumber(placement.pipeline) +
          ",\n    \"total_seconds\": " + formatNumber(placement.seconds()) +
          ",\n    \"lower_bound_seconds\": " + formatNumber(bound) +
          "\n  }\n}\n";
  return text;
}

static std::string formatSummary(const PlacementProblem &problem,
                                 const Placement &placement, double bound) {
  double gap = placement.seconds() > 0 ? 1 - bound / placement.seconds() : 0;
  // The bound is rounded down, to be safe.
  std::string quality = gap < 1e-9
                            ? std::string("the least there is")
                            : llvm::formatv("at most {0:f1} % above the least",
                                            gap / (1 - gap) * 100)
                                  .str();
  return llvm::formatv("placement {0} devices: {1} stages x {2} pipelines\n"
                       "  {3,-16} {4,10:f4} s an iteration, estimate\n"
                       "  {5,-16} {6,10:f4} s\n"
                       "  {7,-16} {8,10:f4} s\n"
                       "  {9,-16} {10,10:f4} s, so this is {11}\n",
                       problem.devices, problem.stages, problem.pipelines(),
                       "total", placement.seconds(), "data parallel",
                       placement.dataParallel, "pipeline", placement.pipeline,
                       "lower bound", bound, quality)
      .str();
}

/// The layers of each stage.
static std::vector<int> getLayers(const GeoPlan &plan) {
  std::vector<int> layers;
  for (size_t j = 0; j < plan.stages.size(); ++j)
    layers.push_back(plan.cuts[j + 1] - plan.cuts[j]);
  return layers;
}

static std::string formatJSON(const GeoPlan &plan, double simulated,
                              double bound) {
  return std::string("{\n  \"schedule\": \"") + toString(plan.schedule) +
         "\",\n" + formatStages(plan.stages) +
         "  \"layers\": " + formatList(getLayers(plan)) +
         ",\n  \"micro_batches\": " + formatList(plan.microBatches) +
         ",\n  \"cost\": {\n    \"total_seconds\": " +
         formatNumber(plan.seconds) +
         ",\n    \"simulated_from_costs_seconds\": " + formatNumber(simulated) +
         ",\n    \"lower_bound_seconds\": " + formatNumber(bound) +
         "\n  }\n}\n";
}

static std::string formatSummary(const GeoProblem &problem, const GeoPlan &plan,
                                 double simulated, double bound) {
  return llvm::formatv(
             "placement {0} of {1} devices: {2} stages x {3} pipelines, {4}\n"
             "  {5,-16} {6,10:f4} s an iteration, estimate\n"
             "  {7,-16} {8,10:f4} s\n"
             "  {9,-16} {10,10:f4} s\n"
             "  {11,-16} {12} of the stages\n"
             "  {13,-16} {14} of the pipelines\n",
             plan.stages.size() * plan.pipelines(), problem.devices.size(),
             plan.stages.size(), plan.pipelines(), toString(plan.schedule),
             "total", plan.seconds, "simulated", simulated, "lower bound",
             bound, "layers", formatList(getLayers(plan)), "micro-batches",
             formatList(plan.microBatches))
      .str();
}

/// The JSON, and a summary of it; empty, with `error` set, if there is none.
static std::pair<std::string, std::string>
place(const PlacementProblem &problem, std::string &) {
  Placement placement = searchPlacement(problem);
  double bound = boundPlacement(problem);
  return {formatJSON(placement, bound),
          formatSummary(problem, placement, bound)};
}

static std::pair<std::string, std::string> place(const GeoProblem &problem,
                                                 std::string &error) {
  GeoSearchResult result = searchGeoPlan(problem);
  if (!result.plan) {
    error = result.error;
    return {};
  }
  double simulated = simulateGeoPlan(problem, *result.plan).seconds;
  return {formatJSON(*result.plan, simulated, result.lowerBound),
          formatSummary(problem, *result.plan, simulated, result.lowerBound)};
}

void addPlaceCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "place", "Place pipeline stages on the devices of a slow network");
  command->footer(
      "docs/placement.md describes networks and the cost.\n\nExamples:\n  "
      "poplar place --network examples/networks/worldwide.json --stages 8 "
      "--out placement.json\n  poplar place --network "
      "examples/networks/unlike.json --stages auto --out placement.json");
  auto args = std::make_shared<Arguments>();
  command
      ->add_option("--network", args->network,
                   "Network: delays and bandwidths between devices")
      ->type_name("JSON")
      ->required();
  command
      ->add_option("--scenario", args->scenario,
                   "Scenario to use, if the file has several")
      ->type_name("NAME");
  command
      ->add_option("--stages", args->stages,
                   "Number of pipeline stages; auto chooses it, if the network "
                   "says how fast its devices are")
      ->type_name("N|auto")
      ->check(CLI::Number | CLI::IsMember({"auto"}))
      ->required();
  command
      ->add_option("-o,--out", args->output,
                   "File for the placement, as JSON; - for standard output")
      ->type_name("JSON")
      ->required();
  command->callback([args, &status] {
    std::string error;
    std::optional<int> stages;
    if (args->stages != "auto" &&
        !CLI::detail::lexical_cast(args->stages, stages.emplace())) {
      status = reportError("--stages expects a whole number or auto, not '" +
                           args->stages + "'");
      return;
    }
    std::optional<NetworkProblem> network =
        readNetwork(args->network, args->scenario, stages, error);
    std::pair<std::string, std::string> text;
    if (network)
      text = std::visit(
          [&](const auto &problem) { return place(problem, error); }, *network);
    if (!error.empty()) {
      status = reportError(error);
      return;
    }
    if (!writeFile(args->output, text.first))
      status = 1;
    else if (args->output != "-")
      llvm::outs() << text.second;
  });
}
