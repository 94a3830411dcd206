//===- BlockedGemmAVX2.cpp - Products compiled for AVX2 -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define Eigen EigenAVX2
#define POPLAR_EIGEN withAVX2
#include "gemm/BlockedGemmEigen.h"

void poplar::runtime::multiplyAVX2(const GemmSlice &Slice) {
  withAVX2::multiplySlice(Slice);
}
