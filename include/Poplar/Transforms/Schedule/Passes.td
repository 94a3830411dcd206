//===- Passes.td - Collectives beside computation ----------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_SCHEDULE_PASSES_TD
#define POPLAR_TRANSFORMS_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ZeroAsync : Pass<"zero-async", "::mlir::ModuleOp"> {
  let summary = "Split every collective in zero.start and zero.wait";
  let description = [{
    The wait stays right behind its start; --zero-prefetch and
    --zero-delay-waits move them apart.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def ZeroPrefetch : Pass<"zero-prefetch", "::mlir::ModuleOp"> {
  let summary = "Start gathers of parameters while earlier units compute";
  let description = [{
    Moves the start of a gather upwards, so that the gather runs while earlier
    units compute. `depth` gathers are under way beside the one in use; each needs
    a buffer of its own. The order of the collectives stays the same. Gathers into
    the working copies, in @update, are not moved.
  }];
  let options = [
    Option<"depth", "depth", "int", "1",
           "Gathers under way beside the one in use">
  ];
}

def ZeroDelayWaits : Pass<"zero-delay-waits", "::mlir::ModuleOp"> {
  let summary = "Let reductions finish while later units compute";
  let description = [{
    Moves the wait of a reduction downwards, so that the reduction runs while later
    units compute. At most `depth` reductions of transient gradients are under way.
    A wait stays before whatever needs the result.
  }];
  let options = [
    Option<"depth", "depth", "int", "1",
           "Reductions of transient gradients under way">
  ];
}

def ZeroOverlapExchanges : Pass<"zero-overlap-exchanges", "::mlir::ModuleOp"> {
  let summary = "Exchange tokens of shared units while products run";
  let description = [{
    Splits zero.gather_tokens and zero.scatter_tokens in start and wait, with the
    products between them that need not wait for all: linear ops of what is
    gathered begin with the rank's own tokens, one that makes what is scattered
    ends with them, and gradients of weights do not read what is scattered: the
    first half of them runs while tokens are scattered, the other while the next
    are gathered.

    A product runs in pieces where the link between the ranks is slow: a piece of
    a sample's tokens keeps `sharers_bandwidth` of zero.program busy for 25 us at
    least, and has 4 tokens at least. There are 4 pieces of a rank's tokens at
    most. `--plan-memory` cuts the products. One exchange is under way at a time,
    but for a gather of what is made, token by token, of what was scattered just
    before in as many pieces: it is chained to that, each piece to the same one.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

#endif // POPLAR_TRANSFORMS_SCHEDULE_PASSES_TD
