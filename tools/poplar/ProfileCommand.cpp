//===- ProfileCommand.cpp - poplar profile --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Installation.h"
#include "Output.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Driver/Profiling.h"
#include "Poplar/Driver/RemoteCommand.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace poplar;

/// The plan; or, before it, the profile of a type that it would lack.
static void printNextStep(const ProfileRequest &args,
                          const ClusterView &cluster) {
  llvm::StringRef directory = llvm::sys::path::parent_path(args.output);
  std::vector<int> counts = cluster.countRanks();
  bool hasOthers = false;
  for (size_t i = 0; i < counts.size(); ++i) {
    const DeviceType &type = cluster.types[i];
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, type.name + ".json");
    if (counts[i] == 0 || type.name == args.deviceType)
      continue;
    bool isProfiled = !directory.empty() && llvm::sys::fs::exists(path);
    hasOthers |= isProfiled;
    // Others are estimated.
    if (!isProfiled && (type.flops.empty() || !type.bandwidth)) {
      printNext({"poplar", "profile", "--model", args.model, "--cluster",
                 args.cluster, "--device-type", type.name, "-o", path});
      return;
    }
  }
  printNext({"poplar", "plan", "--model", args.model, "--cluster", args.cluster,
             "--profiles", hasOthers ? directory : args.output,
             "--global-batch", "SAMPLES", "-o", "plan.mlir"});
}

/// The command that asks for it.
static std::vector<std::string> getWords(const ProfileRequest &args) {
  std::vector<std::string> words = {
      "profile",       "--model",       args.model, "--cluster", args.cluster,
      "--device-type", args.deviceType, "--zero",   args.stage,  "-o",
      args.output};
  if (args.maxBatch)
    words.insert(words.end(), {"--max-batch", std::to_string(args.maxBatch)});
  if (args.seconds > 0)
    words.insert(words.end(), {"--seconds", std::to_string(args.seconds)});
  if (args.loaded)
    words.push_back("--loaded");
  return words;
}

void addProfileCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "profile", "Measure how fast a device type trains a model");
  command->footer(
      "Runs the program of one rank alone with growing micro-batches, and "
      "writes its\nstep times for poplar plan --profiles. Measurements are "
      "kept in JSON.stageN.part\nuntil all are done; after an interruption, "
      "the same command continues.\n\nExamples:\n  poplar profile --model "
      "model.mlir --cluster cluster.json --device-type avx2-f32 -o "
      "profiles/avx2-f32.json\n  poplar profile --model model.mlir --cluster "
      "cluster.json --device-type sse41-f32 --zero 1 --max-batch 8 -o "
      "profiles/sse41-f32.json");
  auto args = std::make_shared<ProfileRequest>();
  command->add_option("--model", args->model, "Model, from poplar import")
      ->type_name("MODEL_MLIR")
      ->required();
  command
      ->add_option("--cluster", args->cluster,
                   "Cluster file: JSON (docs/cluster-file.md) or MLIR")
      ->type_name("CLUSTER")
      ->required();
  command
      ->add_option("--device-type", args->deviceType,
                   "Device type to measure; this machine must have it")
      ->type_name("TYPE")
      ->required();
  command->add_option("--zero", args->stage, "ZeRO stage, or all of them")
      ->check(CLI::IsMember({"all", "0", "1", "2", "3"}));
  command
      ->add_option("--max-batch", args->maxBatch,
                   "Largest micro-batch to measure, if it fits (default: the "
                   "one beyond which throughput does not grow, 64 at most)")
      ->check(CLI::Range(2, 1 << 20));
  command
      ->add_option("--seconds", args->seconds,
                   "End about then, with smaller micro-batches and fewer "
                   "repetitions (default: no limit)")
      ->type_name("X")
      ->check(CLI::Range(1.0, 1e6));
  command->add_flag("--loaded", args->loaded,
                    "Keep the other cores of the machine busy meanwhile");
  command->add_option("-o,--output", args->output, "File for the profiles")
      ->type_name("JSON")
      ->required();
  auto host = std::make_shared<std::string>();
  command
      ->add_option("--host", *host,
                   "Host that has the device, to measure there by ssh; it has "
                   "the same files (default: this machine)")
      ->type_name("HOST");
  command->callback([args, host, &status] {
    if (!host->empty() && !isThisHost(*host)) {
      std::string error;
      if (!runRemotely(*host, getOwnProgram(), getWords(*args), "", error))
        status = reportError(error);
      return;
    }
    CodeOptions libraries;
    locateLibraries(libraries);
    args->libraryDirectory = libraries.libraryDirectory;
    args->version = POPLAR_VERSION;
    Compilation compilation;
    if (!profileDeviceType(compilation, *args, [](const std::string &line) {
          llvm::outs() << line;
          llvm::outs().flush();
        })) {
      status = compilation.error.empty() ? 1 : reportError(compilation.error);
      return;
    }
    if (args->output != "-")
      printNextStep(*args, cluster::buildClusterView(compilation.getModule()));
  });
}
