//===- CommunicatorSet.cpp - The communicators of a rank ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/CommunicatorSet.h"
#include "comm/IslandCommunicator.h"

#include <utility>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

void CommunicatorSet::Layer::close() {
  if (Top)
    Top->close();
  for (const std::unique_ptr<Communicator> &Of : Subgroups)
    if (Of)
      Of->close();
  if (Exchanges)
    Exchanges->close();
}

void CommunicatorSet::setFirst(std::unique_ptr<Communicator> C) {
  First = std::move(C);
  Current = First.get();
}

int CommunicatorSet::addSubgroup(std::unique_ptr<Communicator> Group) {
  Subgroups.push_back(std::move(Group));
  return static_cast<int>(Subgroups.size()) - 1;
}

void CommunicatorSet::interrupt() {
  Current->interrupt();
  for (const std::unique_ptr<Communicator> &Group : Subgroups)
    Group->interrupt();
}

void CommunicatorSet::swapTop(std::unique_ptr<Communicator> &Made) {
  std::swap(Layers.Top, Made);
  Current = Layers.Top.get();
}

CommunicatorSet::Layer
CommunicatorSet::makeLayer(DeviceLibraries Made,
                           const std::function<bool()> &Background) const {
  Layer Result;
  if (Made.Exchanges)
    Made.Exchanges->setBackground(Background);
  Result.Subgroups.resize(Subgroups.size());
  std::vector<DeviceOrder *> Orders;
  for (DeviceLibraries::OfSubgroup &S : Made.Subgroups) {
    S.Library->setBackground(Background);
    Communicator &Ranks = getSubgroup(S.Subgroup);
    Topology Island(std::vector<int>(static_cast<size_t>(Ranks.size())),
                    {true});
    auto &Top = Result.Subgroups[static_cast<size_t>(S.Subgroup)];
    Top = std::make_unique<IslandCommunicator>(Ranks, Island,
                                               std::move(S.Library), S.Uniform);
    Orders.push_back(Top->getDeviceOrder());
  }
  Result.Exchanges = std::move(Made.Exchanges);
  Result.Order = makeCommonOrder(Result.Exchanges.get(), std::move(Orders));
  return Result;
}

void CommunicatorSet::swapLibraries(Layer &Made) {
  std::swap(Layers.Exchanges, Made.Exchanges);
  std::swap(Layers.Subgroups, Made.Subgroups);
  std::swap(Layers.Order, Made.Order);
}

CommunicatorSet::Layer CommunicatorSet::takeLayers() {
  Current = First.get();
  return std::exchange(Layers, {});
}

bool CommunicatorSet::isOnDevice(const Collective &C) const {
  if (C.TheKind == Collective::Exchange)
    return true;
  return C.Subgroup < 0 ? hasTop() : hasLibrary(C.Subgroup);
}

Communicator &CommunicatorSet::getRanks(const Collective &C) const {
  if (C.Subgroup < 0)
    return *Current;
  const auto &From = hasLibrary(C.Subgroup) ? Layers.Subgroups : Subgroups;
  return *From[static_cast<size_t>(C.Subgroup)];
}

void CommunicatorSet::execute(const Collective &C) {
  if (C.TheKind == Collective::Exchange) {
    Layers.Exchanges->waitFor(C.After);
    return Layers.Exchanges->exchange(*C.Transfers);
  }
  auto *Values = static_cast<const float *>(C.Send);
  auto *Result = static_cast<float *>(C.Receive);
  Communicator &Ranks = getRanks(C);
  if (C.After)
    Ranks.waitFor(C.After);
  Communicator::Feedback Kept = {C.Residual};
  switch (C.TheKind) {
  case Collective::AllGather:
    return Ranks.allGather(C.Send, C.SendType, C.Receive, C.ReceiveType, C.Wire,
                           C.Bounds);
  case Collective::ReduceScatter:
    if (C.IsLossy)
      return Ranks.reduceScatter(Values, Result, C.Accumulate, C.Wire, C.Bounds,
                                 Kept);
    return Ranks.reduceScatter(Values, Result, C.Accumulate, C.Wire, C.Bounds);
  case Collective::AllReduce:
    if (C.IsLossy)
      return Ranks.allReduce(Values, Result, C.Wire, C.Bounds, Kept);
    return Ranks.allReduce(Values, Result, C.Wire, C.Bounds);
  case Collective::SendMessage:
  case Collective::ReceiveMessage:
  case Collective::Exchange:
    break; // no collective of a communicator
  }
}
