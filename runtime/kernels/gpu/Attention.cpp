//===- Attention.cpp - Attention on a GPU, never T x T --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block owns kTile rows of the result, of which each of its warps has kRows,
// and visits the rows it needs of the other operand kTile at a time: a lane has
// one of them. With rows i of the block and rows j of the lanes:
//
//   product   S[i,j] = A[i,:] . B[j,:]        through shared memory
//   update    R[i,c] += sum_j W[i,j] M[j,c]   lanes along c
//
//   forward           rows are queries: S = QK^T, O += P V
//   gradient of Q     rows are queries: dP = dO V^T, dQ += dS K
//   gradients of K, V rows are keys: S^T = KQ^T, dP^T = V dO^T, dV += P^T dO,
//                     dK += dS^T Q
//
// with dS = P (dP - D) and D[i] = dO[i] . O[i] (Dao et al., FlashAttention,
// NeurIPS 2022, algorithms 1 and 4, in base 2). Every sum has a fixed order.
// The products are done in f32, for f32 and for chips before sm_80; others take
// AttentionMMA.cpp.
//
//===----------------------------------------------------------------------===//

#include "Head.h"
#include "Poplar/Runtime/Experts.h"

using namespace poplar;

namespace {

constexpr int32_t kTile = POPLAR_GPU_ATTENTION_TILE;
constexpr int32_t kRows = 4, kWarps = kTile / kRows;
static_assert(kTile == kWarp, "a lane is a row of the other operand");
/// Columns that are in shared memory at a time. A row there starts at another
/// bank, at a multiple of 16 bytes.
constexpr int32_t kColumns = 32, kStride = kColumns + 4;

typedef float Float4 __attribute__((ext_vector_type(4)));
using SharedTile = __attribute__((address_space(3))) float[kTile * kStride];

/// Columns [column, column + kColumns) of kTile rows, 0 where there are none.
POPLAR_INLINE void loadTile(SharedTile &tile, const Matrix &m, int32_t row,
                            int32_t column) {
  for (int32_t r = threadY(); r < kTile; r += kWarps) {
    int32_t c = threadX();
    bool inside = row + r < m.rows && column + c < m.dim;
    tile[r * kStride + c] = inside ? m.at(row + r, column + c) : 0.0f;
  }
}

/// s[r] = A[rowA + this warp's r] . B[rowB + this lane].
POPLAR_INLINE void multiply(float (&s)[kRows], const Matrix &a, int32_t rowA,
                            const Matrix &b, int32_t rowB) {
  POPLAR_SHARED float tileA[kTile * kStride] __attribute__((aligned(16))),
      tileB[kTile * kStride] __attribute__((aligned(16)));
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < kRows; ++r)
    s[r] = 0;
  for (int32_t column = 0; column < a.dim; column += kColumns) {
    barrier();
    loadTile(tileA, a, rowA, column);
    loadTile(tileB, b, rowB, column);
    barrier();
    using Shared4 = const __attribute__((address_space(3))) Float4;
    // All at once, what is loaded ahead takes more registers than a thread has.
#pragma clang loop unroll_count(2)
    for (int32_t c = 0; c < kColumns; c += 4) {
      Float4 right =
          *reinterpret_cast<Shared4 *>(&tileB[threadX() * kStride + c]);
#pragma clang loop unroll(full)
      for (int32_t r = 0; r < kRows; ++r) {
        Float4 left = *reinterpret_cast<Shared4 *>(
            &tileA[(threadY() * kRows + r) * kStride + c]);
        s[r] += left.x * right.x;
        s[r] += left.y * right.y;
        s[r] += left.z * right.z;
        s[r] += left.w * right.w;
      }
    }
  }
}

/// What a warp sums up: kRows rows of `Dim` columns, which are spread over the
/// lanes.
template <int32_t Dim> struct Sums {
  static constexpr int32_t kParts = Dim / kWarp;
  float data[kRows][kParts];

  POPLAR_INLINE void clear() {
#pragma clang loop unroll(full)
    for (auto &row : data)
#pragma clang loop unroll(full)
      for (float &value : row)
        value = 0;
  }
  /// += sum over the lanes j of w[r], there, times M[row + j].
  POPLAR_INLINE void update(const float (&w)[kRows], const Matrix &m,
                            int32_t row) {
    for (int32_t j = 0; j < kTile; ++j) {
      int32_t source = min(row + j, m.rows - 1);
      float weights[kRows];
#pragma clang loop unroll(full)
      for (int32_t r = 0; r < kRows; ++r)
        weights[r] = broadcast(w[r], j);
#pragma clang loop unroll(full)
      for (int32_t part = 0; part < kParts; ++part) {
        int32_t column = part * kWarp + threadX();
        float value = column < m.dim ? m.at(source, column) : 0.0f;
#pragma clang loop unroll(full)
        for (int32_t r = 0; r < kRows; ++r)
          data[r][part] += weights[r] * value;
      }
    }
  }
  POPLAR_INLINE void scaleRow(int32_t r, float factor) {
#pragma clang loop unroll(full)
    for (float &value : data[r])
      value *= factor;
  }
  POPLAR_INLINE void storeRows(const Matrix &m, int32_t row,
                               const float (&factor)[kRows]) {
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < kRows; ++r)
#pragma clang loop unroll(full)
      for (int32_t part = 0; part < kParts; ++part) {
        int32_t column = part * kWarp + threadX();
        if (row + r < m.rows && column < m.dim)
          m.set(row + r, column, data[r][part] * factor[r]);
      }
  }
};

