//===- Experts.cpp - Mixtures of experts ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slot is one of the top_k experts of a token. The slots of an expert are
// gathered, and its weight is multiplied by their rows, kRows at a time. Parts
// own columns of the result or rows of gradients, and go through the experts in
// their order, so that sums do not depend on the partition.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/Experts.h"
#include "Dots.h"
#include "Poplar/Runtime/ABI.h"
#include "QuantizedRows.h"

using namespace poplar;

namespace {

constexpr float kLog2E = 1.44269504f;
/// Rows of a block in registers, and vectors of columns.
constexpr int kRows = 4, kVectors = 4;
/// Slots that are gathered at a time.
constexpr int64_t kGathered = 256;

POPLAR_INLINE float exp2Of(float x) { return exp2(splat(x))[0]; }

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// The slots of one expert, some at a time.
struct Gathering {
  const int32_t *experts;
  int64_t slots, expert, next, count;
  int64_t found[kGathered];

  POPLAR_ALWAYS_INLINE Gathering(void *experts, int64_t slots, int64_t expert)
      : experts(static_cast<const int32_t *>(experts)), slots(slots),
        expert(expert), next(0), count(0) {}

  POPLAR_ALWAYS_INLINE bool gather() {
    count = 0;
    for (; next < slots && count < kGathered; ++next) {
      found[count] = next;
      count += experts[next] == expert;
    }
    return count != 0;
  }
};

/// Rows of slots in an array [B,T,columns] or [B,T,top_k * columns].
struct Rows {
  void *array;
  bool isBF16, isOwn;
  int64_t topK, columns;

  POPLAR_ALWAYS_INLINE int64_t at(int64_t slot) const {
    return (isOwn ? slot : slot / topK) * columns;
  }
};

POPLAR_INLINE Rows getInputs(const PoplarExperts *desc, void *array) {
  return {array, desc->type == POPLAR_BF16, desc->own_inputs != 0, desc->top_k,
          desc->inputs};
}
POPLAR_INLINE Rows getOutputs(const PoplarExperts *desc, void *array) {
  return {array, desc->type == POPLAR_BF16, desc->own_outputs != 0, desc->top_k,
          desc->outputs};
}

POPLAR_INLINE void addElement(const Rows &rows, int64_t at, float value) {
  storeElement(rows.array, rows.isBF16, at,
               loadElement(rows.array, rows.isBF16, at) + value);
}

//===----------------------------------------------------------------------===//
// Blocks of products
//===----------------------------------------------------------------------===//

/// Columns [column, column + Columns) of y += x W^T for `Count` slots.
template <int Count, int Columns>
POPLAR_INLINE void multiplyRows(const Rows &x, const Rows &y,
                                const void *weight, const int64_t *slots,
                                int64_t column) {
  int64_t from[Count];
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r)
    from[r] = x.at(slots[r]);
  float results[Count][Columns];
  multiplyDots({x.array, x.isBF16}, from,
               PlainRows{{weight, x.isBF16}, x.columns}, column, x.columns,
               results);
  for (int r = 0; r < Count; ++r)
    for (int c = 0; c < Columns; ++c)
      addElement(y, y.at(slots[r]) + column + c, results[r][c]);
}

/// Adds to a block of sums, `Count` rows of `Vectors` vectors: for each i,
/// vectors are multiplied by one number per row.
template <int Count, int Vectors, typename Number, typename Vector>
POPLAR_INLINE void addProducts(int64_t depth, Floats (&sums)[Count][Vectors],
                               Number number, Vector vector) {
  for (int64_t i = 0; i < depth; ++i) {
    Floats b[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v)
      b[v] = vector(i, v);
#pragma GCC unroll 8
    for (int r = 0; r < Count; ++r) {
      float a = number(i, r);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v)
        sums[r][v] += b[v] * a;
    }
  }
}

