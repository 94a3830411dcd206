//===- Device.cpp - A GPU as a rank's device ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything is queued on one stream. Memory of the GPU is taken when the
// device and the arena are made, and not afterwards.
//
//===----------------------------------------------------------------------===//

#include "program/Device.h"
#include "Poplar/Runtime/FP8.h"
#include "Poplar/Runtime/Quantized.h"
#include "comm/Islands.h"
#include "cuda/Attention.h"
#include "cuda/Driver.h"
#include "cuda/Gemm.h"
#include "cuda/Graph.h"
#include "cuda/Image.h"
#include "cuda/Memory.h"
#include "cuda/Selection.h"
#include "cuda/Timing.h"
#include "cuda/WireKernels.h"
#include "program/Executor.h"
#include "program/State.h"
#include "support/Error.h"
#include "support/Versions.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;

namespace {

/// The context of a GPU, current as long as this lives, and its stream.
class Session {
public:
  explicit Session(int GPU) : GPU(GPU) {
    const Driver &D = Driver::get();
    Context Primary;
    check(D.cuDevicePrimaryCtxRetain(&Primary, GPU), "make a context");
    check(D.cuCtxSetCurrent(Primary), "use its context");
    check(D.cuStreamCreate(&Queue, NonBlocking), "create a stream");
  }
  ~Session() {
    const Driver &D = Driver::get();
    D.cuStreamDestroy_v2(Queue);
    D.cuDevicePrimaryCtxRelease_v2(GPU);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  Stream Queue = nullptr;

private:
  int GPU;
};

/// Most pointers of a kernel: with the batch, the 32764 bytes of parameters
/// that drivers for CUDA 12.1 and newer pass. Images whose kernels take more
/// than 4096 bytes are of PTX that older drivers do not know.
constexpr int32_t MostPointers = 4094;

/// The device's own data in its memory, in this order.
struct Own {
  /// Numbers of updateAdamW, without and with weight decay.
  float Hyper[2][8];
  float Factor;
  int32_t Overflow;
  /// Sums of squares of chunks follow.
};

/// Bytes in front of the scratch, as the memory plan has them.
int64_t findMostInFront(const PoplarProgram &Program) {
  int64_t Most = 0;
  for (int64_t G = 0; G < Program.num_gemms; ++G)
    Most = std::max({Most, poplar_dequantized_bytes(Program.gemms[G]),
                     poplar_fp8_layout(Program.gemms[G]).bytes});
  return Most;
}

/// Chunks of all gradients.
int64_t countChunks(const PoplarProgram &Program) {
  int64_t Chunks = 0;
  for (int64_t B = 0; B < Program.num_buckets; ++B)
    if (!Program.buckets[B].frozen)
      Chunks += countSumChunks(Program.buckets[B].elements);
  return Chunks;
}

} // namespace

struct Device::Impl {
  Impl(const PoplarProgram &Program, const Choice &Chosen)
      : Program(Program),
        Collects(Program.world_size > 1 &&
                 comm::getLibraryChoice() != comm::LibraryChoice::Host),
        Capability(Chosen.Capability), OnGPU(Chosen.Device),
        Kernels(*Program.gpu), Graphs(OnGPU.Queue),
        Gemms(Chosen.Capability, Program.scratch_bytes,
              findMostInFront(Program)),
        Attention(OnGPU.Queue), OwnMemory(static_cast<int64_t>(sizeof(Own)) +
                                          8 * countChunks(Program)) {
    if (Timing::isWanted())
      Times = std::make_unique<Timing>(OnGPU.Queue);
    if (Program.model->state_bits) {
      StateKernels = std::make_unique<WireKernels>();
      StateKernels->prepareTables();
    }
    for (int64_t K = 0; K < Program.gpu->num_kernels; ++K)
      if (Program.gpu->kernels[K].pointers > MostPointers)
        fail("kernel ", Program.gpu->kernels[K].name,
             " takes more pointers than this runtime passes");
  }

