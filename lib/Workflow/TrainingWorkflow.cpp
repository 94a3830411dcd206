//===- TrainingWorkflow.cpp - From a model to a trained one ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Workflow/TrainingWorkflow.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Driver/Compilation.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Driver/RemoteCommand.h"
#include "Poplar/Driver/RunState.h"
#include "Poplar/Import/Cluster.h"
#include "Poplar/Support/CacheDirectory.h"
#include "Poplar/Support/Names.h"
#include "Poplar/Support/Text.h"
#include "Poplar/Workflow/StageRunner.h"
#include "Verdict.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

using namespace poplar;
namespace fs = llvm::sys::fs;

/// What a shell says of a command that Ctrl-C ended.
static constexpr int kStoppedStatus = 130;

namespace {

class TrainingWorkflow {
public:
  TrainingWorkflow(const TrainingRequest &request, std::string &error)
      : request(request), error(error), setup(request.output + "/setup"),
        runner(request.program, request.version, setup + "/stages.json") {}
  StageEnd run();
  const StageRunner &getRunner() const { return runner; }

private:
  bool prepare();
  StageEnd describeCluster();
  StageEnd importModel();
  StageEnd checkData();
  std::string findProfiler(int type) const;
  StageEnd profileTypes();
  StageEnd plan();
  StageEnd giveVerdict();
  StageEnd findAlone(const std::string &type, std::optional<double> &seconds);
  StageEnd build();
  bool checkOneCPU();
  bool checkPrecision();
  StageEnd train();
  void printNext() const;

  /// A device that nothing can be shared with, and that a program can be built
  /// for without a plan.
  bool isOneCPU() const {
    return cluster.ranks.size() == 1 &&
           llvm::StringRef(cluster.types[cluster.ranks[0].type].target)
               .starts_with("host");
  }
  bool hasCheckpoint() const { return fs::exists(request.output + "/latest"); }
  std::string getPath(llvm::StringRef name) const {
    return setup + "/" + name.str();
  }
  std::vector<std::string> getPlanWords() const;

  const TrainingRequest &request;
  std::string &error;
  const std::string setup;
  StageRunner runner;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> clusterModule;
  ClusterView cluster;
  std::string clusterFile, profiles;
  bool estimates = false;
};

} // namespace

static std::vector<std::string> join(std::vector<std::string> words,
                                     const std::vector<std::string> &more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The files beside a configuration that `poplar import` reads, or any other
/// small ones there.
static std::vector<std::string> listModelFiles(const std::string &model) {
  if (!fs::is_directory(model))
    return {model};
  std::vector<std::string> files;
  std::error_code code;
  for (fs::directory_iterator entry(model, code), end; entry != end && !code;
       entry.increment(code)) {
    llvm::StringRef extension = llvm::sys::path::extension(entry->path());
    if (llvm::is_contained({".json", ".jinja", ".model", ".txt"}, extension))
      files.push_back(entry->path());
  }
  llvm::sort(files);
  return files;
}

bool TrainingWorkflow::prepare() {
  if (hasCheckpoint() && !fs::exists(getPath("stages.json"))) {
    error = request.output + ": holds a run that poplar " + request.command +
            " did not make; poplar train continues it, or choose another --out";
    return false;
  }
  if (std::error_code code = createDirectories(setup)) {
    error = setup + ": " + code.message();
    return false;
  }
  return true;
}

StageEnd TrainingWorkflow::describeCluster() {
  clusterFile = request.cluster;
  if (clusterFile.empty()) {
    clusterFile = getPath("cluster.json");
    std::vector<std::string> words = {"cluster", "detect"};
    if (!request.devices.empty())
      words = join(words, {"--devices", request.devices});
    if (!request.hosts.empty())
      words = join(words, {"--hosts", llvm::join(request.hosts, ",")});
    if (!request.network.empty())
      words = join(words, {"--network", request.network});
    StageEnd end = runner.run(
        {"cluster", join(words, {"-o", clusterFile}), {}, {clusterFile}});
    if (end != StageEnd::Done)
      return end;
  }
  clusterModule = importCluster(clusterFile, context, error);
  if (!clusterModule)
    return StageEnd::Failed;
  cluster = cluster::buildClusterView(*clusterModule);
  std::string devices;
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type)
    if (counts[type] > 0)
      devices += (devices.empty() ? "" : ", ") + std::to_string(counts[type]) +
                 " " + cluster.types[type].name;
  llvm::outs() << "devices   " << devices << "\n";
  return StageEnd::Done;
}

