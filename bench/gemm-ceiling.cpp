//===- gemm-ceiling.cpp - How fast this machine multiplies matrices -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the GEMMs of GPT-2 124M's training step through the runtime: forward,
// gradient of the activations, gradient of the weights (accumulating). Beside
// each, dnnl_sgemm on the same operands, which allocates memory at every call.
// The last line is the ceiling: the FLOPs of a step's products over their time,
// each product counted as often as a step runs it, by the faster of the two.
//
//   gemm-ceiling [--tokens N] [--threads N] [--bf16]
//
//===----------------------------------------------------------------------===//

#include "gemm/Gemm.h"
#include "support/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.h>
#include <functional>
#include <omp.h>
#include <vector>

using namespace poplar::runtime;

namespace {

/// A linear layer, how many of it the model has, and whether its weights are
/// stored [out,in] instead of [in,out].
struct Shape {
  const char *Name;
  int64_t In, Out;
  int Count;
  bool OutIn;
};

constexpr Shape Shapes[] = {{"qkv", 768, 2304, 12, false},
                            {"projection", 768, 768, 12, false},
                            {"up", 768, 3072, 12, false},
                            {"down", 3072, 768, 12, false},
                            {"head", 768, 50257, 1, true}};

/// The shortest time of a few runs, in seconds.
double measure(const std::function<void()> &Action) {
  using Clock = std::chrono::steady_clock;
  double Best = 1e30, Total = 0;
  for (int Run = 0; Run < 3 || (Run < 20 && Total < 0.3); ++Run) {
    auto Begin = Clock::now();
    Action();
    std::chrono::duration<double> Seconds = Clock::now() - Begin;
    if (Run) // the first one warms up
      Best = std::min(Best, Seconds.count());
    Total += Seconds.count();
  }
  return Best;
}

class Bench {
public:
  explicit Bench(PoplarType Type) : Type(Type) {}
  void run(const Shape &S, const char *What, const PoplarGemm &Gemm);
  double getCeiling() const {
    return Flops /
           (PlainSeconds > 0 ? std::min(Seconds, PlainSeconds) : Seconds);
  }

private:
  PoplarType Type;
  double Flops = 0, Seconds = 0, PlainSeconds = 0;
};

void Bench::run(const Shape &S, const char *What, const PoplarGemm &Gemm) {
  GemmCache Cache;
  Cache.prepare(Gemm, 1);
  // Ones in f32, small numbers in bf16: no denormals in either.
  std::vector<float> A(Gemm.m * Gemm.k, 1.0f), B(Gemm.k * Gemm.n, 1.0f),
      C(Gemm.m * Gemm.n, 1.0f);
  Cache.allocateScratch();
  double Work = 2.0 * static_cast<double>(Gemm.m) * Gemm.n * Gemm.k;
  double Ours = measure(
      [&] { Cache.run(Gemm, A.data(), B.data(), nullptr, C.data(), 1); });
  Flops += S.Count * Work;
  Seconds += S.Count * Ours;
  std::printf("%-11s %-8s %6lld %6lld %6lld  %c%c  %8.1f", S.Name, What,
              static_cast<long long>(Gemm.m), static_cast<long long>(Gemm.n),
              static_cast<long long>(Gemm.k), Gemm.trans_a ? 'T' : 'N',
              Gemm.trans_b ? 'T' : 'N', Work / Ours / 1e9);
  if (Type == POPLAR_F32) {
    double Plain = measure([&] {
      dnnl_sgemm(Gemm.trans_a ? 'T' : 'N', Gemm.trans_b ? 'T' : 'N', Gemm.m,
                 Gemm.n, Gemm.k, 1, A.data(), Gemm.trans_a ? Gemm.m : Gemm.k,
                 B.data(), Gemm.trans_b ? Gemm.k : Gemm.n,
                 Gemm.accumulate ? 1.0f : 0.0f, C.data(), Gemm.n);
    });
    PlainSeconds += S.Count * Plain;
    std::printf("  %8.1f", Work / Plain / 1e9);
  }
  std::printf("\n");
  std::fflush(stdout);
}

} // namespace

int main(int Argc, char **Argv) {
  int64_t Tokens = 1024;
  int Threads = omp_get_num_procs();
  PoplarType Type = POPLAR_F32;
  for (int I = 1; I < Argc; ++I) {
    if (!std::strcmp(Argv[I], "--bf16")) {
      Type = POPLAR_BF16;
    } else if (I + 1 < Argc && !std::strcmp(Argv[I], "--tokens")) {
      Tokens = std::atoll(Argv[++I]);
    } else if (I + 1 < Argc && !std::strcmp(Argv[I], "--threads")) {
      Threads = std::atoi(Argv[++I]);
    } else {
      std::fprintf(stderr,
                   "usage: gemm-ceiling [--tokens N] [--threads N] [--bf16]\n");
      return 1;
    }
  }
  if (Tokens < 1 || Threads < 1) {
    std::fprintf(stderr, "gemm-ceiling: error: numbers must be positive\n");
    return 1;
  }
  omp_set_num_threads(Threads);
  std::printf("%lld tokens, %d threads, %s; GFLOP/s\n"
              "                          m      n      k       runtime%s\n",
              static_cast<long long>(Tokens), Threads,
              Type == POPLAR_F32 ? "f32" : "bf16",
              Type == POPLAR_F32 ? "     sgemm" : "");
  try {
    Bench B(Type);
    for (const Shape &S : Shapes) {
      auto Gemm = [&](int64_t M, int64_t N, int64_t K, int TransA, int TransB,
                      int Accumulate) {
        // Weight gradients accumulate in f32.
        PoplarType Result = Accumulate ? POPLAR_F32 : Type;
        return PoplarGemm{M,          N, K,    0,    TransA, TransB,
                          Accumulate, 0, Type, Type, Result};
      };
      B.run(S, "forward", Gemm(Tokens, S.Out, S.In, 0, S.OutIn, 0));
      B.run(S, "dx", Gemm(Tokens, S.In, S.Out, 0, !S.OutIn, 0));
      B.run(S, "dw",
            S.OutIn ? Gemm(S.Out, S.In, Tokens, 1, 0, 1)
                    : Gemm(S.In, S.Out, Tokens, 1, 0, 1));
    }
    std::printf("ceiling %.1f GFLOP/s\n", B.getCeiling() / 1e9);
  } catch (const Error &E) {
    std::fprintf(stderr, "gemm-ceiling: error: %s\n", E.what());
    return 1;
  }
  return 0;
}
