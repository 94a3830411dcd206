//===- ZeroRounds.h - What the ranks of a ZeRO stage send -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every stage of ZeRO (Rajbhandari et al., SC 2020, section 7) is a number of
// times that a bucket goes over the wire: all-gathers, and reduce-scatters, in
// each micro-step and once an iteration. The costs of all plans count them
// here, and --zero-materialize issues them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_ZEROROUNDS_H
#define POPLAR_PLANNER_MODEL_ZEROROUNDS_H

#include <cstdint>

namespace poplar {

struct ZeroRounds {
  /// In every micro-step: parameters gathered for the forward and for the
  /// backward pass, gradients reduced after the backward pass.
  int gathersForward = 0, gathersBackward = 0, stepReductions = 0;
  /// Once an iteration: gradients reduced, the sums gathered, parameters
  /// gathered after the update.
  int reductions = 0, gradientGathers = 0, parameterGathers = 0;

  static constexpr ZeroRounds of(int zeroStage) {
    switch (zeroStage) {
    case 0: // An all-reduce is a reduce-scatter and an all-gather.
      return {0, 0, 0, 1, 1, 0};
    case 1:
      return {0, 0, 0, 1, 0, 1};
    case 2:
      return {0, 0, 1, 0, 0, 1};
    default:
      return {1, 1, 1, 0, 0, 0};
    }
  }
};

/// Elements of the buckets that each of them gathers or reduces in a
/// micro-step. Tied buckets go several times; what the forward pass used last
/// is not gathered again, nor what the backward pass does not read.
struct StepElements {
  int64_t gatheredForward = 0, gatheredBackward = 0, reduced = 0;
};

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_ZEROROUNDS_H
