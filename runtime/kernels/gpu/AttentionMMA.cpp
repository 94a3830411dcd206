//===- AttentionMMA.cpp - Attention on tensor cores, never T x T ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The algorithms of Attention.cpp for bf16 and f16 on sm_80 and newer. A block
// of four warps owns 64 rows of the result, a warp 16 of them, which stay in
// its registers; tiles of the other operands pass through shared memory, the
// next one on its way while this one is worked on:
//
//   forward           rows are queries: S = QK^T, O += P V
//   gradient of Q     rows are queries: dP = dO V^T, dQ += dS K
//   gradients of K, V rows are keys: S^T = KQ^T, dP^T = V dO^T, dV += P^T dO,
//                     dK += dS^T Q
//
// (Dao, FlashAttention-2, ICLR 2024, section 3.) What is rounded to 16 bits
// between two products is what FlashAttention rounds: P and dS. Heads begin at
// multiples of 16 bytes and have at most 128 columns.
//
//===----------------------------------------------------------------------===//

#include "Head.h"
#include "MMA.h"

using namespace poplar;

namespace {

constexpr int32_t kWarps = POPLAR_GPU_MMA_WARPS, kRows = 16;
constexpr int32_t kBlock = POPLAR_GPU_MMA_TILE;
static_assert(kBlock == kWarps * kRows, "a warp has 16 rows");
/// By how much a score may exceed, in base 2, what those of its row are
/// compared with: sums are scaled anew where it is more, which is almost never
/// after the first tile, as in FlashAttention-4.
constexpr float kSlack = 8;

/// What fits 48 KiB of shared memory and 255 registers, by columns of a head.
template <int32_t Dim> struct Shape {
  static constexpr int32_t kSteps = Dim / 16, kParts = Dim / 8;
  static constexpr int32_t kStride = Dim + 8;
  /// Keys of a tile, where rows are queries.
  static constexpr int32_t kKeys = Dim > 64 ? 32 : 64;
  /// Queries of a tile, where rows are keys, and how many of their scores are
  /// in registers at a time.
  static constexpr int32_t kQueries = 32;
  static constexpr int32_t kTogether = Dim > 64 ? 16 : 32;
};

POPLAR_INLINE const uint16_t *place(const Matrix &m, int32_t row,
                                    int32_t column) {
  return static_cast<const uint16_t *>(m.memory) + m.first + row * m.stride +
         column;
}
/// Two elements of a row, 0 where there are none.
POPLAR_INLINE uint32_t loadPair(const Matrix &m, int32_t row, int32_t column) {
  if (row >= m.rows || column >= m.dim)
    return 0;
  return *reinterpret_cast<const uint32_t *>(place(m, row, column));
}
POPLAR_INLINE float first(int32_t type, uint32_t pair) {
  uint16_t half = uint16_t(pair);
  return loadElement(&half, type, 0);
}
POPLAR_INLINE float second(int32_t type, uint32_t pair) {
  return first(type, pair >> 16);
}

/// Starts to copy `Rows` rows of a matrix, with zeros where there are none.
template <int32_t Rows, int32_t Dim>
POPLAR_INLINE void startTile(SharedHalf *tile, const Matrix &m, int32_t row) {
  // A thread copies the same eight columns of some rows, `kStep` apart.
  constexpr int32_t kChunks = Dim / 8, kStep = kWarps * kWarp / kChunks;
  static_assert(Rows % kStep == 0);
  int32_t thread = threadY() * kWarp + threadX();
  int32_t r = thread / kChunks, column = thread % kChunks * 8;
  SharedHalf *to = tile + r * Shape<Dim>::kStride + column;
  const uint16_t *from = place(m, row + r, column);
  if (row + Rows <= m.rows && m.dim == Dim) {
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < Rows; i += kStep)
      copyAsync(to + i * Shape<Dim>::kStride, from + i * m.stride, true);
    return;
  }
#pragma clang loop unroll(full)
  for (int32_t i = 0; i < Rows; i += kStep) {
    bool inside = row + r + i < m.rows && column < m.dim;
    copyAsync(to + i * Shape<Dim>::kStride,
              inside ? static_cast<const void *>(from + i * m.stride)
                     : m.memory,
              inside);
  }
}

/// 16 rows from `row` on.
template <int32_t Steps>
POPLAR_INLINE void loadLeft(LeftRegisters<Steps> &left, const Matrix &m,
                            int32_t row) {
#pragma clang loop unroll(full)
  for (int32_t step = 0; step < Steps; ++step)
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < 4; ++i)
      left.data[step][i] = loadPair(m, row + quad() + i % 2 * 8,
                                    16 * step + pairColumn() + i / 2 * 8);
}

