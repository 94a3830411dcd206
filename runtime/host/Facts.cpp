//===- Facts.cpp - What a rank on a CPU has -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Facts.h"
#include "support/Error.h"

#include <fstream>

using namespace poplar::runtime;

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
  F["missing"] = findMissingInstructions(Program);
}

std::string poplar::runtime::findUnreachable(const std::vector<Facts> &, int) {
  return "";
}
