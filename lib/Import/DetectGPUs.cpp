//===- DetectGPUs.cpp - Cluster files of machines with GPUs ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/DetectGPUs.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Import/DeviceLibrary.h"
#include "VendorLibrary.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace poplar;
using namespace poplar::cluster;
using llvm::StringRef;

/// What a rank cannot use: the driver's context and loaded code, and buffers of
/// the collectives. What the driver keeps for itself is not in NVML's total.
static constexpr int64_t kReservedBytes = int64_t(1) << 30;
/// Two GPUs of which one is told to have this much more memory are unlike.
static constexpr double kMemoryTolerance = 0.12;

/// Bytes per second of a lane, in one direction: transfers per second times the
/// share of bits that carry data (PCI Express Base Specification 6.0).
static double getLaneRate(unsigned generation) {
  constexpr double rates[] = {0,
                              2.5e9 * 0.8,
                              5e9 * 0.8,
                              8e9 * 128 / 130,
                              16e9 * 128 / 130,
                              32e9 * 128 / 130,
                              64e9 * 242 / 256};
  return rates[std::min<size_t>(generation, std::size(rates) - 1)] / 8;
}

/// Bytes per second of a link, in one direction: NVIDIA's white papers on
/// Pascal (NVLink 1), Volta (2), Ampere (3), Hopper (4) and Blackwell (5).
static double getNVLinkRate(unsigned version) {
  return version >= 5 ? 50e9 : version >= 2 ? 25e9 : 20e9;
}

/// Whether a GPU is divided into slices (MIG); those that can be seen.
static bool findSlices(const nvidia::ManagementLibrary &library,
                       nvidia::Handle device,
                       std::vector<nvidia::Handle> &slices) {
  unsigned now = 0, next = 0, most = 0;
  if (!library.nvmlDeviceGetMigMode ||
      library.nvmlDeviceGetMigMode(device, &now, &next) || now != 1)
    return false;
  if (library.nvmlDeviceGetMaxMigDeviceCount &&
      library.nvmlDeviceGetMigDeviceHandleByIndex &&
      !library.nvmlDeviceGetMaxMigDeviceCount(device, &most))
    for (unsigned i = 0; i < most; ++i)
      if (nvidia::Handle slice = nullptr;
          !library.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &slice))
        slices.push_back(slice);
  return true;
}

/// The one slice of a machine's one GPU. CUDA shows a program no other slice,
/// and no GPU beside it.
static bool detectSlice(const nvidia::ManagementLibrary &library,
                        nvidia::Handle device,
                        const std::vector<nvidia::Handle> &slices,
                        unsigned numGPUs, DetectedGPU &gpu,
                        std::string &error) {
  char name[96] = "";
  nvidia::MemoryInfo memory;
  int major = 0, minor = 0;
  library.nvmlDeviceGetName(device, name, sizeof(name));
  bool hasCapability =
      !library.nvmlDeviceGetCudaComputeCapability(device, &major, &minor);
  gpu.capability = major * 10 + minor;
  if (hasCapability && numGPUs == 1 && slices.size() == 1 &&
      !library.nvmlDeviceGetMemoryInfo(slices.front(), &memory)) {
    gpu.name = name + std::string(" MIG");
    if (!library.nvmlDeviceGetName(slices.front(), name, sizeof(name)) &&
        StringRef(name).contains("MIG"))
      gpu.name = name;
    gpu.memory = static_cast<int64_t>(memory.total);
    return true;
  }
  error =
      std::string("GPU '") + name +
      "' is divided into MIG slices, of which NVIDIA's management library "
      "shows " +
      std::to_string(slices.size()) +
      (numGPUs > 1 ? ", on a machine of " + std::to_string(numGPUs) + " GPUs"
                   : "") +
      "; only one slice of one GPU, whose memory can be read, is "
      "described: give the container one slice, switch MIG off, or write "
      "the device type by hand, with \"target\": \"cuda:sm_" +
      std::to_string(gpu.capability) +
      "\" and the memory of a slice that nvidia-smi -L lists "
      "(docs/cluster-file.md)";
  return false;
}

