//===- GPUSensors.cpp - Temperature and power of GPUs ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/GPUSensors.h"
#include "VendorLibrary.h"
#include "llvm/ADT/ScopeExit.h"

using namespace poplar;

static GPUSensors readGPU(const nvidia::ManagementLibrary &library,
                          nvidia::Handle device) {
  GPUSensors gpu;
  char name[96] = "";
  if (!library.nvmlDeviceGetName(device, name, sizeof(name)))
    gpu.name = name;
  unsigned value = 0;
  if (library.nvmlDeviceGetTemperature &&
      !library.nvmlDeviceGetTemperature(device, nvidia::kSensorOfGPU, &value))
    gpu.temperature = value;
  // In milliwatts.
  if (library.nvmlDeviceGetPowerUsage &&
      !library.nvmlDeviceGetPowerUsage(device, &value))
    gpu.power = value / 1e3;
  nvidia::MemoryInfo memory;
  if (!library.nvmlDeviceGetMemoryInfo(device, &memory)) {
    gpu.memory = static_cast<int64_t>(memory.total);
    gpu.memoryUsed = static_cast<int64_t>(memory.used);
  }
  return gpu;
}

std::vector<GPUSensors> poplar::readGPUSensors() {
  nvidia::ManagementLibrary library;
  bool missing = false;
  std::string error;
  std::vector<GPUSensors> gpus;
  if (!library.load(missing, error) || library.nvmlInit_v2())
    return gpus;
  llvm::scope_exit shutdown([&] { library.nvmlShutdown(); });
  unsigned count = 0;
  if (library.nvmlDeviceGetCount_v2(&count))
    return gpus;
  for (unsigned i = 0; i < count; ++i)
    if (nvidia::Handle device = nullptr;
        !library.nvmlDeviceGetHandleByIndex_v2(i, &device))
      gpus.push_back(readGPU(library, device));
  return gpus;
}
