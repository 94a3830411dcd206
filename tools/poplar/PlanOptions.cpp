//===- PlanOptions.cpp - The options of poplar plan -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanOptions.h"
#include "Commands.h"

using namespace poplar;

/// An option that only plans of ZeRO alone have; empty if none is set.
static std::string findZeroOption(const HeteroAllocateOptions &options) {
  const HeteroAllocateOptions unset;
  return options.state != unset.state           ? "--state"
         : options.leaveOut != unset.leaveOut   ? "--leave-out"
         : options.recompute != unset.recompute ? "--type-recompute"
                                                : "";
}

/// Options that a plan of the user's own has no use for. Empty if there is
/// none.
static std::string checkPipeline(const PlanArguments &args) {
  if (args.explain || !args.json.empty() || !args.trace.empty() ||
      args.namesPolicy || args.objective.isSet() || args.seconds)
    return "--pipeline is a plan of your own, of which nothing is predicted; "
           "leave out --policy, --batch, --objective, --budget, --seconds, "
           "--explain, --json and --trace";
  if (!args.zeroOption.empty())
    return "--pipeline says which devices there are, and shards equally; leave "
           "out --state, --leave-out and --type-recompute (--recompute sets "
           "what all types recompute)";
  if (args.allocation.allowLossy && args.plansAllDevices())
    return "--allow-lossy with --pipeline compares programs, of which a "
           "hypothetical plan has none; leave out one of both";
  return "";
}

/// Options that a policy has no use for. Empty if there is none.
static std::string checkPolicy(const PlanArguments &args) {
  bool plansHybrid = args.allocation.policy == "hybrid" || args.isAuto();
  if (args.chunks > 0 && !plansHybrid)
    return "--chunks is for --pipeline and --policy hybrid";
  if (args.tensorDegree > 0 && !plansHybrid)
    return "--tensor-degree is for --policy hybrid; --pipeline has TYPE*N/T";
  if (args.isAuto() && !args.zeroOption.empty() &&
      (args.chunks > 0 || args.tensorDegree > 0))
    return args.zeroOption +
           " is for plans of ZeRO alone, --chunks and --tensor-degree are for "
           "pipeline stages; leave out one of both";
  if (!args.isAuto() && args.objective.isSet())
    return "--objective, --budget and --deadline are for --policy auto; leave "
           "out --policy, --batch and --pipeline";
  if (args.objective.minimizesCost && args.objective.budget)
    return "--budget limits the cost of the fastest plan; with --objective "
           "cost, give --deadline or nothing";
  if (!args.objective.minimizesCost && args.objective.deadline)
    return "--deadline limits the time of the cheapest plan; give it with "
           "--objective cost";
  if (args.seconds && !args.isHybrid() && !args.isAuto())
    return "--seconds is for --policy auto, hybrid and geo; the search of "
           "others takes some seconds at most";
  if (!args.isHybrid() && !args.isAuto())
    return args.trace.empty()
               ? ""
               : "--trace is for --policy auto, hybrid and geo; others have "
                 "poplar simulate";
  if (args.chunks > HybridProblem::mostChunks)
    return "--policy hybrid plans stages of at most " +
           std::to_string(HybridProblem::mostChunks) + " chunks";
  if (args.isAuto())
    return "";
  const HeteroAllocateOptions &options = args.allocation;
  std::string policy = "--policy " + options.policy;
  if (args.explain)
    return policy + " explains itself; leave out --explain";
  if (options.policy == "geo" && options.stage != "auto" &&
      options.stage != "1")
    return "--policy geo shards by ZeRO stage 1 in each pipeline stage; leave "
           "out --zero " +
           options.stage + ", or use --policy hybrid";
  if (!args.zeroOption.empty())
    return policy + " chooses shards, devices and recomputation; leave "
                    "out --state, --leave-out and --type-recompute "
                    "(--recompute sets what all types recompute)";
  return "";
}

