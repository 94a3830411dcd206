//===- BlockedGemmSSE41.cpp - Products compiled for SSE4.1 --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define Eigen EigenSSE41
#define POPLAR_EIGEN withSSE41
#include "gemm/BlockedGemmEigen.h"

void poplar::runtime::multiplySSE41(const GemmSlice &Slice) {
  withSSE41::multiplySlice(Slice);
}
