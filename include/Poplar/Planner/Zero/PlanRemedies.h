//===- PlanRemedies.h - What would make a plan fit --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where no plan can hold the model: the smallest changes with which there is
// one, each found by planning with it. The size of the global batch is none of
// them: ranks take more steps instead.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_PLANREMEDIES_H
#define POPLAR_PLANNER_ZERO_PLANREMEDIES_H

#include "Poplar/Planner/Zero/PlanSearch.h"

namespace poplar {

/// For a search that found nothing. In words that follow "it would fit",
/// such as `with 1.21 GiB more memory on each 'card'`; each is enough by
/// itself:
///
/// - what `choices` rules out: higher stages, state shared by memory, devices
///   left out, what else types have been profiled to recompute,
/// - for each type, the least memory more on each of its devices, for a job of
///   all devices or (where devices may be left out) of this type alone; where
///   no single type helps, bytes on several types, none of which could have
///   less,
/// - for each type, the fewest devices more, up to four times as many.
///
/// Empty where none of these helps, such as where nothing is known of memory.
std::vector<std::string> findRemedies(const ClusterView &cluster,
                                      const ModelFacts &model,
                                      const BatchPolicy &policy,
                                      const PlanChoices &choices);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_PLANREMEDIES_H
