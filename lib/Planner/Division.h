//===- Division.h - Division that rounds up ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_DIVISION_H
#define POPLAR_LIB_PLANNER_DIVISION_H

#include <cstdint>

namespace poplar {

/// Divides a value of 0 or more by 1 or more, rounding up.
constexpr int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_DIVISION_H
