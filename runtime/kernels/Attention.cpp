//===- Attention.cpp - Attention in blocks, never T x T -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores are held transposed, S^T[key][query], with queries in the lanes: the
// softmax over keys then needs no horizontal operation, and in every product
// one operand is read in its own layout by broadcasts and the other is a tile
// whose lanes are contiguous. With j keys, i queries and c columns of a head:
//
//   forward   S^T[j,i] = K[j,c] Q^T[c,i]     O^T[c,i] += V[j,c] P^T[j,i]
//   backward  dP^T[j,i] = V[j,c] dO^T[c,i]   dS^T = P^T (dP^T - D)
//             dV[j,c] += P^T[j,i] dO[i,c]    dK[j,c] += dS^T[j,i] Q[i,c]
//             dQ[i,c] += dS^T[j,i] K[j,c]
//
// where D[i] is dO[i] . O[i]. Everything is inlined into the two entry points,
// so that a constant descriptor makes every bound, stride and branch constant.
// Stack tiles have room for POPLAR_MAX_HEAD_DIM columns, but only what the
// head dimension needs is touched.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/ABI.h"
#include "Poplar/Runtime/Dropout.h"
#include "Scores.h"

using namespace poplar;

namespace {

constexpr int64_t kBlock = POPLAR_ATTENTION_BLOCK;
constexpr int64_t kVectors = kBlock / kLanes;
/// Rows of a register tile: eight sums in flight cover the latency of an FMA.
constexpr int64_t kRows = 8;
constexpr float kLn2 = 0.69314718f;

/// A block of rows of a head, or its transpose.
struct alignas(64) Tile {
  float data[kBlock * POPLAR_MAX_HEAD_DIM];
};
struct alignas(64) Scores {
  float data[kBlock * kBlock];
};
struct alignas(64) PerQuery {
  float data[kBlock];
};
/// Positions of a block of queries in their documents.
struct alignas(64) Positions {
  int32_t data[kBlock];
};

/// C[m,n] (+)= sum_k A[m,k] B[k,n]: A by its strides, lanes along n.
POPLAR_INLINE void multiply(float *c, int64_t cStride, const float *a,
                            int64_t aRow, int64_t aColumn, const float *b,
                            int64_t bStride, int64_t m, int64_t n, int64_t k,
                            bool accumulate) {
  for (int64_t column = 0; column < n; column += kLanes)
    for (int64_t row = 0; row < m; row += kRows) {
      float *target = c + row * cStride + column;
      Floats sums[kRows];
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r)
        sums[r] = accumulate ? load(target + r * cStride) : Floats{};
      const float *left = a + row * aRow, *right = b + column;
      for (int64_t i = 0; i < k; ++i) {
        Floats values = load(right + i * bStride);
#pragma GCC unroll 8
        for (int64_t r = 0; r < kRows; ++r)
          sums[r] += values * left[r * aRow + i * aColumn];
      }
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r)
        store(target + r * cStride, sums[r]);
    }
}

/// Values that do not depend on the block.
struct Head {
  const PoplarAttention *desc;
  /// Columns of a tile: the head dimension, and it filled up with zeros.
  int64_t dim, width;
  int64_t head;
  bool isBF16;
  uint64_t key;
  /// Positions of the sample's tokens; read only where documents share samples.
  const int32_t *positions;
};

POPLAR_INLINE Head makeHead(const PoplarAttention *desc, int64_t head,
                            const int32_t *keys, const int32_t *positions,
                            int64_t sample) {
  uint64_t key = 0;
  if (desc->dropout > 0)
    key = uint64_t(uint32_t(keys[2 * sample + 1])) << 32 |
          uint32_t(keys[2 * sample]);
  int64_t width = (desc->head_dim + kLanes - 1) / kLanes * kLanes;
  return {desc,
          desc->head_dim,
          width,
          head,
          desc->type == POPLAR_BF16,
          key,
          desc->documents ? positions + sample * desc->seq_len : nullptr};
}

/// Reads rows of a head into a tile, zero beyond `rows` and the head's columns.
POPLAR_INLINE void pack(const Head &head, const void *source, int64_t first,
                        int64_t stride, int64_t rows, float *tile) {
  for (int64_t r = 0; r < kBlock; ++r)
    for (int64_t c = 0; c < head.width; c += kLanes) {
      float *target = tile + r * head.width + c;
      int64_t at = first + r * stride + c;
      if (r >= rows) {
        store(target, Floats{});
      } else if (c + kLanes <= head.dim) {
        store(target, loadElements(source, head.isBF16, at));
      } else {
        for (int64_t i = 0; i < kLanes; ++i)
          target[i] = c + i < head.dim
                          ? loadElement(source, head.isBF16, at + i)
                          : 0.0f;
      }
    }
}

