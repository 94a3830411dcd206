//===- Backend.cpp - Which communicator a process gets --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Backend.h"
#include "comm/Launcher.h"
#include "comm/PluginTransport.h"
#include "comm/ThreadTransport.h"
#include "support/Error.h"

#include <cstdlib>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace {

/// A world of one rank, which has nobody to send to.
class SelfTransport : public Transport {
public:
  const char *getName() const override { return "self"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<int> getNodes() const override { return {0}; }
  Request receive(int, int, void *, size_t) override {
    fail("a job of one rank has no rank to receive from");
  }
  bool test(Request) override { return true; }
  void abort(const std::string &) override {}

protected:
  void doReserve(int) override {}
  Request doSend(int, int, const void *, size_t) override {
    fail("a job of one rank has no rank to send to");
  }
};

} // namespace

static std::unique_ptr<Communicator>
finishCommunicator(std::unique_ptr<Transport> Messages, const CommOptions &O) {
  const char *Variable = "POPLAR_FAKE_NODES";
  const char *Text = std::getenv(Variable);
  if (Text || O.Link) {
    std::vector<int> Nodes = Text ? parseNodes(Text, Messages->size(), Variable)
                                  : Messages->getNodes();
    Messages = makeDelayed(std::move(Messages), O.Link, Nodes);
  }
  return std::make_unique<MessageCommunicator>(std::move(Messages), O.Messages);
}

std::unique_ptr<Communicator> comm::makeCommunicator(const CommOptions &O) {
  if (O.Backend == "mpi" || (O.Backend == "auto" && isStartedByMpi()))
    return finishCommunicator(makeTransport(MpiPlugin), O);
  if (O.Backend == "tcp" || (O.Backend == "auto" && isToldItsRank()))
    return finishCommunicator(makeTransport(TcpPlugin), O);
  if (O.Backend == "self" || O.Backend == "auto")
    return finishCommunicator(std::make_unique<SelfTransport>(), O);
  fail("unknown communicator '", O.Backend, "'; use auto, self, mpi or tcp");
}

std::unique_ptr<Communicator>
comm::makeThreadCommunicator(ThreadWorld &World, int Rank,
                             const CommOptions &O) {
  return finishCommunicator(World.makeTransport(Rank), O);
}
