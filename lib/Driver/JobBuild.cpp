//===- JobBuild.cpp - Executables of a plan -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/JobBuild.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Driver/Launch.h"
#include "Poplar/Driver/ProgramOptions.h"
#include "Poplar/Driver/SlurmScript.h"
#include "Poplar/Report/PlanText.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Target/AttentionChoice.h"
#include "llvm/Support/FormatVariadic.h"
#include <sys/wait.h>
#include <unistd.h>

using namespace poplar;

using Print = llvm::function_ref<void(const std::string &)>;

namespace {

/// The program of one device type, compiled in a process of its own: oneDNN,
/// which the memory plan asks for scratch, is capped to an instruction set once
/// per process.
struct TypeBuild {
  mlir::ModuleOp program;
  BuildOptions options;
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

/// Takes a program from the zero level to `level`, or leaves it at an earlier
/// one, and writes it to `directory`; adds where to `text`.
static bool writeLevel(Compilation &compilation, mlir::ModuleOp program,
                       const BuildOptions &options, IRLevel level,
                       const std::string &directory, std::string &text) {
  if (!compilation.run(program, [&](mlir::OpPassManager &pm) {
        if (level >= IRLevel::Kernels)
          buildKernelPipeline(pm, options);
        if (level >= IRLevel::Memory)
          addPlanMemory(pm, options);
        if (level >= IRLevel::LLVM)
          buildLoweringPipeline(pm, options);
      }))
    return false;
  if (std::error_code code = createDirectories(directory)) {
    compilation.error = directory + ": " + code.message();
    return false;
  }
  std::string path = directory + "/" +
                     getIRLevelNames()[static_cast<size_t>(level)].str() +
                     ".mlir";
  text += "wrote     " + path + "\n";
  return writeFile(path, formatModule(program), compilation.error);
}

bool poplar::buildAlone(Compilation &compilation, const JobRequest &args,
                        Print print) {
  BuildOptions options = args.build;
  if (!args.slurm.empty()) {
    compilation.error = "--slurm: " + args.model +
                        " is a model without a plan; make one with poplar plan";
    return false;
  }
  // For poplar report, to which a run says what was trained.
  std::string model = formatModule(compilation.getModule());
  if (!checkCPU(options, compilation.error))
    return false;
  if (args.stopAfter) {
    std::string text;
    bool done =
        compilation.run(compilation.getModule(),
                        [&](mlir::OpPassManager &pm) {
                          buildBucketPipeline(pm, options);
                          buildSchedulePipeline(pm, options, *args.stopAfter);
                        }) &&
        writeLevel(compilation, compilation.getModule(), options,
                   *args.stopAfter, args.output + "/host", text);
    print(text);
    return done;
  }
  if (!compilation.run(compilation.getModule(), [&](mlir::OpPassManager &pm) {
        buildPlanPipeline(pm, options);
      }))
    return false;
  print(formatMemory(compilation.getModule()));
  std::string report;
  return compilation.emit(compilation.getModule(), options,
                          args.output + "/host", report) &&
         copyPlugins(options.libraryDirectory, args.output,
                     compilation.error) &&
         copyTokenizer(compilation.getModule(), args.output,
                       compilation.error) &&
         writeFile(args.output + "/plan.mlir", model, compilation.error);
}

/// What the ranks of a type need, against what the device has.
static bool checkMemory(const TypeBuild &build, const Plan &plan,
                        int64_t available, std::string &text,
                        std::string &error) {
  for (int64_t index : findRanks(plan, build.program)) {
    int64_t batch = plan.ranks[index].share.largestStep();
    int64_t peak = getPeakBytes(build.program, index, batch);
    text += llvm::formatv("rank {0,-4} {1,-16} micro-batch {2,4}  "
                          "{3,10:f1} of {4:f1} MiB ({5} bytes)\n",
                          index, build.name, batch, peak / 1048576.0,
                          available / 1048576.0, peak);
    if (peak <= available)
      continue;
    error = llvm::formatv("rank {0} needs {1} bytes with a micro-batch of {2}, "
                          "but a device of type '{3}' has {4}; plan again with "
                          "a measured profile, or a higher --zero",
                          index, peak, batch, build.name, available);
    return false;
  }
  return true;
}

/// The child process: returns its report.
static std::string buildType(Compilation &compilation, TypeBuild &build,
                             const Plan &plan, int64_t available,
                             std::optional<IRLevel> stopAfter) {
  limitLibraries(build.options.isa);
  std::string text, kernels;
  if (stopAfter)
    return writeLevel(compilation, build.program, build.options, *stopAfter,
                      build.directory, text)
               ? "+" + text
               : compilation.error;
  if (!compilation.run(build.program,
                       [&](mlir::OpPassManager &pm) {
                         buildMemoryPipeline(pm, build.options);
                       }) ||
      !checkMemory(build, plan, available, text, compilation.error))
    return compilation.error;
  std::string attention = describeAttention(build.program, build.options);
  if (!compilation.emit(build.program, build.options, build.directory, kernels))
    return compilation.error;
  if (!attention.empty())
    text += "attention " + build.name + " (" + build.options.chip +
            "): " + attention + "\n";
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
    isGPU[rank.getDeviceType().str()] =
        !findTargetKind(type.getTarget())->isHost();
  }
  SlurmPlaces places;
  return parseSlurmPlaces(texts, places, error) &&
         formatSlurmScript(plan, places, isGPU, script, error);
}

bool poplar::buildPlanned(Compilation &compilation, const JobRequest &args,
                          Print print) {
  BuildOptions common = args.build;
  const std::string &output = args.output;
  mlir::ModuleOp module = compilation.getModule();
  std::string slurmScript;
  if (!makeSlurmScript(module, args.slurm, slurmScript, compilation.error))
    return false;
  // As it was read: a run keeps a copy, for poplar report.
  std::string planned = formatModule(module);
  if (!compilation.schedule(compilation.getModule(), common,
                            args.stopAfter.value_or(IRLevel::Zero)))
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
  llvm::outs().flush(); // or each child would print what is pending
  for (TypeBuild &build : builds) {
    Plan plan = zero::readPlan(*build.program.getOps<zero::PlanOp>().begin());
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
          buildType(compilation, build, plan, type.getMemory().value_or(0),
                    args.stopAfter);
      bool sent = ::write(ends[1], report.data(), report.size()) ==
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
      print(report.substr(1));
  }
  if (!compilation.error.empty() || args.stopAfter)
    return compilation.error.empty();
  return copyPlugins(common.libraryDirectory, output, compilation.error) &&
         copyTokenizer(builds.front().program, output, compilation.error) &&
         writeFile(output + "/plan.mlir", planned, compilation.error) &&
         writeLaunchFiles(
             *builds.front().program.getOps<zero::PlanOp>().begin(), output,
             slurmScript, compilation.error);
}
