//===- GPUImage.h - What a GPU loads of a program ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_GPUIMAGE_H
#define POPLAR_TARGET_GPUIMAGE_H

#include "Poplar/Conversion/GPU/GPUKernels.h"
#include "Poplar/Target/GPU.h"

namespace llvm {
class Module;
} // namespace llvm

namespace poplar {

/// The kernels of a program, compiled for a chip: PTX always, and a cubin where
/// an assembler is at hand that knows the chip.
struct GPUImage {
  std::string chip, ptx, cubin;
  std::vector<GPUKernel> kernels;
  /// What the assembler says of registers and shared memory: in a line, and of
  /// every kernel.
  std::string report, resources;
};

/// Compiles the kernels of `source`, a planned module, and those of the table
/// `kernels`; `library` is the bitcode of kernels written by hand. The
/// assembler works in `directory`. Fails with a diagnostic.
llvm::LogicalResult buildGPUImage(mlir::ModuleOp source, const GPUChip &chip,
                                  std::vector<GPUKernel> kernels,
                                  llvm::StringRef library,
                                  llvm::StringRef directory, GPUImage &image);

/// Adds the kernels of the library that `kernels` names to the translation of
/// the others, specialised for their descriptors.
llvm::LogicalResult linkGPULibrary(mlir::Operation *op, llvm::Module &module,
                                   llvm::ArrayRef<GPUKernel> kernels,
                                   llvm::StringRef library);

/// Assembles PTX with NVIDIA's ptxas: sets `image.cubin` and `image.report`.
/// Where there is no ptxas, or none that knows the chip, there is no cubin, and
/// the report says so. Fails with a diagnostic where ptxas finds fault with the
/// PTX, and where a kernel spills registers.
llvm::LogicalResult assemblePTX(mlir::Operation *op, llvm::StringRef directory,
                                GPUImage &image);

} // namespace poplar

#endif // POPLAR_TARGET_GPUIMAGE_H