template <int Count, int Vectors, typename Number, typename Vector>
POPLAR_INLINE void sumProducts(int64_t depth, Floats (&sums)[Count][Vectors],
                               Number number, Vector vector) {
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = Floats{};
  addProducts<Count, Vectors>(depth, sums, number, vector);
}

/// Columns [column, column + Vectors * kLanes) of y += x W for `Count` slots.
template <int Count, int Vectors>
POPLAR_INLINE void addRows(const Rows &x, const Rows &y, const void *weight,
                           const int64_t *slots, int64_t column) {
  int64_t from[Count];
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r)
    from[r] = x.at(slots[r]);
  Floats sums[Count][Vectors];
  sumProducts<Count, Vectors>(
      x.columns, sums,
      [&](int64_t k, int r) __attribute__((always_inline)) {
        return loadElement(x.array, x.isBF16, from[r] + k);
      },
      [&](int64_t k, int v) __attribute__((always_inline)) {
        return loadElements(weight, x.isBF16,
                            k * y.columns + column + v * kLanes);
      });
  for (int r = 0; r < Count; ++r)
    for (int v = 0; v < Vectors; ++v)
      for (int64_t lane = 0; lane < kLanes; ++lane)
        addElement(y, y.at(slots[r]) + column + v * kLanes + lane,
                   sums[r][v][lane]);
}

/// The same of one column.
POPLAR_INLINE void addColumn(const Rows &x, const Rows &y, const void *weight,
                             int64_t slot, int64_t column) {
  float sum = 0;
  for (int64_t k = 0; k < x.columns; ++k)
    sum += loadElement(x.array, x.isBF16, x.at(slot) + k) *
           loadElement(weight, x.isBF16, k * y.columns + column);
  addElement(y, y.at(slot) + column, sum);
}

template <int Count>
POPLAR_INLINE void multiply(bool isTransposed, const Rows &x, const Rows &y,
                            const void *weight, const int64_t *slots,
                            int64_t begin, int64_t end) {
  int64_t column = begin;
  if (isTransposed) {
    for (; column + kVectors <= end; column += kVectors)
      multiplyRows<Count, kVectors>(x, y, weight, slots, column);
    for (; column < end; ++column)
      multiplyRows<Count, 1>(x, y, weight, slots, column);
    return;
  }
  for (; column + kVectors * kLanes <= end; column += kVectors * kLanes)
    addRows<Count, kVectors>(x, y, weight, slots, column);
  for (; column + kLanes <= end; column += kLanes)
    addRows<Count, 1>(x, y, weight, slots, column);
  for (; column < end; ++column)
    for (int r = 0; r < Count; ++r)
      addColumn(x, y, weight, slots[r], column);
}

//===----------------------------------------------------------------------===//
// Products with quantised weights
//===----------------------------------------------------------------------===//

/// Slots that a part of a weight is multiplied by, once it is dequantised.
constexpr int64_t kPanelSlots = 64;

