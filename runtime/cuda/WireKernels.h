//===- WireKernels.h - Types of elements, on a GPU --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CUDA_WIREKERNELS_H
#define POPLAR_RUNTIME_CUDA_WIREKERNELS_H

#include "comm/Wire.h"
#include "cuda/Driver.h"
#include "cuda/Memory.h"
#include "program/Quantized.h"

#include <memory>

namespace poplar::runtime::cuda {

/// Rows of a product in memory, `Count` elements of a PoplarType, each to be
/// multiplied by the scale of its row and of its column if there are scales.
struct ProductRows {
  void *Values;
  int32_t Type;
  int64_t Columns, Count;
  const float *RowScales = nullptr, *ColumnScales = nullptr;
};

/// Conversions and sums of collectives, equal to those of comm/Wire.h on a CPU
/// to the bit, and the epilogues that cuBLASLt may refuse. Loaded into the
/// current context from PTX that the runtime contains.
class WireKernels {
public:
  WireKernels();
  ~WireKernels();
  WireKernels(const WireKernels &) = delete;
  WireKernels &operator=(const WireKernels &) = delete;

  /// Rounds to `Wire`, and from there to `To`. Source and target may be the
  /// same if their types are.
  void convert(const void *Source, comm::Type From, comm::Type Wire,
               void *Target, comm::Type To, int64_t Count, Stream Queue) const;
  /// Sum[i] += Source[i].
  void add(float *Sum, const float *Source, int64_t Count, Stream Queue) const;
  /// Applies scales, and a PoplarEpilogue that cuBLASLt refuses, other than the
  /// gradients of biases; `Bias` may be null.
  void applyEpilogue(ProductRows Result, const void *Bias, void *Aux,
                     int32_t Epilogue, Stream Queue) const;
  /// Rounds a matrix [Rows, Columns] in bf16 to codes of Runtime/FP8.h, with
  /// 2^-e for each row. The matrix is dense, and a row a multiple of 16.
  void roundRows(const void *From, void *Codes, float *Scales, int64_t Rows,
                 int64_t Columns, Stream Queue) const;
  /// The transpose [Columns, Rows], with 2^-e for each column.
  void roundColumns(const void *From, void *Codes, float *Scales, int64_t Rows,
                    int64_t Columns, Stream Queue) const;
  /// Sum[i] += Values[i * Step] + Values[i * Step + Stride] + ..., `Depth` of
  /// them, for each i < `Count`, in two stages whose order does not change.
  /// `Partials` has room for countPartials(Depth, Count) numbers.
  void addSums(float *Sum, float *Partials, const void *Values, int32_t Type,
               int64_t Step, int64_t Stride, int64_t Depth, int64_t Count,
               Stream Queue) const;
  static int64_t countPartials(int64_t Depth, int64_t Count);
  /// Copies the tables of what follows to the GPU, once.
  void prepareTables();
  /// Writes a quantised matrix [Rows, Columns] in `Type`.
  void dequantize(const void *From, int32_t Quantized, int64_t Rows,
                  int64_t Columns, void *To, int32_t Type, Stream Queue) const;
  /// The first and the second moment of AdamW, from and to blocks.
  void widenStates(const MomentBlocks &Moment1, const MomentBlocks &Moment2,
                   float *Wide1, float *Wide2, int64_t Count,
                   Stream Queue) const;
  void roundStates(const float *Wide1, const float *Wide2,
                   const MomentBlocks &Moment1, const MomentBlocks &Moment2,
                   int64_t Count, Stream Queue) const;
  /// Bytes of the GPU's memory that it has taken.
  int64_t getOwnBytes() const { return Tables ? Tables->size() : 0; }

private:
  Module Loaded = nullptr;
  Function Convert, Add, Epilogues, PartialSums, AddPartials, Dequantize,
      WidenStates, RoundStates, RoundStates4, RoundRows, RoundColumns;
  /// The values of NF4, then those of the dynamic maps, with signs and without,
  /// then the middles of each.
  std::unique_ptr<Allocation> Tables;
};

} // namespace poplar::runtime::cuda

#endif // POPLAR_RUNTIME_CUDA_WIREKERNELS_H