/// transposed[c][i] = tile[i][c] * factor.
POPLAR_INLINE void transpose(const Head &head, const float *tile, float factor,
                             float *transposed) {
  for (int64_t c = 0; c < head.width; ++c)
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      Floats column;
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kLanes; ++lane)
        column[lane] = tile[(i + lane) * head.width + c];
      store(transposed + c * kBlock + i, column * factor);
    }
}

/// Writes the rows of a tile, or adds them.
POPLAR_INLINE void unpack(const Head &head, const float *tile, void *target,
                          int64_t first, int64_t stride, int64_t rows,
                          bool add) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < head.dim; ++c) {
      int64_t at = first + r * stride + c;
      float value = tile[r * head.width + c];
      if (add)
        value += loadElement(target, head.isBF16, at);
      storeElement(target, head.isBF16, at, value);
    }
}

/// The begin of the document of a query: 0, unless documents share samples.
POPLAR_INLINE int64_t documentStart(const Head &head, int64_t query) {
  return head.desc->documents ? query - head.positions[query] : 0;
}

/// Those of a block of queries, 0 beyond the last one.
POPLAR_INLINE void loadPositions(const Head &head, int64_t query,
                                 Positions &positions) {
  if (head.desc->documents)
    for (int64_t i = 0; i < kBlock; ++i)
      positions.data[i] =
          query + i < head.desc->seq_len ? head.positions[query + i] : 0;
}

/// True if a block has a pair that is masked.
POPLAR_INLINE bool hasMask(const Head &head, int64_t query, int64_t key) {
  const PoplarAttention *desc = head.desc;
  if (key + kBlock > desc->seq_len ||
      key < documentStart(head, min(query + kBlock, desc->seq_len) - 1))
    return true;
  if (desc->causal && key + kBlock - 1 > query)
    return true;
  return desc->window > 0 && query + kBlock - 1 - key >= desc->window;
}

/// Range of key blocks that a block of queries reads. Its first query begins no
/// later than the others, with its document as with its window.
POPLAR_INLINE int64_t firstKey(const Head &head, int64_t query) {
  int64_t first = documentStart(head, query);
  if (head.desc->window > 0)
    first = max(first, query - head.desc->window + 1);
  return first / kBlock * kBlock;
}
POPLAR_INLINE int64_t endKey(const PoplarAttention *desc, int64_t query) {
  return desc->causal ? min(desc->seq_len, query + kBlock) : desc->seq_len;
}

/// Which of queries `query`.. may read `key`.
POPLAR_INLINE Ints visible(const PoplarAttention *desc, int64_t query,
                           int64_t key, const int32_t *positions) {
  Ints distance = laneNumbers() + int32_t(query - key);
  Ints result = Ints{} - int32_t(key < desc->seq_len);
  if (desc->causal)
    result &= distance >= 0;
  if (desc->window > 0)
    result &= distance < int32_t(desc->window);
  if (desc->documents)
    result &= distance <= *reinterpret_cast<const Ints *>(positions);
  return result;
}

/// 1 / (1 - p) where the probability of (query.., key) is kept, else 0; drawn
/// as nn.dropout draws.
POPLAR_INLINE Floats dropoutFactor(const Head &head, int64_t query,
                                   int64_t key) {
  const PoplarAttention *desc = head.desc;
  uint64_t element =
      uint64_t((desc->first_head + head.head) * desc->seq_len + query) *
          desc->seq_len +
      key;
  uint64_t counter = getFirstDraw(desc->op_id) + element;
  Longs z = __builtin_convertvector(laneNumbers(), Longs) *
                (kGoldenGamma * uint64_t(desc->seq_len)) +
            (head.key + kGoldenGamma * counter);
  Ints bits = __builtin_convertvector(mixBits(z) >> 40, Ints);
  int32_t threshold = getDropoutThreshold(desc->dropout);
  return select(bits >= threshold, splat(float(1.0 / (1.0 - desc->dropout))),
                Floats{});
}

/// The derivative of a capped score by the score; 0 for a masked pair.
POPLAR_INLINE Floats slopeOfCap(const PoplarAttention *desc, Floats capped) {
  Floats tanh = poplar::max(capped * (1.0f / capInBase2(desc)), splat(-1.0f));
  return 1.0f - tanh * tanh;
}

