//===- BlockedGemm.cpp - Products in f32 without AVX-512 ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As in Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication (2008): a panel of B of at most Depth x Columns is packed for
// all threads; each packs its rows of A, Rows at a time, which stay in its L2;
// tiles of C are computed in registers.
//
// Along k, blocks begin at multiples of Depth whatever else is chosen, and a
// tile's elements are summed one by one: neither the threads nor the place in
// the tile make a difference to a bit.
//
//===----------------------------------------------------------------------===//

#include "BlockedGemm.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>
#include <omp.h>

using namespace poplar::runtime;

namespace {

constexpr int64_t TileRows = 6, Depth = 256, Rows = 24 * TileRows,
                  Columns = 3072;

int64_t roundUp(int64_t Size, int64_t Multiple) {
  return (Size + Multiple - 1) / Multiple * Multiple;
}

/// The rows of a tile, which need not be aligned, while the tile is computed.
inline void prefetch(const float *C, int64_t Stride, int64_t Width) {
  for (int64_t I = 0; I < TileRows; ++I, C += Stride) {
    __builtin_prefetch(C, 1, 3);
    __builtin_prefetch(C + Width - 1, 1, 3);
  }
}

/// Adds a tile of C, from packed operands of `Length` along k. `First`: C is
/// not read.
using Tile = void (*)(int64_t Length, const float *A, const float *B, float *C,
                      int64_t Stride, bool First);

__attribute__((target("avx2,fma"))) void
addTileAVX2(int64_t Length, const float *A, const float *B, float *C,
            int64_t Stride, bool First) {
  __m256 Sums[TileRows][2];
  prefetch(C, Stride, 16);
#pragma GCC unroll 6
  for (int I = 0; I < TileRows; ++I)
    Sums[I][0] = Sums[I][1] = _mm256_setzero_ps();
  for (int64_t L = 0; L < Length; ++L, A += TileRows, B += 16) {
    __m256 Low = _mm256_loadu_ps(B), High = _mm256_loadu_ps(B + 8);
#pragma GCC unroll 6
    for (int I = 0; I < TileRows; ++I) {
      __m256 X = _mm256_broadcast_ss(A + I);
      Sums[I][0] = _mm256_fmadd_ps(X, Low, Sums[I][0]);
      Sums[I][1] = _mm256_fmadd_ps(X, High, Sums[I][1]);
    }
  }
#pragma GCC unroll 6
  for (int I = 0; I < TileRows; ++I, C += Stride) {
    if (!First) {
      Sums[I][0] = _mm256_add_ps(Sums[I][0], _mm256_loadu_ps(C));
      Sums[I][1] = _mm256_add_ps(Sums[I][1], _mm256_loadu_ps(C + 8));
    }
    _mm256_storeu_ps(C, Sums[I][0]);
    _mm256_storeu_ps(C + 8, Sums[I][1]);
  }
}

__attribute__((target("sse4.1"))) void
addTileSSE41(int64_t Length, const float *A, const float *B, float *C,
             int64_t Stride, bool First) {
  __m128 Sums[TileRows][2];
  prefetch(C, Stride, 8);
#pragma GCC unroll 6
  for (int I = 0; I < TileRows; ++I)
    Sums[I][0] = Sums[I][1] = _mm_setzero_ps();
  for (int64_t L = 0; L < Length; ++L, A += TileRows, B += 8) {
    __m128 Low = _mm_loadu_ps(B), High = _mm_loadu_ps(B + 4);
#pragma GCC unroll 6
    for (int I = 0; I < TileRows; ++I) {
      __m128 X = _mm_set1_ps(A[I]);
      Sums[I][0] = _mm_add_ps(_mm_mul_ps(X, Low), Sums[I][0]);
      Sums[I][1] = _mm_add_ps(_mm_mul_ps(X, High), Sums[I][1]);
    }
  }
#pragma GCC unroll 6
  for (int I = 0; I < TileRows; ++I, C += Stride) {
    if (!First) {
      Sums[I][0] = _mm_add_ps(Sums[I][0], _mm_loadu_ps(C));
      Sums[I][1] = _mm_add_ps(Sums[I][1], _mm_loadu_ps(C + 4));
    }
    _mm_storeu_ps(C, Sums[I][0]);
    _mm_storeu_ps(C + 4, Sums[I][1]);
  }
}

/// Packs `Length` steps along k of `Count` lines into panels of `Width`, the
/// lines of a step beside each other, and zeros where the last panel has none.
/// An element lies at From[Line * LineStride + Step * StepStride].
template <int64_t Width>
void pack(const float *From, int64_t LineStride, int64_t StepStride,
          int64_t Count, int64_t Length, float *To) {
  for (int64_t Begin = 0; Begin < Count;
       Begin += Width, From += Width * LineStride, To += Width * Length) {
    int64_t Valid = std::min(Width, Count - Begin);
    if (Valid == Width && LineStride == 1) {
      for (int64_t Step = 0; Step < Length; ++Step)
        std::memcpy(To + Step * Width, From + Step * StepStride,
                    Width * sizeof(float));
    } else if (Valid == Width) {
      for (int64_t Step = 0; Step < Length; ++Step)
        for (int64_t Line = 0; Line < Width; ++Line)
          To[Step * Width + Line] = From[Line * LineStride + Step * StepStride];
    } else {
      for (int64_t Step = 0; Step < Length; ++Step)
        for (int64_t Line = 0; Line < Width; ++Line)
          To[Step * Width + Line] =
              Line < Valid ? From[Line * LineStride + Step * StepStride] : 0;
    }
  }
}

struct Range {
  int64_t Begin, End;
};

/// Part `Index` of `Count` of a range, cut at multiples of `Grain`.
Range cut(int64_t Size, int64_t Grain, int64_t Index, int64_t Count) {
  int64_t Grains = (Size + Grain - 1) / Grain;
  return {std::min(Grains * Index / Count * Grain, Size),
          std::min(Grains * (Index + 1) / Count * Grain, Size)};
}

/// What the threads of a product share.
struct Product {
  const BlockedGemm &Gemm;
  const float *A, *B, *Bias;
  float *C, *PackedB, *PackedA;
  int64_t M, N, K, TileColumns;
  Tile AddTile;
  /// Threads along m and along n, and all that pack.
  int64_t GridRows, GridColumns, Team;

