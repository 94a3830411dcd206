//===- ZeroBound.h - What no plan of ZeRO takes less than -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bound of all that a search for ZeRO plans may choose, without a search
// (PlanSearch.h). It holds for the closed form in BatchProblem.h.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_ZEROBOUND_H
#define POPLAR_PLANNER_ZERO_ZEROBOUND_H

#include "Poplar/Planner/Zero/PlanSearch.h"

namespace poplar {

/// Seconds of an iteration. No plan of the choices takes less, whatever devices
/// of `cluster` take part; infinite if no device has a profile. The proof is in
/// ZeroBound.cpp.
double findZeroBound(const ClusterView &cluster, const ModelFacts &model,
                     const PlanChoices &choices);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_ZEROBOUND_H
