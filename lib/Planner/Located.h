//===- Located.h - Where an error is ----------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_LOCATED_H
#define POPLAR_LIB_PLANNER_LOCATED_H

#include <string>

namespace poplar {

/// "types[3]"
inline std::string at(const char *list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_LOCATED_H