  void runThread(int64_t Thread) const;
  void computeRows(Range Along, int64_t FirstColumn, Range PanelColumns,
                   Range K, float *Packed) const;
  void finishTile(float *To, int64_t Column, int64_t Height, int64_t Width,
                  bool First, const float *Sums) const;
};

} // namespace

/// A tile at the edge, or the first one along k, which adds the bias.
void Product::finishTile(float *To, int64_t Column, int64_t Height,
                         int64_t Width, bool First, const float *Sums) const {
  bool Reads = !First || Gemm.Gemm.accumulate;
  for (int64_t I = 0; I < Height; ++I, To += N, Sums += TileColumns)
    for (int64_t J = 0; J < Width; ++J) {
      float Sum = Sums[J];
      if (First && Bias)
        Sum += Bias[Column + J];
      To[J] = Reads ? Sum + To[J] : Sum;
    }
}

void Product::computeRows(Range Along, int64_t FirstColumn, Range PanelColumns,
                          Range Steps, float *Packed) const {
  int64_t Length = Steps.End - Steps.Begin;
  bool First = Steps.Begin == 0;
  for (int64_t Row = Along.Begin; Row < Along.End; Row += Rows) {
    int64_t Count = std::min(Rows, Along.End - Row);
    if (Gemm.Gemm.trans_a)
      pack<TileRows>(A + Steps.Begin * M + Row, 1, M, Count, Length, Packed);
    else
      pack<TileRows>(A + Row * K + Steps.Begin, K, 1, Count, Length, Packed);
    for (int64_t J = PanelColumns.Begin; J < PanelColumns.End;
         J += TileColumns) {
      const float *Panel = PackedB + J * Length;
      int64_t Width = std::min(TileColumns, PanelColumns.End - J);
      for (int64_t I = 0; I < Count; I += TileRows) {
        int64_t Height = std::min(TileRows, Count - I);
        float *To = C + (Row + I) * N + FirstColumn + J;
        if (Height == TileRows && Width == TileColumns && !(First && Bias)) {
          AddTile(Length, Packed + I * Length, Panel, To, N,
                  First && !Gemm.Gemm.accumulate);
          continue;
        }
        float Sums[TileRows * 16];
        AddTile(Length, Packed + I * Length, Panel, Sums, TileColumns, true);
        finishTile(To, FirstColumn + J, Height, Width, First, Sums);
      }
    }
  }
}

