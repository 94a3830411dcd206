//===- StateReport.h - What ranks hold, and whether it agrees ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STATEREPORT_H
#define POPLAR_RUNTIME_STATEREPORT_H

#include "program/Executor.h"

namespace poplar::runtime {

/// The use of the bytes of a rank's memory.
struct MemoryUse {
  /// State: bytes of the arrays' elements that belong to parameters.
  int64_t Parameters = 0, Gradients = 0, Optimizer = 0;
  /// Gaps between parameters, and up to the alignment of the arrays.
  int64_t Padding = 0;
  /// Library scratch, and transient buffers that do not depend on the batch.
  int64_t Scratch = 0, Transient = 0;
  /// Buffers that scale with the micro-batch, for the largest one.
  int64_t Batch = 0;
  /// The sum of the above: the allocated bytes.
  int64_t Peak = 0;
};

/// Measures a rank's arrays where they are. An Error if two of them overlap or
/// one lies outside of the rank's memory.
MemoryUse measureMemory(const Executor &Exec);

/// Writes a CSV file with a line per rank, in bytes; the first rank does.
/// Collective.
void writeMemoryReport(const Executor &Exec, const std::string &Path);

/// An Error where checkReplicas() would have nothing to compare.
void requireReplicas(const PoplarProgram &Program);

/// Collective: an Error, on all ranks, that names the first rank which differs
/// from others in state that is replicated: masters and moments in stage 0,
/// working copies of the same format in stages 1 and 2. `When` begins it.
void checkReplicas(const Executor &Exec, const std::string &When);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STATEREPORT_H
