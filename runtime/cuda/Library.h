//===- Library.h - Libraries that are loaded when a job runs ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable for GPUs is linked without CUDA: what it needs is looked for on
// the machine that it runs on, in the directories of POPLAR_CUDA_PATH
// (separated by colons) and then where the system's loader looks. Types of GPUs
// in one job may need libraries of unlike versions.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_LIBRARY_H
#define POPLAR_RUNTIME_CUDA_LIBRARY_H

#include <initializer_list>
#include <string>

namespace poplar::runtime::cuda {

class Library {
public:
  /// Loads the first of `Names` there is; else throws an Error that ends in
  /// `Remedy`. Libraries are never unloaded.
  Library(std::initializer_list<const char *> Names, const char *Remedy);

  const std::string &name() const { return Name; }
  /// Throws an Error where the library has no such function.
  template <typename Function>
  void get(const char *Symbol, Function *&Result) const {
    Result = reinterpret_cast<Function *>(find(Symbol));
  }

private:
  void *find(const char *Symbol) const;

  std::string Name;
  const char *Remedy;
  void *Handle = nullptr;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_LIBRARY_H
