//===- Island.h - What a device brings to collectives -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is one implementation per backend, as of Device.h.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_ISLAND_H
#define POPLAR_RUNTIME_ISLAND_H

#include "comm/Islands.h"
#include "program/Device.h"

namespace poplar::runtime {

/// The description of a rank's device from which islands are formed.
comm::IslandOffer offerIsland(const PoplarProgram &Program, int Rank);

/// The function by which a rank joins an island, for collectives of the memory
/// that `D` has allocated. `Interrupted` ends the wait for missing ranks.
comm::IslandMaker getIslandMaker(Device &D, const PoplarProgram &Program,
                                 int Rank,
                                 const std::atomic<bool> &Interrupted);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ISLAND_H
