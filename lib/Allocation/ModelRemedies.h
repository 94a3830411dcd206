//===- ModelRemedies.h - What else would make a model fit -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where no plan can hold the model on its devices: changes of the model, of the
// policy and of what types recompute with which there is a plan. Each is tried
// in the planner's memory model; what does not help is not listed.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_ALLOCATION_MODELREMEDIES_H
#define POPLAR_LIB_ALLOCATION_MODELREMEDIES_H

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// In words that follow "it would fit", as those of findRemedies(). Pipelines
/// take some seconds to try.
std::vector<std::string>
findModelRemedies(mlir::ModuleOp module, const ClusterView &cluster,
                  const ModelFacts &model, const BatchPolicy &policy,
                  const PlanChoices &choices, bool triesPipelines);

} // namespace poplar

#endif // POPLAR_LIB_ALLOCATION_MODELREMEDIES_H