template <int32_t Dim>
POPLAR_INLINE void forward(const PoplarAttention *desc, void *q, void *k,
                           void *v, void *keys, void *positions, void *out,
                           void *lse) {
  int32_t tiles = (int32_t(desc->seq_len) + kTile - 1) / kTile;
  int32_t query = int32_t(blockX() % tiles) * kTile;
  Head head(desc, blockX() / tiles / desc->num_heads,
            int32_t(blockX() / tiles % desc->num_heads), keys, positions);
  int32_t row = query + threadY() * kRows;
  float high[kRows], sum[kRows];
  Sums<Dim> result;
  result.clear();
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < kRows; ++r) {
    high[r] = kMasked;
    sum[r] = 0;
  }
  for (int32_t key = head.firstKey(query, kTile);
       key < head.endKey(query, kTile); key += kTile) {
    float p[kRows];
    multiply(p, head.queries(q), query, head.keys(k), key);
    int32_t at = key + threadX();
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < kRows; ++r) {
      float score = head.sees(row + r, at) ? head.score(p[r]) : kMasked;
      float next = __builtin_fmaxf(high[r], warpMax(score));
      float rescale = exp2(high[r] - next);
      p[r] = exp2(score - next);
      sum[r] = sum[r] * rescale + warpSum(p[r]);
      p[r] *= head.dropout(row + r, at);
      high[r] = next;
      result.scaleRow(r, rescale);
    }
    result.update(p, head.values(v), key);
  }
  float inverse[kRows];
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < kRows; ++r) {
    inverse[r] = 1.0f / sum[r];
    if (threadX() == 0 && row + r < desc->seq_len)
      head.lse(lse)[row + r] = (high[r] + log2(sum[r])) * kLn2;
  }
  result.storeRows(head.outputs(out), row, inverse);
}

/// D of a row, in all lanes.
POPLAR_INLINE float multiplyRows(const Matrix &a, const Matrix &b,
                                 int32_t row) {
  float sum = 0;
  for (int32_t column = threadX(); row < a.rows && column < a.dim;
       column += kWarp)
    sum += a.at(row, column) * b.at(row, column);
  return warpSum(sum);
}

template <int32_t Dim>
POPLAR_INLINE void backwardQueries(const PoplarAttention *desc, void *dy,
                                   void *out, void *lse, void *q, void *k,
                                   void *v, void *keys, void *positions,
                                   void *deltas, void *dq) {
  int32_t tiles = (int32_t(desc->seq_len) + kTile - 1) / kTile;
  int32_t query = int32_t(blockX() % tiles) * kTile;
  Head head(desc, blockX() / tiles / desc->num_heads,
            int32_t(blockX() / tiles % desc->num_heads), keys, positions);
  int32_t row = query + threadY() * kRows;
  float delta[kRows], high[kRows], one[kRows];
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < kRows; ++r) {
    delta[r] = multiplyRows(head.outputs(dy), head.outputs(out), row + r);
    high[r] = row + r < desc->seq_len ? head.lse(lse)[row + r] * kLog2E : 0.0f;
    if (threadX() == 0 && row + r < desc->seq_len)
      head.lse(deltas)[row + r] = delta[r];
    one[r] = 1;
  }
  Sums<Dim> result;
  result.clear();
  for (int32_t key = head.firstKey(query, kTile);
       key < head.endKey(query, kTile); key += kTile) {
    float s[kRows], ds[kRows];
    multiply(s, head.queries(q), query, head.keys(k), key);
    multiply(ds, head.outputs(dy), query, head.values(v), key);
    int32_t at = key + threadX();
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < kRows; ++r) {
      float score = head.score(s[r]);
      float p = head.sees(row + r, at) ? exp2(score - high[r]) : 0.0f;
      ds[r] = p * (ds[r] * head.dropout(row + r, at) - delta[r]) *
              head.slope(score);
    }
    result.update(ds, head.keys(k), key);
  }
  result.storeRows(head.queries(dq), row, one);
}

