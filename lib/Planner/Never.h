//===- Never.h - A time that does not come ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_NEVER_H
#define POPLAR_LIB_PLANNER_NEVER_H

#include <limits>

namespace poplar {

/// The seconds of a plan that cannot be.
constexpr double never = std::numeric_limits<double>::infinity();

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_NEVER_H
