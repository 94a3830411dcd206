//===- ClusterCommand.cpp - poplar cluster --------------------------------===//
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
#include "Poplar/Driver/Files.h"
#include "Poplar/Driver/RemoteCommand.h"
#include "Poplar/Import/Cluster.h"
#include "Poplar/Import/DetectGPUs.h"
#include "Poplar/Import/DeviceLibrary.h"
#include "Poplar/Import/JoinMachines.h"
#include "Poplar/Planner/Cluster/Roofline.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>
#include <optional>

using namespace poplar;

namespace {
struct Arguments {
  std::string file, profiles, job, delay, output = "-", devices, network;
  std::vector<std::string> hosts;
  bool json = false, probe = false;
};
} // namespace

/// "avx512-f32=1,sse41-f32=2"; false if it is anything else.
static bool parseDevices(llvm::StringRef text,
                         std::vector<std::pair<std::string, int>> &devices) {
  llvm::SmallVector<llvm::StringRef> entries;
  text.split(entries, ',');
  for (llvm::StringRef entry : entries) {
    auto [type, number] = entry.split('=');
    int count = 0;
    if (type.empty() || number.getAsInteger(10, count) || count < 1 ||
        count > 65536)
      return false;
    devices.emplace_back(type.str(), count);
  }
  return true;
}

static void addShowCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("show", "Check a cluster file and print it");
  command->footer("Example:\n  poplar cluster show "
                  "examples/clusters/v100-and-t4.json");
  auto args = std::make_shared<Arguments>();
  command
      ->add_option("file", args->file,
                   "Cluster file: JSON (docs/cluster-file.md) or MLIR")
      ->type_name("CLUSTER")
      ->required();
  command
      ->add_option("--profiles", args->profiles,
                   "File or directory (*.json) of profiles to add")
      ->type_name("DIR");
  command->add_flag("--json", args->json, "Print JSON instead of MLIR");
  command
      ->add_option("-o,--output", args->output,
                   "File to write; - for standard output")
      ->type_name("FILE");
  command->callback([args, &status] {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::string error;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        importCluster(args->file, context, error);
    if (!module ||
        (!args->profiles.empty() &&
         mlir::failed(applyProfiles(*module, args->profiles, error))))
      status = reportError(error);
    else
      status = writeFile(args->output, args->json ? exportClusterJSON(*module)
                                                  : formatModule(*module))
                   ? 0
                   : 1;
  });
}

/// The machine's GPUs, or else ranks on its CPU; ranks on its CPU, if devices
/// are given. Null on failure.
static mlir::OwningOpRef<mlir::ModuleOp>
detectMachine(llvm::StringRef devices, bool probes, mlir::MLIRContext &context,
              std::string &error) {
  if (devices.empty()) {
    GPUMachine gpus;
    bool missing = false;
    if (mlir::succeeded(detectGPUs(gpus, missing, error))) {
      std::optional<LinkProbe> probe;
      if (probes && gpus.gpus.size() > 1 &&
          mlir::failed(probeLinks(probe.emplace(), error)))
        return {};
      if (!gpus.gpus.empty())
        return describeGPUs(gpus, probe, context, error);
    } else if (!missing) {
      error += "; --devices host=1 leaves GPUs out";
      return {};
    }
    devices = "host=1";
  }
  if (probes) {
    error = "--probe measures links between GPUs, and these are ranks on the "
            "CPU; poplar cluster links measures those of a job";
    return {};
  }
  std::vector<std::pair<std::string, int>> ranks;
  if (!parseDevices(devices, ranks)) {
    error = "--devices: expected TYPE=N,... with N from 1 to 65536, found '" +
            devices.str() + "'";
    return {};
  }
  HostMachine machine;
  if (mlir::failed(detectHost(machine, error)))
    return {};
  return describeHost(machine, ranks, context, error);
}

/// "LATENCY_US,BANDWIDTH_GBPS"; nothing if it is anything else.
static std::optional<NetworkSpeed> parseNetwork(llvm::StringRef text) {
  // 1 Gbit/s.
  if (text.empty())
    return NetworkSpeed{5e-5, 1.25e8,
                        "assumed of 1 Gbit/s Ethernet, not measured"};
  auto [latency, bandwidth] = text.split(',');
  NetworkSpeed network{0, 0, "as the user says"};
  if (latency.getAsDouble(network.latency) ||
      bandwidth.getAsDouble(network.bandwidth) || !(network.latency >= 0) ||
      !(network.bandwidth > 0))
    return std::nullopt;
  network.latency *= 1e-6;
  network.bandwidth *= 1e9;
  return network;
}

