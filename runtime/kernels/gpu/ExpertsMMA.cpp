//===- ExpertsMMA.cpp - Mixtures of experts on tensor cores ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The products of Experts.cpp for bf16 and f16 on sm_80 and newer. A warp has
// 16 rows of the result in its registers; tiles of both operands pass through
// shared memory, the next ones on their way while these are worked on. Inputs
// and outputs are multiples of 8, which is 16 bytes.
//
//===----------------------------------------------------------------------===//

#include "ExpertWeight.h"
#include "MMA.h"
#include "Slots.h"

using namespace poplar;

namespace {

constexpr int32_t kRows = kExpertWarps * 16, kColumns = 64, kDepth = 32,
                  kSteps = kDepth / 16;
static_assert(kRows == POPLAR_GPU_EXPERT_MMA_GRAD_ROWS,
              "a block has these rows");
static_assert(kColumns == POPLAR_GPU_EXPERT_MMA_COLUMNS,
              "a block has these columns");

/// The stride of rows of a tile, which begin at other banks.
constexpr int32_t strideOf(int32_t columns) { return columns + 8; }

using Sums = float[kColumns / 8][4];

/// How many times 8 elements of a tile a thread copies.
template <int32_t Rows, int32_t Columns>
constexpr int32_t kCopies = Rows * Columns / 8 / kExpertThreads;

/// Starts to copy a tile; place(row, column, i) is null where there are zeros,
/// and what a thread copies i-th is the same place of every tile.
template <int32_t Rows, int32_t Columns, typename Place>
POPLAR_INLINE void startTile(SharedHalf *tile, const void *any, Place place) {
  constexpr int32_t kChunks = Columns / 8;
#pragma clang loop unroll(full)
  for (int32_t i = 0; i < kCopies<Rows, Columns>; ++i) {
    int32_t chunk = i * kExpertThreads + expertThread();
    int32_t row = chunk / kChunks, column = chunk % kChunks * 8;
    const uint16_t *from = place(row, column, i);
    copyAsync(tile + row * strideOf(Columns) + column, from ? from : any,
              from != nullptr);
  }
}

/// Fills a tile with elements of a weight, eight from place(row, column) on,
/// which is negative where there are zeros.
template <int32_t Rows, int32_t Columns, typename Place>
POPLAR_INLINE void fillTile(SharedHalf *tile, const ExpertWeight &weight,
                            Place place) {
  using Words = uint32_t __attribute__((ext_vector_type(4)));
  using SharedWords = __attribute__((address_space(3))) Words;
  constexpr int32_t kChunks = Columns / 8;
  static_assert(kTogether == 8, "a thread copies what it dequantises");
#pragma clang loop unroll(full)
  for (int32_t i = 0; i < kCopies<Rows, Columns>; ++i) {
    int32_t chunk = i * kExpertThreads + expertThread();
    int32_t row = chunk / kChunks, column = chunk % kChunks * 8;
    int64_t from = place(row, column);
    float values[kTogether] = {};
    if (from >= 0)
      weight.values.findTogether(from, values);
    Words words;
    for (int32_t j = 0; j < 4; ++j)
      words[j] = packPair(weight.type, values[2 * j], values[2 * j + 1]);
    *(SharedWords *)(tile + row * strideOf(Columns) + column) = words;
  }
}

/// Goes over `depth` steps of a sum: start(step, stage) starts to copy the
/// tiles from `step` on, add(stage) works on tiles that have arrived.
template <typename Start, typename Add>
POPLAR_INLINE void pipeline(int64_t depth, Start start, Add add) {
  start(0, 0);
  endCopies();
  int32_t stage = 0;
  for (int64_t step = 0; step < depth; step += kDepth, stage ^= 1) {
    if (step + kDepth < depth)
      start(step + kDepth, stage ^ 1);
    endCopies();
    waitForCopies<1>();
    barrier();
    add(stage);
    barrier();
  }
}

/// Calls take(row, column, first, second) for pairs of sums of this lane, in
/// rows of its warp, within the bounds.
template <typename Take>
POPLAR_INLINE void takePairs(const Sums &sums, int64_t rows, int64_t columns,
                             Take take) {
#pragma clang loop unroll(full)
  for (int32_t part = 0; part < kColumns / 8; ++part)
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < 2; ++r) {
      int32_t row = threadY() * 16 + quad() + 8 * r,
              column = 8 * part + pairColumn();
      if (row < rows && column < columns)
        take(row, column, sums[part][2 * r], sums[part][2 * r + 1]);
    }
}

POPLAR_INLINE const uint16_t *at(const void *array, int64_t element) {
  return static_cast<const uint16_t *>(array) + element;
}

