//===- MeasureGPU.cpp - What a machine with a GPU has ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: measure-gpu --libraries   files and versions of CUDA's libraries, as
//                                  the runtime finds them; needs no GPU
//        measure-gpu --gpus        what the driver says of each GPU
//        measure-gpu --peaks       copies and products of the first GPU, or
//                                  POPLAR_CUDA_DEVICE's, on random data
//        measure-gpu --products FILE
//                                  the products that FILE lists, with their
//                                  epilogues in cuBLASLt and in a kernel, and
//                                  the algorithms that cuBLASLt has chosen. A
//                                  line of FILE is a name without spaces, m, n,
//                                  k, and what PoplarGemm (Runtime/ABI.h) has
//                                  of trans_a, trans_b, accumulate, has_bias,
//                                  a_type, c_type, epilogue, tf32
//
// Prints JSON. Links no LLVM.
//
//===----------------------------------------------------------------------===//

#include "cuda/Driver.h"
#include "cuda/Gemm.h"
#include "cuda/Library.h"
#include "cuda/Memory.h"
#include "program/Device.h"
#include "support/Error.h"
#include "support/JSON.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

/// Calls a function of a library that returns its version, or stores it.
static long getVersion(const Library &L, const char *Symbol, bool Stores) {
  if (Stores) {
    int (*Ask)(int *) = nullptr;
    int Version = 0;
    L.get(Symbol, Ask);
    return Ask(&Version) == 0 ? Version : 0;
  }
  size_t (*Ask)() = nullptr;
  L.get(Symbol, Ask);
  return static_cast<long>(Ask());
}

static void printLibraries() {
  struct {
    const char *Name, *First, *Second, *Symbol;
    bool Stores;
  } Wanted[] = {{"driver", "libcuda.so.1", nullptr, "cuDriverGetVersion", true},
                {"cublaslt", "libcublasLt.so.13", "libcublasLt.so.12",
                 "cublasLtGetVersion", false},
                {"nccl", "libnccl.so.2", nullptr, "ncclGetVersion", true},
                {"cudnn", "libcudnn.so.9", nullptr, "cudnnGetVersion", false}};
  std::printf("{\"libraries\": [");
  const char *Separator = "";
  for (const auto &W : Wanted) {
    std::printf("%s\n {\"name\": \"%s\", ", Separator, W.Name);
    Separator = ",";
    try {
      const char *Remedy = "name its directory in POPLAR_CUDA_PATH";
      Library L = W.Second ? Library({W.First, W.Second}, Remedy)
                           : Library({W.First}, Remedy);
      long Version = getVersion(L, W.Symbol, W.Stores);
      std::printf("\"path\": %s, \"version\": %ld}",
                  json::quote(L.path()).c_str(), Version);
    } catch (const Error &E) {
      std::printf("\"missing\": %s}", json::quote(E.what()).c_str());
    }
  }
  std::printf("\n]}\n");
}

static int getAttribute(int Which, int GPU) {
  int Value = 0;
  check(Driver::get().cuDeviceGetAttribute(&Value, Which, GPU),
        "tell what it is");
  return Value;
}

static void printGPUs() {
  const Driver &D = Driver::get();
  int Count = 0;
  check(D.cuDeviceGetCount(&Count), "count GPUs");
  std::printf("{\"gpus\": [");
  for (int Ordinal = 0; Ordinal < Count; ++Ordinal) {
    int GPU = 0;
    char Name[128] = "";
    check(D.cuDeviceGet(&GPU, Ordinal), "find a GPU");
    check(D.cuDeviceGetName(Name, sizeof(Name), GPU), "tell its name");
    std::printf("%s{\"name\": %s, \"capability\": %d, \"multiprocessors\": %d, "
                "\"clock_khz\": %d, \"memory_khz\": %d, \"memory_bits\": %d, "
                "\"cuda\": \"%d.%d\"}",
                Ordinal ? ", " : "", json::quote(Name).c_str(),
                getAttribute(CapabilityMajor, GPU) * 10 +
                    getAttribute(CapabilityMinor, GPU),
                getAttribute(Multiprocessors, GPU), getAttribute(ClockKHz, GPU),
                getAttribute(MemoryClockKHz, GPU),
                getAttribute(MemoryBusBits, GPU), D.Version / 1000,
                D.Version % 1000 / 10);
  }
  std::printf("]}\n");
}

