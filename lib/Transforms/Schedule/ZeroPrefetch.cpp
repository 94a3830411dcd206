//===- ZeroPrefetch.cpp - Gather parameters ahead of their use ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Must happen before: a gather reads shards, which only @update writes, so
// inside a function it may start at any point before its wait. What bounds it
// is memory, a buffer per gather under way.
//
//   --zero-async        stream   G0    G1    G2
//                       compute     C0    C1    C2
//
//   depth 1             stream   G0 G1 G2 ...
//                       compute     C0 C1 C2
//
// With depth d, the gather for user i starts as soon as that for user i - d has
// arrived, before user i - d computes.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Schedule/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROPREFETCH
#include "Poplar/Transforms/Schedule/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class ZeroPrefetchPass
    : public poplar::impl::ZeroPrefetchBase<ZeroPrefetchPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    if (depth < 0) {
      getOperation().emitError("option depth must not be negative");
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        prefetch(function.front());
  }

private:
  void prefetch(Block &block) {
    SmallVector<zero::WaitOp> waits;
    for (auto start : block.getOps<zero::StartOp>())
      if (start.getTransient())
        waits.push_back(start.getWait());
    llvm::sort(waits, [](zero::WaitOp a, zero::WaitOp b) {
      return a->isBeforeInBlock(b);
    });
    if (depth == 0)
      return;
    for (size_t i = 1; i < waits.size(); ++i) {
      Operation *start = waits[i].getToken().getDefiningOp();
      if (i < size_t(depth))
        start->moveBefore(
            waits.front().getToken().getDefiningOp()->getNextNode());
      else
        start->moveAfter(waits[i - depth]);
    }
  }
};

} // namespace