  Own *own() const { return reinterpret_cast<Own *>(OwnMemory.data()); }
  void start(int64_t Number, void *const *Args, int64_t Batch, int64_t Extent);
  /// Our own kernels for what a library does not compute.
  void startAttention(const PoplarLibraryAttention &What, void *const *Args,
                      int64_t Batch);
  Timing::Cost countCost(const PoplarLibraryAttention &What,
                         int64_t Batch) const;
  /// A kernel that the runtime asks for, of what the program does at other
  /// times in another way: it is in no graph.
  void startOwn(int64_t Number, void *const *Args, int64_t Count) {
    Graphs.interrupt();
    if (Count > 0)
      start(Number, Args, Count, Count);
  }

  const PoplarProgram &Program;
  /// Whether NCCL may be asked to collect what is allocated.
  bool Collects;
  int Capability;
  Session OnGPU;
  /// Null where nobody asks for times.
  std::unique_ptr<Timing> Times;
  Image Kernels;
  Recorder Graphs;
  CublasCache Gemms;
  LibraryAttention Attention;
  Allocation OwnMemory;
  PinnedBuffer Pinned;
  std::vector<std::unique_ptr<Allocation>> Memory;
  /// The libraries', which products leave to whatever else comes between them.
  char *Scratch = nullptr;
  int64_t ScratchBytes = 0;
  /// Kernels for moments in blocks; null without.
  std::unique_ptr<WireKernels> StateKernels;
  /// Events of recordPoint, by number; made when first needed.
  std::vector<Event> Points;
  /// The current values of Own::Hyper and Own::Factor.
  float Hyper[2][8] = {};
  float Factor = 0;
  bool MayOverflow = false;
};

Device::Device(const PoplarProgram &Program, int Rank, int) {
  if (!Program.gpu)
    fail("the program was compiled for a CPU and linked with the runtime of "
         "GPUs; build it again");
  Data = std::make_unique<Impl>(Program, chooseGPU(Program, Rank));
  zero(Data->OwnMemory.data(), Data->OwnMemory.size());
}

Device::~Device() {
  // Queued work uses the memory that is freed below.
  Driver::get().cuStreamSynchronize(Data->OnGPU.Queue);
  for (Event Point : Data->Points)
    if (Point)
      Driver::get().cuEventDestroy_v2(Point);
}

bool Device::sharesMemory() const { return false; }

char *Device::allocate(int64_t Bytes) {
  Data->Memory.push_back(
      Data->Collects
          ? std::make_unique<Allocation>(Bytes, Allocation::ForCollectives())
          : std::make_unique<Allocation>(Bytes));
  char *Place = Data->Memory.back()->data();
  zero(Place, Bytes);
  return Place;
}

std::vector<std::pair<void *, int64_t>> Device::getMemory() const {
  std::vector<std::pair<void *, int64_t>> Ranges;
  for (const std::unique_ptr<Allocation> &A : Data->Memory)
    Ranges.emplace_back(A->data(), A->size());
  return Ranges;
}

int64_t Device::getOwnBytes() const {
  return Data->OwnMemory.size() + Data->Gemms.getOwnBytes() +
         (Data->StateKernels ? Data->StateKernels->getOwnBytes() : 0);
}

void Device::copyIn(void *To, const void *From, int64_t Bytes) {
  Data->Graphs.interrupt();
  Data->Pinned.copyIn(static_cast<char *>(To), static_cast<const char *>(From),
                      static_cast<size_t>(Bytes), Data->OnGPU.Queue);
}

void Device::copyOut(void *To, const void *From, int64_t Bytes) {
  Data->Graphs.interrupt();
  Data->Pinned.copyOut(static_cast<char *>(To), static_cast<const char *>(From),
                       static_cast<size_t>(Bytes), Data->OnGPU.Queue);
}

void Device::copy(void *To, const void *From, int64_t Bytes) {
  Data->Graphs.interrupt();
  check(Driver::get().cuMemcpyDtoDAsync_v2(
            addressOf(To), addressOf(const_cast<void *>(From)),
            static_cast<size_t>(Bytes), Data->OnGPU.Queue),
        "copy memory");
}

static void fill(Recorder &Graphs, void *Memory, unsigned char Byte,
                 int64_t Bytes, Stream Queue) {
  if (Bytes && Graphs.issues(Memory, Byte, Bytes))
    check(Driver::get().cuMemsetD8Async(addressOf(Memory), Byte,
                                        static_cast<size_t>(Bytes), Queue),
          "fill memory");
}

void Device::zero(void *Memory, int64_t Bytes) {
  fill(Data->Graphs, Memory, 0, Bytes, Data->OnGPU.Queue);
}

void Device::poison(void *Memory, int64_t Bytes) {
  fill(Data->Graphs, Memory, 0xFF, Bytes, Data->OnGPU.Queue);
}

void Device::synchronize() {
  Data->Graphs.interrupt();
  check(Driver::get().cuStreamSynchronize(Data->OnGPU.Queue),
        "finish its work");
}

void *Device::recordPoint(int64_t Number) {
  const Driver &D = Driver::get();
  auto Place = static_cast<size_t>(Number);
  if (Data->Points.size() <= Place)
    Data->Points.resize(Place + 1);
  Event &Point = Data->Points[Place];
  if (!Point)
    check(D.cuEventCreate(&Point, NoTiming), "create an event");
  // Others wait for what it is when they ask, so no graph may hold it.
  Data->Graphs.interrupt();
  check(D.cuEventRecord(Point, Data->OnGPU.Queue), "record an event");
  return Point;
}

void Device::waitFor(void *Point) {
  Data->Graphs.interrupt();
  check(Driver::get().cuStreamWaitEvent(Data->OnGPU.Queue,
                                        static_cast<Event>(Point), 0),
        "wait for a collective");
}

/// A product as tables of times name it.
static std::string describe(const PoplarGemm &Gemm, int64_t Batch) {
  static const char *const Types[] = {"f32", "bf16", "f16"};
  static const char *const Epilogues[] = {
      "", " gelu", " gelu-aux", " gelu-grad", " bias-grad-a", " bias-grad-b"};
  std::string M = std::to_string(Gemm.batched == 1 ? Gemm.m * Batch : Gemm.m),
              K = std::to_string(Gemm.batched == 2 ? Gemm.k * Batch : Gemm.k);
  return "product " + M + "x" + std::to_string(Gemm.n) + "x" + K + " " +
         (Gemm.trans_a ? "t" : "n") + (Gemm.trans_b ? "t" : "n") + " " +
         (Gemm.fp8    ? "fp8"
          : Gemm.tf32 ? "tf32"
                      : Types[Gemm.a_type]) +
         Epilogues[Gemm.epilogue] + (Gemm.has_bias ? " bias" : "") +
         (Gemm.accumulate ? " add" : "");
}

static Timing::Cost countCost(const PoplarGemm &Gemm, int64_t Batch) {
  auto Width = [](int32_t Type) { return Type == POPLAR_F32 ? 4.0 : 2.0; };
  auto M = static_cast<double>(Gemm.batched == 1 ? Gemm.m * Batch : Gemm.m),
       K = static_cast<double>(Gemm.batched == 2 ? Gemm.k * Batch : Gemm.k),
       N = static_cast<double>(Gemm.n);
  bool HasMatrix =
      Gemm.epilogue == POPLAR_GELU_AUX || Gemm.epilogue == POPLAR_GELU_GRAD;
  double Results = 1.0 + (Gemm.accumulate ? 1 : 0) + (HasMatrix ? 1 : 0);
  // Operands are written in 8 bits and read again; results are scaled in
  // memory.
  double Rounding =
      Gemm.fp8 ? 2 * (M * K + K * N + M * N * Width(Gemm.c_type)) : 0;
  return {2 * M * N * K, M * K * Width(Gemm.a_type) +
                             K * N * Width(Gemm.a_type) +
                             Results * M * N * Width(Gemm.c_type) + Rounding};
}

void Device::prepareGemm(const PoplarGemm &Gemm, int64_t Batch) {
  Data->Gemms.prepare(Gemm, Batch);
}

/// Algorithms are chosen for the scratch there is.
int64_t Device::getScratchBytes() const { return 0; }

void Device::setScratch(void *Memory, int64_t Bytes) {
  Data->Gemms.setScratch(Memory);
  Data->Scratch = static_cast<char *>(Memory);
  Data->ScratchBytes = Bytes;
}

void Device::runGemm(const PoplarGemm &Gemm, const void *A, const void *B,
                     const void *Bias, void *Aux, void *C, int64_t Batch) {
  if (!Data->Graphs.issues(&Gemm, A, B, Bias, Aux, C, Batch))
    return;
  auto Run = [&] {
    Data->Gemms.run(Gemm, {A, B, Bias, Aux, C}, Batch, Data->OnGPU.Queue);
  };
  if (Data->Times)
    Data->Times->measure(describe(Gemm, Batch), countCost(Gemm, Batch), Run);
  else
    Run();
}

void Device::run(PoplarFunction Function, void *Context, char *Arena,
                 int64_t Batch) {
  Data->Graphs.run(Function, Context, Arena, Batch);
}

void Device::Impl::start(int64_t Number, void *const *Args, int64_t Batch,
                         int64_t Extent) {
  const PoplarGPUKernel &Kernel = Program.gpu->kernels[Number];
  int64_t Blocks = (Extent - 1) / Kernel.parts_per_block + 1;
  if (Blocks > INT32_MAX)
    fail("kernel ", Kernel.name,
         " has more blocks than a GPU starts at once; "
         "plan with a smaller micro-batch");
  // As they lie in memory: to some kernels, the pointers are one array.
  std::array<uint64_t, MostPointers + 1> Parameters;
  for (int32_t I = 0; I < Kernel.pointers; ++I)
    Parameters[static_cast<size_t>(I)] = addressOf(Args[I]);
  Parameters[static_cast<size_t>(Kernel.pointers)] =
      static_cast<uint64_t>(Batch);
  size_t Bytes = 8 * (static_cast<size_t>(Kernel.pointers) + 1);
  void *Packed[] = {ParameterBuffer, Parameters.data(), ParameterBytes, &Bytes,
                    ParametersEnd};
  auto Start = [&] {
    check(Driver::get().cuLaunchKernel(Kernels.get(Number),
                                       static_cast<unsigned>(Blocks), 1, 1,
                                       static_cast<unsigned>(Kernel.block[0]),
                                       static_cast<unsigned>(Kernel.block[1]),
                                       static_cast<unsigned>(Kernel.block[2]),
                                       0, OnGPU.Queue, nullptr, Packed),
          "start a kernel");
  };
  if (Times)
    Times->measure(
        Kernel.name,
        {static_cast<double>(Batch * Kernel.flops_per_sample),
         static_cast<double>(Kernel.bytes + Batch * Kernel.bytes_per_sample)},
        Start);
  else
    Start();
}

/// Our kernels compute scores and dP twice in the gradient, a library once: 5
/// products, not 7.
Timing::Cost Device::Impl::countCost(const PoplarLibraryAttention &What,
                                     int64_t Batch) const {
  Timing::Cost Total;
  for (int I = 0; I < (What.gradient ? 2 : 1); ++I) {
    const PoplarGPUKernel &Kernel = Program.gpu->kernels[What.kernels[I]];
    Total.Flops += static_cast<double>(Batch * Kernel.flops_per_sample);
    Total.Bytes +=
        static_cast<double>(Kernel.bytes + Batch * Kernel.bytes_per_sample);
  }
  if (What.gradient)
    Total.Flops *= 5.0 / 7;
  return Total;
}

void Device::Impl::startAttention(const PoplarLibraryAttention &What,
                                  void *const *Args, int64_t Batch) {
  start(What.kernels[0], Args, Batch, Batch * What.parts[0]);
  if (!What.gradient)
    return;
  // That of keys and values takes neither out nor dq.
  void *OfKeys[] = {Args[0], Args[2], Args[3], Args[4],  Args[5],
                    Args[6], Args[7], Args[8], Args[10], Args[11]};
  start(What.kernels[1], OfKeys, Batch, Batch * What.parts[1]);
}

void Device::runAttention(const PoplarLibraryAttention &What, void *const *Args,
                          int64_t Batch) {
  if (Batch == 0)
    return;
  constexpr int Forward = 7, Gradient = 12;
  uint64_t Pointers = 0;
  for (int I = 0; I < (What.gradient ? Gradient : Forward); ++I)
    Pointers = Pointers * 0x100000001B3 + addressOf(Args[I]);
  if (!Data->Graphs.issues(&What, Pointers, Batch))
    return;
  bool IsDone = false;
  auto Run = [&] {
    IsDone = Data->Attention.run(What, Args, Batch, Data->Scratch,
                                 Data->ScratchBytes);
  };
  if (Data->Times && Data->Attention.isPrepared(What, Batch))
    Data->Times->measure(What.gradient ? "attention_cudnn_backward"
                                       : "attention_cudnn_forward",
                         Data->countCost(What, Batch), Run);
  else
    Run();
  if (!IsDone)
    Data->startAttention(What, Args, Batch);
}

void Device::launch(int64_t Number, void *const *Args, int64_t Batch,
                    int64_t Extent) {
  if (Extent <= 0)
    return;
  uint64_t Pointers = 0;
  for (int32_t I = 0; I < Data->Program.gpu->kernels[Number].pointers; ++I)
    Pointers = Pointers * 0x100000001B3 + addressOf(Args[I]);
  if (Data->Graphs.issues(Number, Pointers, Batch, Extent))
    Data->start(Number, Args, Batch, Extent);
}

void Device::sumSquares(const std::vector<ValueList> &Lists, double *Sums) {
  auto *OnGPU = reinterpret_cast<double *>(Data->own() + 1);
  int64_t Chunks = 0;
  for (const ValueList &List : Lists) {
    void *Args[] = {const_cast<float *>(List.Values), OnGPU + Chunks};
    Data->startOwn(Data->Kernels.SumSquares, Args, List.Count);
    Chunks += countSumChunks(List.Count);
  }
  if (Chunks)
    copyOut(Sums, OnGPU, 8 * Chunks);
}

void Device::scale(float *Values, int64_t Count, float Factor) {
  Own *OnGPU = Data->own();
  if (Factor != Data->Factor) {
    Data->Factor = Factor;
    copyIn(&OnGPU->Factor, &Factor, sizeof(Factor));
  }
  void *Args[] = {Values, &OnGPU->Factor, &OnGPU->Overflow};
  Data->startOwn(Data->Kernels.Scale, Args, Count);
  Data->MayOverflow = true;
}

bool Device::takeOverflow() {
  if (!std::exchange(Data->MayOverflow, false))
    return false;
  int32_t Flag = 0;
  copyOut(&Flag, &Data->own()->Overflow, sizeof(Flag));
  zero(&Data->own()->Overflow, sizeof(Flag));
  return Flag != 0;
}

void Device::updateAdamW(float *Values, float *Gradients, float *Moment1,
                         float *Moment2, const float (&Hyper)[8],
                         int64_t Count) {
  // Tensors with and without decay take turns.
  size_t Slot = Hyper[4] != 0;
  float *OnGPU = Data->own()->Hyper[Slot];
  if (std::memcmp(Data->Hyper[Slot], Hyper, sizeof(Hyper)) != 0) {
    std::memcpy(Data->Hyper[Slot], Hyper, sizeof(Hyper));
    copyIn(OnGPU, Hyper, sizeof(Hyper));
  }
  void *Args[] = {Values, Gradients, Moment1, Moment2, OnGPU};
  Data->startOwn(Data->Program.gpu->adamw, Args, Count);
}

/// Updates as many elements at a time as the scratch holds in f32, which a GPU
/// may keep in its cache.
void Device::updateAdamW(float *Values, float *Gradients,
                         const MomentBlocks &Moment1,
                         const MomentBlocks &Moment2, const float (&Hyper)[8],
                         int64_t Count) {
  int64_t Most =
      Data->ScratchBytes / (8 * POPLAR_STATE_BLOCK) * POPLAR_STATE_BLOCK;
  if (Most == 0)
    fail("the plan has ", Data->ScratchBytes,
         " bytes of scratch, too few for a block of optimizer states; "
         "build the program again");
  auto *Wide1 = reinterpret_cast<float *>(Data->Scratch), *Wide2 = Wide1 + Most;
  Stream Queue = Data->OnGPU.Queue;
  for (int64_t First = 0; First < Count; First += Most) {
    int64_t Part = std::min(Most, Count - First);
    MomentBlocks M1 = Moment1.from(First), M2 = Moment2.from(First);
    Data->Graphs.interrupt();
    Data->StateKernels->widenStates(M1, M2, Wide1, Wide2, Part, Queue);
    updateAdamW(Values + First, Gradients + First, Wide1, Wide2, Hyper, Part);
    Data->StateKernels->roundStates(Wide1, Wide2, M1, M2, Part, Queue);
  }
}

void Device::convertWorking(const float *From, char *To, int64_t Count) {
  void *Args[] = {const_cast<float *>(From), To};
  Data->startOwn(Data->Program.gpu->convert_working, Args, Count);
}

double Device::measurePeakFlops(PoplarType Type) {
  using Clock = std::chrono::steady_clock;
  double Best = 0;
  for (int64_t Size : {4096, 8192}) {
    int64_t Bytes = Size * Size * (Type == POPLAR_F32 ? 4 : 2);
    size_t Free = 0, Total = 0;
    check(Driver::get().cuMemGetInfo_v2(&Free, &Total), "tell its memory");
    if (static_cast<int64_t>(Free) < 4 * Bytes)
      break;
    Allocation Operands(3 * Bytes);
    fillRandomly(Operands.data(), 2 * Bytes, Type, Data->OnGPU.Queue);
    PoplarGemm Gemm = {};
    Gemm.m = Gemm.n = Gemm.k = Size;
    Gemm.a_type = Gemm.b_type = Gemm.c_type = Type;
    CublasCache Products(Data->Capability, 0);
    Products.prepare(Gemm, 1);
    const char *A = Operands.data(), *B = A + Bytes;
    for (int Run = 0; Run < 4; ++Run) {
      synchronize();
      auto Begin = Clock::now();
      Products.run(Gemm, {A, B, nullptr, nullptr, Operands.data() + 2 * Bytes},
                   1, Data->OnGPU.Queue);
      synchronize();
      std::chrono::duration<double> Seconds = Clock::now() - Begin;
      Best = std::max(Best, 2.0 * static_cast<double>(Size * Size * Size) /
                                Seconds.count());
    }
  }
  return Best;
}

void Device::occupyCore(const std::function<bool()> &) {}

std::string poplar::runtime::getLibraryVersions() {
  int Version = Driver::get().Version;
  return "\"cuda_driver\": \"" + std::to_string(Version / 1000) + "." +
         std::to_string(Version % 1000 / 10) + "\"";
}
