//===- Selection.cpp - Which GPU a rank gets ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Selection.h"
#include "cuda/Driver.h"
#include "support/Error.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

int cuda::getCapability(const char *Chip) { return std::atoi(Chip + 3); }

/// How many ranks before this one are of its type on its node.
static size_t getPlace(const PoplarProgram &Program, int Rank) {
  size_t Place = 0;
  for (int R = 0; Program.ranks && R < Rank; ++R)
    Place +=
        std::strcmp(Program.ranks[R].node, Program.ranks[Rank].node) == 0 &&
        std::strcmp(Program.ranks[R].device_type,
                    Program.ranks[Rank].device_type) == 0;
  return Place;
}

Choice cuda::chooseGPU(const PoplarProgram &Program, int Rank) {
  const Driver &D = Driver::get();
  int Count = 0, Wanted = getCapability(Program.gpu->chip);
  check(D.cuDeviceGetCount(&Count), "count GPUs");
  std::vector<Choice> All, Same, Newer;
  std::string Seen;
  for (int Ordinal = 0; Ordinal < Count; ++Ordinal) {
    int Device = 0, Major = 0, Minor = 0;
    char Name[128] = "";
    check(D.cuDeviceGet(&Device, Ordinal), "find a GPU");
    check(D.cuDeviceGetAttribute(&Major, CapabilityMajor, Device),
          "tell its capability");
    check(D.cuDeviceGetAttribute(&Minor, CapabilityMinor, Device),
          "tell its capability");
    check(D.cuDeviceGetName(Name, sizeof(Name), Device), "tell its name");
    int Capability = Major * 10 + Minor;
    All.push_back({Device, Capability});
    if (Capability == Wanted)
      Same.push_back(All.back());
    if (Capability >= Wanted)
      Newer.push_back(All.back());
    Seen += (Seen.empty() ? "" : ", ") + std::string(Name) + " (sm_" +
            std::to_string(Capability) + ")";
  }
  std::string Here = Seen.empty() ? "none" : Seen;
  const std::vector<Choice> &Fitting = Same.empty() ? Newer : Same;
  if (const char *Given = std::getenv("POPLAR_CUDA_DEVICE")) {
    char *End = nullptr;
    long Ordinal = std::strtol(Given, &End, 10);
    if (*Given && !*End && Ordinal >= 0 && Ordinal < Count &&
        All[static_cast<size_t>(Ordinal)].Capability >= Wanted)
      return All[static_cast<size_t>(Ordinal)];
    fail("POPLAR_CUDA_DEVICE is '", Given,
         "', which is not a GPU that can run code "
         "for ",
         Program.gpu->chip, "; there are: ", Here);
  }
  size_t Place = getPlace(Program, Rank);
  if (Fitting.empty())
    fail("the program is for ", Program.gpu->chip,
         ", and there is no such GPU "
         "or newer here; there are: ",
         Here, "; build for the type of these, or start the job elsewhere");
  if (Place >= Fitting.size())
    fail("rank ", Rank, " needs the ", Place + 1, ". GPU for ",
         Program.gpu->chip, " of this machine; there are: ", Here,
         "; plan with fewer devices, or let ranks share a GPU by "
         "POPLAR_CUDA_DEVICE");
  return Fitting[Place];
}
