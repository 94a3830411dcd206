//===- StreamConformanceTest.cpp - Collectives on a thread ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of the conformance suite: what a stream must do over any backend.
//
//===----------------------------------------------------------------------===//

#include "RankRunner.h"
#include "comm/Agreement.h"
#include "support/Error.h"

#include <atomic>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sched.h>
#include <thread>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

/// Yields of this process, by libraries that are loaded, too.
static std::atomic<int64_t> Yields{0};

extern "C" int sched_yield() {
  static auto *Real =
      reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "sched_yield"));
  ++Yields;
  return Real();
}

namespace {

constexpr int NumCollectives = 3;

/// A collective and the memory it works on; integers, so that sums are exact.
struct Task {
  Task(int Rank, int Size, int Number)
      : Count(10 + 97 * Number), Size(Size), Number(Number),
        Bounds(getEqualBounds(Count, Size)), Full(Count), Shard(Count) {
    C.TheKind = static_cast<Collective::Kind>(Number % NumCollectives);
    C.Bounds = Bounds.data();
    C.Bucket = Number;
    for (int64_t I = 0; I < Count; ++I)
      Full[I] = static_cast<float>(Rank + I % 50);
    C.Send = Full.data();
    C.Receive = Full.data();
    if (C.TheKind == Collective::ReduceScatter)
      C.Receive = Shard.data();
    if (C.TheKind == Collective::AllGather)
      C.Send = Full.data() + Bounds[Rank];
  }

  void check(int Rank) const {
    for (int64_t I = 0, Owner = 0; I < Count; ++I) {
      while (I >= Bounds[Owner + 1])
        ++Owner;
      float Sum = static_cast<float>(Size * (Size - 1) / 2 + Size * (I % 50));
      switch (C.TheKind) {
      case Collective::AllGather:
        ASSERT_EQ(Full[I], static_cast<float>(Owner + I % 50));
        break;
      case Collective::ReduceScatter:
        if (Owner == Rank) {
          ASSERT_EQ(Shard[I - Bounds[Rank]], Sum);
        }
        break;
      case Collective::AllReduce:
        ASSERT_EQ(Full[I], Sum);
        break;
      default:
        FAIL() << "is no collective";
      }
    }
  }

  int64_t Count;
  int Size, Number;
  std::vector<int64_t> Bounds;
  std::vector<float> Full, Shard;
  Collective C;
};

} // namespace

TEST(StreamConformance, TicketsOverlap) {
  onEachStream([](CommStream &Stream) {
    constexpr int NumTasks = 12;
    std::vector<std::unique_ptr<Task>> Tasks;
    std::vector<CommStream::Ticket> Tickets;
    for (int I = 0; I < NumTasks; ++I) {
      Tasks.push_back(std::make_unique<Task>(Stream.rank(), Stream.size(), I));
      Tickets.push_back(Stream.start(Tasks.back()->C));
    }
    // Ranks wait in unlike orders, and more than once.
    for (int I = 0; I < NumTasks; ++I) {
      int Which = Stream.rank() % 2 ? NumTasks - 1 - I : I;
      Stream.wait(Tickets[Which]);
      Tasks[Which]->check(Stream.rank());
      Stream.wait(Tickets[Which]);
    }
  });
}

TEST(StreamConformance, OneDependsOnTheOther) {
  // Each starts from what the one before leaves, without a wait in between.
  onEachStream([](CommStream &Stream) {
    constexpr int64_t Count = 1001;
    std::vector<int64_t> Bounds = getEqualBounds(Count, Stream.size());
    std::vector<float> Values(Count, 1);
    Collective C;
    C.TheKind = Collective::AllReduce;
    C.Send = C.Receive = Values.data();
    C.Bounds = Bounds.data();
    float Expected = 1;
    for (int I = 0; I < 6; ++I, Expected *= static_cast<float>(Stream.size()))
      Stream.start(C);
    int64_t Sum = 1;
    Stream.run([&](Communicator &Comm) {
      EXPECT_EQ(Values[Count / 2], Expected);
      Comm.allReduceSum(&Sum, 1);
    });
    EXPECT_EQ(Sum, Stream.size());
    EXPECT_EQ(Values, std::vector<float>(Count, Expected));
  });
}

TEST(StreamConformance, MessagesArriveInOrder) {
  if (haveIslands())
    GTEST_SKIP() << "pipeline stages collect through the hosts' memory";
  // Round a ring, of several kinds, of any length, two of a kind under way.
  onEachStream([](CommStream &Stream) {
    int Size = Stream.size(), Rank = Stream.rank();
    if (Size == 1)
      return;
    int Next = (Rank + 1) % Size, Before = (Rank + Size - 1) % Size;
    constexpr int64_t Lengths[] = {1, 500, 3, 2001, 64, 7, 1000, 2};
    constexpr int NumKinds = std::size(Lengths) / 2;
    Stream.reserveMessages(4 * NumKinds);
    for (int Round = 0; Round < 3; ++Round) {
      std::vector<std::vector<int32_t>> Sent, Received;
      std::vector<int> Numbers;
      for (int Kind = 0; Kind < NumKinds; ++Kind)
        for (int I = 0; I < 2; ++I) {
          int64_t Length = Lengths[2 * Kind + I];
          Sent.emplace_back(Length, 1000 * Rank + 10 * Round + 2 * Kind + I);
          Received.emplace_back(Length, -1);
          // Odd kinds go the other way.
          int To = Kind % 2 ? Before : Next, From = Kind % 2 ? Next : Before;
          Numbers.push_back(
              Stream.receive(From, Kind, Received.back().data(), 4 * Length));
          Numbers.push_back(
              Stream.send(To, Kind, Sent.back().data(), 4 * Length));
        }
      for (int Number : Numbers)
        Stream.waitMessage(Number);
      for (size_t M = 0; M < Received.size(); ++M) {
        int From = M / 2 % 2 ? Next : Before;
        for (int32_t Value : Received[M])
          ASSERT_EQ(Value, 1000 * From + 10 * Round + static_cast<int>(M));
      }
    }
  });
}

