//===- ReportCommand.cpp - poplar report ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Driver/Baselines.h"
#include "Poplar/Driver/Compilation.h"
#include "Poplar/Driver/HybridPlanning.h"
#include "Poplar/Driver/Review.h"
#include "Poplar/Driver/Simulated.h"
#include "Poplar/Report/PlanReport.h"
#include "Poplar/Report/PlanText.h"
#include "Poplar/Transforms/Plan/Buildable.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace poplar;

namespace {
struct Arguments {
  std::string input, output, trace;
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
      readSimulation(compilation, compilation.getModule(), OverlapOptions());
  if (!plan)
    return std::nullopt;
  SimulationOptions options;
  options.recordsTimeline = true;
  auto result = simulate(plan->problem, options, compilation.error);
  if (!result)
    return std::nullopt;
  return SimulatedPlan{std::move(*plan), std::move(*result)};
}

/// Names the classes of a timeline.
static SimulatedIteration takeIteration(SimulatedPlan &simulated) {
  SimulatedIteration iteration = {std::move(simulated.result.timeline), {}, 1};
  for (const PlanSimulation::RankClass &it : simulated.plan.classes)
    iteration.classes.push_back({it.deviceType, formatRanks(it.ranks)});
  return iteration;
}

/// Adds the plan of the module, simulated.
static bool addTimeline(Compilation &compilation, ReportInput &report) {
  std::optional<SimulatedPlan> simulated = simulatePlan(compilation);
  if (!simulated)
    return false;
  report.simulated = takeIteration(*simulated);
  for (const PlanSimulation::RankClass &ranks : simulated->plan.classes)
    report.simulated->steps =
        std::max(report.simulated->steps, ranks.share.steps);
  report.isEstimate = simulated->plan.usesEstimates;
  return true;
}

/// The ranks of the stages, those that are alike together, without a
/// simulation.
static std::vector<StagedPlan::Part> listParts(zero::PlanOp op) {
  Plan plan = zero::readPlan(op);
  std::vector<StagedPlan::Part> parts;
  std::vector<std::vector<int64_t>> ranks;
  for (auto [index, rank] : llvm::enumerate(plan.ranks)) {
    auto isAlike = [&](const StagedPlan::Part &part) {
      return part.group == rank.group && part.deviceType == rank.type &&
             part.share == rank.share;
    };
    size_t place = llvm::find_if(parts, isAlike) - parts.begin();
    if (place == parts.size()) {
      zero::GroupOp group = op.getGroups()[rank.group];
      int64_t units = 0;
      for (int64_t chunk = 0; chunk < group.getNumChunks(); ++chunk)
        units += group.getEnd(chunk) - group.getFirst(chunk);
      parts.push_back({rank.group, int64_t(group.getStage()), units,
                       formatUnits(group), "", rank.type, 0, rank.share,
                       std::nullopt});
      ranks.emplace_back();
    }
    ranks[place].push_back(int64_t(index));
  }
  for (auto [part, of] : llvm::zip(parts, ranks)) {
    part.ranks = formatRanks(of);
    part.numRanks = int64_t(of.size());
  }
  return parts;
}

/// The iteration of a plan that cannot be built.
static bool addHypothetical(Compilation &compilation, ReportInput &report) {
  std::optional<Timeline> timeline = playHypothetical(compilation);
  if (!timeline)
    return false;
  report.simulated = {std::move(*timeline), {}, 1};
  for (const Timeline::RankClass &it : report.simulated->timeline.classes) {
    auto [type, name] = llvm::StringRef(it.name).split(", ");
    report.simulated->classes.push_back({type.str(), name.str()});
  }
  return true;
}

/// Adds a plan of pipeline stages: it is simulated, and has no review.
static bool addStages(zero::PlanOp op, Compilation &compilation,
                      ReportInput &report) {
  report.stages.emplace();
  StagedPlan &stages = *report.stages;
  stages.schedule = op.getSchedule();
  stages.policy = op.getPolicy().str();
  stages.globalBatch = int64_t(op.getGlobalBatch());
  stages.parts = listParts(op);
  std::string refusal = explainUnbuildable(compilation.getModule());
  if (!refusal.empty()) {
    report.isEstimate = true;
    if (!addHypothetical(compilation, report))
      report.note = "There is no timeline: " + compilation.error;
    return true;
  }
  // Scheduling moves the groups into the programs.
  std::map<int64_t, StagedPlan::Part> groups;
  for (const StagedPlan::Part &part : stages.parts)
    groups.try_emplace(part.group, part);
  std::optional<SimulatedPlan> simulated = simulatePlan(compilation);
  if (!simulated)
    return false;
  stages.parts.clear();
  for (auto [ranks, seconds] :
       llvm::zip(simulated->plan.classes, simulated->result.classes)) {
    StagedPlan::Part part = groups.at(ranks.group);
    part.ranks = formatRanks(ranks.ranks);
    part.numRanks = int64_t(ranks.ranks.size());
    part.deviceType = ranks.deviceType;
    part.share = ranks.share;
    part.seconds = seconds;
    stages.parts.push_back(std::move(part));
  }
  llvm::stable_sort(stages.parts, [](const auto &a, const auto &b) {
    return a.group < b.group;
  });
  report.simulated = takeIteration(*simulated);
  report.isEstimate = simulated->plan.usesEstimates;
  return true;
}

static ReportModel readModel(mlir::ModuleOp module) {
  nn::Model facts = nn::Model::of(module);
  ReportModel model;
  model.architecture = facts.getArchitecture().value_or("");
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    int64_t elements =
        llvm::cast<mlir::ShapedType>(parameter.getType()).getNumElements();
    model.parameters += elements;
    model.trained += parameter.getFrozen() ? 0 : elements;
  }
  model.layers = facts.getNumLayers().value_or(0);
  model.hidden = facts.getHiddenSize().value_or(0);
  model.vocabulary = facts.getVocabSize().value_or(0);
  model.context = facts.getSeqLen().value_or(0);
  return model;
}

