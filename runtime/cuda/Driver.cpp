//===- Driver.cpp - NVIDIA's driver ---------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/Driver.h"
#include "cuda/Library.h"
#include "support/Error.h"

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

/// The oldest CUDA whose libraries are called.
static constexpr int LeastVersion = 12000;
static constexpr const char *Remedy =
    "install NVIDIA's driver, 525 or newer (CUDA 12), or build for another "
    "device type";

Driver::Driver() {
  Library Library({"libcuda.so.1"}, Remedy);
#define POPLAR_CUDA_LOAD(NAME, ...) Library.get(#NAME, NAME);
  POPLAR_CUDA_DRIVER(POPLAR_CUDA_LOAD)
#undef POPLAR_CUDA_LOAD
  if (Result R = cuInit(0)) {
    const char *Text = "unknown error";
    cuGetErrorString(R, &Text);
    fail("NVIDIA's driver does not start: ", Text,
         "; does nvidia-smi list a GPU?");
  }
  if (cuDriverGetVersion(&Version) != 0 || Version < LeastVersion)
    fail("NVIDIA's driver is for CUDA ", Version / 1000, ".",
         Version % 1000 / 10, ", which is too old; ", Remedy);
}

const Driver &Driver::get() {
  static const Driver TheDriver;
  return TheDriver;
}

void cuda::check(Result R, const char *What) {
  if (R == 0)
    return;
  const char *Name = "unknown", *Text = "unknown error";
  Driver::get().cuGetErrorName(R, &Name);
  Driver::get().cuGetErrorString(R, &Text);
  fail("the GPU's driver cannot ", What, ": ", Text, " (", Name, ")");
}
