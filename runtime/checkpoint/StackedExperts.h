//===- StackedExperts.h - Experts in one tensor -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_STACKEDEXPERTS_H
#define POPLAR_RUNTIME_STACKEDEXPERTS_H

#include "checkpoint/Safetensors.h"

namespace poplar::runtime {

/// Some checkpoints (Qwen3.5) hold the weights of a layer's experts in two
/// tensors, as transformers has them in memory: `experts.gate_up_proj`
/// [experts, 2 inner, hidden], with the rows of the gate first, and
/// `experts.down_proj` [experts, hidden, inner]. This gives them the names and
/// the shapes of checkpoints that have a tensor for each expert
/// (`experts.0.gate_proj.weight`).
void splitStackedExperts(TensorFiles &Files);

/// What each expert has of such a tensor, in order (`gate_proj`, `up_proj`);
/// empty if it is no stack.
std::vector<std::string> getStackedLeaves(const std::string &Name,
                                          const TensorView &View);

/// The other way: what is written of models whose experts transformers reads in
/// two tensors only (Mistral 4). `Copies` on the rank that writes them.
void stackExperts(std::vector<TensorSource> &Tensors, bool Copies);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_STACKEDEXPERTS_H