/// What a command of poplar prints on a host, as a cluster.
static mlir::OwningOpRef<mlir::ModuleOp>
detectRemotely(const std::string &host, const std::vector<std::string> &words,
               mlir::MLIRContext &context, std::string &error) {
  llvm::SmallString<128> file;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("poplar-cluster", "json", file)) {
    error = "a temporary file: " + code.message();
    return {};
  }
  llvm::FileRemover remover(file);
  if (!runRemotely(host, getOwnProgram(), words, file.str().str(), error))
    return {};
  return importCluster(file, context, error);
}

/// The machines behind these names, each of which detects its own devices.
static mlir::OwningOpRef<mlir::ModuleOp> detectHosts(const Arguments &args,
                                                     mlir::MLIRContext &context,
                                                     std::string &error) {
  std::optional<NetworkSpeed> network = parseNetwork(args.network);
  if (!network) {
    error = "--network expects LATENCY_US,BANDWIDTH_GBPS, not '" +
            args.network + "'";
    return {};
  }
  std::vector<std::string> words = {"cluster", "detect"};
  if (!args.devices.empty())
    words.insert(words.end(), {"--devices", args.devices});
  if (args.probe)
    words.push_back("--probe");
  std::vector<DetectedMachine> machines;
  for (const std::string &host : args.hosts) {
    machines.push_back(
        {host, isThisHost(host)
                   ? detectMachine(args.devices, args.probe, context, error)
                   : detectRemotely(host, words, context, error)});
    if (!machines.back().cluster)
      return {};
  }
  return joinMachines(machines, *network, context, error);
}

/// The commands that measure what was detected and has devices.
static void printProfiling(mlir::ModuleOp module, const std::string &path) {
  ClusterView cluster = cluster::buildClusterView(module);
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type)
    if (counts[type] > 0)
      printNext({"poplar", "profile", "--model", "MODEL_MLIR", "--cluster",
                 path, "--device-type", cluster.types[type].name, "-o",
                 "profiles/" + cluster.types[type].name + ".json"});
}

static void addDetectCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("detect", "Write the cluster file of this machine");
  command->footer("Describes the GPUs that NVIDIA's management library "
                  "reports: types, memory, and links\n(NVLink or PCIe) by "
                  "their specifications. Without GPUs, or with --devices, "
                  "describes the\nCPU: every host type whose instructions it "
                  "has. Ranks share cores and memory equally.\n\nExamples:\n  "
                  "poplar cluster detect -o cluster.json\n  poplar cluster "
                  "detect --devices avx2-f32=1,sse41-f32=1 -o cluster.json");
  auto args = std::make_shared<Arguments>();
  command
      ->add_option("--devices", args->devices,
                   "Ranks of each type on the CPU (default: the GPUs, or one "
                   "rank of type host if there are none)")
      ->type_name("TYPE=N,...");
  CLI::Option *hosts =
      command
          ->add_option("--hosts", args->hosts,
                       "Hosts to ask by ssh, and to join into one cluster "
                       "(default: this machine alone)")
          ->type_name("HOST,...")
          ->delimiter(',');
  command
      ->add_option("--network", args->network,
                   "Speed of the network between the hosts (default: "
                   "50,0.125, which is 1 Gbit/s; poplar cluster links measures "
                   "it)")
      ->type_name("LATENCY_US,BANDWIDTH_GBPS")
      ->needs(hosts);
  command->add_flag(
      "--probe", args->probe,
      "Measure the links between GPUs instead of using their specifications");
  command
      ->add_option("-o,--output", args->output,
                   "File to write; - for standard output")
      ->type_name("FILE");
  command->callback([args, &status] {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::string error;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        args->hosts.empty()
            ? detectMachine(args->devices, args->probe, context, error)
            : detectHosts(*args, context, error);
    if (!module) {
      status = reportError(error);
      return;
    }
    status = writeFile(args->output, exportClusterJSON(*module)) ? 0 : 1;
    if (status == 0 && args->output != "-")
      printProfiling(*module, args->output);
  });
}

