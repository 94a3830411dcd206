//===- Targets.cpp - Targets as the dialect knows them --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"
#include "llvm/ADT/STLExtras.h"

using namespace poplar;
using namespace poplar::cluster;

llvm::ArrayRef<Target> poplar::cluster::getTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> targets;
    for (const TargetInfo &info : getTargetInfos()) {
      Target target{info.name, &info, {}};
      for (std::string_view format : info.formats)
        target.formats.push_back(*symbolizeNumberFormat(format));
      targets.push_back(std::move(target));
    }
    return targets;
  }();
  return targets;
}

const Target *poplar::cluster::findTarget(llvm::StringRef name) {
  llvm::ArrayRef<Target> targets = getTargets();
  const Target *target = llvm::find_if(
      targets, [&](const Target &target) { return target.name == name; });
  return target == targets.end() ? nullptr : target;
}
