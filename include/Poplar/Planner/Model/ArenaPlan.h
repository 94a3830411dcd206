//===- ArenaPlan.h - Buffers in a static arena ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Offline dynamic storage allocation: buffers of known size and lifetime share
// one arena as small as can be found. Problem, solution and check are apart.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_ARENAPLAN_H
#define POPLAR_PLANNER_MODEL_ARENAPLAN_H

#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

struct ArenaProblem {
  struct Buffer {
    /// Bytes, rounded up to `alignment` by the plan.
    int64_t size;
    /// Steps from the one that writes it first to the last that touches it.
    int64_t firstStep, lastStep;
  };
  std::vector<Buffer> buffers;
  int64_t alignment = 64;

  /// Empty if the problem makes sense, else what is wrong with it.
  std::string check() const;
  /// Largest sum, over steps, of the sizes of the buffers alive: no plan needs
  /// less.
  int64_t largestLiveBytes() const;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;

  /// Empty if no two buffers overlap in space and time, offsets are aligned
  /// and all fits in `bytes`; else names the violation.
  std::string verify(const ArenaProblem &problem) const;
};

/// First fit over several orders (by size, by lifetime, by their product, by
/// start), each repaired step by step as long as the plan needs more than the
/// live bytes; the best is returned. Deterministic.
ArenaPlan planArena(const ArenaProblem &problem);

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_ARENAPLAN_H
