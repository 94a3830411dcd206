//===- HeartbeatSockets.h - Connections for heartbeats ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_HEARTBEATSOCKETS_H
#define POPLAR_RUNTIME_COMM_HEARTBEATSOCKETS_H

#include <cstdint>
#include <vector>

namespace poplar::runtime::comm {

/// Connections that ranks made when they met. They belong to the caller who has
/// taken them.
struct HeartbeatSockets {
  /// Rank 0 has one to each other rank, others have one to rank 0; -1
  /// elsewhere. Empty if the ranks met in another way.
  std::vector<int32_t> ByRank;
  uint64_t Session = 0; // the same for all ranks of a job, and for no other job
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_HEARTBEATSOCKETS_H
