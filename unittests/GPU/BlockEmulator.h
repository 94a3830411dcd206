//===- BlockEmulator.h - Blocks of GPU threads on a CPU ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a kernel as a GPU does, one block after the other: every thread is a
// context of its own, which goes on until it meets a barrier, or a shuffle, and
// waits there for the others of its block, or of its subgroup. What a compiled
// kernel calls for that has C linkage; see BlockCalls.h.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_BLOCKEMULATOR_H
#define POPLAR_UNITTESTS_GPU_BLOCKEMULATOR_H

#include "BlockCalls.h"

#include <array>
#include <cstdint>
#include <string>

namespace poplar::gputest {

/// A kernel whose pointers are in an array.
using Kernel = void (*)(void *const *arguments, int64_t batch);

struct Launch {
  std::array<int32_t, 3> blockSize;
  int64_t blocks;
  int32_t subgroupSize;
  /// That the kernel shares within a block.
  int64_t sharedBytes;
  /// False where threads never wait for each other: they are then called one
  /// after the other, which is faster.
  bool waits = true;
};

/// Where the thread that runs is, and how many barriers of its block and of its
/// subgroup alone it has passed.
struct Position {
  int64_t block;
  int32_t thread, blockEpoch, warpEpoch;
};
Position getPosition();

/// Empty if all threads came to an end, else where they are stuck: a barrier of
/// a block and a gathering are one instruction for all of a subgroup. Blocks
/// come in order, as do the subgroups of a block, each until all of its threads
/// wait for other subgroups, and the threads of a subgroup that can go on; with
/// the environment's POPLAR_EMULATED_ORDER, a number other than 0, all of them
/// are shuffled by it.
std::string run(Kernel kernel, void *const *arguments, int64_t batch,
                const Launch &launch);

} // namespace poplar::gputest

#endif // POPLAR_UNITTESTS_GPU_BLOCKEMULATOR_H
