//===- NcclEmulationTest.cpp - What the emulated NCCL catches -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As EmulationTest.cpp: it is of use only as far as it is stricter than NCCL.
//
//===----------------------------------------------------------------------===//

#include "Memory.h"
#include "cuda/Nccl.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace poplar::runtime::cuda {
#define DECLARE(NAME, ...) extern "C" Result NAME(__VA_ARGS__);
POPLAR_CUDA_DRIVER(DECLARE)
#undef DECLARE
} // namespace poplar::runtime::cuda
namespace poplar::runtime::cuda::nccl {
#define DECLARE(NAME, ...) extern "C" Status NAME(__VA_ARGS__);
POPLAR_NCCL(DECLARE)
#undef DECLARE
} // namespace poplar::runtime::cuda::nccl
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::nccl;

namespace {

constexpr size_t kCount = 8;

/// A rank, with eight values that are its number plus one.
struct Rank {
  Rank(UniqueId id, int rank, int size, int gpu) {
    Context context;
    cuDevicePrimaryCtxRetain(&context, gpu);
    cuCtxSetCurrent(context);
    cuStreamCreateWithPriority(&stream, NonBlocking, greatestPriority);
    cuMemAlloc_v2(&memory, 4 * kCount);
    std::vector<float> values(kCount, float(rank + 1));
    cuMemcpyHtoDAsync_v2(memory, values.data(), 4 * kCount, stream);
    Config config;
    config.Blocking = 0;
    ncclCommInitRankConfig(&comm, size, id, rank, &config);
  }
  /// The state after at most a second.
  Status settle() {
    Status state = InProgress;
    for (int i = 0; i < 10000 && state == InProgress; ++i) {
      ncclCommGetAsyncError(comm, &state);
      usleep(100);
    }
    return state;
  }
  void *data() const { return reinterpret_cast<void *>(memory); }
  std::vector<float> read(Stream queue) const {
    std::vector<float> values(kCount);
    cuMemcpyDtoHAsync_v2(values.data(), memory, 4 * kCount, queue);
    return values;
  }
  Status sum(size_t count = kCount) {
    return ncclAllReduce(data(), data(), count, Float32, Sum, comm, stream);
  }

  Comm comm = nullptr;
  Stream stream = nullptr;
  Address memory = 0;
};

UniqueId makeId() {
  UniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), 0);
  return id;
}

/// Runs `other` in a process of its own; its exit status.
template <typename Function> int fork(Function &&other, pid_t &child) {
  child = ::fork();
  if (child == 0)
    _exit(other());
  return 0;
}

int join(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class NcclEmulation : public testing::Test {
protected:
  void SetUp() override { setenv("POPLAR_EMULATED_GPUS", "sm_80,sm_80", 1); }
};

TEST_F(NcclEmulation, ProcessesAddUp) {
  UniqueId id = makeId();
  pid_t child;
  fork(
      [&] {
        Rank other(id, 1, 2, 1);
        other.settle();
        other.sum();
        return other.read(other.stream)[7] == 3 ? 0 : 1;
      },
      child);
  Rank own(id, 0, 2, 0);
  ASSERT_EQ(own.settle(), 0);
  EXPECT_EQ(own.sum(), InProgress);
  EXPECT_EQ(own.read(own.stream), std::vector<float>(kCount, 3));
  EXPECT_EQ(join(child), 0);
}

TEST_F(NcclEmulation, ResultsAreNaNUntilTheyAreWaitedFor) {
  Rank own(makeId(), 0, 2, 0); // the other rank never comes
  Rank alone(makeId(), 0, 1, 0);
  ASSERT_EQ(alone.settle(), 0);
  alone.sum();
  Stream other;
  cuStreamCreate(&other, NonBlocking);
  // Too early: another stream does not wait for the collective.
  std::vector<float> early = alone.read(other);
  EXPECT_TRUE(early[0] != 1 || std::isnan(early[0]));
  EXPECT_EQ(alone.read(alone.stream)[0], 1);
  Status state = 0;
  ncclCommGetAsyncError(own.comm, &state);
  EXPECT_EQ(state, InProgress);
}

TEST_F(NcclEmulation, RefusesStreamsWhoseBlocksWaitForProducts) {
  Rank own(makeId(), 0, 1, 0);
  ASSERT_EQ(own.settle(), 0);
  cuStreamCreate(&own.stream, NonBlocking);
  EXPECT_EQ(own.sum(), InvalidUsage);
}

TEST_F(NcclEmulation, TakesNothingWhileACallIsInProgress) {
  Rank own(makeId(), 0, 1, 0);
  EXPECT_NE(own.sum(), InProgress); // it has not asked whether all are there
  ASSERT_EQ(own.settle(), 0);
  EXPECT_EQ(own.sum(), InProgress);
  EXPECT_NE(own.sum(), InProgress);
}

TEST_F(NcclEmulation, RefusesWhatDoesNotBelongInAGroup) {
  Rank a(makeId(), 0, 1, 0), b(makeId(), 0, 1, 1);
  ASSERT_EQ(a.settle(), 0);
  ASSERT_EQ(b.settle(), 0);
  EXPECT_EQ(ncclGroupEnd(), InvalidUsage);
  ncclGroupStart();
  EXPECT_EQ(a.sum(), 0);
  EXPECT_EQ(b.sum(), InvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), InProgress);
}

