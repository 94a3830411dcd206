//===- NVML.h - NVIDIA's management library ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is used of its interface (NVML API Reference Guide, v13), declared here
// as the runtime declares CUDA: no toolkit is needed to build.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_NVML_H
#define POPLAR_LIB_IMPORT_NVML_H

namespace poplar::nvml {

/// nvmlReturn_t, nvmlDevice_t.
using Status = int;
using Device = void *;

/// nvmlMemory_t.
struct MemoryInfo {
  unsigned long long total, free, used;
};

/// nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t.
constexpr int kPeerRead = 0, kPeerNVLink = 2;
constexpr int kPeerOK = 0;
/// NVML_NVLINK_MAX_LINKS.
constexpr unsigned kMaxNVLinks = 18;

#define POPLAR_NVML(X)                                                         \
  X(nvmlInit_v2)                                                               \
  X(nvmlShutdown)                                                              \
  X(nvmlSystemGetDriverVersion, char *, unsigned)                              \
  X(nvmlDeviceGetCount_v2, unsigned *)                                         \
  X(nvmlDeviceGetHandleByIndex_v2, unsigned, nvml::Device *)                   \
  X(nvmlDeviceGetName, nvml::Device, char *, unsigned)                         \
  X(nvmlDeviceGetMemoryInfo, nvml::Device, nvml::MemoryInfo *)                 \
  X(nvmlDeviceGetCudaComputeCapability, nvml::Device, int *, int *)            \
  X(nvmlDeviceGetMaxPcieLinkGeneration, nvml::Device, unsigned *)              \
  X(nvmlDeviceGetMaxPcieLinkWidth, nvml::Device, unsigned *)                   \
  X(nvmlDeviceGetNvLinkState, nvml::Device, unsigned, int *)                   \
  X(nvmlDeviceGetNvLinkVersion, nvml::Device, unsigned, unsigned *)            \
  X(nvmlDeviceGetP2PStatus, nvml::Device, nvml::Device, int, int *)

} // namespace poplar::nvml

#endif // POPLAR_LIB_IMPORT_NVML_H
