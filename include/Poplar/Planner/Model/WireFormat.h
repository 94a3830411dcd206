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

#include <cstdint>
#include <set>
#include <string>

namespace poplar {

/// In what ranks of two working formats send each other parameters. Folded over
/// all ranks of a job, it is that of the job.
inline std::string joinWireFormats(const std::string &format,
                                   const std::string &other) {
  return format == other ? format : "f32";
}

/// In what activations, and their gradients, travel between two pipeline
/// stages, whose ranks keep them in these formats.
inline std::string getMessageFormat(const std::set<std::string> &before,
                                    const std::set<std::string> &behind) {
  if (before.size() > 1 && behind.size() > 1)
    return "f32";
  if (behind.size() == 1 && *behind.begin() != "f32")
    return *behind.begin();
  bool losesNothing = behind.size() == 1 && before.size() == 1;
  return losesNothing ? *before.begin() : "f32";
}

/// Bytes of an element on the wire: of a gradient, and of a parameter.
constexpr int64_t gradientWireBytes = 4;
inline int64_t getWireBytes(const std::string &wireFormat) {
  return wireFormat == "f32" ? 4 : 2;
}

/// What a plan lets collectives carry; empty for what they carry without a
/// loss.
struct LossyWires {
  std::string gradients, parameters;

  bool any() const { return !gradients.empty() || !parameters.empty(); }
  bool operator==(const LossyWires &other) const {
    return gradients == other.gradients && parameters == other.parameters;
  }
};

/// "gradients as i8, parameters as bf16"
inline std::string describeWires(const LossyWires &wires) {
  std::string text;
  if (!wires.gradients.empty())
    text = "gradients as " + wires.gradients;
  if (!wires.parameters.empty())
    text += (text.empty() ? "parameters as " : ", parameters as ") +
            wires.parameters;
  return text;
}

/// Values that a scale in f32 belongs to, in blocks of int8 on the wire.
constexpr int64_t wireBlock = 256;

/// Bytes of an element in a collective.
inline double getElementBytes(const std::string &wireFormat) {
  return wireFormat == "i8" ? 1 + 4.0 / double(wireBlock)
                            : double(getWireBytes(wireFormat));
}

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_WIREFORMAT_H
