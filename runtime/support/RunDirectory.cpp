//===- RunDirectory.cpp - The checkpoints of a run ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/RunDirectory.h"

#include <algorithm>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

std::vector<int64_t> poplar::runtime::listCheckpoints(const std::string &Run) {
  std::vector<int64_t> Steps;
  const std::string Prefix = CheckpointPrefix;
  std::error_code Code;
  for (const fs::directory_entry &Entry : fs::directory_iterator(Run, Code)) {
    std::string Name = Entry.path().filename().string();
    if (Name.compare(0, Prefix.size(), Prefix) != 0)
      continue;
    std::string Digits = Name.substr(Prefix.size());
    if (!Digits.empty() && Digits.size() <= 18 &&
        Digits.find_first_not_of("0123456789") == std::string::npos)
      Steps.push_back(std::stoll(Digits));
  }
  std::sort(Steps.begin(), Steps.end());
  return Steps;
}

std::string poplar::runtime::findLatestCheckpoint(const std::string &Run) {
  std::error_code Code;
  fs::path Target = fs::read_symlink(Run + "/latest", Code);
  if (!Code && fs::is_directory(fs::path(Run) / Target, Code))
    return (fs::path(Run) / Target).string();
  std::vector<int64_t> Steps = listCheckpoints(Run);
  return Steps.empty()
             ? ""
             : Run + "/" + CheckpointPrefix + std::to_string(Steps.back());
}

std::string poplar::runtime::resolveCheckpoint(const std::string &Path) {
  std::string Latest = findLatestCheckpoint(Path);
  return Latest.empty() ? Path : Latest;
}
