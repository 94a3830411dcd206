//===- HostKernels.h - Kernels of both kinds, compiled for a CPU *- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_HOSTKERNELS_H
#define POPLAR_UNITTESTS_GPU_HOSTKERNELS_H

#include "BlockEmulator.h"
#include "Poplar/Runtime/ABI.h"
#include "Poplar/Target/GPU.h"
#include <memory>
#include <vector>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace poplar::gputest {

/// A kernel as a host runs it, and as a GPU does.
struct KernelPair {
  std::string name;
  /// The types of what its pointers point to, by argument, then by result not
  /// in place.
  std::vector<mlir::RankedTensorType> tensors;
  /// Parts, per sample if `batched`.
  int64_t parts;
  bool batched, isFlat;
  PoplarKernel host;
  Kernel gpu;
  std::array<int32_t, 3> blockSize;
  int64_t partsPerBlock, sharedBytes;
};

class HostKernels {
public:
  HostKernels();
  ~HostKernels();
  /// Compiles the kernels of a planned module for a chip's shape of blocks.
  /// Returns what is wrong, if anything.
  std::string compile(mlir::ModuleOp module, const GPUChip &chip);

  std::vector<KernelPair> kernels;

private:
  std::string add(mlir::ModuleOp module);

  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace poplar::gputest

#endif // POPLAR_UNITTESTS_GPU_HOSTKERNELS_H