/// Stores the 16 rows of a warp, times a factor for each of a lane's two.
template <int32_t Parts>
POPLAR_INLINE void storeRows(const Matrix &m, int32_t row,
                             const float (&sums)[Parts][4],
                             const float (&factor)[2]) {
#pragma clang loop unroll(full)
  for (int32_t part = 0; part < Parts; ++part)
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < 2; ++r) {
      int32_t own = row + quad() + 8 * r, column = 8 * part + pairColumn();
      if (own < m.rows && column < m.dim)
        *reinterpret_cast<uint32_t *>(
            const_cast<uint16_t *>(place(m, own, column))) =
            packPair(m.type, sums[part][2 * r] * factor[r],
                     sums[part][2 * r + 1] * factor[r]);
    }
}

/// D of a row, by the four lanes of a quad, which read eight columns at a time.
POPLAR_INLINE float multiplyRowsOf(const Matrix &a, const Matrix &b,
                                   int32_t row) {
  using Words = const uint32_t __attribute__((ext_vector_type(4)));
  float sum = 0;
  for (int32_t column = threadX() % 4 * 8; column < a.dim && row < a.rows;
       column += 4 * 8) {
    Words x = *reinterpret_cast<Words *>(place(a, row, column)),
          y = *reinterpret_cast<Words *>(place(b, row, column));
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < 4; ++i) {
      sum += first(a.type, x[i]) * first(b.type, y[i]);
      sum += second(a.type, x[i]) * second(b.type, y[i]);
    }
  }
  return quadSum(sum);
}

/// Whether all of `keys` keys are seen by all of `queries` queries.
POPLAR_INLINE bool seesAll(const Head &head, int32_t query, int32_t queries,
                           int32_t key, int32_t keys) {
  const PoplarAttention *desc = head.desc;
  return query + queries <= desc->seq_len && key + keys <= desc->seq_len &&
         (!desc->causal || key + keys - 1 <= query) &&
         key >= head.documentStart(query + queries - 1) &&
         (desc->window <= 0 || query + queries - 1 - key < desc->window);
}

/// Keeps the compiler from computing for all tiles what few need.
POPLAR_INLINE void stayInBranch() { asm volatile(""); }

/// Masks scores of the quad's rows of queries, which `rows` sees, and keys from
/// `key` on: by a comparison each, without branches.
template <int32_t Parts>
POPLAR_INLINE void maskKeys(float (&scores)[Parts][4],
                            const KeyRange (&rows)[2], int32_t key) {
  stayInBranch();
#pragma clang loop unroll(full)
  for (int32_t i = 0; i < Parts * 4; ++i) {
    int32_t at = key + i / 4 * 8 + pairColumn() + i % 2;
    float &score = scores[i / 4][i % 4];
    score = rows[i % 4 / 2].has(at) ? score : kMasked;
  }
}

/// The same where rows are keys, the quad's first being `key`, and columns are
/// queries from `query` on.
template <int32_t Parts>
POPLAR_INLINE void maskQueries(float (&scores)[Parts][4], const Head &head,
                               int32_t query, int32_t key) {
  stayInBranch();
#pragma clang loop unroll(full)
  for (int32_t i = 0; i < Parts * 2; ++i) {
    KeyRange seen = head.seenBy(query + i / 2 * 8 + pairColumn() + i % 2);
    float (&part)[4] = scores[i / 2];
    part[i % 2] = seen.has(key) ? part[i % 2] : kMasked;
    part[2 + i % 2] = seen.has(key + 8) ? part[2 + i % 2] : kMasked;
  }
}