/// A part of a quantised weight in f32: rows of kDeep inputs of kWide outputs
/// where `Transposed`, else rows of kWide outputs of kDeep inputs.
template <bool Transposed> struct Panel {
  static constexpr int64_t kWide = Transposed ? 16 : kVectors * kLanes,
                           kDeep = Transposed ? 256 : 64;
  static_assert(kWide % kVectors == 0);
  float values[kWide * kDeep];

  /// Rows beyond `width` and columns beyond it become 0.
  template <typename Matrix>
  POPLAR_ALWAYS_INLINE void read(const Matrix &weight, int64_t column,
                                 int64_t width, int64_t input, int64_t depth) {
    for (float &value : values)
      value = 0;
    if (Transposed)
      for (int64_t c = 0; c < width; ++c)
        weight.read(column + c, input, depth, values + c * kDeep);
    else
      for (int64_t k = 0; k < depth; ++k)
        weight.read(input + k, column, width, values + k * kWide);
  }

  /// sums [Count, kWide] += the inputs of `Count` slots by the panel.
  template <int Count>
  POPLAR_ALWAYS_INLINE void multiply(const Rows &x, const int64_t *slots,
                                     int64_t input, int64_t depth,
                                     float *sums) const {
    int64_t from[Count];
#pragma GCC unroll 8
    for (int r = 0; r < Count; ++r)
      from[r] = x.at(slots[r]) + input;
    if (Transposed) {
      for (int64_t column = 0; column < kWide; column += kVectors) {
        float results[Count][kVectors];
        multiplyDots({x.array, x.isBF16}, from,
                     PlainRows{{values, /*isBF16=*/false}, kDeep}, column,
                     depth, results);
        for (int r = 0; r < Count; ++r)
          for (int c = 0; c < kVectors; ++c)
            sums[r * kWide + column + c] += results[r][c];
      }
      return;
    }
    // In the order of plain weights.
    Floats results[Count][kVectors];
    for (int r = 0; r < Count; ++r)
      for (int v = 0; v < kVectors; ++v)
        results[r][v] = load(sums + r * kWide + v * kLanes);
    addProducts<Count, kVectors>(
        depth, results,
        [&](int64_t k, int r) __attribute__((always_inline)) {
          return loadElement(x.array, x.isBF16, from[r] + k);
        },
        [&](int64_t k, int v) __attribute__((always_inline)) {
          return load(values + k * kWide + v * kLanes);
        });
    for (int r = 0; r < Count; ++r)
      for (int v = 0; v < kVectors; ++v)
        store(sums + r * kWide + v * kLanes, results[r][v]);
  }
};

/// Columns [begin, end) of y += x W, or x W^T, for at most kPanelSlots slots.
template <bool Transposed, typename Matrix>
POPLAR_INLINE void multiplyPanels(const Rows &x, const Rows &y,
                                  const Matrix &weight, const int64_t *slots,
                                  int64_t count, int64_t begin, int64_t end) {
  using Part = Panel<Transposed>;
  constexpr int64_t kWide = Part::kWide, kDeep = Part::kDeep;
  Part panel;
  float sums[kPanelSlots * kWide];
  for (int64_t column = begin; column < end; column += kWide) {
    int64_t width = end - column < kWide ? end - column : kWide;
    for (float &sum : sums)
      sum = 0;
    for (int64_t input = 0; input < x.columns; input += kDeep) {
      int64_t depth = x.columns - input < kDeep ? x.columns - input : kDeep;
      panel.read(weight, column, width, input, depth);
      int64_t i = 0;
      for (; i + kRows <= count; i += kRows)
        panel.template multiply<kRows>(x, slots + i, input, depth,
                                       sums + i * kWide);
      for (; i < count; ++i)
        panel.template multiply<1>(x, slots + i, input, depth,
                                   sums + i * kWide);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < width; ++c)
        addElement(y, y.at(slots[i]) + column + c, sums[i * kWide + c]);
  }
}

