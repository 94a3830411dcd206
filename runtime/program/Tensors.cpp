//===- Tensors.cpp - Tensors of the model and their parts -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Tensors.h"

#include <algorithm>
#include <cstring>

using namespace poplar::runtime;

int64_t Tensor::countElements() const {
  int64_t Count = 1;
  for (int64_t D = 0; D < Rank; ++D)
    Count *= Shape[D];
  return Count;
}

std::vector<Tensor> poplar::runtime::listTensors(const PoplarProgram &Program) {
  std::vector<Tensor> Tensors;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    const PoplarSlice *S = P.slice;
    if (!S) {
      Tensors.push_back({P.name, P.rank, P.shape, {I}});
      continue;
    }
    // Parts of a tensor follow one another.
    if (Tensors.empty() || std::strcmp(Tensors.back().Name, S->tensor) != 0)
      Tensors.push_back({S->tensor, S->rank, S->shape, {}});
    Tensors.back().Parts.push_back(I);
  }
  return Tensors;
}

namespace {
/// Elements of a slice, seen as [outer][ranges][inner].
struct Layout {
  /// Elements of the dimensions after the divided one; size of the divided
  /// dimension in the tensor and in the slice.
  int64_t Inner = 1, Whole = 1, Part = 0;

  explicit Layout(const PoplarSlice &S) : Whole(S.shape[S.dim]) {
    for (int64_t D = S.dim + 1; D < S.rank; ++D)
      Inner *= S.shape[D];
    for (int64_t R = 0; R < S.num_ranges; ++R)
      Part += S.ranges[2 * R + 1] - S.ranges[2 * R];
  }
};
} // namespace

void poplar::runtime::forEachRun(
    const PoplarParameter &P, int64_t Begin, int64_t End,
    const std::function<void(int64_t, int64_t, int64_t)> &Visit) {
  if (!P.slice)
    return Visit(Begin, 0, End - Begin);
  const PoplarSlice &S = *P.slice;
  Layout L(S);
  int64_t Row = L.Part * L.Inner;
  for (int64_t At = Begin; At < End;) {
    int64_t Outer = At / Row, Rest = At % Row, Before = 0;
    for (int64_t R = 0; R < S.num_ranges; ++R) {
      int64_t Size = (S.ranges[2 * R + 1] - S.ranges[2 * R]) * L.Inner;
      if (Rest < Before + Size) {
        int64_t Into = Rest - Before, Count = std::min(Size - Into, End - At);
        Visit((Outer * L.Whole + S.ranges[2 * R]) * L.Inner + Into, At - Begin,
              Count);
        At += Count;
        break;
      }
      Before += Size;
    }
  }
}

int64_t poplar::runtime::countElementsBefore(const PoplarParameter &P,
                                             int64_t Index) {
  if (!P.slice)
    return std::min(Index, P.elements);
  const PoplarSlice &S = *P.slice;
  Layout L(S);
  int64_t Row = L.Whole * L.Inner;
  int64_t Count = Index / Row * L.Part * L.Inner, Rest = Index % Row;
  for (int64_t R = 0; R < S.num_ranges; ++R)
    Count +=
        std::clamp<int64_t>(Rest - S.ranges[2 * R] * L.Inner, 0,
                            (S.ranges[2 * R + 1] - S.ranges[2 * R]) * L.Inner);
  return Count;
}
