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

#ifndef POPLAR_PLANNER_BUILDABLE_H
#define POPLAR_PLANNER_BUILDABLE_H

#include "Poplar/Planner/Cluster.h"

namespace poplar {

/// Why no program can be built for devices of target `target`; empty if one
/// can. `name` is the device type's.
std::string explainUnbuildable(const std::string &name,
                               const std::string &target);

/// Why devices of `type` cannot compute a pipeline stage whose units
/// `tensorDegree` devices share; empty if they can.
std::string explainUnbuildableStage(const DeviceType &type, int tensorDegree);

} // namespace poplar

#endif // POPLAR_PLANNER_BUILDABLE_H
