//===- WireFormat.h - In what ranks send elements ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients travel in f32, unless a plan says otherwise. Parameters travel in
// the format that all ranks of a job work in (getWorkingFormat() in
// StateBytes.h), or in f32 where they differ. A plan may have both travel in
// less: as bf16, or as i8, blocks of int8 (docs/lossy-wires.md).
//
// Activations travel between two pipeline stages in the format that both keep
// them in. Where formats differ, in the one that loses nothing which the stage
// behind could keep.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_WIREFORMAT_H
#define POPLAR_PLANNER_MODEL_WIREFORMAT_H

#include "Poplar/Support/Words.h"
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace poplar {

/// In what ranks of two working formats send each other parameters. Folded over
/// all ranks of a job, it is that of the job.
inline NumberFormat joinWireFormats(NumberFormat format, NumberFormat other) {
  return format == other ? format : NumberFormat::F32;
}

/// In what activations, and their gradients, travel between two pipeline
/// stages, whose ranks keep them in these formats.
inline NumberFormat getMessageFormat(const std::set<NumberFormat> &before,
                                     const std::set<NumberFormat> &behind) {
  if (before.size() > 1 && behind.size() > 1)
    return NumberFormat::F32;
  if (behind.size() == 1 && *behind.begin() != NumberFormat::F32)
    return *behind.begin();
  bool losesNothing = behind.size() == 1 && before.size() == 1;
  return losesNothing ? *before.begin() : NumberFormat::F32;
}

/// What carries values of a format as they are.
constexpr WireFormat getExactWire(NumberFormat format) {
  return format == NumberFormat::BF16  ? WireFormat::BF16
         : format == NumberFormat::F16 ? WireFormat::F16
                                       : WireFormat::F32;
}

/// Bytes of a gradient on the wire, where nothing is lost.
constexpr int64_t gradientWireBytes = 4;

/// What a plan lets collectives carry: bf16 or i8; none for what they carry
/// without a loss.
struct LossyWires {
  std::optional<WireFormat> gradients, parameters;

  bool any() const { return gradients || parameters; }
  bool operator==(const LossyWires &other) const {
    return gradients == other.gradients && parameters == other.parameters;
  }
};

/// "gradients as i8, parameters as bf16"
inline std::string describeWires(const LossyWires &wires) {
  std::string text;
  if (wires.gradients)
    text = std::string("gradients as ") + toString(*wires.gradients);
  if (wires.parameters)
    text += std::string(text.empty() ? "" : ", ") + "parameters as " +
            toString(*wires.parameters);
  return text;
}

/// Values that a scale in f32 belongs to, in blocks of int8 on the wire.
constexpr int64_t wireBlock = 256;

/// Bytes of an element in a collective, its part of a scale included.
constexpr double getElementBytes(WireFormat wire) {
  return wire == WireFormat::I8    ? 1 + 4.0 / double(wireBlock)
         : wire == WireFormat::F32 ? 4
                                   : 2;
}

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_WIREFORMAT_H