template <int32_t Dim>
POPLAR_INLINE void backwardKeys(const PoplarAttention *desc, void *dy,
                                void *lse, void *q, void *k, void *v,
                                void *keys, void *positions, void *deltas,
                                void *dk, void *dv) {
  int32_t tiles = (int32_t(desc->seq_len) + kTile - 1) / kTile;
  int32_t key = int32_t(blockX() % tiles) * kTile;
  int64_t sample = blockX() / tiles / desc->num_kv_heads;
  int32_t group = int32_t(desc->num_heads / desc->num_kv_heads);
  int32_t first = int32_t(blockX() / tiles % desc->num_kv_heads) * group;
  int32_t row = key + threadY() * kRows;
  Sums<Dim> dKeys, dValues;
  dKeys.clear();
  dValues.clear();
  for (int32_t member = 0; member < group; ++member) {
    Head head(desc, sample, first + member, keys, positions);
    for (int32_t query = head.firstQuery(key);
         query < head.endQuery(key, kTile); query += kTile) {
      float p[kRows], ds[kRows];
      multiply(p, head.keys(k), key, head.queries(q), query);
      multiply(ds, head.values(v), key, head.outputs(dy), query);
      int32_t at = query + threadX();
      float high = at < desc->seq_len ? head.lse(lse)[at] * kLog2E : 0.0f;
      float delta = at < desc->seq_len ? head.lse(deltas)[at] : 0.0f;
#pragma clang loop unroll(full)
      for (int32_t r = 0; r < kRows; ++r) {
        float score = head.score(p[r]);
        float probability = head.sees(at, row + r) ? exp2(score - high) : 0.0f;
        float factor = head.dropout(at, row + r);
        p[r] = probability * factor;
        ds[r] = probability * (ds[r] * factor - delta) * head.slope(score);
      }
      dValues.update(p, head.outputs(dy), query);
      dKeys.update(ds, head.queries(q), query);
    }
  }
  Head head(desc, sample, first, keys, positions);
  float one[kRows] = {1, 1, 1, 1};
  dKeys.storeRows(head.keys(dk), row, one);
  dValues.storeRows(head.values(dv), row, one);
}

} // namespace

/// Calls `FUNCTION` for the least number of columns that has room for a head.
#define POPLAR_FOR_DIM(FUNCTION, ...)                                          \
  if (desc->head_dim <= 32)                                                    \
    FUNCTION<32>(__VA_ARGS__);                                                 \
  else if (desc->head_dim <= 64)                                               \
    FUNCTION<64>(__VA_ARGS__);                                                 \
  else if (desc->head_dim <= 128)                                              \
    FUNCTION<128>(__VA_ARGS__);                                                \
  else                                                                         \
    FUNCTION<POPLAR_MAX_HEAD_DIM>(__VA_ARGS__)

extern "C" void poplar_gpu_attention_forward(const PoplarAttention *desc,
                                             void *q, void *k, void *v,
                                             void *keys, void *positions,
                                             void *out, void *lse, int64_t) {
  POPLAR_FOR_DIM(forward, desc, q, k, v, keys, positions, out, lse);
}

extern "C" void poplar_gpu_attention_backward_q(const PoplarAttention *desc,
                                                void *dy, void *out, void *lse,
                                                void *q, void *k, void *v,
                                                void *keys, void *positions,
                                                void *delta, void *dq,
                                                int64_t) {
  POPLAR_FOR_DIM(backwardQueries, desc, dy, out, lse, q, k, v, keys, positions,
                 delta, dq);
}

extern "C" void poplar_gpu_attention_backward_kv(const PoplarAttention *desc,
                                                 void *dy, void *lse, void *q,
                                                 void *k, void *v, void *keys,
                                                 void *positions, void *delta,
                                                 void *dk, void *dv, int64_t) {
  POPLAR_FOR_DIM(backwardKeys, desc, dy, lse, q, k, v, keys, positions, delta,
                 dk, dv);
}

/// A warp has a row of a head.
extern "C" void poplar_gpu_attention_sinks(const PoplarAttention *desc,
                                           void *out, void *lse, void *sinks,
                                           int64_t batch) {
  int64_t row = blockX() * POPLAR_GPU_EXPERT_WARPS + threadY(),
          token = row / desc->num_heads, head = row % desc->num_heads;
  if (token >= batch * desc->seq_len)
    return;
  float *own =
      static_cast<float *>(lse) +
      (token / desc->seq_len * desc->num_heads + head) * desc->seq_len +
      token % desc->seq_len;
  // Only the lane that writes it reads it.
  float before = broadcast(threadX() == 0 ? *own : 0.0f, 0);
  float sink = loadElement(sinks, desc->type, head),
        distance = (sink - before) * kLog2E,
        power = exp2(-__builtin_fabsf(distance));
  float factor = (distance > 0 ? power : 1.0f) / (1.0f + power);
  for (int64_t c = threadX(); c < desc->head_dim; c += kWarp) {
    int64_t at = token * desc->out_stride + head * desc->head_dim + c;
    storeElement(out, desc->type, at,
                 factor * loadElement(out, desc->type, at));
  }
  if (threadX() == 0)
    *own = __builtin_fmaxf(before, sink) + log2(1.0f + power) * kLn2;
}
