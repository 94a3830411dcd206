//===- Tensors.h - Tensors of the model and their parts ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TENSORS_H
#define POPLAR_RUNTIME_TENSORS_H

#include "Poplar/Runtime/ABI.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace poplar::runtime {

/// A tensor of the model as its checkpoint has it: one parameter of the
/// program, or several that are parts of it.
struct Tensor {
  const char *Name;
  int64_t Rank;
  const int64_t *Shape;
  /// Indices of parameters.
  std::vector<int64_t> Parts;

  int64_t countElements() const;
};

/// In the order of the parameters.
std::vector<Tensor> listTensors(const PoplarProgram &Program);

/// Calls `Visit(Begin, Offset, Count)` for the runs of elements of the tensor
/// that elements [Begin, End) of a parameter are: `Begin` in the tensor,
/// `Offset` from the first element of the parameter's that was asked for.
void forEachRun(const PoplarParameter &P, int64_t Begin, int64_t End,
                const std::function<void(int64_t Begin, int64_t Offset,
                                         int64_t Count)> &Visit);

/// How many elements of the parameter lie before element `Index` of the tensor.
int64_t countElementsBefore(const PoplarParameter &P, int64_t Index);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TENSORS_H
