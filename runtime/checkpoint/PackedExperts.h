//===- PackedExperts.h - Experts in MXFP4 -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PACKEDEXPERTS_H
#define POPLAR_RUNTIME_PACKEDEXPERTS_H

#include "checkpoint/Safetensors.h"

namespace poplar::runtime {

/// gpt-oss is published with the weights of experts in MXFP4 (OCP Microscaling
/// Formats 1.0): `NAME_blocks` [experts, outputs, inputs / 32, 16] holds two
/// values in a byte, the first one in its low half, and `NAME_scales` [experts,
/// outputs, inputs / 32] the exponent of each block of 32 values, plus 127.
/// This puts the values in their place, `NAME` [experts, inputs, outputs],
/// which is how transformers has them; they are decoded when they are read.
/// Returns whether there were any.
bool joinPackedExperts(TensorFiles &Files);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PACKEDEXPERTS_H
