//===- AllocationTest.cpp - A running stream allocates nothing ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Backend.h"
#include "comm/CommStream.h"
#include "comm/ThreadTransport.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace poplar::runtime::comm;

static std::atomic<int64_t> NumAllocations{0};

void *operator new(size_t Bytes) {
  ++NumAllocations;
  if (void *Memory = std::malloc(Bytes))
    return Memory;
  throw std::bad_alloc();
}
void operator delete(void *Memory) noexcept { std::free(Memory); }
void operator delete(void *Memory, size_t) noexcept { std::free(Memory); }

TEST(Allocation, NoneInSteadyState) {
  constexpr int Size = 4;
  constexpr int64_t Count = 500000; // several chunks
  ThreadWorld World(Size, {0, 0, 1, 1});
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < Size; ++Rank)
    Threads.emplace_back([&, Rank] {
      CommOptions O;
      O.Link = parseLinkModel("10,10");
      CommStream Stream([&] { return makeThreadCommunicator(World, Rank, O); },
                        /*TraceCapacity=*/1000);
      std::vector<int64_t> Bounds = getEqualBounds(Count, Size);
      std::vector<float> Full(Count, 1), Shard(Count);
      auto Step = [&] {
        for (Type Wire : {Type::F32, Type::BF16}) {
          Collective C;
          C.Wire = Wire;
          C.Bounds = Bounds.data();
          C.TheKind = Collective::AllGather;
          C.Send = Full.data() + Bounds[Rank];
          C.Receive = Full.data();
          Stream.start(C);
          C.TheKind = Collective::ReduceScatter;
          C.Send = Full.data();
          C.Receive = Shard.data();
          Stream.start(C);
          C.TheKind = Collective::AllReduce;
          C.Receive = Full.data();
          Stream.start(C);
        }
        int64_t Value = 0;
        Stream.run([&](Communicator &C) { C.allReduceSum(&Value, 1); });
      };
      auto Barrier = [&] { Stream.run([](Communicator &C) { C.barrier(); }); };
      Step();
      Barrier();
      int64_t Before = NumAllocations;
      Barrier();
      for (int I = 0; I < 3; ++I)
        Step();
      Barrier();
      EXPECT_EQ(NumAllocations, Before);
      Barrier();
      Stream.close();
    });
  for (std::thread &T : Threads)
    T.join();
  EXPECT_GT(NumAllocations, 0); // the counter counts
}
