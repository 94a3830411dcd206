//===- Schedule.h - Learning rates over the steps ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SCHEDULE_H
#define POPLAR_RUNTIME_SCHEDULE_H

#include <cstdint>
#include <string_view>

namespace poplar::runtime {

struct Schedule {
  enum Shape {
    Constant,
    Linear,
    Cosine,
    WarmupStableDecay,
    CosineRestarts,
    Polynomial,
    InverseRoot
  };
  /// The rate before the first step of a warm-up: such that this step is the
  /// first one above zero, zero, or Minimum. With the latter two, the first
  /// step has this rate.
  enum Start { Step, Zero, Least };
  /// The decay of WarmupStableDecay.
  enum Fall { Straight, Wave, Root };

  Shape Kind = Cosine;
  double Peak = 0, Minimum = 0;
  /// Steps of linear warm-up, within Steps.
  int64_t Warmup = 0;
  Start From = Step;
  /// WarmupStableDecay: the end of the run. Constant and InverseRoot have none.
  /// Others: the step at which Minimum is reached.
  int64_t Steps = 0;
  /// WarmupStableDecay: length of the decay at the end, and its shape.
  int64_t Decay = 0;
  Fall Falling = Straight;
  /// CosineRestarts: how often the rate falls, each time from Peak.
  int64_t Cycles = 1;
  /// Polynomial: the power of the part that is left.
  double Power = 1;

  /// Rate of step `Number`, counted from 0.
  double at(int64_t Number) const;
  /// False if there is none of that name.
  static bool parse(std::string_view Name, Shape &Result);
  static bool parse(std::string_view Name, Start &Result);
  static bool parse(std::string_view Name, Fall &Result);
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SCHEDULE_H
