//===- PlaceCommand.cpp - poplar place ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Poplar/Import/Network.h"
#include "Poplar/Planner/PlacementSearch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

using namespace poplar;

namespace {
struct Arguments {
  std::string network, scenario, output;
  int stages = 0;
};
} // namespace

static std::string formatNumber(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

static std::string formatJSON(const Placement &placement, double bound) {
  std::string text = "{\n  \"stages\": [\n";
  for (size_t j = 0; j < placement.stages.size(); ++j) {
    text += j ? ",\n    [" : "    [";
    for (size_t k = 0; k < placement.stages[j].size(); ++k)
      text += (k ? ", " : "") + std::to_string(placement.stages[j][k]);
    text += "]";
  }
  text += "\n  ],\n  \"cost\": {\n    \"data_parallel_seconds\": " +
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

void addPlaceCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "place", "Place pipeline stages on the devices of a slow network");
  command->footer(
      "Networks and the cost are described in docs/placement.md.\n\n"
      "Example:\n  poplar place --network examples/networks/worldwide.json "
      "--stages 8 --out placement.json");
  auto args = std::make_shared<Arguments>();
  command
      ->add_option("--network", args->network,
                   "Delays and bandwidths between devices")
      ->type_name("JSON")
      ->required();
  command
      ->add_option("--scenario", args->scenario,
                   "Which one, of a file with several")
      ->type_name("NAME");
  command
      ->add_option("--stages", args->stages,
                   "Pipeline stages; each has an equal share of the devices")
      ->type_name("N")
      ->required();
  command
      ->add_option("-o,--out", args->output,
                   "The placement, as JSON; - for standard output")
      ->type_name("JSON")
      ->required();
  command->callback([args, &status] {
    std::string error;
    std::optional<PlacementProblem> problem =
        readNetwork(args->network, args->scenario, args->stages, error);
    if (!problem) {
      status = reportError(error);
      return;
    }
    Placement placement = searchPlacement(*problem);
    double bound = boundPlacement(*problem);
    if (!writeFile(args->output, formatJSON(placement, bound)))
      status = 1;
    else if (args->output != "-")
      llvm::outs() << formatSummary(*problem, placement, bound);
  });
}
