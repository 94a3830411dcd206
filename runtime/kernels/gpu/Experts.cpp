//===- Experts.cpp - Mixtures of experts, on a GPU ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In all formats, on vector units. Tiles of both operands pass through shared
// memory; a warp has kRowsOfWarp rows of the result, a lane kLane neighbouring
// columns of them. Warps without rows only help to fill the tiles.
//
//===----------------------------------------------------------------------===//

#include "ExpertWeight.h"
#include "Slots.h"

using namespace poplar;

namespace {

constexpr float kLog2E = 1.44269504f;

constexpr int32_t kDepth = 16, kRowsOfWarp = 8, kLane = 4;
constexpr int32_t kRows = kExpertWarps * kRowsOfWarp,
                  kColumns = POPLAR_GPU_EXPERT_COLUMNS;
static_assert(kRows == POPLAR_GPU_EXPERT_GRAD_ROWS, "a block has these rows");
static_assert(kColumns == kWarp * kLane, "a warp has all columns");

using Four = float __attribute__((ext_vector_type(4)));
using SharedFour = const __attribute__((address_space(3))) Four;
using SharedFloat = __attribute__((address_space(3))) float;

/// Tiles of each operand, kDepth steps of the sums; rows begin at other banks.
struct Tiles {
  float left[kDepth][kRows + 4], right[kDepth][kColumns + 4];
};
using SharedTiles = __attribute__((address_space(3))) Tiles;
using Sums = float[kRowsOfWarp][kLane];

//===----------------------------------------------------------------------===//
// Blocks of products
//===----------------------------------------------------------------------===//

/// Fills a tile with element(step, column, i), which a thread does for the i-th
/// time. Neighbouring threads have neighbouring steps or columns, whichever lie
/// together in memory.
template <int32_t Width, bool StepsAreNeighbours, typename Element>
POPLAR_INLINE void fill(SharedFloat *tile, Element element) {
#pragma clang loop unroll(full)
  for (int32_t i = 0; i < kDepth * Width / kExpertThreads; ++i) {
    int32_t place = i * kExpertThreads + expertThread();
    int32_t step = StepsAreNeighbours ? place % kDepth : place / Width;
    int32_t column = StepsAreNeighbours ? place / kDepth : place % Width;
    tile[step * (Width + 4) + column] = element(step, column, i);
  }
}

POPLAR_INLINE void clear(Sums &sums) {
  for (auto &row : sums)
    for (float &sum : row)
      sum = 0;
}

POPLAR_INLINE void addProducts(Sums &sums, const SharedTiles *tiles) {
#pragma clang loop unroll_count(4)
  for (int32_t step = 0; step < kDepth; ++step) {
    const SharedFloat *left = tiles->left[step] + threadY() * kRowsOfWarp;
    Four rows[2] = {*(SharedFour *)left, *(SharedFour *)(left + 4)};
    Four columns = *(SharedFour *)(tiles->right[step] + threadX() * kLane);
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < kRowsOfWarp; ++r)
#pragma clang loop unroll(full)
      for (int32_t c = 0; c < kLane; ++c)
        sums[r][c] += rows[r / 4][r % 4] * columns[c];
  }
}

/// Calls take(row, column, sum) for the sums of this thread within the bounds.
template <typename Take>
POPLAR_INLINE void takeSums(const Sums &sums, int64_t rows, int64_t columns,
                            Take take) {
  int32_t row = threadY() * kRowsOfWarp, column = threadX() * kLane;
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < kRowsOfWarp; ++r)
#pragma clang loop unroll(full)
    for (int32_t c = 0; c < kLane; ++c)
      if (row + r < rows && column + c < columns)
        take(row + r, column + c, sums[r][c]);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// y += x W, or x W^T where `Transposed`, for the slots of a block's expert.
