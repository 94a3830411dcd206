//===- Gemm.cpp - Prepared matrix products --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gemm/Gemm.h"
#include "Poplar/Runtime/FP8.h"
#include "comm/Wire.h"
#include "gemm/FP8Operands.h"
#include "gemm/GemmDescriptor.h"
#include "gemm/GemmKey.h"
#include "program/Quantized.h"
#include "support/Error.h"
#include "support/ISA.h"
#include "support/ParallelRanges.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <omp.h>
#include <unordered_map>
#include <vector>

using namespace poplar::runtime;

namespace {

/// A primitive with its memory objects, whose pointers are set for each run.
/// It is run through the C interface because the C++ one builds a vector of
/// the arguments at every call.
struct Prepared {
  explicit Prepared(const dnnl::matmul::primitive_desc &Desc)
      : Primitive(Desc), A(make(Desc.src_desc())), B(make(Desc.weights_desc())),
        Bias(make(Desc.bias_desc())), C(make(Desc.dst_desc())),
        Scratch(make(Desc.scratchpad_desc())) {}

  static dnnl::memory make(const dnnl::memory::desc &Desc) {
    return dnnl::memory(Desc, getCPUEngine(), nullptr);
  }

  dnnl::matmul Primitive;
  dnnl::memory A, B, Bias, C, Scratch;
};

} // namespace

struct GemmCache::Impl {
  dnnl::stream Stream{getCPUEngine()};
  std::unordered_map<GemmKey, Prepared, GemmKeyHash> Primitives;
  std::unordered_map<GemmKey, BlockedGemm, GemmKeyHash> Blocked;
  int64_t ScratchBytes = 0;
  void *Scratch = nullptr;
  std::vector<char> OwnScratch;
};

GemmCache::GemmCache() : Data(std::make_unique<Impl>()) {}
GemmCache::~GemmCache() = default;

/// Elements that a thread dequantises at a time: whole blocks of every format.
static constexpr int64_t DequantizedGrain = 64 * POPLAR_NF4_BLOCK;

/// args: the GEMM, the matrix, where it is written; extent: elements.
static void dequantizeKernel(void *const *Args, int64_t, int64_t Begin,
                             int64_t End) {
  const auto &Gemm = *static_cast<const PoplarGemm *>(Args[0]);
  int64_t Rows = Gemm.trans_b ? Gemm.n : Gemm.k,
          Columns = Gemm.trans_b ? Gemm.k : Gemm.n;
  auto Type = static_cast<comm::Type>(Gemm.a_type);
  dequantize(Gemm.b_type, Rows, Columns, static_cast<const char *>(Args[1]),
             Begin, End, Gemm.a_type,
             static_cast<char *>(Args[2]) + Begin * comm::getBytes(Type));
}

void GemmCache::prepare(const PoplarGemm &Quantized, int64_t Batch) {
  GemmKey K{&Quantized, Batch};
  if (Data->Primitives.count(K) || Data->Blocked.count(K))
    return;
  PoplarGemm Gemm = getPlainGemm(Quantized);
  int64_t InFront = countBytesInFront(Quantized, Batch);
  if (std::optional<VectorKind> Kind = findBlockedKind(Gemm)) {
    BlockedGemm Product(Gemm, Batch, omp_get_max_threads(), *Kind);
    Data->ScratchBytes =
        std::max(Data->ScratchBytes, InFront + Product.getScratchBytes());
    Data->Blocked.emplace(K, Product);
    return;
  }
  try {
    dnnl::matmul::primitive_desc Desc = describeGemm(Gemm, Batch);
    int64_t Bytes = static_cast<int64_t>(Desc.scratchpad_desc().get_size());
    Data->ScratchBytes = std::max(Data->ScratchBytes, InFront + Bytes);
    Data->Primitives.emplace(K, Prepared(Desc));
  } catch (const dnnl::error &E) {
    static const char *const Types[] = {"f32", "bf16", "f16"};
    std::string Missing;
    if (Gemm.a_type == POPLAR_BF16)
      Missing = findMissing({"avx512f", "avx512bw", "avx512dq", "avx512vl"});
    fail("this CPU cannot multiply [", Gemm.m, ",", Gemm.k, "] by [", Gemm.k,
         ",", Gemm.n, "] in ", Types[Gemm.a_type], ": ",
         Missing.empty() ? "oneDNN: " + std::string(E.message)
                         : "it lacks " + Missing,
         "; build with the precision f32");
  }
}

int64_t GemmCache::getScratchBytes() const { return Data->ScratchBytes; }

void GemmCache::setScratch(void *Memory) {
  if (reinterpret_cast<uintptr_t>(Memory) % POPLAR_ALIGNMENT)
    fail("the scratch of products is not aligned to ", POPLAR_ALIGNMENT,
         " bytes");
  Data->Scratch = Memory;
  for (auto &Entry : Data->Primitives)
    Entry.second.Scratch.set_data_handle(
        static_cast<char *>(Memory) +
        countBytesInFront(*Entry.first.Gemm, Entry.first.Batch));
}

