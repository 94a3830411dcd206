//===- PTX.h - PTX as C++ ---------------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translates the PTX that LLVM writes to C++, an instruction to a statement, so
// that tests run what would be given to a GPU and not something like it.
// Semantics are those of NVIDIA's "Parallel Thread Execution ISA" 8.7; an
// instruction that is not known is an error.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_PTX_H
#define POPLAR_UNITTESTS_GPU_EMULATED_PTX_H

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace poplar::emulated {

/// An instruction that accesses memory, and its line in the text.
struct PTXSite {
  int line;
  std::string text;
};

struct PTXKernel {
  std::string name;
  int64_t sharedBytes = 0;
  /// Bytes of those variables that the kernel names.
  int64_t namedSharedBytes = 0;
  /// The threads of a block that it may be started with: the sizes, of
  /// .reqntid, or the most that there may be, of .maxntid. 0 if none are given.
  std::array<int64_t, 3> block = {0, 0, 0};
  int64_t mostThreads = 0;
  /// Words of eight bytes of each parameter: of an array, several.
  std::vector<int64_t> parameterWords;
  int64_t countParameterWords() const {
    return std::accumulate(parameterWords.begin(), parameterWords.end(),
                           int64_t(0));
  }
  /// Whether its threads wait for each other.
  bool waits = false;
  /// Accesses to global and shared memory.
  std::vector<PTXSite> sites;
  /// The least that one of these accesses at a time.
  uint64_t granuleBytes = 16;
  /// C++ for after Prelude.h: a function poplarKernel, and an array
  /// poplarTables of the tables in global memory that the kernel reads. Kernels
  /// that differ in their names alone have the same source.
  std::string source;
};

struct PTXProgram {
  /// The chip of the .target directive: "sm_80".
  std::string chip;
  /// The version of the .version directive: 70 for 7.0.
  int version = 0;
  std::vector<PTXKernel> kernels;
};

/// Empty if `text` could be translated, else what is wrong.
std::string translatePTX(const std::string &text, PTXProgram &program);

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_PTX_H
