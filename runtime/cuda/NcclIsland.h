//===- NcclIsland.h - GPUs that collect by NCCL -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_NCCLISLAND_H
#define POPLAR_RUNTIME_CUDA_NCCLISLAND_H

#include "comm/IslandLibrary.h"
#include "cuda/Driver.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace poplar::runtime::cuda {

/// Memory that collectives will be of: address and bytes.
using MemoryRange = std::pair<void *, int64_t>;

/// Made by one rank of an island, for all of it: ncclGetUniqueId.
std::string makeNcclId();

/// The stream of a GPU's collectives, and the scratch of what is queued there,
/// which all islands of a rank share. Made, and used, by one thread.
class NcclStream;
std::shared_ptr<NcclStream> makeNcclStream(int GPU);

/// Joins the island. Collective; to be called, and used, by one thread. Equal
/// pieces that make up one array go by the library's own all-gather and
/// reduce-scatter, others by broadcasts and reductions in one group. `Memory`
/// is registered with the library, so that it need not copy; where it cannot
/// be, it is copied. Throws an Error where the library refuses, then or later,
/// or if `Interrupted`, which outlives it, is set.
std::unique_ptr<comm::IslandLibrary>
joinNccl(std::shared_ptr<NcclStream> OnGPU, int Rank, int Size,
         const std::string &Id, const std::vector<MemoryRange> &Memory,
         const std::atomic<bool> &Interrupted);

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_NCCLISLAND_H
