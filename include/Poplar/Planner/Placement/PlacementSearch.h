//===- PlacementSearch.h - Finding a placement ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A search for placements of little cost, and a bound on what any could cost.
// Both are functions of the problem alone: nothing is random, and no clock is
// read.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PLACEMENT_PLACEMENTSEARCH_H
#define POPLAR_PLANNER_PLACEMENT_PLACEMENTSEARCH_H

#include "Poplar/Planner/Placement/Placement.h"

namespace poplar {

/// The best placement found for a problem that passes its check(). How it is
/// searched for: docs/placement-theory.md.
Placement searchPlacement(const PlacementProblem &problem);

/// No placement of `problem`, which passes its check(), costs less, in seconds.
/// The proof is in PlacementBound.cpp.
double boundPlacement(const PlacementProblem &problem);

} // namespace poplar

#endif // POPLAR_PLANNER_PLACEMENT_PLACEMENTSEARCH_H