template <int32_t Type>
POPLAR_INLINE void multiplyQuantized(const PoplarExperts *desc, const Rows &x,
                                     const Rows &y, const void *array,
                                     const Gathering &gathering, int64_t begin,
                                     int64_t end) {
  bool isTransposed = desc->transposed != 0;
  auto weight = QuantizedRows<Type>::get(array, x.isBF16,
                                         isTransposed ? y.columns : x.columns,
                                         isTransposed ? x.columns : y.columns);
  for (int64_t first = 0; first < gathering.count; first += kPanelSlots) {
    const int64_t *slots = gathering.found + first,
                  rest = gathering.count - first;
    int64_t count = rest < kPanelSlots ? rest : kPanelSlots;
    if (isTransposed)
      multiplyPanels<true>(x, y, weight, slots, count, begin, end);
    else
      multiplyPanels<false>(x, y, weight, slots, count, begin, end);
  }
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Rows [row, row + Count) of a gradient += dy^T x over the gathered slots.
template <int Count, int Vectors>
POPLAR_INLINE void addGradient(const Rows &dy, const Rows &x,
                               const Gathering &slots, float *gradient,
                               int64_t row, int64_t column) {
  Floats sums[Count][Vectors];
  sumProducts<Count, Vectors>(
      slots.count, sums,
      [&](int64_t i, int r) __attribute__((always_inline)) {
        return loadElement(dy.array, dy.isBF16,
                           dy.at(slots.found[i]) + row + r);
      },
      [&](int64_t i, int v) __attribute__((always_inline)) {
        return loadElements(x.array, x.isBF16,
                            x.at(slots.found[i]) + column + v * kLanes);
      });
#pragma GCC unroll 8
  for (int r = 0; r < Count; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      float *to = gradient + (row + r) * x.columns + column + v * kLanes;
      store(to, load(to) + sums[r][v]);
    }
}

template <int Count>
POPLAR_INLINE void addGradientRows(const Rows &dy, const Rows &x,
                                   const Gathering &slots, float *gradient,
                                   int64_t row) {
  int64_t column = 0;
  for (; column + kVectors * kLanes <= x.columns; column += kVectors * kLanes)
    addGradient<Count, kVectors>(dy, x, slots, gradient, row, column);
  for (; column + kLanes <= x.columns; column += kLanes)
    addGradient<Count, 1>(dy, x, slots, gradient, row, column);
  for (; column < x.columns; ++column)
    for (int r = 0; r < Count; ++r) {
      float sum = 0;
      for (int64_t i = 0; i < slots.count; ++i)
        sum +=
            loadElement(dy.array, dy.isBF16, dy.at(slots.found[i]) + row + r) *
            loadElement(x.array, x.isBF16, x.at(slots.found[i]) + column);
      gradient[(row + r) * x.columns + column] += sum;
    }
}

} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

extern "C" void poplar_expert_product(const PoplarExperts *desc,
                                      void *const *args, int64_t batch,
                                      int64_t begin, int64_t end) {
  const Rows x = getInputs(desc, args[0]), y = getOutputs(desc, args[2]);
  const int64_t slots = batch * desc->seq_len * desc->top_k;
  const int64_t rows = y.isOwn ? slots : slots / desc->top_k;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = begin; column < end; ++column)
      storeElement(y.array, y.isBF16, row * y.columns + column, 0.0f);
  for (int64_t expert = 0; expert < desc->num_experts; ++expert) {
    Gathering gathering(args[1], slots, expert);
    const void *weight = args[3 + expert];
    while (gathering.gather()) {
      if (desc->quantized == POPLAR_NF4) {
        multiplyQuantized<POPLAR_NF4>(desc, x, y, weight, gathering, begin,
                                      end);
      } else if (desc->quantized == POPLAR_NF4_DOUBLE) {
        multiplyQuantized<POPLAR_NF4_DOUBLE>(desc, x, y, weight, gathering,
                                             begin, end);
      } else if (desc->quantized == POPLAR_INT8) {
        multiplyQuantized<POPLAR_INT8>(desc, x, y, weight, gathering, begin,
                                       end);
      } else {
        int64_t i = 0;
        for (; i + kRows <= gathering.count; i += kRows)
          multiply<kRows>(desc->transposed, x, y, weight, gathering.found + i,
                          begin, end);
        for (; i < gathering.count; ++i)
          multiply<1>(desc->transposed, x, y, weight, gathering.found + i,
                      begin, end);
      }
    }
  }
}

