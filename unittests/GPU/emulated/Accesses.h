//===- Accesses.h - Accesses of kernels to memory ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a translated kernel reports to Races.h. Every translated kernel includes
// this header, so it includes little itself.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_ACCESSES_H
#define POPLAR_UNITTESTS_GPU_EMULATED_ACCESSES_H

#include <cstdint>

/// What an access does; copies are those of cp.async, and an address alone is
/// not an access.
enum class AccessKind { Read, Write, Atomic, StartCopy, EndCopy, Address };

extern "C" {
/// Whether accesses are to be reported.
extern bool poplar_emulated_watches;
/// `at` is an address of the host; `site` is an index of PTXKernel::sites.
/// Ends the process where there is a race, and says which.
void poplar_emulated_access(const char *at, int64_t bytes, AccessKind kind,
                            bool shared, int32_t site);
}

#endif // POPLAR_UNITTESTS_GPU_EMULATED_ACCESSES_H
