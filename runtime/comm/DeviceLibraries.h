//===- DeviceLibraries.h - Libraries of a rank's device ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_DEVICELIBRARIES_H
#define POPLAR_RUNTIME_COMM_DEVICELIBRARIES_H

#include "comm/Communicator.h"
#include "comm/IslandLibrary.h"

#include <memory>
#include <vector>

namespace poplar::runtime::comm {

/// The libraries of a rank's device. All of them queue on one stream, so that
/// what they do is in the order in which it was queued.
struct DeviceLibraries {
  /// The library of exchanges with ranks that share units; null if there are
  /// none.
  std::unique_ptr<IslandLibrary> Exchanges;
  /// The library of a subgroup's collectives, and whether its ranks always have
  /// the same types of memory.
  struct OfSubgroup {
    int Subgroup;
    std::unique_ptr<IslandLibrary> Library;
    bool Uniform;
  };
  /// In the same order on any two ranks.
  std::vector<OfSubgroup> Subgroups;
};

/// The order of the libraries that queue on one stream: that of exchanges, null
/// if there are none, which are queued as soon as it has taken them, and those
/// of subgroups.
std::unique_ptr<DeviceOrder>
makeCommonOrder(IslandLibrary *Exchanges, std::vector<DeviceOrder *> Subgroups);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_DEVICELIBRARIES_H
