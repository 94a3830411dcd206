//===- Installation.cpp - Where poplar finds its libraries ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Installation.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

std::string getOwnProgram() {
  return llvm::sys::fs::getMainExecutable(
      nullptr, reinterpret_cast<void *>(&getOwnProgram));
}

void locateLibraries(poplar::CodeOptions &options) {
  std::string self = getOwnProgram();
  llvm::StringRef root =
      llvm::sys::path::parent_path(llvm::sys::path::parent_path(self));
  options.libraryDirectory = (root + "/lib").str();
}
