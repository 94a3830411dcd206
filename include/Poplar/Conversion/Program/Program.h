//===- Program.h - Memory of a planned program ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How much memory a program takes once --plan-memory has placed its buffers.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_PROGRAM_PROGRAM_H
#define POPLAR_CONVERSION_PROGRAM_PROGRAM_H

#include "Poplar/Dialect/Exec/Exec.h"

namespace poplar {

/// The op that holds a planned program's memory; null if it is not planned.
exec::ArenaOp getArena(mlir::ModuleOp program);

/// Name of the function that --lower-program makes of a step or a turn.
std::string getStepName(llvm::StringRef function);

/// peak_bytes of rank `rank` of a planned program with a micro-batch of
/// `batch`; INT64_MAX if there are more.
int64_t getPeakBytes(mlir::ModuleOp program, int64_t rank, int64_t batch);

/// What a rank's micro-batches in flight and their messages take, per sample of
/// the largest micro-batch; 0 where all ranks are one group.
int64_t getTurnBytes(mlir::ModuleOp program, int64_t rank);

/// Bytes of what a rank of a planned program holds sharded, behind the batch
/// region (see Runtime/ABI.h), alignment included.
int64_t getShardBytes(mlir::ModuleOp program, int64_t rank);

} // namespace poplar

#endif // POPLAR_CONVERSION_PROGRAM_PROGRAM_H
