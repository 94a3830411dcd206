//===- RunState.h - How far a run is ----------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_RUNSTATE_H
#define POPLAR_DRIVER_RUNSTATE_H

#include <cstdint>
#include <optional>
#include <string>

namespace poplar {

/// What the last checkpoint of a run says: its step, and the one that the run
/// ends with.
struct RunState {
  int64_t step, lastStep;
};

/// Reads RUN/latest/state.json; nothing if there is none, or it is damaged.
std::optional<RunState> readRunState(const std::string &run);

} // namespace poplar

#endif // POPLAR_DRIVER_RUNSTATE_H
