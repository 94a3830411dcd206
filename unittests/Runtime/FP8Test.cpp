//===- FP8Test.cpp - Products of operands in 8 bits -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Runtime/FP8.h"
#include "gemm/FP8Operands.h"
#include "gemm/Gemm.h"
#include "support/Random.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <omp.h>
#include <vector>

using namespace poplar::runtime;

namespace {

/// FNV-1a.
struct Hash {
  uint64_t Value = 0xCBF29CE484222325u;
  void add(uint8_t Byte) { Value = (Value ^ Byte) * 0x100000001B3u; }
};

/// What PyTorch 2.15 says: tensor.to(torch.float8_e4m3fn) of all values of bf16
/// from -448 to 448, and the values of all codes but NaN.
TEST(FP8, CodesAreThoseOfPyTorch) {
  Hash Codes, Values;
  for (uint32_t Bits = 0; Bits < 0x10000; ++Bits)
    if (float Value = poplar_bits_float(Bits << 16); std::fabs(Value) <= 448)
      Codes.add(poplar_fp8_code(Value));
  EXPECT_EQ(Codes.Value, 0x2B5889FA6AD3C93u);
  for (int Code = 0; Code < 256; ++Code)
    if ((Code & 0x7F) != 0x7F) {
      uint32_t Bits =
          poplar_float_bits(poplar_fp8_value(static_cast<uint8_t>(Code)));
      for (int Byte = 0; Byte < 4; ++Byte)
        Values.add(static_cast<uint8_t>(Bits >> (8 * Byte)));
    }
  EXPECT_EQ(Values.Value, 0x9D09DDC37A47FA25u);
}

TEST(FP8, ScalesArePowersOfTwo) {
  const std::pair<float, int> Expected[] = {
      {0.0f, 48},      {1e-30f, 48}, {0.01f, 15},  {1.0f, 8},    {1.75f, 8},
      {1.7500001f, 7}, {448.0f, 0},  {449.0f, -1}, {6e-39f, 48}, {3e38f, -120}};
  for (auto [Largest, Exponent] : Expected) {
    float Scale = poplar_fp8_scale(poplar_magnitude_bits(Largest));
    EXPECT_EQ(Scale, std::ldexp(1.0f, Exponent)) << Largest;
    EXPECT_EQ(poplar_fp8_inverse(Scale), std::ldexp(1.0f, -Exponent));
  }
}

std::vector<float> makeMatrix(int64_t Rows, int64_t Columns, uint64_t Key) {
  std::vector<float> Values(static_cast<size_t>(Rows * Columns));
  fillNormals(Values.data(), 0, Rows * Columns, Key, 1);
  for (size_t I = 0; I < Values.size(); ++I)
    Values[I] = std::ldexp(Values[I], static_cast<int>(I % 7) - 3);
  return Values;
}

/// The nearest of all values that codes have, ties to an even code.
double findNearest(double Scaled) {
  int Best = 0;
  auto GetGap = [&](int Code) {
    return std::fabs(
        static_cast<double>(poplar_fp8_value(static_cast<uint8_t>(Code))) -
        std::fabs(Scaled));
  };
  for (int Code = 1; Code < 0x7F; ++Code)
    if (GetGap(Code) < GetGap(Best) ||
        (GetGap(Code) == GetGap(Best) && Code % 2 == 0))
      Best = Code;
  return std::copysign(poplar_fp8_value(static_cast<uint8_t>(Best)), Scaled);
}

/// Rounds `Count` elements, `Step` apart, by the definition.
void roundTogether(float *First, int64_t Count, int64_t Step) {
  double Largest = 0;
  for (int64_t I = 0; I < Count; ++I)
    Largest =
        std::max(Largest, std::fabs(static_cast<double>(First[I * Step])));
  int Exponent = 48;
  while (std::ldexp(Largest, Exponent) > 448)
    --Exponent;
  for (int64_t I = 0; I < Count; ++I)
    First[I * Step] = static_cast<float>(std::ldexp(
        findNearest(std::ldexp(static_cast<double>(First[I * Step]), Exponent)),
        -Exponent));
}

TEST(FP8, ProductsAreOfRoundedRows) {
  constexpr int64_t T = 3, N = 80, K = 48, Batch = 2, M = T * Batch;
  for (int32_t TransB : {0, 1}) {
    std::vector<float> A = makeMatrix(M, K, 1), B = makeMatrix(N, K, 2);
    // A row of zeros, and one that is small.
    for (int64_t I = 0; I < K; ++I) {
      A[static_cast<size_t>(K + I)] = 0;
      A[static_cast<size_t>(2 * K + I)] *= 1e-20f;
    }
    PoplarGemm Plain = {};
    Plain.m = T;
    Plain.n = N;
    Plain.k = K;
    Plain.batched = 1;
    Plain.trans_b = TransB;
    PoplarGemm Rounded = Plain;
    Rounded.fp8 = 1;
    GemmCache Cache;
    Cache.prepare(Plain, Batch);
    Cache.prepare(Rounded, Batch);
    EXPECT_LE(
        Cache.getScratchBytes(),
        poplar_gemm_scratch_bytes(&Rounded, Batch, omp_get_max_threads()));
    Cache.allocateScratch();
    std::vector<float> C(M * N), Expected(M * N);
    Cache.run(Rounded, A.data(), B.data(), nullptr, C.data(), Batch);
    for (int64_t I = 0; I < M; ++I)
      roundTogether(A.data() + I * K, K, 1);
    for (int64_t J = 0; J < N; ++J)
      roundTogether(B.data() + (TransB ? J * K : J), K, TransB ? 1 : N);
    Cache.run(Plain, A.data(), B.data(), nullptr, Expected.data(), Batch);
    EXPECT_EQ(C, Expected) << TransB;
  }
}

/// bf16 holds what rows are rounded to.
TEST(FP8, RowsInBF16AreThoseInF32) {
  constexpr int64_t Rows = 5, Columns = 200;
  std::vector<float> Wide = makeMatrix(Rows, Columns, 3), Expected(Wide.size());
  std::vector<uint16_t> Half(Wide.size()), Found(Wide.size());
  for (size_t I = 0; I < Wide.size(); ++I) {
    Half[I] = static_cast<uint16_t>(poplar_float_bits(Wide[I]) >> 16);
    Wide[I] = poplar_bits_float(static_cast<uint32_t>(Half[I]) << 16);
  }
  for (bool ByColumn : {false, true}) {
    auto Round = ByColumn ? roundColumns : roundRows;
    Round({Wide.data(), POPLAR_F32, Rows, Columns}, Expected.data());
    Round({Half.data(), POPLAR_BF16, Rows, Columns}, Found.data());
    for (size_t I = 0; I < Found.size(); ++I)
      ASSERT_EQ(poplar_bits_float(static_cast<uint32_t>(Found[I]) << 16),
                Expected[I]);
  }
}

TEST(FP8, RowsThatAreNotFiniteBecomeNaN) {
  for (float Bad : {std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> Values = makeMatrix(2, 16, 4), Found(Values.size());
    Values[3] = Bad;
    roundRows({Values.data(), POPLAR_F32, 2, 16}, Found.data());
    for (size_t I = 0; I < Found.size(); ++I)
      EXPECT_EQ(std::isnan(Found[I]), I < 16);
  }
}

} // namespace
