//===- Library.h - Libraries that are loaded when a job runs ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable for GPUs is linked without CUDA. It loads the libraries of the
// machine that it runs on, from the first of these places that has them:
//
//   1. the directories of POPLAR_CUDA_PATH, separated by colons
//   2. the directory of the executable
//   3. where the system's loader looks: LD_LIBRARY_PATH, ldconfig's cache
//   4. Python's wheels in an active environment:
//      $VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib, then $CONDA_PREFIX
//   5. /usr/local/cuda/lib64, then /usr/local/cuda-*/lib64
//
// Types of GPUs in one job may need libraries of unlike versions.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_LIBRARY_H
#define POPLAR_RUNTIME_CUDA_LIBRARY_H

#include <initializer_list>
#include <string>

namespace poplar::runtime::cuda {

class Library {
public:
  /// Loads the first of `Names` in the first place that has one; else throws an
  /// Error that names the places and ends in `Remedy`. Libraries are never
  /// unloaded.
  Library(std::initializer_list<const char *> Names, const char *Remedy);

  const std::string &name() const { return Name; }
  /// The file that was loaded.
  const std::string &path() const { return Path; }
  /// Throws an Error where the library has no such function.
  template <typename Function>
  void get(const char *Symbol, Function *&Result) const {
    Result = reinterpret_cast<Function *>(find(Symbol));
  }

private:
  void *find(const char *Symbol) const;

  std::string Name, Path;
  const char *Remedy;
  void *Handle = nullptr;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_LIBRARY_H