/// Options whose choice another one leaves no room for. Empty if there is none.
static std::string explainIdleOption(const CLI::App &command,
                                     const PlanArguments &args) {
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
      policy != "exact" && !args.isHybrid() && !args.isAuto())
    return (policy.starts_with("batch:") ? std::string("--batch")
                                         : "--policy " + policy.str()) +
           " leaves no devices out; --leave-out auto is for --policy exact";
  return "";
}

std::string poplar::checkPlanOptions(const CLI::App &command,
                                     PlanArguments &args) {
  bool hasPolicy = command.get_option("--policy")->count() > 0;
  if (!args.batches.empty() && hasPolicy)
    return "--batch is a policy of its own; leave out --batch or --policy " +
           args.allocation.policy;
  if (!args.batches.empty())
    args.allocation.policy = "batch:" + args.batches;
  args.namesPolicy = hasPolicy || !args.batches.empty();
  args.zeroOption = findZeroOption(args.allocation);
  args.fixesRecompute = command.get_option("--recompute")->count() > 0;
  std::string error;
  if (!args.cluster.empty())
    error =
        explainMachineOption(command, "the machine at hand, without --cluster");
  if (error.empty())
    error = explainIdleOption(command, args);
  if (!error.empty())
    return error;
  return args.pipeline.stages.empty() ? checkPolicy(args) : checkPipeline(args);
}

