//===- Profiling.cpp - Programs that measure themselves -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Profiling.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Driver/Launch.h"
#include "Poplar/Driver/ProgramOptions.h"
#include "Poplar/Driver/RemoteCommand.h"
#include "Poplar/Import/Cluster.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <chrono>

using namespace poplar;

namespace {

/// Removed, with what is in it, at the end.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    code = llvm::sys::fs::createUniqueDirectory("poplar-profile", path);
  }
  ~TemporaryDirectory() {
    if (!code)
      llvm::sys::fs::remove_directories(path);
  }
  std::string getPath(const llvm::Twine &name) const {
    return (path + "/" + name).str();
  }

  llvm::SmallString<128> path;
  std::error_code code;
};

/// One run. Functions return false on failure, with `compilation.error` set
/// unless the executable has said what is wrong.
class Profiling {
public:
  Profiling(Compilation &compilation, const ProfileRequest &args,
            llvm::function_ref<void(const std::string &)> print)
      : compilation(compilation), args(args), print(print) {}
  bool run();

private:
  bool prepare();
  bool findMemory();
  bool profileStages(int first, int last);
  bool profileStage(int stage, double seconds);
  bool measure(int stage, int64_t rank, const std::string &executable,
               double seconds);
  cluster::ProfileOp findProfile(int stage);
  void takeOver(int from, int first, int last);
  void complete(cluster::ProfileOp profile);
  mlir::OwningOpRef<mlir::ModuleOp> makeProgram(int stage, bool alone,
                                                BuildOptions &options);
  int64_t getMaxBatch() const { return args.maxBatch ? args.maxBatch : 64; }
  /// What a stage has measured, until all is done.
  std::string getJournal(int stage) const {
    return args.output + ".stage" + std::to_string(stage) + ".part";
  }

  Compilation &compilation;
  const ProfileRequest &args;
  llvm::function_ref<void(const std::string &)> print;
  ClusterView cluster;
  cluster::DeviceTypeOp type;
  std::string machine;
  /// Bytes of a rank that is alone.
  int64_t fixedBytes = 0, bytesPerSample = 0;
  TemporaryDirectory directory;
};

} // namespace

/// A plan of the cluster's ranks, or of one device of the type alone, with the
/// same micro-batch for all.
static Plan makePlan(const ClusterView &cluster, int stage, int64_t batch,
                     std::optional<int> alone) {
  std::vector<ClusterRank> ranks = cluster.ranks;
  if (alone) {
    llvm::erase_if(ranks,
                   [&](ClusterRank rank) { return rank.type != *alone; });
    ranks.resize(1);
  }
  Plan plan;
  plan.policy = "profile";
  plan.groups.front().zeroStage = stage;
  plan.globalBatch = static_cast<int64_t>(ranks.size()) * batch;
  for (ClusterRank rank : ranks) {
    const DeviceType &type = cluster.types[rank.type];
    plan.ranks.push_back({type.name,
                          cluster.nodes[rank.node].name,
                          {batch, 1, batch},
                          type.threads.value_or(1)});
  }
  return plan;
}

/// Checks what was asked for, before anything takes time.
bool Profiling::prepare() {
  std::string &error = compilation.error;
  if (!compilation.load(args.model))
    return false;
  mlir::ModuleOp module = compilation.getModule();
  if (mlir::failed(applyClusterFile(module, args.cluster, error)))
    return false;
  // What is known already is no input.
  for (auto profile :
       llvm::make_early_inc_range(module.getOps<cluster::ProfileOp>()))
    profile.erase();
  cluster = cluster::buildClusterView(module);
  std::optional<int> index = cluster.findType(args.deviceType);
  if (!index || cluster.countRanks()[*index] == 0) {
    std::string known;
    std::vector<int> counts = cluster.countRanks();
    for (size_t other = 0; other < counts.size(); ++other)
      if (counts[other])
        known += (known.empty() ? "" : ", ") + cluster.types[other].name;
    error = args.cluster + ": has no device of type '" + args.deviceType +
            "' (it has: " + known + ")";
    return false;
  }
  type =
      mlir::SymbolTable(module).lookup<cluster::DeviceTypeOp>(args.deviceType);

  // The machine must be able to run what is built, and to keep what it says.
  HostMachine host;
  if (mlir::failed(detectHost(host, error)))
    return false;
  llvm::StringRef target = type.getTarget();
  std::vector<std::string> targets = getHostTypes(host);
  if (target.consume_front("host:") &&
      !llvm::is_contained(targets, target.str())) {
    error = "this machine (" + host.processor + ") cannot run " +
            type.getTarget().str() + ", so that '" + args.deviceType +
            "' cannot be profiled here; it runs " + llvm::join(targets, ", ");
    return false;
  }
  machine = llvm::formatv("{0}: {1}, {2} cores", getHostName(), host.processor,
                          host.cores);
  llvm::StringRef parent = llvm::sys::path::parent_path(args.output);
  std::error_code code;
  if (!parent.empty())
    code = createDirectories(parent);
  if (!code)
    code = llvm::sys::fs::access(parent.empty() ? "." : parent,
                                 llvm::sys::fs::AccessMode::Write);
  if (code) {
    error = args.output + ": " + code.message();
    return false;
  }
  // Not only in the end, when all is measured.
  if (llvm::sys::fs::is_directory(args.output)) {
    error = args.output + ": Is a directory";
    return false;
  }
  if (directory.code) {
    error = directory.path.str().str() + ": " + directory.code.message();
    return false;
  }
  return compilation.run(module, [](mlir::OpPassManager &pm) {
    pm.addPass(createZeroFormBuckets({BuildOptions().bucketBytes}));
  });
}

