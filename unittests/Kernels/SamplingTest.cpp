//===- SamplingTest.cpp - Kernels of sampling against plain loops ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizedMatrix.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

namespace {

using Values = std::vector<float>;

/// An array of f32 or bf16, of numbers that both formats hold exactly.
struct Array {
  Array(size_t Size, int32_t Type)
      : Type(Type), Bytes(Size * (Type == POPLAR_F32 ? 4 : 2)) {}

  void set(size_t I, float Value) {
    uint32_t Bits;
    std::memcpy(&Bits, &Value, 4);
    if (Type == POPLAR_F32)
      std::memcpy(&Bytes[4 * I], &Bits, 4);
    else
      std::memcpy(&Bytes[2 * I], reinterpret_cast<const char *>(&Bits) + 2, 2);
  }
  float get(size_t I) const {
    uint32_t Bits = 0;
    if (Type == POPLAR_F32)
      std::memcpy(&Bits, &Bytes[4 * I], 4);
    else
      std::memcpy(reinterpret_cast<char *>(&Bits) + 2, &Bytes[2 * I], 2);
    float Value;
    std::memcpy(&Value, &Bits, 4);
    return Value;
  }
  void fill(std::mt19937 &Random) {
    size_t Size = Bytes.size() / (Type == POPLAR_F32 ? 4 : 2);
    for (size_t I = 0; I < Size; ++I)
      set(I, static_cast<float>(static_cast<int>(Random() % 129) - 64) / 64);
  }
  void *data() { return Bytes.data(); }

  int32_t Type;
  std::vector<char> Bytes;
};

struct Shape {
  int64_t Length, Heads, KvHeads, HeadDim, Window;
  double Cap;
  bool Packed;
  int64_t Tokens;
  int32_t Type;
  bool HasSinks = false;
};

class CachedAttentionTest : public testing::TestWithParam<Shape> {};

} // namespace

