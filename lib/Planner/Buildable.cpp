//===- Buildable.cpp - What poplar build cannot build ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Buildable.h"

using namespace poplar;

std::string poplar::explainUnbuildable(const std::string &name,
                                       const std::string &target) {
  if (target.compare(0, 4, "host") == 0 || target.compare(0, 5, "cuda:") == 0)
    return "";
  return "device type '" + name + "' is a " + target +
         ": there is no runtime for it yet; build for host... and cuda... "
         "targets (docs/cluster-file.md)";
}

std::string poplar::explainUnbuildableStage(const DeviceType &type,
                                            int tensorDegree) {
  std::string reason = explainUnbuildable(type.name, type.target);
  if (!reason.empty())
    return reason;
  if (tensorDegree > 1)
    return "devices of type '" + type.name + "' share units among " +
           std::to_string(tensorDegree) + ", which is not generated yet";
  if (type.precision == "f16")
    return "device type '" + type.name +
           "' keeps activations in f16, whose loss scale is a rank's own: "
           "pipeline stages are of f32 or bf16";
  return "";
}
