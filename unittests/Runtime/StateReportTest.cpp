//===- StateReportTest.cpp - Whether ranks agree, and what they hold ------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/StateReport.h"
#include "TestProgram.h"
#include "program/Collectives.h"
#include "program/Initialization.h"
#include "support/Error.h"
#include "training/Optimizer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace poplar::runtime;

namespace {

/// Stands for another rank: adds what that one gave to its sum.
class Peer : public Collectives {
public:
  std::vector<int64_t> Theirs, Given;

  void sum(int64_t *Values, int64_t Count) override {
    Given.assign(Values, Values + Count);
    for (size_t I = 0; I < Theirs.size(); ++I)
      Values[I] += Theirs[I];
  }
  int rank() const override { return 0; }
  void agree(const std::vector<comm::Claim> &) override {}
  void attach(const State &, Device &) override {}
  void start(const PoplarCollective &, void *) override {}
  void wait(const PoplarCollective &) override {}
  int send(int, int, const void *, int64_t) override { return 0; }
  int receive(int, int, void *, int64_t) override { return 0; }
  void waitMessage(int) override {}
  bool hasExchanges() const override { return false; }
  int64_t
  startExchange(const std::vector<comm::IslandLibrary::Transfer> &) override {
    return 0;
  }
  void waitExchange(int64_t) override {}
  void sum(double *, int64_t) override {}
  void max(int64_t *, int64_t) override {}
  void gather(const float *, float *, const int64_t *) override {}
  void setPhase(const char *, double) override {}
  void progress() override {}
  void recordTurn(bool, int64_t,
                  std::chrono::steady_clock::time_point) override {}
  void recordStep(int64_t, std::chrono::steady_clock::time_point) override {}
  [[noreturn]] void fail(const std::string &Message) override {
    throw Error(Message);
  }
  std::string broadcast(const std::string &Text) override { return Text; }
  void barrier() override {}
};

class Replicas : public testing::Test {
protected:
  Replicas() : P(testprogram::Program) {
    P.world_size = 2;
    P.ranks = Ranks;
  }

  /// The message of the check on rank 0, after `Change` on rank 1.
  template <typename Function> std::string check(Function &&Change) {
    Peer First, Second;
    Executor Zero(P, {1}, 1, 0), One(P, {1}, 1, 1);
    Zero.collectives = &First;
    One.collectives = &Second;
    initializeParameters(Zero, 1);
    initializeParameters(One, 1);
    Change(One.state());
    try {
      checkReplicas(One, ""); // whose peer says nothing yet
    } catch (const Error &) {
    }
    First.Theirs = Second.Given;
    try {
      checkReplicas(Zero, "here");
    } catch (const Error &E) {
      return E.what();
    }
    return "";
  }

  void shardHalf(int64_t Stage) {
    P.stage = Stage;
    for (PoplarBucket &B : Buckets) {
      B.bounds = Bounds;
      B.stage = Stage;
    }
    P.buckets = Buckets;
  }

  const int64_t Bounds[3] = {0, 64, testprogram::Vocab * testprogram::Width};
  PoplarBucket Buckets[2] = {testprogram::Program.buckets[0],
                             testprogram::Program.buckets[1]};
  PoplarRank Ranks[2] = {{"fast", "n", 1, 1, 1, 1}, {"slow", "n", 1, 1, 1, 1}};
  PoplarProgram P;
};

TEST_F(Replicas, AreEqual) {
  EXPECT_EQ(check([](const State &) {}), "");
}

TEST_F(Replicas, NamesRankAndBucket) {
  // One bit, at the very end.
  EXPECT_EQ(check([](const State &S) {
              float &Last = S.shard(1).Master[S.shard(1).size() - 1];
              Last = std::nextafter(Last, 9.0f);
            }),
            "here rank 1 (slow) holds other weights than rank 0 (fast), first "
            "in bucket 'head'");
}

TEST_F(Replicas, IncludeMoments) {
  EXPECT_NE(
      check([](const State &S) { S.shard(0).Moment2[3] = 1; }).find("'embed'"),
      std::string::npos);
}

TEST_F(Replicas, AreWorkingCopiesInStage1) {
  shardHalf(1);
  // Those of rank 1's shard are its masters.
  EXPECT_NE(check([](const State &S) { S.shard(0).Master[0] += 1; }), "");
  EXPECT_EQ(check([](const State &S) { S.shard(0).Moment1[0] += 1; }), "");
}

TEST_F(Replicas, OfOtherFormatsAreNotCompared) {
  shardHalf(1);
  PoplarProgram Half = P;
  Half.working_type = POPLAR_BF16;
  Peer Other;
  Executor One(Half, {1}, 1, 1);
  One.collectives = &Other;
  checkReplicas(One, "");
  Peer First;
  First.Theirs = Other.Given;
  Executor Zero(P, {1}, 1, 0);
  Zero.collectives = &First;
  EXPECT_NO_THROW(checkReplicas(Zero, ""));
}

TEST_F(Replicas, AreOnRanksThatHoldTheBucket) {
  shardHalf(0);
  const int64_t One[] = {1};
  Buckets[1].ranks = One;
  Buckets[1].num_ranks = 1;
  EXPECT_EQ(check([](const State &S) { S.shard(1).Master[0] += 1; }), "");
  EXPECT_NE(check([](const State &S) { S.shard(0).Master[0] += 1; }), "");
}

TEST_F(Replicas, ThereAreNoneInStage3) {
  EXPECT_THROW(requireReplicas(testprogram::Program), Error);
  shardHalf(0);
  requireReplicas(P);
  shardHalf(3);
  EXPECT_THROW(requireReplicas(P), Error);
}

TEST(MemoryUse, AddsUpToThePeak) {
  const PoplarProgram &P = testprogram::Program;
  constexpr int64_t Bytes = 2 * testprogram::Vocab * testprogram::Width * 4;
  MemoryUse Use = measureMemory(Executor(P, {1, 3}, 1));
  EXPECT_EQ(Use.Parameters, Bytes);
  EXPECT_EQ(Use.Gradients, Bytes);
  EXPECT_EQ(Use.Optimizer, 2 * Bytes);
  EXPECT_EQ(Use.Padding, 0);
  EXPECT_EQ(Use.Transient, 0);
  EXPECT_EQ(Use.Scratch, P.scratch_bytes);
  EXPECT_EQ(Use.Batch, 3 * P.bytes_per_sample);
  EXPECT_EQ(Use.Peak, 4 * Bytes + Use.Scratch + Use.Batch);
}

TEST(MemoryUse, RefusesArraysThatOverlap) {
  PoplarProgram P = testprogram::Program;
  PoplarBucket Buckets[] = {P.buckets[0], P.buckets[1]};
  Buckets[1].working = Buckets[0].gradient + 64;
  P.buckets = Buckets;
  EXPECT_THROW(measureMemory(Executor(P, {1}, 1)), Error);
}

} // namespace
