//===- Communicator.cpp - Collectives of a group of ranks -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Communicator.h"
#include "comm/ReduceScatter.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

void Communicator::allReduce(const float *Source, float *Result, Type Wire,
                             const int64_t *Bounds) {
  float *Own = Result + Bounds[Rank];
  reduceScatter(Source, Own, /*Accumulate=*/false, Wire, Bounds);
  allGather(Own, Type::F32, Result, Type::F32, Wire, Bounds);
}

void Communicator::reduceScatter(const float *, float *, bool, Type,
                                 const int64_t *, const Feedback &) {
  fail("the communicator '", getBackend(), "' has no lossy sums");
}

void Communicator::useSites(const Topology &) {
  fail("the communicator '", getBackend(), "' has no lossy sums");
}

int64_t Communicator::countResidual(const Topology &Sites, int Rank,
                                    const int64_t *Bounds, bool GathersSums) {
  int64_t Count = ReduceScatter::countResidual(Sites, Rank, Bounds);
  if (GathersSums && Sites.numNodes() > 1)
    Count += Bounds[Rank + 1] - Bounds[Rank];
  return Count;
}

void Communicator::allReduce(const float *Source, float *Result, Type Wire,
                             const int64_t *Bounds, const Feedback &Kept) {
  float *Own = Result + Bounds[Rank];
  reduceScatter(Source, Own, /*Accumulate=*/false, Wire, Bounds, Kept);
  const Topology &Sites = getSites();
  if (Sites.numNodes() == 1)
    return allGather(Own, Type::F32, Result, Type::F32, Type::F32, Bounds);
  // Everyone gets the rounded sum, the owner, too.
  int64_t Count = Bounds[Rank + 1] - Bounds[Rank];
  float *Residual =
      Kept.Residual + countResidual(Sites, Rank, Bounds, /*GathersSums=*/false);
  for (int64_t I = 0; I < Count; ++I)
    Residual[I] += Own[I];
  allGather(Residual, Type::F32, Result, Type::F32, Wire, Bounds);
  for (int64_t I = 0; I < Count; ++I) {
    float Lost = Residual[I] - Own[I];
    Residual[I] = std::isfinite(Lost) ? Lost : 0.0f;
  }
}

void Communicator::useIslands(const Topology &) {
  fail("islands are joined by messages, not by ", getBackend());
}

void Communicator::barrier() {
  int64_t Nothing = 0;
  allReduceMax(&Nothing, 1);
}

std::vector<std::string> Communicator::gatherStrings(const std::string &Mine,
                                                     int Root) {
  std::vector<int64_t> Bounds(size() + 1);
  Bounds[Rank + 1] = static_cast<int64_t>(Mine.size());
  allReduceSum(Bounds.data() + 1, size());
  for (int R = 0; R < size(); ++R)
    Bounds[R + 1] += Bounds[R];
  std::string All(Rank == Root ? Bounds[size()] : 0, 0);
  gather(Mine.data(), &All[0], Type::Raw8, Bounds.data(), Root);
  std::vector<std::string> Result;
  for (int R = 0; Rank == Root && R < size(); ++R)
    Result.push_back(All.substr(Bounds[R], Bounds[R + 1] - Bounds[R]));
  return Result;
}

int64_t comm::getScratchBytes(int Size) {
  return std::max<int64_t>(4 << 20, static_cast<int64_t>(Size) << 16);
}

std::vector<int64_t> comm::getEqualBounds(int64_t Count, int Size) {
  std::vector<int64_t> Bounds;
  for (int64_t R = 0; R <= Size; ++R)
    Bounds.push_back(Count / Size * R + std::min<int64_t>(R, Count % Size));
  return Bounds;
}

int Communicator::send(int, int, const void *, int64_t) {
  fail("communicator '", getBackend(),
       "' has no messages between two ranks, which pipeline stages need; use "
       "--comm mpi or tcp");
}

void Communicator::reserveMessages(int) { send(0, 0, nullptr, 0); }

int Communicator::receive(int Peer, int Kind, void *, int64_t Bytes) {
  return send(Peer, Kind, nullptr, Bytes);
}

bool Communicator::test(int) { return send(0, 0, nullptr, 0); }

std::unique_ptr<Communicator>
Communicator::makeSubgroup(const std::vector<int> &) {
  fail("communicator '", getBackend(),
       "' cannot be split, which pipeline stages need; use --comm mpi or tcp");
}
