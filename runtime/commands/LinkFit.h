//===- LinkFit.h - The line through times of messages -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_LINKFIT_H
#define POPLAR_RUNTIME_LINKFIT_H

#include <optional>
#include <vector>

namespace poplar::runtime {

/// Median seconds of repetitions of a message.
struct MessageTime {
  double Bytes, Seconds;
};

/// A message takes Latency + bytes / Bandwidth.
struct LinkFit {
  double Latency, Bandwidth;
  /// The mean distance of a time from the line, relative.
  double Error;

  /// The line through the time of the smallest message and another one whose
  /// mean relative distance from all is the least. No single time draws it far,
  /// as it would a line of least squares: what a link lets through at once
  /// before it is slow, or a message that is sent in another way, is on no
  /// line. None where larger messages take no longer. `Times` begin with the
  /// smallest.
  static std::optional<LinkFit> get(const std::vector<MessageTime> &Times);
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_LINKFIT_H
