//===- ProductCases.cpp - Cases of matrix products ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCases.h"
#include "Poplar/Runtime/FP8.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::gputest;

static Type getType(MLIRContext &context, int32_t type) {
  if (type == POPLAR_F32)
    return Float32Type::get(&context);
  return type == POPLAR_BF16 ? Type(BFloat16Type::get(&context))
                             : Type(Float16Type::get(&context));
}

/// By tanh, and its derivative.
static double gelu(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double geluGrad(double x) {
  double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 +
         x / 2 * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/// Sums of the gradient of a bias; 0 where there is none.
static int64_t countSums(const PoplarGemm &gemm) {
  if (gemm.epilogue == POPLAR_BIAS_GRAD_A)
    return gemm.m;
  return gemm.epilogue == POPLAR_BIAS_GRAD_B ? gemm.n : 0;
}

/// Elements from one row of A, and of C, to the next.
static int64_t getRowOfA(const PoplarGemm &gemm, int64_t m, int64_t k) {
  return gemm.a_row ? gemm.a_row : gemm.trans_a ? m : k;
}
static int64_t getRowOfC(const PoplarGemm &gemm) {
  return gemm.c_row ? gemm.c_row : gemm.n;
}

/// Rounds values of a row to e4m3 with a scale of its own, by the definitions
/// of both (Runtime/FP8.h).
static void roundRow(std::vector<double> &row) {
  double largest = 0;
  for (double value : row)
    largest = std::max(largest, std::fabs(value));
  int scale = 48;
  while (std::ldexp(largest, scale) > 448)
    --scale;
  for (double &value : row) {
    int exponent = 0;
    std::frexp(std::ldexp(value, scale), &exponent);
    // Three bits behind the first, down to 2^-9.
    int last = std::max(exponent - 4, -9) - scale;
    value = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  }
}

/// By its definition, with sums in f64. Buffers are those of `pointers`.
static void multiply(const PoplarGemm &gemm, int64_t m, int64_t k,
                     KernelCase &entry) {
  auto buffer = [&](auto &list, int operand) -> auto & {
    return list[size_t(entry.pointers[size_t(operand)])];
  };
  const Buffer &a = buffer(entry.before, 0), &b = buffer(entry.before, 1);
  Buffer &c = buffer(entry.after, 4);
  auto at = [](const Buffer &matrix, int64_t row, int64_t column,
               bool transposed, int64_t stride) {
    return matrix.at(
        size_t(transposed ? column * stride + row : row * stride + column));
  };
  auto atA = [&, stride = getRowOfA(gemm, m, k)](int64_t i, int64_t l) {
    return at(a, i, l, gemm.trans_a, stride);
  };
  auto atB = [&](int64_t l, int64_t j) {
    return at(b, l, j, gemm.trans_b, gemm.trans_b ? k : gemm.n);
  };
  std::vector<std::vector<double>> rows, columns;
  for (int64_t i = 0; i < m; ++i) {
    rows.emplace_back();
    for (int64_t l = 0; l < k; ++l)
      rows.back().push_back(atA(i, l));
  }
  for (int64_t j = 0; j < gemm.n; ++j) {
    columns.emplace_back();
    for (int64_t l = 0; l < k; ++l)
      columns.back().push_back(atB(l, j));
  }
  if (gemm.fp8) {
    llvm::for_each(rows, roundRow);
    llvm::for_each(columns, roundRow);
  }
  bool sumsA = gemm.epilogue == POPLAR_BIAS_GRAD_A;
  if (int64_t sums = countSums(gemm))
    for (int64_t i = 0; i < sums; ++i) {
      Buffer &bias = buffer(entry.after, 3);
      double sum = bias.at(size_t(i));
      for (int64_t l = 0; l < k; ++l)
        sum += sumsA ? atA(i, l) : atB(l, i);
      bias.set(size_t(i), float(sum));
    }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < gemm.n; ++j) {
      size_t place = size_t(i * getRowOfC(gemm) + j);
      double sum = gemm.accumulate ? c.at(place) : 0;
      if (gemm.has_bias)
        sum += buffer(entry.before, 2).at(size_t(j));
      for (int64_t l = 0; l < k; ++l)
        sum += rows[size_t(i)][size_t(l)] * columns[size_t(j)][size_t(l)];
      if (gemm.epilogue == POPLAR_GELU_AUX)
        buffer(entry.after, 3).set(place, float(sum));
      if (gemm.epilogue == POPLAR_GELU || gemm.epilogue == POPLAR_GELU_AUX)
        sum = gelu(sum);
      if (gemm.epilogue == POPLAR_GELU_GRAD)
        sum *= geluGrad(buffer(entry.before, 3).at(place));
      c.set(place, float(sum));
    }
}

void poplar::gputest::addProductCases(MLIRContext &context, const GPUChip &chip,
                                      KernelCases &cases) {
  std::mt19937 random(2);
  constexpr int64_t batch = 3, n = 96, tokens = 40, depth = 64;
  auto add = [&](const std::string &name, const PoplarGemm &gemm,
                 double tolerance) {
    int64_t m = gemm.batched == 1 ? gemm.m * batch : gemm.m,
            k = gemm.batched == 2 ? gemm.k * batch : gemm.k;
    KernelCase entry;
    entry.name = name;
    entry.product = gemm;
    entry.batch = batch;
    entry.extent = 0;
    entry.tolerance = tolerance;
    auto addBuffer = [&](bool wanted, int32_t type, int64_t count) {
      entry.pointers.push_back(wanted ? int(entry.before.size()) : -1);
      if (!wanted)
        return;
      Buffer buffer(getType(context, type), count);
      // In 16 bits, products are exact anyway: few bits, for small files.
      std::normal_distribution<float> normal;
      std::uniform_int_distribution<int> quarters(-8, 8);
      for (size_t i = 0; i < buffer.size(); ++i)
        buffer.set(i, type == POPLAR_F32 ? shorten(normal(random))
                                         : float(quarters(random)) / 4);
      // Rows of unlike sizes, with fractions that are not left.
      for (size_t i = 0; gemm.fp8 && i < buffer.size(); ++i)
        buffer.set(i, std::ldexp(float(quarters(random)) +
                                     float(quarters(random)) / 16,
                                 int(i / 64 % 7)));
      entry.before.push_back(buffer);
    };
    addBuffer(true, gemm.a_type,
              (gemm.trans_a ? k : m) * getRowOfA(gemm, m, k));
    addBuffer(true, gemm.b_type, k * gemm.n);
    addBuffer(gemm.has_bias, gemm.c_type, gemm.n);
    int64_t sums = countSums(gemm);
    addBuffer(gemm.epilogue >= POPLAR_GELU_AUX, gemm.c_type,
              sums ? sums : m * gemm.n);
    addBuffer(true, gemm.c_type, m * getRowOfC(gemm));
    entry.after = entry.before;
    multiply(gemm, m, k, entry);
    cases.add(entry);
  };
  for (int32_t type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16}) {
    if (type == POPLAR_BF16 && chip.getCapability() < 80)
      continue;
    static const char *const names[] = {"f32", "bf16", "f16"};
    std::string prefix = names[type];
    double tolerance = type == POPLAR_F32 ? 1e-5 : 5e-3;
    for (int32_t transposed : {0, 1})
      for (int32_t bias : {0, 1})
        add(prefix + " linear" + (transposed ? ", transposed" : "") +
                (bias ? ", bias" : ""),
            {tokens, n, depth, 1, 0, transposed, 0, bias, type, type, type,
             POPLAR_STORE, 0},
            tolerance);
    add(prefix + " gradient of the weight",
        {depth, n, tokens, 2, 1, 0, 1, 0, type, type, POPLAR_F32, POPLAR_STORE,
         0},
        1e-5);
    for (int32_t epilogue : {POPLAR_BIAS_GRAD_A, POPLAR_BIAS_GRAD_B})
      add(prefix + " gradients of the weight and a bias" +
              (epilogue == POPLAR_BIAS_GRAD_A ? ", its rows" : ", its columns"),
          {depth, n, tokens, 2, 1, 0, 1, 0, type, type, POPLAR_F32, epilogue,
           0},
          1e-5);
    add(prefix + " GELU",
        {tokens, n, depth, 1, 0, 0, 0, 1, type, type, type, POPLAR_GELU, 0},
        tolerance);
    add(prefix + " GELU, and its argument",
        {tokens, n, depth, 1, 0, 0, 0, 1, type, type, type, POPLAR_GELU_AUX, 0},
        tolerance);
    add(prefix + " gradient of GELU",
        {tokens, n, depth, 1, 0, 1, 0, 0, type, type, type, POPLAR_GELU_GRAD,
         0},
        tolerance);
    // Logits of an odd vocabulary, and gradients of what they are made of: few,
    // for small files.
    constexpr int64_t few = 8, width = 16, odd = 13, row = 64;
    add(prefix + " linear into padded rows",
        {few, odd, width, 1, 0, 1, 0, 0, type, type, type, POPLAR_STORE, 0, 0,
         row},
        tolerance);
    add(prefix + " linear of padded rows",
        {few, width, odd, 1, 0, 0, 0, 0, type, type, type, POPLAR_STORE, 0, row,
         0},
        tolerance);
    add(prefix + " gradient of the weight, of padded rows",
        {odd, width, few, 2, 1, 0, 1, 0, type, type, POPLAR_F32, POPLAR_STORE,
         0, row, 0},
        1e-5);
  }
  // Biases and epilogues come after the scales. A side of 80 is no multiple of
  // a warp.
  if (chip.getCapability() >= 89)
    for (int32_t transposed : {0, 1}) {
      std::string prefix =
          std::string("fp8 ") + (transposed ? "transposed " : "");
      auto addFP8 = [&](const std::string &name, int32_t bias,
                        int32_t epilogue) {
        add(prefix + name,
            {tokens, 80, depth, 1, 0, transposed, 0, bias, POPLAR_BF16,
             POPLAR_BF16, POPLAR_BF16, epilogue, 0, 0, 0, 1},
            5e-3);
      };
      addFP8("linear", 0, POPLAR_STORE);
      addFP8("linear, bias", 1, POPLAR_STORE);
      addFP8("GELU, and its argument", 1, POPLAR_GELU_AUX);
      addFP8("gradient of GELU", 0, POPLAR_GELU_GRAD);
    }
  // More rows than are held in 8 bits at a time.
  if (chip.getCapability() >= 89)
    add("fp8 linear of many rows",
        {POPLAR_FP8_ROWS / batch + 20, 16, 16, 1, 0, 1, 0, 1, POPLAR_BF16,
         POPLAR_BF16, POPLAR_BF16, POPLAR_STORE, 0, 0, 0, 1},
        5e-3);
  // Wrong by what the operands lose, and by no more.
  if (chip.getCapability() >= 80)
    add("f32 linear in TF32",
        {tokens, n, depth, 1, 0, 0, 0, 1, POPLAR_F32, POPLAR_F32, POPLAR_F32,
         POPLAR_STORE, 1},
        1e-3);
}
