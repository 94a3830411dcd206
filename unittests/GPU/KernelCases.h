//===- KernelCases.h - What kernels of a GPU should compute -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels with data, and what the host makes of these, as files: so a machine
// with a GPU needs neither LLVM nor the host's kernels to be checked by
// CheckKernels.cpp, and the emulated driver runs the same checks.
//
//   sm_80.ptx     an image for each chip
//   sm_80.cubin   the same, assembled, where there is a ptxas that knows it
//   cases.bin     the buffers, before and after, each once
//   cases.json    {"chips": [...], "scratch": bytes,
//                  "kernels": [{name, block, pointers, parts_per_block}],
//                  "cases": [{name, kernel | gemm | states, batch, extent,
//                             pointers: [index of a buffer, or -1],
//                             buffers: [{type, bytes, before, after,
//                                        tolerance}]}]}
//
// `before` and `after` are offsets. A tolerance is for the relative distance in
// 2-norms; 0 asks for the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_GPU_KERNELCASES_H
#define POPLAR_UNITTESTS_GPU_KERNELCASES_H

#include "Buffer.h"
#include "Poplar/Runtime/ABI.h"
#include "Poplar/Target/GPUImage.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include <optional>

namespace poplar::gputest {

/// A kernel of the image, or a product, on some data.
struct KernelCase {
  std::string name, kernel;
  std::optional<PoplarGemm> product;
  int64_t batch, extent;
  /// Indices of buffers, -1 for null: those of a kernel, or A, B, bias, aux
  /// and C.
  std::vector<int> pointers;
  std::vector<Buffer> before, after;
  /// The tolerance of buffers that change.
  double tolerance;
  /// Instead of all that: elements of optimizer states in `stateBits`, whose
  /// kernels are the runtime's own.
  int64_t states = 0, stateBits = 8;
};

class KernelCases {
public:
  void add(const KernelCase &entry);
  size_t size() const { return cases.size(); }
  /// Writes them, with images that have their kernels. Returns what is wrong,
  /// if anything.
  std::string write(const std::string &directory, llvm::ArrayRef<GPUChip> chips,
                    mlir::ModuleOp kernels,
                    const std::vector<GPUKernel> &table) const;

private:
  int64_t store(const Buffer &buffer);

  llvm::json::Array cases;
  std::string data;
  llvm::StringMap<int64_t> places;
};

/// The kernels that a runtime looks for in any image.
std::vector<GPUKernel> getRuntimeKernels();

/// Adds the kernels of runtime/kernels/gpu/ to the table, specialised for
/// shapes that try every path of theirs, with a case of each.
void addLibraryCases(mlir::MLIRContext &context, const GPUChip &chip,
                     std::vector<GPUKernel> &table, KernelCases &cases);

/// The same of linear attention.
void addRecurrentCases(mlir::MLIRContext &context, const GPUChip &chip,
                       std::vector<GPUKernel> &table, KernelCases &cases);

/// Those of the library at the widths of models.
void addWideLibraryCases(mlir::MLIRContext &context, const GPUChip &chip,
                         std::vector<GPUKernel> &table, KernelCases &cases);

/// Products of every kind that training issues.
void addProductCases(mlir::MLIRContext &context, const GPUChip &chip,
                     KernelCases &cases);

/// Writes the cases of all kernels that are generated for a model. Returns what
/// is wrong, if anything.
std::string writeModelCases(const std::string &model,
                            const std::string &precision,
                            llvm::ArrayRef<GPUChip> chips,
                            const std::string &directory);

} // namespace poplar::gputest

#endif // POPLAR_UNITTESTS_GPU_KERNELCASES_H
