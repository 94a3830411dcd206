//===- HostRounding.h - What rounding takes beside GPUs ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a plan rounds what crosses between nodes, the hosts of GPUs do it: all
// that ranks exchange is copied to the memory of the host, rounded and added by
// a core of it there, and copied back, and a library of GPUs carries nothing
// (docs/lossy-wires.md). Ranks on hosts have it in their memory already, and
// the overhead of their links is measured.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_HOSTROUNDING_H
#define POPLAR_PLANNER_CLUSTER_HOSTROUNDING_H

#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// Seconds of a value that a host of GPUs handles, assumed: a copy of 4 bytes
/// to the host and one back, at 6 GB/s each, and on a core, as bench/rounding
/// measured it for AVX2, 2.8 ns to round with error feedback, or 1 ns to add or
/// to write what is not rounded.
constexpr double hostCopySeconds = 2 * 4 / 6e9;
constexpr double hostRoundingSeconds = 2.8e-9, hostAdditionSeconds = 1e-9;

/// The device's host rounds for it; its memory holds the error feedback, too.
bool roundsOnHost(const DeviceType &type);

/// The cluster as plans see it that round `wires`. Where devices of a node are
/// GPUs, links of the node take as much longer for a byte as its host does:
/// copies, rounding and the link take turns. What already has these wires is
/// returned as it is.
ClusterView withWires(const ClusterView &cluster, const LossyWires &wires);

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_HOSTROUNDING_H
