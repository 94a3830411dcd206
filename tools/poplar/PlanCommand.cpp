//===- PlanCommand.cpp - poplar plan --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuildOptions.h"
#include "Commands.h"
#include "Output.h"
#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Allocation/StagedAllocation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/AutoPlanning.h"
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
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace poplar;

namespace {
struct Arguments {
  std::string model, cluster, profiles, globalBatch, output, json, trace;
  bool explain = false;
  /// --recompute is given.
  bool fixesRecompute = false;
  /// Plan devices and stages that cannot be built, too.
  bool hypothetical = false;
  /// 0 where they are not given.
  int tensorDegree = 0, chunks = 0;
  /// Pipeline stages that the user describes.
  ZeroPlanStagesOptions pipeline;
  HeteroAllocateOptions allocation;
  BuildOptions build;
};
} // namespace

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
static bool canUseAll(const Arguments &args, mlir::ModuleOp module) {
  PlanChoices choices;
  choices.globalBatch = args.allocation.globalBatch;
  choices.leaveOut = false;
  if (args.allocation.stage != "auto")
    choices.stages = {std::stoi(args.allocation.stage)};
  if (args.allocation.state != "auto")
    choices.shardings = {args.allocation.state == "equal" ? Sharding::Equal
                                                          : Sharding::Memory};
  std::string error;
  return searchPlans(cluster::buildClusterView(module),
                     zero::getModelFacts(module), *makePolicy("exact", error),
                     choices)
             .best() != nullptr;
}

/// Why the plan uses fewer devices than the cluster has; empty if it uses all.
static std::string formatLeftOut(const Arguments &args, mlir::ModuleOp module,
                                 zero::PlanOp plan) {
  std::string text = formatLeftOut(cluster::buildClusterView(module), plan);
  if (text.empty() || plan.getPolicy() != "exact")
    return text;
  text += "  They would slow the job down, or do not fit";
  if (!args.explain)
    text += ": --explain says which";
  if (canUseAll(args, module))
    text += "; --leave-out none makes all take part";
  auto model = module.lookupSymbol<mlir::func::FuncOp>("model");
  if (model && !findLayers(model).empty())
    text += ". Pipeline stages may use them: --policy hybrid tries that";
  return text + ".\n";
}

/// Without a cluster: what one device, the machine at hand, needs.
static bool planAlone(Compilation &compilation, const Arguments &args) {
  if (!checkCPU(args.build, compilation.error) ||
      !compilation.run(compilation.getModule(), [&](mlir::OpPassManager &pm) {
        buildPlanPipeline(pm, args.build);
      }))
    return false;
  llvm::outs() << formatMemory(compilation.getModule());
  return true;
}

/// Policies of pipeline stages.
static bool isHybrid(const Arguments &args) {
  return args.allocation.policy == "hybrid" || args.allocation.policy == "geo";
}

/// The policy that plans by all others.
static bool isAuto(const Arguments &args) {
  return args.allocation.policy == "auto";
}

