//===- BuildCommand.cpp - poplar build ------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuildOptions.h"
#include "Commands.h"
#include "Compilation.h"
#include "Installation.h"
#include "Launch.h"
#include "Output.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Support/HostCPU.h"
#include "SlurmScript.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <sys/wait.h>
#include <unistd.h>

using namespace poplar;

namespace {

struct Arguments {
  std::string model, output;
  HostOptions host;
  bool timing = false;
  std::vector<std::string> slurm;
};

/// The program of one device type, compiled in a process of its own: oneDNN,
/// which the memory plan asks for scratch, is capped to an instruction set once
/// per process.
struct TypeBuild {
  mlir::ModuleOp program;
  HostOptions options;
  std::string name, directory;
  pid_t process = -1;
  /// The end of the pipe that says how it went: "+ what to print", or an error.
  int report = -1;
};

std::string readAll(int descriptor) {
  std::string text;
  char buffer[4096];
  while (ssize_t size = read(descriptor, buffer, sizeof(buffer))) {
    if (size < 0 && errno != EINTR)
      break;
    text.append(buffer, std::max<ssize_t>(size, 0));
  }
  close(descriptor);
  return text;
}

} // namespace

/// A model that one device trains alone.
static bool buildAlone(Compilation &compilation, const Arguments &args) {
  const HostOptions &options = args.host;
  if (!args.slurm.empty()) {
    compilation.error = "--slurm: " + args.model +
                        " is a model without a plan; make one with poplar plan";
    return false;
  }
  if (!checkCPU(options, compilation.error) ||
      !compilation.run(compilation.getModule(), [&](mlir::OpPassManager &pm) {
        buildPlanPipeline(pm, options);
      }))
    return false;
  llvm::outs() << formatMemory(compilation.getModule());
  std::string report;
  return compilation.emit(compilation.getModule(), options,
                          args.output + "/host", report) &&
         copyPlugins(options.libraryDirectory, args.output, compilation.error);
}

/// What the ranks of a type need, against what the device has.
static bool checkMemory(const TypeBuild &build, zero::PlanOp plan,
                        int64_t available, std::string &text,
                        std::string &error) {
  for (auto [index, rank] : llvm::enumerate(plan.getRanks())) {
    if (!isOf(rank, build.program))
      continue;
    int64_t peak = getPeakBytes(build.program, index, rank.getLargestStep());
    text += llvm::formatv("rank {0,-4} {1,-16} micro-batch {2,4}  "
                          "{3,10:f1} of {4:f1} MiB ({5} bytes)\n",
                          index, build.name, rank.getLargestStep(),
                          peak / 1048576.0, available / 1048576.0, peak);
    if (peak <= available)
      continue;
    error = llvm::formatv("rank {0} needs {1} bytes with a micro-batch of {2}, "
                          "but a device of type '{3}' has {4}; plan again with "
                          "a measured profile, or a higher --zero",
                          index, peak, rank.getLargestStep(), build.name,
                          available);
    return false;
  }
  return true;
}

/// The child process: returns its report.
static std::string buildType(Compilation &compilation, TypeBuild &build,
                             zero::PlanOp plan, int64_t available) {
  limitLibraries(build.options.isa);
  std::string text, kernels;
  if (!compilation.run(build.program,
                       [&](mlir::OpPassManager &pm) {
                         buildMemoryPipeline(pm, build.options);
                       }) ||
      !checkMemory(build, plan, available, text, compilation.error) ||
      !compilation.emit(build.program, build.options, build.directory, kernels))
    return compilation.error;
  if (!kernels.empty())
    text += "kernels   " + build.name + " (" + build.options.chip +
            "): " + kernels + "\n";
  return "+" + text + "built     " + build.directory + "/train\n";
}

/// The batch script for Slurm, "" without --slurm.
static bool makeSlurmScript(mlir::ModuleOp module,
                            const std::vector<std::string> &texts,
                            std::string &script, std::string &error) {
  if (texts.empty())
    return true;
  zero::PlanOp plan = *module.getOps<zero::PlanOp>().begin();
  mlir::SymbolTable symbols(module);
  std::map<std::string, bool> isGPU;
  for (zero::RankOp rank : plan.getRanks()) {
    auto type = symbols.lookup<cluster::DeviceTypeOp>(rank.getDeviceType());
    isGPU[rank.getDeviceType().str()] = !type.getTarget().starts_with("host");
  }
  SlurmPlaces places;
  return parseSlurmPlaces(texts, places, error) &&
         formatSlurmScript(plan, places, isGPU, script, error);
}

