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
  enum Shape { Constant, Linear, Cosine, WarmupStableDecay };

  Shape Kind = Cosine;
  double Peak = 0, Minimum = 0;
  /// Steps of linear warm-up from zero, within Steps.
  int64_t Warmup = 0;
  /// Linear, Cosine: the step at which Minimum is reached. WarmupStableDecay:
  /// the end of the run.
  int64_t Steps = 0;
  /// WarmupStableDecay: length of the linear decay at the end.
  int64_t Decay = 0;

  /// Rate of step `Step`, counted from 0.
  double at(int64_t Step) const;
  /// False if there is no schedule of that name.
  static bool parse(std::string_view Name, Shape &Result);
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SCHEDULE_H
