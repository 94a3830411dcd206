//===- RunDirectory.h - The checkpoints of a run ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RUNDIRECTORY_H
#define POPLAR_RUNTIME_RUNDIRECTORY_H

#include <cstdint>
#include <string>
#include <vector>

namespace poplar::runtime {

/// The directory of a checkpoint is called by this and its step.
inline constexpr const char *CheckpointPrefix = "checkpoint-";

/// The steps of the complete checkpoints in directory `Run`, ascending.
std::vector<int64_t> listCheckpoints(const std::string &Run);

/// The newest checkpoint directory of a run; empty if it has none.
std::string findLatestCheckpoint(const std::string &Run);

/// The newest checkpoint of a run; any other path is returned as it is.
std::string resolveCheckpoint(const std::string &Path);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_RUNDIRECTORY_H
