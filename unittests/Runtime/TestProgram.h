//===- TestProgram.h - A program written by hand ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the compiler would emit for a small causal model: token embedding
// [V,D], head [V,D], cross-entropy. It goes through every entry of the ABI.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_RUNTIME_TESTPROGRAM_H
#define POPLAR_UNITTESTS_RUNTIME_TESTPROGRAM_H

#include "Poplar/Runtime/ABI.h"

namespace testprogram {

constexpr int64_t Vocab = 256, Width = 16, SeqLen = 16;

/// The model.
extern const PoplarProgram Program;
/// The same with the masked objective.
extern const PoplarProgram MaskedProgram;
/// A model whose second tensor has another shape.
extern const PoplarProgram OtherProgram;

} // namespace testprogram

#endif // POPLAR_UNITTESTS_RUNTIME_TESTPROGRAM_H
