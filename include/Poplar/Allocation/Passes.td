//===- Passes.td - Planners that simulate what they choose -*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_ALLOCATION_PASSES_TD
#define POPLAR_ALLOCATION_PASSES_TD

include "mlir/Pass/PassBase.td"

// To simulate a plan is to schedule its programs.
defvar ProgramDialects = ["::poplar::cluster::ClusterDialect",
  "::poplar::nn::NNDialect", "::poplar::zero::ZeroDialect",
  "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
  "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
  "::mlir::math::MathDialect"];

def HeteroAllocate : Pass<"hetero-allocate", "::mlir::ModuleOp"> {
  let summary = "Allocate the global batch to the ranks of a cluster";
  let description = [{
    The module must hold a model, a cluster (`cluster.device_type`,
    `cluster.node`, `cluster.link`) and a `cluster.profile` per device type. The
    pass adds the `zero.plan`. `BatchPolicy.h` describes the policies;
    `homogeneous:T` plans a job of the devices of type T alone. If there are
    buckets, the plan accounts for the latencies of their collectives and for
    the transient memory of the largest one.

    With the policy `exact`, options that are `auto` are searched together. With
    other policies, `auto` means equal state and all devices; what types
    recompute is searched, unless it is fixed (`fixed_recompute`). Devices that are left out have no `zero.rank`. The recomputation policy
    is set on the `cluster.device_type`.

    A closed form predicts the time of each plan, and the fastest is taken. With
    `simulate`, the programs of the fastest by the closed form are simulated, and
    the fastest of these is taken, as `poplar plan` does.

    With `allow-lossy`, which needs `simulate`, plans whose collectives carry
    gradients and parameters in bf16 or in blocks of int8 are simulated, too
    (docs/lossy-wires.md). One is taken if it is at least 1 % faster than every
    plan that loses less.
  }];
  let options = [
    Option<"globalBatch", "global-batch", "int64_t", "0",
           "Samples per iteration">,
    Option<"stage", "zero", "std::string", "\"auto\"",
           "ZeRO stage: 0, 1, 2, 3, or auto for the fastest that fits">,
    Option<"policy", "policy", "std::string", "\"exact\"",
           "exact, poplar, uniform, whale, homogeneous:T or batch:T=N,...">,
    Option<"state", "state", "std::string", "\"auto\"",
           "How state is sharded: equal, by memory, replicated in several shard "
           "groups, or auto for the fastest">,
    Option<"leaveOut", "leave-out", "std::string", "\"auto\"",
           "auto drops devices if that is faster, none keeps all">,
    Option<"recompute", "recompute", "std::string", "\"auto\"",
           "What types recompute: as-set, or auto for the fastest">,
    Option<"simulate", "simulate", "bool", "false",
           "Choose among the best plans by simulating their programs">,
    Option<"allowLossy", "allow-lossy", "bool", "false",
           "Let collectives between nodes round where that is faster">,
    Option<"remedies", "remedies", "bool", "true",
           "Without a plan, say what would make the model fit">
  ];
  let dependentDialects = ProgramDialects;
}

defvar StagedOptions = [
  Option<"globalBatch", "global-batch", "int64_t", "0",
         "Samples per iteration">,
  Option<"stage", "zero", "std::string", "\"auto\"",
         "ZeRO stage of all groups: 0, 1, 2, 3, or auto">,
  Option<"chunks", "chunks", "int64_t", "0",
         "Most ranges of units of a pipeline stage; 0 for any number">,
  Option<"tensorDegree", "tensor-degree", "int64_t", "0",
         "Most devices that share a unit; 0 for any number">,
  Option<"bucketBytes", "bucket-bytes", "int64_t", "1 << 20",
         "Bytes of the plan's buckets">
];

def HybridAllocate : Pass<"hybrid-allocate", "::mlir::ModuleOp"> {
  let summary = "Plan pipeline stages on unlike devices";
  let description = [{
    The module must hold a model, its buckets and a cluster whose types have known
    figures or profiles. The pass searches pipelines of stages, the devices of
    each, what they recompute, and how many of them share a unit
    (`Planner/Pipeline/HybridProblem.h`). The best plans are simulated, and the
    fastest is added as `zero.plan`. Buckets are formed anew, because they do not
    cross the stages.
  }];
  let options = StagedOptions;
  let dependentDialects = ProgramDialects;
}

def GeoAllocate : Pass<"geo-allocate", "::mlir::ModuleOp"> {
  let summary = "Plan pipeline stages over slow, unlike links";
  let description = [{
    As `hybrid-allocate`, but links differ pair by pair: the pass also chooses
    which device of a stage sends to which of the next
    (`Planner/Geo/GeoProblem.h`).
  }];
  let options = StagedOptions;
  let dependentDialects = ProgramDialects;
}

#endif // POPLAR_ALLOCATION_PASSES_TD
