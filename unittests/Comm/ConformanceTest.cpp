//===- ConformanceTest.cpp - What every communicator must do --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankRunner.h"
#include "support/Error.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static constexpr Type WireTypes[] = {Type::F32, Type::BF16, Type::F16};

/// Numbers of many magnitudes, so that the order of a sum shows; the same on
/// all ranks that ask for rank `Rank`'s.
static std::vector<float> makeData(int Rank, int64_t Count, int Seed = 0) {
  std::mt19937 Generator(static_cast<unsigned>(Seed * 1000 + Rank));
  std::uniform_real_distribution<float> Mantissa(-1, 1);
  std::uniform_int_distribution<int> Exponent(-8, 8);
  std::vector<float> Data(Count);
  for (float &Value : Data)
    Value = std::ldexp(Mantissa(Generator), Exponent(Generator));
  return Data;
}

/// What a communicator should compute, with the sums written out.
static std::vector<float> sumInOrder(const Topology &Topo, int64_t Count,
                                     Type Wire, int Seed) {
  auto Add = [&](std::vector<float> &Sum, const std::vector<float> &Term) {
    if (Sum.empty()) {
      Sum = Term;
      return;
    }
    for (int64_t I = 0; I < Count; ++I)
      Sum[I] += Term[I];
  };
  std::vector<float> Sum;
  auto Round = [&](std::vector<float> Values) {
    roundTo(Values.data(), Wire, Count);
    return Values;
  };
  if (!Topo.isTwoLevel()) {
    for (int Rank = 0; Rank < Topo.size(); ++Rank)
      Add(Sum, Round(makeData(Rank, Count, Seed)));
    return Sum;
  }
  for (int Node = 0; Node < Topo.numNodes(); ++Node) {
    std::vector<float> NodeSum;
    for (int Rank : Topo.getMembers(Node))
      Add(NodeSum, Round(makeData(Rank, Count, Seed)));
    Add(Sum, Round(NodeSum));
  }
  return Sum;
}

/// Ways of cutting: equal, by rank, all to the last, none to the first, ...
static std::vector<std::vector<int64_t>> makeBounds(int Size) {
  std::vector<std::vector<int64_t>> Result;
  for (int64_t Count : {0, 1, 5, 1000})
    Result.push_back(getEqualBounds(Count, Size));
  std::vector<int64_t> Growing = {0}, Last(Size + 1), First(Size + 1, 300),
                       Alternating = {0};
  for (int Rank = 0; Rank < Size; ++Rank) {
    Growing.push_back(Growing.back() + 37 * Rank);
    Alternating.push_back(Alternating.back() + (Rank % 2 ? 0 : 129));
  }
  Last.back() = 200;
  First[0] = 0;
  Result.insert(Result.end(), {Growing, Last, First, Alternating});
  return Result;
}

/// What a sum of that data may be, if its order is the communicator's own: the
/// sum of magnitudes bounds the error.
static std::vector<float> boundError(Communicator &C, int64_t Count, Type Wire,
                                     int Seed) {
  std::vector<float> Error(Count, 0);
  for (int Rank = 0; Rank < C.size(); ++Rank) {
    std::vector<float> Data = makeData(Rank, Count, Seed);
    for (int64_t I = 0; I < Count; ++I)
      Error[I] += std::fabs(Data[I]);
  }
  float Unit = Wire == Type::F32   ? 0x1p-22f
               : Wire == Type::F16 ? 0x1p-9f
                                   : 0x1p-6f;
  for (float &E : Error)
    E = E * Unit + (Wire == Type::F16 ? 0x1p-23f : 0);
  return Error;
}

static ::testing::AssertionResult sameBits(const void *A, const void *B,
                                           int64_t Bytes) {
  if (Bytes == 0 || std::memcmp(A, B, static_cast<size_t>(Bytes)) == 0)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "bits differ";
}

/// Whether a part of a sum is what it should be: to the bit, if the order is
/// ours, or else within rounding. `Before` was there already.
static ::testing::AssertionResult sameSum(Communicator &C, const float *Sum,
                                          const float *Expected, int64_t Begin,
                                          int64_t Count, Type Wire, int Seed,
                                          const float *Before = nullptr) {
  std::vector<float> Error;
  if (!C.addsInOrder())
    Error = boundError(C, Begin + Count, Wire, Seed);
  for (int64_t I = 0; I < Count; ++I) {
    float Right = Expected[Begin + I] + (Before ? Before[I] : 0);
    float Bound = 0;
    if (!C.addsInOrder())
      Bound = Error[Begin + I] + (Before ? std::fabs(Before[I]) * 0x1p-22f : 0);
    if (!(std::fabs(Sum[I] - Right) <= Bound))
      return ::testing::AssertionFailure() << "element " << Begin + I << " is "
                                           << Sum[I] << " and not " << Right;
  }
  return ::testing::AssertionSuccess();
}

