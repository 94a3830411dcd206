//===- ExecutorTest.cpp - Memory, threads and working copies --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Executor.h"
#include "TestProgram.h"
#include "program/Initialization.h"
#include "support/Error.h"
#include "training/Optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <utility>

using namespace poplar::runtime;

namespace {

/// The ranges that a kernel was called with.
struct Ranges {
  std::mutex Lock;
  std::vector<std::pair<int64_t, int64_t>> Seen;
};

void recordRange(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  Ranges &R = *static_cast<Ranges *>(Args[0]);
  std::lock_guard<std::mutex> Guard(R.Lock);
  R.Seen.emplace_back(Begin, End);
}

TEST(Executor, DispatchPartitionsTheExtent) {
  Executor Exec(testprogram::Program, {1}, 3);
  for (int64_t Extent : {0, 1, 7, 8, 9, 63, 64, 1000})
    for (int64_t Grain : {0, 1, 8, 64}) {
      Ranges R;
      void *Args[] = {&R};
      poplar_rt_dispatch(&Exec, recordRange, Args, 1, Extent, Grain);
      std::sort(R.Seen.begin(), R.Seen.end());
      int64_t Next = 0;
      for (auto [Begin, End] : R.Seen) {
        ASSERT_EQ(Begin, Next);
        ASSERT_LT(Begin, End);
        ASSERT_EQ(Begin % std::max<int64_t>(Grain, 1), 0);
        Next = End;
      }
      ASSERT_EQ(Next, Extent);
      ASSERT_LE(R.Seen.size(), 3u);
    }
}

TEST(Executor, PeakIsLinearInTheBatch) {
  const PoplarProgram &P = testprogram::Program;
  // Weights and gradients are in the fixed region, two moments are not.
  int64_t Moments = 0;
  for (int64_t B = 0; B < P.num_buckets; ++B)
    Moments += 8 * P.buckets[B].elements;
  for (int64_t Batch : {1, 2, 5})
    EXPECT_EQ(Executor(P, {1, Batch}, 1).peakBytes(),
              P.fixed_bytes + Batch * P.bytes_per_sample + Moments);
}

TEST(Executor, RefusesAPeakThatCannotBeCounted) {
  PoplarProgram P = testprogram::Program;
  P.bytes_per_sample = int64_t(1) << 40;
  EXPECT_EQ(getPeakBytes(P, 1 << 20) - getPeakBytes(P, 0), int64_t(1) << 60);
  EXPECT_THROW(getPeakBytes(P, int64_t(1) << 24), Error);
}

// A plan made where a GEMM needs less scratch than here.
TEST(Executor, FindsScratchThatThePlanLacks) {
  PoplarProgram P = testprogram::Program;
  P.scratch_bytes = 0;
  Executor Exec(P, {8}, 1);
  Executor Planned(testprogram::Program, {8}, 1);
  EXPECT_GE(Exec.peakBytes(), Planned.peakBytes());
  initializeParameters(Exec, 1);
  Exec.infer(8);
}

void roundToBF16(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  const float *In = static_cast<const float *>(Args[0]);
  uint16_t *Out = static_cast<uint16_t *>(Args[1]);
  for (int64_t I = Begin; I < End; ++I) {
    uint32_t Bits;
    std::memcpy(&Bits, &In[I], 4);
    Out[I] = static_cast<uint16_t>(Bits >> 16);
  }
}

TEST(Executor, RefreshesWorkingCopies) {
  PoplarProgram P = testprogram::Program;
  // Half as wide, they fit in the places of those in f32.
  P.working_type = POPLAR_BF16;
  P.convert_working = roundToBF16;
  Executor Exec(P, {1}, 2);
  Optimizer Optim(Exec, {0.9, 0.95, 1e-8, 0.1, 0});
  auto Check = [&] {
    for (int64_t B = 0; B < P.num_buckets; ++B) {
      const Shard &S = Exec.state().shard(B);
      const uint16_t *Working = Exec.fixed<uint16_t>(P.buckets[B].working);
      ASSERT_EQ(S.size(), P.buckets[B].elements);
      for (int64_t I = 0; I < S.size(); ++I) {
        uint32_t Bits;
        std::memcpy(&Bits, &S.Master[I], 4);
        ASSERT_EQ(Working[I], Bits >> 16);
      }
    }
  };
  initializeParameters(Exec, 1);
  Check();
  Optim.zeroGradients();
  EXPECT_EQ(Optim.update(0, 1e-3), 0);
  Check();
}

TEST(Executor, RefusesAnotherABI) {
  PoplarProgram P = testprogram::Program;
  P.version = POPLAR_ABI_VERSION + 1;
  EXPECT_THROW(Executor(P, {1}, 1), Error);
  P = testprogram::Program;
  PoplarModel Model = *P.model;
  Model.seq_len = 0;
  P.model = &Model;
  EXPECT_THROW(Executor(P, {1}, 1), Error);
}

TEST(Optimizer, NormAndClippingDoNotDependOnThreads) {
  double Norms[2];
  std::vector<float> Weights[2];
  for (int Threads : {1, 2}) {
    Executor Exec(testprogram::Program, {1}, Threads);
    Optimizer Optim(Exec, {0.9, 0.95, 1e-8, 0.1, 0.5});
    initializeParameters(Exec, 3);
    Optim.zeroGradients();
    const Shard &S = Exec.state().shard(0);
    for (int64_t I = 0; I < S.size(); ++I)
      S.Gradient[I] = std::sin(static_cast<float>(I));
    Norms[Threads - 1] = Optim.update(0, 1e-2);
    Weights[Threads - 1].assign(S.Master, S.Master + S.size());
  }
  EXPECT_EQ(Norms[0], Norms[1]);
  EXPECT_NEAR(Norms[0], std::sqrt(2048.0), 0.1);
  EXPECT_EQ(Weights[0], Weights[1]);
}

// An overflow must not reach the weights.
TEST(Optimizer, LeavesTheStateAloneWhereTheNormIsNotFinite) {
  Executor Exec(testprogram::Program, {1}, 1);
  Optimizer Optim(Exec, {0.9, 0.95, 1e-8, 0.1, 0.5});
  initializeParameters(Exec, 3);
  Optim.zeroGradients();
  const Shard &S = Exec.state().shard(1);
  std::vector<float> Before(S.Master, S.Master + S.size());
  S.Gradient[5] = INFINITY;
  EXPECT_FALSE(std::isfinite(Optim.update(0, 1e-2)));
  EXPECT_EQ(std::vector<float>(S.Master, S.Master + S.size()), Before);
}

} // namespace