static bool detectGPU(const nvidia::ManagementLibrary &library,
                      nvidia::Handle device, DetectedGPU &gpu) {
  char name[96] = "";
  nvidia::MemoryInfo memory;
  int major = 0, minor = 0;
  if (library.nvmlDeviceGetName(device, name, sizeof(name)) ||
      library.nvmlDeviceGetMemoryInfo(device, &memory) ||
      library.nvmlDeviceGetCudaComputeCapability(device, &major, &minor))
    return false;
  gpu.name = name;
  gpu.memory = static_cast<int64_t>(memory.total);
  gpu.capability = major * 10 + minor;
  // What follows is not there on every board.
  unsigned milliwatts = 0;
  if (library.nvmlDeviceGetEnforcedPowerLimit &&
      !library.nvmlDeviceGetEnforcedPowerLimit(device, &milliwatts))
    gpu.power = milliwatts / 1e3;
  unsigned generation = 0, width = 0;
  if (!library.nvmlDeviceGetMaxPcieLinkGeneration(device, &generation) &&
      !library.nvmlDeviceGetMaxPcieLinkWidth(device, &width)) {
    gpu.pcieGeneration = static_cast<int>(generation);
    gpu.pcieWidth = static_cast<int>(width);
    gpu.pcieBandwidth = getLaneRate(generation) * width;
  }
  for (unsigned link = 0; link < nvidia::kMaxNVLinks; ++link) {
    int active = 0;
    unsigned version = 0;
    if (library.nvmlDeviceGetNvLinkState(device, link, &active) || !active ||
        library.nvmlDeviceGetNvLinkVersion(device, link, &version))
      continue;
    ++gpu.nvlinks;
    gpu.nvlinkBandwidth += getNVLinkRate(version);
  }
  return true;
}

LogicalResult poplar::detectGPUs(GPUMachine &machine, bool &missing,
                                 std::string &error) {
  nvidia::ManagementLibrary library;
  if (!library.load(missing, error))
    return failure();
  if (nvidia::Status status = library.nvmlInit_v2()) {
    error = "NVIDIA's management library does not start (status " +
            std::to_string(status) + "); does nvidia-smi work?";
    return failure();
  }
  llvm::scope_exit shutdown([&] { library.nvmlShutdown(); });
  char driver[96] = "";
  library.nvmlSystemGetDriverVersion(driver, sizeof(driver));
  machine.driver = driver;
  unsigned count = 0;
  if (library.nvmlDeviceGetCount_v2(&count)) {
    error = "NVIDIA's management library does not count the GPUs";
    return failure();
  }
  std::vector<nvidia::Handle> devices(count);
  machine.gpus.resize(count);
  for (unsigned i = 0; i < count; ++i) {
    std::vector<nvidia::Handle> slices;
    bool isFound = !library.nvmlDeviceGetHandleByIndex_v2(i, &devices[i]);
    if (isFound && findSlices(library, devices[i], slices)) {
      if (!detectSlice(library, devices[i], slices, count, machine.gpus[i],
                       error))
        return failure();
      continue;
    }
    if (!isFound || !detectGPU(library, devices[i], machine.gpus[i])) {
      error = "NVIDIA's management library does not report name, memory and "
              "capability of GPU " +
              std::to_string(i);
      return failure();
    }
  }
  machine.nvlinkEverywhere = machine.peersEverywhere = true;
  for (nvidia::Handle one : devices)
    for (nvidia::Handle other : devices) {
      int read = -1, nvlink = -1;
      if (one == other)
        continue;
      library.nvmlDeviceGetP2PStatus(one, other, nvidia::kPeerRead, &read);
      library.nvmlDeviceGetP2PStatus(one, other, nvidia::kPeerNVLink, &nvlink);
      machine.peersEverywhere &= read == nvidia::kPeerOK;
      machine.nvlinkEverywhere &= nvlink == nvidia::kPeerOK;
    }
  return success();
}

