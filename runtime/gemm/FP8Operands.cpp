//===- FP8Operands.cpp - Operands rounded to 8 bits, on a CPU -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gemm/FP8Operands.h"
#include "Poplar/Runtime/FP8.h"
#include "support/NumberFormats.h"
#include "support/ParallelRanges.h"

#include <algorithm>
#include <omp.h>

using namespace poplar::runtime;

namespace {

float roundValue(float Value, float Scale, float Inverse) {
  return poplar_fp8_value(poplar_fp8_code(Value * Scale)) * Inverse;
}

/// args: the matrix, where it is written; extent: rows.
template <typename Format>
void roundRowsKernel(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  const auto &Matrix = *static_cast<const WideMatrix *>(Args[0]);
  using Type = typename Format::Storage;
  for (int64_t R = Begin; R < End; ++R) {
    const Type *From =
        static_cast<const Type *>(Matrix.Values) + R * Matrix.Columns;
    Type *To = static_cast<Type *>(Args[1]) + R * Matrix.Columns;
    uint32_t Largest = 0;
    for (int64_t C = 0; C < Matrix.Columns; ++C)
      Largest =
          std::max(Largest, poplar_magnitude_bits(Format::widen(From[C])));
    float Scale = poplar_fp8_scale(Largest),
          Inverse = poplar_fp8_inverse(Scale);
    for (int64_t C = 0; C < Matrix.Columns; ++C)
      To[C] =
          Format::narrow(roundValue(Format::widen(From[C]), Scale, Inverse));
  }
}

/// Columns whose scales a thread holds at a time.
constexpr int64_t Together = 64;

/// The same; extent: columns.
template <typename Format>
void roundColumnsKernel(void *const *Args, int64_t, int64_t Begin,
                        int64_t End) {
  const auto &Matrix = *static_cast<const WideMatrix *>(Args[0]);
  using Type = typename Format::Storage;
  for (int64_t First = Begin; First < End; First += Together) {
    int64_t Count = std::min(Together, End - First);
    const Type *From = static_cast<const Type *>(Matrix.Values) + First;
    Type *To = static_cast<Type *>(Args[1]) + First;
    uint32_t Largest[Together] = {};
    for (int64_t R = 0; R < Matrix.Rows; ++R)
      for (int64_t C = 0; C < Count; ++C)
        Largest[C] = std::max(Largest[C], poplar_magnitude_bits(Format::widen(
                                              From[R * Matrix.Columns + C])));
    float Scales[Together], Inverses[Together];
    for (int64_t C = 0; C < Count; ++C) {
      Scales[C] = poplar_fp8_scale(Largest[C]);
      Inverses[C] = poplar_fp8_inverse(Scales[C]);
    }
    for (int64_t R = 0; R < Matrix.Rows; ++R)
      for (int64_t C = 0; C < Count; ++C) {
        int64_t At = R * Matrix.Columns + C;
        To[At] = Format::narrow(
            roundValue(Format::widen(From[At]), Scales[C], Inverses[C]));
      }
  }
}

void run(PoplarKernel Kernel, const WideMatrix &From, void *To, int64_t Extent,
         int64_t Grain) {
  void *Args[] = {const_cast<WideMatrix *>(&From), To};
  dispatchRanges(omp_get_max_threads(), Kernel, Args, 0, Extent, Grain);
}

} // namespace

void poplar::runtime::roundRows(const WideMatrix &From, void *To) {
  run(From.Type == POPLAR_F32 ? roundRowsKernel<F32> : roundRowsKernel<BF16>,
      From, To, From.Rows, /*Grain=*/16);
}

void poplar::runtime::roundColumns(const WideMatrix &From, void *To) {
  run(From.Type == POPLAR_F32 ? roundColumnsKernel<F32>
                              : roundColumnsKernel<BF16>,
      From, To, From.Columns, Together);
}
