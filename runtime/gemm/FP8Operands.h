//===- FP8Operands.h - Operands rounded to 8 bits, on a CPU -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What Runtime/FP8.h says of operands, in their own types: code * 2^-e is exact
// in f32 and in bf16, so that any product of these is the one of fp8.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_FP8OPERANDS_H
#define POPLAR_RUNTIME_FP8OPERANDS_H

#include "Poplar/Runtime/ABI.h"

namespace poplar::runtime {

/// A matrix of a PoplarType, f32 or bf16.
struct WideMatrix {
  const void *Values;
  int32_t Type;
  int64_t Rows, Columns;
};

/// Writes the matrix to `To`, rounded with a scale for each row.
void roundRows(const WideMatrix &From, void *To);
/// The same, with a scale for each column.
void roundColumns(const WideMatrix &From, void *To);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_FP8OPERANDS_H