StageEnd TrainingWorkflow::importModel() {
  std::vector<std::string> words =
      join(join({"import", request.model}, request.importWords),
           {"-o", getPath("model.mlir")});
  std::vector<std::string> before = runner.getRecorded("import");
  if (hasCheckpoint() && !before.empty() && before != words) {
    error = request.output + ": holds a run of another model, which `poplar " +
            llvm::join(before, " ") +
            "` made; continue it with the same options, or choose another "
            "--out";
    return StageEnd::Failed;
  }
  return runner.run({"import",
                     words,
                     listModelFiles(request.model),
                     {getPath("model.mlir")}});
}

/// Reads all rows before minutes are spent on profiles: a program for this CPU
/// is made in seconds, and knows what the model takes.
StageEnd TrainingWorkflow::checkData() {
  std::string program = getPath("check");
  StageEnd end = runner.run({"check",
                             {"build", getPath("model.mlir"), "-o", program},
                             {getPath("model.mlir")},
                             {program + "/host/train"}});
  if (end != StageEnd::Done)
    return end;
  return runner.run(
      {"data",
       join(join({"train", program}, request.trainWords), {"--check-data"}),
       request.data,
       {}});
}

/// In the cache, by what a profile depends on: the machine, the model, what
/// code is generated for, and the version; beside the setup if there is no
/// cache. Not by memory, which is what happens to be free.
static std::string getProfileDirectory(const std::string &setup, bool isShared,
                                       const ClusterView &cluster,
                                       const std::string &rest) {
  std::string cache = findCacheDirectory();
  if (cache.empty() || isShared)
    return setup + "/profiles";
  std::string key = getHostName() + "\n" + rest;
  std::vector<int> counts = cluster.countRanks();
  for (size_t i = 0; i < counts.size(); ++i) {
    const DeviceType &type = cluster.types[i];
    if (counts[i] > 0)
      key += llvm::formatv("\n{0} {1} {2} {3} {4} {5}", counts[i], type.name,
                           type.target, toString(type.precision),
                           toString(type.recompute), type.threads.value_or(0));
  }
  return cache + "/profiles/" +
         llvm::utohexstr(llvm::xxh3_64bits(key), /*LowerCase=*/true, 16);
}

/// The node that measures a type: one of this machine, or else of a host that
/// ssh reaches; empty if there is none.
std::string TrainingWorkflow::findProfiler(int type) const {
  std::string remote;
  for (ClusterRank rank : cluster.ranks) {
    const std::string &node = cluster.nodes[rank.node].name;
    if (rank.type != type)
      continue;
    if (isThisHost(node))
      return node;
    if (remote.empty() && llvm::is_contained(request.hosts, node))
      remote = node;
  }
  return remote;
}

StageEnd TrainingWorkflow::profileTypes() {
  Compilation compilation;
  if (!compilation.load(getPath("model.mlir"))) {
    error = compilation.error;
    return StageEnd::Failed;
  }
  std::string seconds = std::to_string(request.profileSeconds);
  std::string directory =
      getProfileDirectory(setup, !request.hosts.empty(), cluster,
                          nn::getFingerprint(compilation.getModule()) + " " +
                              request.version + " " + seconds);
  std::vector<int> counts = cluster.countRanks();
  for (size_t i = 0; i < counts.size(); ++i) {
    const DeviceType &type = cluster.types[i];
    bool isKnown = !type.flops.empty() && type.bandwidth;
    if (counts[i] == 0)
      continue;
    std::string profiler = findProfiler(static_cast<int>(i));
    if (isKnown && (request.estimates || profiler.empty())) {
      estimates = true;
      continue;
    }
    std::string file = directory + "/" + type.name + ".json";
    std::vector<std::string> words = {
        "profile",   "--model",   getPath("model.mlir"),
        "--cluster", clusterFile, "--device-type",
        type.name,   "--seconds", seconds,
        "-o",        file};
    profiles = directory;
    if (!profiler.empty() && !isThisHost(profiler))
      words = join(words, {"--host", profiler});
    // Other runs have measured it.
    if (fs::exists(file)) {
      llvm::outs() << "profile   done: " << file << "\n";
      continue;
    }
    if (profiler.empty()) {
      error = "device type '" + type.name +
              "' has neither specifications nor a device on this machine: on a "
              "machine that has one, run poplar " +
              llvm::join(words, " ") + ", and copy the file here";
      return StageEnd::Failed;
    }
    StageEnd end = runner.run(
        {"profile", words, {getPath("model.mlir"), clusterFile}, {file}});
    if (end != StageEnd::Done)
      return end;
  }
  return StageEnd::Done;
}

std::vector<std::string> TrainingWorkflow::getPlanWords() const {
  std::vector<std::string> words = {"--global-batch", request.globalBatch};
  if (request.globalBatch.empty())
    words[1] = std::to_string(request.deviceBatch *
                              static_cast<int64_t>(cluster.ranks.size()) /
                              request.batchDevices);
  if (!profiles.empty())
    words = join(words, {"--profiles", profiles});
  if (!request.recompute.empty())
    words = join(words, {"--recompute", request.recompute});
  return words;
}