static void addLinksCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "links", "Measure the links between the nodes of a job");
  command->footer(
      "Starts the ranks where they would train. Measures messages between "
      "every two kinds of\nnodes and inside nodes, and collectives of all "
      "ranks. If the file lies among the\nprofiles, its links replace those of "
      "the cluster file.\n\nExample:\n  poplar cluster links job -o "
      "profiles/links.json");
  auto args = std::make_shared<Arguments>();
  command->add_option("job", args->job, "Directory written by poplar build")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--link-delay", args->delay,
                   "Delay messages between nodes as a link of this speed would")
      ->type_name("LATENCY_US,BANDWIDTH_GBPS");
  command->add_option("-o,--output", args->output, "File for the links")
      ->type_name("JSON")
      ->required();
  command->callback([args, &status] {
    std::vector<std::string> arguments = {"links", "--out", args->output};
    if (!args->delay.empty())
      arguments.insert(arguments.end(), {"--link-delay", args->delay});
    status = startJob(args->job, std::move(arguments));
  });
}

/// FLOP/s of large products in a training step, in the best of its formats.
static double estimateProducts(const DeviceSpecification &device) {
  DeviceType type;
  type.target = device.target;
  type.precision = findTargetInfo(device.target)->formats.front();
  type.flops = device.flops;
  type.bandwidth = device.bandwidth;
  type.power = device.power;
  std::optional<Roofline> roofline = Roofline::get(type);
  return roofline ? roofline->getProductRate() : 0;
}

/// One line per device. A rate that a device does not have is a dash.
static std::string formatDevices(const DeviceLibrary &library) {
  constexpr const char *row =
      "{0,-17} {1,-11} {2,7} {3,8} {4,8} {5,6} {6,7} {7,7} {8,7} {9,8} {10,6}  "
      "{11,-16}{12}";
  auto formatLine = [&](auto &&...cells) {
    std::string line = llvm::formatv(row, cells...).str();
    return llvm::StringRef(line).rtrim().str() + "\n";
  };
  std::string text =
      formatLine("device", "target", "memory", "usable", "memory", "power",
                 "f32", "bf16", "f16", "training", "link", "", "") +
      formatLine("", "", "GiB", "GiB", "GB/s", "W", "TFLOP/s", "TFLOP/s",
                 "TFLOP/s", "TFLOP/s", "GB/s", "", "");
  for (const DeviceSpecification &device : library.getDevices()) {
    auto formatRate = [&](NumberFormat format) {
      auto rate = device.flops.find(format);
      return rate == device.flops.end()
                 ? std::string("-")
                 : llvm::formatv("{0:f1}", rate->second / 1e12).str();
    };
    text += formatLine(
        device.key, device.target,
        llvm::formatv("{0:f1}", device.memory * 0x1p-30).str(),
        llvm::formatv("{0:f1}", device.getUsableMemory() * 0x1p-30).str(),
        llvm::formatv("{0:f0}", device.bandwidth / 1e9).str(),
        llvm::formatv("{0:f0}", device.power).str(),
        formatRate(NumberFormat::F32), formatRate(NumberFormat::BF16),
        formatRate(NumberFormat::F16),
        llvm::formatv("{0:f1}", estimateProducts(device) / 1e12).str(),
        llvm::formatv("{0:f1}", device.linkBandwidth / 1e9).str(),
        device.linkKind, device.flopsSource);
  }
  return text +
         "\nLinks are inside a node, per direction. Rates are dense, with "
         "f32 sums; their source is last.\nTraining: what large products "
         "are estimated to reach in a training step (docs/estimates.md)."
         "\nReserved memory: " +
         library.getReservedSource() +
         ".\nThe source of every figure: poplar cluster devices --json\n";
}

static void addDevicesCommand(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("devices", "List the devices in the device library");
  command->footer("A cluster file may name these devices:\n  \"device_types\": "
                  "{\"mine\": {\"device\": \"a100-40\"}}\n\nExample:\n  poplar "
                  "cluster devices --json");
  auto args = std::make_shared<Arguments>();
  command->add_flag("--json", args->json,
                    "Print the file of the library, with all sources");
  command
      ->add_option("-o,--output", args->output,
                   "File to write; - for standard output")
      ->type_name("FILE");
  command->callback([args, &status] {
    std::string error;
    const DeviceLibrary *library = getDeviceLibrary(error);
    if (!library)
      status = reportError(error);
    else
      status = writeFile(args->output, args->json ? getDeviceLibraryText()
                                                  : formatDevices(*library))
                   ? 0
                   : 1;
  });
}

void addClusterCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "cluster", "Print, check, convert, detect or measure a cluster");
  command->footer("Cluster files are described in docs/cluster-file.md.\n\n"
                  "Example:\n  poplar cluster show "
                  "examples/clusters/home-lab.json");
  command->require_subcommand(1);
  addShowCommand(*command, status);
  addDetectCommand(*command, status);
  addLinksCommand(*command, status);
  addDevicesCommand(*command, status);
}
