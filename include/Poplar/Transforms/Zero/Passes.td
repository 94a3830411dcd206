//===- Passes.td - From the train level to zero ------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_ZERO_PASSES_TD
#define POPLAR_TRANSFORMS_ZERO_PASSES_TD

include "mlir/Pass/PassBase.td"

def ZeroCutStages : Pass<"zero-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Reduce @model to the units of the program's group";
  let description = [{
    In a program of a group: @model receives the activations that the group
    before sends, and sends on its own instead of returning a loss, unless it is
    the last. With several chunks, this holds for each of them. Other programs are
    not changed.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def ZeroShardUnits : Pass<"zero-shard-units", "::mlir::ModuleOp"> {
  let summary = "Reduce units to the part that a device of several computes";
  let description = [{
    In a program whose ranks share units (`parts`): linear layers, attention,
    embedding and loss are divided by columns and rows, heads and vocabulary,
    what is between them by tokens (Dialect/NN/NNTensorParallel.h).
    zero.gather_tokens and zero.scatter_tokens connect the devices. Parameters
    become the parts of them that --specialize-device-types has made.

    A program that computes whole units beside such ranks computes layers part
    by part. Other programs are not changed.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def ZeroSplitTurns : Pass<"zero-split-turns", "::mlir::ModuleOp"> {
  let summary = "Split @train of a pipeline stage into its turns";
  let description = [{
    The turns are @forward and @backward; other micro-batches may run between
    them. What @backward reads is a result of @forward (`zero.residual`), unless
    it can be read again, as parameters can. A group with several chunks has
    functions for each: @forward.chunk0, @forward.chunk1 and so on, and likewise
    for @evaluate and @infer. Other programs are not changed.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::mlir::func::FuncDialect"];
}

def ZeroMaterialize : Pass<"zero-materialize", "::mlir::ModuleOp"> {
  let summary = "Add the collectives of a ZeRO stage, all synchronous";
  let description = [{
    Works on a program at the train level with buckets; stage and number of
    ranks are in the module's `zero.program`. Makes @update, the optimizer's
    step, and:

    stage 0  @train_last = @train + an all_reduce of every bucket when its
             gradients are complete
    stage 1  the same with reduce_scatter; @update gathers the parameters
    stage 2  @train reduce_scatters every unit's gradients; @update gathers
    stage 3  every function gathers parameters before the units that use them;
             @train reduce_scatters. Where device types recompute differently,
             a backward pass gathers all parameters of its unit

    Where there are replicas, @train_last of all stages adds up a bucket's shards
    of gradients across shard groups, by an all_reduce, when it has reduced the
    bucket for the last time.

    In a pipeline stage, @backward is what is called @train here. Buckets that
    several groups hold, or several chunks of the group use, are reduced in
    @update, before the norm.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::mlir::func::FuncDialect"];
}

def ZeroVerify : Pass<"zero-verify", "::mlir::ModuleOp"> {
  let summary = "Check that the programs of a plan work together";
  let description = [{
    All programs issue the same collectives in the same order in each function;
    nothing touches what a collective under way reads or writes; where ranks
    have step counts of their own (stages 0 and 1), @train issues none; @update
    takes the norm first and updates every bucket once. A violation names both
    places. Runs after each phase of the zero level.
  }];
}

def ZeroVerifyStages : Pass<"zero-verify-stages", "::mlir::ModuleOp"> {
  let summary = "Check that the groups of a plan work together";
  let description = [{
    Every unit is computed by one group; every send has its receive, of the same
    type, in the function of the other group's chunk; collectives in turns are
    among the ranks of one group, which take their turns in the same order where
    they meet in them; those among several groups stand in @update, in an order
    that is the same for all. The timetable of every pipeline can be carried out
    with the memory there is for messages. A violation names both places.
  }];
}

#endif // POPLAR_TRANSFORMS_ZERO_PASSES_TD
