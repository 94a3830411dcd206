//===- LinkModel.h - A link between nodes, injected -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes messages between nodes take as long as they would on a given link, to
// measure on one machine how well communication hides behind computation. A
// message of n bytes leaves when those before it have left, occupies the
// sender's link for n / bandwidth, and arrives a latency later:
//
//   sender's link  |==m1==|===m2===|==m3==|
//   arrives              --latency-->m1
//
// Each rank has a link of its own, and only sending occupies it. No time is
// spent computing: messages wait in a queue.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_LINKMODEL_H
#define POPLAR_RUNTIME_COMM_LINKMODEL_H

#include "comm/Transport.h"

#include <memory>

namespace poplar::runtime::comm {

struct LinkModel {
  double LatencySeconds = 0;
  double BytesPerSecond = 0; // 0: no model
  explicit operator bool() const { return BytesPerSecond > 0; }
};

/// Reads `LATENCY_US,BANDWIDTH_GBPS` (10^9 bytes a second), the argument of
/// --link-delay.
LinkModel parseLinkModel(const std::string &Text);

/// Replaces the node map of `Inner`, and delays, if there is a model, what is
/// sent to ranks of other nodes.
std::unique_ptr<Transport> makeDelayed(std::unique_ptr<Transport> Inner,
                                       const LinkModel &Link,
                                       const std::vector<int> &Nodes);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_LINKMODEL_H