TEST(StreamConformance, MessagesOvertakeCollectives) {
  if (haveIslands())
    GTEST_SKIP() << "pipeline stages collect through the hosts' memory";
  // The second rank starts a collective before it sends what the first one
  // wants to have before it comes to that collective.
  onEachStream([](CommStream &Stream) {
    int Size = Stream.size(), Rank = Stream.rank();
    if (Size == 1)
      return;
    Task T(Rank, Size, 2);
    Stream.reserveMessages(1);
    double Value = 0;
    if (Rank == 0)
      Stream.waitMessage(Stream.receive(1, 0, &Value, sizeof Value));
    CommStream::Ticket Ticket = Stream.start(T.C);
    if (Rank == 1) {
      Value = 42;
      Stream.waitMessage(Stream.send(0, 0, &Value, sizeof Value));
    }
    Stream.wait(Ticket);
    T.check(Rank);
    EXPECT_EQ(Value, Rank < 2 ? 42 : 0);
  });
}

// Beside a process that computes, a yield costs its whole slice, and a message
// needs many tests.
TEST(StreamConformance, WaitsDoNotYield) {
  if (haveIslands())
    GTEST_SKIP() << "islands have no messages";
  onEachStream([](CommStream &Stream) {
    int Size = Stream.size(), Rank = Stream.rank();
    if (Size == 1)
      return;
    Stream.reserveMessages(2);
    Stream.run([](Communicator &C) { C.barrier(); });
    int64_t Before = Yields;
    int32_t Sent = Rank, Received = -1;
    int Receive =
        Stream.receive((Rank + 1) % Size, 0, &Received, sizeof Received);
    // The others wait for a late one, and in the collective behind that.
    if (Rank == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    int Send = Stream.send((Rank + Size - 1) % Size, 0, &Sent, sizeof Sent);
    Stream.waitMessage(Receive);
    Stream.waitMessage(Send);
    Stream.run([](Communicator &C) { C.barrier(); });
    EXPECT_EQ(Received, (Rank + 1) % Size);
    EXPECT_EQ(Yields, Before);
  });
}

TEST(StreamConformance, SubgroupsHaveCollectives) {
  if (haveIslands())
    GTEST_SKIP() << "pipeline stages collect through the hosts' memory";
  // Even and odd ranks by themselves, then all, without a wait in between.
  onEachStream([](CommStream &Stream) {
    int Size = Stream.size(), Rank = Stream.rank();
    std::vector<int> Ranks;
    for (int R = Rank % 2; R < Size; R += 2)
      Ranks.push_back(R);
    int Group = Stream.addSubgroup(Ranks);
    auto Own = static_cast<int>(Ranks.size());
    for (int Round = 0; Round < 3; ++Round) {
      Task Part(Rank / 2, Own, Round), Whole(Rank, Size, Round);
      Part.C.Subgroup = Group;
      Stream.start(Part.C);
      Stream.wait(Stream.start(Whole.C));
      Part.check(Rank / 2);
      Whole.check(Rank);
    }
    Stream.run([](Communicator &C) {
      EXPECT_THROW(C.makeSubgroup({C.size()}), Error);
    });
  });
}

TEST(StreamConformance, CallsMayThrow) {
  onEachStream([](CommStream &Stream) {
    EXPECT_THROW(Stream.run([](Communicator &) { fail("no"); }), Error);
    Stream.run([](Communicator &C) { C.barrier(); });
    EXPECT_THROW(Stream.wait(int64_t(1) << 40), Error);
  });
}

/// What is found of a list of claims that is made for each rank.
template <typename F> Comparison compareOn(CommStream &Stream, F Make) {
  Comparison Found;
  Stream.run([&](Communicator &C) {
    Found = compareClaims(C, Make(C.rank()), "host" + std::to_string(C.rank()));
  });
  return Found;
}

TEST(StreamConformance, ClaimsThatDifferAreNamed) {
  onEachStream([](CommStream &Stream) {
    using Claims = std::vector<Claim>;
    Comparison Same = compareOn(
        Stream, [](int) { return Claims{{"--lr", "0.1"}, {"--steps", "5"}}; });
    EXPECT_EQ(Same.Error + Same.Note, "");
    if (Stream.size() < 3)
      return;
    // Lists of unlike lengths, which other versions have.
    Comparison Found = compareOn(Stream, [](int Rank) {
      Claims Mine = {{"--lr", Rank == 1 ? "0.5" : "0.1"}, {"--steps", "5"}};
      Mine.push_back({"oneDNN", Rank == 2 ? "3" : "2", false});
      if (Rank == 0)
        Mine.push_back({"--new", std::string(100000, 'x')});
      return Mine;
    });
    EXPECT_NE(Found.Error.find("--lr: most have 0.1, rank 1 (host1) has 0.5"),
              std::string::npos)
        << Found.Error;
    EXPECT_NE(Found.Error.find("--new: "), std::string::npos) << Found.Error;
    EXPECT_EQ(Found.Error.find("--steps"), std::string::npos) << Found.Error;
    EXPECT_LT(Found.Error.size(), 1000u);
    EXPECT_NE(Found.Note.find("oneDNN: most have 2, rank 2 (host2) has 3"),
              std::string::npos)
        << Found.Note;
  });
}
