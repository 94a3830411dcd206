//===- Island.cpp - What a CPU brings to collectives ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Island.h"

using namespace poplar::runtime;

/// Messages are of its own memory: it needs no library, whatever the program,
/// and no reason for having none.
comm::IslandOffer poplar::runtime::offerIsland(const PoplarProgram &, int) {
  comm::IslandOffer Offer;
  Offer.Choice = comm::getLibraryChoice();
  return Offer;
}

comm::IslandMaker poplar::runtime::getIslandMaker(Device &,
                                                  const PoplarProgram &, int,
                                                  const std::atomic<bool> &) {
  return {};
}