/// y += x W, or x W^T where `Transposed`, for the slots of a block's expert.
template <bool Transposed>
POPLAR_INLINE void multiply(const PoplarGPUExperts *desc, void *const *args,
                            int64_t batch) {
  constexpr int32_t kLeft = strideOf(kDepth),
                    kWidth = Transposed ? kDepth : kColumns,
                    kHeight = Transposed ? kColumns : kDepth,
                    kRight = strideOf(kWidth);
  POPLAR_SHARED uint16_t left[2][kRows * kLeft] __attribute__((aligned(16))),
      right[2][kHeight * kRight] __attribute__((aligned(16)));
  POPLAR_SHARED SlotMemory memory;
  SlotRows x = getInputs(desc, args[0]), y = getOutputs(desc, args[2]);
  ExpertTile<kColumns> tile(y.columns);
  ExpertWeight weight(desc->shapes, args[3 + tile.expert]);
  int32_t type = x.type;
  Slots slots(desc, args[1], batch, tile.expert, &memory);
  while (int32_t count = slots.gather())
    for (int32_t first = 0; first < count; first += kRows) {
      int32_t rows = count - first;
      // Rows that this thread copies, which are gathered once.
      constexpr int32_t kOwn = kCopies<kRows, kDepth>;
      const uint16_t *own[kOwn];
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kOwn; ++i) {
        int32_t row = (i * kExpertThreads + expertThread()) / (kDepth / 8);
        own[i] = row < rows ? at(x.array, x.at(slots[first + row])) : nullptr;
      }
      Sums sums;
      clear(sums);
      pipeline(
          x.columns,
          [&](int64_t k, int32_t stage) {
            startTile<kRows, kDepth>(
                left[stage], x.array, [&](int32_t, int32_t column, int32_t i) {
                  return own[i] && k + column < x.columns ? own[i] + k + column
                                                          : nullptr;
                });
            auto place = [&](int32_t row, int32_t column) -> int64_t {
              int64_t output = tile.first + (Transposed ? row : column),
                      input = k + (Transposed ? column : row);
              if (output >= y.columns || input >= x.columns)
                return -1;
              return Transposed ? output * x.columns + input
                                : input * y.columns + output;
            };
            if (weight.isQuantized)
              fillTile<kHeight, kWidth>(right[stage], weight, place);
            else
              startTile<kHeight, kWidth>(
                  right[stage], weight.array,
                  [&](int32_t row, int32_t column, int32_t) {
                    int64_t from = place(row, column);
                    return from < 0 ? nullptr : at(weight.array, from);
                  });
          },
          [&](int32_t stage) {
            if (threadY() * 16 >= rows)
              return;
            LeftShared<kLeft> ofRows = {left[stage] + threadY() * 16 * kLeft};
            if (Transposed)
              multiplyRows<kSteps, kRight>(type, sums, ofRows, right[stage]);
            else
              multiplyColumns<kSteps, kRight>(type, sums, ofRows, right[stage]);
          });
      takePairs(
          sums, rows, y.columns - tile.first,
          [&](int32_t row, int32_t column, float one, float other) {
            int64_t place = y.at(slots[first + row]) + tile.first + column;
            auto *pair = reinterpret_cast<uint32_t *>(
                static_cast<uint16_t *>(y.array) + place);
            if (desc->adds) {
              uint32_t before = *pair;
              uint16_t halves[2] = {uint16_t(before), uint16_t(before >> 16)};
              one += loadElement(halves, type, 0);
              other += loadElement(halves, type, 1);
            }
            *pair = packPair(type, one, other);
          });
    }
}

} // namespace

extern "C" void poplar_gpu_expert_product_mma(const PoplarGPUExperts *desc,
                                              void *const *args,
                                              int64_t batch) {
  if (desc->shapes.transposed)
    multiply<true>(desc, args, batch);
  else
    multiply<false>(desc, args, batch);
}

/// A block has kRows rows of a gradient, and goes over their columns for all of
/// the slots that it has gathered.
extern "C" void poplar_gpu_expert_weight_grad_mma(const PoplarGPUExperts *desc,
                                                  void *const *args,
                                                  int64_t batch) {
  constexpr int32_t kLeft = strideOf(kRows), kRight = strideOf(kColumns);
  POPLAR_SHARED uint16_t left[2][kDepth * kLeft] __attribute__((aligned(16))),
      right[2][kDepth * kRight] __attribute__((aligned(16)));
  POPLAR_SHARED SlotMemory memory;
  SlotRows dy = getOutputs(desc, args[0]), x = getInputs(desc, args[1]);
  ExpertTile<kRows> tile(dy.columns);
  auto *gradient = static_cast<float *>(args[3 + tile.expert]);
  int32_t type = x.type;
  Slots slots(desc, args[2], batch, tile.expert, &memory);
  while (int32_t count = slots.gather())
    for (int64_t first = 0; first < x.columns; first += kColumns) {
      Sums sums;
      clear(sums);
      pipeline(
          count,
          [&](int64_t slot, int32_t stage) {
            startTile<kDepth, kRows>(
                left[stage], dy.array, [&](int32_t step, int32_t row, int32_t) {
                  int64_t own = tile.first + row;
                  return slot + step < count && own < dy.columns
                             ? at(dy.array,
                                  dy.at(slots[int32_t(slot) + step]) + own)
                             : nullptr;
                });
            startTile<kDepth, kColumns>(
                right[stage], x.array,
                [&](int32_t step, int32_t column, int32_t) {
                  int64_t own = first + column;
                  return slot + step < count && own < x.columns
                             ? at(x.array,
                                  x.at(slots[int32_t(slot) + step]) + own)
                             : nullptr;
                });
          },
          [&](int32_t stage) {
            if (tile.first + threadY() * 16 < dy.columns)
              multiplyColumns<kSteps, kRight>(
                  type, sums,
                  LeftTransposed<kLeft>{left[stage] + threadY() * 16},
                  right[stage]);
          });
      takePairs(sums, dy.columns - tile.first, x.columns - first,
                [&](int32_t row, int32_t column, float one, float other) {
                  float *pair = gradient + (tile.first + row) * x.columns +
                                first + column;
                  pair[0] += one;
                  pair[1] += other;
                });
    }
}
