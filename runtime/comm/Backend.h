//===- Backend.h - Which communicator a process gets ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_COMM_BACKEND_H
#define POPLAR_RUNTIME_COMM_BACKEND_H

#include "comm/LinkModel.h"
#include "comm/MessageCommunicator.h"

namespace poplar::runtime::comm {

struct CommOptions {
  /// auto, self, mpi or tcp. `auto` is mpi where an MPI launcher started the
  /// process, else tcp where the environment tells its rank, else self.
  std::string Backend = "auto";
  /// --link-delay.
  LinkModel Link;
  MessageOptions Messages;
};

/// The communicator of all ranks, to be used by the calling thread.
/// Environment: POPLAR_FAKE_NODES=0,0,1,1 says which ranks share a node,
/// instead of asking the backend.
std::unique_ptr<Communicator> makeCommunicator(const CommOptions &O);

/// One of several ranks that are threads; `World` outlives it.
class ThreadWorld;
std::unique_ptr<Communicator>
makeThreadCommunicator(ThreadWorld &World, int Rank, const CommOptions &O);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_BACKEND_H
