//===- Recurrent.cpp - Linear attention on a GPU --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GatedDelta.cpp of the CPUs' kernels has the formulas. A block has a value
// head of a sample. A warp owns `Columns` columns of its state, and a lane has
// rows lane, lane + 32, ... of these in registers, `Rows` of them. Sums over
// rows are then of lanes, and no warp waits for another in the forward pass. In
// the backward pass, gradients of queries and keys are sums over columns, which
// warps add up in shared memory. Every sum has a fixed order.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/Recurrent.h"
#include "../Gates.h"
#include "GPU.h"

using namespace poplar;

namespace {

constexpr int32_t kWarps = POPLAR_GPU_DELTA_WARPS;
constexpr int32_t kDim = POPLAR_MAX_DELTA_DIM;

POPLAR_INLINE float expOf(float x) { return exp2(x * 1.44269504f); }

//===----------------------------------------------------------------------===//
// Sums over lanes
//===----------------------------------------------------------------------===//

/// Halves how many columns a lane has, of which it keeps those that its bit
/// `Bit` says.
template <int32_t Half, int32_t Bit, int32_t Columns>
POPLAR_INLINE void fold(float (&values)[Columns]) {
  if constexpr (Half > 0) {
    bool upper = threadX() & Bit;
#pragma clang loop unroll(full)
    for (int32_t c = 0; c < Half; ++c) {
      float kept = upper ? values[c + Half] : values[c],
            sent = upper ? values[c] : values[c + Half];
      values[c] = kept + shuffleXor(sent, Bit);
    }
    fold<Half / 2, Bit * 2>(values);
  }
}

/// The lane that has the sum of a column: its bits in the opposite order.
template <int32_t Columns> POPLAR_INLINE int32_t reverseBits(int32_t number) {
  int32_t reversed = 0;
#pragma clang loop unroll(full)
  for (int32_t bit = 1; bit < Columns; bit *= 2)
    reversed = reversed * 2 + ((number & bit) ? 1 : 0);
  return reversed;
}

/// The sum over all lanes of one column, that of reverseBits(lane % Columns).
template <int32_t Columns>
POPLAR_INLINE float sumLanes(float (&values)[Columns]) {
  fold<Columns / 2, 1>(values);
  float sum = values[0];
#pragma clang loop unroll(full)
  for (int32_t bit = Columns; bit < kWarp; bit *= 2)
    sum += shuffleXor(sum, bit);
  return sum;
}

/// The same of all columns, in every lane.
template <int32_t Columns>
POPLAR_INLINE void sumToAll(float (&values)[Columns]) {
  float sum = sumLanes(values);
#pragma clang loop unroll(full)
  for (int32_t c = 0; c < Columns; ++c)
    values[c] = broadcast(sum, reverseBits<Columns>(c));
}

//===----------------------------------------------------------------------===//
// Heads, tokens and states
//===----------------------------------------------------------------------===//

/// What a block reads of the tokens of a sample.
struct DeltaHead {
  const PoplarGatedDelta *desc;
  const void *x, *a, *b;
  const int32_t *positions;
  int64_t sample;
  int32_t head, type;
  float aLog, dtBias;