/// Options that a policy has no use for. Empty if there is none.
static std::string checkOptions(const Arguments &args) {
  if (!args.pipeline.stages.empty() &&
      (args.explain || !args.json.empty() || !args.trace.empty() ||
       args.allocation.policy != HeteroAllocateOptions().policy))
    return "--pipeline is a plan of your own, of which nothing is predicted; "
           "leave out --policy, --batch, --explain, --json and --trace";
  const HeteroAllocateOptions &options = args.allocation, unset;
  bool chooses = options.state != unset.state ||
                 options.leaveOut != unset.leaveOut ||
                 options.recompute != unset.recompute;
  if (!args.pipeline.stages.empty() && chooses)
    return "--pipeline says which devices there are, and shards equally; leave "
           "out --state, --leave-out and --type-recompute (--recompute sets "
           "what all types recompute)";
  if (!args.pipeline.stages.empty() && args.allocation.allowLossy &&
      args.hypothetical)
    return "--allow-lossy with --pipeline compares programs, of which a "
           "hypothetical plan has none; leave out one of both";
  bool plansHybrid = args.allocation.policy == "hybrid" || isAuto(args);
  if (args.chunks > 0 && args.pipeline.stages.empty() && !plansHybrid)
    return "--chunks is for --pipeline and --policy hybrid";
  if (args.tensorDegree > 0 && !plansHybrid)
    return "--tensor-degree is for --policy hybrid; --pipeline has TYPE*N/T";
  if (isAuto(args) && (args.explain || !args.trace.empty()))
    return "--policy auto compares kinds of plans; leave out --explain and "
           "--trace, or name the policy that it chooses";
  if (isAuto(args) && args.hypothetical)
    return "--policy auto compares programs, of which a hypothetical plan has "
           "none; leave out --hypothetical, or name a policy";
  if (!isHybrid(args) && !isAuto(args))
    return args.trace.empty()
               ? ""
               : "--trace is for --policy hybrid and geo; others have poplar "
                 "simulate";
  if (args.chunks > HybridProblem::mostChunks)
    return "--policy hybrid plans stages of at most " +
           std::to_string(HybridProblem::mostChunks) + " chunks";
  std::string policy = "--policy " + options.policy;
  if (args.explain)
    return policy + " explains itself; leave out --explain";
  if (options.policy == "geo" && options.stage != "auto" &&
      options.stage != "1")
    return "--policy geo shards by ZeRO stage 1 in each pipeline stage; leave "
           "out --zero " +
           options.stage + ", or use --policy hybrid";
  if (chooses)
    return policy + " chooses shards, devices and recomputation; leave "
                    "out --state, --leave-out and --type-recompute "
                    "(--recompute sets what all types recompute)";
  return "";
}

/// Options whose choice another one leaves no room for. Empty if there is none.
static std::string explainIdleOption(const CLI::App &command,
                                     const Arguments &args) {
  auto isGiven = [&](const char *option) {
    return command.get_option(option)->count() > 0;
  };
  llvm::StringRef policy = args.allocation.policy;
  if (isGiven("--recompute") && isGiven("--type-recompute"))
    return "--recompute sets what all types recompute; leave out "
           "--type-recompute";
  if (isGiven("--state") && args.allocation.stage == "0")
    return "--zero 0 shards no state; leave out --state";
  if (isGiven("--leave-out") && args.allocation.leaveOut == "auto" &&
      policy != "exact" && !isHybrid(args) && !isAuto(args))
    return (policy.starts_with("batch:") ? std::string("--batch")
                                         : "--policy " + policy.str()) +
           " leaves no devices out; --leave-out auto is for --policy exact";
  return "";
}

