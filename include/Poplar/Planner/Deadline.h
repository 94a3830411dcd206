//===- Deadline.h - When a search has to end --------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_DEADLINE_H
#define POPLAR_PLANNER_DEADLINE_H

#include <chrono>
#include <optional>

namespace poplar {

/// When a search has to end with what it has found. There is none unless a user
/// asks for one: then, the same input may have another plan on another machine.
class Deadline {
public:
  Deadline() = default;
  /// So many seconds from now.
  explicit Deadline(double seconds)
      : end(std::chrono::steady_clock::now() +
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                std::chrono::duration<double>(seconds))) {}

  bool isOver() const {
    return end && std::chrono::steady_clock::now() >= *end;
  }

private:
  std::optional<std::chrono::steady_clock::time_point> end;
};

} // namespace poplar

#endif // POPLAR_PLANNER_DEADLINE_H
