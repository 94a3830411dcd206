//===- PlanCommand.cpp - poplar plan --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"
#include "PlanOptions.h"
#include "Poplar/Allocation/StagedAllocation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Driver/HybridPlanning.h"
#include "Poplar/Driver/ProgramOptions.h"
#include "Poplar/Driver/Review.h"
#include "Poplar/Import/Cluster.h"
#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Report/PlanReport.h"
#include "Poplar/Report/PlanText.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Transforms/Plan/Buildable.h"
#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "SlowNote.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace poplar;

/// "64" samples, or "2Mtok", "512ktok", "8192tok": as many samples as that many
/// tokens are, rounded to the nearest. 0 if it is neither.
static int64_t parseGlobalBatch(llvm::StringRef text, mlir::ModuleOp module) {
  bool tokens = text.consume_back("tok");
  double factor = 1;
  if (tokens && text.consume_back("M"))
    factor = 1e6;
  else if (tokens && text.consume_back("k"))
    factor = 1e3;
  double number = 0;
  if (text.getAsDouble(number) || !(number > 0) || number * factor > 1e15)
    return 0;
  if (!tokens)
    return number == std::floor(number) ? int64_t(number) : 0;
  std::optional<int64_t> length = nn::Model::of(module).getSeqLen();
  if (!length)
    return 0;
  return std::max<int64_t>(1, std::llround(number * factor / double(*length)));
}

/// Whether there is a plan of all devices.
static bool canUseAll(const PlanArguments &args, mlir::ModuleOp module) {
  PlanChoices choices;
  choices.globalBatch = args.allocation.globalBatch;
  choices.leaveOut = false;
  if (args.allocation.stage != "auto")
    choices.stages = {std::stoi(args.allocation.stage)};
  choices.shardings = readShardings(args.allocation.state);
  std::string error;
  return searchPlans(cluster::buildClusterView(module),
                     zero::getModelFacts(module), *makePolicy("exact", error),
                     choices)
             .best() != nullptr;
}

/// Why the plan uses fewer devices than the cluster has; empty if it uses all.
static std::string formatLeftOut(const PlanArguments &args,
                                 mlir::ModuleOp module) {
  zero::PlanOp plan = *module.getOps<zero::PlanOp>().begin();
  std::string text = formatLeftOut(cluster::buildClusterView(module), plan);
  if (text.empty() || plan.getPolicy() != "exact")
    return text;
  text += "  They would slow the job down, or do not fit";
  if (!args.explain)
    text += ": --explain says which";
  if (canUseAll(args, module))
    text += "; --leave-out none makes all take part";
  auto model = module.lookupSymbol<mlir::func::FuncOp>("model");
  if (!args.triesAllKinds() && model && !findLayers(model).empty())
    text += ". Pipeline stages may use them: --policy auto tries that";
  return text + ".\n";
}

/// Without a cluster: what one device, the machine at hand, needs.
static bool planAlone(Compilation &compilation, const PlanArguments &args) {
  if (!checkCPU(args.build, compilation.error) ||
      !compilation.run(compilation.getModule(), [&](mlir::OpPassManager &pm) {
        buildPlanPipeline(pm, args.build);
      }))
    return false;
  llvm::outs() << formatMemory(compilation.getModule());
  return true;
}

/// A plan of the stages that the user describes.
static bool planPipeline(Compilation &compilation, PlanArguments &args) {
  mlir::ModuleOp module = compilation.getModule();
  args.pipeline.globalBatch = args.allocation.globalBatch;
  args.pipeline.stage = args.allocation.stage;
  args.pipeline.chunks = std::max(args.chunks, 1);
  // Buckets do not cross the cuts of the plan.
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroPlanStages(args.pipeline));
        pm.addPass(createZeroFormBuckets({args.build.bucketBytes}));
      }))
    return false;
  std::string reason = explainUnbuildable(module);
  if (!reason.empty() && !args.plansAllStages()) {
    compilation.error =
        "--pipeline: " + reason + "; --hypothetical plans it all the same";
    return false;
  }
  zero::PlanOp plan = *module.getOps<zero::PlanOp>().begin();
  if (args.allocation.allowLossy) {
    mlir::FailureOr<LossyWires> wires =
        chooseWires(module, args.build.bucketBytes);
    if (mlir::failed(wires))
      return false;
    if (wires->any())
      plan.setGradientWireAttr(mlir::TypeAttr::get(
          zero::getWireType(module.getContext(), *wires->gradients)));
  }
  if (!args.output.empty() &&
      !writeFiles({{args.output, formatModule(module)}}, compilation.error))
    return false;
  if (args.output != "-")
    llvm::outs() << formatPlan(plan) << format(Buildability{{}, reason});
  return true;
}

