//===- Staging.cpp - Collectives of a device through the host -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Staging.h"

#include <algorithm>

using namespace poplar::runtime;
using comm::Collective;

Staging::Staging(Device &D, int64_t Count, int64_t NumMessages)
    : D(D), Entries(static_cast<size_t>(Count)),
      Messages(static_cast<size_t>(NumMessages)) {}

/// The smallest that is large enough, else a new one.
Staging::Buffer Staging::take(int64_t Bytes) {
  auto Best = Free.end();
  for (auto It = Free.begin(); It != Free.end(); ++It)
    if (It->capacity() >= static_cast<size_t>(Bytes) &&
        (Best == Free.end() || It->capacity() < Best->capacity()))
      Best = It;
  Buffer Result;
  if (Best != Free.end()) {
    Result = std::move(*Best);
    Free.erase(Best);
  }
  Result.resize(static_cast<size_t>(Bytes));
  return Result;
}

void Staging::put(Buffer &&B) {
  if (B.capacity())
    Free.push_back(std::move(B));
}

Collective Staging::begin(int64_t Id, const Collective &C, int Rank, int Size) {
  Entry &E = Entries[static_cast<size_t>(Id)];
  E.Original = C;
  int64_t Whole = C.Bounds[Size], Own = C.Bounds[Rank + 1] - C.Bounds[Rank];
  bool Gathers = C.TheKind == Collective::AllGather;
  bool Scatters = C.TheKind == Collective::ReduceScatter;
  E.Send = take((Gathers ? Own : Whole) * comm::getBytes(C.SendType));
  D.copyOut(E.Send.data(), C.Send, static_cast<int64_t>(E.Send.size()));
  Collective Staged = C;
  Staged.Send = E.Send.data();
  if (C.TheKind == Collective::AllReduce) {
    Staged.Receive = E.Send.data();
    return Staged;
  }
  E.Receive = take((Scatters ? Own : Whole) * comm::getBytes(C.ReceiveType));
  Staged.Receive = E.Receive.data();
  // Added at the end: another collective may add to the same shard meanwhile.
  Staged.Accumulate = false;
  return Staged;
}

void Staging::end(int64_t Id) {
  Entry &E = Entries[static_cast<size_t>(Id)];
  const Collective &C = E.Original;
  Buffer &Result = C.TheKind == Collective::AllReduce ? E.Send : E.Receive;
  int64_t Bytes = static_cast<int64_t>(Result.size());
  if (C.Accumulate) {
    Buffer Before = take(Bytes);
    D.copyOut(Before.data(), C.Receive, Bytes);
    auto *Sum = reinterpret_cast<float *>(Result.data());
    auto *Values = reinterpret_cast<const float *>(Before.data());
    for (int64_t I = 0; I < Bytes / 4; ++I)
      Sum[I] += Values[I];
    put(std::move(Before));
  }
  D.copyIn(C.Receive, Result.data(), Bytes);
  put(std::move(E.Send));
  put(std::move(E.Receive));
}

Staging::Buffer Staging::beginSend(const void *Data, int64_t Bytes) {
  Buffer Result = take(Bytes);
  D.copyOut(Result.data(), Data, Bytes);
  return Result;
}

Staging::Buffer Staging::beginReceive(int64_t Bytes) { return take(Bytes); }

void Staging::keep(int Message, Buffer &&Data, void *To) {
  Messages[static_cast<size_t>(Message)] = {std::move(Data), To};
}

void Staging::endMessage(int Message) {
  StagedMessage &M = Messages[static_cast<size_t>(Message)];
  if (M.To)
    D.copyIn(M.To, M.Data.data(), static_cast<int64_t>(M.Data.size()));
  put(std::move(M.Data));
}
