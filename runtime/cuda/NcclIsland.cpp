//===- NcclIsland.cpp - GPUs that collect by NCCL -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/NcclIsland.h"
#include "Poplar/Runtime/ABI.h"
#include "comm/Communicator.h"
#include "comm/Pause.h"
#include "cuda/Memory.h"
#include "cuda/Nccl.h"
#include "cuda/WireKernels.h"
#include "program/Executor.h"
#include "support/Error.h"
#include "support/Log.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;
using comm::Type;

/// Scratch for pieces whose type changes, and for sums that are added later.
static constexpr int64_t ScratchBytes = 64 << 20;

static nccl::DataType getDataType(Type T) {
  constexpr nccl::DataType Types[] = {nccl::Float32, nccl::BFloat16,
                                      nccl::Float16, nccl::Uint8, nccl::Int64};
  return Types[static_cast<int32_t>(T)];
}

static nccl::UniqueId toId(const std::string &Text) {
  nccl::UniqueId Id;
  if (Text.size() != sizeof(Id.Internal))
    fail("an identity of NCCL's has ", sizeof(Id.Internal), " bytes, not ",
         Text.size());
  std::memcpy(Id.Internal, Text.data(), sizeof(Id.Internal));
  return Id;
}

std::string cuda::makeNcclId() {
  const nccl::Nccl &N = nccl::Nccl::get();
  nccl::UniqueId Id;
  if (nccl::Status S = N.ncclGetUniqueId(&Id))
    fail(N.Name, " cannot make an identity for a communicator: ",
         N.ncclGetErrorString(S),
         "; NCCL_SOCKET_IFNAME may name the network to use");
  return std::string(Id.Internal, sizeof(Id.Internal));
}

namespace {

/// The stream of collectives, in the GPU's context, which is the thread's from
/// then on.
class CollectiveStream {
public:
  explicit CollectiveStream(int GPU) : GPU(GPU) {
    const Driver &D = Driver::get();
    Context Primary;
    check(D.cuDevicePrimaryCtxRetain(&Primary, GPU), "make a context");
    check(D.cuCtxSetCurrent(Primary), "use its context");
    // Else blocks of a collective wait behind all of a product that computes.
    int Least = 0, Greatest = 0;
    check(D.cuCtxGetStreamPriorityRange(&Least, &Greatest),
          "tell its priorities");
    check(D.cuStreamCreateWithPriority(&Queue, NonBlocking, Greatest),
          "create a stream");
    for (Event &Point : Points)
      check(D.cuEventCreate(&Point, NoTiming), "create an event");
  }
  ~CollectiveStream() {
    const Driver &D = Driver::get();
    for (Event Point : Points)
      D.cuEventDestroy_v2(Point);
    D.cuStreamDestroy_v2(Queue);
    D.cuDevicePrimaryCtxRelease_v2(GPU);
  }
  CollectiveStream(const CollectiveStream &) = delete;
  CollectiveStream &operator=(const CollectiveStream &) = delete;

  Stream Queue = nullptr;
  /// Events of DeviceOrder, and of finish().
  Event Points[comm::DeviceOrder::NumPoints + 1] = {};

private:
  int GPU;
};

} // namespace

class cuda::NcclStream {
public:
  explicit NcclStream(int GPU)
      : OnGPU(GPU), Scratch(ScratchBytes, Allocation::ForCollectives()) {}

  CollectiveStream OnGPU;
  Allocation Scratch;
  PinnedBuffer Pinned;
  WireKernels Kernels;
};

std::shared_ptr<NcclStream> cuda::makeNcclStream(int GPU) {
  return std::make_shared<NcclStream>(GPU);
}

namespace {

/// All calls are made by one thread. The communicator does not block: a rank
/// that never comes is then a time-out of the watchdog's, and not a thread that
/// nobody can end.
class NcclIsland : public comm::IslandLibrary {
public:
  NcclIsland(std::shared_ptr<NcclStream> Shared, int Rank, int Size,
             const std::string &Id, const std::vector<MemoryRange> &Memory,
             const std::atomic<bool> &Interrupted)
      : Rank(Rank), Size(Size), Interrupted(Interrupted),
        Shared(std::move(Shared)), OnGPU(this->Shared->OnGPU),
        Scratch(this->Shared->Scratch), Pinned(this->Shared->Pinned),
        Kernels(this->Shared->Kernels) {
    nccl::Config Config;
    Config.Blocking = 0;
    nccl::Status S =
        N.ncclCommInitRankConfig(&Comm, Size, toId(Id), Rank, &Config);
    call(S, "join the others");
    for (MemoryRange Range : Memory)
      enroll(Range);
    enroll({Scratch.data(), Scratch.size()});
  }
  ~NcclIsland() override {
    if (Comm)
      N.ncclCommAbort(Comm);
  }

