//===- KernelsTest.cpp - Kernels of a GPU against those of a host ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All kernels of a model, on random data, once as the host runs them and once
// in the blocks and threads of a GPU, emulated (BlockEmulator.h). What is
// checked is the mapping: indices, vectors, barriers, exchanges. Nothing here
// runs on a GPU.
//
//===----------------------------------------------------------------------===//

#include "Buffer.h"
#include "HostKernels.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Target/Build.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

namespace {

struct Case {
  const char *model;
  NumberFormat precision;
  const char *chip;
};

class GPUKernels : public testing::TestWithParam<Case> {};

TEST_P(GPUKernels, AgreeWithTheHosts) {
  auto [model, precision, chipName] = GetParam();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string error;
  ImportOptions import;
  import.seqLen = 24;
  OwningOpRef<ModuleOp> module =
      importModel(std::string(POPLAR_EXAMPLES) + "/models/" + model + ".json",
                  import, context, error);
  ASSERT_TRUE(module) << error;
  BuildOptions options;
  // No product is run here, and not every CPU has those of bf16.
  options.workspaceBytes = 0;
  options.precision = precision;
  PassManager pm(&context);
  buildPlanPipeline(pm, options);
  ASSERT_TRUE(succeeded(pm.run(*module)));
  GPUChip chip = *findGPUChip(chipName);
  HostKernels compiled;
  ASSERT_EQ(compiled.compile(*module, chip), "");
  ASSERT_GT(compiled.kernels.size(), 10u);

  std::mt19937 random(1);
  for (const KernelPair &kernel : compiled.kernels) {
    // The elements of a flat kernel are not a multiple of anything.
    int64_t batch = kernel.isFlat ? 2579 : 3;
    int64_t extent = kernel.parts * (kernel.batched ? batch : 1);
    std::vector<Buffer> host;
    for (RankedTensorType type : kernel.tensors)
      host.emplace_back(type, batch, random);
    std::vector<Buffer> gpu = host;
    auto addresses = [](std::vector<Buffer> &buffers) {
      std::vector<void *> pointers;
      for (Buffer &buffer : buffers)
        pointers.push_back(buffer.data());
      return pointers;
    };
    std::vector<void *> hostPointers = addresses(host),
                        gpuPointers = addresses(gpu);
    kernel.host(hostPointers.data(), batch, 0, extent);
    Launch launch = {kernel.blockSize,
                     (extent + kernel.partsPerBlock - 1) / kernel.partsPerBlock,
                     static_cast<int32_t>(chip.subgroupSize),
                     kernel.sharedBytes};
    EXPECT_EQ(run(kernel.gpu, gpuPointers.data(), batch, launch), "")
        << kernel.name;
    for (size_t i = 0; i < host.size(); ++i) {
      // Sums are taken in another order, and then rounded.
      bool isHalf = host[i].element.getIntOrFloatBitWidth() == 16;
      // Written so that a NaN fails.
      EXPECT_TRUE(distance(host[i], gpu[i]) <= (isHalf ? 2e-3 : 1e-5))
          << kernel.name << ", pointer " << i << ": "
          << distance(host[i], gpu[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GPUKernels,
    testing::Values(Case{"tiny-llama", NumberFormat::F32, "sm_80"},
                    Case{"tiny-llama", NumberFormat::BF16, "sm_80"},
                    Case{"tiny-gpt2", NumberFormat::F32, "sm_80"},
                    Case{"tiny-gpt2", NumberFormat::BF16, "gfx90a"},
                    Case{"tiny-bert", NumberFormat::F32, "sm_80"},
                    Case{"tiny-bert", NumberFormat::BF16, "sm_80"}),
    [](const testing::TestParamInfo<Case> &info) {
      std::string name = std::string(info.param.model) + "_" +
                         toString(info.param.precision) + "_" + info.param.chip;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

} // namespace
