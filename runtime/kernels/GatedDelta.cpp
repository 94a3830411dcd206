//===- GatedDelta.cpp - Linear attention by the gated delta rule ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part is a value head of a sample, and goes through its tokens one by one.
// The state S[i][c] has keys' columns i in its rows and values' columns c in
// the lanes, `V` vectors of them. A token:
//
//   forward   S = alpha S;  p = S^T k;  delta = beta (v - p)
//             S += k delta^T;  out = S^T q
//   backward  dS += q dout^T                    dq = S dout
//             ddelta = dS^T k                   dbeta = ddelta . (v - p)
//             dv = beta ddelta = -dp            dSt = dS + k dp^T
//             dk = dS delta + St dp             dg = <dSt, St>
//             dS of the token before = alpha dSt
//
// where St = alpha S before the update. States of the backward pass are
// computed again, a chunk at a time (Runtime/Recurrent.h).
//
//===----------------------------------------------------------------------===//

#include "Gates.h"
#include "Poplar/Runtime/ABI.h"
#include "Poplar/Runtime/Recurrent.h"
#include "Vector.h"

using namespace poplar;

namespace {

constexpr int64_t kDim = POPLAR_MAX_DELTA_DIM;

/// exp(x), of x up to 87.
POPLAR_INLINE float expOf(float x) { return exp2(splat(x * 1.44269504f))[0]; }

/// What a value head reads of the tokens of a sample.
struct DeltaHead {
  const PoplarGatedDelta *desc;
  const void *x, *a, *b;
  const int32_t *positions;
  int64_t sample, head;
  bool isBF16;
  float aLog, dtBias;

  /// `args` are x, a, b, a_log, dt_bias, positions.
  POPLAR_ALWAYS_INLINE DeltaHead(const PoplarGatedDelta *desc,
                                 void *const *args, int64_t task)
      : desc(desc), x(args[0]), a(args[1]), b(args[2]),
        positions(desc->tokens == POPLAR_ONE_DOCUMENT
                      ? nullptr
                      : static_cast<const int32_t *>(args[5]) +
                            task / desc->value_heads * desc->seq_len),
        sample(task / desc->value_heads), head(task % desc->value_heads),
        isBF16(desc->type == POPLAR_BF16),
        aLog(loadElement(args[3], isBF16, head)),
        dtBias(loadElement(args[4], isBF16, head)) {}

  POPLAR_ALWAYS_INLINE bool begins(int64_t token) const {
    return positions ? positions[token] == 0 : token == 0;
  }
  POPLAR_ALWAYS_INLINE int64_t row(int64_t token) const {
    return sample * desc->seq_len + token;
  }
  POPLAR_ALWAYS_INLINE int64_t keyColumns() const {
    return desc->key_heads * desc->key_dim;
  }
  POPLAR_ALWAYS_INLINE int64_t valueColumns() const {
    return desc->value_heads * desc->value_dim;
  }
  /// Where the values of a token lie in x.
  POPLAR_ALWAYS_INLINE int64_t values(int64_t token) const {
    return row(token) * (2 * keyColumns() + valueColumns()) + 2 * keyColumns() +
           head * desc->value_dim;
  }
  /// Where its queries or its keys lie.
  POPLAR_ALWAYS_INLINE int64_t keys(int64_t token, bool isKey) const {
    int64_t keyHead = head / (desc->value_heads / desc->key_heads);
    return row(token) * (2 * keyColumns() + valueColumns()) +
           (isKey ? keyColumns() : 0) + keyHead * desc->key_dim;
  }
  /// Where it lies in a result, or in its gradient.
  POPLAR_ALWAYS_INLINE int64_t results(int64_t token) const {
    return row(token) * valueColumns() + head * desc->value_dim;
  }
  POPLAR_ALWAYS_INLINE int64_t gates(int64_t token) const {
    return row(token) * desc->value_heads + head;
  }
};

/// A row of length 1, times a factor.
POPLAR_INLINE void loadUnit(const void *array, bool isBF16, int64_t at,
                            int64_t dim, float factor, float *out) {
  float squares = 0;
  for (int64_t i = 0; i < dim; ++i) {
    out[i] = loadElement(array, isBF16, at + i);
    squares += out[i] * out[i];
  }
  float scale = factor / __builtin_sqrtf(squares + kNormEps);
  for (int64_t i = 0; i < dim; ++i)
    out[i] *= scale;
}

template <int V>
POPLAR_INLINE void loadValues(const void *array, bool isBF16, int64_t at,
                              int64_t dim, Floats (&out)[V]) {
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    if ((v + 1) * kLanes <= dim) {
      out[v] = loadElements(array, isBF16, at + v * kLanes);
      continue;
    }
    out[v] = Floats{};
    for (int64_t i = v * kLanes; i < dim; ++i)
      out[v][i - v * kLanes] = loadElement(array, isBF16, at + i);
  }
}

