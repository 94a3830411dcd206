//===- CommunicatorSet.h - The communicators of a rank ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The communicators of a CommStream: of all ranks, of subgroups, and those that
// a device's libraries put on top of them for a while.
//
// Locking: the set changes on the communication thread, with the stream's mutex
// held and while the rank waits, or on the rank's thread once the other one is
// idle or has ended. So both of them read it without the mutex, and any other
// thread, which may only interrupt(), with it. execute() calls the library:
// without the mutex.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_COMMUNICATORSET_H
#define POPLAR_RUNTIME_COMM_COMMUNICATORSET_H

#include "comm/Collective.h"
#include "comm/Communicator.h"
#include "comm/DeviceLibraries.h"

#include <functional>
#include <memory>
#include <vector>

namespace poplar::runtime::comm {

class CommunicatorSet {
public:
  /// What goes on top of the first communicators, for a device's memory.
  struct Layer {
    /// The communicator of all ranks.
    std::unique_ptr<Communicator> Top;
    /// The library of exchanges, communicators by subgroup (null where it has
    /// none), and the order of both.
    std::unique_ptr<IslandLibrary> Exchanges;
    std::vector<std::unique_ptr<Communicator>> Subgroups;
    std::unique_ptr<DeviceOrder> Order;

    /// Orderly end; collective.
    void close();
  };

  void setFirst(std::unique_ptr<Communicator> C);
  /// The first communicator, and the one in use for all ranks.
  Communicator &getFirst() const { return *First; }
  Communicator &getCurrent() const { return *Current; }
  /// Whether there is another on top of the first.
  bool hasTop() const { return Layers.Top != nullptr; }

  /// Returns the number of the new subgroup.
  int addSubgroup(std::unique_ptr<Communicator> Group);
  Communicator &getSubgroup(int Number) const {
    return *Subgroups[static_cast<size_t>(Number)];
  }
  void interrupt();

  /// Puts `Made` on top of the first communicator; gives back what was there.
  void swapTop(std::unique_ptr<Communicator> &Made);
  /// A layer of libraries, whose waits call `Background` now and then.
  Layer makeLayer(DeviceLibraries Made,
                  const std::function<bool()> &Background) const;
  /// Puts its libraries, and not its top, into use; gives back those so far.
  void swapLibraries(Layer &Made);
  /// Takes away all that is on top.
  Layer takeLayers();
  Layer &getLayers() { return Layers; }

  /// Whether a collective is queued on the device, if the device can order any.
  bool isOnDevice(const Collective &C) const;
  /// The communicator of a collective.
  Communicator &getRanks(const Collective &C) const;
  void execute(const Collective &C);

private:
  bool hasLibrary(int Subgroup) const {
    return static_cast<size_t>(Subgroup) < Layers.Subgroups.size() &&
           Layers.Subgroups[static_cast<size_t>(Subgroup)];
  }

  std::unique_ptr<Communicator> First;
  Communicator *Current = nullptr;
  std::vector<std::unique_ptr<Communicator>> Subgroups;
  Layer Layers;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_COMMUNICATORSET_H
