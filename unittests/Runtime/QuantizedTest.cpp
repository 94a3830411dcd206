//===- QuantizedTest.cpp - Matrices of few bits ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values are compared with a second implementation in
// test/Integration/Adapters/qlora.test.
//
//===----------------------------------------------------------------------===//

#include "program/Quantized.h"
#include "comm/Wire.h"
#include "gemm/Gemm.h"
#include "program/QuantizedParts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <omp.h>
#include <vector>

using namespace poplar::runtime;

namespace {

constexpr int32_t Formats[] = {POPLAR_NF4, POPLAR_NF4_DOUBLE, POPLAR_INT8};

std::vector<float> makeMatrix(int64_t Rows, int64_t Columns) {
  std::vector<float> Values(static_cast<size_t>(Rows * Columns));
  for (size_t I = 0; I < Values.size(); ++I)
    Values[I] = 0.02f * std::sin(static_cast<float>(I) * 1.7f);
  return Values;
}

std::vector<char> pack(int32_t Format, int64_t Rows, int64_t Columns,
                       const std::vector<float> &Values) {
  std::vector<char> Bytes(static_cast<size_t>(
      poplar_quantized_layout(Format, Rows, Columns).bytes));
  EXPECT_TRUE(quantize(Format, Rows, Columns, Values.data(), Bytes.data()));
  return Bytes;
}

std::vector<float> unpack(int32_t Format, int64_t Rows, int64_t Columns,
                          const std::vector<char> &Bytes) {
  std::vector<float> Values(static_cast<size_t>(Rows * Columns));
  dequantize(Format, Rows, Columns, Bytes.data(), 0, Rows * Columns, POPLAR_F32,
             Values.data());
  return Values;
}

TEST(Quantized, ValuesStayNearAndRoundedOnesStay) {
  for (int32_t Format : Formats)
    for (auto [Rows, Columns] : {std::pair(64, 64), {5, 13}, {3, 176}}) {
      std::vector<float> Values = makeMatrix(Rows, Columns);
      std::vector<float> Once =
          unpack(Format, Rows, Columns, pack(Format, Rows, Columns, Values));
      // Half of the widest gap between values of NF4; of int8.
      float Most = 0.02f * (Format == POPLAR_INT8 ? 0.5f / 127 : 0.16f);
      for (size_t I = 0; I < Values.size(); ++I)
        EXPECT_NEAR(Once[I], Values[I], Most) << Format << " " << I;
      if (Format == POPLAR_NF4) {
        EXPECT_EQ(
            unpack(Format, Rows, Columns, pack(Format, Rows, Columns, Once)),
            Once);
      }
    }
}

// Against a search of the map's values: of all blocks of magnitude 1, the
// nearest ones and those around them.
TEST(Quantized, CodesOfMomentsAreTheNearest) {
  for (bool IsSigned : {true, false}) {
    const std::array<float, 256> &Map =
        IsSigned ? getDynamicMap() : getUnsignedDynamicMap();
    EXPECT_TRUE(std::is_sorted(Map.begin(), Map.end()));
    EXPECT_EQ(Map[255], 1.0f);
    EXPECT_EQ(Map[IsSigned ? 127 : 0], 0.0f);
    std::vector<float> Values;
    for (size_t I = 0; I + 1 < Map.size(); ++I) {
      float Middle = (Map[I] + Map[I + 1]) / 2;
      for (float Value : {Map[I], Middle, std::nextafter(Middle, -2.0f),
                          std::nextafter(Middle, 2.0f)})
        Values.push_back(Value);
    }
    for (float Value = 1; Value > 1e-12f; Value *= 0.97f) {
      Values.push_back(Value);
      Values.push_back(IsSigned ? -Value : Value / 3);
    }
    for (size_t First = 0; First < Values.size(); First += 255) {
      size_t Count = std::min<size_t>(255, Values.size() - First);
      float Block[256];
      std::copy_n(Values.begin() + static_cast<ptrdiff_t>(First), Count, Block);
      Block[Count] = 1;
      uint8_t Codes[256];
      float Scale = MomentFormat{8, IsSigned}.quantize(
          Block, static_cast<int64_t>(Count) + 1, Codes);
      EXPECT_EQ(Scale, 1.0f);
      for (size_t I = 0; I <= Count; ++I) {
        size_t Nearest = 0;
        for (size_t C = 1; C < Map.size(); ++C)
          if (Block[I] > (Map[C - 1] + Map[C]) / 2)
            Nearest = C;
        EXPECT_EQ(Codes[I], Nearest) << Block[I];
      }
    }
  }
}

TEST(Quantized, MomentsComeBack) {
  std::vector<float> Values = makeMatrix(1, 256), Back(256);
  std::vector<uint8_t> Codes(256);
  Values[7] = -0.5f; // the largest magnitude
  MomentFormat Signed{8, true}, Unsigned{8, false};
  float Scale = Signed.quantize(Values.data(), 256, Codes.data());
  EXPECT_EQ(Scale, 0.5f);
  Signed.dequantize(Codes.data(), Scale, 256, Back.data());
  for (size_t I = 0; I < Values.size(); ++I)
    EXPECT_NEAR(Back[I], Values[I], 0.5f / 64) << I;
  // A block of zeros has no scale.
  std::fill(Values.begin(), Values.end(), 0.0f);
  Scale = Unsigned.quantize(Values.data(), 200, Codes.data());
  Unsigned.dequantize(Codes.data(), Scale, 200, Back.data());
  EXPECT_EQ(Scale, 0.0f);
  for (size_t I = 0; I < 200; ++I)
    EXPECT_EQ(Back[I], 0.0f);
}

// Against a search of all values of the map; the greater of two is taken.
TEST(Quantized, CodesOfFourBitsAreTheNearest) {
  for (bool IsSigned : {true, false}) {
    MomentFormat Format{4, IsSigned};
    float Map[16];
    uint8_t All[16];
    std::iota(All, All + 16, uint8_t(0));
    Format.dequantize(All, 1, 16, Map);
    EXPECT_TRUE(std::is_sorted(Map, Map + 16));
    std::vector<float> Values = {1, 0, 1e-9f, IsSigned ? -1.0f : 0.01f};
    for (size_t I = 0; I + 1 < 16; ++I) {
      float Middle = Map[I] + (Map[I + 1] - Map[I]) * 0.5f;
      for (float Value : {Map[I], Middle, std::nextafter(Middle, -2.0f),
                          std::nextafter(Middle, 2.0f)})
        Values.push_back(Value);
    }
    std::vector<uint8_t> Codes(Values.size()), Packed(Values.size() / 2),
        Back(Values.size());
    auto Count = static_cast<int64_t>(Values.size());
    EXPECT_EQ(Format.quantize(Values.data(), Count, Codes.data()), 1.0f);
    for (size_t I = 0; I < Values.size(); ++I) {
      size_t Nearest = 0;
      for (size_t C = 1; C < 16; ++C)
        if (Values[I] - Map[C - 1] >= (Map[C] - Map[C - 1]) * 0.5f)
          Nearest = C;
      EXPECT_EQ(Codes[I], Nearest) << Values[I];
    }
    packCodes(4, Codes.data(), Count, Packed.data());
    unpackCodes(4, Packed.data(), Count, Back.data());
    EXPECT_EQ(Back, Codes);
  }
  // A block of zeros has a scale, and second moments of it are not 0.
  float Zeros[256] = {};
  uint8_t Codes[256];
  EXPECT_EQ((MomentFormat{4, false}.quantize(Zeros, 256, Codes)), 1e-12f);
  EXPECT_EQ(Codes[0], 0);
}

TEST(Quantized, RangesAndNarrowFormatsAreThoseOfTheWhole) {
  constexpr int64_t Rows = 6, Columns = 48, Begin = 64, End = 201;
  for (int32_t Format : Formats) {
    std::vector<char> Bytes =
        pack(Format, Rows, Columns, makeMatrix(Rows, Columns));
    std::vector<float> Whole = unpack(Format, Rows, Columns, Bytes);
    for (int32_t Type : {POPLAR_F32, POPLAR_BF16, POPLAR_F16}) {
      auto Wire = static_cast<comm::Type>(Type);
      auto Size = static_cast<size_t>((End - Begin) * comm::getBytes(Wire));
      std::vector<char> Part(Size), Expected(Size);
      dequantize(Format, Rows, Columns, Bytes.data(), Begin, End, Type,
                 Part.data());
      comm::convert(Whole.data() + Begin, comm::Type::F32, Expected.data(),
                    Wire, End - Begin);
      EXPECT_EQ(Part, Expected) << Format << " " << Type;
    }
  }
}

TEST(Quantized, ZerosStayAndOthersThanNumbersAreRefused) {
  for (int32_t Format : Formats) {
    std::vector<float> Values(128);
    EXPECT_EQ(unpack(Format, 2, 64, pack(Format, 2, 64, Values)), Values);
    Values[70] = 1e-44f;
    for (float Value : unpack(Format, 2, 64, pack(Format, 2, 64, Values)))
      EXPECT_TRUE(std::fabs(Value) < 1e-38f) << Format << " " << Value;
    std::vector<char> Bytes(
        static_cast<size_t>(poplar_quantized_layout(Format, 2, 64).bytes));
    for (float Bad : {INFINITY, NAN}) {
      Values[70] = Bad;
      EXPECT_FALSE(quantize(Format, 2, 64, Values.data(), Bytes.data()));
    }
  }
}

/// A product with a quantised weight is that with the weight's values.
TEST(Quantized, ProductsTakeTheValues) {
  constexpr int64_t T = 3, N = 40, K = 24, Batch = 2;
  std::vector<float> A = makeMatrix(T * Batch, K);
  for (int32_t Format : Formats)
    for (int32_t TransB : {0, 1}) {
      int64_t Rows = TransB ? N : K, Columns = TransB ? K : N;
      std::vector<char> Bytes =
          pack(Format, Rows, Columns, makeMatrix(Rows, Columns));
      std::vector<float> B = unpack(Format, Rows, Columns, Bytes);
      PoplarGemm Plain = {};
      Plain.m = T;
      Plain.n = N;
      Plain.k = K;
      Plain.batched = 1;
      Plain.trans_b = TransB;
      PoplarGemm Quantized = Plain;
      Quantized.b_type = Format;
      GemmCache Cache;
      Cache.prepare(Plain, Batch);
      Cache.prepare(Quantized, Batch);
      EXPECT_LE(
          Cache.getScratchBytes(),
          poplar_gemm_scratch_bytes(&Quantized, Batch, omp_get_max_threads()));
      EXPECT_GE(Cache.getScratchBytes(), N * K * 4);
      Cache.allocateScratch();
      std::vector<float> C(T * Batch * N), Expected(C.size());
      Cache.run(Plain, A.data(), B.data(), nullptr, Expected.data(), Batch);
      Cache.run(Quantized, A.data(), Bytes.data(), nullptr, C.data(), Batch);
      EXPECT_EQ(C, Expected) << Format << " " << TransB;
    }
}

// Ranges of rows and of columns; one that cuts blocks of scales, and one that
// does not.
TEST(Quantized, PartsHaveTheValuesOfTheWhole) {
  constexpr int64_t Rows = 96, Columns = 512;
  std::vector<float> Values = makeMatrix(Rows, Columns);
  struct Case {
    int64_t Dim;
    std::vector<int64_t> Ranges;
  };
  for (int32_t Format : Formats)
    for (const Case &C : {Case{0, {32, 64}}, Case{0, {3, 8, 40, 96}},
                          Case{1, {64, 192}}, Case{1, {0, 64, 448, 512}}}) {
      PoplarSlice Slice = {"w", 2, {Rows, Columns}, C.Dim, 0, C.Ranges.data()};
      Slice.num_ranges = static_cast<int64_t>(C.Ranges.size()) / 2;
      auto Cuts = [&](int64_t Block) {
        return poplar_cuts_blocks(2, Slice.shape, C.Dim, Slice.num_ranges,
                                  Slice.ranges, Block);
      };
      EXPECT_FALSE(Cuts(POPLAR_NF4_BLOCK));
      bool HasWideScales = Format == POPLAR_NF4_DOUBLE &&
                           Cuts(POPLAR_NF4_BLOCK * POPLAR_SCALE_BLOCK);
      PoplarParameter P = {};
      P.rank = 2;
      P.shape[0] = Rows;
      P.shape[1] = Columns;
      P.shape[C.Dim] = 0;
      for (size_t R = 0; R < C.Ranges.size(); R += 2)
        P.shape[C.Dim] += C.Ranges[R + 1] - C.Ranges[R];
      P.elements = P.shape[0] * P.shape[1];
      P.slice = &Slice;
      P.quantized = HasWideScales ? int32_t(POPLAR_NF4) : Format;
      EXPECT_EQ(getRoundedFormat(P, Format), Format);
      std::vector<float> Part = unpack(P.quantized, P.shape[0], P.shape[1],
                                       quantizeParameter(P, Format, Values));
      std::vector<float> Whole =
          unpack(Format, Rows, Columns, pack(Format, Rows, Columns, Values));
      std::vector<float> Expected;
      for (int64_t E = 0; E < Rows * Columns; ++E) {
        int64_t At = C.Dim == 0 ? E / Columns : E % Columns;
        for (size_t R = 0; R < C.Ranges.size(); R += 2)
          if (At >= C.Ranges[R] && At < C.Ranges[R + 1])
            Expected.push_back(Whole[static_cast<size_t>(E)]);
      }
      EXPECT_EQ(Part, Expected);
    }
  std::vector<int64_t> Odd = {0, 32};
  const int64_t Shape[] = {Rows, Columns};
  EXPECT_TRUE(poplar_cuts_blocks(2, Shape, 1, 1, Odd.data(), POPLAR_NF4_BLOCK));
  EXPECT_FALSE(
      poplar_cuts_blocks(2, Shape, 0, 1, Odd.data(), POPLAR_NF4_BLOCK));
}

} // namespace
