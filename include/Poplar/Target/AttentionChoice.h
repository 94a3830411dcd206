//===- AttentionChoice.h - Who computes attention on a GPU ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_ATTENTIONCHOICE_H
#define POPLAR_TARGET_ATTENTIONCHOICE_H

#include "Poplar/Target/Build.h"

namespace poplar {

struct AttentionChoice {
  /// Whether cuDNN may compute attention.
  bool isLibrary;
  /// Why, or why not.
  std::string reason;
};

/// Chooses for a chip of compute capability `capability` (80; 0: not NVIDIA's).
AttentionChoice chooseAttention(AttentionSource wanted, int capability);

/// One line about a program whose memory is planned: which of its calls of
/// attention cuDNN may compute, and why not the others. Empty without
/// attention.
std::string describeAttention(mlir::ModuleOp program,
                              const BuildOptions &options);

} // namespace poplar

#endif // POPLAR_TARGET_ATTENTIONCHOICE_H
