//===- GPUKernels.h - The kernels of a program for a GPU --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program for a GPU names kernels by their number in one table, which
// --lower-program leaves on the module: first those of --map-kernels-to-gpu,
// then what it needs of the library of kernels written by hand.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_GPU_GPUKERNELS_H
#define POPLAR_CONVERSION_GPU_GPUKERNELS_H

#include "Poplar/Dialect/Exec/ABIStructs.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <array>
#include <string>
#include <vector>

namespace poplar {

/// What a launch moves and computes: bytes, and bytes and FLOPs per sample.
struct GPUKernelCost {
  int64_t bytes = 0, bytesPerSample = 0, flopsPerSample = 0;
};

/// A PoplarGPUKernel (Runtime/ABI.h).
struct GPUKernel {
  std::string name;
  std::array<int32_t, 3> block;
  int32_t pointers;
  int64_t partsPerBlock;
  /// A kernel of the library: the function that it calls, and the descriptor
  /// that it passes, if any. Empty and null for a generated kernel.
  std::string callee;
  exec::RecordAttr descriptor;
  GPUKernelCost cost;
};

/// The kernels of the library for an attention: their names without what they
/// compute ("forward", "backward_q", "backward_kv"), rows of a block, threads.
struct GPUAttention {
  std::string stem;
  int64_t tile;
  std::array<int32_t, 3> block;

  int64_t getTiles(const PoplarAttention &desc) const {
    return (desc.seq_len + tile - 1) / tile;
  }
};
/// Chooses kernels on tensor cores where the chip, of compute capability
/// `capability` (80), and the shapes allow it.
GPUAttention chooseGPUAttention(const PoplarAttention &desc, int capability);

/// Why cuDNN does not compute an attention, wherever it runs; empty if it may.
/// Only what strides and offsets follow from is looked at.
llvm::StringRef explainOwnAttention(const PoplarAttention &desc);

/// The kernels of the library for products with experts: what their names end
/// in; columns of a result and rows of a gradient that a block has.
struct GPUExperts {
  std::string suffix;
  int64_t columns, gradientRows;
};
GPUExperts chooseGPUExperts(const PoplarExperts &desc, int capability);

/// Collects the table of a module (exec.gpu_kernel).
class GPUKernelTable {
public:
  /// Starts with the kernels of the module @kernels, if there is one.
  explicit GPUKernelTable(mlir::ModuleOp module);

  /// Whether the program is for a GPU.
  bool exists() const { return static_cast<bool>(kernels); }
  bool knows(llvm::StringRef name) const { return numbers.contains(name); }
  /// The number of a generated kernel.
  int64_t getNumber(llvm::StringRef name) const { return numbers.at(name); }
  /// The number of a kernel that calls `callee` of the library with
  /// `descriptor`; added unless it is known.
  int64_t add(llvm::StringRef callee, exec::RecordAttr descriptor,
              std::array<int32_t, 3> block, int32_t pointers,
              const GPUKernelCost &cost, int64_t partsPerBlock = 1);
  /// Adds the runtime's own kernels, writes the table into the module and
  /// removes @kernels.
  void finish();

private:
  mlir::ModuleOp module;
  mlir::gpu::GPUModuleOp kernels;
  std::vector<GPUKernel> entries;
  llvm::StringMap<int64_t> numbers;
};

/// Removes the table from a lowered module; empty where it is for a CPU.
std::vector<GPUKernel> takeGPUKernels(mlir::ModuleOp module);

} // namespace poplar

#endif // POPLAR_CONVERSION_GPU_GPUKERNELS_H