/// Words of letters and digits, in small letters.
static std::vector<std::string> getWords(StringRef text) {
  std::vector<std::string> words(1);
  for (char c : text)
    if (llvm::isAlnum(c))
      words.back() += llvm::toLower(c);
    else if (!words.back().empty())
      words.emplace_back();
  return words;
}

/// Whether some words in a row make up `model`: "rtx4090" is in "NVIDIA GeForce
/// RTX 4090", but "v100s" not in "Tesla V100-SXM2-32GB".
static bool namesModel(const std::vector<std::string> &words, StringRef model) {
  for (size_t first = 0; first < words.size(); ++first) {
    std::string row;
    for (size_t last = first; last < words.size() && row.size() < model.size();
         ++last)
      if (row += words[last]; row == model)
        return true;
  }
  return false;
}

std::string poplar::findKnownDevice(const DetectedGPU &gpu) {
  std::string error;
  const DeviceLibrary *library = getDeviceLibrary(error);
  if (!library)
    return "";
  std::vector<std::string> words = getWords(gpu.name);
  // Others than the card whose name they have.
  for (const char *variant : {"mig", "laptop", "mobile", "max", "d"})
    if (llvm::is_contained(words, variant))
      return "";
  std::string target = "cuda:sm_" + std::to_string(gpu.capability);
  auto has = [&](StringRef word) { return namesModel(words, word); };
  // The model is the first word of a key ("a100-pcie-40").
  std::vector<const DeviceSpecification *> found;
  for (const DeviceSpecification &device : library->getDevices()) {
    auto [model, form] = StringRef(device.key).split('-');
    bool pcie = form.contains("pcie"), nvl = form.contains("nvl"),
         server = form.contains("server");
    double ratio =
        static_cast<double>(gpu.memory) / static_cast<double>(device.memory);
    if (device.target != target || !has(model) ||
        std::fabs(ratio - 1) > kMemoryTolerance || nvl != has("nvl") ||
        (server && !has("server")))
      continue;
    // Some models are PCIe cards only, and do not say so.
    if (pcie != has("pcie") && (pcie || StringRef(device.linkKind) == "NVLink"))
      continue;
    // "rtx4070super" says more than "rtx4070".
    auto rank = [](const DeviceSpecification &one) {
      StringRef key = one.key;
      return std::make_pair(key.split('-').first.size(),
                            key.contains("server"));
    };
    if (!found.empty() && rank(device) > rank(*found.front()))
      found.clear();
    if (found.empty() || rank(device) == rank(*found.front()))
      found.push_back(&device);
  }
  return found.size() == 1 ? found.front()->key : "";
}

/// "a100-80", or else the name in the letters that a symbol may have.
static std::string nameType(const DetectedGPU &gpu, StringRef known) {
  std::string name;
  for (char c : known.empty() ? StringRef(gpu.name) : known)
    name += llvm::isAlnum(c) || c == '-' ? llvm::toLower(c) : '-';
  return name.empty() ? "gpu" : name;
}

namespace {
struct LinkEstimate {
  double latency, bandwidth;
  std::string source;
};
} // namespace

/// By the specifications of the slowest links that the GPUs have.
static LinkEstimate estimateLink(const GPUMachine &machine, double nvlink,
                                 double pcie) {
  const DetectedGPU &first = machine.gpus.front();
  if (machine.nvlinkEverywhere && nvlink > 0)
    return {5e-6, nvlink,
            llvm::formatv("{0} NVLinks of every GPU, by specification",
                          first.nvlinks)};
  std::string source = llvm::formatv("PCIe {0}.0 x{1}, by specification",
                                     first.pcieGeneration, first.pcieWidth);
  if (machine.peersEverywhere)
    return {1e-5, pcie, source};
  // Through the host's memory: written there, and read from there.
  return {1e-5, pcie / 2,
          source + ", halved as GPUs do not read each other's memory"};
}

