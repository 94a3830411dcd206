//===- HostCPU.h - The processor at hand ------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler asks nobody else what the processor at hand has. The runtime has
// its own counterpart, runtime/support/ISA.h.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_HOSTCPU_H
#define POPLAR_SUPPORT_HOSTCPU_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace poplar {

/// The environment variable that hides instruction sets from the whole tool:
/// sse41, avx2, avx512 or amx is the most that is used.
inline constexpr const char *kMaxISAVariable = "POPLAR_MAX_ISA";

struct HostCPU {
  /// LLVM's name of the processor, or of the level that the variable allows.
  std::string name;
  /// The features it has, as LLVM names them, sorted.
  std::vector<std::string> features;
  /// The features it has and those it lacks, as code generation takes them:
  /// "+avx2,-avx512f".
  std::string attributes;

  bool has(llvm::StringRef feature) const;
};

/// The processor at hand without what the variable hides.
const HostCPU &getHostCPU();

/// What is wrong with the variable's value; empty if nothing is. Programs check
/// it before anything else: a wrong value must not be taken for none.
std::string checkMaxISA();

/// Lets oneDNN use no more than `isa` in this process, which is one of
/// ONEDNN_MAX_CPU_ISA's names, or empty for what that says, and no more than
/// the variable allows. Has to be called before the first use of oneDNN.
void limitLibraries(llvm::StringRef isa);

} // namespace poplar

#endif // POPLAR_SUPPORT_HOSTCPU_H
