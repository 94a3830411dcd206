//===- DeviceOrderTest.cpp - Collectives that a device orders -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of the conformance suite, with --ordered 1: the rank's own thread gives
// its GPU work before and after collectives and does not wait for them. Where
// NCCL is emulated and takes its time (POPLAR_EMULATED_NCCL_DELAY), it is
// checked that it does not.
//
//===----------------------------------------------------------------------===//

#include "RankRunner.h"
#include "cuda/Memory.h"
#include "support/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace {

constexpr int64_t Count = 1001, Bytes = 4 * Count;

/// The rank's GPU, with the values that collectives are of and a copy of them.
class OnGPU {
public:
  explicit OnGPU(CommStream &Stream)
      : Stream(Stream), Bounds(getEqualBounds(Count, Stream.size())) {
    cuda::Context Primary;
    cuda::check(D.cuDevicePrimaryCtxRetain(&Primary, Stream.rank()),
                "make a context");
    cuda::check(D.cuCtxSetCurrent(Primary), "use its context");
    cuda::check(D.cuStreamCreate(&Queue, cuda::NonBlocking), "make a stream");
    for (cuda::Event &Point : Points)
      cuda::check(D.cuEventCreate(&Point, cuda::NoTiming), "make an event");
    Values = std::make_unique<cuda::Allocation>(Bytes);
    Copy = std::make_unique<cuda::Allocation>(Bytes);
    Pinned = std::make_unique<cuda::PinnedBuffer>();
    std::vector<float> OnHost(Count, static_cast<float>(Stream.rank() + 1));
    Pinned->copyIn(Values->data(), reinterpret_cast<char *>(OnHost.data()),
                   Bytes, Queue);
  }
  ~OnGPU() {
    // The stream's thread looks at the points until all is complete. What went
    // wrong has been thrown before.
    try {
      Stream.waitAll();
    } catch (const std::exception &) {
    }
    Pinned.reset();
    for (cuda::Event Point : Points)
      D.cuEventDestroy_v2(Point);
    D.cuStreamDestroy_v2(Queue);
  }

  /// All-reduces the values in place, after what the GPU was given before.
  CommStream::Ticket start() {
    Collective C;
    C.TheKind = Collective::AllReduce;
    C.Send = C.Receive = Values->data();
    C.Bounds = Bounds.data();
    C.Bucket = 7;
    C.After = record(Stream.getStartPoint());
    return Stream.start(C);
  }
  /// What the GPU is given from now on waits.
  void wait(CommStream::Ticket T) {
    if (void *Point = Stream.waits(T, record(CommStream::getWaitPoint(T))))
      cuda::check(
          D.cuStreamWaitEvent(Queue, static_cast<cuda::Event>(Point), 0),
          "wait for a collective");
  }
  /// Moves the values away and back: what reads or writes them too early, or
  /// too late, spoils them.
  void work() {
    copy(*Copy, *Values);
    cuda::check(
        D.cuMemsetD8Async(cuda::addressOf(Values->data()), 0xFF, Bytes, Queue),
        "spoil the values");
    copy(*Values, *Copy);
  }
  std::vector<float> read() {
    std::vector<float> OnHost(Count);
    Pinned->copyOut(reinterpret_cast<char *>(OnHost.data()), Values->data(),
                    Bytes, Queue);
    return OnHost;
  }
  /// After so many all-reduces.
  std::vector<float> expect(int Rounds) const {
    auto Size = static_cast<float>(Stream.size());
    float Value = Size * (Size + 1) / 2;
    for (int I = 1; I < Rounds; ++I)
      Value *= Size;
    return std::vector<float>(Count, Value);
  }

private:
  void *record(int Point) {
    cuda::check(D.cuEventRecord(Points[Point], Queue), "record an event");
    return Points[Point];
  }
  void copy(cuda::Allocation &To, cuda::Allocation &From) {
    cuda::check(D.cuMemcpyDtoDAsync_v2(cuda::addressOf(To.data()),
                                       cuda::addressOf(From.data()), Bytes,
                                       Queue),
                "copy");
  }

  const cuda::Driver &D = cuda::Driver::get();
  CommStream &Stream;
  std::vector<int64_t> Bounds;
  cuda::Stream Queue = nullptr;
  cuda::Event Points[2 * CommStream::NumPoints] = {};
  std::unique_ptr<cuda::Allocation> Values, Copy;
  std::unique_ptr<cuda::PinnedBuffer> Pinned;
};

/// Whatever looks at a device while it works can come too late on a machine
/// that is busy with something else. A fault shows in every attempt.
constexpr int Attempts = 5;

/// The least delay of a collective; 0 if that is not known.
std::chrono::milliseconds getDelay() {
  const char *Given = std::getenv("POPLAR_EMULATED_NCCL_DELAY");
  return std::chrono::milliseconds(Given ? std::atoi(Given) : 0);
}

