//===- Optimizer.cpp - AdamW over the parameters of a program -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Optimizer.h"
#include "program/Collectives.h"
#include "program/Tensors.h"
#include "support/Cores.h"
#include "support/ParallelRanges.h"
#include "support/Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace poplar::runtime;

Optimizer::Optimizer(Executor &Exec, const AdamWSettings &Settings)
    : Exec(Exec), Settings(Settings) {
  int64_t Chunks = 0;
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B)
    if (!Exec.program().buckets[B].frozen)
      Chunks += countSumChunks(Exec.state().shard(B).size());
  Partial.resize(static_cast<size_t>(Chunks));
  Gradients.reserve(static_cast<size_t>(Exec.program().num_buckets));
  Exec.optimizer = this;
}

void Optimizer::zeroGradients() {
  const PoplarProgram &Program = Exec.program();
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    if (Bucket.frozen)
      continue;
    const Shard &S = Exec.state().shard(B);
    bool Whole = Bucket.gradient >= 0;
    Exec.device().zero(Whole ? Exec.fixed(Bucket.gradient) : S.Gradient,
                       (Whole ? Bucket.elements : S.size()) *
                           getTypeBytes(POPLAR_F32));
  }
}

void Optimizer::norm() {
  Gradients.clear();
  int64_t Chunks = 0;
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B) {
    const Shard &S = Exec.state().shard(B);
    // What is on several ranks counts once.
    if (Exec.program().buckets[B].frozen ||
        (Exec.collectives && !Exec.state().leads(B)))
      continue;
    Gradients.push_back({S.Gradient, S.size()});
    Chunks += countSumChunks(S.size());
  }
  Exec.device().sumSquares(Gradients, Partial.data());
  double Sum = 0;
  for (int64_t C = 0; C < Chunks; ++C)
    Sum += Partial[static_cast<size_t>(C)];
  OverflowHere |= Exec.device().takeOverflow();
  double Sums[2] = {Sum, OverflowHere ? 1.0 : 0.0};
  if (Exec.collectives)
    Exec.collectives->sum(Sums, 2);
  Norm = std::sqrt(Sums[0]);
  Overflowed = Sums[1] > 0;
  double Factor =
      Settings.Clip > 0 && Norm > Settings.Clip ? Settings.Clip / Norm : 1.0;
  bool Updates = std::isfinite(Norm) && !Overflowed;
  Hyper[7] = Updates ? static_cast<float>(Factor) : 0.0f;
}

void Optimizer::unscale(int64_t Bucket, float *Gradients) {
  Exec.device().scale(Gradients, Exec.program().buckets[Bucket].elements,
                      static_cast<float>(1 / Scale));
}

void Optimizer::unscaleShards() {
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B)
    if (!Exec.program().buckets[B].frozen)
      unscale(B, Exec.state().shard(B).Gradient);
}

void Optimizer::setLossScale(double NewScale) {
  if (Exec.model().scaled)
    Scale = std::exp2(std::floor(std::log2(NewScale)));
}

/// Gradients go from rank to rank through a pipeline with the scale on them, so
/// there its ranks have the same.
void Optimizer::adaptScale() {
  if (!Exec.model().scaled)
    return;
  if (Exec.pipeline() ? Overflowed : OverflowHere) {
    Scale = std::max(Scale / 2, 1.0);
    StepsSinceOverflow = 0;
  } else if (++StepsSinceOverflow == ScaleInterval) {
    Scale = std::min(Scale * 2, LargestScale);
    StepsSinceOverflow = 0;
  }
}

void Optimizer::adamw(int64_t Bucket) {
  if (Hyper[7] == 0)
    return;
  const PoplarProgram &Program = Exec.program();
  const Shard &S = Exec.state().shard(Bucket);
  const std::vector<Piece> &Pieces = Exec.state().pieces(Bucket);
  for (size_t I = 0; I < Pieces.size();) {
    const Piece &Part = Pieces[I];
    bool Decays = Program.parameters[Part.Parameter].decay,
         HasBlocks = Part.Offset < S.BlockStates;
    Hyper[4] = Decays ? static_cast<float>(Settings.WeightDecay) : 0.0f;
    float *Master = S.Master + Part.Offset,
          *Gradient = S.Gradient + Part.Offset;
    // Neighbours that decay alike are updated at once, unless their moments are
    // in blocks, which begin with each of them.
    int64_t Count = 0;
    do {
      Count += Pieces[I].End - Pieces[I].Begin;
      ++I;
    } while (!HasBlocks && I < Pieces.size() &&
             Pieces[I].Offset == Part.Offset + Count &&
             Program.parameters[Pieces[I].Parameter].decay == Decays);
    if (HasBlocks)
      Exec.device().updateAdamW(Master, Gradient, S.Blocks1.from(Part.Offset),
                                S.Blocks2.from(Part.Offset), Hyper, Count);
    else
      Exec.device().updateAdamW(
          Master, Gradient, S.find(&Shard::Moment1, Part.Offset),
          S.find(&Shard::Moment2, Part.Offset), Hyper, Count);
  }
  if (Program.working_type != POPLAR_F32)
    Exec.device().convertWorking(S.Master, S.Working, S.size());
}

double Optimizer::update(int64_t Step, double Rate) {
  double T = static_cast<double>(Step + 1);
  Hyper[0] = static_cast<float>(Rate);
  Hyper[1] = static_cast<float>(Settings.Beta1);
  Hyper[2] = static_cast<float>(Settings.Beta2);
  Hyper[3] = static_cast<float>(Settings.Epsilon);
  Hyper[5] = static_cast<float>(1 - std::pow(Settings.Beta1, T));
  Hyper[6] = static_cast<float>(1 - std::pow(Settings.Beta2, T));
  Exec.update();
  adaptScale();
  OverflowHere = false;
  return Norm;
}
