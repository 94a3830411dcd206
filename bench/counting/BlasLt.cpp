//===- BlasLt.cpp - A cuBLASLt that counts and computes nothing -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/cuda/ calls of libcublasLt, beside Driver.cpp: every product is
// a line of the trace. Matrices are column-major, as the library's are. With
// POPLAR_COUNTING_REFUSE_EPILOGUES, products have none.
//
//===----------------------------------------------------------------------===//

#include "cuda/BlasLt.h"
#include "Trace.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

using namespace poplar::counting;
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::lt;

namespace {

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
};

struct Description {
  int32_t transposeA = Plain, transposeB = Plain;
  uint32_t epilogue = EpilogueNone;
};

} // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130000; }
const char *cublasLtGetStatusName(Status) { return "CUBLAS_STATUS"; }

Status cublasLtCreate(Object *handle) {
  *handle = new char;
  return 0;
}

Status cublasLtDestroy(Object handle) {
  delete static_cast<char *>(handle);
  return 0;
}

Status cublasLtMatrixLayoutCreate(Object *layout, int type, uint64_t rows,
                                  uint64_t columns, int64_t leading) {
  *layout = new Layout{type, rows, columns, leading};
  return 0;
}

Status cublasLtMatrixLayoutDestroy(Object layout) {
  delete static_cast<Layout *>(layout);
  return 0;
}

Status cublasLtMatmulDescCreate(Object *description, int, int) {
  *description = new Description;
  return 0;
}

Status cublasLtMatmulDescDestroy(Object description) {
  delete static_cast<Description *>(description);
  return 0;
}

Status cublasLtMatmulDescSetAttribute(Object description, int attribute,
                                      const void *value, size_t bytes) {
  auto &product = *static_cast<Description *>(description);
  if (attribute == TransA)
    std::memcpy(&product.transposeA, value, bytes);
  else if (attribute == TransB)
    std::memcpy(&product.transposeB, value, bytes);
  else if (attribute == Epilogue)
    std::memcpy(&product.epilogue, value, bytes);
  return 0;
}

Status cublasLtMatmulPreferenceCreate(Object *preference) {
  *preference = new char;
  return 0;
}

Status cublasLtMatmulPreferenceDestroy(Object preference) {
  delete static_cast<char *>(preference);
  return 0;
}

Status cublasLtMatmulPreferenceSetAttribute(Object, int, const void *, size_t) {
  return 0;
}

Status cublasLtMatmulAlgoConfigGetAttribute(const Algorithm *, int, void *value,
                                            size_t bytes, size_t *written) {
  std::memset(value, 0, bytes);
  *written = bytes;
  return 0;
}

Status cublasLtMatmulAlgoGetHeuristic(Object, Object description, Object,
                                      Object, Object, Object, Object, int,
                                      Heuristic *result, int *found) {
  constexpr Status notSupported = 15;
  const auto &product = *static_cast<const Description *>(description);
  if (product.epilogue != EpilogueNone &&
      std::getenv("POPLAR_COUNTING_REFUSE_EPILOGUES"))
    return notSupported;
  *result = {};
  *found = 1;
  return 0;
}

/// product M N K TRANSPOSES TYPES LEADING-DIMENSIONS BETA EPILOGUE, with
/// letters and lists for A, B and D.
Status cublasLtMatmul(Object, Object description, const void *, const void *,
                      Object left, const void *, Object right, const void *beta,
                      const void *, Object, void *, Object result,
                      const Algorithm *, void *, size_t, Stream) {
  const auto &product = *static_cast<const Description *>(description);
  const auto &a = *static_cast<const Layout *>(left);
  const auto &b = *static_cast<const Layout *>(right);
  const auto &d = *static_cast<const Layout *>(result);
  std::ostringstream line;
  line << "product " << d.rows << ' ' << d.columns << ' '
       << (product.transposeA ? a.rows : a.columns) << ' '
       << (product.transposeA ? 't' : 'n') << (product.transposeB ? 't' : 'n')
       << ' ' << a.type << ',' << b.type << ',' << d.type << ' ' << a.leading
       << ',' << b.leading << ',' << d.leading << ' '
       << *static_cast<const float *>(beta) << ' ' << product.epilogue;
  note(line.str());
  return 0;
}

} // extern "C"
