//===- ClusterEdit.h - Clusters of fewer or other devices -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_CLUSTEREDIT_H
#define POPLAR_PLANNER_CLUSTER_CLUSTEREDIT_H

#include "Poplar/Planner/Cluster/Cluster.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace poplar {

/// The cluster with so many devices of each type, for a job of them. The
/// devices left out first are those on the nodes that are worst connected, then
/// the last. Where a type has fewer than asked for, the last of its devices is
/// repeated. The ranks `first` are kept longest. None if a type is asked for of
/// which there is no device, or two devices of a node that has no link inside.
/// `kept`, if asked for, is set to the ranks in `cluster` that stay.
std::optional<ClusterView> resizeCluster(const ClusterView &cluster,
                                         const std::vector<int64_t> &counts,
                                         std::vector<int> *kept = nullptr,
                                         const std::vector<int> &first = {});

/// Whether two types differ in nothing but their names.
bool areAlike(const ClusterView &cluster, int type, int otherType);

/// Makes ranks of types that are alike ranks of the first of them. Only types
/// with ranks are compared.
void mergeAlikeTypes(ClusterView &cluster);

/// The cluster with so many copies of each rank. None if a node has several
/// ranks, but no link inside. `kept` as above.
std::optional<ClusterView> takeRanks(const ClusterView &cluster,
                                     const std::vector<int64_t> &copies,
                                     std::vector<int> *kept = nullptr);

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_CLUSTEREDIT_H