void Product::runThread(int64_t Thread) const {
  bool Computes = Thread < GridRows * GridColumns;
  float *Packed = PackedA + Thread * Rows * Depth;
  Range Along = cut(M, TileRows, Thread / GridColumns, GridRows);
  for (int64_t Column = 0; Column < N; Column += Columns) {
    int64_t Width = std::min(Columns, N - Column);
    Range Own = cut(Width, TileColumns, Thread, Team),
          Used = cut(Width, TileColumns, Thread % GridColumns, GridColumns);
    for (int64_t Step = 0; Step < K; Step += Depth) {
      Range Steps{Step, std::min(Step + Depth, K)};
      int64_t Length = Steps.End - Step, From = Column + Own.Begin;
      auto PackB = TileColumns == 16 ? pack<16> : pack<8>;
      bool Transposed = Gemm.Gemm.trans_b;
      PackB(Transposed ? B + From * K + Step : B + Step * N + From,
            Transposed ? K : 1, Transposed ? 1 : N, Own.End - Own.Begin, Length,
            PackedB + Own.Begin * Length);
#pragma omp barrier
      if (Computes)
        computeRows(Along, Column, Used, Steps, Packed);
        // The panel is packed again.
#pragma omp barrier
    }
  }
}

BlockedGemm::BlockedGemm(const PoplarGemm &Gemm, int64_t Batch, int Threads,
                         VectorKind Kind)
    : Gemm(Gemm), Threads(Threads), Kind(Kind) {
  if (Gemm.batched == 1)
    this->Gemm.m *= Batch;
  if (Gemm.batched == 2)
    this->Gemm.k *= Batch;
}

int64_t BlockedGemm::getScratchBytes() const {
  int64_t PanelColumns = roundUp(std::min(Gemm.n, Columns), 16);
  int64_t Elements =
      std::min(Gemm.k, Depth) * PanelColumns + int64_t(Threads) * Rows * Depth;
  return roundUp(Elements * static_cast<int64_t>(sizeof(float)),
                 POPLAR_ALIGNMENT);
}

void BlockedGemm::run(const float *A, const float *B, const float *Bias,
                      float *C, void *Scratch) const {
  int64_t TileColumns = Kind == VectorKind::AVX2 ? 16 : 8;
  float *PackedA = static_cast<float *>(Scratch);
  Product P{*this,
            A,
            B,
            Gemm.has_bias ? Bias : nullptr,
            C,
            PackedA + int64_t(Threads) * Rows * Depth,
            PackedA,
            Gemm.m,
            Gemm.n,
            Gemm.k,
            TileColumns,
            Kind == VectorKind::AVX2 ? addTileAVX2 : addTileSSE41,
            1,
            1,
            1};
  if (Threads == 1 || omp_in_parallel())
    return P.runThread(0);
  // Rows first: who shares them packs them twice.
  P.Team = Threads;
  P.GridRows = std::clamp<int64_t>(Gemm.m / (4 * TileRows), 1, Threads);
  P.GridColumns =
      std::clamp<int64_t>(Gemm.n / (2 * TileColumns), 1, Threads / P.GridRows);
#pragma omp parallel num_threads(Threads)
  P.runThread(omp_get_thread_num());
}