/// Devices that the ranks of a plan are on, by node and type.
static std::map<std::pair<int, int>, int64_t>
countUsed(const ClusterView &cluster, zero::PlanOp plan) {
  std::map<std::string, int> nodes;
  for (auto [index, node] : llvm::enumerate(cluster.nodes))
    nodes[node.name] = static_cast<int>(index);
  std::map<std::pair<int, int>, int64_t> used;
  for (zero::RankOp rank : plan.getRanks()) {
    auto node = nodes.find(rank.getNode().str());
    std::optional<int> type = cluster.findType(rank.getDeviceType().str());
    if (node != nodes.end() && type)
      ++used[{node->second, *type}];
  }
  return used;
}

/// Adds the plan of a file and its review.
static bool addPlan(const std::string &path, Compilation &compilation,
                    ReportInput &report) {
  if (!compilation.load(path))
    return false;
  mlir::ModuleOp module = compilation.getModule();
  if (nn::Model::of(module))
    report.model = readModel(module);
  auto plans = module.getOps<zero::PlanOp>();
  report.hasPlan = !plans.empty();
  bool hasStages = report.hasPlan && !zero::readPlan(*plans.begin()).isWhole();
  if (!hasStages) {
    auto reviewed = reviewModule(module, compilation.error);
    if (!reviewed) {
      compilation.error = path + ": " + compilation.error;
      return false;
    }
    report.review = std::move(reviewed->review);
  }
  report.cluster = cluster::buildClusterView(module);
  report.used = countUsed(report.cluster, *plans.begin());
  report.frontier = zero::readPlan(*plans.begin()).frontier;
  if (!simulateBaselines(compilation, report.baselines))
    return false;
  if (hasStages)
    return addStages(*plans.begin(), compilation, report);
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
    compilation.error =
        llvm::sys::fs::exists(run + "/state.json")
            ? run + ": is a checkpoint; give the run that it lies in"
            : run + ": is not a run of poplar train: metrics.csv: " +
                  file.getError().message();
    return false;
  }
  auto steps = readMetrics((*file)->getBuffer().str(), compilation.error);
  if (!steps) {
    compilation.error = metrics + ":" + compilation.error;
    return false;
  }
  report.isRun = true;
  report.run = std::move(*steps);
  if (!llvm::sys::fs::exists(plan)) {
    report.note = "The run does not say what was trained.";
  } else if (!addPlan(plan, compilation, report)) {
    // Plans by hand may have no cluster or no profiles; what was measured is
    // there all the same.
    report.note = report.model && !report.hasPlan
                      ? "This run was of one device, without a plan."
                      : "The plan is not shown. " + compilation.error;
  }
  if (report.run.empty())
    report.note = "No step has been trained." +
                  (report.note.empty() ? "" : " " + report.note);
  return true;
}

void addReportCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "report", "Draw a plan, or a run and its plan, on an HTML page");
  command->footer("The page needs no other file and no network.\n\nExamples:\n "
                  " poplar report plan.mlir -o plan.html\n  poplar report "
                  "run -o report.html");
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
  command
      ->add_option(
          "--trace", args->trace,
          "Timeline that poplar train --trace wrote, to draw the ranks "
          "of a step beside the simulated ones")
      ->type_name("JSON");
  command->callback([args, &status] {
    Compilation compilation;
    ReportInput report;
    report.name = args->input;
    bool isRun = llvm::sys::fs::is_directory(args->input);
    if (!args->trace.empty())
      report.trace = readTrace(args->trace, compilation.error);
    if ((!args->trace.empty() && !report.trace) ||
        !(isRun ? addRun : addPlan)(args->input, compilation, report)) {
      status = reportError(compilation.error);
      return;
    }
    // What goes wrong here is reported already.
    status = writeFile(args->output, formatReportPage(report)) ? 0 : 1;
  });
}
