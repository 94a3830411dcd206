//===- Nccl.h - NCCL --------------------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is used of its interface, declared here as that of the driver is (NCCL
// 2.28, nccl.h). Everything named is in 2.19 and newer, which have non-blocking
// communicators and the registration of buffers.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_NCCL_H
#define POPLAR_RUNTIME_CUDA_NCCL_H

#include "cuda/Driver.h"

#include <string>

struct ncclComm;

namespace poplar::runtime::cuda::nccl {

/// ncclResult_t, ncclDataType_t, ncclRedOp_t.
using Status = int;
using DataType = int;
using Operation = int;
using Comm = ncclComm *;

constexpr Status InvalidUsage = 5, RemoteError = 6, InProgress = 7;
constexpr DataType Uint8 = 1, Int64 = 4, Float16 = 6, Float32 = 7, BFloat16 = 9;
constexpr Operation Sum = 0;
constexpr int LeastVersion = 21900;

/// ncclUniqueId.
struct UniqueId {
  char Internal[128];
};

/// The first members of ncclConfig_t. Version and size tell which they are; the
/// library has defaults for the rest.
struct Config {
  size_t Size = sizeof(Config);
  unsigned Magic = 0xcafebeef, Version = 21400;
  int Blocking = 1;
};

#define POPLAR_NCCL(X)                                                         \
  X(ncclGetVersion, int *)                                                     \
  X(ncclGetUniqueId, UniqueId *)                                               \
  X(ncclCommInitRankConfig, Comm *, int, UniqueId, int, Config *)              \
  X(ncclCommFinalize, Comm)                                                    \
  X(ncclCommDestroy, Comm)                                                     \
  X(ncclCommAbort, Comm)                                                       \
  X(ncclCommGetAsyncError, Comm, Status *)                                     \
  X(ncclMemAlloc, void **, size_t)                                             \
  X(ncclMemFree, void *)                                                       \
  X(ncclCommRegister, Comm, void *, size_t, void **)                           \
  X(ncclCommDeregister, Comm, void *)                                          \
  X(ncclBroadcast, const void *, void *, size_t, DataType, int, Comm, Stream)  \
  X(ncclReduce, const void *, void *, size_t, DataType, Operation, int, Comm,  \
    Stream)                                                                    \
  X(ncclAllGather, const void *, void *, size_t, DataType, Comm, Stream)       \
  X(ncclReduceScatter, const void *, void *, size_t, DataType, Operation,      \
    Comm, Stream)                                                              \
  X(ncclAllReduce, const void *, void *, size_t, DataType, Operation, Comm,    \
    Stream)                                                                    \
  X(ncclSend, const void *, size_t, DataType, int, Comm, Stream)               \
  X(ncclRecv, void *, size_t, DataType, int, Comm, Stream)                     \
  X(ncclGroupStart)                                                            \
  X(ncclGroupEnd)

/// The functions of the library.
struct Nccl {
  /// Loads it when first called. Throws an Error where there is none, or none
  /// new enough.
  static const Nccl &get();

#define POPLAR_NCCL_MEMBER(NAME, ...) Status (*NAME)(__VA_ARGS__);
  POPLAR_NCCL(POPLAR_NCCL_MEMBER)
#undef POPLAR_NCCL_MEMBER
  const char *(*ncclGetErrorString)(Status);
  const char *(*ncclGetLastError)(Comm);
  int Version = 0;
  /// "NCCL 2.28.9".
  std::string Name;

private:
  Nccl();
};

} // namespace poplar::runtime::cuda::nccl

#endif // POPLAR_RUNTIME_CUDA_NCCL_H