  std::string getName() const override { return N.Name; }
  int rank() const override { return Rank; }
  int size() const override { return Size; }
  char *getScratch() const override { return Scratch.data(); }
  int64_t getScratchBytes() const override { return Scratch.size(); }

  void waitFor(void *Point) override {
    check(D.cuStreamWaitEvent(OnGPU.Queue, static_cast<Event>(Point), 0),
          "wait for computation");
  }
  void *recordPoint(int Number) override {
    Event Point = OnGPU.Points[Number];
    check(D.cuEventRecord(Point, OnGPU.Queue), "record an event");
    return Point;
  }
  bool hasReached(void *Point) override {
    call(0, "go on");
    Result R = D.cuEventQuery(static_cast<Event>(Point));
    if (R != NotReady)
      check(R, "finish a collective");
    return R == 0;
  }

  void broadcast(const std::vector<Piece> &Pieces, Type T) override {
    if (isWhole(Pieces, T, &Piece::Target)) {
      const Piece &Own = Pieces[static_cast<size_t>(Rank)];
      return call(N.ncclAllGather(Own.Source, Pieces[0].Target,
                                  static_cast<size_t>(Own.Count),
                                  getDataType(T), Comm, OnGPU.Queue),
                  "all-gather");
    }
    inGroup(Pieces, [&](const Piece &P) {
      return N.ncclBroadcast(P.Source, P.Target, static_cast<size_t>(P.Count),
                             getDataType(T), P.Root, Comm, OnGPU.Queue);
    });
  }

  void reduce(const std::vector<Piece> &Pieces) override {
    if (isWhole(Pieces, Type::F32, &Piece::Source)) {
      const Piece &Own = Pieces[static_cast<size_t>(Rank)];
      return call(N.ncclReduceScatter(Pieces[0].Source, Own.Target,
                                      static_cast<size_t>(Own.Count),
                                      nccl::Float32, nccl::Sum, Comm,
                                      OnGPU.Queue),
                  "reduce-scatter");
    }
    inGroup(Pieces, [&](const Piece &P) {
      return N.ncclReduce(P.Source, P.Target, static_cast<size_t>(P.Count),
                          nccl::Float32, nccl::Sum, P.Root, Comm, OnGPU.Queue);
    });
  }

  void allReduce(const float *Source, float *Result, int64_t Count) override {
    if (Count)
      call(N.ncclAllReduce(Source, Result, static_cast<size_t>(Count),
                           nccl::Float32, nccl::Sum, Comm, OnGPU.Queue),
           "all-reduce");
  }

  void exchange(const std::vector<Transfer> &Transfers) override {
    call(N.ncclGroupStart(), "start a group");
    auto Queue = [&](nccl::Status S) {
      if (S && S != nccl::InProgress)
        refuseInGroup(S, "queue an exchange");
    };
    for (const Transfer &T : Transfers) {
      if (T.SourceBytes)
        Queue(N.ncclSend(T.Source, static_cast<size_t>(T.SourceBytes),
                         nccl::Uint8, T.To, Comm, OnGPU.Queue));
      if (T.TargetBytes)
        Queue(N.ncclRecv(T.Target, static_cast<size_t>(T.TargetBytes),
                         nccl::Uint8, T.From, Comm, OnGPU.Queue));
    }
    call(N.ncclGroupEnd(), "start an exchange");
  }

  void convert(const void *Source, Type From, Type Wire, void *Target, Type To,
               int64_t Count) override {
    Kernels.convert(Source, From, Wire, Target, To, Count, OnGPU.Queue);
  }
  void add(float *Sum, const float *Source, int64_t Count) override {
    Kernels.add(Sum, Source, Count, OnGPU.Queue);
  }
  void copyIn(void *To, const void *From, int64_t Bytes) override {
    Pinned.copyIn(static_cast<char *>(To), static_cast<const char *>(From),
                  static_cast<size_t>(Bytes), OnGPU.Queue);
  }
  void copyOut(void *To, const void *From, int64_t Bytes) override {
    // A copy waits in the driver, where nothing can interrupt it: by then there
    // has to be nothing left that another rank could delay.
    finish();
    Pinned.copyOut(static_cast<char *>(To), static_cast<const char *>(From),
                   static_cast<size_t>(Bytes), OnGPU.Queue);
  }

  void setBackground(std::function<bool()> Function) override {
    Background = std::move(Function);
  }

  void finish() override {
    void *Done = recordPoint(comm::DeviceOrder::NumPoints);
    // The host's cores have little else to do.
    comm::Pause P(std::chrono::microseconds(20));
    while (!hasReached(Done))
      P.wait();
  }

