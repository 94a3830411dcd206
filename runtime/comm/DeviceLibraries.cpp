//===- DeviceLibraries.cpp - Libraries of a rank's device -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/DeviceLibraries.h"

#include <utility>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace {
class CommonOrder : public DeviceOrder {
public:
  CommonOrder(IslandLibrary *Exchanges, std::vector<DeviceOrder *> Subgroups)
      : Exchanges(Exchanges), Subgroups(std::move(Subgroups)) {}
  void setQueueing(bool On) override {
    for (DeviceOrder *Of : Subgroups)
      Of->setQueueing(On);
  }
  void *recordPoint(int Number) override {
    return Exchanges ? Exchanges->recordPoint(Number)
                     : Subgroups.front()->recordPoint(Number);
  }
  /// Asks all: each knows of its own errors.
  bool hasReached(void *Point) override {
    bool Reached = !Exchanges || Exchanges->hasReached(Point);
    for (DeviceOrder *Of : Subgroups)
      Reached &= Of->hasReached(Point);
    return Reached;
  }

private:
  IslandLibrary *Exchanges;
  std::vector<DeviceOrder *> Subgroups;
};
} // namespace

std::unique_ptr<DeviceOrder>
comm::makeCommonOrder(IslandLibrary *Exchanges,
                      std::vector<DeviceOrder *> Subgroups) {
  return std::make_unique<CommonOrder>(Exchanges, std::move(Subgroups));
}
