//===- ClusterEnums.h - Formats, policies, kinds of links -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_H
#define POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_H

#include "Poplar/Support/Recomputation.h"
#include "mlir/IR/BuiltinAttributes.h"

#include "Poplar/Dialect/Cluster/ClusterEnums.h.inc"

namespace poplar {

/// The keyword of a format, for the printers of ops of any dialect.
inline llvm::StringRef stringifyFormatKeyword(NumberFormat format) {
  return toString(format);
}

} // namespace poplar

namespace poplar::cluster {

constexpr FormatKeyword toKeyword(NumberFormat format) {
  return static_cast<FormatKeyword>(format);
}
static_assert(toKeyword(NumberFormat::F32) == FormatKeyword::F32 &&
                  toKeyword(NumberFormat::BF16) == FormatKeyword::BF16 &&
                  toKeyword(NumberFormat::F16) == FormatKeyword::F16 &&
                  toKeyword(NumberFormat::TF32) == FormatKeyword::TF32 &&
                  getMaxEnumValForFormatKeyword() + 1 ==
                      listWords<NumberFormat>().size(),
              "the keywords are the words of NumberFormat");

inline FormatKeywordAttr getFormatAttr(mlir::MLIRContext *context,
                                       NumberFormat format) {
  return FormatKeywordAttr::get(context, toKeyword(format));
}

} // namespace poplar::cluster

#endif // POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_H