void poplar::addPlanOptions(CLI::App *command, PlanArguments &args) {
  args.allocation.policy = "auto";
  addBuildOptions(command, args.build);
  command->add_option("--model,model", args.model, "Model, from poplar import")
      ->type_name("MODEL_MLIR")
      ->required();
  CLI::Option *cluster =
      command
          ->add_option("--cluster", args.cluster,
                       "Cluster file: JSON (docs/cluster-file.md) or MLIR")
          ->type_name("CLUSTER");
  CLI::Option *batch =
      command
          ->add_option("--global-batch", args.globalBatch,
                       "Samples per iteration, or tokens such as 2Mtok")
          ->type_name("N|TOKENS")
          ->needs(cluster);
  cluster->needs(batch);
  command
      ->add_option(
          "--profiles", args.profiles,
          "File or directory of profiles that poplar profile wrote; device "
          "types without a profile are estimated from their specifications")
      ->type_name("FILE|DIR")
      ->needs(cluster);
  command
      ->add_option("--zero", args.allocation.stage,
                   "ZeRO stage; auto selects the fastest that fits")
      ->check(CLI::IsMember({"auto", "0", "1", "2", "3"}))
      ->needs(cluster);
  command
      ->add_option("--policy", args.allocation.policy,
                   "How work is shared: auto for the fastest of exact (ZeRO "
                   "alone), hybrid (pipeline stages on unlike devices, "
                   "docs/hybrid.md) and geo (pipelines over slow, unlike "
                   "links, docs/placement.md); or poplar, uniform, whale or "
                   "homogeneous:TYPE (default: auto)")
      ->type_name("POLICY")
      ->needs(cluster);
  command
      ->add_option_function<std::string>(
          "--objective",
          [&args](const std::string &word) {
            args.objective.minimizesCost = word == "cost";
          },
          "What the plan minimizes: time, or cost by the prices in the cluster "
          "file (docs/cost.md; default: time)")
      ->check(CLI::IsMember({"time", "cost"}))
      ->type_name("time|cost")
      ->needs(cluster);
  command
      ->add_option("--budget", args.objective.budget,
                   "Most that an iteration may cost, in the currency of the "
                   "prices")
      ->check(CLI::PositiveNumber)
      ->type_name("COST")
      ->needs(cluster);
  command
      ->add_option("--deadline", args.objective.deadline,
                   "Most seconds that an iteration may take, with --objective "
                   "cost")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS")
      ->needs(cluster);
  command
      ->add_option("--seconds", args.seconds,
                   "End the search about then, with the best plan so far and "
                   "how far it can be from the best (default: no limit)")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->needs(cluster);
  command
      ->add_option("--tensor-degree", args.tensorDegree,
                   "Largest number of devices that share a unit, in hybrid "
                   "plans; 1 for none (default: any)")
      ->check(CLI::Range(1, 1 << 10))
      ->needs(cluster);
  CLI::Option *pipeline =
      command
          ->add_option(
              "--pipeline", args.pipeline.stages,
              "Your own pipeline stages: for each, the device type, the number "
              "of pipelines, the devices that share a unit, and the unit "
              "before which each chunk ends; | joins unlike pipelines of a "
              "stage (docs/pipelines.md)")
          ->type_name("TYPE[*N][/DEGREE][@END]...+...")
          ->needs(cluster);
  addWordOption(command, "--schedule", args.pipeline.schedule,
                listWords<PipelineSchedule>(),
                "Order of forward and backward passes in a pipeline")
      ->needs(pipeline);
  command
      ->add_option(
          "--chunks", args.chunks,
          "Parts of the model per stage with --schedule interleaved, 2 or "
          "more; in hybrid plans the largest number to try (default: 8)")
      ->check(CLI::Range(1, 1 << 10))
      ->needs(cluster);
  command
      ->add_option("--micro-batch", args.pipeline.microBatch,
                   "Samples per micro-batch of a pipeline")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(pipeline);
  command
      ->add_option(
          "--batch", args.batches,
          "Your own batches: samples per step of all devices of each type")
      ->type_name("TYPE=N,...")
      ->needs(cluster);
  command
      ->add_option("--state", args.allocation.state,
                   "How the state is sharded: equally, by free memory, equally "
                   "in several shard groups that replicate it, or auto for the "
                   "fastest")
      ->check(CLI::IsMember({"auto", "equal", "memory", "replicated"}))
      ->needs(cluster);
  command
      ->add_option("--leave-out", args.allocation.leaveOut,
                   "auto leaves devices out if that is faster; none keeps all")
      ->check(CLI::IsMember({"auto", "none"}))
      ->needs(cluster);
  command
      ->add_option("--type-recompute", args.allocation.recompute,
                   "What types recompute whose `recompute` the cluster file "
                   "does not give: auto for the fastest, as-set for nothing "
                   "(default: auto)")
      ->check(CLI::IsMember({"auto", "as-set"}))
      ->needs(cluster);
  command
      ->add_flag("--allow-lossy", args.allocation.allowLossy,
                 "Let gradients and parameters cross between nodes in bf16 or "
                 "in blocks of int8, where that is faster "
                 "(docs/lossy-wires.md); by default nothing is lost")
      ->needs(cluster);
  command
      ->add_option(
          "--bucket-bytes", args.build.bucketBytes,
          "Units with fewer bytes (in f32) are merged into one collective")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "-o,--output", args.output,
          "File for the plan, the input of poplar build; - for standard output")
      ->type_name("PLAN_MLIR")
      ->needs(cluster);
  command
      ->add_option("--json", args.json,
                   "File for the plan and its explanation as JSON; - for "
                   "standard output")
      ->type_name("PLAN_JSON")
      ->needs(cluster);
  command
      ->add_option("--trace", args.trace,
                   "File for the simulated timeline of an auto, hybrid or geo "
                   "plan, in Chrome's trace format; - for standard output")
      ->type_name("JSON")
      ->needs(cluster);
  command
      ->add_flag("--hypothetical{all}", args.hypothetical,
                 "Also plan what poplar build cannot build yet: with "
                 "--hypothetical=devices, devices without a runtime, as if "
                 "they had one; without a value also devices that share units "
                 "in f16, in different precisions, or in unlike numbers, and "
                 "pipelines that are cut at different units")
      ->check(CLI::IsMember({"devices", "all"}))
      ->needs(cluster);
  command
      ->add_flag("--explain", args.explain,
                 "Explain the plan: what limits each rank, what another device "
                 "or more memory would gain, and what other plans would cost")
      ->needs(cluster);
}