/// A text comes in chunks, the last of which is filled up with its last token.
TEST_P(CachedAttentionTest, EqualsPlainLoops) {
  constexpr int64_t Batch = 2;
  const Shape S = GetParam();
  const int64_t D = S.HeadDim, Group = S.Heads / S.KvHeads;
  PoplarCachedAttention Desc = {};
  PoplarAttention &A = Desc.attention;
  A.seq_len = (S.Length + POPLAR_CACHE_BLOCK - 1) / POPLAR_CACHE_BLOCK *
              POPLAR_CACHE_BLOCK;
  A.num_heads = S.Heads;
  A.num_kv_heads = S.KvHeads;
  A.head_dim = D;
  A.out_stride = A.q_stride = S.Heads * D;
  A.k_stride = A.v_stride = S.KvHeads * D;
  if (S.Packed) {
    A.k_offset = S.Heads * D;
    A.v_offset = A.k_offset + S.KvHeads * D;
    A.q_stride = A.k_stride = A.v_stride = A.v_offset + S.KvHeads * D;
  }
  A.window = S.Window;
  A.cap = S.Cap;
  A.scale = 0.3;
  A.causal = 1;
  A.type = S.Type;
  Desc.tokens = S.Tokens;

  std::mt19937 Random(1);
  Array Q(static_cast<size_t>(Batch * S.Length * A.q_stride), S.Type), K = Q,
                                                                       V = Q;
  Q.fill(Random);
  K.fill(Random);
  V.fill(Random);
  Array Sinks(static_cast<size_t>(S.Heads), S.Type);
  Sinks.fill(Random);
  Desc.sinks = S.HasSinks;
  auto Row = [&](int64_t Sample, int64_t Token) {
    return Sample * S.Length + Token;
  };
  auto Read = [](const Array &X, int64_t Row, int64_t Stride, int64_t Column) {
    return static_cast<double>(
        X.get(static_cast<size_t>(Row * Stride + Column)));
  };
  auto GetKey = [&](int64_t R, int64_t C) {
    return Read(S.Packed ? Q : K, R, A.k_stride, A.k_offset + C);
  };
  auto GetValue = [&](int64_t R, int64_t C) {
    return Read(S.Packed ? Q : V, R, A.v_stride, A.v_offset + C);
  };
  auto Expect = [&](int64_t Sample, int64_t Token, int64_t Head, int64_t C) {
    double Sum = 0, Total = S.HasSinks
                                ? std::exp(Sinks.get(static_cast<size_t>(Head)))
                                : 0.0;
    int64_t First = S.Window ? std::max<int64_t>(0, Token - S.Window + 1) : 0;
    for (int64_t J = First; J <= Token; ++J) {
      double Score = 0;
      for (int64_t I = 0; I < D; ++I)
        Score += Read(Q, Row(Sample, Token), A.q_stride, Head * D + I) *
                 GetKey(Row(Sample, J), Head / Group * D + I);
      Score *= A.scale;
      if (S.Cap > 0)
        Score = S.Cap * std::tanh(Score / S.Cap);
      Total += std::exp(Score);
      Sum += std::exp(Score) * GetValue(Row(Sample, J), Head / Group * D + C);
    }
    return Sum / Total;
  };

  Array Keys(static_cast<size_t>(Batch * A.seq_len * S.KvHeads * D), S.Type),
      Caches = Keys;
  double Worst = 0;
  for (int64_t First = 0; First < S.Length; First += S.Tokens) {
    std::vector<int32_t> Positions;
    Array Queries(static_cast<size_t>(Batch * S.Tokens * A.q_stride), S.Type),
        NewKeys(static_cast<size_t>(Batch * S.Tokens * A.k_stride), S.Type),
        NewValues = NewKeys,
        Out(static_cast<size_t>(Batch * S.Tokens * A.out_stride), S.Type);
    auto Copy = [&](const Array &From, Array &To, int64_t Stride, int64_t Old,
                    int64_t New) {
      for (int64_t C = 0; C < Stride; ++C)
        To.set(static_cast<size_t>(New * Stride + C),
               From.get(static_cast<size_t>(Old * Stride + C)));
    };
    for (int64_t Sample = 0; Sample < Batch; ++Sample)
      for (int64_t T = 0; T < S.Tokens; ++T) {
        int64_t At = std::min(First + T, S.Length - 1),
                New = Sample * S.Tokens + T;
        Positions.push_back(static_cast<int32_t>(At));
        Copy(Q, Queries, A.q_stride, Row(Sample, At), New);
        Copy(K, NewKeys, A.k_stride, Row(Sample, At), New);
        Copy(V, NewValues, A.v_stride, Row(Sample, At), New);
      }
    void *Args[] = {Queries.data(),
                    S.Packed ? Queries.data() : NewKeys.data(),
                    S.Packed ? Queries.data() : NewValues.data(),
                    Positions.data(),
                    Keys.data(),
                    Caches.data(),
                    Out.data(),
                    Sinks.data()};
    poplar_append_cache(&Desc, Args, Batch, 0, Batch * S.KvHeads);
    int64_t Blocks = (S.Tokens + POPLAR_CACHED_ATTENTION_BLOCK - 1) /
                     POPLAR_CACHED_ATTENTION_BLOCK;
    // In parts, as threads would.
    for (int64_t Part = 0; Part < Batch * S.KvHeads * Blocks; ++Part)
      poplar_cached_attention(&Desc, Args, Batch, Part, Part + 1);
    for (size_t I = 0; I < Positions.size(); ++I)
      for (int64_t C = 0; C < A.out_stride; ++C)
        Worst = std::max(
            Worst, std::fabs(Out.get(I * static_cast<size_t>(A.out_stride) +
                                     static_cast<size_t>(C)) -
                             Expect(static_cast<int64_t>(I) / S.Tokens,
                                    Positions[I], C / D, C % D)));
  }
  EXPECT_LE(Worst, S.Type == POPLAR_F32 ? 2e-6 : 5e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CachedAttentionTest,
    testing::Values(Shape{70, 4, 4, 16, 0, 0, true, 1, POPLAR_F32},
                    Shape{70, 4, 2, 16, 0, 0, false, 64, POPLAR_F32},
                    Shape{40, 6, 2, 20, 7, 0, false, 32, POPLAR_F32},
                    Shape{290, 3, 1, 8, 100, 2, false, 1, POPLAR_F32},
                    Shape{20, 2, 1, 256, 0, 0, false, 7, POPLAR_F32},
                    Shape{70, 3, 3, 36, 0, 5, true, 16, POPLAR_BF16},
                    Shape{70, 4, 2, 16, 9, 0, false, 1, POPLAR_F32, true},
                    Shape{40, 3, 1, 20, 0, 0, false, 16, POPLAR_BF16, true}));

namespace {
struct Product {
  int64_t Batch, Columns, Depth;
  bool Transposed, HasBias;
  int32_t Type;

  PoplarGemm describe() const {
    PoplarGemm Desc = {};
    Desc.m = 1;
    Desc.n = Columns;
    Desc.k = Depth;
    Desc.batched = 1;
    Desc.trans_b = Transposed;
    Desc.has_bias = HasBias;
    Desc.a_type = Desc.b_type = Desc.c_type = Type;
    return Desc;
  }
};
class RowProductTest : public testing::TestWithParam<Product> {};
} // namespace

TEST_P(RowProductTest, EqualsPlainLoops) {
  const Product P = GetParam();
  PoplarGemm Desc = P.describe();
  std::mt19937 Random(1);
  Array A(static_cast<size_t>(P.Batch * P.Depth), P.Type),
      B(static_cast<size_t>(P.Columns * P.Depth), P.Type),
      Bias(static_cast<size_t>(P.Columns), P.Type),
      C(static_cast<size_t>(P.Batch * P.Columns), P.Type), Parts = C;
  A.fill(Random);
  B.fill(Random);
  Bias.fill(Random);
  void *Args[] = {A.data(), B.data(), P.HasBias ? Bias.data() : nullptr,
                  C.data()};
  poplar_row_product(&Desc, Args, P.Batch, 0, P.Columns);
  for (int64_t Row = 0; Row < P.Batch; ++Row)
    for (int64_t Column = 0; Column < P.Columns; ++Column) {
      double Sum = P.HasBias ? Bias.get(static_cast<size_t>(Column)) : 0;
      for (int64_t I = 0; I < P.Depth; ++I)
        Sum +=
            static_cast<double>(A.get(static_cast<size_t>(Row * P.Depth + I))) *
            B.get(static_cast<size_t>(P.Transposed ? Column * P.Depth + I
                                                   : I * P.Columns + Column));
      EXPECT_NEAR(C.get(static_cast<size_t>(Row * P.Columns + Column)), Sum,
                  P.Type == POPLAR_F32 ? 1e-4 : 1e-2 * std::fabs(Sum) + 1e-2)
          << Row << ", " << Column;
    }
  // The same bits, however it is divided.
  Args[3] = Parts.data();
  for (int64_t First = 0; First < P.Columns; First += 48)
    poplar_row_product(&Desc, Args, P.Batch, First,
                       std::min(First + 48, P.Columns));
  EXPECT_EQ(C.Bytes, Parts.Bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RowProductTest,
    testing::Values(Product{1, 99, 77, true, true, POPLAR_F32},
                    Product{1, 99, 77, false, true, POPLAR_F32},
                    Product{6, 64, 50, true, false, POPLAR_F32},
                    Product{6, 64, 50, false, false, POPLAR_F32},
                    Product{1, 1100, 21, false, true, POPLAR_F32},
                    Product{2, 50, 48, true, true, POPLAR_BF16},
                    Product{5, 50, 48, false, true, POPLAR_BF16}));

namespace {
class QuantizedRowProductTest
    : public testing::TestWithParam<std::tuple<int32_t, Product>> {};
} // namespace

// The bits of the product of the matrix's values.
TEST_P(QuantizedRowProductTest, EqualsTheProductOfTheValues) {
  const auto [Format, P] = GetParam();
  std::mt19937 Random(1);
  QuantizedMatrix B(Format, P.Transposed ? P.Columns : P.Depth,
                    P.Transposed ? P.Depth : P.Columns, Random);
  Array A(static_cast<size_t>(P.Batch * P.Depth), P.Type),
      Plain(static_cast<size_t>(P.Columns * P.Depth), P.Type),
      C(static_cast<size_t>(P.Batch * P.Columns), P.Type), Expected = C;
  A.fill(Random);
  for (int64_t I = 0; I < P.Columns * P.Depth; ++I)
    Plain.set(static_cast<size_t>(I),
              P.Type == POPLAR_BF16 ? roundToBF16(B.get(I)) : B.get(I));
  PoplarGemm Desc = P.describe();
  void *Args[] = {A.data(), Plain.data(), nullptr, Expected.data()};
  poplar_row_product(&Desc, Args, P.Batch, 0, P.Columns);
  Desc.b_type = Format;
  Args[1] = B.Bytes.data();
  Args[3] = C.data();
  poplar_row_product(&Desc, Args, P.Batch, 0, P.Columns);
  EXPECT_EQ(C.Bytes, Expected.Bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, QuantizedRowProductTest,
    testing::Combine(
        testing::Values(POPLAR_NF4, POPLAR_NF4_DOUBLE, POPLAR_INT8),
        testing::Values(Product{1, 37, 80, true, false, POPLAR_F32},
                        Product{1, 80, 37, false, false, POPLAR_F32},
                        Product{5, 11, 1040, true, false, POPLAR_F32},
                        Product{5, 1120, 19, false, false, POPLAR_F32},
                        Product{2, 50, 48, true, false, POPLAR_BF16},
                        Product{2, 48, 50, false, false, POPLAR_BF16})));
