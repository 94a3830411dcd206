//===- GeoReport.h - A plan over distant devices, to be read ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `poplar plan --policy geo` says (docs/placement.md).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_REPORT_GEOREPORT_H
#define POPLAR_REPORT_GEOREPORT_H

#include "Poplar/Planner/Geo/GeoModel.h"
#include "Poplar/Report/HybridReport.h"

namespace poplar {

/// A plan and all that was found out about it.
struct GeoReport : GeoResult {
  /// Devices of the whole cluster, of which the plan may take a part.
  size_t numDevices = 0;
  /// By kind of the problem.
  std::vector<std::string> typeNames;
  std::vector<GeoLinkLoad> links;
  /// Relative, of what was estimated; 0 if all was measured.
  double uncertainty = 0;
  /// Simulated, of the best hybrid plan; or why there is none.
  std::optional<double> hybridSeconds;
  std::string hybridError;
  ZeroAlone pure;
  Buildability buildability;

  /// Which of the three is fastest, simulated: "geo", "hybrid" or "zero".
  const char *getChoice() const;
};

std::string formatGeoText(const GeoReport &report);
std::string formatGeoJSON(const GeoReport &report);

} // namespace poplar

#endif // POPLAR_REPORT_GEOREPORT_H