/// A block whose rows are queries: those of its head, of which a warp has 16
/// from `row` on, and the keys and values that they see, `Keys` at a time:
/// while one tile of each is worked on, the next is on its way.
template <int32_t Dim, int32_t Keys> struct QueryBlock {
  /// One of keys and one of values.
  using Tiles = uint16_t[2][Keys * Shape<Dim>::kStride];
  using SharedTiles = __attribute__((address_space(3))) Tiles;

  SharedTiles *tiles;
  int32_t count;
  OwnTile own;
  /// With a mask, the last rows have the most to do.
  int32_t query;
  Head head;
  int32_t row;
  Matrix ofKeys, ofValues;
  int32_t begin, end;

  POPLAR_INLINE QueryBlock(const PoplarAttention *desc, const void *keys,
                           const void *positions, void *k, void *v,
                           int64_t batch, SharedTiles *tiles)
      : tiles(tiles), count((int32_t(desc->seq_len) + kBlock - 1) / kBlock),
        own(count, int32_t(batch * desc->num_heads)),
        query((count - 1 - own.tile) * kBlock),
        head(desc, own.head / int32_t(desc->num_heads),
             own.head % int32_t(desc->num_heads), keys, positions),
        row(query + threadY() * kRows), ofKeys(head.keys(k)),
        ofValues(head.values(v)), begin(head.firstKey(query, Keys)),
        end(head.endKey(query, kBlock)) {
    start(begin, 0);
    endCopies();
  }
  POPLAR_INLINE SharedHalf *keyTile(int32_t stage) const {
    return tiles[stage][0];
  }
  POPLAR_INLINE SharedHalf *valueTile(int32_t stage) const {
    return tiles[stage][1];
  }
  /// Waits for the tiles from `key` on, and starts to copy the next, over those
  /// that all threads are done with then.
  POPLAR_INLINE void next(int32_t key, int32_t stage) const {
    waitForCopies<0>();
    barrier();
    if (key + Keys < end) {
      start(key + Keys, stage ^ 1);
      endCopies();
    }
  }

private:
  POPLAR_INLINE void start(int32_t key, int32_t stage) const {
    startTile<Keys, Dim>(keyTile(stage), ofKeys, key);
    startTile<Keys, Dim>(valueTile(stage), ofValues, key);
  }
};

template <int32_t Dim>
POPLAR_INLINE void forward(const PoplarAttention *desc, void *q, void *k,
                           void *v, void *keys, void *positions, void *out,
                           void *lse, int64_t batch) {
  using S = Shape<Dim>;
  constexpr int32_t kKeys = S::kKeys;
  using Block = QueryBlock<Dim, kKeys>;
  POPLAR_SHARED typename Block::Tiles tiles[2] __attribute__((aligned(16)));
  int32_t type = desc->type;
  Block block(desc, keys, positions, k, v, batch, tiles);
  const Head &head = block.head;
  int32_t row = block.row;
  LeftRegisters<S::kSteps> left;
  loadLeft(left, head.queries(q), row);
  float result[S::kParts][4], high[2] = {kMasked, kMasked}, sum[2] = {0, 0};
  clear(result);
  const float factor = head.scale() * kLog2E;
  const KeyRange seen[2] = {head.seenBy(row + quad()),
                            head.seenBy(row + quad() + 8)};
  int32_t stage = 0;
  for (int32_t key = block.begin; key < block.end; key += kKeys, stage ^= 1) {
    block.next(key, stage);
    float p[kKeys / 8][4];
    clear(p);
    multiplyRows<S::kSteps, S::kStride>(type, p, left, block.keyTile(stage));
    if (!seesAll(head, row, kRows, key, kKeys))
      maskKeys(p, seen, key);
    float next[2];
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < 2; ++r) {
      // The largest score, before it is scaled.
      float top = kMasked;
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kKeys / 4; ++i)
        top = __builtin_fmaxf(top, p[i / 2][2 * r + i % 2]);
      top = quadMax(top);
      next[r] = (top - high[r]) * factor > kSlack ? top : high[r];
    }
    if (ballot(next[0] != high[0] || next[1] != high[1])) {
#pragma clang loop unroll(full)
      for (int32_t r = 0; r < 2; ++r) {
        float rescale = flushedExp2((high[r] - next[r]) * factor);
        sum[r] *= rescale;
        high[r] = next[r];
#pragma clang loop unroll(full)
        for (auto &columns : result) {
          columns[2 * r] *= rescale;
          columns[2 * r + 1] *= rescale;
        }
      }
    }
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < 2; ++r) {
      int32_t own = row + quad() + 8 * r;
      // Where no key was seen yet, the difference of what is masked is nothing.
      float shift = high[r] > kMasked ? high[r] * factor : 0.0f;
      // The sum is over this lane's columns; those of the quad are added at the
      // end.
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kKeys / 4; ++i) {
        float &score = p[i / 2][2 * r + i % 2];
        int32_t at = key + i / 2 * 8 + pairColumn() + i % 2;
        score = flushedExp2(score * factor - shift);
        sum[r] += score;
        score *= head.dropout(own, at);
      }
    }
    multiplyColumns<S::kStride>(type, result, p, block.valueTile(stage));
  }
  float inverse[2];
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < 2; ++r) {
    float total = quadSum(sum[r]);
    int32_t own = row + quad() + 8 * r;
    inverse[r] = 1.0f / total;
    if (threadX() % 4 == 0 && own < desc->seq_len)
      head.lse(lse)[own] = (high[r] * factor + log2(total)) * kLn2;
  }
  storeRows(head.outputs(out), row, result, inverse);
}

