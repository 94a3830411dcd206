//===- ChoiceBiases.cpp - What choices of experts add to scores -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/ChoiceBiases.h"
#include "Poplar/Runtime/Experts.h"
#include "support/Text.h"

using namespace poplar::runtime;

/// DeepSeek-V3's name, and that of AFMoE.
static bool isBias(const std::string &Name) {
  return endsWith(Name, ".e_score_correction_bias") ||
         endsWith(Name, ".expert_bias");
}

void poplar::runtime::divideBias(TensorFiles &Files, const std::string &Name,
                                 const Tensor &T) {
  const TensorView *View = Files.find(Name);
  if (!View || !isBias(T.Name) || T.Rank != 2 ||
      T.Shape[0] != POPLAR_BIAS_PARTS || View->Elements != T.Shape[1] ||
      View->ElementType == TensorView::Other)
    return;
  TensorView Rows = *View;
  Rows.Divided = View->Elements;
  Rows.Shape = {T.Shape[0], T.Shape[1]};
  Rows.Elements *= POPLAR_BIAS_PARTS;
  Files.replace(Name, {{Name, std::move(Rows)}});
}

void poplar::runtime::joinBiases(std::vector<TensorSource> &Tensors,
                                 bool Copies) {
  for (TensorSource &T : Tensors) {
    if (!isBias(T.Name) || T.Shape.size() != 2 ||
        T.Shape[0] != POPLAR_BIAS_PARTS)
      continue;
    int64_t Count = T.Shape[1];
    // Ernie's is a matrix.
    T.Shape = {Count};
    if (endsWith(T.Name, ".moe_statics.e_score_correction_bias"))
      T.Shape.insert(T.Shape.begin(), 1);
    T.Read = [Read = std::move(T.Read), Count, Copies,
              Sums = std::vector<float>()](int64_t Begin, int64_t End) mutable {
      Sums.assign(static_cast<size_t>(End - Begin), 0);
      for (int64_t Row = 0; Row < POPLAR_BIAS_PARTS; ++Row) {
        // All ranks read, one of them has the values.
        const float *Part = Read(Row * Count + Begin, Row * Count + End);
        for (size_t I = 0; Copies && I < Sums.size(); ++I)
          Sums[I] += Part[I];
      }
      return static_cast<const float *>(Sums.data());
    };
  }
}
