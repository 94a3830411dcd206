//===- Sites.h - Which nodes are close to each other ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_SITES_H
#define POPLAR_LIB_PLANNER_SITES_H

#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// Ways to part a cluster where its links are slow: each the site of each node,
/// numbered by their first nodes. Nodes of a site reach each other in steps of
/// at most some time, for a message of `bytes`; every step from one site to
/// another takes at least four times as long as any inside. The first has but
/// one site. None has more pairs of a device type and a site than `mostKinds`.
std::vector<std::vector<int>> findSites(const ClusterView &cluster,
                                        double bytes, size_t mostKinds);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_SITES_H
