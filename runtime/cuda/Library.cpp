//===- Library.cpp - Libraries that are loaded when a job runs ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Library.h"
#include "Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sstream>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

Library::Library(std::initializer_list<const char *> Names, const char *Remedy)
    : Remedy(Remedy) {
  const char *Path = std::getenv("POPLAR_CUDA_PATH");
  std::string Reason, Wanted;
  for (const char *Candidate : Names) {
    std::istringstream Directories(Path ? Path : "");
    for (std::string Directory;
         !Handle && std::getline(Directories, Directory, ':');)
      if (!Directory.empty())
        Handle = dlopen((Directory + "/" + Candidate).c_str(), RTLD_NOW);
    if (!Handle)
      Handle = dlopen(Candidate, RTLD_NOW);
    if (Handle) {
      Name = Candidate;
      return;
    }
    if (Reason.empty())
      Reason = dlerror();
    Wanted += (Wanted.empty() ? "" : " or ") + std::string(Candidate);
  }
  fail("cannot load ", Wanted, " (", Reason, "); ", Remedy);
}

void *Library::find(const char *Symbol) const {
  void *Address = dlsym(Handle, Symbol);
  if (!Address)
    fail(Name, " is too old: it has no ", Symbol, "; ", Remedy);
  return Address;
}