  void close() override {
    for (void *Handle : Registered)
      N.ncclCommDeregister(Comm, Handle);
    Registered.clear();
    call(N.ncclCommFinalize(Comm), "leave the others");
    nccl::Status S = N.ncclCommDestroy(std::exchange(Comm, nullptr));
    if (S)
      fail(N.Name, " cannot end: ", N.ncclGetErrorString(S));
  }

private:
  /// Registers memory with the communicator. What cannot be is copied by the
  /// library: slower, no error.
  void enroll(MemoryRange Range) {
    void *Handle = nullptr;
    nccl::Status S = N.ncclCommRegister(
        Comm, Range.first, static_cast<size_t>(Range.second), &Handle);
    if (Handle)
      Registered.push_back(Handle);
    std::string Reason = "that is off in the library (NCCL_LOCAL_REGISTER)";
    if (S != 0 && S != nccl::InProgress)
      Reason = N.ncclGetErrorString(S);
    log(formatBytes(Range.second), " of the GPU's memory are ",
        Handle ? "registered with " : "not registered with ", N.Name,
        Handle ? "" : ", which copies what it collects there, as " + Reason);
    call(0, "register memory");
  }

  /// Whether pieces are equal slices of one array, in the order of the ranks.
  /// Counts and order are the same on all ranks of the island, and so is
  /// whether the array is in one piece: see IslandCommunicator.
  template <typename Pointer>
  bool isWhole(const std::vector<Piece> &Pieces, Type T,
               Pointer Piece::*Member) const {
    if (static_cast<int>(Pieces.size()) != Size)
      return false;
    auto *First = static_cast<const char *>(Pieces[0].*Member);
    int64_t Bytes = Pieces[0].Count * comm::getBytes(T);
    for (int R = 0; R < Size; ++R) {
      const Piece &P = Pieces[static_cast<size_t>(R)];
      if (P.Root != R || P.Count != Pieces[0].Count ||
          P.*Member != First + R * Bytes)
        return false;
    }
    return true;
  }

  template <typename Function>
  void inGroup(const std::vector<Piece> &Pieces, Function &&Queue) {
    if (Pieces.empty())
      return;
    call(N.ncclGroupStart(), "start a group");
    // NCCL reads the calls of a group at its end.
    for (const Piece &P : Pieces)
      if (nccl::Status S = Queue(P); S && S != nccl::InProgress)
        refuseInGroup(S, "queue a collective");
    call(N.ncclGroupEnd(), "start a group of collectives");
  }

  /// Waits until the library has taken what was queued: before, it takes
  /// nothing else. Looks for errors of whatever is under way.
  void call(nccl::Status S, const char *What) {
    comm::Pause P;
    // There is no communicator where the library could not start one.
    if (S != 0 && S != nccl::InProgress)
      refuse(S, What);
    if (!Comm)
      fail(N.Name, " was ended by an earlier error");
    while (true) {
      nccl::Status State = 0;
      S = N.ncclCommGetAsyncError(Comm, &State);
      if (Interrupted) {
        N.ncclCommAbort(std::exchange(Comm, nullptr));
        fail("interrupted");
      }
      if (S == 0 && State == 0)
        return;
      if (S != 0 || State != nccl::InProgress)
        refuse(S ? S : State, What);
      if (!Background || !Background())
        P.wait();
    }
  }

  /// In a group, the library would only note that the communicator is to end,
  /// and never come to it. A group with a call that failed starts nothing.
  [[noreturn]] void refuseInGroup(nccl::Status S, const char *What) {
    N.ncclGroupEnd();
    refuse(S, What);
  }

  [[noreturn]] void refuse(nccl::Status S, const char *What) {
    // The library's last error, whatever the communicator.
    const char *Last = N.ncclGetLastError(Comm);
    std::string Detail = Last && *Last ? std::string(" (") + Last + ")" : "";
    std::string Text = N.ncclGetErrorString(S);
    // Collectives under way would wait forever.
    if (Comm)
      N.ncclCommAbort(std::exchange(Comm, nullptr));
    fail(
        N.Name, " cannot ", What, ": ", Text, Detail,
        "; NCCL_DEBUG=WARN prints details, POPLAR_COMM=host does not use NCCL");
  }

  const Driver &D = Driver::get();
  const nccl::Nccl &N = nccl::Nccl::get();
  int Rank, Size;
  const std::atomic<bool> &Interrupted;
  std::shared_ptr<NcclStream> Shared;
  CollectiveStream &OnGPU;
  Allocation &Scratch;
  PinnedBuffer &Pinned;
  WireKernels &Kernels;
  nccl::Comm Comm = nullptr;
  std::vector<void *> Registered;
  std::function<bool()> Background;
};

} // namespace

std::unique_ptr<comm::IslandLibrary>
cuda::joinNccl(std::shared_ptr<NcclStream> OnGPU, int Rank, int Size,
               const std::string &Id, const std::vector<MemoryRange> &Memory,
               const std::atomic<bool> &Interrupted) {
  return std::make_unique<NcclIsland>(std::move(OnGPU), Rank, Size, Id, Memory,
                                      Interrupted);
}
