//===- PlacementStarts.h - Where the search begins --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_PLACEMENTSTARTS_H
#define POPLAR_LIB_PLANNER_PLACEMENTSTARTS_H

#include "Placement/PlacementPath.h"

namespace poplar {

/// Placements of devices, of which some may be left out, built greedily. A
/// placement of little cost puts its close devices into groups, or in a row
/// along pipelines, or part of the way along: there is a start for each number
/// of stages (1, 2, ..., all; of many, `mostLengths`) that a chain of close
/// devices could cover, and each is given twice, chains side by side when they
/// are as tight or when they are close.
std::vector<std::vector<std::vector<int>>>
buildStarts(const PlacementCosts &costs, int stages, int pipelines,
            size_t mostLengths);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_PLACEMENTSTARTS_H