/// The type's program, planned, with the options it is compiled with.
mlir::OwningOpRef<mlir::ModuleOp>
Profiling::makeProgram(int stage, bool alone, BuildOptions &options) {
  mlir::OwningOpRef<mlir::ModuleOp> module = compilation.getModule().clone();
  zero::addPlan(*module, makePlan(cluster, stage, getMaxBatch(),
                                  alone ? cluster.findType(args.deviceType)
                                        : std::nullopt));
  if (!compilation.run(*module, [](mlir::OpPassManager &pm) {
        pm.addPass(createSpecializeDeviceTypes());
      }))
    return {};
  for (auto program : module->getOps<mlir::ModuleOp>()) {
    if (zero::ProgramInfo::get(program).deviceType != args.deviceType)
      continue;
    if (!chooseOptions(program, options, compilation.error))
      return {};
    // This process compiles for one device type, before its first use of
    // oneDNN.
    limitLibraries(options.isa);
    program->remove();
    mlir::OwningOpRef<mlir::ModuleOp> owned(program);
    if (!compilation.run(program, [&](mlir::OpPassManager &pm) {
          buildSchedulePipeline(pm, options);
          buildMemoryPipeline(pm, options);
        }))
      return {};
    return owned;
  }
  llvm_unreachable("the plan has a rank of the type");
}

bool Profiling::findMemory() {
  BuildOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> program =
      makeProgram(/*stage=*/0, /*alone=*/true, options);
  if (!program)
    return false;
  fixedBytes = getPeakBytes(*program, 0, 0);
  bytesPerSample = getPeakBytes(*program, 0, 1) - fixedBytes;
  return true;
}

bool Profiling::measure(int stage, int64_t rank, const std::string &executable,
                        double seconds) {
  std::string file = directory.getPath("profile.json"),
              memory = std::to_string(
                  cluster.types[cluster.ranks[rank].type].memory),
              index = std::to_string(rank),
              batch = std::to_string(getMaxBatch());
  std::vector<llvm::StringRef> command = {
      executable, "profile", "--rank", index,         "--memory",
      memory,     "--out",   file,     "--max-batch", batch};
  if (!args.maxBatch)
    command.push_back("--until-level");
  std::string limit = std::to_string(seconds);
  if (args.seconds > 0)
    command.insert(command.end(), {"--seconds", limit});
  if (args.loaded)
    command.push_back("--loaded");
  std::string journal = getJournal(stage),
              identity = llvm::formatv(
                  "model {0}, {1}, poplar {2}, llvm {3}, {4} {5}, {6}",
                  nn::getFingerprint(compilation.getModule()), machine,
                  args.version, LLVM_VERSION_STRING, type.getTarget(),
                  toString(type.getPrecision()), toString(type.getRecompute()));
  command.insert(command.end(), {"--journal", journal, "--identity", identity});
  std::string message;
  int status = llvm::sys::ExecuteAndWait(executable, command, std::nullopt, {},
                                         0, 0, &message);
  if (status < 0)
    compilation.error =
        llvm::formatv("the program of '{0}' in stage {1} was ended ({2}), for "
                      "want of memory perhaps; use a smaller --max-batch",
                      args.deviceType, stage, message);
  return status == 0 && mlir::succeeded(applyProfiles(compilation.getModule(),
                                                      file, compilation.error));
}

