//===- Targets.cpp - What code can be generated for -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar::cluster;

static constexpr NumberFormat kF32[] = {NumberFormat::F32};
static constexpr NumberFormat kF16[] = {NumberFormat::F16};
static constexpr NumberFormat kF32AndBF16[] = {NumberFormat::F32,
                                               NumberFormat::BF16};
static constexpr NumberFormat kBF16AndF32[] = {NumberFormat::BF16,
                                               NumberFormat::F32};
static constexpr NumberFormat kF16AndF32[] = {NumberFormat::F16,
                                              NumberFormat::F32};
static constexpr NumberFormat kAMD[] = {NumberFormat::BF16, NumberFormat::F16,
                                        NumberFormat::F32};
static constexpr NumberFormat kAll[] = {NumberFormat::BF16, NumberFormat::F16,
                                        NumberFormat::F32, NumberFormat::TF32};

/// oneDNN has bf16 from AVX-512 on, fast with AMX only. bf16 came to CUDA with
/// sm_80, and so did TF32: f32 in memory, products of 10 bits of fraction.
/// Pascal and gfx* can be planned for; the builder decides what it generates
/// code for.
static constexpr Target kTargets[] = {
    {"host", Target::Kind::Host, kF32AndBF16},
    {"host:amx-bf16", Target::Kind::Host, kBF16AndF32},
    {"host:avx512-f32", Target::Kind::Host, kF32AndBF16},
    {"host:avx2-f32", Target::Kind::Host, kF32},
    {"host:sse41-f32", Target::Kind::Host, kF32},
    {"host:f16-storage", Target::Kind::Host, kF16},
    {"cuda:sm_60", Target::Kind::CUDA, kF16AndF32},
    {"cuda:sm_70", Target::Kind::CUDA, kF16AndF32},
    {"cuda:sm_75", Target::Kind::CUDA, kF16AndF32},
    {"cuda:sm_80", Target::Kind::CUDA, kAll},
    {"cuda:sm_86", Target::Kind::CUDA, kAll},
    {"cuda:sm_87", Target::Kind::CUDA, kAll},
    {"cuda:sm_89", Target::Kind::CUDA, kAll},
    {"cuda:sm_90", Target::Kind::CUDA, kAll},
    {"cuda:sm_100", Target::Kind::CUDA, kAll},
    {"cuda:sm_103", Target::Kind::CUDA, kAll},
    {"cuda:sm_120", Target::Kind::CUDA, kAll},
    {"hip:gfx90a", Target::Kind::HIP, kAMD},
    {"hip:gfx942", Target::Kind::HIP, kAMD},
};

llvm::ArrayRef<Target> poplar::cluster::getTargets() { return kTargets; }

const Target *poplar::cluster::findTarget(llvm::StringRef name) {
  const Target *target = llvm::find_if(
      kTargets, [&](const Target &target) { return target.name == name; });
  return target == std::end(kTargets) ? nullptr : target;
}

llvm::ArrayRef<llvm::StringLiteral> poplar::cluster::getRecomputePolicies() {
  static constexpr llvm::StringLiteral policies[] = {
      "keep", "recompute-attention", "recompute-unit"};
  return policies;
}
