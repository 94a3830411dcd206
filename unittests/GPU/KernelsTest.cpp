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

#include "HostKernels.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Target/Host.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

namespace {

struct Case {
  const char *model, *precision, *chip;
};

class GPUKernels : public testing::TestWithParam<Case> {};

/// Memory of a tensor: numbers away from zero, so that no square root or
/// logarithm is of nothing; indices that are valid everywhere.
struct Buffer {
  std::vector<char> bytes;
  Type element;

  Buffer(RankedTensorType type, int64_t batch, std::mt19937 &random)
      : element(type.getElementType()) {
    int64_t count = 1;
    for (int64_t size : type.getShape())
      count *= ShapedType::isDynamic(size) ? batch : size;
    size_t width = element.getIntOrFloatBitWidth() / 8;
    bytes.resize(static_cast<size_t>(count) * width);
    std::uniform_real_distribution<float> real(0.25f, 1.25f);
    std::uniform_int_distribution<int32_t> integer(0, 1);
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = isa<FloatType>(element)
                          ? encode(real(random))
                          : static_cast<uint64_t>(integer(random));
      std::memcpy(&bytes[static_cast<size_t>(i) * width], &bits, width);
    }
  }

  uint64_t encode(float value) const {
    llvm::APFloat number(value);
    bool ignored;
    number.convert(cast<FloatType>(element).getFloatSemantics(),
                   llvm::APFloat::rmNearestTiesToEven, &ignored);
    return number.bitcastToAPInt().getZExtValue();
  }
  size_t size() const {
    return bytes.size() / (element.getIntOrFloatBitWidth() / 8);
  }
  double at(size_t i) const {
    unsigned bits = element.getIntOrFloatBitWidth();
    uint64_t value = 0;
    std::memcpy(&value, &bytes[i * bits / 8], bits / 8);
    if (!isa<FloatType>(element))
      return static_cast<double>(value);
    llvm::APFloat number(cast<FloatType>(element).getFloatSemantics(),
                         llvm::APInt(bits, value));
    bool ignored;
    number.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &ignored);
    return number.convertToDouble();
  }
};

/// The relative distance of two buffers, in 2-norms.
double distance(const Buffer &a, const Buffer &b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
    size += a.at(i) * a.at(i);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

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
  HostOptions options;
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
    // Of a flat kernel, elements: not a multiple of anything.
    int64_t batch = kernel.isFlat ? 2579 : 3;
    int64_t extent = kernel.parts * (kernel.batched ? batch : 1);
    std::vector<Buffer> host;
    for (RankedTensorType type : kernel.tensors)
      host.emplace_back(type, batch, random);
    std::vector<Buffer> gpu = host;
    auto addresses = [](std::vector<Buffer> &buffers) {
      std::vector<void *> pointers;
      for (Buffer &buffer : buffers)
        pointers.push_back(buffer.bytes.data());
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

INSTANTIATE_TEST_SUITE_P(Models, GPUKernels,
                         testing::Values(Case{"tiny-llama", "f32", "sm_80"},
                                         Case{"tiny-llama", "bf16", "sm_80"},
                                         Case{"tiny-gpt2", "f32", "sm_80"},
                                         Case{"tiny-gpt2", "bf16", "gfx90a"},
                                         Case{"tiny-bert", "f32", "sm_80"},
                                         Case{"tiny-bert", "bf16", "sm_80"}),
                         [](const testing::TestParamInfo<Case> &info) {
                           std::string name = std::string(info.param.model) +
                                              "_" + info.param.precision + "_" +
                                              info.param.chip;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
