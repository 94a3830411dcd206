//===- ParameterParts.h - Parameters in several parts -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where pipeline stages divide a tied parameter in unlike ways, it is cut at
// the bounds of all of them. A device then holds several of the parts, each in
// a bucket of its own, since each has other holders:
//
//   stage 0, two devices   [ e.part0          ][ e.part1 ][ e.part2 ]
//                          `----- first -----'`------ second ------'
//   stage 1, two devices   `----------- first -----------'`- second '
//
// So it is in a pipeline stage in whose pipelines unlike numbers of devices
// share units, where one computes whole units beside the others. Layers it
// computes part by part (Transforms/Plan/ModelSharding.h), since columns of a
// matrix do not lie one behind the other.
//
// In the program of such a device, the parameter itself stands for its parts:
// their whole copies lie one behind the other, so that what is computed has one
// matrix, and what is collected, updated and saved has the parts.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_PARAMETERPARTS_H
#define POPLAR_DIALECT_ZERO_PARAMETERPARTS_H

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"

namespace poplar::zero {

/// The names of the parts of a parameter, two or more, in the order of their
/// rows.
inline constexpr llvm::StringLiteral kPartsAttr = "zero.parts";

/// Whether a parameter stands for its parts, and is in no bucket.
inline bool hasParts(nn::ParameterOp parameter) {
  return parameter->hasAttr(kPartsAttr);
}

/// Whether a program computes whole units, which ranks of other pipelines of
/// its group share: its position is behind theirs.
inline bool joinsParts(const ProgramInfo &info) {
  return info.sharesUnits() && info.position == int64_t(info.parts.size());
}

/// The names of a parameter's parts; empty if it has none.
inline llvm::SmallVector<mlir::FlatSymbolRefAttr>
getParts(nn::ParameterOp parameter) {
  auto parts = parameter->getAttrOfType<mlir::ArrayAttr>(kPartsAttr);
  if (!parts)
    return {};
  return llvm::to_vector(parts.getAsRange<mlir::FlatSymbolRefAttr>());
}

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PARAMETERPARTS_H
