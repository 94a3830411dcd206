//===- Optimizer.cpp - AdamW over the parameters of a program -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Optimizer.h"
#include "Collectives.h"
#include "Random.h"

#include <algorithm>
#include <atomic>
#include <cmath>

using namespace poplar::runtime;

/// Elements per partial sum of the norm, and per block handed to a thread.
static constexpr int64_t Chunk = 16384;

Optimizer::Optimizer(Executor &Exec, const AdamWSettings &Settings)
    : Exec(Exec), Settings(Settings) {
  int64_t Largest = 0;
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B)
    Largest = std::max(Largest, Exec.state().shard(B).size());
  Partial.resize(static_cast<size_t>(Largest / Chunk + 1));
  Exec.optimizer = this;
}

void Optimizer::zeroGradients() {
  const PoplarProgram &Program = Exec.program();
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    const Shard &S = Exec.state().shard(B);
    bool Whole = Bucket.gradient >= 0;
    Exec.zero(Whole ? Exec.fixed(Bucket.gradient) : S.Gradient,
              (Whole ? Bucket.elements : S.size()) * getTypeBytes(POPLAR_F32));
  }
}

/// args: gradient, partial sums; extent: elements, in whole chunks. Eight
/// separate sums let the compiler use vectors without reordering; squares of
/// f32 are exact in f64, so FMA or not makes no difference either.
static void squareSumKernel(void *const *Args, int64_t, int64_t Begin,
                            int64_t End) {
  const float *Gradient = static_cast<const float *>(Args[0]);
  double *Partial = static_cast<double *>(Args[1]);
  for (int64_t First = Begin; First < End; First += Chunk) {
    int64_t Last = std::min(First + Chunk, End);
    double Lanes[8] = {};
    int64_t I = First;
    for (; I + 8 <= Last; I += 8)
      for (int L = 0; L < 8; ++L) {
        double X = Gradient[I + L];
        Lanes[L] += X * X;
      }
    for (int L = 0; I < Last; ++I, ++L) {
      double X = Gradient[I];
      Lanes[L] += X * X;
    }
    double Sum = 0;
    for (double Lane : Lanes)
      Sum += Lane;
    Partial[First / Chunk] = Sum;
  }
}

void Optimizer::norm() {
  double Sum = 0;
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B) {
    const Shard &S = Exec.state().shard(B);
    void *Args[] = {S.Gradient, Partial.data()};
    Exec.dispatch(squareSumKernel, Args, S.size(), S.size(), Chunk);
    for (int64_t C = 0; C * Chunk < S.size(); ++C)
      Sum += Partial[static_cast<size_t>(C)];
  }
  // Where everything is replicated, so is the sum.
  double Sums[2] = {Exec.program().stage > 0 || !Exec.collectives ||
                            Exec.state().rank() == 0
                        ? Sum
                        : 0,
                    OverflowHere ? 1.0 : 0.0};
  if (Exec.collectives)
    Exec.collectives->sum(Sums, 2);
  Norm = std::sqrt(Sums[0]);
  Overflowed = Sums[1] > 0;
  double Factor =
      Settings.Clip > 0 && Norm > Settings.Clip ? Settings.Clip / Norm : 1.0;
  bool Updates = std::isfinite(Norm) && !Overflowed;
  Hyper[7] = Updates ? static_cast<float>(Factor) : 0.0f;
}

/// args: gradients, factor, flag to set if one is not finite. Factors are
/// powers of two: nothing is rounded.
static void unscaleKernel(void *const *Args, int64_t, int64_t Begin,
                          int64_t End) {
  float *Gradients = static_cast<float *>(Args[0]);
  float Factor = *static_cast<const float *>(Args[1]);
  float Rest = 0;
  for (int64_t I = Begin; I < End; ++I) {
    Gradients[I] *= Factor;
    // 0, or NaN.
    Rest += Gradients[I] - Gradients[I]; // NOLINT(misc-redundant-expression)
  }
  if (Rest != 0)
    static_cast<std::atomic<bool> *>(Args[2])->store(true);
}

void Optimizer::unscale(int64_t Bucket, float *Gradients) {
  int64_t Elements = Exec.program().buckets[Bucket].elements;
  float Factor = static_cast<float>(1 / Scale);
  std::atomic<bool> Overflow{false};
  void *Args[] = {Gradients, &Factor, &Overflow};
  Exec.dispatch(unscaleKernel, Args, Elements, Elements, Chunk);
  OverflowHere |= Overflow.load();
}

void Optimizer::unscaleShards() {
  for (int64_t B = 0; B < Exec.program().num_buckets; ++B)
    unscale(B, Exec.state().shard(B).Gradient);
}

void Optimizer::setLossScale(double NewScale) {
  if (Exec.model().Precision == "f16")
    Scale = std::exp2(std::floor(std::log2(NewScale)));
}

/// Only a program that keeps gradients in f16 has a scale other than 1.
void Optimizer::adaptScale() {
  if (Exec.model().Precision != "f16")
    return;
  if (OverflowHere) {
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
    int64_t Elements = Part.End - Part.Begin;
    void *Args[] = {S.Master + Part.Offset, S.Gradient + Part.Offset,
                    S.Moment1 + Part.Offset, S.Moment2 + Part.Offset, Hyper};
    Exec.dispatch(Program.adamw, Args, Elements, Elements, Chunk);
  }
  if (Program.working_type != POPLAR_F32)
    Exec.convertWorking(S.Master, S.Working, S.size());
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
struct NormalArgs {
  uint64_t Key;
  double StdDev;
  int64_t First;
};
} // namespace

/// args: output from element `First` on, NormalArgs; extent: elements, in
/// ranges that begin at even ones.
static void normalKernel(void *const *Args, int64_t, int64_t Begin,
                         int64_t End) {
  float *Out = static_cast<float *>(Args[0]);
  const NormalArgs &Normal = *static_cast<const NormalArgs *>(Args[1]);
  for (int64_t I = Begin; I < End; I += 2) {
    auto [One, Other] = normalPairAt(Normal.Key, (Normal.First + I) / 2);
    Out[I] = static_cast<float>(Normal.StdDev * One);
    if (I + 1 < End)
      Out[I + 1] = static_cast<float>(Normal.StdDev * Other);
  }
}

void poplar::runtime::initializeParameters(Executor &Exec, uint64_t Seed) {
  const PoplarProgram &Program = Exec.program();
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    uint64_t Key = hashCounters(Seed, static_cast<uint64_t>(Stream::Init), I);
    fillParameter(Exec, I, [&](float *Out, int64_t Begin, int64_t End) {
      if (P.init != POPLAR_NORMAL) {
        std::fill_n(Out, End - Begin, P.init == POPLAR_ONES ? 1.0f : 0.0f);
        return;
      }
      NormalArgs Normal{Key, P.std_dev, Begin};
      void *Args[] = {Out, &Normal};
      Exec.dispatch(normalKernel, Args, End - Begin, End - Begin, Chunk);
    });
  }
}
