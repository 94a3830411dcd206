//===- Facts.cpp - What a rank on a CPU has -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Facts.h"
#include "Error.h"
#include "JSON.h"

#include <fstream>
#include <sstream>

using namespace poplar::runtime;

/// Instructions, in the kernel's words, without which a program for a target
/// stops at an illegal one.
static const std::pair<const char *, std::vector<const char *>> Instructions[] =
    {{"host:amx-bf16",
      {"amx_tile", "amx_bf16", "avx512f", "avx512bw", "avx512dq", "avx512vl"}},
     {"host:avx512-f32", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
     {"host:avx2-f32", {"avx2", "fma"}},
     {"host:f16-storage", {"avx2", "fma", "f16c"}},
     {"host:sse41-f32", {"sse4_1"}}};

/// The rest of the first line of a file that begins with a word.
static std::string readLine(const char *Path, const std::string &Word) {
  std::ifstream File(Path);
  for (std::string Line; std::getline(File, Line);)
    if (Line.compare(0, Word.size(), Word) == 0)
      return Line.substr(Line.find(':') + 1);
  return "";
}

void poplar::runtime::addDeviceFacts(const PoplarProgram &Program, int,
                                     Facts &F) {
  F["memory"] = "memory of " + F["host"];
  double KiB = std::atof(readLine("/proc/meminfo", "MemAvailable").c_str());
  if (KiB > 0)
    F["free"] = std::to_string(static_cast<int64_t>(KiB * 1024));
  std::string Model = readLine("/proc/cpuinfo", "model name");
  F["device"] = Model.empty() ? "CPU" : Model.substr(1);
  std::string Has = readLine("/proc/cpuinfo", "flags") + " ", Missing;
  std::string Target =
      json::parse(Program.description, "description").string("target", "");
  for (const auto &[Name, List] : Instructions)
    if (Name == Target)
      for (const char *One : List)
        if (Has.find(std::string(" ") + One + " ") == std::string::npos)
          Missing += std::string(Missing.empty() ? "" : " ") + One;
  F["missing"] = Missing;
}

std::string poplar::runtime::findUnreachable(const std::vector<Facts> &, int) {
  return "";
}