TEST_F(NcclEmulation, EndsMustBeOrderly) {
  Rank own(makeId(), 0, 1, 0);
  ASSERT_EQ(own.settle(), 0);
  EXPECT_EQ(ncclCommDestroy(own.comm), InvalidUsage);
  void *handle = nullptr;
  EXPECT_EQ(ncclCommRegister(own.comm, own.data(), 32, &handle), 0);
  EXPECT_EQ(ncclCommFinalize(own.comm), InvalidUsage);
  EXPECT_EQ(ncclCommDeregister(own.comm, handle), 0);
  EXPECT_EQ(ncclCommFinalize(own.comm), 0);
  EXPECT_EQ(ncclCommDestroy(own.comm), 0);
}

TEST_F(NcclEmulation, MemoryIsRegisteredAsItWasAllocated) {
  Rank own(makeId(), 0, 1, 0);
  ASSERT_EQ(own.settle(), 0);
  void *memory = nullptr, *handle = nullptr, *again = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 64), 0);
  EXPECT_NE(ncclCommRegister(own.comm, memory, 32, &handle), 0);
  ASSERT_EQ(ncclCommRegister(own.comm, memory, 64, &handle), 0);
  EXPECT_EQ(ncclCommRegister(own.comm, memory, 64, &again), InvalidUsage);
  // Somebody may be writing there.
  EXPECT_EQ(ncclMemFree(memory), InvalidUsage);
  EXPECT_EQ(ncclCommDeregister(own.comm, handle), 0);
  EXPECT_EQ(ncclCommDeregister(own.comm, handle), InvalidUsage);
  EXPECT_EQ(ncclMemFree(memory), 0);
  EXPECT_EQ(ncclMemFree(own.data()), InvalidUsage);
}

/// Sends `give` values to the other rank, and gets `take` from it.
Status swap(Rank &own, int peer, size_t give, size_t take) {
  ncclGroupStart();
  auto *values = static_cast<float *>(own.data());
  ncclSend(values, give, Float32, peer, own.comm, own.stream);
  ncclRecv(values + kCount - take, take, Float32, peer, own.comm, own.stream);
  return ncclGroupEnd();
}

TEST_F(NcclEmulation, RanksSendToEachOther) {
  UniqueId id = makeId();
  pid_t child;
  fork(
      [&] {
        Rank other(id, 1, 2, 1);
        other.settle();
        swap(other, 0, 2, 1);
        std::vector<float> values = other.read(other.stream);
        return values[6] == 2 && values[7] == 1 ? 0 : 1;
      },
      child);
  Rank own(id, 0, 2, 0);
  ASSERT_EQ(own.settle(), 0);
  EXPECT_EQ(swap(own, 1, 1, 2), InProgress);
  std::vector<float> values = own.read(own.stream);
  EXPECT_EQ(values[5], 1);
  EXPECT_EQ(values[6], 2);
  EXPECT_EQ(values[7], 2);
  EXPECT_EQ(join(child), 0);
}

TEST_F(NcclEmulation, NamesARankThatGetsOtherThanIsSent) {
  UniqueId id = makeId();
  pid_t child;
  fork(
      [&] {
        Rank other(id, 1, 2, 1);
        other.settle();
        swap(other, 0, 3, 1);
        other.read(other.stream);
        return 0;
      },
      child);
  EXPECT_DEATH(
      {
        Rank own(id, 0, 2, 0);
        own.settle();
        swap(own, 1, 1, 2);
        own.read(own.stream);
      },
      "rank 0 calls ncclRecv of 2 elements .* but rank 1 calls ncclSend of 3");
  join(child);
}

TEST_F(NcclEmulation, RefusesTwoRanksOnAGPU) {
  UniqueId id = makeId();
  pid_t child;
  fork([&] { return Rank(id, 1, 2, 0).settle(); }, child);
  EXPECT_EQ(Rank(id, 0, 2, 0).settle(), InvalidUsage);
  EXPECT_EQ(join(child), InvalidUsage);
}

TEST_F(NcclEmulation, NamesRanksThatCallUnlikeCollectives) {
  UniqueId id = makeId();
  pid_t child;
  fork(
      [&] {
        Rank other(id, 1, 2, 1);
        other.settle();
        other.sum(kCount - 1);
        other.read(other.stream);
        return 0;
      },
      child);
  EXPECT_DEATH(
      {
        Rank own(id, 0, 2, 0);
        own.settle();
        own.sum();
        own.read(own.stream);
      },
      "rank 0 calls ncclAllReduce of 8 .* rank 1 calls ncclAllReduce of 7");
  EXPECT_EQ(join(child), 128 + SIGABRT);
}

TEST_F(NcclEmulation, BuffersHaveToBeThere) {
  Rank own(makeId(), 0, 1, 0);
  ASSERT_EQ(own.settle(), 0);
  EXPECT_DEATH(own.sum(kCount + 1), "are not there");
}

} // namespace
