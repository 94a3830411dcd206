//===- LossyPlans.h - Plans that round what is exchanged --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_ALLOCATION_LOSSYPLANS_H
#define POPLAR_LIB_ALLOCATION_LOSSYPLANS_H

#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Planner/Cluster/HostRounding.h"
#include "Poplar/Planner/Pipeline/HybridResult.h"

namespace poplar {

/// Gradients may be rounded between nodes, and nothing else.
inline std::vector<LossyWires> listGradientWires() {
  return {{WireFormat::BF16, std::nullopt}, {WireFormat::I8, std::nullopt}};
}

/// Why a result isSlower.
std::string describeSlower(const HybridRequest &request);

/// Finds a plan of stages, and with `allowsLossy` those that round as one of
/// `wires` between nodes, the least loss first, which are taken if they are
/// enough faster. `find` plans result.model, which is `model`, on a cluster
/// whose `wires` say what is rounded; it sets `error` where there is no plan,
/// and fails with a diagnostic otherwise.
template <typename Result, typename Finder>
llvm::LogicalResult
findExactOrLossy(const ClusterView &cluster, const HybridModel &model,
                 const HybridRequest &request,
                 const std::vector<LossyWires> &wires, Result &result,
                 std::string &error, Finder find) {
  result.model = model;
  // What rounds may still take less than the plan that is known.
  if (failed(find(cluster, result)) &&
      !(result.isSlower && request.allowsLossy))
    return llvm::failure();
  if (!request.allowsLossy)
    return llvm::success();
  for (const LossyWires &choice : wires) {
    ClusterView lossy = withWires(cluster, choice);
    Result found;
    found.model = model;
    found.wires = choice;
    // What rounding keeps may not fit.
    if (failed(find(lossy, found))) {
      if (error.empty())
        return llvm::failure();
      continue;
    }
    if (result.isSlower || found.simulation.seconds <
                               result.simulation.seconds * (1 - leastLossyGain))
      result = std::move(found);
  }
  if (result.isSlower)
    return llvm::failure();
  error.clear();
  return llvm::success();
}

} // namespace poplar

#endif // POPLAR_LIB_ALLOCATION_LOSSYPLANS_H
