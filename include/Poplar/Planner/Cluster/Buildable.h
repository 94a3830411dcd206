//===- Buildable.h - What poplar build cannot build -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner and the build ask the same questions, so that what is planned
// can be built, and what is refused is refused in the same words.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_BUILDABLE_H
#define POPLAR_PLANNER_CLUSTER_BUILDABLE_H

#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// Devices of one type that a plan leaves out, as no program can be built that
/// would make them part of it.
struct UnbuildableDevices {
  std::string type;
  int64_t count = 0;
  std::string reason;
};

/// What of a plan cannot be built.
struct Buildability {
  std::vector<UnbuildableDevices> leftOut;
  /// Why `poplar build` does not take the plan; empty if it does.
  std::string refusal;
};

/// Lines of text, with the remedy; none where all can be built.
std::string format(const Buildability &buildability);

/// Why no program can be built for devices of target `target`; empty if one
/// can. `name` is the device type's.
std::string explainUnbuildable(const std::string &name,
                               const std::string &target);

/// Why devices of `target` that compute in `precision` do not run products in
/// fp8; empty if they do.
std::string explainNoFP8(const std::string &name, const std::string &target,
                         NumberFormat precision);

/// Why programs of `type`, if there were a runtime, cannot share units among
/// `tensorDegree` devices; empty if they can.
std::string explainUnsharable(const DeviceType &type, int tensorDegree);

/// Why devices of `type` cannot compute a pipeline stage whose units
/// `tensorDegree` devices share; empty if they can.
std::string explainUnbuildableStage(const DeviceType &type, int tensorDegree);

/// Why devices of these types cannot share units; empty if they can.
std::string explainUnlikeSharers(const DeviceType &type,
                                 const DeviceType &other);

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_BUILDABLE_H
