//===- Optimizer.cpp - AdamW over the parameters of a program -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Optimizer.h"
#include "checkpoint/Tensors.h"
#include "job/Collectives.h"
#include "support/Cores.h"
#include "support/Random.h"
#include "training/Dispatch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace poplar::runtime;

/// Elements per partial sum of the norm, and per block handed to a thread.
static constexpr int64_t Chunk = POPLAR_SUM_CHUNK;

Optimizer::Optimizer(Executor &Exec, const AdamWSettings &Settings)
    : Exec(Exec), Settings(Settings) {
  int64_t Largest = 0;
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B)
    if (!Exec.program().buckets[B].frozen)
      Largest = std::max(Largest, Exec.state().shard(B).size());
  Partial.resize(static_cast<size_t>(Largest / Chunk + 1));
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
  double Sum = 0;
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B) {
    const Shard &S = Exec.state().shard(B);
    const PoplarBucket &Bucket = Exec.program().buckets[B];
    if (Bucket.frozen)
      continue;
    // Where all of a bucket is on several ranks, it counts once.
    int64_t First = Bucket.ranks ? Bucket.ranks[0] : 0;
    if (Exec.collectives && Exec.state().isWhole(B) &&
        Exec.state().rank() != First)
      continue;
    Exec.device().sumSquares(S.Gradient, S.size(), Partial.data());
    for (int64_t C = 0; C * Chunk < S.size(); ++C)
      Sum += Partial[static_cast<size_t>(C)];
  }
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
  if (Exec.model().Scaled)
    Scale = std::exp2(std::floor(std::log2(NewScale)));
}

/// Gradients go from rank to rank through a pipeline with the scale on them, so
/// there its ranks have the same.
void Optimizer::adaptScale() {
  if (!Exec.model().Scaled)
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
  for (const Piece &Part : Exec.state().pieces(Bucket)) {
    bool Decays = Program.parameters[Part.Parameter].decay;
    Hyper[4] = Decays ? static_cast<float>(Settings.WeightDecay) : 0.0f;
    float *Master = S.Master + Part.Offset,
          *Gradient = S.Gradient + Part.Offset;
    int64_t Count = Part.End - Part.Begin;
    if (Part.Offset < S.Int8States)
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

namespace {
/// What fills elements of a tensor with random numbers, `First` of which is
/// even.
using RandomFill = void(float *Out, int64_t First, int64_t Count, uint64_t Key,
                        float StdDev);
struct RandomArgs {
  RandomFill *Fill;
  uint64_t Key;
  float StdDev;
  int64_t First;
};
/// Elements that a thread makes at a time: even.
constexpr int64_t RandomGrain = 4096;
} // namespace

/// args: output from element `First` on, RandomArgs; extent: elements.
static void randomKernel(void *const *Args, int64_t, int64_t Begin,
                         int64_t End) {
  const RandomArgs &Random = *static_cast<const RandomArgs *>(Args[1]);
  Random.Fill(static_cast<float *>(Args[0]) + Begin, Random.First + Begin,
              End - Begin, Random.Key, Random.StdDev);
}

/// Elements [First, First + Count) of a tensor.
static void fillRun(int Threads, RandomFill *Fill, uint64_t Key, float StdDev,
                    float *Out, int64_t First, int64_t Count) {
  // They are made in pairs, from even elements on.
  if (First % 2) {
    float Pair[2];
    Fill(Pair, First - 1, 2, Key, StdDev);
    *Out++ = Pair[1];
    ++First;
    --Count;
  }
  RandomArgs Random{Fill, Key, StdDev, First};
  void *Args[] = {Out, &Random};
  dispatchRanges(Threads, randomKernel, Args, Count, Count, RandomGrain);
}

/// What a rank on a GPU computes with is one thread; its host's cores are idle
/// until training begins.
static int countInitThreads(Executor &Exec) {
  const PoplarProgram &Program = Exec.program();
  int Rank = Exec.state().rank();
  if (Exec.device().sharesMemory() || !Program.ranks)
    return Exec.threads();
  int Neighbours = 0;
  for (int64_t R = 0; R < Program.world_size; ++R)
    Neighbours +=
        std::strcmp(Program.ranks[R].node, Program.ranks[Rank].node) == 0;
  int Cores = static_cast<int>(getCores().size());
  return std::max(Exec.threads(), Cores / std::max(Neighbours, 1));
}

void poplar::runtime::initializeParameters(Executor &Exec, uint64_t Seed,
                                           bool OnlyTrained) {
  const PoplarProgram &Program = Exec.program();
  int Threads = countInitThreads(Exec);
  // Those of a tensor, whether the rank has all of it or a part.
  std::vector<Tensor> Tensors = listTensors(Program);
  for (size_t T = 0; T < Tensors.size(); ++T) {
    uint64_t Key = hashCounters(Seed, static_cast<uint64_t>(Stream::Init),
                                static_cast<int64_t>(T));
    for (int64_t I : Tensors[T].Parts) {
      const PoplarParameter &P = Program.parameters[I];
      if (OnlyTrained && Program.buckets[P.bucket].frozen)
        continue;
      fillParameter(Exec, I, [&](float *Out, int64_t Begin, int64_t End) {
        if (P.init == POPLAR_ZEROS || P.init == POPLAR_ONES) {
          std::fill_n(Out, End - Begin, P.init == POPLAR_ONES ? 1.0f : 0.0f);
          return;
        }
        fillRun(Threads, P.init == POPLAR_NORMAL ? fillNormals : fillUniforms,
                Key, static_cast<float>(P.std_dev), Out, Begin, End - Begin);
      });
    }
  }
}