namespace {

/// A GPU with a context and a stream.
class Bench {
public:
  Bench() {
    const char *Given = std::getenv("POPLAR_CUDA_DEVICE");
    check(D.cuDeviceGet(&GPU, Given ? std::atoi(Given) : 0), "find a GPU");
    check(D.cuDevicePrimaryCtxRetain(&Primary, GPU), "make a context");
    check(D.cuCtxSetCurrent(Primary), "use its context");
    check(D.cuStreamCreate(&Queue, NonBlocking), "create a stream");
    Capability = getAttribute(CapabilityMajor, GPU) * 10 +
                 getAttribute(CapabilityMinor, GPU);
  }

  /// The least seconds that `Run` takes, of a few.
  template <typename Function> double time(Function &&Run) const {
    using Clock = std::chrono::steady_clock;
    double Best = 1e30;
    for (int I = 0; I < 6; ++I) {
      check(D.cuStreamSynchronize(Queue), "finish its work");
      auto Begin = Clock::now();
      Run();
      check(D.cuStreamSynchronize(Queue), "finish its work");
      std::chrono::duration<double> Seconds = Clock::now() - Begin;
      Best = std::min(Best, Seconds.count());
    }
    return Best;
  }

  /// Bytes that are copied within the GPU's memory and back, per second.
  double measureCopy(int64_t Bytes) const {
    Allocation Memory(2 * Bytes);
    Address From = addressOf(Memory.data());
    double Seconds = time([&] {
      check(D.cuMemcpyDtoDAsync_v2(From + static_cast<Address>(Bytes), From,
                                   static_cast<size_t>(Bytes), Queue),
            "copy");
    });
    return 2 * static_cast<double>(Bytes) / Seconds;
  }

  /// FLOP/s of a product of random matrices: zeros cost less power, and
  /// flatter.
  double measureProduct(int64_t Size, PoplarType Type, bool TF32) const {
    int64_t Width = Type == POPLAR_F32 ? 4 : 2, Bytes = Size * Size * Width;
    Allocation Memory(3 * Bytes), Scratch(64 << 20);
    fillRandomly(Memory.data(), 2 * Bytes, Type, Queue);
    PoplarGemm Gemm{Size, Size, Size,         0,   0, 0, 0, 0, Type,
                    Type, Type, POPLAR_STORE, TF32};
    CublasCache Products(Capability, Scratch.size());
    Products.prepare(Gemm, 1);
    Products.setScratch(Scratch.data());
    const char *A = Memory.data(), *B = A + Bytes;
    double Seconds = time([&] {
      Products.run(Gemm, {A, B, nullptr, nullptr, Memory.data() + 2 * Bytes}, 1,
                   Queue);
    });
    auto N = static_cast<double>(Size);
    return 2 * N * N * N / Seconds;
  }