  POPLAR_INLINE DeltaHead(const PoplarGatedDelta *desc, const void *x,
                          const void *a, const void *b, const void *logs,
                          const void *biases, const void *positions)
      : desc(desc), x(x), a(a), b(b), sample(blockX() / desc->value_heads),
        head(int32_t(blockX() % desc->value_heads)), type(desc->type),
        aLog(loadElement(logs, desc->type, head)),
        dtBias(loadElement(biases, desc->type, head)) {
    this->positions =
        desc->tokens == POPLAR_ONE_DOCUMENT
            ? nullptr
            : static_cast<const int32_t *>(positions) + sample * desc->seq_len;
  }
  POPLAR_INLINE bool begins(int64_t token) const {
    return positions ? positions[token] == 0 : token == 0;
  }
  POPLAR_INLINE int64_t row(int64_t token) const {
    return sample * desc->seq_len + token;
  }
  POPLAR_INLINE int64_t keyColumns() const {
    return desc->key_heads * desc->key_dim;
  }
  POPLAR_INLINE int64_t valueColumns() const {
    return desc->value_heads * desc->value_dim;
  }
  POPLAR_INLINE int64_t values(int64_t token) const {
    return row(token) * (2 * keyColumns() + valueColumns()) + 2 * keyColumns() +
           head * desc->value_dim;
  }
  POPLAR_INLINE int64_t keys(int64_t token, bool isKey) const {
    int64_t keyHead = head / (desc->value_heads / desc->key_heads);
    return row(token) * (2 * keyColumns() + valueColumns()) +
           (isKey ? keyColumns() : 0) + keyHead * desc->key_dim;
  }
  POPLAR_INLINE int64_t results(int64_t token) const {
    return row(token) * valueColumns() + head * desc->value_dim;
  }
  POPLAR_INLINE int64_t gates(int64_t token) const {
    return row(token) * desc->value_heads + head;
  }
};

template <int32_t Rows, int32_t Columns> struct DeltaToken {
  float q[Rows], k[Rows], v[Columns];
  Gates gates;

  POPLAR_INLINE DeltaToken(const DeltaHead &head, int64_t token) {
    int32_t dim = int32_t(head.desc->key_dim),
            values = int32_t(head.desc->value_dim);
    loadUnit(head, head.keys(token, false), 1.0f / __builtin_sqrtf(float(dim)),
             q);
    loadUnit(head, head.keys(token, true), 1.0f, k);
#pragma clang loop unroll(full)
    for (int32_t c = 0; c < Columns; ++c) {
      int32_t column = threadY() * Columns + c;
      v[c] = column < values
                 ? loadElement(head.x, head.type, head.values(token) + column)
                 : 0.0f;
    }
    int64_t at = head.gates(token);
    gates = makeGates(loadElement(head.a, head.type, at),
                      loadElement(head.b, head.type, at), head.aLog,
                      head.dtBias, expOf);
  }

private:
  /// A row of length 1, times a factor.
  POPLAR_INLINE static void loadUnit(const DeltaHead &head, int64_t at,
                                     float factor, float (&out)[Rows]) {
    int32_t dim = int32_t(head.desc->key_dim);
    float squares = 0;
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < Rows; ++r) {
      int32_t i = r * kWarp + threadX();
      out[r] = i < dim ? loadElement(head.x, head.type, at + i) : 0.0f;
      squares += out[r] * out[r];
    }
    float scale = factor / __builtin_sqrtf(warpSum(squares) + kNormEps);
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < Rows; ++r)
      out[r] *= scale;
  }
};

template <int32_t Rows, int32_t Columns> struct DeltaState {
  float data[Rows][Columns];

  POPLAR_INLINE void clear() {
#pragma clang loop unroll(full)
    for (auto &row : data)
#pragma clang loop unroll(full)
      for (float &value : row)
        value = 0;
  }
  /// Element (i, column) of memory is at i * rowStride + column * columnStride.
  POPLAR_INLINE void load(const DeltaHead &head, const float *memory,
                          int64_t rowStride, int64_t columnStride) {
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < Rows; ++r)
#pragma clang loop unroll(full)
      for (int32_t c = 0; c < Columns; ++c) {
        int32_t i = r * kWarp + threadX(), column = threadY() * Columns + c;
        data[r][c] = i < head.desc->key_dim && column < head.desc->value_dim
                         ? memory[i * rowStride + column * columnStride]
                         : 0.0f;
      }
  }
  POPLAR_INLINE void store(const DeltaHead &head, float *memory,
                           int64_t rowStride, int64_t columnStride) const {
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < Rows; ++r)
#pragma clang loop unroll(full)
      for (int32_t c = 0; c < Columns; ++c) {
        int32_t i = r * kWarp + threadX(), column = threadY() * Columns + c;
        if (i < head.desc->key_dim && column < head.desc->value_dim)
          memory[i * rowStride + column * columnStride] = data[r][c];
      }
  }
  /// In scratch, lanes lie next to each other.
  POPLAR_INLINE void loadScratch(const DeltaHead &head, const float *memory) {
    load(head, memory, 1, head.desc->key_dim);
  }
  POPLAR_INLINE void storeScratch(const DeltaHead &head, float *memory) const {
    store(head, memory, 1, head.desc->key_dim);
  }

  /// One token forward; `partial` is this lane's part of S^T q.
  POPLAR_INLINE void advance(const DeltaToken<Rows, Columns> &token,
                             float (&partial)[Columns]) {
    float delta[Columns];
#pragma clang loop unroll(full)
    for (int32_t c = 0; c < Columns; ++c) {
      delta[c] = partial[c] = 0;
#pragma clang loop unroll(full)
      for (int32_t r = 0; r < Rows; ++r)
        delta[c] += data[r][c] * token.k[r];
    }
    sumToAll(delta);
#pragma clang loop unroll(full)
    for (int32_t c = 0; c < Columns; ++c) {
      delta[c] = (token.v[c] - delta[c] * token.gates.alpha) * token.gates.beta;
#pragma clang loop unroll(full)
      for (int32_t r = 0; r < Rows; ++r) {
        data[r][c] = data[r][c] * token.gates.alpha + delta[c] * token.k[r];
        partial[c] += data[r][c] * token.q[r];
      }
    }
  }
};

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