extern "C" void poplar_expert_weight_grad(const PoplarExperts *desc,
                                          void *const *args, int64_t batch,
                                          int64_t begin, int64_t end) {
  const Rows dy = getOutputs(desc, args[0]), x = getInputs(desc, args[1]);
  const int64_t slots = batch * desc->seq_len * desc->top_k;
  for (int64_t expert = 0; expert < desc->num_experts; ++expert) {
    auto *gradient = static_cast<float *>(args[3 + expert]);
    Gathering gathering(args[2], slots, expert);
    while (gathering.gather()) {
      int64_t row = begin;
      for (; row + kRows <= end; row += kRows)
        addGradientRows<kRows>(dy, x, gathering, gradient, row);
      for (; row < end; ++row)
        addGradientRows<1>(dy, x, gathering, gradient, row);
    }
  }
}

//===----------------------------------------------------------------------===//
// Routes
//===----------------------------------------------------------------------===//

namespace {

/// The logits of a token, and how its experts are chosen: by the order of
/// logits, or of scores with what is added to them.
struct ExpertChoice {
  const PoplarRoute *desc;
  const void *array, *bias;
  bool isBF16;
  int64_t first, count;
  /// Those of a softmax. All scores are divided by the total, which is 1 where
  /// another one follows.
  float largest = 0, total = 1;
  /// Groups from which experts are chosen, a bit each.
  uint32_t open = ~0u;

  ExpertChoice(const PoplarRoute *desc, const void *array, const void *bias,
               int64_t token)
      : desc(desc), array(array), bias(bias), isBF16(desc->type == POPLAR_BF16),
        first(token * desc->num_experts), count(desc->num_experts) {}

  POPLAR_ALWAYS_INLINE float operator[](int64_t i) const {
    return loadElement(array, isBF16, first + i);
  }

  void findTotal() {
    largest = (*this)[0];
    for (int64_t i = 1; i < count; ++i)
      largest = (*this)[i] > largest ? (*this)[i] : largest;
    if (desc->normalized && !bias)
      return;
    float sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += getScore(i);
    total = sum;
  }

  POPLAR_ALWAYS_INLINE float getScore(int64_t i) const {
    return desc->sigmoid ? 1 / (1 + exp2Of((*this)[i] * -kLog2E))
                         : exp2Of(((*this)[i] - largest) * kLog2E) / total;
  }

  /// A bias is a sum of POPLAR_BIAS_PARTS numbers.
  POPLAR_ALWAYS_INLINE float getKey(int64_t i) const {
    if (!desc->sigmoid && !bias)
      return (*this)[i];
    float added = 0;
    if (bias)
      for (int64_t part = 0; part < POPLAR_BIAS_PARTS; ++part)
        added += loadElement(bias, isBF16, part * count + i);
    return getScore(i) + added;
  }

  int64_t groupSize() const { return count / desc->groups; }

  /// The largest, of equal ones the first, of those in open groups from `begin`
  /// to `end` that come after `last` in this order; any one where there is
  /// none, as among NaNs.
  POPLAR_ALWAYS_INLINE int64_t findNext(int64_t last, int64_t begin,
                                        int64_t end) const {
    int64_t best = -1;
    float least = last < 0 ? 0.0f : getKey(last), most = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (open != ~0u && !(open >> (i / groupSize()) & 1))
        continue;
      float value = getKey(i);
      bool isAfter = last < 0 || value < least || (value == least && i > last);
      if (isAfter && (best < 0 || value > most)) {
        best = i;
        most = value;
      }
    }
    return best < 0 ? last + 1 < count ? last + 1 : 0 : best;
  }
  int64_t findNext(int64_t last) const { return findNext(last, 0, count); }

  /// Opens the groups whose two best experts have the largest sums.
  void openGroups() {
    float sums[POPLAR_MAX_EXPERT_GROUPS];
    for (int64_t g = 0; g < desc->groups; ++g) {
      int64_t begin = g * groupSize(), end = begin + groupSize(),
              best = findNext(-1, begin, end);
      sums[g] = getKey(best) + getKey(findNext(best, begin, end));
    }
    open = 0;
    for (int32_t n = 0; n < desc->top_groups; ++n) {
      int64_t best = -1;
      for (int64_t g = 0; g < desc->groups; ++g)
        if (!(open >> g & 1) && (best < 0 || sums[g] > sums[best]))
          best = g;
      open |= 1u << best;
    }
  }
};

} // namespace

