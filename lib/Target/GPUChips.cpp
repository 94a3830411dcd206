//===- GPUChips.cpp - Chips that kernels are generated for ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Target/GPU.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;

namespace {
struct KnownChip {
  llvm::StringLiteral name, features;
};
} // namespace

/// NVIDIA's with the first version of PTX that LLVM knows them in (its default
/// is older than some of them), then AMD's.
static constexpr KnownChip kChips[] = {
    {"sm_60", "+ptx60"},  {"sm_70", "+ptx60"},  {"sm_75", "+ptx63"},
    {"sm_80", "+ptx70"},  {"sm_86", "+ptx71"},  {"sm_87", "+ptx74"},
    {"sm_89", "+ptx78"},  {"sm_90", "+ptx78"},  {"sm_100", "+ptx86"},
    {"sm_103", "+ptx88"}, {"sm_120", "+ptx87"}, {"gfx90a", ""},
    {"gfx942", ""},
};

std::optional<GPUChip> poplar::findGPUChip(llvm::StringRef name) {
  const KnownChip *known = llvm::find_if(
      kChips, [&](const KnownChip &chip) { return chip.name == name; });
  if (known == std::end(kChips))
    return std::nullopt;
  GPUChip chip;
  chip.name = known->name.str();
  chip.features = known->features.str();
  chip.triple = chip.isNVIDIA() ? "nvptx64-nvidia-cuda" : "amdgcn-amd-amdhsa";
  chip.subgroupSize = chip.isNVIDIA() ? 32 : 64;
  return chip;
}

int GPUChip::getCapability() const {
  int capability = 0;
  if (isNVIDIA())
    llvm::StringRef(name).drop_front(3).getAsInteger(10, capability);
  return capability;
}

std::vector<std::string> poplar::listGPUChips() {
  std::vector<std::string> names;
  for (const KnownChip &chip : kChips)
    names.push_back(chip.name.str());
  return names;
}