template <bool Transposed>
POPLAR_INLINE void multiply(const PoplarGPUExperts *desc, void *const *args,
                            int64_t batch) {
  POPLAR_SHARED Tiles tiles __attribute__((aligned(16)));
  POPLAR_SHARED SlotMemory memory;
  SlotRows x = getInputs(desc, args[0]), y = getOutputs(desc, args[2]);
  ExpertTile<kColumns> tile(y.columns);
  ExpertWeight weight(desc->shapes, args[3 + tile.expert]);
  int32_t type = x.type;
  Slots slots(desc, args[1], batch, tile.expert, &memory);
  while (int32_t count = slots.gather())
    for (int32_t first = 0; first < count; first += kRows) {
      int32_t rows = count - first;
      // Where the rows begin that this thread reads, which are gathered once.
      constexpr int32_t kOwn = kDepth * kRows / kExpertThreads;
      int64_t own[kOwn];
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kOwn; ++i) {
        int32_t row = (i * kExpertThreads + expertThread()) / kDepth;
        own[i] = row < rows ? x.at(slots[first + row]) : -1;
      }
      Sums sums;
      clear(sums);
      for (int64_t k = 0; k < x.columns; k += kDepth) {
        fill<kRows, true>(tiles.left[0], [&](int32_t step, int32_t, int32_t i) {
          return own[i] >= 0 && k + step < x.columns
                     ? loadElement(x.array, type, own[i] + k + step)
                     : 0.0f;
        });
        fill<kColumns, Transposed>(
            tiles.right[0], [&](int32_t step, int32_t column, int32_t) {
              int64_t output = tile.first + column, input = k + step;
              return output < y.columns && input < x.columns
                         ? weight.load(Transposed ? output * x.columns + input
                                                  : input * y.columns + output)
                         : 0.0f;
            });
        barrier();
        if (threadY() * kRowsOfWarp < rows)
          addProducts(sums, &tiles);
        barrier();
      }
      takeSums(sums, rows, y.columns - tile.first,
               [&](int32_t row, int32_t column, float sum) {
                 int64_t at = y.at(slots[first + row]) + tile.first + column;
                 if (desc->adds)
                   sum += loadElement(y.array, type, at);
                 storeElement(y.array, type, at, sum);
               });
    }
}

} // namespace

extern "C" void poplar_gpu_expert_product(const PoplarGPUExperts *desc,
                                          void *const *args, int64_t batch) {
  if (desc->shapes.transposed)
    multiply<true>(desc, args, batch);
  else
    multiply<false>(desc, args, batch);
}

/// A block has kRows rows of a gradient, and goes over their columns for all of
/// the slots that it has gathered.
extern "C" void poplar_gpu_expert_weight_grad(const PoplarGPUExperts *desc,
                                              void *const *args,
                                              int64_t batch) {
  POPLAR_SHARED Tiles tiles __attribute__((aligned(16)));
  POPLAR_SHARED SlotMemory memory;
  SlotRows dy = getOutputs(desc, args[0]), x = getInputs(desc, args[1]);
  ExpertTile<kRows> tile(dy.columns);
  auto *gradient = static_cast<float *>(args[3 + tile.expert]);
  int32_t type = x.type;
  Slots slots(desc, args[2], batch, tile.expert, &memory);
  while (int32_t count = slots.gather())
    for (int64_t column = 0; column < x.columns; column += kColumns) {
      Sums sums;
      clear(sums);
      for (int32_t first = 0; first < count; first += kDepth) {
        fill<kRows, false>(
            tiles.left[0], [&](int32_t step, int32_t row, int32_t) {
              int64_t own = tile.first + row;
              return first + step < count && own < dy.columns
                         ? loadElement(dy.array, type,
                                       dy.at(slots[first + step]) + own)
                         : 0.0f;
            });
        fill<kColumns, false>(
            tiles.right[0], [&](int32_t step, int32_t c, int32_t) {
              return first + step < count && column + c < x.columns
                         ? loadElement(x.array, type,
                                       x.at(slots[first + step]) + column + c)
                         : 0.0f;
            });
        barrier();
        if (tile.first + threadY() * kRowsOfWarp < dy.columns)
          addProducts(sums, &tiles);
        barrier();
      }
      takeSums(sums, dy.columns - tile.first, x.columns - column,
               [&](int32_t row, int32_t c, float sum) {
                 gradient[(tile.first + row) * x.columns + column + c] += sum;
               });
    }
}

