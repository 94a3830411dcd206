//===- GPUChips.cpp - Chips that kernels are generated for ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Targets.h"
#include "Poplar/Target/GPU.h"

using namespace poplar;

std::optional<GPUChip> poplar::findGPUChip(llvm::StringRef name) {
  for (const TargetInfo &info : getTargetInfos()) {
    const TargetKind &kind = info.getKind();
    if (kind.isHost() || llvm::StringRef(info.getChip()) != name)
      continue;
    GPUChip chip;
    chip.name = info.processor;
    chip.features = info.features;
    chip.triple = kind.triple;
    chip.subgroupSize = kind.subgroupSize;
    return chip;
  }
  return std::nullopt;
}

int GPUChip::getCapability() const {
  int capability = 0;
  if (isNVIDIA())
    llvm::StringRef(name).drop_front(3).getAsInteger(10, capability);
  return capability;
}

std::vector<std::string> poplar::listGPUChips() {
  std::vector<std::string> names;
  for (const TargetInfo &info : getTargetInfos())
    if (!info.getKind().isHost())
      names.emplace_back(info.getChip());
  return names;
}
