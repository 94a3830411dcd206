//===- NVML.cpp - An emulated management library --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What lib/Import/ calls of libnvidia-ml.so.1, for tests. Told by the
// environment:
//
//   POPLAR_EMULATED_NVML    GPUs: name/sm_80/bytes/pcie generation/width/
//                           nvlinks/nvlink version, separated by ';'
//   POPLAR_EMULATED_MIG     bytes of the slices of every GPU, separated by ','
//   POPLAR_EMULATED_WATTS   limit of power of every GPU
//   POPLAR_EMULATED_P2P     "nvlink" (default), "pcie" or "none": what every
//                           two GPUs have between them
//
//===----------------------------------------------------------------------===//

#include "../../../lib/Import/VendorLibrary.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

using namespace poplar::nvidia;

namespace {

constexpr Status invalidArgument = 2, notSupported = 3;

struct GPU {
  std::vector<std::string> fields;
  unsigned number(size_t field) const {
    return unsigned(std::atoll(fields.at(field).c_str()));
  }
};

const std::vector<GPU> &getGPUs() {
  static const std::vector<GPU> gpus = [] {
    const char *given = std::getenv("POPLAR_EMULATED_NVML");
    std::istringstream list(given ? given : "");
    std::vector<GPU> result;
    for (std::string text; std::getline(list, text, ';');) {
      std::istringstream parts(text);
      result.emplace_back();
      for (std::string part; std::getline(parts, part, '/');)
        result.back().fields.push_back(part);
    }
    return result;
  }();
  return gpus;
}

bool started = false;

const GPU &at(Handle device) { return *static_cast<const GPU *>(device); }

} // namespace

extern "C" {

Status nvmlInit_v2() {
  if (std::getenv("POPLAR_EMULATED_NVML_FAILS"))
    return 9; // NVML_ERROR_DRIVER_NOT_LOADED
  started = true;
  return 0;
}
Status nvmlShutdown() {
  started = false;
  return 0;
}
Status nvmlSystemGetDriverVersion(char *text, unsigned size) {
  std::snprintf(text, size, "580.65.06");
  return started ? 0 : 1;
}
Status nvmlDeviceGetCount_v2(unsigned *count) {
  *count = unsigned(getGPUs().size());
  return started ? 0 : 1;
}
Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *device) {
  if (index >= getGPUs().size())
    return invalidArgument;
  *device = const_cast<GPU *>(&getGPUs()[index]);
  return 0;
}
Status nvmlDeviceGetMigMode(Handle, unsigned *now, unsigned *next) {
  *now = *next = std::getenv("POPLAR_EMULATED_MIG") != nullptr;
  return 0;
}
Status nvmlDeviceGetMaxMigDeviceCount(Handle, unsigned *count) {
  *count = 7;
  return 0;
}
Status nvmlDeviceGetMigDeviceHandleByIndex(Handle device, unsigned index,
                                           Handle *slice) {
  static std::vector<GPU> slices;
  if (slices.empty()) {
    slices.reserve(7);
    std::istringstream list(std::getenv("POPLAR_EMULATED_MIG"));
    for (std::string bytes; std::getline(list, bytes, ',');) {
      slices.push_back(at(device));
      slices.back().fields[0] += " MIG 1g.5gb";
      slices.back().fields[2] = bytes;
    }
  }
  if (index >= slices.size())
    return 6; // NVML_ERROR_NOT_FOUND
  *slice = &slices[index];
  return 0;
}
Status nvmlDeviceGetEnforcedPowerLimit(Handle, unsigned *milliwatts) {
  const char *given = std::getenv("POPLAR_EMULATED_WATTS");
  *milliwatts = given ? 1000 * unsigned(std::atoi(given)) : 0;
  return given ? 0 : notSupported;
}
Status nvmlDeviceGetTemperature(Handle, int sensor, unsigned *celsius) {
  const char *given = std::getenv("POPLAR_EMULATED_CELSIUS");
  *celsius = given ? unsigned(std::atoi(given)) : 0;
  return !given ? notSupported : sensor == 0 ? 0 : invalidArgument;
}
Status nvmlDeviceGetPowerUsage(Handle, unsigned *milliwatts) {
  const char *given = std::getenv("POPLAR_EMULATED_WATTS_NOW");
  *milliwatts = given ? unsigned(1000 * std::atof(given)) : 0;
  return given ? 0 : notSupported;
}
Status nvmlDeviceGetName(Handle device, char *text, unsigned size) {
  std::snprintf(text, size, "%s", at(device).fields[0].c_str());
  return 0;
}
Status nvmlDeviceGetCudaComputeCapability(Handle device, int *major,
                                          int *minor) {
  int capability = std::atoi(at(device).fields[1].c_str() + 3);
  *major = capability / 10;
  *minor = capability % 10;
  return 0;
}
Status nvmlDeviceGetMemoryInfo(Handle device, MemoryInfo *info) {
  info->total = std::strtoull(at(device).fields[2].c_str(), nullptr, 10);
  info->used = 0;
  info->free = info->total;
  return 0;
}
Status nvmlDeviceGetMaxPcieLinkGeneration(Handle device, unsigned *value) {
  *value = at(device).number(3);
  return *value ? 0 : notSupported;
}
Status nvmlDeviceGetMaxPcieLinkWidth(Handle device, unsigned *value) {
  *value = at(device).number(4);
  return *value ? 0 : notSupported;
}
Status nvmlDeviceGetNvLinkState(Handle device, unsigned link, int *active) {
  if (at(device).number(5) == 0)
    return notSupported;
  *active = link < at(device).number(5);
  return 0;
}
Status nvmlDeviceGetNvLinkVersion(Handle device, unsigned, unsigned *version) {
  *version = at(device).number(6);
  return 0;
}
Status nvmlDeviceGetP2PStatus(Handle, Handle, int index, int *status) {
  const char *given = std::getenv("POPLAR_EMULATED_P2P");
  std::string between = given ? given : "nvlink";
  bool has = between == "nvlink" || (between == "pcie" && index == kPeerRead);
  *status = has ? kPeerOK : 1;
  return 0;
}

} // extern "C"
