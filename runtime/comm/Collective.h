//===- Collective.h - One collective of a rank ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_COLLECTIVE_H
#define POPLAR_RUNTIME_COMM_COLLECTIVE_H

#include "comm/Communicator.h"
#include "comm/IslandLibrary.h"

#include <cstdint>
#include <vector>

namespace poplar::runtime::comm {

/// One collective; see Communicator for what each does.
struct Collective {
  /// Messages between two ranks are counted as the collectives are.
  enum Kind : int32_t {
    AllGather = 0,
    ReduceScatter = 1,
    AllReduce = 2,
    SendMessage = 3,
    ReceiveMessage = 4,
    /// An exchange of a device's memory among ranks that share units; see
    /// useLibraries.
    Exchange = 5
  };
  static constexpr int NumKinds = 6;

  Kind TheKind = AllGather;
  /// AllGather: the own shard. Otherwise: the whole array, f32.
  const void *Send = nullptr;
  /// ReduceScatter: the own shard, f32. Otherwise: the whole array.
  void *Receive = nullptr;
  /// Bounds[size + 1], in elements; read until the collective is complete.
  const int64_t *Bounds = nullptr;
  Type Wire = Type::F32;
  /// Types of the memory; AllGather only.
  Type SendType = Type::F32, ReceiveType = Type::F32;
  /// ReduceScatter: add to the shard instead of overwriting it.
  bool Accumulate = false;
  /// The transfers of an exchange; read until it is complete.
  const std::vector<IslandLibrary::Transfer> *Transfers = nullptr;
  /// For reductions: whether sums that cross between nodes are rounded, and
  /// where their rounding errors are kept (Communicator::Feedback).
  bool IsLossy = false;
  float *Residual = nullptr;
  /// The point of the device to wait for, see Communicator::waitFor.
  void *After = nullptr;
  /// Its number in the plan, for reports: a bucket or unit.
  int32_t Bucket = -1;
  /// The subgroup of its ranks; -1 for all ranks.
  int32_t Subgroup = -1;
};

/// all-gather, reduce-scatter, all-reduce
const char *getName(Collective::Kind K);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_COLLECTIVE_H