template <int32_t Rows, int32_t Columns>
POPLAR_INLINE void forward(const DeltaHead &head, float *kept, void *result) {
  const PoplarGatedDelta *desc = head.desc;
  const bool isCached = desc->tokens == POPLAR_NEW_TOKENS;
  const int64_t values = desc->value_dim;
  DeltaState<Rows, Columns> state;
  state.clear();
  if (isCached) {
    kept += blockX() * desc->key_dim * values;
    if (!head.begins(0))
      state.load(head, kept, values, 1);
  }
  float sum = 0;
  int32_t column =
      threadY() * Columns + reverseBits<Columns>(threadX() % Columns);
  for (int64_t t = 0; t < desc->seq_len; ++t) {
    if (!(isCached && t && head.positions[t] == head.positions[t - 1])) {
      if (head.begins(t))
        state.clear();
      float partial[Columns];
      state.advance(DeltaToken<Rows, Columns>(head, t), partial);
      sum = sumLanes(partial);
    }
    if (threadX() < Columns && column < values)
      storeElement(result, desc->type, head.results(t) + column, sum);
  }
  if (isCached)
    state.store(head, kept, values, 1);
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Gradients that are sums over the columns of all warps, of one token.
struct SharedSums {
  float queries[kWarps][kDim], keys[kWarps][kDim], key[kDim];
  float ofDecay[kWarps], ofBeta[kWarps], ofOut[kWarps];
};

POPLAR_INLINE float
addWarps(const __attribute__((address_space(3))) float *sums, int32_t stride) {
  float sum = 0;
#pragma clang loop unroll(full)
  for (int32_t w = 0; w < kWarps; ++w)
    sum += sums[w * stride];
  return sum;
}

struct DeltaGradients {
  const void *dOut;
  void *dx, *da, *db;
  float *dLog;
};

/// `state` is that before the token, `dState` the gradient of that after it,
/// and then of that before it.
template <int32_t Rows, int32_t Columns>
POPLAR_INLINE void reverse(const DeltaHead &head, int64_t t,
                           const DeltaState<Rows, Columns> &state,
                           DeltaState<Rows, Columns> &dState,
                           const DeltaGradients &grads, float *dKeys) {
  POPLAR_SHARED SharedSums shared;
  const int32_t dim = int32_t(head.desc->key_dim),
                values = int32_t(head.desc->value_dim), type = head.type,
                lane = threadX(), warp = threadY();
  const DeltaToken<Rows, Columns> token(head, t);
  const float alpha = token.gates.alpha, beta = token.gates.beta;
  float dOut[Columns], p[Columns], dDelta[Columns], dq[Rows], dk[Rows];
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < Rows; ++r)
    dq[r] = dk[r] = 0;
#pragma clang loop unroll(full)
  for (int32_t c = 0; c < Columns; ++c) {
    int32_t column = warp * Columns + c;
    dOut[c] = column < values
                  ? loadElement(grads.dOut, type, head.results(t) + column)
                  : 0.0f;
    p[c] = dDelta[c] = 0;
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < Rows; ++r) {
      float decayed = state.data[r][c] * alpha;
      dState.data[r][c] += dOut[c] * token.q[r];
      p[c] += decayed * token.k[r];
      dDelta[c] += dState.data[r][c] * token.k[r];
      dq[r] += decayed * dOut[c];
    }
  }
  sumToAll(p);
  sumToAll(dDelta);
  float ofBeta = 0, ofOut = 0, ofDecay = 0;
