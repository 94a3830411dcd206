//===- ChoiceBiases.h - What choices of experts add to scores ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint has a number in f32 for each expert. A program has the rows of
// nn.route in its place, which 16 bits hold.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHOICEBIASES_H
#define POPLAR_RUNTIME_CHOICEBIASES_H

#include "checkpoint/Safetensors.h"
#include "program/Tensors.h"

namespace poplar::runtime {

/// Puts rows in the place of the files' tensor `Name`, if it is a bias, which
/// `T` is in the program.
void divideBias(TensorFiles &Files, const std::string &Name, const Tensor &T);

/// Puts biases in the place of their rows. The values are written where
/// `Copies`.
void joinBiases(std::vector<TensorSource> &Tensors, bool Copies);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHOICEBIASES_H
