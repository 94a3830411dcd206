//===- LinkModel.cpp - A link between nodes, injected ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/LinkModel.h"
#include "support/Error.h"

#include <cmath>
#include <cstdlib>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

LinkModel comm::parseLinkModel(const std::string &Text) {
  char *End = nullptr;
  double Latency = std::strtod(Text.c_str(), &End);
  double Bandwidth = 0;
  bool Good = End != Text.c_str() && *End == ',';
  if (Good) {
    const char *Second = End + 1;
    Bandwidth = std::strtod(Second, &End);
    Good = End != Second && *End == 0;
  }
  if (!Good || !(Latency >= 0) || !(Bandwidth > 0) ||
      !std::isfinite(Latency + Bandwidth))
    fail("--link-delay ", Text,
         ": expected LATENCY_US,BANDWIDTH_GBPS, as in 50,1.25");
  // A clock counts nanoseconds in 64 bits, some 292 years.
  if (Latency > 1e9 || Bandwidth < 1e-6)
    fail("--link-delay ", Text,
         ": the latency is at most 1e9 us, the bandwidth at least 1e-6 GB/s");
  return {Latency * 1e-6, Bandwidth * 1e9};
}

namespace {

/// Requests are those of the inner transport, or slots of the queue, which are
/// numbered from -2 downwards.
class DelayedTransport : public Transport {
public:
  DelayedTransport(std::unique_ptr<Transport> Inner, const LinkModel &Link,
                   const std::vector<int> &Nodes)
      : Inner(std::move(Inner)), Link(Link), Nodes(Nodes) {}

  const char *getName() const override { return Inner->getName(); }
  const char *getLibrary() const override { return Inner->getLibrary(); }
  int rank() const override { return Inner->rank(); }
  int size() const override { return Inner->size(); }
  std::vector<int> getNodes() const override { return Nodes; }
  double getLinkSeconds() const override { return LinkSeconds; }
  HeartbeatSockets takeSockets() override { return Inner->takeSockets(); }
  void close() override { Inner->close(); }
  void abort(const std::string &Message) override { Inner->abort(Message); }

  Request receive(int Peer, int Tag, void *Data, size_t Bytes) override {
    return Inner->receive(Peer, Tag, Data, Bytes);
  }

  bool test(Request R) override {
    pump();
    if (R >= None)
      return Inner->test(R);
    Deferred &D = Queue[-2 - R];
    if (!D.Sent || !Inner->test(D.Sending))
      return false;
    Free.push_back(-2 - R);
    return true;
  }

  int getDescriptor() const override { return Inner->getDescriptor(); }
  bool arm() override { return Inner->arm(); }

  Clock::time_point getNextEvent() const override {
    return Waiting.empty() ? Inner->getNextEvent() : Queue[Waiting[0]].Due;
  }

protected:
  void doReserve(int Requests) override {
    Inner->reserve(Requests);
    Queue.resize(Requests);
    Free.clear();
    for (int I = Requests; I-- > 0;)
      Free.push_back(I);
    Waiting.reserve(Requests);
  }

  Request doSend(int Peer, int Tag, const void *Data, size_t Bytes) override {
    if (!Link || Nodes[Peer] == Nodes[rank()])
      return Inner->send(Peer, Tag, Data, Bytes);
    if (Free.empty())
      fail("rank ", rank(), ": too many messages under way");
    int Index = Free.back();
    Free.pop_back();
    auto ToDuration = [](double Seconds) {
      return std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(Seconds));
    };
    double Seconds = static_cast<double>(Bytes) / Link.BytesPerSecond;
    LinkSeconds += Seconds;
    LinkFree = std::max(LinkFree, Clock::now()) + ToDuration(Seconds);
    Queue[Index] = {
        Peer,  Tag, Data, Bytes, LinkFree + ToDuration(Link.LatencySeconds),
        false, None};
    Waiting.push_back(Index);
    return -2 - Index;
  }

private:
  struct Deferred {
    int Peer, Tag;
    const void *Data;
    size_t Bytes;
    Clock::time_point Due;
    bool Sent;
    Request Sending;
  };

  /// Sends what is due, in order.
  void pump() {
    size_t Count = 0;
    while (Count < Waiting.size() &&
           Queue[Waiting[Count]].Due <= Clock::now()) {
      Deferred &D = Queue[Waiting[Count++]];
      D.Sending = Inner->send(D.Peer, D.Tag, D.Data, D.Bytes);
      D.Sent = true;
    }
    Waiting.erase(Waiting.begin(),
                  Waiting.begin() + static_cast<std::ptrdiff_t>(Count));
  }

  std::unique_ptr<Transport> Inner;
  LinkModel Link;
  std::vector<int> Nodes;
  Clock::time_point LinkFree = Clock::time_point::min();
  double LinkSeconds = 0;
  std::vector<Deferred> Queue;
  std::vector<int> Free, Waiting;
};

} // namespace

std::unique_ptr<Transport> comm::makeDelayed(std::unique_ptr<Transport> Inner,
                                             const LinkModel &Link,
                                             const std::vector<int> &Nodes) {
  return std::make_unique<DelayedTransport>(std::move(Inner), Link, Nodes);
}
