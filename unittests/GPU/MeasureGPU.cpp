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
//
// Prints JSON. Links no LLVM.
//
//===----------------------------------------------------------------------===//

#include "Device.h"
#include "Error.h"
#include "JSON.h"
#include "Random.h"
#include "cuda/Driver.h"
#include "cuda/Gemm.h"
#include "cuda/Library.h"
#include "cuda/Memory.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
                "\"clock_khz\": %d, \"cuda\": \"%d.%d\"}",
                Ordinal ? ", " : "", json::quote(Name).c_str(),
                getAttribute(CapabilityMajor, GPU) * 10 +
                    getAttribute(CapabilityMinor, GPU),
                getAttribute(Multiprocessors, GPU), getAttribute(ClockKHz, GPU),
                D.Version / 1000, D.Version % 1000 / 10);
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
    fillRandomly(Memory.data(), 2 * Bytes, Type);
    PoplarGemm Gemm{Size, Size, Size,         0,   0, 0, 0, 0, Type,
                    Type, Type, POPLAR_STORE, TF32};
    GemmCache Products(Capability, Scratch.size());
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

  int Capability = 0;

private:
  /// Numbers in (-2, 2) of all signs, exponents near 0 and fractions.
  void fillRandomly(char *To, int64_t Bytes, PoplarType Type) const {
    std::vector<uint64_t> Values(static_cast<size_t>(Bytes / 8));
    uint64_t Mask = Type == POPLAR_F32    ? 0x807FFFFF807FFFFFu
                    : Type == POPLAR_BF16 ? 0x807F807F807F807Fu
                                          : 0x83FF83FF83FF83FFu,
             One = Type == POPLAR_F32    ? 0x3F8000003F800000u
                   : Type == POPLAR_BF16 ? 0x3F803F803F803F80u
                                         : 0x3C003C003C003C00u;
    for (size_t I = 0; I < Values.size(); ++I)
      Values[I] = (splitmix64(I) & Mask) | One;
    PinnedBuffer Pinned;
    Pinned.copyIn(To, reinterpret_cast<const char *>(Values.data()),
                  static_cast<size_t>(Bytes), Queue);
    check(D.cuStreamSynchronize(Queue), "copy to the GPU");
  }

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

int main(int Argc, char **Argv) {
  std::string Wanted = Argc > 1 ? Argv[1] : "";
  try {
    if (Wanted == "--libraries")
      printLibraries();
    else if (Wanted == "--gpus")
      printGPUs();
    else if (Wanted == "--peaks")
      printPeaks(Argc > 2 ? std::atoll(Argv[2]) : 8192);
    else
      fail("usage: measure-gpu --libraries | --gpus | --peaks [SIZE]");
  } catch (const std::exception &E) {
    std::fprintf(stderr, "measure-gpu: error: %s\n", E.what());
    return 1;
  }
  return 0;
}
