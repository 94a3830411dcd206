//===- Island.cpp - What a GPU brings to collectives ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Island.h"
#include "comm/Host.h"
#include "cuda/Nccl.h"
#include "cuda/NcclIsland.h"
#include "cuda/Selection.h"
#include "job/HostCollectives.h"
#include "program/State.h"
#include "support/Error.h"

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

comm::IslandOffer poplar::runtime::offerIsland(const PoplarProgram &Program,
                                               int Rank) {
  comm::IslandOffer Offer;
  Offer.Choice = comm::getLibraryChoice();
  Offer.MemoryType = Program.working_type;
  char Bus[32] = "";
  check(Driver::get().cuDeviceGetPCIBusId(Bus, sizeof(Bus),
                                          chooseGPU(Program, Rank).Device),
        "tell its bus");
  Offer.Device = comm::getHostName() + " " + Bus;
  std::string Library, Reason;
  if (Offer.Choice == comm::LibraryChoice::Host) {
    Reason = "POPLAR_COMM is host";
  } else {
    try {
      Library = nccl::Nccl::get().Name;
    } catch (const Error &E) {
      Reason = E.what();
    }
  }
  // Stages of a pipeline, shard groups, and ranks that share units, collect in
  // groups of some ranks, and send what is between them.
  if (Program.pipeline || sharesUnits(Program) || Program.replicas > 1) {
    Offer.TeamLibrary = Library;
    Offer.TeamReason = Reason;
    return Offer;
  }
  if (Reason.empty())
    Reason = explainHostCollectives(Program);
  if (Reason.empty())
    Offer.Library = Library;
  Offer.Reason = Reason;
  return Offer;
}

comm::IslandMaker
poplar::runtime::getIslandMaker(Device &D, const PoplarProgram &Program,
                                int Rank,
                                const std::atomic<bool> &Interrupted) {
  int GPU = chooseGPU(Program, Rank).Device;
  return {makeNcclId,
          [&D, GPU, &Interrupted, OnGPU = std::shared_ptr<NcclStream>()](
              int Place, int Size, const std::string &Id) mutable {
            if (!OnGPU)
              OnGPU = makeNcclStream(GPU);
            return joinNccl(OnGPU, Place, Size, Id, D.getMemory(), Interrupted);
          }};
}
