//===- QuantizedParts.h - Parts of quantised matrices -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that share units each have a part of a quantised matrix. Its values
// are those of the whole one, to the bit: the matrix is quantised first, then
// divided.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_QUANTIZEDPARTS_H
#define POPLAR_RUNTIME_QUANTIZEDPARTS_H

#include "Poplar/Runtime/ABI.h"

#include <vector>

namespace poplar::runtime {

/// The format by which values of a quantised parameter are rounded, in a model
/// whose frozen weights have the format `OfModel`. A part that cuts blocks of
/// scales has the rounded scales in f32: it is in NF4, but rounded twice.
int32_t getRoundedFormat(const PoplarParameter &P, int32_t OfModel);

/// Quantises the tensor that a parameter is, or is a part of, and returns the
/// bytes of the parameter; none if a value is not finite.
std::vector<char> quantizeParameter(const PoplarParameter &P, int32_t OfModel,
                                    const std::vector<float> &Tensor);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_QUANTIZEDPARTS_H
