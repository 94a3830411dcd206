//===- Races.h - Accesses of threads that nothing orders --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two accesses of a word by different threads are a race if one of them writes,
// not both are atomic, and no barrier is between them: `bar.sync` orders the
// threads of a block, `bar.warp.sync` those of a warp, nothing those of
// different blocks. Exchanges between the lanes of a warp (shfl, mma, ldmatrix)
// order no memory. A copy of cp.async writes from its start until its thread
// waits for it.
//
// Threads of the emulation run one after the other, so a race is found by what
// the kernel does and not by luck: every granule of memory remembers its last
// write and up to two reads since then, each with the barriers that its thread
// had passed (FastTrack, Flanagan and Freund, PLDI 2009, for barriers alone).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_RACES_H
#define POPLAR_UNITTESTS_GPU_EMULATED_RACES_H

#include "Accesses.h"
#include "PTX.h"

namespace poplar::emulated {

/// Checks the accesses of `kernel` until the next call; null ends that.
/// Nothing is checked unless POPLAR_EMULATED_RACES is set.
void watchLaunch(const PTXKernel *kernel);

/// The kernel of the launch under way; null outside of launches.
const PTXKernel *getRunningKernel();

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_RACES_H