/// The plan, its explanation and the simulated timeline, as far as they are
/// asked for.
static bool writeStages(Compilation &compilation, const PlanArguments &args,
                        const std::string &json, const Timeline &timeline) {
  std::vector<std::pair<std::string, std::string>> files;
  if (!args.output.empty())
    files.emplace_back(args.output, formatModule(compilation.getModule()));
  if (!args.json.empty())
    files.emplace_back(args.json, json);
  if (!args.trace.empty())
    files.emplace_back(args.trace,
                       formatChromeTrace(timeline, args.allocation.policy +
                                                       " plan, simulated"));
  return writeFiles(files, compilation.error);
}

static bool printsFile(const PlanArguments &args) {
  return args.json == "-" || args.trace == "-" || args.output == "-";
}

/// What was planned, and the next command.
static bool printStages(Compilation &compilation, const PlanArguments &args,
                        const Buildability &buildability,
                        const Timeline &timeline, const std::string &text,
                        const std::string &json) {
  if (!writeStages(compilation, args, json, timeline))
    return false;
  if (printsFile(args)) {
    llvm::errs() << format(buildability);
    return true;
  }
  llvm::outs() << text;
  if (!args.output.empty() && buildability.refusal.empty())
    printNext({"poplar", "build", args.output, "-o", "job"});
  return true;
}

/// Plans and prints with the functions of a policy.
template <typename Report>
static bool printPolicy(Compilation &compilation, const StagedRequest &request,
                        const PlanArguments &args,
                        bool (*plan)(Compilation &, const StagedRequest &,
                                     Report &),
                        std::string (*formatText)(const Report &),
                        std::string (*formatJSON)(const Report &)) {
  Report report;
  return plan(compilation, request, report) &&
         printStages(compilation, args, report.buildability,
                     report.simulation.timeline, formatText(report),
                     formatJSON(report));
}

/// The best plan of any kind, and what the others take.
static bool printBest(Compilation &compilation, StagedRequest staged,
                      const PlanArguments &args) {
  AutoRequest request;
  static_cast<StagedRequest &>(request) = std::move(staged);
  request.allocation = args.allocation;
  request.build = args.build;
  request.zeroOption = args.zeroOption;
  request.explains = args.explain || !args.json.empty();
  request.enter = SlowNote::enter;
  // The whole cluster: a plan may be of a part of it.
  ClusterView cluster = cluster::buildClusterView(compilation.getModule());
  ObjectiveReport report;
  AutoReport &chosen = report.chosen;
  bool hasCosts = args.objective.isSet();
  if (hasCosts ? !planByObjective(compilation, request, args.objective, report)
               : !planAuto(compilation, request, chosen))
    return false;
  mlir::ModuleOp module = compilation.getModule();
  std::string text = chosen.isInModule
                         ? formatPlan(*module.getOps<zero::PlanOp>().begin())
                         : chosen.explanation;
  if (hasCosts)
    text += formatCosts(cluster, report);
  else if (chosen.isInModule)
    text += formatLeftOut(args, module);
  text += formatKinds(chosen);
  // The explanation has it.
  if (chosen.isInModule)
    text += format(chosen.buildability);
  if (!args.zeroOption.empty())
    text += "only plans of ZeRO alone were tried: " + args.zeroOption +
            " is an option of theirs\n";
  if (args.explain && chosen.isInModule)
    text += "\n" + chosen.explanation;
  std::string json;
  if (!args.json.empty())
    json = hasCosts ? formatObjectiveJSON(cluster, report)
                    : formatAutoJSON(chosen);
  return printStages(compilation, args, chosen.buildability, chosen.timeline,
                     text, json);
}

/// With --recompute, all types do that. Profiles that leave it to the type were
/// made with what it was set to before.
static void fixRecompute(mlir::ModuleOp module, Recomputation policy) {
  std::map<std::string, cluster::DeviceTypeOp> types;
  for (auto type : module.getOps<cluster::DeviceTypeOp>())
    types[type.getSymName().str()] = type;
  for (auto profile : module.getOps<cluster::ProfileOp>())
    if (!profile.getRecompute())
      profile.setRecompute(
          types.at(profile.getDeviceType().str()).getRecompute());
  for (auto &[name, type] : types) {
    type.setRecompute(policy);
    type.setFixedRecompute(true);
  }
}

