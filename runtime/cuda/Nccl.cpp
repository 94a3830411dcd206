//===- Nccl.cpp - NCCL ----------------------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Nccl.h"
#include "cuda/Library.h"
#include "support/Error.h"

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

static constexpr const char *Remedy =
    "install NCCL 2.19 or newer, or name its directory in POPLAR_CUDA_PATH";

nccl::Nccl::Nccl() {
  Library Library({"libnccl.so.2"}, Remedy);
#define POPLAR_NCCL_LOAD(NAME, ...) Library.get(#NAME, NAME);
  POPLAR_NCCL(POPLAR_NCCL_LOAD)
#undef POPLAR_NCCL_LOAD
  Library.get("ncclGetErrorString", ncclGetErrorString);
  Library.get("ncclGetLastError", ncclGetLastError);
  if (ncclGetVersion(&Version) != 0)
    fail(Library.name(), " does not report its version; ", Remedy);
  Name = "NCCL " + std::to_string(Version / 10000) + "." +
         std::to_string(Version / 100 % 100) + "." +
         std::to_string(Version % 100);
  if (Version < LeastVersion)
    fail(Name, " is too old; ", Remedy);
}

const nccl::Nccl &nccl::Nccl::get() {
  static const Nccl TheLibrary;
  return TheLibrary;
}