StageEnd TrainingWorkflow::plan() {
  int64_t samples =
      request.deviceBatch * static_cast<int64_t>(cluster.ranks.size());
  if (request.globalBatch.empty() && samples % request.batchDevices) {
    error = llvm::formatv("--device-batch {0}/{1} gives {2} devices no whole "
                          "number of samples; give --global-batch",
                          request.deviceBatch, request.batchDevices,
                          cluster.ranks.size())
                .str();
    return StageEnd::Failed;
  }
  std::string file = getPath("plan.mlir"), json = getPath("plan.json");
  std::vector<std::string> words = join(
      join({"plan", "--model", getPath("model.mlir"), "--cluster", clusterFile},
           getPlanWords()),
      join(request.planWords, {"-o", file, "--json", json}));
  std::vector<std::string> inputs = {getPath("model.mlir"), clusterFile};
  std::vector<int> counts = cluster.countRanks();
  for (size_t i = 0; i < counts.size() && !profiles.empty(); ++i)
    if (counts[i] > 0)
      inputs.push_back(profiles + "/" + cluster.types[i].name + ".json");
  StageEnd end = runner.run({"plan", words, inputs, {file, json}});
  return end == StageEnd::Done ? giveVerdict() : end;
}

/// The cluster file with one device of a type.
static std::string formatAlone(mlir::ModuleOp cluster, llvm::StringRef type) {
  mlir::OwningOpRef<mlir::ModuleOp> alone = cluster.clone();
  for (mlir::Operation &op : llvm::make_early_inc_range(*alone->getBody()))
    if (llvm::isa<cluster::NodeOp, cluster::LinkOp>(op))
      op.erase();
  auto builder = mlir::OpBuilder::atBlockEnd(alone->getBody());
  mlir::Attribute device =
      mlir::FlatSymbolRefAttr::get(builder.getContext(), type);
  cluster::NodeOp::create(builder, alone->getLoc(),
                          builder.getStringAttr("alone"),
                          builder.getArrayAttr(device));
  return exportClusterJSON(*alone);
}

/// Seconds of an iteration on one device of the type; none if it cannot hold
/// the job.
StageEnd TrainingWorkflow::findAlone(const std::string &type,
                                     std::optional<double> &seconds) {
  std::string prefix = getPath("alone/" + type), file = prefix + ".json",
              json = prefix + ".plan.json";
  if (!writeFile(file, formatAlone(*clusterModule, type), error))
    return StageEnd::Failed;
  StageEnd end = runner.runAlways(
      join({"plan", "--model", getPath("model.mlir"), "--cluster", file,
            "--policy", "exact", "--json", json},
           getPlanWords()),
      /*output=*/prefix + ".log");
  if (end == StageEnd::Done)
    if (std::optional<PlannedJob> job = readPlannedJob(json, error))
      seconds = job->seconds;
  return end == StageEnd::Stopped ? end : StageEnd::Done;
}

StageEnd TrainingWorkflow::giveVerdict() {
  std::optional<PlannedJob> job = readPlannedJob(getPath("plan.json"), error);
  if (!job)
    return StageEnd::Failed;
  if (std::error_code code = createDirectories(getPath("alone"))) {
    error = getPath("alone") + ": " + code.message();
    return StageEnd::Failed;
  }
  std::map<std::string, double> alone;
  std::map<std::string, int64_t> memory;
  std::vector<int> counts = cluster.countRanks();
  for (size_t i = 0; i < counts.size(); ++i) {
    const DeviceType &type = cluster.types[i];
    memory[type.name] = type.memory;
    std::optional<double> seconds;
    if (counts[i] > 0)
      if (StageEnd end = findAlone(type.name, seconds); end != StageEnd::Done)
        return end;
    if (seconds)
      alone[type.name] = *seconds;
  }
  llvm::outs() << formatVerdict(*job, alone, memory,
                                estimates ? "estimated" : "measured");
  return StageEnd::Done;
}

StageEnd TrainingWorkflow::build() {
  std::string job = getPath("job");
  if (!isOneCPU()) {
    std::vector<std::string> outputs = {job + "/launch.sh", job + "/ranks.txt"};
    return runner.run({"build",
                       {"build", getPath("plan.mlir"), "-o", job},
                       {getPath("plan.mlir")},
                       outputs});
  }
  std::vector<std::string> words = {"build", getPath("model.mlir"), "-o", job};
  if (!request.recompute.empty())
    words = join(words, {"--recompute", request.recompute});
  if (!request.precision.empty())
    words = join(words, {"--precision", request.precision});
  return runner.run(
      {"build", words, {getPath("model.mlir")}, {job + "/host/train"}});
}

