//===- Islands.h - Who collects by which library ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Before the first collective of a device's memory, all ranks say what they
// have, and all find out alike who will share a library of collectives with
// whom, and why others will not.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_ISLANDS_H
#define POPLAR_RUNTIME_COMM_ISLANDS_H

#include "comm/IslandCommunicator.h"

#include <functional>
#include <string>
#include <vector>

namespace poplar::runtime::comm {

/// What POPLAR_COMM says of a rank with a device.
enum class LibraryChoice {
  Auto,   // auto: in an island if there can be one
  Host,   // host: in none; everything goes through the host's memory
  Library // nccl: in an island, or else an Error
};
/// Reads POPLAR_COMM; throws an Error if it says anything else.
LibraryChoice getLibraryChoice();

/// What a rank can do.
struct IslandOffer {
  LibraryChoice Choice = LibraryChoice::Auto;
  /// Ranks with the same one can share an island: "NCCL 2.28.9". Empty: none.
  std::string Library;
  /// The reason why there is none; empty for ranks without a device.
  std::string Reason;
  /// The library for collectives of some ranks, and exchanges of ranks that
  /// share units: ranks with the same one form an island for these. Empty:
  /// none, and the reason.
  std::string TeamLibrary, TeamReason;
  /// The device, unlike any other of the job: "node1 0000:07:00.0". No two
  /// ranks of an island may share one.
  std::string Device;
  /// Number of the type of the rank's memory.
  int MemoryType = 0;
};

struct Islands {
  /// The island of each rank, as Topology takes them.
  std::vector<int> IslandOf;
  std::vector<bool> WithLibrary;
  /// Whether the ranks of a rank's island have the same types of memory.
  std::vector<bool> Uniform;
  /// One line for each island and for each device that is in none.
  std::string Description;

  bool any() const;
};

/// Decides. `Nodes` group the ranks without a library. Ranks may have unlike
/// choices: so a type of device can do without. Throws an Error, the same on
/// all ranks, where a choice cannot be had.
Islands planIslands(const std::vector<IslandOffer> &Offers,
                    const Topology &Nodes);

/// Everybody's offers, on all ranks. Collective.
std::vector<IslandOffer> exchange(Communicator &C, const IslandOffer &Mine);

/// Which of `Teams`, ranks that share units or hold the same buckets, can do
/// `What`, "exchanges" or "collectives", by a library of their devices'; none
/// if there is a `Reason` against it. Adds a line for each team with a device
/// to `Description`. Throws an Error, the same on all ranks, where a choice
/// cannot be had.
std::vector<std::vector<int>>
findTeams(const std::vector<IslandOffer> &Offers,
          const std::vector<std::vector<int>> &Teams, const std::string &What,
          const std::string &Reason, std::string &Description);

/// The library of a rank's device.
struct IslandMaker {
  /// What the ranks of an island need to find each other; made by the first.
  std::function<std::string()> MakeId;
  /// Rank and size are the island's. What one maker joins shares a stream.
  std::function<std::unique_ptr<IslandLibrary>(int Rank, int Size,
                                               const std::string &Id)>
      Join;
};

/// The communicator of collectives of the device's memory, on top of `Control`,
/// which joins the islands from then on. Null on ranks without a library.
/// Collective, on the thread of `Control`.
std::unique_ptr<Communicator> makeIslands(Communicator &Control,
                                          const Islands &Plan,
                                          const IslandMaker &Maker);

/// Makes a library for each team of this rank; null for other teams.
/// Collective, on the thread of `Control`.
std::vector<std::unique_ptr<IslandLibrary>>
joinTeams(Communicator &Control, const std::vector<std::vector<int>> &Teams,
          const IslandMaker &Maker);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_ISLANDS_H
