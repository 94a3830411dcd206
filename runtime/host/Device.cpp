//===- Device.cpp - The CPU as a rank's device ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Device.h"
#include "gemm/Gemm.h"
#include "program/Executor.h"
#include "support/Error.h"
#include "support/ParallelRanges.h"
#include "support/Versions.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/mman.h>
#include <vector>

using namespace poplar::runtime;

namespace {

/// Page-aligned, zeroed memory straight from the kernel.
class Arena {
public:
  explicit Arena(int64_t Bytes) : Bytes(static_cast<size_t>(Bytes)) {
    Memory = mmap(nullptr, this->Bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (Memory == MAP_FAILED)
      fail("cannot allocate ", formatBytes(Bytes),
           " of memory; use a smaller --batch");
    // Fewer TLB misses in GEMM operands; the kernel may decline.
    madvise(Memory, this->Bytes, MADV_HUGEPAGE);
  }
  ~Arena() { munmap(Memory, Bytes); }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  char *data() const { return static_cast<char *>(Memory); }
  int64_t size() const { return static_cast<int64_t>(Bytes); }

private:
  void *Memory;
  size_t Bytes;
};

/// Elements of a block that is handed to a thread.
constexpr int64_t Block = 16384;

} // namespace

struct Device::Impl {
  const PoplarProgram &Program;
  int Threads;
  GemmCache Gemms;
  std::vector<std::unique_ptr<Arena>> Memory;
  std::atomic<bool> Overflow{false};
};

Device::Device(const PoplarProgram &Program, int, int Threads)
    : Data(new Impl{Program, Threads, {}, {}, {}}) {
  if (Program.gpu)
    fail("the program was compiled for a GPU (", Program.gpu->chip,
         ") and linked with the runtime of CPUs; build it again");
}

Device::~Device() = default;

bool Device::sharesMemory() const { return true; }

char *Device::allocate(int64_t Bytes) {
  return Data->Memory.emplace_back(std::make_unique<Arena>(Bytes))->data();
}

std::vector<std::pair<void *, int64_t>> Device::getMemory() const {
  std::vector<std::pair<void *, int64_t>> Ranges;
  for (const std::unique_ptr<Arena> &A : Data->Memory)
    Ranges.emplace_back(A->data(), A->size());
  return Ranges;
}

int64_t Device::getOwnBytes() const { return 0; }

void Device::copyIn(void *To, const void *From, int64_t Bytes) {
  std::memcpy(To, From, static_cast<size_t>(Bytes));
}

void Device::copyOut(void *To, const void *From, int64_t Bytes) {
  std::memcpy(To, From, static_cast<size_t>(Bytes));
}

static void copyKernel(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  std::memcpy(static_cast<char *>(Args[0]) + Begin,
              static_cast<const char *>(Args[1]) + Begin,
              static_cast<size_t>(End - Begin));
}

void Device::copy(void *To, const void *From, int64_t Bytes) {
  void *Args[] = {To, const_cast<void *>(From)};
  dispatchRanges(Data->Threads, copyKernel, Args, 0, Bytes, 1 << 16);
}

static void zeroKernel(void *const *Args, int64_t, int64_t Begin, int64_t End) {
  std::memset(static_cast<char *>(Args[0]) + Begin, 0,
              static_cast<size_t>(End - Begin));
}

void Device::zero(void *Memory, int64_t Bytes) {
  void *Args[] = {Memory};
  dispatchRanges(Data->Threads, zeroKernel, Args, 0, Bytes, 1 << 16);
}

void Device::poison(void *Memory, int64_t Bytes) {
  std::memset(Memory, 0xFF, static_cast<size_t>(Bytes));
}

void Device::synchronize() {}

void *Device::recordPoint(int64_t) { return nullptr; }

/// Its collectives are messages, which it has waited for.
void Device::waitFor(void *) {}

void Device::prepareGemm(const PoplarGemm &Gemm, int64_t Batch) {
  if (Gemm.epilogue != POPLAR_STORE || Gemm.tf32)
    fail("a CPU's products have no epilogues and no TF32; build the program "
         "again");
  Data->Gemms.prepare(Gemm, Batch);
}

int64_t Device::getScratchBytes() const {
  return Data->Gemms.getScratchBytes();
}

void Device::setScratch(void *Memory, int64_t) {
  Data->Gemms.setScratch(Memory);
}

void Device::runGemm(const PoplarGemm &Gemm, const void *A, const void *B,
                     const void *Bias, void *, void *C, int64_t Batch) {
  Data->Gemms.run(Gemm, A, B, Bias, C, Batch);
}

void Device::run(PoplarFunction Function, void *Context, char *Arena,
                 int64_t Batch) {
  Function(Context, Arena, Batch);
}

void Device::runAttention(const PoplarLibraryAttention &, void *const *,
                          int64_t) {
  fail("a CPU has no library for attention; build the program again");
}

void Device::launch(int64_t, void *const *, int64_t, int64_t) {
  fail("a CPU has no kernels of a GPU to launch; build the program again");
}

/// args: values, sums of chunks; extent: elements, in whole chunks. Eight
/// separate sums let the compiler use vectors without reordering; squares of
/// f32 are exact in f64, so FMA or not makes no difference either.
static void squareSumKernel(void *const *Args, int64_t, int64_t Begin,
                            int64_t End) {
  const float *Values = static_cast<const float *>(Args[0]);
  double *Sums = static_cast<double *>(Args[1]);
  constexpr int64_t Chunk = POPLAR_SUM_CHUNK;
  for (int64_t First = Begin; First < End; First += Chunk) {
    int64_t Last = std::min(First + Chunk, End);
    double Lanes[8] = {};
    int64_t I = First;
    for (; I + 8 <= Last; I += 8)
      for (int L = 0; L < 8; ++L) {
        double X = Values[I + L];
        Lanes[L] += X * X;
      }
    for (int L = 0; I < Last; ++I, ++L) {
      double X = Values[I];
      Lanes[L] += X * X;
    }
    double Sum = 0;
    for (double Lane : Lanes)
      Sum += Lane;
    Sums[First / Chunk] = Sum;
  }
}

void Device::sumSquares(const std::vector<ValueList> &Lists, double *Sums) {
  for (const ValueList &List : Lists) {
    void *Args[] = {const_cast<float *>(List.Values), Sums};
    dispatchRanges(Data->Threads, squareSumKernel, Args, List.Count, List.Count,
                   POPLAR_SUM_CHUNK);
    Sums += countSumChunks(List.Count);
  }
}

/// args: values, factor, flag to set if one is not finite. Factors are powers
/// of two: nothing is rounded.
static void scaleKernel(void *const *Args, int64_t, int64_t Begin,
                        int64_t End) {
  float *Values = static_cast<float *>(Args[0]);
  float Factor = *static_cast<const float *>(Args[1]);
  float Rest = 0;
  for (int64_t I = Begin; I < End; ++I) {
    Values[I] *= Factor;
    // 0, or NaN.
    Rest += Values[I] - Values[I]; // NOLINT(misc-redundant-expression)
  }
  if (Rest != 0)
    static_cast<std::atomic<bool> *>(Args[2])->store(true);
}

void Device::scale(float *Values, int64_t Count, float Factor) {
  void *Args[] = {Values, &Factor, &Data->Overflow};
  dispatchRanges(Data->Threads, scaleKernel, Args, Count, Count, Block);
}

bool Device::takeOverflow() { return Data->Overflow.exchange(false); }

void Device::updateAdamW(float *Values, float *Gradients, float *Moment1,
                         float *Moment2, const float (&Hyper)[8],
                         int64_t Count) {
  void *Args[] = {Values, Gradients, Moment1, Moment2,
                  const_cast<float *>(Hyper)};
  dispatchRanges(Data->Threads, Data->Program.adamw, Args, Count, Count, Block);
}

namespace {
/// What updateBlocksKernel() is given.
struct BlockUpdate {
  PoplarKernel AdamW;
  float *Values, *Gradients;
  MomentBlocks Moment1, Moment2;
  const float *Hyper;
};
} // namespace

static void widenBlock(bool IsSigned, const MomentBlocks &From, int64_t Count,
                       float *Wide) {
  uint8_t Codes[POPLAR_STATE_BLOCK];
  unpackCodes(From.Bits, From.Codes, Count, Codes);
  MomentFormat{From.Bits, IsSigned}.dequantize(Codes, *From.Scales, Count,
                                               Wide);
}

static void roundBlock(bool IsSigned, const float *Wide, int64_t Count,
                       const MomentBlocks &To) {
  uint8_t Codes[POPLAR_STATE_BLOCK];
  *To.Scales = MomentFormat{To.Bits, IsSigned}.quantize(Wide, Count, Codes);
  packCodes(To.Bits, Codes, Count, To.Codes);
}

/// args: BlockUpdate; extent: elements.
static void updateBlocksKernel(void *const *Args, int64_t, int64_t Begin,
                               int64_t End) {
  const auto &Update = *static_cast<const BlockUpdate *>(Args[0]);
  float Wide1[POPLAR_STATE_BLOCK], Wide2[POPLAR_STATE_BLOCK];
  for (int64_t First = Begin; First < End; First += POPLAR_STATE_BLOCK) {
    int64_t Count = std::min<int64_t>(POPLAR_STATE_BLOCK, End - First);
    MomentBlocks M1 = Update.Moment1.from(First),
                 M2 = Update.Moment2.from(First);
    widenBlock(/*IsSigned=*/true, M1, Count, Wide1);
    widenBlock(/*IsSigned=*/false, M2, Count, Wide2);
    void *Own[] = {Update.Values + First, Update.Gradients + First, Wide1,
                   Wide2, const_cast<float *>(Update.Hyper)};
    Update.AdamW(Own, Count, 0, Count);
    roundBlock(/*IsSigned=*/true, Wide1, Count, M1);
    roundBlock(/*IsSigned=*/false, Wide2, Count, M2);
  }
}

void Device::updateAdamW(float *Values, float *Gradients,
                         const MomentBlocks &Moment1,
                         const MomentBlocks &Moment2, const float (&Hyper)[8],
                         int64_t Count) {
  static_assert(Block % POPLAR_STATE_BLOCK == 0);
  BlockUpdate Update{
      Data->Program.adamw, Values, Gradients, Moment1, Moment2, Hyper};
  void *Args[] = {&Update};
  dispatchRanges(Data->Threads, updateBlocksKernel, Args, Count, Count, Block);
}

void Device::convertWorking(const float *From, char *To, int64_t Count) {
  void *Args[] = {const_cast<float *>(From), To};
  dispatchRanges(Data->Threads, Data->Program.convert_working, Args, Count,
                 Count, 4096);
}

double Device::measurePeakFlops(PoplarType Type) {
  return poplar::runtime::measurePeakFlops(Type);
}

void Device::occupyCore(const std::function<bool()> &GoesOn) {
  omp_set_num_threads(1);
  SquareProduct Product(POPLAR_F32, 512);
  while (GoesOn())
    Product.run();
}

std::string poplar::runtime::getLibraryVersions() {
  const dnnl_version_t *Version = dnnl_version();
  return "\"onednn\": \"" + std::to_string(Version->major) + "." +
         std::to_string(Version->minor) + "." + std::to_string(Version->patch) +
         "\"";
}