extern "C" void poplar_route(const PoplarRoute *desc, void *const *args,
                             int64_t, int64_t begin, int64_t end) {
  auto *scores = static_cast<float *>(args[1]);
  auto *experts = static_cast<int32_t *>(args[2]);
  for (int64_t token = begin; token < end; ++token) {
    ExpertChoice choice(desc, args[0], desc->biased ? args[3] : nullptr, token);
    if (!desc->sigmoid)
      choice.findTotal();
    if (desc->top_groups < desc->groups)
      choice.openGroups();
    float *score = scores + token * desc->top_k;
    int32_t *expert = experts + token * desc->top_k;
    int64_t last = -1;
    float chosen = desc->sigmoid ? POPLAR_LEAST_SCORES : 0.0f;
    for (int64_t k = 0; k < desc->top_k; ++k) {
      last = choice.findNext(last);
      expert[k] = int32_t(last);
      score[k] = choice.getScore(last);
      chosen += score[k];
    }
    if (desc->normalized)
      for (int64_t k = 0; k < desc->top_k; ++k)
        score[k] /= chosen;
  }
}

/// Scores s = p / sum of the chosen p, or p, with p = sigmoid(logit): the
/// gradient of p is (ds - sum of s ds) / sum, or ds; that of the logit is
/// p (1 - p) of it, and 0 for other experts.
static void addSigmoidGradient(const ExpertChoice &choice, const float *dscores,
                               const float *scores, const int32_t *experts,
                               void *dlogits) {
  const int64_t topK = choice.desc->top_k;
  for (int64_t i = 0; i < choice.count; ++i)
    storeElement(dlogits, choice.isBF16, choice.first + i, 0.0f);
  float mean = 0, sum = 1;
  if (choice.desc->normalized) {
    sum = POPLAR_LEAST_SCORES;
    for (int64_t k = 0; k < topK; ++k) {
      mean += scores[k] * dscores[k];
      sum += choice.getScore(experts[k]);
    }
  }
  for (int64_t k = 0; k < topK; ++k) {
    float p = choice.getScore(experts[k]);
    storeElement(dlogits, choice.isBF16, choice.first + experts[k],
                 (dscores[k] - mean) / sum * p * (1 - p));
  }
}

// With p = softmax(logits), s the scores and m = sum of s ds: where these are
// normalized, they are the softmax of the chosen logits, whose gradients are
// s (ds - m); otherwise those of all are p (ds - m), with ds = 0 of others.
extern "C" void poplar_route_grad(const PoplarRoute *desc, void *const *args,
                                  int64_t, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t first = token * desc->top_k;
    const float *dscores = static_cast<const float *>(args[0]) + first;
    const float *scores = static_cast<const float *>(args[1]) + first;
    const int32_t *experts = static_cast<const int32_t *>(args[2]) + first;
    ExpertChoice logits(desc, args[3], /*bias=*/nullptr, token);
    if (desc->sigmoid) {
      addSigmoidGradient(logits, dscores, scores, experts, args[4]);
      continue;
    }
    float mean = 0;
    for (int64_t k = 0; k < desc->top_k; ++k)
      mean += scores[k] * dscores[k];
    for (int64_t i = 0; i < desc->num_experts; ++i) {
      float p =
          desc->normalized
              ? 0.0f
              : scores[0] * exp2Of((logits[i] - logits[experts[0]]) * kLog2E);
      storeElement(args[4], logits.isBF16, logits.first + i, -p * mean);
    }
    for (int64_t k = 0; k < desc->top_k; ++k)
      storeElement(args[4], logits.isBF16, logits.first + experts[k],
                   scores[k] * (dscores[k] - mean));
  }
}
