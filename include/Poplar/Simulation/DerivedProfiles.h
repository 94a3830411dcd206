//===- DerivedProfiles.h - Profiles that nobody measured --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SIMULATION_DERIVEDPROFILES_H
#define POPLAR_SIMULATION_DERIVEDPROFILES_H

#include "Poplar/Dialect/Cluster/Cluster.h"

namespace poplar {

/// Adds a cluster.profile behind `last`, an op of a module whose device types
/// are those of `cluster`. `source` says what the profile is made from.
mlir::Operation *addProfile(mlir::Operation *last, const DeviceProfile &profile,
                            const ClusterView &cluster, llvm::StringRef source);

/// The source of a profile of RecomputedLayers::derive().
std::string describeSource(const Recomputation &recompute);

} // namespace poplar

#endif // POPLAR_SIMULATION_DERIVEDPROFILES_H
