//===- Passes.td - Profiles that are missing ---------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SIMULATION_PASSES_TD
#define POPLAR_SIMULATION_PASSES_TD

include "mlir/Pass/PassBase.td"

def EstimateProfiles : Pass<"estimate-profiles", "::mlir::ModuleOp"> {
  let summary = "Estimate profiles of devices from their specifications";
  let description = [{
    Works on a module that holds a model, its buckets and a cluster. Adds a
    `cluster.profile` marked `estimate` for every stage and recomputation policy
    of which a device type that ranks use has none of this model (in its
    precision), if `flops` and `bandwidth` of the type are known. Of a type with
    a measured profile, or with `fixed_recompute`, it adds only its own policy;
    in a module with a plan, what ranks recompute. Where something was measured,
    estimates are multiples of it.

    Times are those of Planner/Model/Roofline.h, over the ops of the program that the
    type would run. Memory is that program's plan. The program is made for a
    model with few of its equal units, and extrapolated to all of them, so that
    a deep model takes no longer than a shallow one.
  }];
  let dependentDialects = ["::poplar::cluster::ClusterDialect",
    "::poplar::nn::NNDialect", "::poplar::zero::ZeroDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect"];
}

#endif // POPLAR_SIMULATION_PASSES_TD
