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
struct HybridRequest {
  int64_t globalBatch = 0, bucketBytes = 0;
  /// "auto", or that of all groups.
  std::string stage;
  /// Of devices that share a unit, of chunks of a stage; 0 for any.
  int mostTensorDegree = 0, mostChunks = 0;
  /// Plan stages that cannot be built, too.
  bool hypothetical = false;
  /// Devices that are left out already.
  std::vector<UnbuildableDevices> leftOut;
  /// Add the plan to the module, for poplar build.
  bool addsPlan = false;
  bool recordsTimeline = false;
};

/// Plans the model of a compilation, which holds a cluster. Returns false on
/// failure, with an error said or in `compilation`.
bool planHybrid(Compilation &compilation, const HybridRequest &request,
                HybridReport &report);
bool planGeo(Compilation &compilation, const HybridRequest &request,
             GeoReport &report);

} // namespace poplar

#endif // POPLAR_DRIVER_HYBRIDPLANNING_H