#pragma clang loop unroll(full)
  for (int32_t c = 0; c < Columns; ++c) {
    float error = token.v[c] - p[c], delta = error * beta;
    ofBeta += dDelta[c] * error;
    ofOut += delta * dOut[c];
    float dv = dDelta[c] * beta;
    int32_t column = warp * Columns + c;
    if (lane == 0 && column < values)
      storeElement(grads.dx, type, head.values(t) + column, dv);
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < Rows; ++r) {
      float decayed = state.data[r][c] * alpha, gradient = dState.data[r][c];
      dk[r] += gradient * delta - decayed * dv;
      gradient -= dv * token.k[r];
      ofDecay += gradient * decayed;
      dState.data[r][c] = gradient * alpha;
    }
  }
  ofDecay = warpSum(ofDecay);
  barrier();
#pragma clang loop unroll(full)
  for (int32_t r = 0; r < Rows; ++r) {
    int32_t i = r * kWarp + lane;
    shared.queries[warp][i] = dq[r];
    shared.keys[warp][i] = dk[r];
    if (warp == 0)
      shared.key[i] = token.k[r];
  }
  if (lane == 0) {
    shared.ofDecay[warp] = ofDecay;
    shared.ofBeta[warp] = ofBeta;
    shared.ofOut[warp] = ofOut;
  }
  barrier();
  for (int32_t i = warp * kWarp + lane; i < 2 * dim; i += kWarps * kWarp) {
    if (i < dim)
      dKeys[i] = addWarps(&shared.queries[0][i], kDim) +
                 shared.key[i] * addWarps(shared.ofOut, 1);
    else
      dKeys[i] = addWarps(&shared.keys[0][i - dim], kDim);
  }
  if (lane == 0 && warp == 0) {
    float dg = addWarps(shared.ofDecay, 1), dBeta = addWarps(shared.ofBeta, 1);
    int64_t at = head.gates(t);
    storeElement(grads.da, type, at, dg * token.gates.slope);
    storeElement(grads.db, type, at, dBeta * beta * (1.0f - beta));
    grads.dLog[at] = dg * token.gates.g;
  }
}

template <int32_t Rows, int32_t Columns>
POPLAR_INLINE void backward(const DeltaHead &head, const DeltaGradients &grads,
                            float *scratch) {
  const PoplarGatedDelta *desc = head.desc;
  const int64_t length = desc->seq_len, chunk = poplar_delta_chunk(length),
                chunks = (length + chunk - 1) / chunk,
                size = poplar_delta_state(desc);
  float *starts = scratch + blockX() * poplar_delta_head_scratch(desc),
        *inner = starts + chunks * size,
        *dKeys = starts + poplar_delta_head_states(desc);
  DeltaState<Rows, Columns> state, dState;
  float partial[Columns];
  state.clear();
  // A lane reads in scratch only what it has written itself.
  for (int64_t t = 0; t < (chunks - 1) * chunk; ++t) {
    if (head.begins(t))
      state.clear();
    if (t % chunk == 0)
      state.storeScratch(head, starts + t / chunk * size);
    state.advance(DeltaToken<Rows, Columns>(head, t), partial);
  }
  state.storeScratch(head, starts + (chunks - 1) * size);
  dState.clear();
  for (int64_t c = chunks; c-- > 0;) {
    int64_t first = c * chunk, last = first + chunk;
    if (last > length)
      last = length;
    state.loadScratch(head, starts + c * size);
    for (int64_t t = first; t < last; ++t) {
      if (head.begins(t))
        state.clear();
      state.storeScratch(head, inner + (t - first) * size);
      state.advance(DeltaToken<Rows, Columns>(head, t), partial);
    }
    for (int64_t t = last; t-- > first;) {
      state.loadScratch(head, inner + (t - first) * size);
      reverse(head, t, state, dState, grads, dKeys + t * 2 * desc->key_dim);
      if (head.begins(t))
        dState.clear();
    }
  }
}

} // namespace

/// Calls `FUNCTION` for the least state that has room for a head's.
#define POPLAR_FOR_ROWS(FUNCTION, COLUMNS, ...)                                \
  if (desc->key_dim <= 32)                                                     \
    FUNCTION<1, COLUMNS>(__VA_ARGS__);                                         \
  else if (desc->key_dim <= 64)                                                \
    FUNCTION<2, COLUMNS>(__VA_ARGS__);                                         \
  else                                                                         \
    FUNCTION<4, COLUMNS>(__VA_ARGS__)
