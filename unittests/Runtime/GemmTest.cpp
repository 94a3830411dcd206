//===- GemmTest.cpp - Matrix products against plain loops -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gemm/Gemm.h"
#include "gemm/GemmDescriptor.h"
#include "support/Error.h"
#include "support/ISA.h"
#include "support/Random.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <tuple>

using namespace poplar::runtime;

namespace {

float truncate(float Value, int32_t Type) {
  if (Type == POPLAR_F32)
    return Value;
  uint32_t Bits;
  std::memcpy(&Bits, &Value, 4);
  Bits &= 0xFFFF0000u;
  std::memcpy(&Value, &Bits, 4);
  return Value;
}

/// A matrix of some type, with its exact f32 values beside.
struct Matrix {
  Matrix(int64_t Size, int32_t Type, uint64_t Key)
      : Type(Type), Values(static_cast<size_t>(Size)), Half(Values.size()) {
    fillNormals(Values.data(), 0, Size, Key, 1);
    for (size_t I = 0; I < Values.size(); ++I) {
      Values[I] = truncate(Values[I], Type);
      uint32_t Bits;
      std::memcpy(&Bits, &Values[I], 4);
      Half[I] = static_cast<uint16_t>(Bits >> 16);
    }
  }
  void *data() {
    return Type == POPLAR_F32 ? static_cast<void *>(Values.data())
                              : static_cast<void *>(Half.data());
  }
  float result(size_t I) const {
    if (Type == POPLAR_F32)
      return Values[I];
    uint32_t Bits = static_cast<uint32_t>(Half[I]) << 16;
    float Value;
    std::memcpy(&Value, &Bits, 4);
    return Value;
  }

