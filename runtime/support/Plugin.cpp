//===- Plugin.cpp - Where libraries loaded at run time may be -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Plugin.h"

#include <filesystem>

using namespace poplar::runtime;

std::vector<std::string>
poplar::runtime::getPluginPaths(const std::string &Name) {
  std::vector<std::string> Paths;
  std::error_code Ignored;
  std::filesystem::path Executable =
      std::filesystem::read_symlink("/proc/self/exe", Ignored);
  if (!Executable.empty()) {
    std::filesystem::path Directory = Executable.parent_path();
    Paths.push_back(Directory / Name);
    Paths.push_back(Directory / "lib" / Name);
    Paths.push_back(Directory.parent_path() / "lib" / Name);
  }
  Paths.push_back(Name);
  return Paths;
}
