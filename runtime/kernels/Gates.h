//===- Gates.h - Gates of the gated delta rule ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For CPUs and GPUs: `Exp` is a function that gives exp(x) for x <= 0, or for
// small x above.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GATES_H
#define POPLAR_RUNTIME_KERNELS_GATES_H

namespace poplar {

/// log(1 + x) for x in [0, 1], to 2e-7 of it: 2 atanh(x / (2 + x)).
static inline __attribute__((always_inline)) float log1pOf(float x) {
  float s = x / (2.0f + x), square = s * s;
  float sum = 1.0f / 15;
  sum = sum * square + 1.0f / 13;
  sum = sum * square + 1.0f / 11;
  sum = sum * square + 1.0f / 9;
  sum = sum * square + 1.0f / 7;
  sum = sum * square + 1.0f / 5;
  sum = sum * square + 1.0f / 3;
  sum = sum * square + 1.0f;
  return 2.0f * s * sum;
}

/// How a token decays the state, and how much of its error it writes.
struct Gates {
  /// exp(g), and g = -exp(a_log) softplus(a + dt_bias) with its derivative by
  /// a.
  float alpha, g, slope;
  float beta;
};

template <typename Exp>
static inline __attribute__((always_inline)) Gates
makeGates(float a, float b, float aLog, float dtBias, Exp exp) {
  float x = a + dtBias, e = exp(x < 0 ? x : -x), rate = exp(aLog);
  float softplus = (x > 0 ? x : 0.0f) + log1pOf(e);
  float sigmoid = (x < 0 ? e : 1.0f) / (1.0f + e);
  float eb = exp(b < 0 ? b : -b);
  Gates gates;
  gates.g = -rate * softplus;
  gates.alpha = exp(gates.g);
  gates.slope = -rate * sigmoid;
  gates.beta = (b < 0 ? eb : 1.0f) / (1.0f + eb);
  return gates;
}

/// Added to the squares of a query or a key before it is divided by the root of
/// their sum.
constexpr float kNormEps = 1e-6f;

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_GATES_H
