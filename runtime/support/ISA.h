//===- ISA.h - Instructions of the processor at hand ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime asks nobody else what the processor at hand has. The compiler has
// its own counterpart, Poplar/Support/HostCPU.h. POPLAR_MAX_ISA hides
// instruction sets from both: sse41, avx2, avx512 or amx is the most that is
// used.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ISA_H
#define POPLAR_RUNTIME_ISA_H

#include <string>
#include <vector>

namespace poplar::runtime {

/// Throws an Error if POPLAR_MAX_ISA has a value that is not known.
void checkMaxISA();

/// The elements of `Instructions`, in the kernel's words ("avx512f"), that the
/// processor lacks or POPLAR_MAX_ISA hides, separated by spaces.
std::string findMissing(const std::vector<std::string> &Instructions);

/// Lets oneDNN use no more than `Isa` in this process, which is one of
/// ONEDNN_MAX_CPU_ISA's names, or empty for what that variable says, and no
/// more than POPLAR_MAX_ISA allows. Has to be called before the first use of
/// oneDNN.
void limitLibraries(const std::string &Isa);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ISA_H
