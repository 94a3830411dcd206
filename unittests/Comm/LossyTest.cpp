//===- LossyTest.cpp - Blocks of int8 and error feedback ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Backend.h"
#include "comm/ThreadTransport.h"
#include "support/Error.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static constexpr float Infinity = std::numeric_limits<float>::infinity();

static std::vector<float> makeData(int Seed, int64_t Count) {
  std::mt19937 Generator(static_cast<unsigned>(Seed));
  std::uniform_real_distribution<float> Mantissa(-1, 1);
  std::uniform_int_distribution<int> Exponent(-12, 2);
  std::vector<float> Data(static_cast<size_t>(Count));
  for (float &Value : Data)
    Value = std::ldexp(Mantissa(Generator), Exponent(Generator));
  return Data;
}

/// What the wire carries, written down by the definition in comm/Wire.h, in
/// double precision.
static std::vector<float> quantise(const std::vector<float> &Values) {
  std::vector<float> Result(Values.size());
  for (size_t First = 0; First < Values.size(); First += 256) {
    size_t End = std::min(First + 256, Values.size());
    double Largest = 0;
    for (size_t I = First; I < End; ++I)
      Largest = std::max(Largest, std::fabs(static_cast<double>(Values[I])));
    auto Scale = static_cast<float>(Largest / 127);
    for (size_t I = First; I < End; ++I) {
      double Q = Scale > 0 ? std::nearbyint(Values[I] * (127 / Largest)) : 0;
      Result[I] = static_cast<float>(Q) * Scale;
    }
  }
  return Result;
}

static std::vector<float> carry(Type Wire, std::vector<float> Values) {
  auto Count = static_cast<int64_t>(Values.size());
  std::vector<char> Message(static_cast<size_t>(getBytes(Wire, Count)));
  convert(Values.data(), Type::F32, Message.data(), Wire, Count);
  convert(Message.data(), Wire, Values.data(), Type::F32, Count);
  return Values;
}

TEST(BlockInt8, IsAsDefined) {
  for (int64_t Count : {0, 1, 5, 255, 256, 257, 1000, 4096}) {
    std::vector<float> Values = makeData(static_cast<int>(Count), Count),
                       Expected = quantise(Values),
                       Carried = carry(Type::I8, Values);
    int Different = 0;
    for (size_t I = 0; I < Values.size(); ++I) {
      // Beside a tie, single precision may go the other way.
      if (Carried[I] == Expected[I])
        continue;
      ++Different;
      EXPECT_NEAR(std::fabs(Carried[I] - Values[I]),
                  std::fabs(Expected[I] - Values[I]), 1e-5f);
    }
    EXPECT_LE(Different, Count / 500);
    roundTo(Values.data(), Type::I8, Count);
    EXPECT_EQ(Values, Carried);
    // What has been carried once is not changed by being carried again, but for
    // the last bits of the scale.
    std::vector<float> Twice = carry(Type::I8, Carried);
    for (size_t I = 0; I < Values.size(); ++I)
      EXPECT_NEAR(Twice[I], Carried[I], 1e-6f * std::fabs(Carried[I]));
  }
  EXPECT_EQ(getBytes(Type::I8, 257), 257 + 8);
  EXPECT_EQ(getBytes(Type::BF16, 257), 514);
}

TEST(BlockInt8, TakesOtherTypes) {
  std::vector<float> Values = makeData(3, 700), FromHalf(700), Sum(700, 1);
  std::vector<uint16_t> Half(700);
  convert(Values.data(), Type::F32, Half.data(), Type::BF16, 700);
  convert(Half.data(), Type::BF16, FromHalf.data(), Type::F32, 700);
  std::vector<char> A(static_cast<size_t>(getBytes(Type::I8, 700))), B(A);
  convert(Half.data(), Type::BF16, A.data(), Type::I8, 700);
  convert(FromHalf.data(), Type::F32, B.data(), Type::I8, 700);
  EXPECT_EQ(A, B);
  accumulate(Sum.data(), A.data(), Type::I8, 700);
  std::vector<float> Carried = carry(Type::I8, FromHalf);
  for (int I = 0; I < 700; ++I)
    EXPECT_EQ(Sum[I], 1 + Carried[I]);
}

