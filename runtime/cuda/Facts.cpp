//===- Facts.cpp - What a rank on a GPU has -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Facts.h"
#include "cuda/Driver.h"
#include "cuda/Selection.h"
#include "program/Island.h"
#include "support/Error.h"

#include <fstream>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

void poplar::runtime::addDeviceFacts(const PoplarProgram &Program, int Rank,
                                     Facts &F) {
  F["chip"] = Program.gpu->chip;
  const Driver &D = Driver::get();
  F["driver"] = std::to_string(D.Version / 1000) + "." +
                std::to_string(D.Version % 1000 / 10);
  if (std::ifstream Module("/sys/module/nvidia/version"); Module)
    std::getline(Module, F["module"]);
  Choice Chosen = chooseGPU(Program, Rank);
  F["gpu_chip"] = "sm_" + std::to_string(Chosen.Capability);
  char Name[128] = "", Bus[32] = "";
  check(D.cuDeviceGetName(Name, sizeof(Name), Chosen.Device), "tell its name");
  check(D.cuDeviceGetPCIBusId(Bus, sizeof(Bus), Chosen.Device), "tell its bus");
  F["device"] = std::string(Name) + " (" + F["gpu_chip"] + ")";
  F["gpu"] = Bus;
  F["memory"] = "GPU " + F["gpu"] + " of " + F["host"];
  // Free beside the context, which is kept: the rank needs it next.
  Context Primary;
  check(D.cuDevicePrimaryCtxRetain(&Primary, Chosen.Device), "make a context");
  check(D.cuCtxSetCurrent(Primary), "use its context");
  size_t Free = 0, Total = 0;
  check(D.cuMemGetInfo_v2(&Free, &Total), "tell its memory");
  F["free"] = std::to_string(Free);
  comm::IslandOffer Offer = offerIsland(Program, Rank);
  F["library"] = Offer.Library;
  F["no_library"] = Offer.Reason;
}

std::string poplar::runtime::findUnreachable(const std::vector<Facts> &All,
                                             int Rank) {
  const Driver &D = Driver::get();
  const Facts &Mine = All[static_cast<size_t>(Rank)];
  std::string Ranks;
  int Own = 0;
  if (D.cuDeviceGetByPCIBusId(&Own, getFact(Mine, "gpu").c_str()) != 0)
    return "";
  for (size_t R = 0; R < All.size(); ++R) {
    std::string Bus = getFact(All[R], "gpu");
    int Other = 0, Can = 1;
    // Another rank's GPU may be invisible to this process.
    if (getFact(All[R], "host") == getFact(Mine, "host") && !Bus.empty() &&
        Bus != getFact(Mine, "gpu") &&
        D.cuDeviceGetByPCIBusId(&Other, Bus.c_str()) == 0 &&
        D.cuDeviceCanAccessPeer(&Can, Own, Other) == 0 && !Can)
      Ranks += (Ranks.empty() ? "" : " ") + std::to_string(R);
  }
  return Ranks;
}
