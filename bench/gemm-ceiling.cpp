//===- gemm-ceiling.cpp - How fast this machine multiplies matrices -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the GEMMs of GPT-2 124M's training step through the runtime: forward
// (weights stored [in,out] or [out,in]), gradient of the activations, gradient
// of the weights (accumulating). Beside each, dnnl_sgemm on the same operands.
// The last line is the ceiling: the FLOPs of all of them over their time.
//
//   gemm-ceiling [--tokens N] [--threads N] [--bf16]
//
//===----------------------------------------------------------------------===//

#include "Error.h"
#include "Gemm.h"

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

struct Shape {
  const char *Name;
  int64_t In, Out;
};

constexpr Shape Shapes[] = {{"qkv", 768, 2304},
                            {"projection", 768, 768},
                            {"up", 768, 3072},
                            {"down", 3072, 768},
                            {"head", 768, 50257}};

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
  void run(const char *Name, const char *What, const PoplarGemm &Gemm);
  double getCeiling() const { return Flops / Seconds; }

private:
  PoplarType Type;
  double Flops = 0, Seconds = 0;
};

void Bench::run(const char *Name, const char *What, const PoplarGemm &Gemm) {
  GemmCache Cache;
  Cache.prepare(Gemm, 1);
  // Ones in f32, small numbers in bf16: no denormals in either.
  std::vector<float> A(Gemm.m * Gemm.k, 1.0f), B(Gemm.k * Gemm.n, 1.0f),
      C(Gemm.m * Gemm.n, 1.0f);
  Cache.allocateScratch();
  double Work = 2.0 * static_cast<double>(Gemm.m) * Gemm.n * Gemm.k;
  double Ours = measure(
      [&] { Cache.run(Gemm, A.data(), B.data(), nullptr, C.data(), 1); });
  Flops += Work;
  Seconds += Ours;
  std::printf("%-11s %-16s %6lld %6lld %6lld  %c%c  %8.1f", Name, What,
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
  std::printf(
      "%lld tokens, %d threads, %s; GFLOP/s\n"
      "                                  m      n      k       runtime%s\n",
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
      B.run(S.Name, "forward", Gemm(Tokens, S.Out, S.In, 0, 0, 0));
      B.run(S.Name, "forward (out,in)", Gemm(Tokens, S.Out, S.In, 0, 1, 0));
      B.run(S.Name, "dx", Gemm(Tokens, S.In, S.Out, 0, 1, 0));
      B.run(S.Name, "dx (out,in)", Gemm(Tokens, S.In, S.Out, 0, 0, 0));
      B.run(S.Name, "dw", Gemm(S.In, S.Out, Tokens, 1, 0, 1));
      B.run(S.Name, "dw (out,in)", Gemm(S.Out, S.In, Tokens, 1, 0, 1));
    }
    std::printf("ceiling %.1f GFLOP/s\n", B.getCeiling() / 1e9);
  } catch (const Error &E) {
    std::fprintf(stderr, "gemm-ceiling: error: %s\n", E.what());
    return 1;
  }
  return 0;
}
