//===- KernelCompiler.h - Kernels as shared objects -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles what kernels became in C++. Objects are kept in the directory that
// POPLAR_EMULATED_CACHE names, by the source of each kernel: programs, tests
// and processes that have a kernel in common compile it once. Kernels of one
// program that are not there yet are compiled together, which takes half as
// long.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_EMULATED_KERNELCOMPILER_H
#define POPLAR_UNITTESTS_GPU_EMULATED_KERNELCOMPILER_H

#include "../BlockEmulator.h"
#include "PTX.h"

namespace poplar::emulated {

/// One function per kernel, null if the compiler fails. Tables of the kernels
/// are part of the GPU's memory afterwards.
std::vector<gputest::Kernel>
compileKernels(const std::vector<PTXKernel> &kernels);

} // namespace poplar::emulated

#endif // POPLAR_UNITTESTS_GPU_EMULATED_KERNELCOMPILER_H