/// Scores in base 2 of one block, masked.
POPLAR_INLINE void computeScores(const Head &head, const float *keys,
                                 const float *queriesT,
                                 const Positions &positions, int64_t query,
                                 int64_t key, float *scores) {
  multiply(scores, kBlock, keys, head.width, 1, queriesT, kBlock, kBlock,
           kBlock, head.dim, false);
  if (head.desc->cap > 0)
    for (int64_t at = 0; at < kBlock * kBlock; at += kLanes)
      store(scores + at, capScores(head.desc, load(scores + at)));
  if (!hasMask(head, query, key))
    return;
  for (int64_t j = 0; j < kBlock; ++j)
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      float *at = scores + j * kBlock + i;
      store(at,
            select(visible(head.desc, query + i, key + j, positions.data + i),
                   load(at), splat(kMasked)));
    }
}

} // namespace

extern "C" void poplar_attention_forward(const PoplarAttention *desc,
                                         void *const *args, int64_t,
                                         int64_t begin, int64_t end) {
  const int64_t length = desc->seq_len, heads = desc->num_heads;
  const int64_t blocks = (length + kBlock - 1) / kBlock;
  float *lse = static_cast<float *>(args[6]);
  Tile rows, queriesT, keys, values, outT;
  Scores scores;
  Positions positions;
  for (int64_t task = begin; task < end; ++task) {
    int64_t query = task % blocks * kBlock, h = task / blocks % heads,
            sample = task / blocks / heads;
    int64_t kvHead = h / (heads / desc->num_kv_heads);
    Head head = makeHead(desc, h, static_cast<const int32_t *>(args[3]),
                         static_cast<const int32_t *>(args[4]), sample);
    int64_t valid = min(kBlock, length - query);
    loadPositions(head, query, positions);
    pack(head, args[0],
         (sample * length + query) * desc->q_stride + desc->q_offset +
             h * head.dim,
         desc->q_stride, valid, rows.data);
    transpose(head, rows.data, float(desc->scale) * kLog2E, queriesT.data);

    Floats maxima[kVectors], sums[kVectors];
    for (int64_t i = 0; i < kVectors; ++i) {
      maxima[i] = splat(kMasked);
      sums[i] = Floats{};
    }
    for (int64_t i = 0; i < head.width * kBlock; i += kLanes)
      store(outT.data + i, Floats{});

    for (int64_t key = firstKey(head, query); key < endKey(desc, query);
         key += kBlock) {
      int64_t row = sample * length + key, keyRows = min(kBlock, length - key);
      pack(head, args[1],
           row * desc->k_stride + desc->k_offset + kvHead * head.dim,
           desc->k_stride, keyRows, keys.data);
      pack(head, args[2],
           row * desc->v_stride + desc->v_offset + kvHead * head.dim,
           desc->v_stride, keyRows, values.data);
      computeScores(head, keys.data, queriesT.data, positions, query, key,
                    scores.data);
      for (int64_t i = 0; i < kVectors; ++i) {
        float *column = scores.data + i * kLanes;
        Floats high = maxima[i];
        for (int64_t j = 0; j < kBlock; ++j)
          high = poplar::max(high, load(column + j * kBlock));
        Floats rescale = exp2(maxima[i] - high), sum = sums[i] * rescale;
        for (int64_t j = 0; j < kBlock; ++j) {
          Floats p = exp2(load(column + j * kBlock) - high);
          sum += p;
          if (desc->dropout > 0)
            p *= dropoutFactor(head, query + i * kLanes, key + j);
          store(column + j * kBlock, p);
        }
        maxima[i] = high;
        sums[i] = sum;
        for (int64_t c = 0; c < head.width; ++c) {
          float *at = outT.data + c * kBlock + i * kLanes;
          store(at, load(at) * rescale);
        }
      }
      multiply(outT.data, kBlock, values.data, 1, head.width, scores.data,
               kBlock, head.width, kBlock, kBlock, true);
    }

    for (int64_t i = 0; i < valid; ++i) {
      float sum = sums[i / kLanes][i % kLanes];
      lse[(sample * heads + h) * length + query + i] =
          maxima[i / kLanes][i % kLanes] * kLn2 + __builtin_logf(sum);
      float inverse = 1.0f / sum;
      for (int64_t c = 0; c < head.width; ++c)
        rows.data[i * head.width + c] = outT.data[c * kBlock + i] * inverse;
    }
    unpack(head, rows.data, args[5],
           (sample * length + query) * desc->out_stride + h * head.dim,
           desc->out_stride, valid, false);
  }
}