static bool planCluster(Compilation &compilation, PlanArguments &args) {
  mlir::ModuleOp module = compilation.getModule();
  args.allocation.globalBatch = parseGlobalBatch(args.globalBatch, module);
  if (args.allocation.globalBatch == 0) {
    compilation.error =
        "--global-batch expects a number of samples, or of tokens as in 2Mtok, "
        "not '" +
        args.globalBatch + "'";
    return false;
  }
  if (mlir::failed(applyClusterFile(module, args.cluster, compilation.error)) ||
      (!args.profiles.empty() &&
       mlir::failed(applyProfiles(module, args.profiles, compilation.error))))
    return false;
  if (args.fixesRecompute)
    fixRecompute(module, args.build.recompute);
  if (!args.pipeline.stages.empty())
    return planPipeline(compilation, args);
  Buildability buildability;
  if (!args.plansAllDevices())
    buildability.leftOut = dropUnbuildable(module, compilation.error);
  if (!compilation.error.empty())
    return false;
  if (args.isHybrid() || args.isAuto()) {
    StagedRequest request;
    request.globalBatch = args.allocation.globalBatch;
    request.bucketBytes = args.build.bucketBytes;
    request.stage = args.allocation.stage;
    request.mostTensorDegree = args.tensorDegree;
    request.mostChunks = args.chunks;
    request.hypothetical = args.plansAllDevices();
    request.sharesFreely = args.plansAllStages();
    request.allowsLossy = args.allocation.allowLossy;
    request.leftOut = std::move(buildability.leftOut);
    request.addsPlan = !args.output.empty();
    if (args.seconds)
      request.deadline = Deadline(*args.seconds);
    request.plansColumns = args.plansAllStages() && !request.addsPlan;
    request.recordsTimeline = !args.trace.empty();
    if (args.isAuto())
      return printBest(compilation, std::move(request), args);
    return args.allocation.policy == "geo"
               ? printPolicy(compilation, request, args, planGeo, formatGeoText,
                             formatGeoJSON)
               : printPolicy(compilation, request, args, planHybrid,
                             formatHybridText, formatHybridJSON);
  }
  args.allocation.simulate = true;
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({args.build.bucketBytes}));
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(args.allocation, args.build));
      }))
    return false;
  std::optional<ReviewedPlan> reviewed;
  if (args.explain || !args.json.empty()) {
    reviewed = reviewModule(module, compilation.error);
    if (!reviewed)
      return false;
  }
  buildability.refusal = explainUnbuildable(module);
  std::vector<std::pair<std::string, std::string>> files;
  if (!args.output.empty())
    files.emplace_back(args.output, formatModule(module));
  if (!args.json.empty())
    files.emplace_back(
        args.json,
        formatPlanJSON(reviewed->cluster, reviewed->review, buildability));
  if (!writeFiles(files, compilation.error))
    return false;
  if (args.output == "-" || args.json == "-") {
    llvm::errs() << format(buildability);
    return true;
  }
  llvm::outs() << formatPlan(*module.getOps<zero::PlanOp>().begin())
               << formatLeftOut(args, module) << format(buildability);
  if (args.explain)
    llvm::outs() << "\n" << formatReview(reviewed->cluster, reviewed->review);
  if (!args.output.empty() && buildability.refusal.empty())
    printNext({"poplar", "build", args.output, "-o", "job"});
  return true;
}

void addPlanCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "plan", "Decide which device of a cluster computes and stores what");
  command->footer(
      "Without --cluster, prints how much memory the model needs on this "
      "machine. Without --profiles,\ntimes are estimated from the "
      "specifications that the cluster file gives or names (poplar "
      "cluster\ndevices).\n\nExamples:\n  poplar plan --model model.mlir "
      "--cluster examples/clusters/a100-40-and-80.json --global-batch 2Mtok\n  "
      "poplar plan --model model.mlir --cluster cluster.json --profiles "
      "profiles --global-batch 8 -o plan.mlir\n  poplar plan --model "
      "model.mlir --cluster cluster.json --profiles profiles --global-batch "
      "8 --explain --json plan.json\n  poplar plan --model model.mlir "
      "--cluster examples/clusters/mi300x-and-a800.json --global-batch 1536 "
      "--policy hybrid\n  poplar plan --model model.mlir --cluster "
      "cluster.json --global-batch 8 --pipeline 'avx2-f32@3+sse41-f32' -o "
      "stages.mlir\n  poplar plan --model "
      "model.mlir --cluster examples/clusters/a100-40-and-80.json "
      "--global-batch 2Mtok --recompute recompute-unit\n  poplar plan "
      "model.mlir --recompute recompute-unit");
  auto args = std::make_shared<PlanArguments>();
  addPlanOptions(command, *args);
  command->callback([args, command, &status] {
    if (std::string error = checkPlanOptions(*command, *args); !error.empty()) {
      status = reportError(error);
      return;
    }
    Compilation compilation;
    bool done = compilation.load(args->model) &&
                (args->cluster.empty() ? planAlone(compilation, *args)
                                       : planCluster(compilation, *args));
    if (!done)
      status = compilation.error.empty() ? 1 : reportError(compilation.error);
    else if (!args->cluster.empty())
      llvm::errs() << formatNoise(
          cluster::buildClusterView(compilation.getModule()));
  });
}
