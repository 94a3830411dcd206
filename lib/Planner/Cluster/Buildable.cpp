//===- Buildable.cpp - What poplar build cannot build ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/Buildable.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include "Poplar/Runtime/ABI.h"
#include <algorithm>

using namespace poplar;

std::string poplar::format(const Buildability &buildability) {
  std::string text;
  for (const UnbuildableDevices &each : buildability.leftOut) {
    std::string count = std::to_string(each.count), type = each.type;
    count.insert(0, count.size() < 5 ? 5 - count.size() : 0, ' ');
    type.resize(std::max<size_t>(type.size(), 16), ' ');
    text += "  left out " + count + " " + type + " " + each.reason +
            "; --hypothetical plans for it all the same\n";
  }
  if (!buildability.refusal.empty())
    text += "hypothetical: poplar build does not take this plan; " +
            buildability.refusal + "\n";
  return text;
}

std::string poplar::explainUnbuildable(const std::string &name,
                                       const std::string &target) {
  const TargetKind *kind = findTargetKind(target);
  if (kind && !kind->runtime.empty())
    return "";
  std::string others;
  for (const TargetKind &other : getTargetKinds())
    if (!other.runtime.empty())
      others +=
          (others.empty() ? "" : " and ") + std::string(other.name) + "...";
  return "device type '" + name + "' is a " + target +
         ": there is no runtime for it yet; build for " + others +
         " targets (docs/cluster-file.md)";
}

std::string poplar::explainNoFP8(const std::string &name,
                                 const std::string &target,
                                 NumberFormat precision) {
  const TargetInfo *info = findTargetInfo(target);
  if (!info)
    return "";
  std::string type = "device type '" + name + "' is a " + target;
  if (!info->hasFP8Products())
    return type + ", which has no products in fp8 (they came to CUDA with "
                  "sm_89): import the model without --fp8-products";
  if (precision != NumberFormat::BF16 && !info->getKind().isHost())
    return type + " of precision " + toString(precision) +
           ", and products in fp8 are in bf16 on a GPU: use precision bf16, or "
           "import the model without --fp8-products";
  return "";
}

std::string poplar::explainUnsharable(const DeviceType &type,
                                      int tensorDegree) {
  if (tensorDegree > POPLAR_MAX_SHARERS)
    return "devices of type '" + type.name + "' share units among " +
           std::to_string(tensorDegree) + "; at most " +
           std::to_string(POPLAR_MAX_SHARERS) + " can";
  if (type.precision == NumberFormat::F16 && tensorDegree > 1)
    return "device type '" + type.name +
           "' keeps activations in f16: devices that share units keep them in "
           "f32 or bf16";
  return "";
}

std::string poplar::explainUnbuildableStage(const DeviceType &type,
                                            int tensorDegree) {
  std::string reason = explainUnbuildable(type.name, type.target);
  return reason.empty() ? explainUnsharable(type, tensorDegree) : reason;
}

std::string poplar::explainUnlikeSharers(const DeviceType &type,
                                         const DeviceType &other) {
  if (type.precision == other.precision)
    return "";
  return "device types '" + type.name + "' and '" + other.name +
         "' keep activations in " + toString(type.precision) + " and " +
         toString(other.precision) +
         ": devices that share units need the same precision";
}
