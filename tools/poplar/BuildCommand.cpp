//===- BuildCommand.cpp - poplar build ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuildOptions.h"
#include "Commands.h"
#include "Installation.h"
#include "Output.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Driver/JobBuild.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace poplar;

namespace {
struct Arguments : JobRequest {
  std::string lastLevel;
  bool timing = false;
};
} // namespace

/// What --init of the program is to name: the weights that the model was
/// imported with, or what the user knows; empty if it needs none.
static std::string findBase(mlir::ModuleOp module) {
  nn::Model model = nn::Model::of(module);
  auto path = model.getWeightsPath();
  if (!path)
    return model.getLoraRank() ? "HF_DIR" : "";
  if (!llvm::sys::fs::exists(*path))
    return "HF_DIR";
  llvm::SmallString<128> here;
  llvm::StringRef shown = *path;
  if (!llvm::sys::fs::current_path(here) &&
      shown.consume_front((here + "/").str()) && !shown.empty())
    return shown.str();
  return path->str();
}

/// Options that are given for a plan but would do nothing.
static std::string explainOptionsOfModels(const CLI::App &command) {
  const std::string machine = "a model, and this is a plan";
  if (command.get_option("--recompute")->count() > 0)
    return "--recompute is for " + machine + "; give it to poplar plan";
  if (command.get_option("--timing")->count() > 0)
    return "--timing is for " + machine +
           ", of which each device type is compiled in its own process";
  return explainMachineOption(command, machine);
}

void addBuildCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("build", "Compile a model or a plan into executables");
  command->footer(
      "For a plan, writes DIR/TYPE/train, which loads the program.so beside "
      "it, for each\ndevice type, and scripts that start the ranks. For a "
      "model, writes DIR/host/train for\nthis machine.\n\nExamples:\n  poplar "
      "build plan.mlir -o job\n  poplar "
      "build model.mlir -o program\n  poplar build model.mlir -o smaller "
      "--recompute recompute-attention\n  poplar build plan.mlir -o levels "
      "--stop-after kernels");
  auto args = std::make_shared<Arguments>();
  addBuildOptions(command, args->build);
  command
      ->add_option("model", args->model,
                   "Plan (from poplar plan) or model (from poplar import)")
      ->type_name("MLIR")
      ->required();
  command->add_flag("--trap-dead-ranges", args->build.trapDeadRanges,
                    "Fill buffers with NaN at the end of their lifetime, to "
                    "test the memory plan");
  addWordOption(
      command, "--gpu-attention", args->build.attention,
      listWords<AttentionSource>(),
      "What computes attention on NVIDIA GPUs: own (kernels of "
      "Poplar), cudnn (where it can, else own; needs more memory), or "
      "auto (the one that was measured to be faster)");
  command->add_flag("!--no-gemm-epilogues", args->build.fuseEpilogues,
                    "On GPUs, do not fuse GELU into matrix products");
  command->add_flag("!--no-ptx", args->build.keepPTX,
                    "On GPUs, omit the PTX if ptxas made a cubin: a smaller "
                    "executable for one generation of GPUs");
  args->build.decoding = true;
  command->add_flag("!--no-kv-cache", args->build.decoding,
                    "Omit the functions with which poplar sample keeps keys "
                    "and values of tokens: a smaller executable");
  addScheduleOptions(command, args->build);
  command
      ->add_option(
          "--slurm", args->slurm,
          "Write DIR/slurm.sh for sbatch: the partition of each device "
          "type, and Slurm's name for its GPUs if the partition has "
          "several types")
      ->type_name("TYPE=PARTITION[:GPU]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("-o,--output", args->output, "Directory to write to")
      ->type_name("DIR")
      ->required();
  llvm::ArrayRef<llvm::StringLiteral> levels = getIRLevelNames();
  command
      ->add_option("--stop-after", args->lastLevel,
                   "Write the module of each device type at this level of IR, "
                   "as DIR/TYPE/LEVEL.mlir, instead of an executable")
      ->type_name("LEVEL")
      ->check(CLI::IsMember(
          std::vector<std::string>(levels.begin(), levels.end())));
  command->add_flag("--timing", args->timing,
                    "Print the time of every phase and pass; for models only, "
                    "since each type of a plan is compiled in its own process");
  command->callback([args, command, &status] {
    auto start = std::chrono::steady_clock::now();
    locateLibraries(args->build);
    if (!args->lastLevel.empty())
      args->stopAfter =
          static_cast<IRLevel>(llvm::find(getIRLevelNames(), args->lastLevel) -
                               getIRLevelNames().begin());
    Compilation compilation(args->timing);
    compilation.error = explainIdleScheduleOption(*command);
    bool done = compilation.error.empty() && compilation.load(args->model);
    std::string base;
    if (done) {
      // Building takes the facts apart.
      base = findBase(compilation.getModule());
      bool planned = !compilation.getModule().getOps<zero::PlanOp>().empty();
      if (planned)
        compilation.error = explainOptionsOfModels(*command);
      done = compilation.error.empty() &&
             (planned ? buildPlanned : buildAlone)(
                 compilation, *args,
                 [](const std::string &text) { llvm::outs() << text; });
    }
    if (!done) {
      // Files that cannot be written are reported where that is found out.
      status = compilation.error.empty() ? 1 : reportError(compilation.error);
      return;
    }
    if (args->stopAfter)
      return;
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    llvm::outs() << llvm::formatv("built     {0} in {1:f1} s\n", args->output,
                                  seconds.count());
    llvm::SmallVector<llvm::StringRef> next = {"poplar", "train", args->output};
    if (!base.empty())
      next.append({"--init", base});
    next.append({"--data", "FILE", "--steps", "N", "--out", "run"});
    printNext(next);
  });
}