TEST(BlockInt8, HandsOnWhatIsNotFinite) {
  for (float Bad : {Infinity, -Infinity, NAN}) {
    std::vector<float> Values = makeData(1, 600), Clean = Values;
    Values[300] = Bad;
    std::vector<float> Carried = carry(Type::I8, Values);
    for (int I = 0; I < 600; ++I)
      EXPECT_EQ(std::isnan(Carried[I]), I / 256 == 1) << I;
    // It is not owed: the next sum is clean again.
    std::vector<float> Residual(600);
    std::vector<char> Message(static_cast<size_t>(getBytes(Type::I8, 600)));
    convertWithFeedback(Values.data(), Residual.data(), Message.data(),
                        Type::I8, 600);
    for (int I = 256; I < 512; ++I)
      EXPECT_EQ(Residual[I], 0);
  }
  // The reciprocal of their scale would be infinite.
  EXPECT_EQ(carry(Type::I8, {1e-38f, -1e-40f, 0}),
            (std::vector<float>{0, 0, 0}));
  float Largest = std::numeric_limits<float>::max();
  EXPECT_NEAR(carry(Type::I8, {Largest, -Largest / 127})[1] / Largest,
              -1.0 / 127, 1e-6);
}

/// What is carried adds up to what was to be carried.
TEST(ErrorFeedback, OwesNoMoreThanOneRounding) {
  for (Type Wire : {Type::BF16, Type::I8}) {
    constexpr int64_t Count = 300;
    std::vector<float> Residual(Count), Carried(Count);
    std::vector<double> Wanted(Count), Got(Count), Without(Count);
    std::vector<char> Message(static_cast<size_t>(getBytes(Wire, Count)));
    double Scale = 0;
    for (int Step = 0; Step < 400; ++Step) {
      std::vector<float> Values = makeData(Step, Count);
      Values[7] = 1e-4f; // far below the scale: rounded alone, always lost
      Values[8] = 4;
      convertWithFeedback(Values.data(), Residual.data(), Message.data(), Wire,
                          Count);
      convert(Message.data(), Wire, Carried.data(), Type::F32, Count);
      std::vector<float> Alone = carry(Wire, Values);
      for (int I = 0; I < Count; ++I) {
        Wanted[I] += Values[I];
        Got[I] += Carried[I];
        Without[I] += Alone[I];
        Scale = std::max<double>(Scale, std::fabs(Values[I]));
      }
    }
    // Half a step of the format at the largest value, and rounding in f32.
    double Bound = Scale * (Wire == Type::I8 ? 0.6 / 127 : 0x1p-8) + 1e-3;
    for (int I = 0; I < Count; ++I)
      EXPECT_NEAR(Got[I], Wanted[I], Bound) << getName(Wire) << " " << I;
    if (Wire == Type::I8) {
      EXPECT_EQ(Without[7], 0);
    }
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Runs `Body` on each rank; messages know nothing of nodes, as on one machine.
static void onThreads(const Topology &Sites, const CommOptions &O,
                      const std::function<void(Communicator &)> &Body) {
  ThreadWorld World(Sites.size(), std::vector<int>(Sites.size(), 0));
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < Sites.size(); ++Rank)
    Threads.emplace_back([&, Rank] {
      auto C = makeThreadCommunicator(World, Rank, O);
      C->useSites(Sites);
      Body(*C);
      C->close();
    });
  for (std::thread &T : Threads)
    T.join();
}

/// The sums of one rank's slice, with everything written out. `Owed` has what
/// nodes owe of each element, and the owner of the sum.
static std::vector<float> sum(const Topology &Sites, Type Wire, int Slice,
                              const std::vector<int64_t> &Bounds, int Step,
                              std::vector<std::vector<float>> &Owed) {
  int64_t Begin = Bounds[Slice], Count = Bounds[Slice + 1] - Begin;
  std::vector<float> Sum;
  for (int Node = 0; Node < Sites.numNodes(); ++Node) {
    std::vector<float> OfNode;
    for (int Rank : Sites.getMembers(Node)) {
      std::vector<float> Data = makeData(Step * 100 + Rank, Bounds.back());
      for (int64_t I = 0; I < Count; ++I)
        if (OfNode.size() < static_cast<size_t>(Count))
          OfNode.push_back(Data[Begin + I]);
        else
          OfNode[I] += Data[Begin + I];
    }
    if (Node != Sites.getNode(Slice)) {
      for (int64_t I = 0; I < Count; ++I)
        OfNode[I] += Owed[Node][Begin + I];
      std::vector<float> Carried = carry(Wire, OfNode);
      for (int64_t I = 0; I < Count; ++I)
        Owed[Node][Begin + I] = OfNode[I] - Carried[I];
      OfNode = Carried;
    }
    if (Sum.empty())
      Sum = OfNode;
    else
      for (int64_t I = 0; I < Count; ++I)
        Sum[I] += OfNode[I];
  }
  return Sum;
}

static const std::vector<std::pair<std::vector<int>, std::vector<int64_t>>>
    Cases = {{{0, 1}, {0, 700, 1000}},
             {{0, 1}, {0, 0, 300}},
             {{0, 0, 1, 1}, {0, 300, 310, 2000, 2600}},
             {{0, 1, 0, 2, 1}, {0, 400, 400, 1300, 1500, 2222}},
             {{0, 0, 0}, {0, 10, 20, 1000}}};

TEST(LossySums, AreExactInsideOfNodes) {
  for (Type Wire : {Type::BF16, Type::I8})
    for (const auto &[Nodes, Bounds] : Cases) {
      Topology Sites(Nodes);
      std::vector<std::vector<float>> Owed(Sites.numNodes(),
                                           std::vector<float>(Bounds.back()));
      std::vector<std::vector<std::vector<float>>> Expected;
      for (int Step = 0; Step < 4; ++Step) {
        Expected.emplace_back();
        for (int Slice = 0; Slice < Sites.size(); ++Slice)
          Expected.back().push_back(
              sum(Sites, Wire, Slice, Bounds, Step, Owed));
      }
      std::mutex Mutex;
      for (int64_t MaxElements : {512, 1 << 30}) {
        CommOptions O;
        O.Messages.MaxElements = MaxElements;
        onThreads(Sites, O, [&, &Bounds = Bounds](Communicator &C) {
          std::vector<float> Residual(static_cast<size_t>(
              Communicator::countResidual(Sites, C.rank(), Bounds.data(),
                                          /*GathersSums=*/false)));
          int64_t Count = Bounds[C.rank() + 1] - Bounds[C.rank()];
          std::vector<float> Shard(Count), All(Count, 2);
          for (int Step = 0; Step < 4; ++Step) {
            std::vector<float> Data =
                makeData(Step * 100 + C.rank(), Bounds.back());
            bool Adds = Step % 2;
            std::fill(Shard.begin(), Shard.end(), 2.0f);
            C.reduceScatter(Data.data(), Shard.data(), Adds, Wire,
                            Bounds.data(), {Residual.data()});
            const std::vector<float> &Right = Expected[Step][C.rank()];
            std::lock_guard<std::mutex> Lock(Mutex);
            for (int64_t I = 0; I < Count; ++I)
              EXPECT_EQ(Shard[I], Right[I] + (Adds ? 2 : 0))
                  << getName(Wire) << " rank " << C.rank() << " element " << I;
          }
        });
      }
    }
}

TEST(LossySums, AreTheSameOnAllRanksAndAddUp) {
  for (Type Wire : {Type::BF16, Type::I8})
    for (const auto &[Nodes, Bounds] : Cases) {
      Topology Sites(Nodes);
      int64_t Count = Bounds.back();
      std::vector<std::vector<float>> Results(Sites.size());
      std::vector<double> Wanted(Count), Got(Count);
      std::mutex Mutex;
      constexpr int Steps = 30;
      onThreads(Sites, {}, [&, &Bounds = Bounds](Communicator &C) {
        std::vector<float> Residual(static_cast<size_t>(
            Communicator::countResidual(Sites, C.rank(), Bounds.data(),
                                        /*GathersSums=*/true)));
        for (int Step = 0; Step < Steps; ++Step) {
          std::vector<float> Data = makeData(Step * 100 + C.rank(), Count);
          {
            std::lock_guard<std::mutex> Lock(Mutex);
            for (int64_t I = 0; I < Count; ++I)
              Wanted[I] += Data[I];
          }
          C.allReduce(Data.data(), Data.data(), Wire, Bounds.data(),
                      {Residual.data()});
          std::lock_guard<std::mutex> Lock(Mutex);
          if (C.rank() == 0)
            for (int64_t I = 0; I < Count; ++I)
              Got[I] += Data[I];
          Results[C.rank()] = Data;
        }
      });
      for (const std::vector<float> &Other : Results)
        EXPECT_EQ(std::memcmp(Other.data(), Results[0].data(), Count * 4), 0);
      // A rounding of each node and one of the sum, all of at most 20.
      double Bound = 20.0 * (Sites.numNodes() + 1) *
                         (Wire == Type::I8 ? 0.6 / 127 : 0x1p-8) +
                     1e-3;
      for (int64_t I = 0; I < Count; ++I)
        EXPECT_NEAR(Got[I], Wanted[I], Bound) << getName(Wire) << " " << I;
    }
}

/// A pipeline stage's ranks reduce among themselves, as if there were no
/// others.
TEST(LossySums, OfSubgroupsAreThoseOfTheirRanksAlone) {
  for (const auto &[Nodes, Bounds] : Cases) {
    Topology Sites(Nodes);
    int Size = Sites.size();
    int64_t Count = Bounds.back();
    auto Add = [&, &Bounds = Bounds](Communicator &C) {
      std::vector<float> Data,
          Residual(static_cast<size_t>(Communicator::countResidual(
              Sites, C.rank(), Bounds.data(), true)));
      for (int Step = 0; Step < 3; ++Step) {
        Data = makeData(Step * 100 + C.rank(), Count);
        C.allReduce(Data.data(), Data.data(), Type::I8, Bounds.data(),
                    {Residual.data()});
      }
      return Data;
    };
    std::vector<std::vector<float>> Alone(Size), InGroup(Size);
    onThreads(Sites, {}, [&](Communicator &C) { Alone[C.rank()] = Add(C); });
    // The others are in front, and have nothing to do.
    constexpr int Others = 2;
    ThreadWorld World(Size + Others, std::vector<int>(Size + Others, 0));
    std::vector<std::thread> Threads;
    for (int Rank = 0; Rank < Size + Others; ++Rank)
      Threads.emplace_back([&, Rank] {
        auto C = makeThreadCommunicator(World, Rank, {});
        if (Rank >= Others) {
          std::vector<int> Ranks(Size);
          std::iota(Ranks.begin(), Ranks.end(), Others);
          auto Group = C->makeSubgroup(Ranks);
          Group->useSites(Sites);
          InGroup[Rank - Others] = Add(*Group);
        }
        C->close();
      });
    for (std::thread &T : Threads)
      T.join();
    EXPECT_EQ(InGroup, Alone);
  }
}

/// Slices cross once for a node, in as many bytes as the format has.
TEST(LossySums, SendFewerBytes) {
  Topology Sites({0, 0, 1, 1});
  std::vector<int64_t> Bounds = {0, 2560, 5120, 7680, 10240};
  CommOptions O;
  ThreadWorld World(4, {0, 0, 1, 1});
  std::vector<int64_t> Remote(4), Local(4);
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < 4; ++Rank)
    Threads.emplace_back([&, Rank] {
      auto C = makeThreadCommunicator(World, Rank, O);
      C->useSites(Sites);
      std::vector<float> Data = makeData(Rank, 10240), Shard(2560),
                         Residual(2560);
      EXPECT_EQ(Communicator::countResidual(Sites, Rank, Bounds.data(), false),
                2560);
      int64_t RemoteBefore = C->getRemoteBytes(),
              LocalBefore = C->getLocalBytes();
      C->reduceScatter(Data.data(), Shard.data(), false, Type::I8,
                       Bounds.data(), {Residual.data()});
      Remote[Rank] = C->getRemoteBytes() - RemoteBefore;
      Local[Rank] = C->getLocalBytes() - LocalBefore;
      C->close();
    });
  for (std::thread &T : Threads)
    T.join();
  for (int Rank = 0; Rank < 4; ++Rank) {
    EXPECT_EQ(Remote[Rank], getBytes(Type::I8, 2560));
    EXPECT_EQ(Local[Rank], 2 * 2560 * 4);
  }
}