#define POPLAR_FOR_STATE(FUNCTION, ...)                                        \
  if (desc->value_dim <= 16) {                                                 \
    POPLAR_FOR_ROWS(FUNCTION, 2, __VA_ARGS__);                                 \
  } else if (desc->value_dim <= 32) {                                          \
    POPLAR_FOR_ROWS(FUNCTION, 4, __VA_ARGS__);                                 \
  } else if (desc->value_dim <= 64) {                                          \
    POPLAR_FOR_ROWS(FUNCTION, 8, __VA_ARGS__);                                 \
  } else {                                                                     \
    POPLAR_FOR_ROWS(FUNCTION, 16, __VA_ARGS__);                                \
  }

extern "C" void poplar_gpu_gated_delta(const PoplarGatedDelta *desc, void *x,
                                       void *a, void *b, void *aLog,
                                       void *dtBias, void *positions,
                                       void *state, void *result, int64_t) {
  DeltaHead head(desc, x, a, b, aLog, dtBias, positions);
  POPLAR_FOR_STATE(forward, head, static_cast<float *>(state), result)
}

extern "C" void poplar_gpu_gated_delta_grad(const PoplarGatedDelta *desc,
                                            void *dy, void *x, void *a, void *b,
                                            void *aLog, void *dtBias,
                                            void *positions, void *dx, void *da,
                                            void *db, void *dLog, void *scratch,
                                            int64_t) {
  DeltaHead head(desc, x, a, b, aLog, dtBias, positions);
  DeltaGradients grads = {dy, dx, da, db, static_cast<float *>(dLog)};
  POPLAR_FOR_STATE(backward, head, grads, static_cast<float *>(scratch))
}

/// A warp has queries or keys of a head.
extern "C" void poplar_gpu_gated_delta_grad_keys(const PoplarGatedDelta *desc,
                                                 void *x, void *dx,
                                                 void *scratch, int64_t) {
  const int64_t dim = desc->key_dim,
                group = desc->value_heads / desc->key_heads,
                width = 2 * desc->key_heads * dim +
                        desc->value_heads * desc->value_dim,
                sample = blockX() / desc->seq_len,
                token = blockX() % desc->seq_len;
  const auto *from = static_cast<const float *>(scratch);
  for (int64_t part = threadY(); part < 2 * desc->key_heads; part += kWarps) {
    int64_t isKey = part / desc->key_heads, head = part % desc->key_heads,
            at = blockX() * width + part * dim;
    float gradient[kDim / kWarp], value[kDim / kWarp], squares = 0, dot = 0;
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < kDim / kWarp; ++r) {
      int64_t i = r * kWarp + threadX();
      gradient[r] = value[r] = 0;
      if (i < dim) {
        for (int64_t member = 0; member < group; ++member)
          gradient[r] +=
              from[(sample * desc->value_heads + head * group + member) *
                       poplar_delta_head_scratch(desc) +
                   poplar_delta_head_states(desc) + (token * 2 + isKey) * dim +
                   i];
        value[r] = loadElement(x, desc->type, at + i);
      }
      squares += value[r] * value[r];
      dot += value[r] * gradient[r];
    }
    squares = warpSum(squares);
    dot = warpSum(dot);
    float inverse = 1.0f / __builtin_sqrtf(squares + kNormEps);
    float factor = isKey ? 1.0f : 1.0f / __builtin_sqrtf(float(dim));
#pragma clang loop unroll(full)
    for (int32_t r = 0; r < kDim / kWarp; ++r) {
      int64_t i = r * kWarp + threadX();
      if (i < dim)
        storeElement(dx, desc->type, at + i,
                     factor * inverse *
                         (gradient[r] - value[r] * inverse * inverse * dot));
    }
  }
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {

/// The channel of a thread, of the rows or the samples that blocks are.
struct Channel {
  const PoplarCausalConv *desc;
  int64_t row, channel;

  POPLAR_INLINE explicit Channel(const PoplarCausalConv *desc) : desc(desc) {
    int64_t groups = (desc->channels + POPLAR_GPU_CONV_THREADS - 1) /
                     POPLAR_GPU_CONV_THREADS;
    row = blockX() / groups;
    channel = blockX() % groups * POPLAR_GPU_CONV_THREADS + threadX();
  }
  POPLAR_INLINE bool exists() const { return channel < desc->channels; }
  POPLAR_INLINE float load(const void *array, int64_t row) const {
    return loadElement(array, desc->type, row * desc->channels + channel);
  }
  POPLAR_INLINE void store(void *array, int64_t row, float value) const {
    storeElement(array, desc->type, row * desc->channels + channel, value);
  }
  POPLAR_INLINE float tap(const void *weight, int64_t j) const {
    return loadElement(weight, desc->type, channel * desc->width + j);
  }
  /// Where a row is in its document.
  POPLAR_INLINE int64_t place(const void *positions, int64_t row) const {
    return desc->tokens == POPLAR_ONE_DOCUMENT
               ? row % desc->seq_len
               : static_cast<const int32_t *>(positions)[row];
  }
};

} // namespace

