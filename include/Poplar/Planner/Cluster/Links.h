//===- Links.h - Links of a cluster, compared -------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_LINKS_H
#define POPLAR_PLANNER_CLUSTER_LINKS_H

#include "Poplar/Planner/Cluster/Cluster.h"
#include <algorithm>
#include <cmath>

namespace poplar {

/// Seconds are finite and not negative, and there is a bandwidth.
inline bool isValidLink(const LinkSpeed &link) {
  auto isAmount = [](double value) {
    return std::isfinite(value) && value >= 0;
  };
  return isAmount(link.latency) && isAmount(link.overhead) &&
         link.bandwidth > 0;
}

/// The worse of both in each respect.
inline LinkSpeed takeSlower(const LinkSpeed &link, const LinkSpeed &other) {
  return {std::max(link.latency, other.latency),
          std::min(link.bandwidth, other.bandwidth),
          std::max(link.overhead, other.overhead)};
}

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_LINKS_H
