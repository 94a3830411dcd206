//===- Kernels.cpp - Which loops may be a kernel -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Kernels.h"

using namespace mlir;
using namespace poplar;

std::string poplar::getKernelBodyName(llvm::StringRef kernel) {
  return (kernel + ".body").str();
}

std::optional<KernelDomain> poplar::getKernelDomain(linalg::GenericOp op) {
  auto iterators = op.getIteratorTypesArray();
  SmallVector<int64_t, 4> ranges = op.getStaticLoopRanges();
  auto parallel = [&](unsigned dim) {
    return iterators[dim] == utils::IteratorType::parallel;
  };
  auto isStatic = [&](unsigned dim) {
    return !ShapedType::isDynamic(ranges[dim]);
  };

  if (iterators.size() == 1 && parallel(0))
    return KernelDomain{exec::KernelKind::Flat, isStatic(0) ? ranges[0] : 1,
                        !isStatic(0)};
  if (iterators.size() < 2 || iterators.size() > 3 || !isStatic(1))
    return std::nullopt;
  if (parallel(0) && parallel(1)) {
    if (iterators.size() == 3 && !isStatic(2))
      return std::nullopt;
    return KernelDomain{exec::KernelKind::Rows,
                        isStatic(0) ? ranges[0] * ranges[1] : ranges[1],
                        !isStatic(0)};
  }
  if (iterators.size() != 3 || !isStatic(2) || !parallel(2))
    return std::nullopt;
  if (parallel(0))
    return KernelDomain{exec::KernelKind::Columns, ranges[2],
                        /*perSample=*/true};
  if (parallel(1))
    return KernelDomain{exec::KernelKind::Positions, ranges[1], false};
  return KernelDomain{exec::KernelKind::Columns, ranges[2], false};
}