extern "C" void poplar_gpu_causal_conv(const PoplarCausalConv *desc, void *x,
                                       void *weight, void *positions, void *,
                                       void *result, int64_t) {
  Channel at(desc);
  if (!at.exists())
    return;
  int64_t place = at.place(positions, at.row);
  float sum = 0;
  for (int64_t back = 0; back < desc->width && back <= place; ++back)
    sum += at.load(x, at.row - back) * at.tap(weight, desc->width - 1 - back);
  at.store(result, at.row, sum);
}

/// A block has all new tokens of a sample.
extern "C" void poplar_gpu_causal_conv_cached(const PoplarCausalConv *desc,
                                              void *x, void *weight,
                                              void *positions, void *cache,
                                              void *result, int64_t) {
  Channel at(desc);
  if (!at.exists())
    return;
  const int64_t before = desc->width - 1, first = at.row * desc->seq_len,
                kept = at.row * before;
  int64_t known = 0;
  float sum = 0;
  for (int64_t t = 0; t < desc->seq_len; ++t) {
    int64_t place = at.place(positions, first + t);
    if (t == 0 || place != at.place(positions, first + t - 1)) {
      sum = 0;
      for (int64_t back = 0; back <= before && back <= place; ++back) {
        int64_t from = known - back;
        sum += (from >= 0 ? at.load(x, first + from)
                          : at.load(cache, kept + before + from)) *
               at.tap(weight, before - back);
      }
      ++known;
    }
    at.store(result, first + t, sum);
  }
  for (int64_t row = 0; row < before; ++row) {
    int64_t from = known - before + row;
    at.store(cache, kept + row,
             from >= 0 ? at.load(x, first + from)
                       : at.load(cache, kept + before + from));
  }
}

extern "C" void poplar_gpu_causal_conv_grad(const PoplarCausalConv *desc,
                                            void *dy, void *weight,
                                            void *positions, void *dx,
                                            int64_t) {
  Channel at(desc);
  if (!at.exists())
    return;
  int64_t rest = desc->seq_len - at.row % desc->seq_len;
  float sum = 0;
  for (int64_t ahead = 0; ahead < desc->width && ahead < rest &&
                          at.place(positions, at.row + ahead) >= ahead;
       ++ahead)
    sum +=
        at.load(dy, at.row + ahead) * at.tap(weight, desc->width - 1 - ahead);
  at.store(dx, at.row, sum);
}

/// A block has all tokens.
extern "C" void poplar_gpu_causal_conv_grad_weight(const PoplarCausalConv *desc,
                                                   void *dy, void *x,
                                                   void *positions, void *acc,
                                                   int64_t batch) {
  Channel at(desc);
  if (!at.exists())
    return;
  float sums[POPLAR_MAX_CONV_WIDTH];
#pragma clang loop unroll(full)
  for (float &sum : sums)
    sum = 0;
  for (int64_t row = 0; row < batch * desc->seq_len; ++row) {
    int64_t place = at.place(positions, row);
    float gradient = at.load(dy, row);
#pragma clang loop unroll(full)
    for (int32_t back = 0; back < POPLAR_MAX_CONV_WIDTH; ++back)
      if (back < desc->width && back <= place)
        sums[back] += gradient * at.load(x, row - back);
  }
#pragma clang loop unroll(full)
  for (int32_t back = 0; back < POPLAR_MAX_CONV_WIDTH; ++back)
    if (back < desc->width)
      static_cast<float *>(
          acc)[at.channel * desc->width + desc->width - 1 - back] += sums[back];
}
