//===- Driver.h - NVIDIA's driver -------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the driver's interface that is used, declared here so that no
// toolkit is needed to build (CUDA Driver API Reference Manual 13.0). If there
// is one, a unit test compares these declarations with its headers.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_DRIVER_H
#define POPLAR_RUNTIME_CUDA_DRIVER_H

#include <cstddef>

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUmod_st;
struct CUstream_st;

namespace poplar::runtime::cuda {

/// CUresult.
using Result = int;
/// CUdeviceptr.
using Address = unsigned long long;
using Context = CUctx_st *;
using Event = CUevent_st *;
using Function = CUfunc_st *;
using Graph = CUgraph_st *;
using GraphExec = CUgraphExec_st *;
using Module = CUmod_st *;
using Stream = CUstream_st *;

constexpr Result OutOfMemory = 2, InvalidImage = 200, NoBinaryForGPU = 209,
                 UnsupportedPTXVersion = 222;
/// The result of cuEventQuery before the event.
constexpr Result NotReady = 600;
/// CUdevice_attribute.
constexpr int CapabilityMajor = 75, CapabilityMinor = 76;
constexpr int ClockKHz = 13, Multiprocessors = 16, MemoryClockKHz = 36,
              MemoryBusBits = 37;
/// CU_STREAM_NON_BLOCKING.
constexpr unsigned NonBlocking = 1;
/// CU_EVENT_DISABLE_TIMING.
constexpr unsigned NoTiming = 2;
/// CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END.
inline void *const ParameterBuffer = reinterpret_cast<void *>(1),
                   *const ParameterBytes = reinterpret_cast<void *>(2),
                   *const ParametersEnd = nullptr;
/// CUjit_option.
constexpr int JitErrorLog = 5, JitErrorLogBytes = 6;

#define POPLAR_CUDA_DRIVER(X)                                                  \
  X(cuInit, unsigned)                                                          \
  X(cuDriverGetVersion, int *)                                                 \
  X(cuGetErrorName, Result, const char **)                                     \
  X(cuGetErrorString, Result, const char **)                                   \
  X(cuDeviceGetCount, int *)                                                   \
  X(cuDeviceGet, int *, int)                                                   \
  X(cuDeviceGetName, char *, int, int)                                         \
  X(cuDeviceGetAttribute, int *, int, int)                                     \
  X(cuDeviceGetPCIBusId, char *, int, int)                                     \
  X(cuDeviceGetByPCIBusId, int *, const char *)                                \
  X(cuDeviceCanAccessPeer, int *, int, int)                                    \
  X(cuDevicePrimaryCtxRetain, Context *, int)                                  \
  X(cuDevicePrimaryCtxRelease_v2, int)                                         \
  X(cuCtxSetCurrent, Context)                                                  \
  X(cuMemGetInfo_v2, size_t *, size_t *)                                       \
  X(cuMemAlloc_v2, Address *, size_t)                                          \
  X(cuMemFree_v2, Address)                                                     \
  X(cuMemHostAlloc, void **, size_t, unsigned)                                 \
  X(cuMemFreeHost, void *)                                                     \
  X(cuMemcpyHtoDAsync_v2, Address, const void *, size_t, Stream)               \
  X(cuMemcpyDtoHAsync_v2, void *, Address, size_t, Stream)                     \
  X(cuMemcpyDtoDAsync_v2, Address, Address, size_t, Stream)                    \
  X(cuMemsetD8Async, Address, unsigned char, size_t, Stream)                   \
  X(cuCtxGetStreamPriorityRange, int *, int *)                                 \
  X(cuStreamCreate, Stream *, unsigned)                                        \
  X(cuStreamCreateWithPriority, Stream *, unsigned, int)                       \
  X(cuStreamDestroy_v2, Stream)                                                \
  X(cuStreamSynchronize, Stream)                                               \
  X(cuStreamWaitEvent, Stream, Event, unsigned)                                \
  X(cuEventCreate, Event *, unsigned)                                          \
  X(cuEventDestroy_v2, Event)                                                  \
  X(cuEventRecord, Event, Stream)                                              \
  X(cuEventSynchronize, Event)                                                 \
  X(cuEventElapsedTime, float *, Event, Event)                                 \
  X(cuEventQuery, Event)                                                       \
  X(cuStreamBeginCapture_v2, Stream, int)                                      \
  X(cuStreamEndCapture, Stream, Graph *)                                       \
  X(cuGraphInstantiateWithFlags, GraphExec *, Graph, unsigned long long)       \
  X(cuGraphLaunch, GraphExec, Stream)                                          \
  X(cuGraphExecDestroy, GraphExec)                                             \
  X(cuGraphDestroy, Graph)                                                     \
  X(cuModuleLoadDataEx, Module *, const void *, unsigned, int *, void **)      \
  X(cuModuleUnload, Module)                                                    \
  X(cuModuleGetFunction, Function *, Module, const char *)                     \
  X(cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned,          \
    unsigned, unsigned, unsigned, Stream, void **, void **)

/// The functions of the driver.
struct Driver {
  /// Loads and initialises the driver when first called. Throws an Error where
  /// there is none, or none new enough.
  static const Driver &get();

#define POPLAR_CUDA_MEMBER(NAME, ...) Result (*NAME)(__VA_ARGS__);
  POPLAR_CUDA_DRIVER(POPLAR_CUDA_MEMBER)
#undef POPLAR_CUDA_MEMBER
  /// The newest CUDA that it is for: 13000 for 13.0.
  int Version = 0;

private:
  Driver();
};

/// Throws an Error if a call, which did `What`, has failed.
void check(Result R, const char *What);

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_DRIVER_H