OwningOpRef<ModuleOp>
poplar::describeGPUs(const GPUMachine &machine,
                     const std::optional<LinkProbe> &probe,
                     MLIRContext &context, std::string &error) {
  if (machine.gpus.empty()) {
    error = "the machine has NVIDIA's driver, but no GPU";
    return {};
  }
  context.loadDialect<ClusterDialect>();
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  std::string ignored;
  const DeviceLibrary *library = getDeviceLibrary(ignored);
  // Those alike have the same name, capability and memory.
  std::map<std::tuple<std::string, int, int64_t>, std::string> types;
  std::map<std::string, int> uses;
  SmallVector<Attribute> devices;
  double pcie = INFINITY, nvlink = INFINITY;
  for (const DetectedGPU &gpu : machine.gpus) {
    std::string &type = types[{gpu.name, gpu.capability, gpu.memory}];
    pcie = std::min(pcie, gpu.pcieBandwidth);
    nvlink = std::min(nvlink, gpu.nvlinkBandwidth);
    if (type.empty()) {
      std::string known = findKnownDevice(gpu);
      type = nameType(gpu, known);
      if (int number = ++uses[type]; number > 1)
        type += "-" + std::to_string(number);
      StringAttr target =
          builder.getStringAttr("cuda:sm_" + std::to_string(gpu.capability));
      const TargetInfo *supported = findTargetInfo(target.getValue());
      if (!supported) {
        error = gpu.name + " is a target that is not known: " + target.str();
        return {};
      }
      const DeviceSpecification *device =
          known.empty() ? nullptr : library->find(known);
      double power = gpu.power > 0 ? gpu.power : device ? device->power : 0;
      SmallVector<NamedAttribute> flops;
      if (device)
        for (const auto &[format, rate] : device->flops)
          flops.push_back(builder.getNamedAttr(toString(format),
                                               builder.getF64FloatAttr(rate)));
      DeviceTypeOp::create(
          builder, loc, builder.getStringAttr(type), target,
          builder.getI64IntegerAttr(
              std::max<int64_t>(gpu.memory - kReservedBytes, 1)),
          getFormatAttr(&context, supported->formats.front()),
          builder.getStringAttr("keep"),
          device ? builder.getDictionaryAttr(flops) : DictionaryAttr(),
          device ? builder.getF64FloatAttr(device->bandwidth) : FloatAttr(),
          power > 0 ? builder.getF64FloatAttr(power) : FloatAttr(),
          /*price=*/nullptr, /*threads=*/nullptr,
          builder.getStringAttr(
              "detected: " + gpu.name + ", driver " + machine.driver +
              ", 1 GiB left to context and collectives" +
              (device ? "; rates: device library, " + device->name
                      : std::string())),
          /*fixed_recompute=*/UnitAttr());
    }
    devices.push_back(FlatSymbolRefAttr::get(&context, type));
  }
  NodeOp::create(builder, loc, builder.getStringAttr("localhost"),
                 builder.getArrayAttr(devices));
  if (machine.gpus.size() < 2)
    return module;

  LinkEstimate link = estimateLink(machine, nvlink, pcie);
  if (probe)
    link = {probe->latency, probe->bandwidth,
            "measured by copies of 64 MiB, the slowest pair of GPUs (" +
                link.source + ")"};
  else
    link.source += "; latency assumed; --probe measures";
  if (!(link.bandwidth > 0)) {
    error = "NVIDIA's management library reports neither NVLink nor PCIe links "
            "of " +
            machine.gpus.front().name +
            "; write the cluster file by hand (docs/cluster-file.md), or "
            "measure with --probe";
    return {};
  }
  LinkOp::create(builder, loc, LinkKindAttr::get(&context, LinkKind::Inside),
                 /*first=*/nullptr, /*second=*/nullptr,
                 builder.getF64FloatAttr(link.latency),
                 builder.getF64FloatAttr(std::round(link.bandwidth)),
                 /*overhead=*/nullptr, builder.getStringAttr(link.source));
  return module;
}
