//===- Targets.cpp - What devices can be ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Targets.h"
#include <algorithm>

using namespace poplar;

const std::vector<TargetKind> &poplar::getTargetKinds() {
  static const std::vector<TargetKind> kinds = {
      {"host", "", 0, "poplar/runtime-host", "poplar/kernels.bc"},
      {"cuda", "nvptx64-nvidia-cuda", 32, "poplar/runtime-cuda",
       "poplar/kernels-nvptx.bc"},
      {"hip", "amdgcn-amd-amdhsa", 64, "", ""},
  };
  return kinds;
}

/// oneDNN has bf16 from AVX-512 on, fast with AMX only; the AVX-512 features
/// are those that it asks for. bf16 came to CUDA with sm_80, and so did TF32:
/// f32 in memory, products of 10 bits of fraction. LLVM's default version of
/// PTX is older than some chips.
const std::vector<TargetInfo> &poplar::getTargetInfos() {
  using Formats = std::vector<NumberFormat>;
  constexpr auto F32 = NumberFormat::F32, BF16 = NumberFormat::BF16,
                 F16 = NumberFormat::F16, TF32 = NumberFormat::TF32;
  static const Formats kHalf = {F16, F32}, kAll = {BF16, F16, F32, TF32},
                       kAMD = {BF16, F16, F32};
  static const std::vector<TargetInfo> targets = {
      {"host", {F32, BF16}, SpeedModel::Host, "native", "", "", {}},
      {"host:amx-bf16",
       {BF16, F32},
       SpeedModel::Host,
       "sapphirerapids",
       "",
       "AVX512_CORE_AMX",
       {"amx-tile", "amx-bf16", "avx512f", "avx512bw", "avx512dq", "avx512vl"}},
      {"host:avx512-f32",
       {F32, BF16},
       SpeedModel::Host,
       "x86-64-v4",
       "",
       "AVX512_CORE",
       {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
      {"host:avx2-f32",
       {F32},
       SpeedModel::Host,
       "x86-64-v3",
       "",
       "AVX2",
       {"avx2", "fma"}},
      {"host:f16-storage",
       {F16},
       SpeedModel::Host,
       "x86-64-v3",
       "",
       "AVX2",
       {"avx2", "fma", "f16c"}},
      {"host:sse41-f32",
       {F32},
       SpeedModel::Host,
       "x86-64-v2",
       "",
       "SSE41",
       {"sse4.1"}},
      {"cuda:sm_60", kHalf, SpeedModel::Pascal, "sm_60", "+ptx60", "", {}},
      {"cuda:sm_70", kHalf, SpeedModel::Volta, "sm_70", "+ptx60", "", {}},
      {"cuda:sm_75", kHalf, SpeedModel::Turing, "sm_75", "+ptx63", "", {}},
      {"cuda:sm_80", kAll, SpeedModel::Ampere, "sm_80", "+ptx70", "", {}},
      {"cuda:sm_86", kAll, SpeedModel::AmpereRTX, "sm_86", "+ptx71", "", {}},
      {"cuda:sm_87", kAll, SpeedModel::AmpereRTX, "sm_87", "+ptx74", "", {}},
      {"cuda:sm_89", kAll, SpeedModel::Ada, "sm_89", "+ptx78", "", {}},
      {"cuda:sm_90", kAll, SpeedModel::Hopper, "sm_90", "+ptx78", "", {}},
      {"cuda:sm_100", kAll, SpeedModel::Blackwell, "sm_100", "+ptx86", "", {}},
      {"cuda:sm_103", kAll, SpeedModel::Blackwell, "sm_103", "+ptx88", "", {}},
      {"cuda:sm_120",
       kAll,
       SpeedModel::BlackwellRTX,
       "sm_120",
       "+ptx87",
       "",
       {}},
      {"hip:gfx90a", kAMD, SpeedModel::CDNA, "gfx90a", "", "", {}},
      {"hip:gfx942", kAMD, SpeedModel::CDNA, "gfx942", "", "", {}},
  };
  return targets;
}

template <typename T>
static const T *find(const std::vector<T> &table, std::string_view name) {
  auto found = std::find_if(table.begin(), table.end(),
                            [&](const T &entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const TargetInfo *poplar::findTargetInfo(std::string_view name) {
  return find(getTargetInfos(), name);
}

const TargetKind *poplar::findTargetKind(std::string_view target) {
  return find(getTargetKinds(), target.substr(0, target.find(':')));
}

const TargetKind &TargetInfo::getKind() const { return *findTargetKind(name); }

bool TargetInfo::hasFP8Products() const {
  switch (speed) {
  case SpeedModel::Host:
  case SpeedModel::Ada:
  case SpeedModel::Hopper:
  case SpeedModel::Blackwell:
  case SpeedModel::BlackwellRTX:
    return true;
  default:
    return false;
  }
}

std::string_view TargetInfo::getChip() const {
  size_t colon = name.find(':');
  return colon == name.npos ? std::string_view() : name.substr(colon + 1);
}
