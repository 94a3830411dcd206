//===- Kernels.h - Which loops may be a kernel ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which loops may be a kernel. See docs/Rationale.md, "Kernels".
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_KERNELS_KERNELS_H
#define POPLAR_CONVERSION_KERNELS_KERNELS_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include <optional>

namespace mlir::gpu {
class GPUFuncOp;
} // namespace mlir::gpu

namespace poplar {

/// Aligns the last workgroup attribution of `function` for loads of four words.
/// LLVM makes such loads of neighbouring ones without aligning the memory.
void alignLastAttribution(mlir::gpu::GPUFuncOp function);

/// The array of pointers to the descriptors of all products, which
/// --lower-program makes where there are any.
inline constexpr llvm::StringLiteral kProductsSymbol = "poplar_products",
                                     kDecodingProductsSymbol =
                                         "poplar_decoding_products";

/// Name of the function that --lower-kernels makes of a kernel.
std::string getKernelBodyName(llvm::StringRef kernel);

/// Kind and number of independent parts of a generic op.
struct KernelDomain {
  exec::KernelKind kind;
  /// Parts per sample if `perSample`, else in all.
  int64_t parts;
  bool perSample;

  bool operator==(const KernelDomain &o) const {
    return kind == o.kind && parts == o.parts && perSample == o.perSample;
  }
};

/// Domain of `op`, nothing if it fits none of the kinds.
std::optional<KernelDomain> getKernelDomain(mlir::linalg::GenericOp op);

} // namespace poplar

#endif // POPLAR_CONVERSION_KERNELS_KERNELS_H