void GemmCache::allocateScratch() {
  size_t Bytes = static_cast<size_t>(getScratchBytes());
  Data->OwnScratch.resize(Bytes + POPLAR_ALIGNMENT);
  void *Memory = Data->OwnScratch.data();
  size_t Space = Data->OwnScratch.size();
  setScratch(std::align(POPLAR_ALIGNMENT, Bytes, Memory, Space));
}

void GemmCache::run(const PoplarGemm &Gemm, const void *A, const void *B,
                    const void *Bias, void *C, int64_t Batch) {
  if (Gemm.batched && Batch == 0)
    return; // no rows, or nothing to add
  char *Rest = static_cast<char *>(Data->Scratch);
  if (int64_t Bytes = poplar_dequantized_bytes(&Gemm)) {
    void *Args[] = {const_cast<PoplarGemm *>(&Gemm), const_cast<void *>(B),
                    Rest};
    dispatchRanges(omp_get_max_threads(), dequantizeKernel, Args, 0,
                   Gemm.k * Gemm.n, DequantizedGrain);
    B = Rest;
    Rest += Bytes;
  }
  if (Gemm.fp8) {
    char *OfB = Rest + poplar_rounded_bytes_of_a(&Gemm, Batch);
    roundRows({A, Gemm.a_type, Gemm.m * Batch, Gemm.k}, Rest);
    if (Gemm.trans_b)
      roundRows({B, Gemm.b_type, Gemm.n, Gemm.k}, OfB);
    else
      roundColumns({B, Gemm.b_type, Gemm.k, Gemm.n}, OfB);
    A = Rest;
    B = OfB;
    Rest += poplar_rounded_bytes(&Gemm, Batch);
  }
  auto Found = Data->Blocked.find(GemmKey{&Gemm, Batch});
  if (Found != Data->Blocked.end())
    return Found->second.run(
        static_cast<const float *>(A), static_cast<const float *>(B),
        static_cast<const float *>(Bias), static_cast<float *>(C), Rest);
  auto It = Data->Primitives.find(GemmKey{&Gemm, Batch});
  if (It == Data->Primitives.end())
    fail("a GEMM of ", Batch, " samples was not prepared");
  Prepared &P = It->second;
  P.A.set_data_handle(const_cast<void *>(A));
  P.B.set_data_handle(const_cast<void *>(B));
  P.C.set_data_handle(C);
  dnnl_exec_arg_t Arguments[5] = {{DNNL_ARG_SRC, P.A.get()},
                                  {DNNL_ARG_WEIGHTS, P.B.get()},
                                  {DNNL_ARG_DST, P.C.get()},
                                  {DNNL_ARG_SCRATCHPAD, P.Scratch.get()}};
  int Count = 4;
  if (Gemm.has_bias) {
    P.Bias.set_data_handle(const_cast<void *>(Bias));
    Arguments[Count++] = {DNNL_ARG_BIAS, P.Bias.get()};
  }
  dnnl_status_t Status = dnnl_primitive_execute(
      P.Primitive.get(), Data->Stream.get(), Count, Arguments);
  if (Status != dnnl_success)
    fail("oneDNN could not run a GEMM: status ", Status);
}

SquareProduct::SquareProduct(PoplarType Type, int64_t Size)
    : Gemm{Size, Size, Size, 0, 0, 0, 0, 0, Type, Type, Type, POPLAR_STORE, 0},
      A(static_cast<size_t>(Size * Size)), B(A.size()), C(A.size()) {
  Cache.prepare(Gemm, 1);
  Cache.allocateScratch();
}

void SquareProduct::run() {
  Cache.run(Gemm, A.data(), B.data(), nullptr, C.data(), 1);
}

/// Processor seconds of this thread: what other processes take does not count.
static double getThreadSeconds() {
  timespec Now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &Now);
  return static_cast<double>(Now.tv_sec) +
         1e-9 * static_cast<double>(Now.tv_nsec);
}

/// The best rate of a product that runs on this thread alone.
static double measureThreadFlops(SquareProduct &Product) {
  using Clock = std::chrono::steady_clock;
  auto Limit = Clock::now() + std::chrono::milliseconds(400);
  double Start = getThreadSeconds(), Begin = Start, Best = 0;
  while (Begin - Start < 0.15 && Clock::now() < Limit) {
    Product.run();
    double End = getThreadSeconds();
    Best = std::max(Best, Product.getFlops() / (End - Begin));
    Begin = End;
  }
  return Best;
}

double poplar::runtime::measurePeakFlops(PoplarType Type) {
  // Each thread has a product of its own, so that none waits for one that
  // another process has displaced.
  int Threads = omp_get_max_threads();
  std::vector<std::unique_ptr<SquareProduct>> Products;
  omp_set_num_threads(1); // what a product is prepared for
  for (int I = 0; I < Threads; ++I)
    Products.push_back(std::make_unique<SquareProduct>(Type, 512));
  omp_set_num_threads(Threads);
  double Sum = 0;
#pragma omp parallel num_threads(Threads) reduction(+ : Sum)
  Sum +=
      measureThreadFlops(*Products[static_cast<size_t>(omp_get_thread_num())]);
  return Sum;
}