  /// Prints the fields of a JSON object: seconds and algorithm of a product,
  /// and of the same with a kernel in place of an epilogue.
  void printProduct(const PoplarGemm &Gemm) const {
    auto Width = [](int32_t Type) { return Type == POPLAR_F32 ? 4 : 2; };
    int64_t Offsets[6] = {}, Bytes[] = {Gemm.m * Gemm.k * Width(Gemm.a_type),
                                        Gemm.k * Gemm.n * Width(Gemm.b_type),
                                        Gemm.n * Width(Gemm.c_type),
                                        Gemm.m * Gemm.n * Width(Gemm.c_type),
                                        Gemm.m * Gemm.n * Width(Gemm.c_type)};
    for (int I = 0; I < 5; ++I)
      Offsets[I + 1] = Offsets[I] + (Bytes[I] + POPLAR_ALIGNMENT - 1) /
                                        POPLAR_ALIGNMENT * POPLAR_ALIGNMENT;
    Allocation Memory(Offsets[5]), Scratch(64 << 20);
    // Random bits, again and again.
    int64_t Filled = std::min<int64_t>(Offsets[3], 8 << 20);
    fillRandomly(Memory.data(), Filled, PoplarType(Gemm.a_type), Queue);
    Address Begin = addressOf(Memory.data());
    for (int64_t More = 0; Filled < Offsets[3]; Filled += More) {
      More = std::min(Filled, Offsets[3] - Filled);
      check(D.cuMemcpyDtoDAsync_v2(Begin + static_cast<Address>(Filled), Begin,
                                   static_cast<size_t>(More), Queue),
            "copy");
    }
    char *Data = Memory.data();
    GemmOperands Operands = {
        Data + Offsets[0], Data + Offsets[1],
        Gemm.has_bias ? Data + Offsets[2] : nullptr,
        Gemm.epilogue >= POPLAR_GELU_AUX ? Data + Offsets[3] : nullptr,
        Data + Offsets[4]};
    bool HasEpilogue = Gemm.epilogue != POPLAR_STORE || Gemm.has_bias;
    for (bool Fuse : {true, false}) {
      if (!Fuse && !HasEpilogue)
        break;
      CublasCache Products(Capability, Scratch.size());
      Products.prepare(Gemm, 1, Fuse);
      Products.setScratch(Scratch.data());
      constexpr int Repeats = 4;
      double Seconds = time([&] {
        for (int I = 0; I < Repeats; ++I)
          Products.run(Gemm, Operands, 1, Queue);
      });
      std::printf(", \"%s\": {\"seconds\": %.6g, \"in_library\": %s, "
                  "\"algorithm\": %s}",
                  Fuse ? "fused" : "unfused", Seconds / Repeats,
                  Products.isFused(Gemm, 1) ? "true" : "false",
                  json::quote(Products.describe(Gemm, 1)).c_str());
    }
  }

  int Capability = 0;

private:
  const Driver &D = Driver::get();
  int GPU = 0;
  Context Primary = nullptr;
  cuda::Stream Queue = nullptr;
};

} // namespace

static void printPeaks(int64_t Size) {
  Bench TheGPU;
  std::printf("{\"copy_bytes_per_s\": %.6g",
              TheGPU.measureCopy(Size * Size * 8));
  std::fflush(stdout);
  struct {
    const char *Name;
    PoplarType Type;
    bool TF32;
    int Least;
  } Formats[] = {{"bf16", POPLAR_BF16, false, 80},
                 {"f16", POPLAR_F16, false, 0},
                 {"tf32", POPLAR_F32, true, 80}};
  for (const auto &F : Formats)
    if (TheGPU.Capability >= F.Least)
      std::printf(", \"%s\": %.6g", F.Name,
                  TheGPU.measureProduct(Size, F.Type, F.TF32));
  std::printf("}\n");
}

static void printProducts(const char *Path) {
  std::ifstream In(Path);
  std::string Line;
  Bench TheGPU;
  while (std::getline(In, Line)) {
    std::istringstream Words(Line);
    std::string Name;
    PoplarGemm G = {};
    if (!(Words >> Name >> G.m >> G.n >> G.k >> G.trans_a >> G.trans_b >>
          G.accumulate >> G.has_bias >> G.a_type >> G.c_type >> G.epilogue >>
          G.tf32))
      fail(Path, ": no product: '", Line, "'");
    G.b_type = G.a_type;
    std::printf("{\"name\": %s", json::quote(Name).c_str());
    try {
      TheGPU.printProduct(G);
    } catch (const Error &E) {
      std::printf(", \"error\": %s", json::quote(E.what()).c_str());
    }
    std::printf("}\n");
    std::fflush(stdout);
  }
}

int main(int Argc, char **Argv) {
  std::string Wanted = Argc > 1 ? Argv[1] : "";
  try {
    if (Wanted == "--libraries")
      printLibraries();
    else if (Wanted == "--gpus")
      printGPUs();
    else if (Wanted == "--peaks")
      printPeaks(Argc > 2 ? std::atoll(Argv[2]) : 8192);
    else if (Wanted == "--products" && Argc > 2)
      printProducts(Argv[2]);
    else
      fail("usage: measure-gpu --libraries | --gpus | --peaks [SIZE] | "
           "--products FILE");
  } catch (const std::exception &E) {
    std::fprintf(stderr, "measure-gpu: error: %s\n", E.what());
    return 1;
  }
  return 0;
}
