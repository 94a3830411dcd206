//===- HostCPU.cpp - The processor at hand --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/HostCPU.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <cstdlib>

using namespace poplar;

namespace {
/// A value of the variable. `processor` is LLVM's name for a processor that has
/// this and nothing more; empty where nothing is hidden.
struct Level {
  llvm::StringLiteral name, processor, library;
};
} // namespace

/// Ascending.
static constexpr Level levels[] = {
    {"sse41", "x86-64-v2", "SSE41"},
    {"avx2", "x86-64-v3", "AVX2"},
    {"avx512", "x86-64-v4", "AVX512_CORE"},
    {"amx", "", ""},
};

/// oneDNN's names, ascending.
static constexpr llvm::StringLiteral libraryLevels[] = {
    "SSE41",          "AVX",
    "AVX2",           "AVX512_MIC",
    "AVX512_CORE",    "AVX512_CORE_VNNI",
    "AVX2_VNNI",      "AVX512_CORE_BF16",
    "AVX512_CORE_AMX"};

static llvm::StringRef getVariable() {
  const char *value = std::getenv(kMaxISAVariable);
  return value ? value : "";
}

/// Null if the variable is not set.
static const Level *findLevel() {
  llvm::StringRef value = getVariable();
  const Level *level = llvm::find_if(
      levels, [&](const Level &level) { return level.name == value; });
  return level == std::end(levels) ? nullptr : level;
}

std::string poplar::checkMaxISA() {
  if (getVariable().empty() || findLevel())
    return "";
  return (kMaxISAVariable + llvm::StringRef("=") + getVariable() +
          ": expected sse41, avx2, avx512 or amx")
      .str();
}

bool HostCPU::has(llvm::StringRef feature) const {
  return llvm::is_contained(features, feature.str());
}

/// What code for LLVM's `processor` may use.
static llvm::StringMap<bool> listFeatures(llvm::StringRef processor) {
  llvm::SmallVector<llvm::StringRef> list;
  llvm::X86::getFeaturesForCPU(processor, list);
  llvm::StringMap<bool> features;
  features["64bit"] = true;
  for (llvm::StringRef feature : list) {
    features[feature] = true;
    llvm::X86::updateImpliedFeatures(feature, /*Enabled=*/true, features);
  }
  return features;
}

/// Whether the processor at hand has all of it. Of what it does not report
/// (x87), it is no question.
static bool hasAll(const llvm::StringMap<bool> &host,
                   llvm::StringRef processor) {
  return llvm::all_of(listFeatures(processor), [&](const auto &feature) {
    auto it = host.find(feature.first());
    return it == host.end() || it->second;
  });
}

static HostCPU detect() {
  HostCPU cpu;
  cpu.name = llvm::sys::getHostCPUName().str();
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  const Level *most = findLevel();
  if (most && !most->processor.empty()) {
    llvm::StringMap<bool> allowed = listFeatures(most->processor);
    for (auto &feature : host)
      feature.second &= allowed.contains(feature.first());
    // The name stands for features of its own: the highest that are all there.
    cpu.name = "x86-64";
    for (const Level *level = levels; level <= most; ++level)
      if (hasAll(host, level->processor))
        cpu.name = level->processor.str();
  }
  std::vector<std::string> attributes;
  for (const auto &feature : host) {
    attributes.push_back((feature.second ? "+" : "-") + feature.first().str());
    if (feature.second)
      cpu.features.push_back(feature.first().str());
  }
  llvm::sort(cpu.features);
  llvm::sort(attributes);
  cpu.attributes = llvm::join(attributes, ",");
  return cpu;
}

const HostCPU &poplar::getHostCPU() {
  static const HostCPU cpu = detect();
  return cpu;
}

void poplar::limitLibraries(llvm::StringRef isa) {
  auto rank = [](llvm::StringRef name) {
    return llvm::find(libraryLevels, name) - std::begin(libraryLevels);
  };
  std::string before;
  if (const char *value = std::getenv("ONEDNN_MAX_CPU_ISA"))
    before = value;
  if (isa.empty())
    isa = before;
  const Level *most = findLevel();
  if (most && rank(most->library) < rank(isa))
    isa = most->library;
  if (!isa.empty())
    setenv("ONEDNN_MAX_CPU_ISA", isa.str().c_str(), /*overwrite=*/1);
}