//===----------------------------------------------------------------------===//
// Routes
//===----------------------------------------------------------------------===//

namespace {

/// As on the host; a lane has every kWarp-th logit of a token.
struct ExpertChoice {
  const PoplarRoute *desc;
  const void *array, *bias;
  int32_t type;
  int64_t first;
  int32_t count, groupSize;
  float largest = 0, total = 1;
  uint32_t open = ~0u;

  POPLAR_INLINE ExpertChoice(const PoplarRoute *desc, const void *array,
                             const void *bias, int64_t token)
      : desc(desc), array(array), bias(bias), type(desc->type),
        first(token * desc->num_experts), count(int32_t(desc->num_experts)),
        groupSize(count / desc->groups) {}

  POPLAR_INLINE float operator[](int32_t i) const {
    return loadElement(array, type, first + i);
  }

  POPLAR_INLINE void findTotal() {
    largest = (*this)[0];
    for (int32_t i = threadX(); i < count; i += kWarp)
      largest = (*this)[i] > largest ? (*this)[i] : largest;
#pragma clang loop unroll(full)
    for (int32_t lanes = kWarp / 2; lanes; lanes /= 2) {
      float other = shuffleXor(largest, lanes);
      largest = other > largest ? other : largest;
    }
    if (desc->normalized && !bias)
      return;
    float sum = 0;
    for (int32_t i = threadX(); i < count; i += kWarp)
      sum += getScore(i);
    total = warpSum(sum);
  }

  POPLAR_INLINE float getScore(int32_t i) const {
    return desc->sigmoid ? 1 / (1 + exp2((*this)[i] * -kLog2E))
                         : exp2(((*this)[i] - largest) * kLog2E) / total;
  }

  POPLAR_INLINE float getKey(int32_t i) const {
    if (!desc->sigmoid && !bias)
      return (*this)[i];
    float added = 0;
    if (bias)
      for (int32_t part = 0; part < POPLAR_BIAS_PARTS; ++part)
        added += loadElement(bias, type, int64_t(part) * count + i);
    return getScore(i) + added;
  }

  POPLAR_INLINE int32_t findNext(int32_t last, int32_t begin,
                                 int32_t end) const {
    float least = last < 0 ? 0.0f : getKey(last), best = 0;
    int32_t found = -1;
    for (int32_t i = begin + threadX(); i < end; i += kWarp) {
      if (open != ~0u && !(open >> (i / groupSize) & 1))
        continue;
      float value = getKey(i);
      bool isAfter = last < 0 || value < least || (value == least && i > last);
      if (isAfter && (found < 0 || value > best)) {
        found = i;
        best = value;
      }
    }
    found = findBest(found, best);
    return found >= 0 ? found : last + 1 < count ? last + 1 : 0;
  }
  POPLAR_INLINE int32_t findNext(int32_t last) const {
    return findNext(last, 0, count);
  }

