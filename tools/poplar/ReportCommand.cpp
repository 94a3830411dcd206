//===- ReportCommand.cpp - poplar report ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Driver/Compilation.h"
#include "Poplar/Driver/Review.h"
#include "Poplar/Driver/Simulated.h"
#include "Poplar/Report/PlanReport.h"
#include "Poplar/Report/PlanText.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace poplar;

namespace {
struct Arguments {
  std::string input, output;
};
} // namespace

namespace {
struct SimulatedPlan {
  PlanSimulation plan;
  Simulation result;
};
} // namespace

/// Simulates the plan of the module, which is scheduled for it.
static std::optional<SimulatedPlan> simulatePlan(Compilation &compilation) {
  std::optional<PlanSimulation> plan =
      readSimulation(compilation, OverlapOptions());
  if (!plan)
    return std::nullopt;
  SimulationOptions options;
  options.recordsTimeline = true;
  auto result = simulate(plan->problem, options, compilation.error);
  if (!result)
    return std::nullopt;
  return SimulatedPlan{std::move(*plan), std::move(*result)};
}

/// Adds the plan of the module, simulated.
static bool addTimeline(Compilation &compilation, ReportInput &report) {
  std::optional<SimulatedPlan> simulated = simulatePlan(compilation);
  if (!simulated)
    return false;
  report.simulated = {std::move(simulated->result.timeline), 1};
  for (const PlanSimulation::RankClass &ranks : simulated->plan.classes)
    report.simulated->steps =
        std::max(report.simulated->steps, ranks.share.steps);
  return true;
}

/// Adds a plan of pipeline stages: it is simulated, and has no review.
static bool addStages(zero::PlanOp op, Compilation &compilation,
                      ReportInput &report) {
  StagedPlan stages;
  stages.schedule = zero::stringifyPlanSchedule(*op.getSchedule()).str();
  stages.policy = op.getPolicy().str();
  stages.globalBatch = int64_t(op.getGlobalBatch());
  // Scheduling moves the groups into the programs.
  std::vector<StagedPlan::Part> groups(op.getGroups().size());
  for (auto [index, group] : llvm::enumerate(op.getGroups())) {
    groups[index].group = int64_t(index);
    groups[index].zeroStage = int64_t(zero::GroupOp(group).getStage());
    groups[index].units = formatUnits(group);
  }
  std::optional<SimulatedPlan> simulated = simulatePlan(compilation);
  if (!simulated)
    return false;
  for (auto [ranks, seconds] :
       llvm::zip(simulated->plan.classes, simulated->result.classes)) {
    StagedPlan::Part part = groups[*ranks.group];
    part.ranks = formatRanks(ranks.ranks);
    part.deviceType = ranks.deviceType;
    part.share = ranks.share;
    part.seconds = seconds;
    stages.parts.push_back(std::move(part));
  }
  llvm::stable_sort(stages.parts, [](const auto &a, const auto &b) {
    return a.group < b.group;
  });
  report.stages = std::move(stages);
  report.simulated = {std::move(simulated->result.timeline), 1};
  return true;
}

/// Adds the plan of a file and its review.
static bool addPlan(const std::string &path, Compilation &compilation,
                    ReportInput &report) {
  if (!compilation.load(path))
    return false;
  mlir::ModuleOp module = compilation.getModule();
  auto model = module->getAttrOfType<mlir::DictionaryAttr>(nn::kModelAttr);
  if (auto length = model ? model.getAs<mlir::IntegerAttr>("seq_len") : nullptr)
    report.tokensPerSample = length.getInt();
  auto plans = module.getOps<zero::PlanOp>();
  if (!plans.empty() && !zero::PlanOp(*plans.begin()).getGroups().empty())
    return addStages(*plans.begin(), compilation, report);
  auto reviewed = reviewModule(module, compilation.error);
  if (!reviewed) {
    compilation.error = path + ": " + compilation.error;
    return false;
  }
  report.cluster = std::move(reviewed->cluster);
  report.review = std::move(reviewed->review);
  if (!addTimeline(compilation, report))
    report.note = "There is no timeline. " + compilation.error;
  return true;
}

/// Adds what a directory of poplar train holds.
static bool addRun(const std::string &run, Compilation &compilation,
                   ReportInput &report) {
  std::string metrics = run + "/metrics.csv", plan = run + "/plan.mlir";
  auto file = llvm::MemoryBuffer::getFile(metrics);
  if (!file) {
    compilation.error = run + ": is not a run of poplar train: metrics.csv: " +
                        file.getError().message();
    return false;
  }
  auto steps = readMetrics((*file)->getBuffer().str(), compilation.error);
  if (!steps) {
    compilation.error = metrics + ":" + compilation.error;
    return false;
  }
  report.run = std::move(*steps);
  if (!llvm::sys::fs::exists(plan))
    report.note = "This run was of one device, without a plan.";
  else if (!addPlan(plan, compilation, report))
    // Plans by hand may have no cluster or no profiles; what was measured is
    // there all the same.
    report.note = "The plan is not shown. " + compilation.error;
  return true;
}

void addReportCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "report", "Draw a plan, or a run and its plan, on an HTML page");
  command->footer("The page needs no other file and no network.\n\nExamples:\n "
                  " poplar report plan.mlir -o report.html\n  poplar report "
                  "runs/demo -o report.html");
  auto args = std::make_shared<Arguments>();
  command
      ->add_option(
          "input", args->input,
          "Plan (from poplar plan) or run (directory of poplar train --out)")
      ->type_name("RUN|PLAN_MLIR")
      ->required();
  command
      ->add_option("-o,--output", args->output,
                   "File for the page; - for standard output")
      ->type_name("HTML")
      ->required();
  command->callback([args, &status] {
    Compilation compilation;
    ReportInput report;
    report.name = args->input;
    bool isRun = llvm::sys::fs::is_directory(args->input);
    if (!(isRun ? addRun : addPlan)(args->input, compilation, report)) {
      status = reportError(compilation.error);
      return;
    }
    // What goes wrong here is reported already.
    status = writeFile(args->output, formatReportPage(report)) ? 0 : 1;
  });
}
