//===- Passes.td - From a model to a program per type ------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_PASSES_TD
#define POPLAR_TRANSFORMS_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def ZeroFormBuckets : Pass<"zero-form-buckets", "::mlir::ModuleOp"> {
  let summary = "Group the parameters into buckets";
  let description = [{
    Each call of a unit in @model gets a bucket, in order; a parameter that
    several calls use gets its own. Neighbours are merged until they have
    `min-bytes` (in f32), so that small ones do not cost a latency each. Buckets
    of different groups of a plan are not merged.
  }];
  let options = [
    Option<"minBytes", "min-bytes", "int64_t", "0",
           "Merge neighbours until they have this many bytes">
  ];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def ZeroPlanStages : Pass<"zero-plan-stages", "::mlir::ModuleOp"> {
  let summary = "Plan the pipeline stages that an option describes";
  let description = [{
    The module must hold a model and a cluster. The pass adds the `zero.plan` with
    its groups. `stages` lists the ranks of each stage, from the first to the
    last, and the unit before which it ends: `a100*2@12+v100*2` means two A100
    with the units before number 12, and two V100 with the rest. Stages without a
    number share units evenly, and the pipelines share the global batch evenly.
    In `a100*2/4@12`, each of two pipelines has four A100 of a node, which share
    units. In `a100=3|rtx4090/2=2`, an A100 computes whole units beside a pair of
    4090, and takes three fifths of the batch. A stage with several chunks can say
    where each ends: `a100@2@6+v100@4@8`.
  }];
  let options = [
    Option<"stages", "stages", "std::string", "\"\"",
           "TYPE[*PIPELINES][/DEGREE][@END]... of each stage, joined by +">,
    Option<"schedule", "schedule", "::poplar::PipelineSchedule",
           "::poplar::PipelineSchedule::OneForwardOneBackward",
           "gpipe, 1f1b or interleaved">,
    Option<"chunks", "chunks", "int64_t", "1",
           "Ranges of units of each stage, several if interleaved">,
    Option<"globalBatch", "global-batch", "int64_t", "0",
           "Samples per iteration">,
    Option<"microBatch", "micro-batch", "int64_t", "1",
           "Samples of a micro-batch">,
    Option<"stage", "zero", "std::string", "\"auto\"",
           "ZeRO stage of all groups: 0, 1, 2 or 3; auto means 0">
  ];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::poplar::cluster::ClusterDialect"];
}

def SpecializeDeviceTypes : Pass<"specialize-device-types", "::mlir::ModuleOp"> {
  let summary = "Make one program per device type of the plan";
  let description = [{
    For each device type T that a rank uses, the pass clones the model with its
    buckets and the plan into a nested module @"T.program". `zero.program` holds
    the type's number format and recomputation policy. Later passes work on
    these modules one by one. Buckets are sharded by the plan's `state`
    shares, in multiples of 16 elements.

    In a plan of groups, there is a module @"T.stageG.program" for each device
    type T of group G, and the buckets say which groups hold them.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::poplar::cluster::ClusterDialect"];
}

#endif // POPLAR_TRANSFORMS_PLAN_PASSES_TD
