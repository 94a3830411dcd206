//===- ExchangeCost.h - What exchanges between ranks take -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Closed forms for the exchanges of a plan, which hybrid and geo plans share.
// Latencies of a collective that follow one another are those of
// CollectiveLatency.h; collectives over unlike shards and links, those of
// CollectiveCost.h, are reduced to these where shards and links are equal.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_EXCHANGECOST_H
#define POPLAR_PLANNER_CLUSTER_EXCHANGECOST_H

#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// Seconds of a message.
inline double getMessageSeconds(const LinkSpeed &link, double bytes) {
  return link.latency + bytes / link.bandwidth;
}

/// Seconds of an all-reduce between two ranks, or of a reduction and a gather:
/// a message each way, of `bytes` in all.
inline double getRoundTripSeconds(const LinkSpeed &link, double bytes) {
  return 2 * link.latency + bytes / link.bandwidth;
}

/// The part of the data that passes the busiest port in an all-gather or a
/// reduce-scatter over so many equal shards: all but the own one.
constexpr double getRemotePart(double shards) { return (shards - 1) / shards; }

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_EXCHANGECOST_H