template <int32_t Dim>
POPLAR_INLINE void backwardQueries(const PoplarAttention *desc, void *dy,
                                   void *out, void *lse, void *q, void *k,
                                   void *v, void *keys, void *positions,
                                   void *deltas, void *dq, int64_t batch) {
  using S = Shape<Dim>;
  constexpr int32_t kKeys = 32;
  using Block = QueryBlock<Dim, kKeys>;
  POPLAR_SHARED typename Block::Tiles tiles[2] __attribute__((aligned(16)));
  int32_t type = desc->type;
  Block block(desc, keys, positions, k, v, batch, tiles);
  const Head &head = block.head;
  int32_t row = block.row;
  LeftRegisters<S::kSteps> left, gradient;
  loadLeft(left, head.queries(q), row);
  loadLeft(gradient, head.outputs(dy), row);
  float delta[2], high[2];
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < 2; ++r) {
    int32_t own = row + quad() + 8 * r;
    delta[r] = multiplyRowsOf(head.outputs(dy), head.outputs(out), own);
    high[r] = own < desc->seq_len ? head.lse(lse)[own] * kLog2E : 0.0f;
    if (threadX() % 4 == 0 && own < desc->seq_len)
      head.lse(deltas)[own] = delta[r];
  }
  float result[S::kParts][4];
  clear(result);
  const float factor = head.scale() * kLog2E;
  const KeyRange seen[2] = {head.seenBy(row + quad()),
                            head.seenBy(row + quad() + 8)};
  int32_t stage = 0;
  for (int32_t key = block.begin; key < block.end; key += kKeys, stage ^= 1) {
    block.next(key, stage);
    float s[kKeys / 8][4], ds[kKeys / 8][4];
    clear(s);
    clear(ds);
    multiplyRows<S::kSteps, S::kStride>(type, s, left, block.keyTile(stage));
    multiplyRows<S::kSteps, S::kStride>(type, ds, gradient,
                                        block.valueTile(stage));
    if (!seesAll(head, row, kRows, key, kKeys))
      maskKeys(s, seen, key);
#pragma clang loop unroll(full)
    for (int32_t i = 0; i < kKeys / 8 * 4; ++i) {
      int32_t r = i % 4 / 2, own = row + quad() + 8 * r;
      int32_t at = key + i / 4 * 8 + pairColumn() + i % 2;
      float &value = ds[i / 4][i % 4];
      float p = flushedExp2(s[i / 4][i % 4] * factor - high[r]);
      value = p * (value * head.dropout(own, at) - delta[r]);
    }
    multiplyColumns<S::kStride>(type, result, ds, block.keyTile(stage));
  }
  const float scales[2] = {head.scale(), head.scale()};
  storeRows(head.queries(dq), row, result, scales);
}