template <int V>
POPLAR_INLINE void storeValues(void *array, bool isBF16, int64_t at,
                               int64_t dim, const Floats (&values)[V]) {
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
    for (int64_t i = v * kLanes; i < dim && i < (v + 1) * kLanes; ++i)
      storeElement(array, isBF16, at + i, values[v][i - v * kLanes]);
}

template <int V> struct DeltaToken {
  float q[kDim], k[kDim];
  Floats v[V];
  Gates gates;

  POPLAR_ALWAYS_INLINE DeltaToken(const DeltaHead &head, int64_t token) {
    int64_t dim = head.desc->key_dim;
    loadUnit(head.x, head.isBF16, head.keys(token, false), dim,
             1.0f / __builtin_sqrtf(float(dim)), q);
    loadUnit(head.x, head.isBF16, head.keys(token, true), dim, 1.0f, k);
    loadValues<V>(head.x, head.isBF16, head.values(token), head.desc->value_dim,
                  v);
    int64_t at = head.gates(token);
    gates = makeGates(loadElement(head.a, head.isBF16, at),
                      loadElement(head.b, head.isBF16, at), head.aLog,
                      head.dtBias, expOf);
  }
};

template <int V> struct DeltaState {
  Floats rows[kDim][V];

  POPLAR_ALWAYS_INLINE void clear(int64_t dim) {
    for (int64_t i = 0; i < dim; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        rows[i][v] = Floats{};
  }
  POPLAR_ALWAYS_INLINE void loadFrom(const float *memory, int64_t dim) {
    for (int64_t i = 0; i < dim; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        rows[i][v] = load(memory + (i * V + v) * kLanes);
  }
  POPLAR_ALWAYS_INLINE void storeTo(float *memory, int64_t dim) const {
    for (int64_t i = 0; i < dim; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        store(memory + (i * V + v) * kLanes, rows[i][v]);
  }
};

/// One token forward; `out` is S^T q.
template <int V>
POPLAR_INLINE void advance(DeltaState<V> &state, const DeltaToken<V> &token,
                           int64_t dim, Floats (&out)[V]) {
  Floats p[V], delta[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
    p[v] = out[v] = Floats{};
  for (int64_t i = 0; i < dim; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      p[v] += state.rows[i][v] * token.k[i];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
    delta[v] = (token.v[v] - p[v] * token.gates.alpha) * token.gates.beta;
  for (int64_t i = 0; i < dim; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Floats row = state.rows[i][v] * token.gates.alpha + delta[v] * token.k[i];
      state.rows[i][v] = row;
      out[v] += row * token.q[i];
    }
}

/// args: x, a, b, a_log, dt_bias, positions, state, result.
template <int V>
POPLAR_INLINE void forward(const PoplarGatedDelta *desc, void *const *args,
                           int64_t task) {
  const DeltaHead head(desc, args, task);
  const int64_t dim = desc->key_dim, values = desc->value_dim;
  const bool isCached = desc->tokens == POPLAR_NEW_TOKENS;
  float *kept =
      isCached ? static_cast<float *>(args[6]) + task * dim * values : nullptr;
  DeltaState<V> state;
  state.clear(dim);
  if (isCached && !head.begins(0))
    for (int64_t i = 0; i < dim; ++i)
      loadValues<V>(kept, false, i * values, values, state.rows[i]);
  Floats out[V];
  for (int64_t t = 0; t < desc->seq_len; ++t) {
    if (!(isCached && t && head.positions[t] == head.positions[t - 1])) {
      if (head.begins(t))
        state.clear(dim);
      advance<V>(state, DeltaToken<V>(head, t), dim, out);
    }
    storeValues<V>(args[7], head.isBF16, head.results(t), values, out);
  }
  if (isCached)
    for (int64_t i = 0; i < dim; ++i)
      storeValues<V>(kept, false, i * values, values, state.rows[i]);
}

/// The gradients of one token. `state` is that before it, `dState` that of the
/// state after it, and then that of the state before it.
template <int V>
POPLAR_INLINE void reverse(const DeltaHead &head, int64_t t,
                           const DeltaState<V> &state, DeltaState<V> &dState,
                           void *const *args, float *dKeys) {
  const int64_t dim = head.desc->key_dim, values = head.desc->value_dim;
  const DeltaToken<V> token(head, t);
  const float alpha = token.gates.alpha, beta = token.gates.beta;
  Floats dOut[V], p[V], dDelta[V];
  loadValues<V>(args[0], head.isBF16, head.results(t), values, dOut);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
    p[v] = dDelta[v] = Floats{};
  float *dq = dKeys, *dk = dKeys + dim;
  for (int64_t i = 0; i < dim; ++i) {
    Floats product = Floats{};
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Floats decayed = state.rows[i][v] * alpha;
      Floats gradient = dState.rows[i][v] + dOut[v] * token.q[i];
      dState.rows[i][v] = gradient;
      p[v] += decayed * token.k[i];
      dDelta[v] += gradient * token.k[i];
      product += decayed * dOut[v];
    }
    dq[i] = reduceSum(product);
  }
  Floats delta[V], dp[V], ofBeta = Floats{}, ofOut = Floats{};
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    Floats error = token.v[v] - p[v];
    delta[v] = error * beta;
    ofBeta += dDelta[v] * error;
    ofOut += delta[v] * dOut[v];
    dDelta[v] = dDelta[v] * beta;
    dp[v] = -dDelta[v];
  }
  // dv.
  storeValues<V>(args[7], head.isBF16, head.values(t), values, dDelta);
  float deltaOut = reduceSum(ofOut);
  Floats ofDecay = Floats{};
  for (int64_t i = 0; i < dim; ++i) {
    dq[i] += token.k[i] * deltaOut;
    Floats product = Floats{};
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      Floats decayed = state.rows[i][v] * alpha;
      Floats gradient = dState.rows[i][v];
      product += gradient * delta[v] + decayed * dp[v];
      gradient += dp[v] * token.k[i];
      ofDecay += gradient * decayed;
      dState.rows[i][v] = gradient * alpha;
    }
    dk[i] = reduceSum(product);
  }
  float dg = reduceSum(ofDecay), dBeta = reduceSum(ofBeta);
  int64_t at = head.gates(t);
  storeElement(args[8], head.isBF16, at, dg * token.gates.slope);
  storeElement(args[9], head.isBF16, at, dBeta * beta * (1.0f - beta));
  static_cast<float *>(args[10])[at] = dg * token.gates.g;
}

/// args: dy, x, a, b, a_log, dt_bias, positions, dx, da, db, dlog, scratch.
template <int V>
POPLAR_INLINE void backward(const PoplarGatedDelta *desc, void *const *args,
                            int64_t task) {
  const DeltaHead head(desc, args + 1, task);
  const int64_t dim = desc->key_dim, length = desc->seq_len,
                chunk = poplar_delta_chunk(length),
                chunks = (length + chunk - 1) / chunk,
                size = poplar_delta_state(desc);
  float *starts = static_cast<float *>(args[11]) +
                  task * poplar_delta_head_scratch(desc),
        *inner = starts + chunks * size,
        *dKeys = starts + poplar_delta_head_states(desc);
  DeltaState<V> state, dState;
  Floats out[V];
  auto step = [&](int64_t t, float *before) __attribute__((always_inline)) {
    if (head.begins(t))
      state.clear(dim);
    if (before)
      state.storeTo(before, dim);
    advance<V>(state, DeltaToken<V>(head, t), dim, out);
  };
  state.clear(dim);
  for (int64_t t = 0; t < (chunks - 1) * chunk; ++t)
    step(t, t % chunk ? nullptr : starts + t / chunk * size);
  state.storeTo(starts + (chunks - 1) * size, dim);
  dState.clear(dim);
  for (int64_t c = chunks; c-- > 0;) {
    int64_t first = c * chunk, last = first + chunk;
    if (last > length)
      last = length;
    state.loadFrom(starts + c * size, dim);
    for (int64_t t = first; t < last; ++t)
      step(t, inner + (t - first) * size);
    for (int64_t t = last; t-- > first;) {
      state.loadFrom(inner + (t - first) * size, dim);
      reverse<V>(head, t, state, dState, args, dKeys + t * 2 * dim);
      if (head.begins(t))
        dState.clear(dim);
    }
  }
}

} // namespace

/// Calls `FUNCTION` for the vectors of a row of a state.
#define POPLAR_FOR_WIDTH(FUNCTION, ...)                                        \
  switch (poplar_delta_width(desc->value_dim)) {                               \
  case 16:                                                                     \
    FUNCTION<1>(__VA_ARGS__);                                                  \
    break;                                                                     \
  case 32:                                                                     \
    FUNCTION<2>(__VA_ARGS__);                                                  \
    break;                                                                     \
  case 64:                                                                     \
    FUNCTION<4>(__VA_ARGS__);                                                  \
    break;                                                                     \
  default:                                                                     \
    FUNCTION<8>(__VA_ARGS__);                                                  \
  }

extern "C" void poplar_gated_delta(const PoplarGatedDelta *desc,
                                   void *const *args, int64_t, int64_t begin,
                                   int64_t end) {
  for (int64_t task = begin; task < end; ++task)
    POPLAR_FOR_WIDTH(forward, desc, args, task)
}

extern "C" void poplar_gated_delta_grad(const PoplarGatedDelta *desc,
                                        void *const *args, int64_t,
                                        int64_t begin, int64_t end) {
  for (int64_t task = begin; task < end; ++task)
    POPLAR_FOR_WIDTH(backward, desc, args, task)
}

/// With y = x / sqrt(sum x^2 + eps): dx = (dy - y (y . dy)) / sqrt(...).
extern "C" void poplar_gated_delta_grad_keys(const PoplarGatedDelta *desc,
                                             void *const *args, int64_t,
                                             int64_t begin, int64_t end) {
  const int64_t dim = desc->key_dim,
                group = desc->value_heads / desc->key_heads,
                width = 2 * desc->key_heads * dim +
                        desc->value_heads * desc->value_dim;
  const bool isBF16 = desc->type == POPLAR_BF16;
  const auto *scratch = static_cast<const float *>(args[2]);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t part = 0; part < 2 * desc->key_heads; ++part) {
      int64_t isKey = part / desc->key_heads, head = part % desc->key_heads,
              sample = row / desc->seq_len, token = row % desc->seq_len;
      int64_t at = row * width + part * dim;
      float gradient[kDim], squares = 0, dot = 0;
      for (int64_t i = 0; i < dim; ++i)
        gradient[i] = 0;
      for (int64_t member = 0; member < group; ++member) {
        const float *from =
            scratch +
            (sample * desc->value_heads + head * group + member) *
                poplar_delta_head_scratch(desc) +
            poplar_delta_head_states(desc) + (token * 2 + isKey) * dim;
        for (int64_t i = 0; i < dim; ++i)
          gradient[i] += from[i];
      }
      for (int64_t i = 0; i < dim; ++i) {
        float x = loadElement(args[0], isBF16, at + i);
        squares += x * x;
        dot += x * gradient[i];
      }
      float inverse = 1.0f / __builtin_sqrtf(squares + kNormEps);
      float factor = isKey ? 1.0f : 1.0f / __builtin_sqrtf(float(dim));
      for (int64_t i = 0; i < dim; ++i)
        storeElement(args[1], isBF16, at + i,
                     factor * inverse *
                         (gradient[i] - loadElement(args[0], isBF16, at + i) *
                                            inverse * inverse * dot));
    }
}
