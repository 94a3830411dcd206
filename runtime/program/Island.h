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

/// What `Rank` says of its device before islands are made.
comm::IslandOffer offerIsland(const PoplarProgram &Program, int Rank);

/// How it joins one, for collectives of the memory that `D` has allocated.
/// `Interrupted` ends the wait for ranks that do not come.
comm::IslandMaker getIslandMaker(Device &D, const PoplarProgram &Program,
                                 int Rank,
                                 const std::atomic<bool> &Interrupted);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_ISLAND_H