template <int32_t Dim>
POPLAR_INLINE void backwardKeys(const PoplarAttention *desc, void *dy,
                                void *lse, void *q, void *k, void *v,
                                void *keys, void *positions, void *delta,
                                void *dk, void *dv, int64_t batch) {
  using S = Shape<Dim>;
  constexpr int32_t kQueries = S::kQueries, kTogether = S::kTogether;
  // Queries and their gradients; the log-sum-exp in base 2 and D of each.
  POPLAR_SHARED uint16_t tiles[2][2][kQueries * S::kStride]
      __attribute__((aligned(16)));
  POPLAR_SHARED float numbers[2][2 * kQueries] __attribute__((aligned(16)));
  int32_t type = desc->type;
  int32_t count = (int32_t(desc->seq_len) + kBlock - 1) / kBlock;
  auto heads = int32_t(desc->num_kv_heads);
  OwnTile place(count, int32_t(batch) * heads);
  int32_t key = place.tile * kBlock, row = key + threadY() * kRows;
  int32_t group = int32_t(desc->num_heads) / heads;
  Head owner(desc, place.head / heads, place.head % heads * group, keys,
             positions);

  // Tiles of all heads that share the keys follow each other.
  int32_t begin = owner.firstQuery(key), end = owner.endQuery(key, kBlock);
  int32_t left = group * ((end - begin + kQueries - 1) / kQueries);
  Head ahead = owner;
  int32_t queryAhead = begin, thread = threadY() * kWarp + threadX();
  auto start = [&](int32_t stage) __attribute__((always_inline)) {
    startTile<kQueries, Dim>(tiles[stage][0], ahead.queries(q), queryAhead);
    startTile<kQueries, Dim>(tiles[stage][1], ahead.outputs(dy), queryAhead);
    endCopies();
    int32_t at = queryAhead + thread % kQueries;
    if (thread >= 2 * kQueries || at >= desc->seq_len)
      return 0.0f;
    return ahead.lse(thread < kQueries ? lse : delta)[at];
  };
  auto storeNumber = [&](int32_t stage,
                         float number) __attribute__((always_inline)) {
    if (thread < 2 * kQueries)
      numbers[stage][thread] = thread < kQueries ? number * kLog2E : number;
  };
  storeNumber(0, start(0));

  LeftRegisters<S::kSteps> ofKeys, ofValues;
  loadLeft(ofKeys, owner.keys(k), row);
  loadLeft(ofValues, owner.values(v), row);
  float dKeys[S::kParts][4], dValues[S::kParts][4];
  clear(dKeys);
  clear(dValues);
  const float factor = owner.scale() * kLog2E;
  for (int32_t stage = 0; left > 0; stage ^= 1) {
    Head head = ahead;
    int32_t query = queryAhead;
    queryAhead += kQueries;
    if (queryAhead >= end) {
      queryAhead = begin;
      ++ahead.head;
    }
    // All threads are done with the other stage, too.
    waitForCopies<0>();
    barrier();
    float number = --left > 0 ? start(stage ^ 1) : 0.0f;
#pragma clang loop unroll(full)
    for (int32_t part = 0; part < kQueries; part += kTogether) {
      const SharedHalf *queries = tiles[stage][0] + part * S::kStride,
                       *gradients = tiles[stage][1] + part * S::kStride;
      float p[kTogether / 8][4], ds[kTogether / 8][4];
      clear(p);
      clear(ds);
      multiplyRows<S::kSteps, S::kStride>(type, p, ofKeys, queries);
      multiplyRows<S::kSteps, S::kStride>(type, ds, ofValues, gradients);
      if (!seesAll(head, query + part, kTogether, row, kRows))
        maskQueries(p, head, query + part, row + quad());
#pragma clang loop unroll(full)
      for (int32_t i = 0; i < kTogether / 8 * 4; ++i) {
        int32_t at = part + i / 4 * 8 + pairColumn() + i % 2;
        int32_t ownKey = row + quad() + i % 4 / 2 * 8;
        float &score = p[i / 4][i % 4], &value = ds[i / 4][i % 4];
        float probability = flushedExp2(score * factor - numbers[stage][at]);
        float kept = head.dropout(query + at, ownKey);
        score = probability * kept;
        value = probability * (value * kept - numbers[stage][kQueries + at]);
      }
      multiplyColumns<S::kStride>(type, dValues, p, gradients);
      multiplyColumns<S::kStride>(type, dKeys, ds, queries);
    }
    storeNumber(stage ^ 1, number);
  }
  const float scales[2] = {owner.scale(), owner.scale()}, one[2] = {1, 1};
  storeRows(owner.keys(dk), row, dKeys, scales);
  storeRows(owner.values(dv), row, dValues, one);
}

} // namespace

/// Calls `FUNCTION` for the least number of columns that has room for a head.
#define POPLAR_FOR_DIM(FUNCTION, ...)                                          \
  if (desc->head_dim <= 32)                                                    \
    FUNCTION<32>(__VA_ARGS__);                                                 \
  else if (desc->head_dim <= 64)                                               \
    FUNCTION<64>(__VA_ARGS__);                                                 \
  else                                                                         \
    FUNCTION<POPLAR_GPU_MMA_HEAD_DIM>(__VA_ARGS__)

extern "C" void poplar_gpu_attention_mma_forward(const PoplarAttention *desc,
                                                 void *q, void *k, void *v,
                                                 void *keys, void *positions,
                                                 void *out, void *lse,
                                                 int64_t batch) {
  POPLAR_FOR_DIM(forward, desc, q, k, v, keys, positions, out, lse, batch);
}

extern "C" void
poplar_gpu_attention_mma_backward_q(const PoplarAttention *desc, void *dy,
                                    void *out, void *lse, void *q, void *k,
                                    void *v, void *keys, void *positions,
                                    void *delta, void *dq, int64_t batch) {
  POPLAR_FOR_DIM(backwardQueries, desc, dy, out, lse, q, k, v, keys, positions,
                 delta, dq, batch);
}

extern "C" void
poplar_gpu_attention_mma_backward_kv(const PoplarAttention *desc, void *dy,
                                     void *lse, void *q, void *k, void *v,
                                     void *keys, void *positions, void *delta,
                                     void *dk, void *dv, int64_t batch) {
  POPLAR_FOR_DIM(backwardKeys, desc, dy, lse, q, k, v, keys, positions, delta,
                 dk, dv, batch);
}
