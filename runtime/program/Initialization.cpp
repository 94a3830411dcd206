//===- Initialization.cpp - Random parameters to start from ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Initialization.h"
#include "program/Executor.h"
#include "program/Tensors.h"
#include "support/Cores.h"
#include "support/ParallelRanges.h"
#include "support/Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace poplar::runtime;

namespace {
/// Fills elements of a tensor with random numbers, from the even number `First`
/// on.
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

/// A rank on a GPU computes with one thread, but the cores of its host are idle
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

static void fillLogUniforms(float *Out, int64_t First, int64_t Count,
                            uint64_t Key, float) {
  constexpr double Low = 0.01, High = 16;
  fillUniforms(Out, First, Count, Key,
               static_cast<float>((High - Low) / std::sqrt(12.0)));
  for (int64_t I = 0; I < Count; ++I)
    Out[I] = static_cast<float>(
        std::log(std::clamp(Out[I] + (Low + High) / 2, Low, High)));
}

static RandomFill *getFill(int32_t Init) {
  if (Init == POPLAR_LOG_UNIFORM)
    return fillLogUniforms;
  return Init == POPLAR_NORMAL ? fillNormals : fillUniforms;
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
        fillRun(Threads, getFill(P.init), Key, static_cast<float>(P.std_dev),
                Out, Begin, End - Begin);
      });
    }
  }
}