/// With the sum s of the exponentials of a row and t that of its sink, out
/// becomes out s / (s + t), and lse log(s + t).
extern "C" void poplar_attention_sinks(const PoplarAttention *desc,
                                       void *const *args, int64_t,
                                       int64_t begin, int64_t end) {
  const bool isBF16 = desc->type == POPLAR_BF16;
  const int64_t dim = desc->head_dim;
  for (int64_t token = begin; token < end; ++token)
    for (int64_t h = 0; h < desc->num_heads; ++h) {
      int64_t sample = token / desc->seq_len;
      float *lse = static_cast<float *>(args[1]) +
                   (sample * desc->num_heads + h) * desc->seq_len +
                   token % desc->seq_len;
      // Exponentials of numbers that are not above 0.
      float sink = loadElement(args[2], isBF16, h),
            distance = (sink - *lse) * kLog2E,
            power = exp2(splat(distance > 0 ? -distance : distance))[0];
      float factor = (distance > 0 ? power : 1.0f) / (1.0f + power);
      *lse = (distance > 0 ? sink : *lse) + __builtin_logf(1.0f + power);
      for (int64_t c = 0; c < dim; ++c) {
        int64_t at = token * desc->out_stride + h * dim + c;
        storeElement(args[0], isBF16, at,
                     factor * loadElement(args[0], isBF16, at));
      }
    }
}

namespace {

/// A block of queries with what its backward pass needs.
struct QueryBlock {
  Tile queries, queriesT, dOut, dOutT;
  PerQuery lse, delta;
  Positions positions;
};
struct KeyBlock {
  Tile keys, values;
};

POPLAR_INLINE void loadQueries(const Head &head, void *const *args,
                               int64_t sample, int64_t query,
                               QueryBlock &block) {
  const PoplarAttention *desc = head.desc;
  int64_t row = sample * desc->seq_len + query;
  int64_t valid = min(kBlock, desc->seq_len - query);
  int64_t outAt = row * desc->out_stride + head.head * head.dim;
  // The outputs only pass through the transposed tile to their products.
  pack(head, args[0], outAt, desc->out_stride, valid, block.dOut.data);
  pack(head, args[1], outAt, desc->out_stride, valid, block.queriesT.data);
  loadPositions(head, query, block.positions);
  const float *lse = static_cast<const float *>(args[2]) +
                     (sample * desc->num_heads + head.head) * desc->seq_len +
                     query;
  for (int64_t i = 0; i < kBlock; ++i) {
    Floats sum{};
    for (int64_t c = 0; c < head.width; c += kLanes)
      sum += load(block.dOut.data + i * head.width + c) *
             load(block.queriesT.data + i * head.width + c);
    float delta = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      delta += sum[lane];
    block.delta.data[i] = delta;
    block.lse.data[i] = i < valid ? lse[i] * kLog2E : 0.0f;
  }
  pack(head, args[3],
       row * desc->q_stride + desc->q_offset + head.head * head.dim,
       desc->q_stride, valid, block.queries.data);
  transpose(head, block.queries.data, float(desc->scale) * kLog2E,
            block.queriesT.data);
  transpose(head, block.dOut.data, 1.0f, block.dOutT.data);
}

POPLAR_INLINE void loadKeys(const Head &head, void *const *args, int64_t sample,
                            int64_t kvHead, int64_t key, KeyBlock &block) {
  const PoplarAttention *desc = head.desc;
  int64_t row = sample * desc->seq_len + key;
  int64_t valid = min(kBlock, desc->seq_len - key);
  pack(head, args[4], row * desc->k_stride + desc->k_offset + kvHead * head.dim,
       desc->k_stride, valid, block.keys.data);
  pack(head, args[5], row * desc->v_stride + desc->v_offset + kvHead * head.dim,
       desc->v_stride, valid, block.values.data);
}

/// P^T (with dropout) and dS^T (with the scale) of one block.
POPLAR_INLINE void differentiateScores(const Head &head,
                                       const QueryBlock &queries,
                                       const KeyBlock &keys, int64_t query,
                                       int64_t key, float *p, float *ds) {
  const PoplarAttention *desc = head.desc;
  computeScores(head, keys.keys.data, queries.queriesT.data, queries.positions,
                query, key, p);
  multiply(ds, kBlock, keys.values.data, head.width, 1, queries.dOutT.data,
           kBlock, kBlock, kBlock, head.dim, false);
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    Floats lse = load(queries.lse.data + i),
           delta = load(queries.delta.data + i);
    for (int64_t j = 0; j < kBlock; ++j) {
      int64_t at = j * kBlock + i;
      Floats probability = exp2(load(p + at) - lse), dp = load(ds + at);
      Floats kept = probability;
      if (desc->dropout > 0) {
        Floats factor = dropoutFactor(head, query + i, key + j);
        kept *= factor;
        dp *= factor;
      }
      Floats slope = probability * (dp - delta) * float(desc->scale);
      if (desc->cap > 0)
        slope *= slopeOfCap(desc, load(p + at));
      store(p + at, kept);
      store(ds + at, slope);
    }
  }
}