/// Whether all ranks hold the same bytes.
static ::testing::AssertionResult
sameOnAllRanks(Communicator &C, const void *Data, int64_t Bytes) {
  uint64_t Hash = 1469598103934665603u;
  for (int64_t I = 0; I < Bytes; ++I)
    Hash = (Hash ^ static_cast<const unsigned char *>(Data)[I]) * 1099511628211;
  int64_t Half = static_cast<int64_t>(Hash >> 1);
  int64_t Range[] = {Half, -Half};
  C.allReduceMax(Range, 2);
  if (Range[0] == -Range[1])
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "ranks hold different bits";
}

static std::string describe(Type Wire, const std::vector<int64_t> &Bounds) {
  std::string Text = std::string(comm::getName(Wire)) + ", bounds";
  for (int64_t Bound : Bounds)
    Text += " " + std::to_string(Bound);
  return Text;
}

TEST(Conformance, AllGather) {
  onEachRank([](Communicator &C) {
    for (const std::vector<int64_t> &Bounds : makeBounds(C.size())) {
      int64_t Count = Bounds.back(), Begin = Bounds[C.rank()];
      int64_t Own = Bounds[C.rank() + 1] - Begin;
      std::vector<float> Data = makeData(7, Count);
      for (Type Wire : WireTypes) {
        SCOPED_TRACE(describe(Wire, Bounds));
        std::vector<float> Expected = Data, Full(Count, NAN);
        roundTo(Expected.data(), Wire, Count);
        C.allGather(Data.data() + Begin, Type::F32, Full.data(), Type::F32,
                    Wire, Bounds.data());
        EXPECT_TRUE(sameBits(Full.data(), Expected.data(), Count * 4));
        // In place.
        std::vector<float> InPlace(Count, NAN);
        std::copy_n(Data.data() + Begin, Own, InPlace.data() + Begin);
        C.allGather(InPlace.data() + Begin, Type::F32, InPlace.data(),
                    Type::F32, Wire, Bounds.data());
        EXPECT_TRUE(sameBits(InPlace.data(), Expected.data(), Count * 4));
      }
    }
  });
}

TEST(Conformance, AllGatherOfUnlikeMemory) {
  if (isUniform())
    GTEST_SKIP() << "run with --uniform 1, which rules unlike memory out";
  // Each rank has types of its own for what it has and what it gets; the wire
  // type is the same for all.
  onEachRank([](Communicator &C) {
    for (const std::vector<int64_t> &Bounds : makeBounds(C.size()))
      for (Type Wire : WireTypes)
        for (int Shift = 0; Shift < 3; ++Shift) {
          SCOPED_TRACE(describe(Wire, Bounds));
          auto GetType = [&](int Rank) {
            return WireTypes[(Rank + Shift) % 3];
          };
          int64_t Count = Bounds.back();
          std::vector<float> Data = makeData(3, Count);
          for (int Rank = 0; Rank < C.size(); ++Rank) {
            int64_t Own = Bounds[Rank + 1] - Bounds[Rank];
            roundTo(Data.data() + Bounds[Rank], GetType(Rank), Own);
          }
          Type Mine = GetType(C.rank()), Result = GetType(C.rank() + 1);
          int64_t Begin = Bounds[C.rank()];
          int64_t Own = Bounds[C.rank() + 1] - Begin;
          std::vector<char> Shard(Own * getBytes(Mine)),
              Full(Count * getBytes(Result)), Expected(Full.size());
          convert(Data.data() + Begin, Type::F32, Shard.data(), Mine, Own);
          roundTo(Data.data(), Wire, Count);
          convert(Data.data(), Type::F32, Expected.data(), Result, Count);
          C.allGather(Shard.data(), Mine, Full.data(), Result, Wire,
                      Bounds.data());
          EXPECT_TRUE(sameBits(Full.data(), Expected.data(),
                               static_cast<int64_t>(Full.size())));
        }
  });
}

