//===- VendorLibrary.h - Libraries of NVIDIA's, as far as used --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// They are loaded when a command runs, and what is used of them is declared
// here: no toolkit is needed to build. NVML API Reference Guide v13, CUDA
// Driver API Reference Manual 13.0.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_VENDORLIBRARY_H
#define POPLAR_LIB_IMPORT_VENDORLIBRARY_H

#include <cstddef>
#include <string>

namespace poplar::nvidia {

/// Loads a library from the directories of POPLAR_CUDA_PATH, separated by
/// colons, or else from where the system looks. Null, with `error` set, if
/// there is none.
void *loadLibrary(const char *name, std::string &error);
/// Null, with `error` set, if the library has no such function.
void *findFunction(void *library, const char *libraryName, const char *function,
                   std::string &error);

/// nvmlReturn_t and CUresult, nvmlDevice_t, CUcontext and CUstream.
using Status = int;
using Handle = void *;
/// CUdeviceptr.
using Address = unsigned long long;

/// nvmlMemory_t.
struct MemoryInfo {
  unsigned long long total, free, used;
};

/// nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t.
constexpr int kPeerRead = 0, kPeerNVLink = 2;
constexpr int kPeerOK = 0;
/// NVML_NVLINK_MAX_LINKS.
constexpr unsigned kMaxNVLinks = 18;
/// CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED.
constexpr Status kPeerAlreadyEnabled = 704;

#define POPLAR_NVML(X)                                                         \
  X(nvmlInit_v2)                                                               \
  X(nvmlShutdown)                                                              \
  X(nvmlSystemGetDriverVersion, char *, unsigned)                              \
  X(nvmlDeviceGetCount_v2, unsigned *)                                         \
  X(nvmlDeviceGetHandleByIndex_v2, unsigned, nvidia::Handle *)                 \
  X(nvmlDeviceGetName, nvidia::Handle, char *, unsigned)                       \
  X(nvmlDeviceGetMemoryInfo, nvidia::Handle, nvidia::MemoryInfo *)             \
  X(nvmlDeviceGetCudaComputeCapability, nvidia::Handle, int *, int *)          \
  X(nvmlDeviceGetMaxPcieLinkGeneration, nvidia::Handle, unsigned *)            \
  X(nvmlDeviceGetMaxPcieLinkWidth, nvidia::Handle, unsigned *)                 \
  X(nvmlDeviceGetNvLinkState, nvidia::Handle, unsigned, int *)                 \
  X(nvmlDeviceGetNvLinkVersion, nvidia::Handle, unsigned, unsigned *)          \
  X(nvmlDeviceGetP2PStatus, nvidia::Handle, nvidia::Handle, int, int *)

/// Slices of GPUs (MIG), power and temperature: functions that not every
/// library has.
#define POPLAR_NVML_OPTIONAL(X)                                                \
  X(nvmlDeviceGetMigMode, nvidia::Handle, unsigned *, unsigned *)              \
  X(nvmlDeviceGetMaxMigDeviceCount, nvidia::Handle, unsigned *)                \
  X(nvmlDeviceGetMigDeviceHandleByIndex, nvidia::Handle, unsigned,             \
    nvidia::Handle *)                                                          \
  X(nvmlDeviceGetEnforcedPowerLimit, nvidia::Handle, unsigned *)               \
  X(nvmlDeviceGetTemperature, nvidia::Handle, int, unsigned *)                 \
  X(nvmlDeviceGetPowerUsage, nvidia::Handle, unsigned *)

#define POPLAR_PROBE_DRIVER(X)                                                 \
  X(cuInit, unsigned)                                                          \
  X(cuDeviceGetCount, int *)                                                   \
  X(cuDeviceGet, int *, int)                                                   \
  X(cuDeviceCanAccessPeer, int *, int, int)                                    \
  X(cuDevicePrimaryCtxRetain, nvidia::Handle *, int)                           \
  X(cuDevicePrimaryCtxRelease_v2, int)                                         \
  X(cuCtxSetCurrent, nvidia::Handle)                                           \
  X(cuCtxEnablePeerAccess, nvidia::Handle, unsigned)                           \
  X(cuMemAlloc_v2, nvidia::Address *, size_t)                                  \
  X(cuMemFree_v2, nvidia::Address)                                             \
  X(cuStreamCreate, nvidia::Handle *, unsigned)                                \
  X(cuStreamDestroy_v2, nvidia::Handle)                                        \
  X(cuStreamSynchronize, nvidia::Handle)                                       \
  X(cuMemcpyPeerAsync, nvidia::Address, nvidia::Handle, nvidia::Address,       \
    nvidia::Handle, size_t, nvidia::Handle)

/// NVIDIA's management library, NVML.
class ManagementLibrary {
public:
  /// False, with `error` set, if it cannot be used; `missing` says that there
  /// is none. What is optional may be null.
  bool load(bool &missing, std::string &error);

#define POPLAR_NVML_MEMBER(NAME, ...) Status (*NAME)(__VA_ARGS__) = nullptr;
  POPLAR_NVML(POPLAR_NVML_MEMBER)
  POPLAR_NVML_OPTIONAL(POPLAR_NVML_MEMBER)
#undef POPLAR_NVML_MEMBER
};

/// nvmlTemperatureSensors_t.
constexpr int kSensorOfGPU = 0;

} // namespace poplar::nvidia

#endif // POPLAR_LIB_IMPORT_VENDORLIBRARY_H
