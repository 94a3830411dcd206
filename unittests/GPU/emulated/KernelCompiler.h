//===- KernelCompiler.h - Kernels as shared objects -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles what a kernel became in C++. Objects are kept in the directory that
// POPLAR_EMULATED_CACHE names, by their source: programs, tests and processes that
// have a kernel in common compile it once.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_KERNELCOMPILER_H
#define POPLAR_UNITTESTS_GPU_EMULATED_KERNELCOMPILER_H

#include "../BlockEmulator.h"
#include "PTX.h"

namespace poplar::emulated {

/// Null if the compiler fails. Tables of the kernel are part of the GPU's
/// memory afterwards.
gputest::Kernel compileKernel(const PTXKernel &kernel);

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_KERNELCOMPILER_H