TEST(Conformance, ReduceScatter) {
  onEachRank([](Communicator &C) {
    for (const std::vector<int64_t> &Bounds : makeBounds(C.size()))
      for (Type Wire : WireTypes) {
        SCOPED_TRACE(describe(Wire, Bounds));
        int64_t Count = Bounds.back(), Begin = Bounds[C.rank()];
        int64_t Own = Bounds[C.rank() + 1] - Begin;
        std::vector<float> Data = makeData(C.rank(), Count, 1);
        std::vector<float> Expected =
            sumInOrder(C.getSumOrder(), Count, Wire, 1);
        std::vector<float> Shard(Own, NAN);
        C.reduceScatter(Data.data(), Shard.data(), false, Wire, Bounds.data());
        EXPECT_TRUE(
            sameSum(C, Shard.data(), Expected.data(), Begin, Own, Wire, 1));
        // Added to what is there.
        std::vector<float> Before = makeData(C.rank(), Own, 2);
        Shard = Before;
        C.reduceScatter(Data.data(), Shard.data(), true, Wire, Bounds.data());
        EXPECT_TRUE(sameSum(C, Shard.data(), Expected.data(), Begin, Own, Wire,
                            1, Before.data()));
        // In place: only the own slice changes.
        std::vector<float> InPlace = Data;
        C.reduceScatter(InPlace.data(), InPlace.data() + Begin, false, Wire,
                        Bounds.data());
        EXPECT_TRUE(sameSum(C, InPlace.data() + Begin, Expected.data(), Begin,
                            Own, Wire, 1));
        std::copy_n(InPlace.data() + Begin, Own, Data.data() + Begin);
        EXPECT_TRUE(sameBits(InPlace.data(), Data.data(), Count * 4));
      }
  });
}

TEST(Conformance, AllReduce) {
  onEachRank([](Communicator &C) {
    for (const std::vector<int64_t> &Bounds : makeBounds(C.size()))
      for (Type Wire : WireTypes) {
        SCOPED_TRACE(describe(Wire, Bounds));
        int64_t Count = Bounds.back();
        std::vector<float> Data = makeData(C.rank(), Count, 3);
        std::vector<float> Expected =
            sumInOrder(C.getSumOrder(), Count, Wire, 3);
        roundTo(Expected.data(), Wire, Count);
        std::vector<float> Result(Count, NAN);
        C.allReduce(Data.data(), Result.data(), Wire, Bounds.data());
        EXPECT_TRUE(
            sameSum(C, Result.data(), Expected.data(), 0, Count, Wire, 3));
        C.allReduce(Data.data(), Data.data(), Wire, Bounds.data());
        EXPECT_TRUE(sameBits(Data.data(), Result.data(), Count * 4));
        EXPECT_TRUE(sameOnAllRanks(C, Data.data(), Count * 4));
      }
  });
}

TEST(Conformance, SumsDoNotDependOnTheBounds) {
  onEachRank([](Communicator &C) {
    if (!C.addsInOrder())
      GTEST_SKIP() << C.getBackend() << " adds in an order of its own";
    constexpr int64_t Count = 1000;
    std::vector<int64_t> Uneven(C.size() + 1, Count);
    Uneven[0] = 0;
    for (Type Wire : WireTypes) {
      std::vector<float> Data = makeData(C.rank(), Count, 4);
      std::vector<float> A(Count), B(Count);
      C.allReduce(Data.data(), A.data(), Wire,
                  getEqualBounds(Count, C.size()).data());
      C.allReduce(Data.data(), B.data(), Wire, Uneven.data());
      EXPECT_TRUE(sameBits(A.data(), B.data(), Count * 4));
    }
  });
}

TEST(Conformance, ManyChunks) {
  // Far more than the scratch holds at a time, with ranks that come late.
  onEachRank([](Communicator &C) {
    int64_t Count = getOptions().Messages.MaxElements < 100 ? 5000 : 800000;
    std::vector<int64_t> Bounds = getEqualBounds(Count, C.size());
    if (C.size() > 1)
      Bounds[1] += Count / (2 * C.size());
    for (Type Wire : {Type::F32, Type::BF16}) {
      std::vector<float> Data = makeData(C.rank(), Count, 5);
      std::vector<float> Expected = sumInOrder(C.getSumOrder(), Count, Wire, 5);
      roundTo(Expected.data(), Wire, Count);
      C.allReduce(Data.data(), Data.data(), Wire, Bounds.data());
      EXPECT_TRUE(sameSum(C, Data.data(), Expected.data(), 0, Count, Wire, 5));
      EXPECT_TRUE(sameOnAllRanks(C, Data.data(), Count * 4));
    }
  });
}