  /// A lane has the sum of a group.
  POPLAR_INLINE void openGroups() {
    float sum = 0;
    for (int32_t g = 0; g < desc->groups; ++g) {
      int32_t begin = g * groupSize, end = begin + groupSize,
              best = findNext(-1, begin, end),
              second = findNext(best, begin, end);
      if (threadX() == g)
        sum = getKey(best) + getKey(second);
    }
    open = 0;
    for (int32_t n = 0; n < desc->top_groups; ++n) {
      bool isFree = threadX() < desc->groups && !(open >> threadX() & 1);
      int32_t best = findBest(isFree ? threadX() : -1, sum);
      open |= 1u << best;
    }
  }

private:
  /// What the lane with the largest value found, of equal ones the first.
  static POPLAR_INLINE int32_t findBest(int32_t found, float best) {
#pragma clang loop unroll(full)
    for (int32_t lanes = kWarp / 2; lanes; lanes /= 2) {
      float value = shuffleXor(best, lanes);
      int32_t other = shuffleXor(found, lanes);
      bool isBetter = other >= 0 && (found < 0 || value > best ||
                                     (value == best && other < found));
      best = isBetter ? value : best;
      found = isBetter ? other : found;
    }
    return found;
  }
};

POPLAR_INLINE int64_t ownToken() { return blockX() * kExpertWarps + threadY(); }

/// A warp has a token.
POPLAR_INLINE void route(const PoplarRoute *desc, void *logits, void *scores,
                         void *experts, void *bias, int64_t batch) {
  int64_t token = ownToken();
  if (token >= batch * desc->seq_len)
    return;
  ExpertChoice choice(desc, logits, bias, token);
  if (!desc->sigmoid)
    choice.findTotal();
  if (desc->top_groups < desc->groups)
    choice.openGroups();
  int32_t topK = int32_t(desc->top_k), last = -1;
  float *score = static_cast<float *>(scores) + token * topK;
  int32_t *expert = static_cast<int32_t *>(experts) + token * topK;
  float chosen = desc->sigmoid ? POPLAR_LEAST_SCORES : 0.0f;
  for (int32_t k = 0; k < topK; ++k) {
    last = choice.findNext(last);
    float own = choice.getScore(last);
    chosen += own;
    if (threadX() == 0) {
      expert[k] = last;
      score[k] = own;
    }
  }
  if (desc->normalized && threadX() == 0)
    for (int32_t k = 0; k < topK; ++k)
      score[k] /= chosen;
}

} // namespace

extern "C" void poplar_gpu_route(const PoplarRoute *desc, void *logits,
                                 void *scores, void *experts, int64_t batch) {
  route(desc, logits, scores, experts, /*bias=*/nullptr, batch);
}

extern "C" void poplar_gpu_route_biased(const PoplarRoute *desc, void *logits,
                                        void *scores, void *experts, void *bias,
                                        int64_t batch) {
  route(desc, logits, scores, experts, bias, batch);
}

/// The same; runtime/kernels/Experts.cpp derives it.
extern "C" void poplar_gpu_route_grad(const PoplarRoute *desc, void *dscores,
                                      void *scores, void *experts,
                                      void *logitsOf, void *dlogits,
                                      int64_t batch) {
  int64_t token = ownToken();
  if (token >= batch * desc->seq_len)
    return;
  int32_t topK = int32_t(desc->top_k);
  auto *dscore = static_cast<const float *>(dscores) + token * topK;
  auto *score = static_cast<const float *>(scores) + token * topK;
  auto *expert = static_cast<const int32_t *>(experts) + token * topK;
  ExpertChoice logits(desc, logitsOf, /*bias=*/nullptr, token);
  // The sum of sigmoids that scores were divided by.
  float mean = 0, sum = desc->normalized ? POPLAR_LEAST_SCORES : 1.0f;
  for (int32_t k = 0; k < topK; ++k)
    mean += score[k] * dscore[k];
  for (int32_t k = 0; k < topK && desc->normalized && desc->sigmoid; ++k)
    sum += logits.getScore(expert[k]);
  if (desc->sigmoid && !desc->normalized)
    mean = 0;
  float largest = desc->normalized ? 0.0f : logits[expert[0]];
  for (int32_t i = threadX(); i < logits.count; i += kWarp) {
    float value = desc->normalized || desc->sigmoid
                      ? 0.0f
                      : -score[0] * exp2((logits[i] - largest) * kLog2E) * mean;
    float p = desc->sigmoid ? logits.getScore(i) : 0.0f;
    for (int32_t k = 0; k < topK; ++k)
      if (expert[k] == i)
        value =
            (dscore[k] - mean) * (desc->sigmoid ? p * (1 - p) / sum : score[k]);
    storeElement(dlogits, desc->type, logits.first + i, value);
  }
}
