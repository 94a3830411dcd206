//===- RowProduct.cpp - Products of one row -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of such a product is the time to read B once. B is read as it lies,
// in several streams of consecutive addresses: rows of it whose sums are wanted
// where it is transposed, else rows that are added up.
//
// All products of a program have the same formats, or one and the same for what
// is quantised. They share a function, or two, to which the formats are
// constants that all calls agree about.
//
//===----------------------------------------------------------------------===//

#include "Dots.h"
#include "Poplar/Runtime/ABI.h"
#include "QuantizedRows.h"

using namespace poplar;

namespace {

/// Streams of B; columns of C that are added up in a cache.
constexpr int64_t kStreams = 4, kColumns = 1024;

template <typename Matrix> struct Product {
  Elements a;
  Matrix b;
  void *const *args;
  int64_t n, k;
  bool isBF16C, hasBias, isTransposed;

  POPLAR_ALWAYS_INLINE float bias(int64_t column) const {
    return hasBias ? loadElement(args[2], isBF16C, column) : 0.0f;
  }
  POPLAR_ALWAYS_INLINE void storeC(int64_t at, float value) const {
    storeElement(args[3], isBF16C, at, value);
  }
};

/// `Columns` columns of C, in `Rows` rows from `row` on, of a transposed B.
template <int Rows, int Columns, typename Matrix>
POPLAR_INLINE void dot(const Product<Matrix> &product, int64_t row,
                       int64_t column) {
  int64_t rows[Rows];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
    rows[r] = (row + r) * product.k;
  float results[Rows][Columns];
  multiplyDots(product.a, rows, product.b, column, product.k, results);
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c)
      product.storeC((row + r) * product.n + column + c,
                     results[r][c] + product.bias(column + c));
}

/// Adds `Streams` rows of B, from `k` on, to `width` columns of C.
template <int Rows, int Streams, typename Matrix>
POPLAR_INLINE void addStreams(const Product<Matrix> &product, int64_t row,
                              int64_t k, int64_t column, int64_t width,
                              float (&sums)[Rows][kColumns]) {
  const int64_t depth = product.k;
  float a[Rows][Streams];
  for (int r = 0; r < Rows; ++r)
    for (int s = 0; s < Streams; ++s)
      a[r][s] = product.a.load((row + r) * depth + k + s);
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    Floats b[Streams];
#pragma GCC unroll 8
    for (int s = 0; s < Streams; ++s)
      b[s] = product.b.loadVector(k + s, column + i);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      Floats sum = load(sums[r] + i);
#pragma GCC unroll 8
      for (int s = 0; s < Streams; ++s)
        sum += b[s] * a[r][s];
      store(sums[r] + i, sum);
    }
  }
  for (; i < width; ++i)
    for (int r = 0; r < Rows; ++r)
      for (int s = 0; s < Streams; ++s)
        sums[r][i] += product.b.load(k + s, column + i) * a[r][s];
}

/// Columns [begin, end) of C in `Rows` rows from `row` on.
template <int Rows, typename Matrix>
POPLAR_INLINE void multiplyRows(const Product<Matrix> &product, int64_t row,
                                int64_t begin, int64_t end) {
  if (product.isTransposed) {
    int64_t column = begin;
    for (; column + kStreams <= end; column += kStreams)
      dot<Rows, kStreams, Matrix>(product, row, column);
    for (; column < end; ++column)
      dot<Rows, 1, Matrix>(product, row, column);
    return;
  }
  float sums[Rows][kColumns];
  for (int64_t column = begin; column < end; column += kColumns) {
    int64_t width = end - column < kColumns ? end - column : kColumns;
    for (int r = 0; r < Rows; ++r)
      for (int64_t i = 0; i < width; ++i)
        sums[r][i] = product.bias(column + i);
    int64_t k = 0;
    for (; k + 2 * kStreams <= product.k; k += 2 * kStreams)
      addStreams<Rows, 2 * kStreams>(product, row, k, column, width, sums);
    for (; k < product.k; ++k)
      addStreams<Rows, 1>(product, row, k, column, width, sums);
    for (int r = 0; r < Rows; ++r)
      for (int64_t i = 0; i < width; ++i)
        product.storeC((row + r) * product.n + column + i, sums[r][i]);
  }
}

template <typename Matrix>
POPLAR_INLINE void multiplyAll(const Product<Matrix> &product, int64_t batch,
                               int64_t begin, int64_t end) {
  int64_t row = 0;
  for (; row + 4 <= batch; row += 4)
    multiplyRows<4>(product, row, begin, end);
  for (; row < batch; ++row)
    multiplyRows<1>(product, row, begin, end);
}

/// Not a part of their callers: these are compiled once for all of them. Their
/// arguments are scalars, which are found to be constants.
__attribute__((noinline)) void multiply(void *const *args, int64_t n, int64_t k,
                                        bool isBF16A, bool isBF16B,
                                        bool isBF16C, bool hasBias,
                                        bool isTransposed, int64_t batch,
                                        int64_t begin, int64_t end) {
  multiplyAll(Product<PlainRows>{{args[0], isBF16A},
                                 {{args[1], isBF16B}, isTransposed ? k : n},
                                 args,
                                 n,
                                 k,
                                 isBF16C,
                                 hasBias,
                                 isTransposed},
              batch, begin, end);
}
template <int32_t Type>
__attribute__((noinline)) void
multiplyQuantized(void *const *args, int64_t n, int64_t k, bool isBF16A,
                  bool isBF16C, bool hasBias, bool isTransposed, int64_t batch,
                  int64_t begin, int64_t end) {
  int64_t rows = isTransposed ? n : k, width = isTransposed ? k : n;
  using Matrix = QuantizedRows<Type>;
  multiplyAll(Product<Matrix>{{args[0], isBF16A},
                              Matrix::get(args[1], isBF16A, rows, width),
                              args,
                              n,
                              k,
                              isBF16C,
                              hasBias,
                              isTransposed},
              batch, begin, end);
}

} // namespace

extern "C" void poplar_row_product(const PoplarGemm *desc, void *const *args,
                                   int64_t batch, int64_t begin, int64_t end) {
  int64_t n = desc->n, k = desc->k;
  bool isBF16A = desc->a_type == POPLAR_BF16,
       isBF16C = desc->c_type == POPLAR_BF16, hasBias = desc->has_bias != 0,
       isTransposed = desc->trans_b != 0;
  // Called by name, so that their arguments are found to be constants.
  if (desc->b_type == POPLAR_NF4)
    multiplyQuantized<POPLAR_NF4>(args, n, k, isBF16A, isBF16C, hasBias,
                                  isTransposed, batch, begin, end);
  else if (desc->b_type == POPLAR_NF4_DOUBLE)
    multiplyQuantized<POPLAR_NF4_DOUBLE>(args, n, k, isBF16A, isBF16C, hasBias,
                                         isTransposed, batch, begin, end);
  else if (desc->b_type == POPLAR_INT8)
    multiplyQuantized<POPLAR_INT8>(args, n, k, isBF16A, isBF16C, hasBias,
                                   isTransposed, batch, begin, end);
  else
    multiply(args, n, k, isBF16A, desc->b_type == POPLAR_BF16, isBF16C, hasBias,
             isTransposed, batch, begin, end);
}