class DeviceOrdered : public testing::Test {
protected:
  void SetUp() override {
    bool CanRun = false;
    onEachStream(
        [&](CommStream &Stream) { CanRun = Stream.isOrderedByDevice(); });
    if (!CanRun)
      GTEST_SKIP() << "no device orders collectives: give --ordered 1 and "
                      "--islands with one island";
  }
};

} // namespace

TEST_F(DeviceOrdered, TheHostGoesOn) {
  onEachStream([](CommStream &Stream) {
    constexpr int Rounds = 9;
    auto Least = std::chrono::steady_clock::duration::max();
    for (int Attempt = 0; Attempt < Attempts; ++Attempt) {
      OnGPU Mine(Stream);
      Stream.run([](Communicator &C) { C.barrier(); });
      auto Begin = std::chrono::steady_clock::now();
      for (int I = 0; I < Rounds; ++I) {
        CommStream::Ticket T = Mine.start();
        Mine.wait(T);
        Mine.work();
      }
      Least = std::min(Least, std::chrono::steady_clock::now() - Begin);
      EXPECT_EQ(Mine.read(), Mine.expect(Rounds));
    }
    if (getDelay().count()) {
      EXPECT_LT(Least, Rounds * getDelay() / 2);
    }
  });
}

TEST_F(DeviceOrdered, WhatIsUnderWayIsBounded) {
  onEachStream([](CommStream &Stream) {
    constexpr int Rounds = CommStream::NumPoints + 20;
    OnGPU Mine(Stream);
    int64_t Most = 0;
    for (int Attempt = 0; Attempt < Attempts; ++Attempt) {
      for (int I = 0; I < Rounds; ++I) {
        CommStream::Ticket T = Mine.start();
        CommStatus Status = Stream.getStatus();
        Most = std::max(Most, Status.Started - Status.Completed);
        Mine.wait(T);
      }
      Stream.waitAll();
      CommStatus Status = Stream.getStatus();
      EXPECT_EQ(Status.Started, Status.Completed);
    }
    EXPECT_LE(Most, CommStream::NumPoints);
    if (getDelay().count()) {
      EXPECT_EQ(Most, CommStream::NumPoints);
    }
  });
}

TEST_F(DeviceOrdered, CallsComeAfter) {
  onEachStream([](CommStream &Stream) {
    OnGPU Mine(Stream);
    for (int I = 0; I < 3; ++I)
      Mine.start();
    Stream.run([&](Communicator &) {
      CommStatus Status = Stream.getStatus();
      EXPECT_EQ(Status.Started, Status.Completed);
    });
    EXPECT_EQ(Mine.read(), Mine.expect(3));
  });
}

TEST_F(DeviceOrdered, WaitsOfTheHostAreAsEver) {
  onEachStream([](CommStream &Stream) {
    OnGPU Mine(Stream);
    CommStream::Ticket First = Mine.start(), Second = Mine.start();
    Stream.wait(Second);
    // It is over: nothing has to be told to the device.
    EXPECT_EQ(Stream.waits(First, nullptr), nullptr);
    EXPECT_THROW(Stream.waits(Second + 1, nullptr), Error);
    EXPECT_EQ(Mine.read(), Mine.expect(2));
  });
}

TEST_F(DeviceOrdered, WaitsOfTheDeviceAreSeen) {
  if (!getDelay().count())
    GTEST_SKIP() << "a collective may be too fast to be seen";
  onEachStream([](CommStream &Stream) {
    OnGPU Mine(Stream);
    CommStatistics Before = Stream.getStatistics();
    // Nobody waits for the first.
    Stream.wait(Mine.start());
    CommStatistics Hidden = Stream.getStatistics();
    bool IsSeen = false;
    for (int Attempt = 0; Attempt < Attempts; ++Attempt) {
      CommStream::Ticket T = Mine.start();
      Mine.wait(T);
      CommStatus Status = Stream.getStatus();
      bool IsOldest = Status.OldestKind == Collective::AllReduce &&
                      Status.OldestBucket == 7;
      bool Waits = false;
      for (auto End = std::chrono::steady_clock::now() + getDelay();
           !Waits && std::chrono::steady_clock::now() < End;
           std::this_thread::sleep_for(std::chrono::milliseconds(1)))
        Waits = Stream.getStatus().Waiting;
      IsSeen |= IsOldest && Waits;
      EXPECT_EQ(Mine.read(), Mine.expect(2 + Attempt));
      Stream.waitAll();
      EXPECT_FALSE(Stream.getStatus().Waiting);
      EXPECT_EQ(Stream.getStatus().OldestKind, -1);
    }
    EXPECT_TRUE(IsSeen);
    CommStatistics After = Stream.getStatistics();
    double Delay = std::chrono::duration<double>(getDelay()).count();
    EXPECT_GE(After.getThreadSeconds() - Before.getThreadSeconds(),
              (1 + Attempts) * 0.9 * Delay);
    EXPECT_GE(After.getExposedSeconds() - Hidden.getExposedSeconds(),
              Delay / 2);
  });
}