/// Adds what the executable does not know.
void Profiling::complete(cluster::ProfileOp profile) {
  mlir::Builder builder(profile.getContext());
  profile.setFixedBytes(fixedBytes);
  profile.setBytesPerSample(bytesPerSample);
  profile.setPrecision(type.getPrecision());
  profile.setRecompute(type.getRecompute());
  profile.setModel(nn::getFingerprint(compilation.getModule()));
  profile.setMachine(machine);
  profile.setSource(std::string("poplar profile; other cores ") +
                    (args.loaded ? "busy" : "idle"));
  mlir::NamedAttrList versions(profile.getVersionsAttr());
  versions.set("poplar", builder.getStringAttr(args.version));
  versions.set("llvm", builder.getStringAttr(LLVM_VERSION_STRING));
  profile.setVersionsAttr(versions.getDictionary(profile.getContext()));
}

bool Profiling::profileStage(int stage, double seconds) {
  print(llvm::formatv("profile   stage {0}: building {1}\n", stage,
                      args.deviceType));
  BuildOptions options;
  options.libraryDirectory = args.libraryDirectory;
  mlir::OwningOpRef<mlir::ModuleOp> program =
      makeProgram(stage, /*alone=*/false, options);
  std::string build = directory.getPath("stage" + llvm::Twine(stage));
  std::string kernels;
  if (!program || !compilation.emit(*program, options, build, kernels) ||
      !copyPlugins(options.libraryDirectory, directory.getPath(""),
                   compilation.error))
    return false;
  int typeIndex = *cluster.findType(args.deviceType);
  int64_t rank = llvm::find_if(cluster.ranks,
                               [&](ClusterRank other) {
                                 return other.type == typeIndex;
                               }) -
                 cluster.ranks.begin();
  return measure(stage, rank, build + "/train", seconds);
}

cluster::ProfileOp Profiling::findProfile(int stage) {
  for (auto profile : compilation.getModule().getOps<cluster::ProfileOp>())
    if (static_cast<int>(profile.getStage()) == stage)
      return profile;
  return {};
}

/// Collectives are no part of a profile, so that stages differ little in it.
void Profiling::takeOver(int from, int first, int last) {
  cluster::ProfileOp measured = findProfile(from);
  mlir::OpBuilder builder(measured->getContext());
  builder.setInsertionPointAfter(measured);
  for (int stage = first; stage <= last; ++stage) {
    auto copy =
        llvm::cast<cluster::ProfileOp>(builder.clone(*measured.getOperation()));
    copy.setStage(stage);
    copy.setSource(
        (*measured.getSource() + "; as measured in stage " + llvm::Twine(from))
            .str());
  }
  print(llvm::formatv(
      "profile   {0}: as measured in stage {1}, as the time is "
      "up\n",
      first == last ? "stage " + std::to_string(first)
                    : llvm::formatv("stages {0} to {1}", first, last).str(),
      from));
}

/// Where the time is not enough for all, stages have what an earlier one has.
bool Profiling::profileStages(int first, int last) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  auto getSeconds = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  for (int stage = first; stage <= last; ++stage) {
    Clock::time_point start = Clock::now();
    double left = args.seconds - getSeconds(begin);
    if (!profileStage(stage, std::max(left / (last - stage + 1), 0.01)))
      return false;
    cluster::ProfileOp profile = findProfile(stage);
    complete(profile);
    bool isUp = args.seconds > 0 &&
                args.seconds - getSeconds(begin) < getSeconds(start);
    if (isUp && stage < last && !profile.getMicroBatches().empty()) {
      takeOver(stage, stage + 1, last);
      return true;
    }
  }
  return true;
}

bool Profiling::run() {
  if (!prepare() || !findMemory())
    return false;
  int first = args.stage == "all" ? 0 : std::stoi(args.stage);
  int last = args.stage == "all" ? 3 : first;
  if (!profileStages(first, last))
    return false;
  mlir::OwningOpRef<mlir::ModuleOp> profiles =
      mlir::ModuleOp::create(compilation.getModule().getLoc());
  for (auto profile : llvm::make_early_inc_range(
           compilation.getModule().getOps<cluster::ProfileOp>()))
    profile->moveBefore(profiles->getBody(), profiles->getBody()->end());
  if (!writeFile(args.output, exportClusterJSON(*profiles), compilation.error))
    return false;
  for (int stage = 0; stage < 4; ++stage)
    llvm::sys::fs::remove(getJournal(stage));
  return true;
}

bool poplar::profileDeviceType(
    Compilation &compilation, const ProfileRequest &request,
    llvm::function_ref<void(const std::string &)> print) {
  return Profiling(compilation, request, print).run();
}
