//===- ThreadTransport.h - Ranks that are threads ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests and simulated jobs: the ranks are threads of one process.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_THREADTRANSPORT_H
#define POPLAR_RUNTIME_COMM_THREADTRANSPORT_H

#include "comm/Transport.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace poplar::runtime::comm {

/// What the ranks share; outlives their transports.
class ThreadWorld {
public:
  /// All ranks share one node, unless `Nodes` says otherwise.
  explicit ThreadWorld(int Size, std::vector<int> Nodes = {});

  std::unique_ptr<Transport> makeTransport(int Rank);
  /// From any thread: whatever ranks do or wait for throws an Error with the
  /// first such message.
  void abort(const std::string &Message);

private:
  friend class ThreadTransport;
  struct Message {
    int Source, Tag;
    const void *Data;
    size_t Bytes;
    bool *Done; // the sender's flag, guarded by the mailbox's mutex
  };
  /// Messages sent to one rank, in the order in which they were sent.
  struct Mailbox {
    std::mutex Mutex;
    std::vector<Message> Messages;
  };

  int Size;
  std::vector<int> Nodes;
  std::vector<Mailbox> Mailboxes;
  std::atomic<bool> Aborted{false};
  std::mutex AbortMutex;
  std::string AbortMessage; // the first
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_THREADTRANSPORT_H