TEST(Conformance, SmallReductions) {
  onEachRank([](Communicator &C) {
    for (int64_t Count : {0, 1, 64, 200}) {
      std::vector<int64_t> Sums(Count), Largest(Count);
      std::vector<double> Doubles(Count);
      auto GetDouble = [](int Rank, int64_t I) {
        return static_cast<double>(makeData(Rank, I + 1, 6)[I]) * 1e10 / 3;
      };
      for (int64_t I = 0; I < Count; ++I) {
        Sums[I] = (int64_t(1) << 40) + I * C.rank();
        Largest[I] = I % 2 ? -C.rank() - 5 : C.rank() + I;
        Doubles[I] = GetDouble(C.rank(), I);
      }
      C.allReduceSum(Sums.data(), Count);
      C.allReduceMax(Largest.data(), Count);
      C.allReduceSum(Doubles.data(), Count);
      int64_t N = C.size();
      for (int64_t I = 0; I < Count; ++I) {
        EXPECT_EQ(Sums[I], (N << 40) + I * N * (N - 1) / 2);
        EXPECT_EQ(Largest[I], I % 2 ? -5 : N - 1 + I);
        double InOrder = GetDouble(0, I);
        for (int Rank = 1; Rank < N; ++Rank)
          InOrder += GetDouble(Rank, I);
        EXPECT_TRUE(sameBits(&Doubles[I], &InOrder, 8));
      }
    }
  });
}

TEST(Conformance, BroadcastAndGather) {
  onEachRank([](Communicator &C) {
    for (int Root = 0; Root < C.size(); ++Root) {
      std::vector<float> Data = makeData(C.rank(), 3001, 7);
      C.broadcast(Data.data(), 3001 * 4, Root);
      EXPECT_TRUE(
          sameBits(Data.data(), makeData(Root, 3001, 7).data(), 3001 * 4));
      for (const std::vector<int64_t> &Bounds : makeBounds(C.size())) {
        int64_t Count = Bounds.back(), Begin = Bounds[C.rank()];
        std::vector<float> Expected = makeData(9, Count), Full(Count);
        C.gather(Expected.data() + Begin, Full.data(), Type::F32, Bounds.data(),
                 Root);
        if (C.rank() == Root) {
          EXPECT_TRUE(sameBits(Full.data(), Expected.data(), Count * 4));
        }
      }
      std::vector<std::string> Names =
          C.gatherStrings(std::string(C.rank() * 3, 'a'), Root);
      ASSERT_EQ(Names.size(), C.rank() == Root ? size_t(C.size()) : 0);
      for (size_t Rank = 0; Rank < Names.size(); ++Rank)
        EXPECT_EQ(Names[Rank], std::string(Rank * 3, 'a'));
    }
  });
}

TEST(Conformance, OwnersScratch) {
  onEachRank([](Communicator &C) {
    int64_t Bytes = getScratchBytes(C.size());
    std::unique_ptr<char, decltype(&std::free)> Memory(
        static_cast<char *>(std::aligned_alloc(64, Bytes)), &std::free);
    // Ranks that disagree find out, and go on with what they had.
    if (C.size() > 1) {
      try {
        C.useScratch(Memory.get(), Bytes - 64 * (C.rank() == 0));
        ADD_FAILURE() << "unequal scratch was accepted";
      } catch (const Error &E) {
        EXPECT_NE(std::string(E.what()).find("same on all"), std::string::npos);
      }
    }
    constexpr int64_t Count = 10000;
    std::vector<float> Data = makeData(C.rank(), Count, 8), Result(Count);
    C.useScratch(Memory.get(), Bytes / 100 * 64 / 64);
    C.allReduce(Data.data(), Result.data(), Type::BF16,
                getEqualBounds(Count, C.size()).data());
    std::vector<float> Expected =
        sumInOrder(C.getSumOrder(), Count, Type::BF16, 8);
    roundTo(Expected.data(), Type::BF16, Count);
    EXPECT_TRUE(
        sameSum(C, Result.data(), Expected.data(), 0, Count, Type::BF16, 8));
    // The communicator of this process outlives this memory.
    static std::vector<std::unique_ptr<char, decltype(&std::free)>> Kept;
    if (C.getBackend() != std::string("threads"))
      Kept.push_back(std::move(Memory));
  });
}

TEST(Conformance, EveryRankHasItsPlace) {
  onEachRank([](Communicator &C) {
    std::vector<int64_t> Seen(C.size());
    ASSERT_LT(C.rank(), C.size());
    Seen[C.rank()] = 1;
    C.allReduceSum(Seen.data(), C.size());
    EXPECT_EQ(Seen, std::vector<int64_t>(C.size(), 1));
    EXPECT_LT(C.localRank(), C.localSize());
    EXPECT_LE(C.localSize(), C.size());
  });
}
