//===- DiagnosisTest.cpp - What the ranks of a job will fail of -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Diagnosis.h"

#include <gtest/gtest.h>

using namespace poplar::runtime;

namespace {

Facts gpu(int Rank) {
  std::string Host = Rank < 2 ? "n1" : "n2";
  return {{"host", Host},
          {"type", "a100"},
          {"memory", "GPU " + std::to_string(Rank) + " of " + Host},
          {"needed", "1000"},
          {"free", "2000"},
          {"chip", "sm_80"},
          {"gpu_chip", "sm_80"},
          {"driver", "13.0"},
          {"library", "NCCL 2.28.9"},
          {"threads", "1"},
          {"cores", "4"},
          {"network", "eth0 infiniband:mlx5_0"},
          {"clock", "0.0001"}};
}

std::vector<Facts> healthy() { return {gpu(0), gpu(1), gpu(2), gpu(3)}; }

/// All findings in one text.
std::string diagnoseAll(const std::vector<Facts> &All) {
  std::string Text;
  for (const Finding &F : diagnose(All))
    Text += format(F, All) + "\n";
  return Text;
}

TEST(Diagnosis, NothingIsWrongWithWhatIsAlike) {
  EXPECT_EQ(diagnoseAll(healthy()), "");
}

TEST(Diagnosis, NamesTheCulprit) {
  struct {
    const char *Key, *Value, *Expected;
  } Cases[] = {
      {"error", "there is no such GPU",
       "failed: rank 2 (n2, a100): there is no such GPU\n"},
      {"driver", "12.4",
       "note: rank 2 (n2, a100): NVIDIA's driver is 12.4, that of most ranks "
       "13.0; install the same driver everywhere\n"},
      {"library", "NCCL 2.20.5",
       "note: rank 2 (n2, a100): NCCL 2.20.5 cannot share a communicator with "
       "the NCCL 2.28.9 of others: messages between them go through hosts; "
       "install NCCL 2.28.9, or name its directory in POPLAR_CUDA_PATH\n"},
      {"gpu_chip", "sm_90",
       "note: rank 2 (n2, a100): its GPU is sm_90, and the program is for "
       "sm_80: the driver compiles the PTX at every start; give the device "
       "type the target cuda:sm_90\n"},
      {"needed", "3000",
       "failed: rank 2 (n2, a100): the plan needs 2.93 KiB of the GPU 2 of "
       "n2, of which 1.95 KiB are free; end what else uses it, or plan with "
       "less `memory`\n"},
      {"environment", "NCCL_ALGO=Tree",
       "failed: rank 2 (n2, a100): NCCL_ALGO is Tree, that of most ranks not "
       "set; set it alike for all ranks (mpirun -x, srun --export)\n"},
      {"environment", "NCCL_DEBUG=INFO",
       "note: rank 2 (n2, a100): NCCL_DEBUG is INFO, that of most ranks not "
       "set; set it alike for all ranks (mpirun -x, srun --export)\n"},
      {"network", "eth0",
       "note: rank 2 (n2, a100): there is no InfiniBand on its host, but on "
       "those of others; ibstat shows whether its ports are up\n"},
      {"clock", "-3.5",
       "note: rank 2 (n2, a100): its clock is 3.5 s behind that of rank 0; "
       "synchronise it (chronyd or ntpd)\n"},
      {"missing", "avx512f",
       "failed: rank 2 (n2, a100): its CPU has no avx512f, which a100 is "
       "compiled for; plan with a device type of this CPU (poplar cluster "
       "detect)\n"},
      {"no_peer", "3",
       "note: rank 2 (n2, a100): its GPU cannot read the memory of those of "
       "ranks 3: messages go through the host; in a virtual machine, switch "
       "ACS off; nvidia-smi topo -p2p r shows details\n"},
  };
  for (const auto &Case : Cases) {
    std::vector<Facts> All = healthy();
    All[2][Case.Key] = Case.Value;
    EXPECT_EQ(diagnoseAll(All), Case.Expected);
  }
}

TEST(Diagnosis, RanksThatShareMemoryNeedItTogether) {
  std::vector<Facts> All = healthy();
  All[1]["memory"] = All[0]["memory"];
  EXPECT_EQ(diagnoseAll(All), "");
  All[1]["needed"] = "1001";
  EXPECT_NE(diagnoseAll(All).find("failed: ranks 0, 1: the plan needs"),
            std::string::npos);
}

TEST(Diagnosis, InterfacesHaveToBeThere) {
  std::vector<Facts> All = healthy();
  for (Facts &F : All)
    F["environment"] = "NCCL_SOCKET_IFNAME=eth,ens";
  EXPECT_EQ(diagnoseAll(All), "");
  for (const char *Allowed : {"^docker", "=eth0", "lo"}) {
    for (Facts &F : All)
      F["environment"] = std::string("NCCL_SOCKET_IFNAME=") + Allowed;
    EXPECT_EQ(diagnoseAll(All), "") << Allowed;
  }
  All[3]["network"] = "bond0 infiniband:mlx5_0";
  for (Facts &F : All)
    F["environment"] = "NCCL_SOCKET_IFNAME=eth0";
  EXPECT_EQ(diagnoseAll(All),
            "failed: rank 3 (n2, a100): NCCL_SOCKET_IFNAME=eth0, but its host "
            "has only: bond0 infiniband:mlx5_0; name an interface that every "
            "host has\n");
}

TEST(Diagnosis, WhatIsDemandedHasToBeThere) {
  std::vector<Facts> All = healthy();
  All[1]["library"] = "";
  All[1]["no_library"] = "cannot load libnccl.so.2";
  EXPECT_FALSE(diagnose(All)[0].Fatal);
  for (Facts &F : All)
    F["comm"] = "nccl";
  EXPECT_TRUE(diagnose(All)[0].Fatal);
}

TEST(Diagnosis, FatalOnesComeFirst) {
  std::vector<Facts> All = healthy();
  All[0]["clock"] = "9";
  All[3]["error"] = "gone";
  ASSERT_EQ(diagnose(All).size(), 2u);
  EXPECT_TRUE(diagnose(All)[0].Fatal);
  EXPECT_FALSE(diagnose(All)[1].Fatal);
}

TEST(Facts, TextIsReadBack) {
  Facts F = {{"a", "b=c"}, {"empty", ""}, {"lines", "one two"}};
  EXPECT_EQ(parseFacts(toText(F)), F);
}

} // namespace
