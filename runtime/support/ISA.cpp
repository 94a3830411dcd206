//===- ISA.cpp - Instructions of the processor at hand --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/ISA.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

using namespace poplar::runtime;

namespace {
/// A value of POPLAR_MAX_ISA, and oneDNN's name for it.
struct Level {
  const char *Name, *Library;
};
} // namespace

/// Ascending.
static const Level Levels[] = {
    {"sse41", "SSE41"},
    {"avx2", "AVX2"},
    {"avx512", "AVX512_CORE"},
    {"amx", ""},
};

/// oneDNN's names, ascending.
static const char *const LibraryLevels[] = {
    "SSE41",          "AVX",
    "AVX2",           "AVX512_MIC",
    "AVX512_CORE",    "AVX512_CORE_VNNI",
    "AVX2_VNNI",      "AVX512_CORE_BF16",
    "AVX512_CORE_AMX"};

/// The end if POPLAR_MAX_ISA is not set.
static const Level *findLevel() {
  const char *Value = std::getenv("POPLAR_MAX_ISA");
  if (!Value || !*Value)
    return std::end(Levels);
  const Level *Found =
      std::find_if(std::begin(Levels), std::end(Levels), [&](const Level &L) {
        return std::string(Value) == L.Name;
      });
  if (Found == std::end(Levels))
    fail("POPLAR_MAX_ISA=", Value, ": expected sse41, avx2, avx512 or amx");
  return Found;
}

void poplar::runtime::checkMaxISA() { findLevel(); }

/// The level that an instruction came with.
static const Level *findLevelOf(const std::string &Instruction) {
  auto StartsWith = [&](const char *Prefix) {
    return Instruction.rfind(Prefix, 0) == 0;
  };
  for (const char *Name :
       {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
    if (Instruction == Name)
      return &Levels[2];
  if (StartsWith("avx512") || StartsWith("avx_") || StartsWith("amx"))
    return &Levels[3];
  if (StartsWith("avx") || StartsWith("bmi") || Instruction == "fma" ||
      Instruction == "f16c")
    return &Levels[1];
  return &Levels[0];
}

/// The kernel's list.
static std::set<std::string> readInstructions() {
  std::ifstream File("/proc/cpuinfo");
  for (std::string Line; std::getline(File, Line);)
    if (Line.compare(0, 5, "flags") == 0) {
      std::istringstream Words(Line.substr(Line.find(':') + 1));
      return {std::istream_iterator<std::string>(Words), {}};
    }
  return {};
}

std::string
poplar::runtime::findMissing(const std::vector<std::string> &Instructions) {
  std::set<std::string> Present = readInstructions();
  const Level *Most = findLevel();
  std::string Missing;
  for (const std::string &I : Instructions)
    if (!Present.count(I) || findLevelOf(I) > Most)
      Missing += (Missing.empty() ? "" : " ") + I;
  return Missing;
}

void poplar::runtime::limitLibraries(const std::string &Isa) {
  auto Rank = [](const std::string &Name) {
    return std::find(std::begin(LibraryLevels), std::end(LibraryLevels), Name);
  };
  const char *Before = std::getenv("ONEDNN_MAX_CPU_ISA");
  std::string Chosen = Isa.empty() && Before ? Before : Isa;
  const Level *Most = findLevel();
  if (Most != std::end(Levels) && Rank(Most->Library) < Rank(Chosen))
    Chosen = Most->Library;
  if (!Chosen.empty())
    setenv("ONEDNN_MAX_CPU_ISA", Chosen.c_str(), /*overwrite=*/1);
}