  int32_t Type;
  std::vector<float> Values;
  std::vector<uint16_t> Half;
};

/// Library scratch, aligned as that of an arena.
class AlignedScratch {
public:
  explicit AlignedScratch(int64_t Bytes)
      : Memory(static_cast<size_t>(Bytes + POPLAR_ALIGNMENT)) {}
  void *data() {
    void *Begin = Memory.data();
    size_t Space = Memory.size();
    return std::align(POPLAR_ALIGNMENT, Space - POPLAR_ALIGNMENT, Begin, Space);
  }

private:
  std::vector<char> Memory;
};

// trans_a, trans_b, accumulate, has_bias, batched, {a and b, c} types.
using Case = std::tuple<int, int, int, int, int, std::pair<int, int>>;

class GemmTest : public testing::TestWithParam<Case> {};

TEST_P(GemmTest, AgreesWithLoops) {
  auto [TransA, TransB, Accumulate, HasBias, Batched, Types] = GetParam();
  auto [InType, OutType] = Types;
  PoplarGemm Gemm{24,         33,      20,     Batched, TransA, TransB,
                  Accumulate, HasBias, InType, InType,  OutType};
  constexpr int64_t Batch = 3;
  int64_t M = Gemm.m * (Batched == 1 ? Batch : 1), N = Gemm.n,
          K = Gemm.k * (Batched == 2 ? Batch : 1);
  GemmCache Cache;
  try {
    Cache.prepare(Gemm, Batch);
  } catch (const Error &E) {
    // bf16 needs AVX-512; f32 runs everywhere.
    ASSERT_EQ(InType, POPLAR_BF16) << E.what();
    GTEST_SKIP() << E.what();
  }
  int64_t Bound = poplar_gemm_scratch_bytes(&Gemm, 4, 2);
  ASSERT_GE(Bound, Cache.getScratchBytes());
  AlignedScratch Scratch(Bound);
  Cache.setScratch(Scratch.data());

  Matrix A(M * K, InType, 1), B(K * N, InType, 2), C(M * N, OutType, 3),
      Bias(N, OutType, 4);
  std::vector<double> Expected(static_cast<size_t>(M * N));
  for (int64_t I = 0; I < M; ++I)
    for (int64_t J = 0; J < N; ++J) {
      size_t Index = static_cast<size_t>(I * N + J);
      double Sum = Accumulate ? C.Values[Index] : 0;
      if (HasBias)
        Sum += Bias.Values[static_cast<size_t>(J)];
      for (int64_t L = 0; L < K; ++L)
        Sum +=
            static_cast<double>(
                A.Values[static_cast<size_t>(TransA ? L * M + I : I * K + L)]) *
            B.Values[static_cast<size_t>(TransB ? J * K + L : L * N + J)];
      Expected[Index] = Sum;
    }
  Cache.run(Gemm, A.data(), B.data(), HasBias ? Bias.data() : nullptr, C.data(),
            Batch);
  double Tolerance = OutType == POPLAR_F32 ? 1e-4 : 0.2;
  for (size_t I = 0; I < Expected.size(); ++I)
    ASSERT_NEAR(C.result(I), Expected[I], Tolerance) << "element " << I;
}

INSTANTIATE_TEST_SUITE_P(
    AllForms, GemmTest,
    testing::Combine(testing::Values(0, 1), testing::Values(0, 1),
                     testing::Values(0, 1), testing::Values(0, 1),
                     testing::Values(0, 1, 2),
                     testing::Values(std::pair(0, 0), std::pair(1, 0),
                                     std::pair(1, 1))));

/// A product by blocks, whose C begins `Offset` elements behind a multiple of
/// 64 bytes.
std::vector<float> multiply(const PoplarGemm &Gemm, VectorKind Kind,
                            int Threads, size_t Offset) {
  const Matrix A(Gemm.m * Gemm.k, POPLAR_F32, 1),
      B(Gemm.k * Gemm.n, POPLAR_F32, 2);
  std::vector<float> Bias(static_cast<size_t>(Gemm.n), 0.3f);
  BlockedGemm Product(Gemm, 1, Threads, Kind);
  AlignedScratch Scratch(Product.getScratchBytes());
  size_t Size = static_cast<size_t>(Gemm.m * Gemm.n);
  std::vector<float> C(Size + 32, 0.5f);
  float *Begin = C.data();
  while (reinterpret_cast<uintptr_t>(Begin) % 64)
    ++Begin;
  Product.run(A.Values.data(), B.Values.data(), Bias.data(), Begin + Offset,
              Scratch.data());
  return {Begin + Offset, Begin + Offset + Size};
}

// More than one block along every dimension, and rests of tiles.
TEST(BlockedGemmTest, BitsDependNeitherOnThreadsNorOnAlignment) {
  const std::pair<VectorKind, bool> Kinds[] = {
      {VectorKind::AVX2, findMissing({"avx2", "fma"}).empty()},
      {VectorKind::SSE41, findMissing({"sse4_1"}).empty()}};
  for (auto [Kind, IsHere] : Kinds)
    for (int Transposed : {0, 1})
      for (int Accumulate : {0, 1}) {
        if (!IsHere)
          continue;
        PoplarGemm Gemm{151,        3083, 300,        0, Transposed, Transposed,
                        Accumulate, 1,    POPLAR_F32, 0, 0};
        std::vector<float> One = multiply(Gemm, Kind, 1, 0);
        for (int Threads : {2, 3})
          EXPECT_EQ(multiply(Gemm, Kind, Threads, 0), One) << Threads;
        EXPECT_EQ(multiply(Gemm, Kind, 2, 3), One);
      }
}

// More than one block along every dimension, against the single products of
// some elements of each.
TEST(BlockedGemmTest, BlocksAddUp) {
  std::optional<VectorKind> Kind;
  if (findMissing({"avx2", "fma"}).empty())
    Kind = VectorKind::AVX2;
  else if (findMissing({"sse4_1"}).empty())
    Kind = VectorKind::SSE41;
  if (!Kind)
    GTEST_SKIP() << "this processor lacks sse4_1";
  for (int Transposed : {0, 1})
    for (int Accumulate : {0, 1}) {
      PoplarGemm Gemm{563,        437, 1301,       0, Transposed, Transposed,
                      Accumulate, 1,   POPLAR_F32, 0, 0};
      Matrix A(Gemm.m * Gemm.k, POPLAR_F32, 1),
          B(Gemm.k * Gemm.n, POPLAR_F32, 2);
      std::vector<float> C = multiply(Gemm, *Kind, 1, 0);
      for (int64_t I = 0; I < Gemm.m; I += 7)
        for (int64_t J = 0; J < Gemm.n; J += 5) {
          double Sum = 0.3 + (Accumulate ? 0.5 : 0.0);
          for (int64_t L = 0; L < Gemm.k; ++L)
            Sum += static_cast<double>(
                       A.Values[Transposed ? L * Gemm.m + I : I * Gemm.k + L]) *
                   B.Values[Transposed ? J * Gemm.k + L : L * Gemm.n + J];
          ASSERT_NEAR(C[I * Gemm.n + J], Sum, 1e-3) << I << " " << J;
        }
    }
}

TEST(GemmScratch, CoversEveryBatchAndIsAligned) {
  PoplarGemm Gemm{64, 96, 128, 2, 1, 0, 1, 0, 0, 0, 0};
  int64_t Bound = poplar_gemm_scratch_bytes(&Gemm, 16, 2);
  EXPECT_EQ(Bound % POPLAR_ALIGNMENT, 0);
  for (int64_t Batch = 1; Batch <= 16; ++Batch)
    EXPECT_LE(poplar_gemm_scratch_bytes(&Gemm, Batch, 2), Bound);
}

TEST(GemmCacheTest, RefusesWhatWasNotPrepared) {
  PoplarGemm Gemm{4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0};
  GemmCache Cache;
  EXPECT_THROW(Cache.run(Gemm, nullptr, nullptr, nullptr, nullptr, 1), Error);
}

} // namespace