POPLAR_INLINE void clear(const Head &head, Tile &tile) {
  for (int64_t i = 0; i < kBlock * head.width; i += kLanes)
    store(tile.data + i, Floats{});
}

} // namespace

extern "C" void poplar_attention_backward(const PoplarAttention *desc,
                                          void *const *args, int64_t,
                                          int64_t begin, int64_t end) {
  const int64_t length = desc->seq_len, kvHeads = desc->num_kv_heads;
  const int64_t group = desc->num_heads / kvHeads;
  QueryBlock queries;
  KeyBlock keys;
  Tile dQueries, dKeys, dValues;
  Scores p, ds;
  // One pass over the pairs of blocks adds to dK and dV in memory, which needs
  // them in f32. In bf16 a second pass, by keys, sums them up on the stack.
  const bool isBF16 = desc->type == POPLAR_BF16;
  for (int64_t task = begin; task < end; ++task) {
    int64_t sample = task / kvHeads, kvHead = task % kvHeads;
    const int32_t *randomKeys = static_cast<const int32_t *>(args[6]);
    const int32_t *positions = static_cast<const int32_t *>(args[7]);
    auto storeKeys = [&](const Head &head, int64_t key,
                         bool add) __attribute__((always_inline)) {
      int64_t row = sample * length + key, valid = min(kBlock, length - key);
      unpack(head, dKeys.data, args[9],
             row * desc->k_stride + desc->k_offset + kvHead * head.dim,
             desc->k_stride, valid, add);
      unpack(head, dValues.data, args[10],
             row * desc->v_stride + desc->v_offset + kvHead * head.dim,
             desc->v_stride, valid, add);
    };
    auto addKeys = [&](const Head &head,
                       bool accumulate) __attribute__((always_inline)) {
      multiply(dValues.data, head.width, p.data, kBlock, 1, queries.dOut.data,
               head.width, kBlock, head.width, kBlock, accumulate);
      multiply(dKeys.data, head.width, ds.data, kBlock, 1, queries.queries.data,
               head.width, kBlock, head.width, kBlock, accumulate);
    };

    Head first = makeHead(desc, kvHead * group, randomKeys, positions, sample);
    if (!isBF16) {
      clear(first, dKeys);
      clear(first, dValues);
      for (int64_t key = 0; key < length; key += kBlock)
        storeKeys(first, key, false);
    }
    for (int64_t member = 0; member < group; ++member) {
      Head head = makeHead(desc, kvHead * group + member, randomKeys, positions,
                           sample);
      for (int64_t query = 0; query < length; query += kBlock) {
        loadQueries(head, args, sample, query, queries);
        clear(head, dQueries);
        for (int64_t key = firstKey(head, query); key < endKey(desc, query);
             key += kBlock) {
          loadKeys(head, args, sample, kvHead, key, keys);
          differentiateScores(head, queries, keys, query, key, p.data, ds.data);
          multiply(dQueries.data, head.width, ds.data, 1, kBlock,
                   keys.keys.data, head.width, kBlock, head.width, kBlock,
                   true);
          if (!isBF16) {
            addKeys(head, false);
            storeKeys(head, key, true);
          }
        }
        unpack(head, dQueries.data, args[8],
               (sample * length + query) * desc->q_stride + desc->q_offset +
                   head.head * head.dim,
               desc->q_stride, min(kBlock, length - query), false);
      }
    }
    if (!isBF16)
      continue;
    for (int64_t key = 0; key < length; key += kBlock) {
      loadKeys(first, args, sample, kvHead, key, keys);
      clear(first, dKeys);
      clear(first, dValues);
      for (int64_t member = 0; member < group; ++member) {
        Head head = makeHead(desc, kvHead * group + member, randomKeys,
                             positions, sample);
        for (int64_t query = 0; query < length; query += kBlock) {
          if (key < firstKey(head, query) || key >= endKey(desc, query))
            continue;
          loadQueries(head, args, sample, query, queries);
          differentiateScores(head, queries, keys, query, key, p.data, ds.data);
          addKeys(head, true);
        }
      }
      storeKeys(first, key, false);
    }
  }
}