/// A plan of the stages that the user describes.
static bool planPipeline(Compilation &compilation, Arguments &args) {
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
  if (!reason.empty() && !args.hypothetical) {
    compilation.error =
        "--pipeline: " + reason + "; --hypothetical plans it all the same";
    return false;
  }
  zero::PlanOp plan = *module.getOps<zero::PlanOp>().begin();
  if (args.allocation.allowLossy) {
    mlir::FailureOr<LossyWires> wires =
        chooseWires(module, args.build.bucketBytes, compilation.error);
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
static bool writeStages(Compilation &compilation, const Arguments &args,
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

static bool printsFile(const Arguments &args) {
  return args.json == "-" || args.trace == "-" || args.output == "-";
}

/// What was planned, and the next command.
static bool printStages(Compilation &compilation, const Arguments &args,
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
                        const Arguments &args,
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

/// The fastest plan of any kind, and what the others take.
static bool printFastest(Compilation &compilation, const StagedRequest &request,
                         const Arguments &args) {
  AutoReport report;
  if (!planAuto(compilation, request, args.allocation, args.build, report))
    return false;
  zero::PlanOp plan = *compilation.getModule().getOps<zero::PlanOp>().begin();
  Buildability buildability{request.leftOut, ""};
  return printStages(compilation, args, buildability, Timeline(),
                     formatPlan(plan) + formatKinds(report) +
                         format(buildability),
                     formatAutoJSON(report));
}

/// With --recompute, all types do that. Profiles that leave it to the type were
/// made with what it was set to before.
static void fixRecompute(mlir::ModuleOp module, RecomputePolicy policy) {
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

static bool planCluster(Compilation &compilation, Arguments &args) {
  compilation.error = checkOptions(args);
  if (!compilation.error.empty())
    return false;
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
  if (!args.hypothetical)
    buildability.leftOut = dropUnbuildable(module, compilation.error);
  if (!compilation.error.empty())
    return false;
  if (isHybrid(args) || isAuto(args)) {
    StagedRequest request;
    request.globalBatch = args.allocation.globalBatch;
    request.bucketBytes = args.build.bucketBytes;
    request.stage = args.allocation.stage;
    request.mostTensorDegree = args.tensorDegree;
    request.mostChunks = args.chunks;
    request.hypothetical = args.hypothetical;
    request.allowsLossy = args.allocation.allowLossy;
    request.leftOut = std::move(buildability.leftOut);
    request.addsPlan = !args.output.empty();
    request.plansColumns = request.hypothetical && !request.addsPlan;
    request.recordsTimeline = !args.trace.empty();
    if (isAuto(args))
      return printFastest(compilation, request, args);
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
  auto plan = *module.getOps<zero::PlanOp>().begin();
  llvm::outs() << formatPlan(plan) << formatLeftOut(args, module, plan)
               << format(buildability);
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
  auto args = std::make_shared<Arguments>();
  addBuildOptions(command, args->build);
  command->add_option("--model,model", args->model, "Model, from poplar import")
      ->type_name("MODEL_MLIR")
      ->required();
  CLI::Option *cluster =
      command
          ->add_option("--cluster", args->cluster,
                       "Cluster file: JSON (docs/cluster-file.md) or MLIR")
          ->type_name("CLUSTER");
  CLI::Option *batch =
      command
          ->add_option("--global-batch", args->globalBatch,
                       "Samples per iteration, or tokens such as 2Mtok")
          ->type_name("N|TOKENS")
          ->needs(cluster);
  cluster->needs(batch);
  command
      ->add_option(
          "--profiles", args->profiles,
          "File or directory of profiles that poplar profile wrote; device "
          "types without a profile are estimated from their specifications")
      ->type_name("FILE|DIR")
      ->needs(cluster);
  command
      ->add_option("--zero", args->allocation.stage,
                   "ZeRO stage; auto selects the fastest that fits")
      ->check(CLI::IsMember({"auto", "0", "1", "2", "3"}))
      ->needs(cluster);
  CLI::Option *policy =
      command
          ->add_option("--policy", args->allocation.policy,
                       "How work is shared: exact, poplar, uniform, whale or "
                       "homogeneous:TYPE; hybrid for pipeline stages on unlike "
                       "devices (docs/hybrid.md); geo for pipelines over slow, "
                       "unlike links (docs/placement.md); auto for the fastest "
                       "of exact, hybrid and geo (default: exact)")
          ->type_name("POLICY")
          ->needs(cluster);
  command
      ->add_option("--tensor-degree", args->tensorDegree,
                   "Largest number of devices that share a unit, in hybrid "
                   "plans; 1 for none (default: any)")
      ->check(CLI::Range(1, 1 << 10))
      ->needs(cluster);
  CLI::Option *pipeline =
      command
          ->add_option(
              "--pipeline", args->pipeline.stages,
              "Your own pipeline stages: for each, the device type, the number "
              "of pipelines, the devices that share a unit, and the unit "
              "before which each chunk ends (docs/pipelines.md)")
          ->type_name("TYPE[*N][/DEGREE][@END]...+...")
          ->needs(cluster);
  addWordOption(command, "--schedule", args->pipeline.schedule,
                listWords<PipelineSchedule>(),
                "Order of forward and backward passes in a pipeline")
      ->needs(pipeline);
  command
      ->add_option(
          "--chunks", args->chunks,
          "Parts of the model per stage with --schedule interleaved, 2 or "
          "more; in hybrid plans the largest number to try (default: 8)")
      ->check(CLI::Range(1, 1 << 10))
      ->needs(cluster);
  command
      ->add_option("--micro-batch", args->pipeline.microBatch,
                   "Samples per micro-batch of a pipeline")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(pipeline);
  auto shares = std::make_shared<std::string>();
  command
      ->add_option(
          "--batch", *shares,
          "Your own batches: samples per step of all devices of each type")
      ->type_name("TYPE=N,...")
      ->needs(cluster);
  command
      ->add_option("--state", args->allocation.state,
                   "How the state is sharded: equally, by free memory, or auto "
                   "for the faster")
      ->check(CLI::IsMember({"auto", "equal", "memory"}))
      ->needs(cluster);
  command
      ->add_option("--leave-out", args->allocation.leaveOut,
                   "auto leaves devices out if that is faster; none keeps all")
      ->check(CLI::IsMember({"auto", "none"}))
      ->needs(cluster);
  command
      ->add_option("--type-recompute", args->allocation.recompute,
                   "What types recompute whose `recompute` the cluster file "
                   "does not give: auto for the fastest, as-set for nothing "
                   "(default: auto)")
      ->check(CLI::IsMember({"auto", "as-set"}))
      ->needs(cluster);
  command
      ->add_flag("--allow-lossy", args->allocation.allowLossy,
                 "Let gradients and parameters cross between nodes in bf16 or "
                 "in blocks of int8, where that is faster "
                 "(docs/lossy-wires.md); by default nothing is lost")
      ->needs(cluster);
  command
      ->add_option(
          "--bucket-bytes", args->build.bucketBytes,
          "Units with fewer bytes (in f32) are merged into one collective")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "-o,--output", args->output,
          "File for the plan, the input of poplar build; - for standard output")
      ->type_name("PLAN_MLIR")
      ->needs(cluster);
  command
      ->add_option("--json", args->json,
                   "File for the plan and its explanation as JSON; - for "
                   "standard output")
      ->type_name("PLAN_JSON")
      ->needs(cluster);
  command
      ->add_option("--trace", args->trace,
                   "File for the simulated timeline of a hybrid or geo plan, "
                   "in Chrome's trace format; - for standard output")
      ->type_name("JSON")
      ->needs(cluster);
  command
      ->add_flag("--hypothetical", args->hypothetical,
                 "Also plan what poplar build cannot build yet: devices "
                 "without a runtime; devices that share units in f16, in "
                 "different precisions, or in unlike numbers; pipelines that "
                 "are cut at different units")
      ->needs(cluster);
  command
      ->add_flag("--explain", args->explain,
                 "Explain the plan: what limits each rank, what another device "
                 "or more memory would gain, and what other plans would cost")
      ->needs(cluster);
  command->callback([args, shares, policy, command, &status] {
    if (!shares->empty() && policy->count() > 0) {
      status = reportError("--batch is a policy of its own; leave out --batch "
                           "or --policy " +
                           args->allocation.policy);
      return;
    }
    if (!shares->empty())
      args->allocation.policy = "batch:" + *shares;
    args->fixesRecompute = command->get_option("--recompute")->count() > 0;
    if (!args->cluster.empty())
      if (std::string error = explainMachineOption(
              *command, "the machine at hand, without --cluster");
          !error.empty()) {
        status = reportError(error);
        return;
      }
    if (std::string error = explainIdleOption(*command, *args);
        !error.empty()) {
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
