//===- DetectGPUsTest.cpp - Cluster files of machines with GPUs -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/DetectGPUs.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

using namespace poplar;

namespace {

DetectedGPU makeGPU(const std::string &name, int capability,
                    int64_t mebibytes) {
  DetectedGPU gpu;
  gpu.name = name;
  gpu.capability = capability;
  gpu.memory = mebibytes << 20;
  gpu.pcieBandwidth = 16e9;
  gpu.pcieGeneration = 3;
  gpu.pcieWidth = 16;
  return gpu;
}

/// Names and memory as nvidia-smi shows them.
TEST(DetectGPUs, KnownDevicesAreFoundByTheirNames) {
  struct {
    const char *name;
    int capability;
    int64_t mebibytes;
    const char *key;
  } cases[] = {
      {"NVIDIA A100-SXM4-40GB", 80, 40960, "a100-40"},
      {"NVIDIA A100-SXM4-80GB", 80, 81920, "a100-80"},
      {"NVIDIA A100-PCIE-40GB", 80, 40960, "a100-pcie-40"},
      {"NVIDIA A100 80GB PCIe", 80, 81920, "a100-pcie-80"},
      {"NVIDIA A30", 80, 24576, "a30"},
      {"NVIDIA A10", 86, 23028, "a10"},
      {"NVIDIA RTX A6000", 86, 49140, "a6000"},
      {"NVIDIA H100 80GB HBM3", 90, 81559, "h100"},
      {"NVIDIA H100 PCIe", 90, 81559, "h100-pcie"},
      {"NVIDIA H100 NVL", 90, 95830, "h100-nvl"},
      {"NVIDIA H200", 90, 143771, "h200"},
      {"Tesla V100-SXM2-16GB", 70, 16384, "v100-16"},
      {"Tesla V100-SXM2-32GB", 70, 32768, "v100-32"},
      {"Tesla V100-PCIE-16GB", 70, 16384, "v100-pcie-16"},
      {"Tesla V100S-PCIE-32GB", 70, 32768, "v100s"},
      {"Tesla T4", 75, 15360, "t4"},
      {"NVIDIA L4", 89, 23034, "l4"},
      {"NVIDIA L40S", 89, 46068, "l40s"},
      {"NVIDIA GeForce RTX 3060", 86, 12288, "rtx3060"},
      {"NVIDIA GeForce RTX 4090", 89, 24564, "rtx4090"},
      {"NVIDIA A10G", 86, 23028, "a10g"},
      {"NVIDIA GH200 480GB", 90, 97871, "gh200-96"},
      {"NVIDIA GeForce RTX 4070", 89, 12282, "rtx4070"},
      {"NVIDIA GeForce RTX 4070 SUPER", 89, 12282, "rtx4070super"},
      {"NVIDIA GeForce RTX 4070 Ti", 89, 12282, "rtx4070ti"},
      {"NVIDIA GeForce RTX 4070 Ti SUPER", 89, 16376, "rtx4070tisuper"},
      {"NVIDIA GeForce RTX 4060 Ti", 89, 8188, "rtx4060ti-8"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 120, 97887,
       "rtxpro6000"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 97887,
       "rtxpro6000-server"},
      // Slower than the card of the same name.
      {"NVIDIA GeForce RTX 4090 D", 89, 24564, ""},
      {"NVIDIA GeForce RTX 4060 Laptop GPU", 89, 8188, ""},
      {"NVIDIA A100-SXM4-40GB MIG 7g.40gb", 80, 40192, ""},
      // One has another size than the one that is known, one is
      // unknown.
      {"NVIDIA GeForce RTX 3060", 86, 8192, ""},
      {"NVIDIA Thing", 86, 8192, ""}};
  for (const auto &one : cases)
    EXPECT_EQ(findKnownDevice(makeGPU(one.name, one.capability, one.mebibytes)),
              one.key)
        << one.name;
}

TEST(DetectGPUs, TheSlowestGPUDecidesTheLink) {
  GPUMachine machine;
  machine.gpus = {makeGPU("Tesla T4", 75, 15360),
                  makeGPU("Tesla T4", 75, 15360)};
  machine.gpus[1].pcieBandwidth = 8e9;
  machine.peersEverywhere = true;
  mlir::MLIRContext context;
  std::string error;
  auto getLink = [&](const std::optional<LinkProbe> &probe) {
    auto module = describeGPUs(machine, probe, context, error);
    EXPECT_TRUE(module) << error;
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    auto links = module->getOps<cluster::LinkOp>();
    return (*links.begin()).getBandwidth().convertToDouble();
  };
  EXPECT_EQ(getLink({}), 8e9);
  machine.peersEverywhere = false;
  EXPECT_EQ(getLink({}), 4e9);
  EXPECT_EQ(getLink(LinkProbe{1e-5, 5e9}), 5e9);
  // NVLink between some GPUs is of no use to a collective of all.
  for (DetectedGPU &gpu : machine.gpus)
    gpu.nvlinkBandwidth = 1e11;
  EXPECT_EQ(getLink({}), 4e9);
  machine.nvlinkEverywhere = true;
  EXPECT_EQ(getLink({}), 1e11);
}

} // namespace