/// One executable per device type of a plan, in parallel.
static bool buildPlanned(Compilation &compilation, const Arguments &args) {
  const HostOptions &common = args.host;
  const std::string &output = args.output;
  mlir::ModuleOp module = compilation.getModule();
  std::string slurmScript;
  if (!makeSlurmScript(module, args.slurm, slurmScript, compilation.error))
    return false;
  // As it was read: a run keeps a copy, for poplar report.
  std::string planned = formatModule(module);
  if (!compilation.schedule(compilation.getModule(), common))
    return false;
  std::vector<TypeBuild> builds;
  for (auto program : module.getOps<mlir::ModuleOp>()) {
    TypeBuild build;
    build.program = program;
    build.options = common;
    build.name = zero::ProgramInfo::get(program).getProgramName();
    build.directory = output + "/" + build.name;
    if (isJobFile(build.name)) {
      program.emitError("a device type cannot have the name '")
          << build.name << "': the directory of a job has a file of that name";
      return false;
    }
    if (!chooseOptions(program, build.options, compilation.error))
      return false;
    builds.push_back(std::move(build));
  }
  llvm::outs().flush();
  for (TypeBuild &build : builds) {
    zero::PlanOp plan = *build.program.getOps<zero::PlanOp>().begin();
    auto type = mlir::SymbolTable(module).lookup<cluster::DeviceTypeOp>(
        zero::ProgramInfo::get(build.program).deviceType);
    int ends[2];
    if (pipe(ends) != 0 || (build.process = fork()) < 0) {
      compilation.error =
          std::string("cannot start a process: ") + std::strerror(errno);
      return false;
    }
    if (build.process == 0) {
      // A module of its own, so that symbols outside do not matter.
      build.program->remove();
      std::string report =
          buildType(compilation, build, plan, type.getMemory().value_or(0));
      bool sent = write(ends[1], report.data(), report.size()) ==
                  static_cast<ssize_t>(report.size());
      _exit(sent ? 0 : 1);
    }
    close(ends[1]);
    build.report = ends[0];
  }
  for (TypeBuild &build : builds) {
    std::string report = readAll(build.report);
    int status = 0;
    waitpid(build.process, &status, 0);
    if (report.empty() || status != 0)
      compilation.error =
          "the compiler of '" + build.name + "' ended unexpectedly";
    else if (report[0] != '+')
      compilation.error = report;
    else
      llvm::outs() << llvm::StringRef(report).drop_front();
  }
  if (!compilation.error.empty())
    return false;
  return copyPlugins(common.libraryDirectory, output, compilation.error) &&
         writeFile(output + "/plan.mlir", planned, compilation.error) &&
         writeLaunchFiles(
             *builds.front().program.getOps<zero::PlanOp>().begin(), output,
             slurmScript, compilation.error);
}

void addBuildCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("build", "Compile a model or a plan into executables");
  command->footer(
      "For a plan, writes DIR/TYPE/train for each device type, and scripts "
      "that start the\nranks. For a model, writes DIR/host/train for this "
      "machine.\n\nExamples:\n  poplar build plan.mlir -o build/job\n  poplar "
      "build model.mlir -o build/gpt2 --recompute recompute-attention");
  auto args = std::make_shared<Arguments>();
  addHostOptions(command, args->host);
  command
      ->add_option("model", args->model,
                   "Plan (from poplar plan) or model (from poplar import)")
      ->type_name("MLIR")
      ->required();
  command->add_flag("--trap-dead-ranges", args->host.trapDeadRanges,
                    "Fill buffers with NaN at the end of their lifetime, to "
                    "test the memory plan");
  command->add_flag("!--no-gemm-epilogues", args->host.fuseEpilogues,
                    "On GPUs, do not fuse GELU into matrix products");
  command->add_flag("!--no-ptx", args->host.keepPTX,
                    "On GPUs, omit the PTX if ptxas made a cubin: a smaller "
                    "executable for one generation of GPUs");
  addScheduleOptions(command, args->host);
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
  command->add_flag("--timing", args->timing,
                    "Print the time of every phase and pass; for models only, "
                    "since each type of a plan is compiled in its own process");
  command->callback([args, &status] {
    auto start = std::chrono::steady_clock::now();
    locateLibraries(args->host);
    Compilation compilation(args->timing);
    bool done = compilation.load(args->model);
    if (done) {
      bool planned = !compilation.getModule().getOps<zero::PlanOp>().empty();
      done = (planned ? buildPlanned : buildAlone)(compilation, *args);
    }
    if (!done) {
      // Files that cannot be written are reported where that is found out.
      status = compilation.error.empty() ? 1 : reportError(compilation.error);
      return;
    }
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    llvm::outs() << llvm::formatv("built     {0} in {1:f1} s\n", args->output,
                                  seconds.count());
    printNext(
        {"poplar", "train", args->output, "--data", "FILE", "--out", "run"});
  });
}
