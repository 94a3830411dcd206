//===- Passes.h - From a model to a program per type ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_PASSES_H
#define POPLAR_TRANSFORMS_PLAN_PASSES_H

#include "Poplar/Planner/Pipeline/Timetable.h"
#include "Poplar/Support/WordOptions.h"
#include "mlir/Pass/Pass.h"

template <>
class llvm::cl::parser<poplar::PipelineSchedule>
    : public poplar::WordParser<poplar::PipelineSchedule> {
public:
  using WordParser::WordParser;
};

namespace poplar {

#define GEN_PASS_DECL
#include "Poplar/Transforms/Plan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "Poplar/Transforms/Plan/Passes.h.inc"

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_PASSES_H
