//===- HybridPlanning.h - Plans of pipeline stages --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_HYBRIDPLANNING_H
#define POPLAR_DRIVER_HYBRIDPLANNING_H

#include "Poplar/Driver/Compilation.h"
#include "Poplar/Report/GeoReport.h"
#include "Poplar/Report/HybridReport.h"

namespace poplar {

/// What `poplar plan --policy hybrid` or geo is asked for.
struct StagedRequest : HybridRequest {
  /// Devices that are left out already.
  std::vector<UnbuildableDevices> leftOut;
  /// Add the plan to the module, for poplar build.
  bool addsPlan = false;
};

/// Plans the model of a compilation, which holds a cluster. Returns false on
/// failure, with an error said or in `compilation`.
bool planHybrid(Compilation &compilation, const StagedRequest &request,
                HybridReport &report);
bool planGeo(Compilation &compilation, const StagedRequest &request,
             GeoReport &report);

/// An iteration of the module's plan of the policy hybrid that cannot be built,
/// played from the costs of units, for which it is planned anew. Nothing, with
/// an error said or in `compilation`, if that gives another plan.
std::optional<Timeline> playHypothetical(Compilation &compilation);

} // namespace poplar

#endif // POPLAR_DRIVER_HYBRIDPLANNING_H
