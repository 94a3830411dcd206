//===- Optimizer.cpp - AdamW over the parameters of a program -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Optimizer.h"
#include "Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace poplar::runtime;

/// Elements per partial sum of the norm, and per block handed to a thread.
static constexpr int64_t Chunk = 16384;

Optimizer::Optimizer(Executor &Exec, const AdamWSettings &Settings)
    : Exec(Exec), Settings(Settings) {
  const PoplarProgram &P = Exec.program();
  int64_t Largest = 0;
  for (int64_t I = 0; I < P.num_parameters; ++I)
    Largest = std::max(Largest, P.parameters[I].elements);
  Partial.resize(static_cast<size_t>(Largest / Chunk + 1));
}

static void zeroKernel(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  std::memset(static_cast<float *>(Args[0]) + Begin, 0,
              static_cast<size_t>(End - Begin) * sizeof(float));
}

void Optimizer::zeroGradients() {
  const PoplarProgram &Program = Exec.program();
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    void *Args[] = {Exec.fixed(P.gradient)};
    Exec.dispatch(zeroKernel, Args, P.elements, P.elements, Chunk);
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

double Optimizer::getGradientNorm() {
  const PoplarProgram &Program = Exec.program();
  double Sum = 0;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    void *Args[] = {Exec.fixed(P.gradient), Partial.data()};
    Exec.dispatch(squareSumKernel, Args, P.elements, P.elements, Chunk);
    for (int64_t C = 0; C * Chunk < P.elements; ++C)
      Sum += Partial[static_cast<size_t>(C)];
  }
  return std::sqrt(Sum);
}

void Optimizer::update(int64_t Step, double Rate, double Norm) {
  double Scale =
      Settings.Clip > 0 && Norm > Settings.Clip ? Settings.Clip / Norm : 1.0;
  double T = static_cast<double>(Step + 1);
  float Hyper[8] = {static_cast<float>(Rate),
                    static_cast<float>(Settings.Beta1),
                    static_cast<float>(Settings.Beta2),
                    static_cast<float>(Settings.Epsilon),
                    0,
                    static_cast<float>(1 - std::pow(Settings.Beta1, T)),
                    static_cast<float>(1 - std::pow(Settings.Beta2, T)),
                    static_cast<float>(Scale)};
  const PoplarProgram &Program = Exec.program();
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    Hyper[4] = P.decay ? static_cast<float>(Settings.WeightDecay) : 0.0f;
    void *Args[] = {Exec.fixed(P.master), Exec.fixed(P.gradient),
                    Exec.fixed(P.moment1), Exec.fixed(P.moment2), Hyper};
    Exec.dispatch(Program.adamw, Args, P.elements, P.elements, Chunk);
  }
  Exec.convertWorking();
}

namespace {
struct NormalArgs {
  uint64_t Key;
  double StdDev;
};
} // namespace

/// args: output, NormalArgs; extent: elements, in ranges that begin at even
/// ones.
static void normalKernel(void *const *Args, int64_t, int64_t Begin,
                         int64_t End) {
  float *Out = static_cast<float *>(Args[0]);
  const NormalArgs &Normal = *static_cast<const NormalArgs *>(Args[1]);
  for (int64_t I = Begin; I < End; I += 2) {
    auto [First, Second] = normalPairAt(Normal.Key, I / 2);
    Out[I] = static_cast<float>(Normal.StdDev * First);
    if (I + 1 < End)
      Out[I + 1] = static_cast<float>(Normal.StdDev * Second);
  }
}

void poplar::runtime::initializeParameters(Executor &Exec, uint64_t Seed) {
  const PoplarProgram &Program = Exec.program();
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    float *Master = Exec.fixed(P.master);
    if (P.init == POPLAR_NORMAL) {
      NormalArgs Normal{
          hashCounters(Seed, static_cast<uint64_t>(Stream::Init), I),
          P.std_dev};
      void *Args[] = {Master, &Normal};
      Exec.dispatch(normalKernel, Args, P.elements, P.elements, Chunk);
    } else {
      std::fill_n(Master, P.elements, P.init == POPLAR_ONES ? 1.0f : 0.0f);
    }
  }
}
