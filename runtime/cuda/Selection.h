//===- Selection.h - Which GPU a rank gets ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_SELECTION_H
#define POPLAR_RUNTIME_CUDA_SELECTION_H

#include "Poplar/Runtime/ABI.h"

namespace poplar::runtime::cuda {

struct Choice {
  /// The driver's number for it.
  int Device;
  /// The compute capability of the GPU: 86 for 8.6.
  int Capability;
};

/// 80 for "sm_80".
int getCapability(const char *Chip);

/// Chooses among the visible GPUs that are the program's chip, or else newer
/// ones, the one whose place is that of the rank among those of its type on its
/// node; or what POPLAR_CUDA_DEVICE says. Throws an Error where there is none.
Choice chooseGPU(const PoplarProgram &Program, int Rank);

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_SELECTION_H
