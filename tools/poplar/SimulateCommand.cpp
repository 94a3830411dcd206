//===- SimulateCommand.cpp - poplar simulate ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuildOptions.h"
#include "Commands.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Driver/Simulated.h"
#include "Poplar/Support/Text.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace poplar;

namespace {
struct Arguments {
  std::string plan, trace, json;
  SimulationOptions simulation;
  OverlapOptions overlap;
};
} // namespace

/// What a rank spends most of its time with.
static const char *getBinding(const Simulation::ClassSeconds &seconds) {
  if (seconds.computing >= std::max(seconds.waiting, seconds.exposed))
    return "computation";
  return seconds.exposed >= seconds.waiting ? "communication" : "other ranks";
}

/// "+1.2 %"
static std::string formatGap(double simulated, double predicted) {
  double percent = 100 * (simulated / predicted - 1);
  return llvm::formatv("{0}{1:f1} %", percent < -0.05 ? "" : "+",
                       percent < -0.05 ? percent : std::abs(percent));
}

static std::string formatText(const PlanSimulation &plan,
                              const Simulation &result) {
  std::string text = llvm::formatv(
      "simulated stage {0}, {1} samples an iteration, policy {2}{3}\n"
      "          {4:f4} s an iteration, {5:f1} samples/s\n",
      plan.stage, plan.globalBatch, plan.policy,
      plan.usesEstimates ? ", from estimated profiles" : "", result.seconds,
      double(plan.globalBatch) / result.seconds);
  if (plan.predictedSeconds)
    text += llvm::formatv("          {0:f4} s by the closed form of the plan; "
                          "simulated: {1}\n",
                          *plan.predictedSeconds,
                          formatGap(result.seconds, *plan.predictedSeconds));
  text += "          of an iteration      computes     waits   exposed    "
          "hidden  bound by\n";
  for (auto [index, seconds] : llvm::enumerate(result.classes)) {
    const PlanSimulation::RankClass &ranks = plan.classes[index];
    text += llvm::formatv(
        "  {0}: micro-batch {1}, {2}\n"
        "{3,31}{4,8:f1} %{5,8:f1} %{6,8:f1} %{7,8:f1} %  {8}\n",
        plan.problem.classes[index].name, ranks.share.microBatch,
        formatSteps(ranks.share.steps, ranks.share.last), "",
        100 * seconds.computing / result.seconds,
        100 * std::max(seconds.waiting, 0.0) / result.seconds, // rounding
        100 * seconds.exposed / result.seconds,
        100 * seconds.hidden / result.seconds, getBinding(seconds));
  }
  return text;
}

static std::string formatJSON(const PlanSimulation &plan,
                              const Simulation &result) {
  llvm::json::Array classes;
  for (auto [index, seconds] : llvm::enumerate(result.classes)) {
    const PlanSimulation::RankClass &ranks = plan.classes[index];
    CarriedBytes bytes = countBytes(plan.problem, plan.problem.classes[index]);
    llvm::json::Object it{{"device_type", ranks.deviceType},
                          {"ranks", llvm::json::Array(ranks.ranks)},
                          {"micro_batch", ranks.share.microBatch},
                          {"steps", ranks.share.steps},
                          {"last", ranks.share.last},
                          {"computing_seconds", seconds.computing},
                          {"waiting_seconds", seconds.waiting},
                          {"exposed_seconds", seconds.exposed},
                          {"hidden_seconds", seconds.hidden},
                          {"collective_bytes", bytes.collectives},
                          {"message_bytes", bytes.messages},
                          {"bound_by", getBinding(seconds)}};
    if (!plan.isWhole)
      it["group"] = ranks.group;
    classes.push_back(std::move(it));
  }
  llvm::json::Object object{{"stage", plan.stage},
                            {"global_batch", plan.globalBatch},
                            {"policy", plan.policy},
                            {"estimated_profiles", plan.usesEstimates},
                            {"simulated_seconds", result.seconds},
                            {"rank_classes", std::move(classes)}};
  if (plan.predictedSeconds)
    object["predicted_seconds"] = *plan.predictedSeconds;
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(object)));
}

/// False, with an error said or in `compilation`.
static bool run(Compilation &compilation, const Arguments &args) {
  if (!compilation.load(args.plan))
    return false;
  if (compilation.getModule().getOps<zero::PlanOp>().empty()) {
    compilation.error =
        args.plan + ": holds no zero.plan; make one with poplar plan -o";
    return false;
  }
  std::optional<PlanSimulation> plan =
      readSimulation(compilation, compilation.getModule(), args.overlap);
  if (!plan)
    return false;
  std::optional<Simulation> result =
      simulate(plan->problem, args.simulation, compilation.error);
  if (!result)
    return false;
  std::vector<std::pair<std::string, std::string>> files;
  if (!args.trace.empty())
    files.emplace_back(
        args.trace,
        formatChromeTrace(result->timeline, args.plan + ", simulated"));
  if (!args.json.empty())
    files.emplace_back(args.json, formatJSON(*plan, *result));
  if (!writeFiles(files, compilation.error))
    return false;
  if (args.json != "-" && args.trace != "-")
    llvm::outs() << formatText(*plan, *result);
  return true;
}

void addSimulateCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "simulate", "Predict the time of an iteration of a plan, event by event");
  command->footer(
      "Schedules the programs of the plan as poplar build does. Times of "
      "computation come\nfrom the profiles in the plan, times of collectives "
      "from the links.\nhttps://ui.perfetto.dev shows the trace.\n\nExample:\n "
      " poplar simulate plan.mlir --trace trace.json");
  auto args = std::make_shared<Arguments>();
  command->add_option("plan", args->plan, "Plan, from poplar plan -o")
      ->type_name("PLAN_MLIR")
      ->required();
  command
      ->add_option("--trace", args->trace,
                   "File for the timelines, in Chrome's trace format; - for "
                   "standard output")
      ->type_name("JSON");
  command
      ->add_option("--json", args->json,
                   "File for the figures; - for standard output")
      ->type_name("JSON");
  command
      ->add_option("--iterations", args->simulation.iterations,
                   "Number of consecutive iterations to simulate")
      ->check(CLI::Range(1, 1000));
  addScheduleOptions(command, args->overlap);
  command->callback([args, command, &status] {
    if (std::string error = explainIdleScheduleOption(*command);
        !error.empty()) {
      status = reportError(error);
      return;
    }
    args->simulation.recordsTimeline = !args->trace.empty();
    Compilation compilation;
    if (run(compilation, *args))
      return;
    status = 1;
    if (!compilation.error.empty())
      reportError(compilation.error);
  });
}
