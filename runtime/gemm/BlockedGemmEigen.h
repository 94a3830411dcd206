//===- BlockedGemmEigen.h - A slice of a product by Eigen -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by one file for each instruction set, which gives Eigen's namespace
// a name of its own: templates with the same name, compiled for unlike
// instruction sets, would be merged by the linker.
//
// Eigen's packing and its innermost kernel are called with memory of ours.
// Eigen's own product allocates that memory at every call.
//
//===----------------------------------------------------------------------===//

#define EIGEN_DONT_PARALLELIZE
#define EIGEN_MPL2_ONLY
#include <Eigen/Core>

#include "gemm/BlockedGemmSlice.h"

#include <algorithm>

namespace poplar::runtime::POPLAR_EIGEN {

using namespace ::Eigen::internal;

/// The initial values that products are added to: zeros, the bias or C. C is
/// brought into a cache, as the kernel would wait for every row of it.
inline void startTile(const GemmSlice &S, bool IsFirst, int64_t Row,
                      int64_t Height, int64_t Column, int64_t Width) {
  const PoplarGemm &G = *S.Gemm;
  bool Holds = !IsFirst || G.accumulate;
  bool AddsBias = IsFirst && S.Bias;
  constexpr int64_t Line = 64 / sizeof(float);
  for (int64_t R = Row; R < Row + Height; ++R) {
    float *To = S.C + R * G.n + Column;
    if (Holds && !AddsBias) {
      for (int64_t I = 0; I < Width; I += Line)
        __builtin_prefetch(To + I);
      __builtin_prefetch(To + Width - 1);
      continue;
    }
    for (int64_t I = 0; I < Width; ++I)
      To[I] = (Holds ? To[I] : 0.0f) + (AddsBias ? S.Bias[Column + I] : 0.0f);
  }
}

/// C^T += B^T A^T, all of them column-major in Eigen's words where ours are
/// row-major: op(A) and op(B) only choose the storage order.
template <int OrderOfA, int OrderOfB> void multiply(const GemmSlice &S) {
  using Traits = gebp_traits<float, float>;
  using MapA = const_blas_data_mapper<float, int64_t, OrderOfA>;
  using MapB = const_blas_data_mapper<float, int64_t, OrderOfB>;
  using MapC =
      blas_data_mapper<float, int64_t, Eigen::ColMajor, Eigen::Unaligned, 1>;
  static_assert(GemmSlice::Grain % Traits::mr == 0 &&
                    GemmSlice::BlockColumns % Traits::mr == 0 &&
                    GemmSlice::Grain % Traits::nr == 0 &&
                    GemmSlice::BlockRows % Traits::nr == 0 &&
                    GemmSlice::TileRows % Traits::nr == 0,
                "an element's tile must not depend on the slice");
  gemm_pack_lhs<float, int64_t, MapB, Traits::mr, Traits::LhsProgress,
                typename Traits::LhsPacket4Packing, OrderOfB>
      PackB;
  gemm_pack_rhs<float, int64_t, MapA, Traits::nr, OrderOfA> PackA;
  gebp_kernel<float, float, int64_t, MapC, Traits::mr, Traits::nr, false, false>
      AddBlock;
  const PoplarGemm &G = *S.Gemm;
  MapA A(S.A, G.trans_a ? G.m : G.k);
  MapB B(S.B, G.trans_b ? G.k : G.n);
  MapC C(S.C, G.n);
  float *PackedB = S.Packed, *PackedA = S.Packed + GemmSlice::countPackedB(G);

  for (int64_t Row = S.Rows.first; Row < S.Rows.second;
       Row += GemmSlice::BlockRows) {
    int64_t Height = std::min(GemmSlice::BlockRows, S.Rows.second - Row);
    for (int64_t First = 0; First < G.k; First += GemmSlice::PackedDepth) {
      int64_t End = std::min(First + GemmSlice::PackedDepth, G.k);
      for (int64_t Step = First; Step < End; Step += GemmSlice::Depth)
        PackA(PackedA + (Step - First) * Height, A.getSubMapper(Step, Row),
              std::min(GemmSlice::Depth, End - Step), Height);
      for (int64_t Column = S.Columns.first; Column < S.Columns.second;
           Column += GemmSlice::BlockColumns) {
        int64_t Width =
            std::min(GemmSlice::BlockColumns, S.Columns.second - Column);
        for (int64_t Step = First; Step < End; Step += GemmSlice::Depth) {
          int64_t Length = std::min(GemmSlice::Depth, End - Step);
          PackB(PackedB, B.getSubMapper(Column, Step), Length, Width);
          for (int64_t R = 0; R < Height; R += GemmSlice::TileRows) {
            int64_t Rows = std::min(GemmSlice::TileRows, Height - R);
            startTile(S, Step == 0, Row + R, Rows, Column, Width);
            AddBlock(C.getSubMapper(Column, Row + R), PackedB,
                     PackedA + (Step - First) * Height + R * Length, Width,
                     Length, Rows, 1.0f);
          }
        }
      }
    }
  }
}

inline void multiplySlice(const GemmSlice &S) {
  const PoplarGemm &G = *S.Gemm;
  constexpr int Rows = Eigen::RowMajor, Columns = Eigen::ColMajor;
  if (G.trans_a)
    G.trans_b ? multiply<Rows, Rows>(S) : multiply<Rows, Columns>(S);
  else
    G.trans_b ? multiply<Columns, Rows>(S) : multiply<Columns, Columns>(S);
}

} // namespace poplar::runtime::POPLAR_EIGEN