/// Whether the last checkpoint of a run is that of its last step; a run that
/// was told to stop ends well, too.
static bool hasAllSteps(const std::string &run) {
  std::optional<RunState> state = readRunState(run);
  return state && state->step == state->lastStep;
}

/// Options that would do nothing for one CPU.
bool TrainingWorkflow::checkOneCPU() {
  llvm::StringRef batch = getPlanWords()[1];
  if (!request.planWords.empty())
    error = request.planWords.front() +
            " is for a plan of several devices, and this is one CPU";
  else if (batch.ends_with("tok"))
    error = "--global-batch: one CPU takes a number of samples, not tokens";
  return error.empty();
}

/// The cluster file says the format of a plan's devices.
bool TrainingWorkflow::checkPrecision() {
  for (ClusterRank rank : cluster.ranks) {
    const DeviceType &type = cluster.types[rank.type];
    std::string own = toString(type.precision);
    if (request.precision.empty() || own == request.precision)
      continue;
    error = "--precision " + request.precision + ": " + clusterFile + " has '" +
            type.name + "' compute in " + own +
            "; change `precision` in a cluster file of your own (--cluster), "
            "or leave the option out";
    return false;
  }
  return true;
}

StageEnd TrainingWorkflow::train() {
  std::vector<std::string> words =
      join({"train", getPath("job")}, request.trainWords);
  words = join(words, {"--out", request.output});
  if (request.startsFromWeights)
    words = join(words, {"--init", request.model});
  if (isOneCPU())
    words = join(words, {"--global-batch", getPlanWords()[1]});
  // From the start where there is no checkpoint.
  words.push_back("--resume");
  std::string times;
  double sum = 0;
  for (const auto &[name, seconds] : runner.getSeconds()) {
    sum += seconds;
    times += llvm::formatv("{0}{1} {2:f1}", times.empty() ? "" : ", ", name,
                           seconds);
  }
  llvm::outs() << llvm::formatv("ready     after {0:f1} s: {1}\n", sum, times);
  // A run that may end early has ended where it says so.
  StageEnd end =
      runner.run({"train", words, request.data, {}, [&] {
                    return request.mayEndEarly || hasAllSteps(request.output);
                  }});
  if (end == StageEnd::Done)
    printNext();
  return end;
}

void TrainingWorkflow::printNext() const {
  bool hasBest = fs::exists(request.output + "/best");
  std::string run = formatWord(request.output);
  std::string chosen = hasBest ? formatWord(request.output + "/best") : run;
  bool hasAdapters = fs::exists(request.output + "/latest/adapter_config.json");
  llvm::outs() << "next: poplar sample " << chosen
               << (request.startsFromWeights ? " --chat" : " --prompt")
               << " TEXT\n";
  bool isPart = fs::exists(request.output + "/latest/trained.safetensors");
  if (hasAdapters || isPart)
    llvm::outs() << (hasAdapters ? "or, for a model without adapters"
                                 : "or, for a model with its frozen weights")
                 << ": poplar merge " << chosen << " -o merged\n";
  if (request.startsFromWeights)
    llvm::outs() << "or, for llama.cpp: poplar export " << chosen
                 << " -o model.gguf\n";
  llvm::outs() << "or, for a page about the run: poplar report " << run
               << " -o report.html\n";
}

StageEnd TrainingWorkflow::run() {
  if (!prepare())
    return StageEnd::Failed;
  if (StageEnd end = describeCluster(); end != StageEnd::Done)
    return end;
  if (isOneCPU() ? !checkOneCPU() : !checkPrecision())
    return StageEnd::Failed;
  using Step = StageEnd (TrainingWorkflow::*)();
  std::vector<Step> steps = {&TrainingWorkflow::importModel};
  if (!isOneCPU())
    steps.insert(steps.end(),
                 {&TrainingWorkflow::checkData, &TrainingWorkflow::profileTypes,
                  &TrainingWorkflow::plan});
  steps.insert(steps.end(),
               {&TrainingWorkflow::build, &TrainingWorkflow::train});
  for (Step step : steps)
    if (StageEnd end = (this->*step)(); end != StageEnd::Done)
      return end;
  return StageEnd::Done;
}

int poplar::runTraining(const TrainingRequest &request, std::string &error) {
  TrainingWorkflow workflow(request, error);
  StageEnd end = workflow.run();
  if (error.empty())
    error = workflow.getRunner().getError();
  switch (end) {
  case StageEnd::Done:
    return 0;
  case StageEnd::Stopped:
    llvm::outs() << "stopped; the same command continues\n";
    return kStoppedStatus;
  case StageEnd::Failed:
    return 1;
  }
  llvm_unreachable("all ends are handled");
}
