//===- Bootstrap.h - How ranks without MPI find each other ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks 1, 2, ... call rank 0 over TCP, prove that they belong to the job
// (BootstrapChannel.h), give it a card with their address, and get the cards of
// all. The connections stay: watchdogs send their heartbeats over them.
//
// Rank 0 serves all callers at once, and a stranger has neither effect nor
// answer: rank 0 prints its address and goes on. A member of the job that is
// wrong (a rank that is there already, another WORLD_SIZE, another version),
// that ends, or that says nothing for kSilenceSeconds ends the start of all
// ranks, and each says why.
//
// A member that has not called yet may still come: for that, there are
// Meeting::StartSeconds.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_BOOTSTRAP_H
#define POPLAR_RUNTIME_COMM_BOOTSTRAP_H

#include "comm/BootstrapChannel.h"

#include <memory>
#include <vector>

namespace poplar::runtime::comm {

/// A member sends something every kAliveSeconds.
constexpr double kAliveSeconds = 0.5, kSilenceSeconds = 5;
/// What a caller has for its handshake, and rank 0 for each of its answers.
constexpr double kHandshakeSeconds = 5;
/// How long rank 0 stays to say why the job ends.
constexpr double kFarewellSeconds = 2;
/// Without a caller for so long, a rank says for whom it waits.
constexpr double kNoteSeconds = 5;

/// All functions throw an Error, which has been told to all members.
class Bootstrap {
public:
  virtual ~Bootstrap() = default;
  /// The cards of all ranks, by rank. Collective; repeated when cards have more
  /// content.
  virtual std::vector<Card> exchange(const Card &Own) = 0;
  /// Returns when all ranks have called it. From then on, the connections
  /// belong to the caller of takeSockets(). Collective.
  virtual void begin() = 0;
  /// Tells the others why this rank ends; rank 0 stays for `Seconds` to tell
  /// members that connect late.
  virtual void abandon(const std::string &Why, double Seconds) = 0;
  /// The connections by rank; -1 without one: between ranks other than 0.
  virtual std::vector<int> takeSockets() = 0;
};

/// Listens on rank 0, and connects to rank 0 on others.
std::unique_ptr<Bootstrap> makeBootstrap(const Meeting &M);
std::unique_ptr<Bootstrap> makeBootstrapHub(const Meeting &M);
std::unique_ptr<Bootstrap> makeBootstrapCaller(const Meeting &M);

/// Whether a card that arrived is one; ends its strings.
bool checkCard(const Record &R, int32_t World, Card &C);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_BOOTSTRAP_H
