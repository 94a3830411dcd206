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
#include "mlir/IR/Remarks.h"

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
    for (auto [i, wait] : llvm::enumerate(waits)) {
      auto start = wait.getToken().getDefiningOp<zero::StartOp>();
      StringRef bucket = start.getBucket();
      if (depth == 0 || i == 0) {
        remark::missed(start.getLoc(), getRemarkOptions("NotPrefetched", start))
            << remark::metric("Bucket", bucket)
            << remark::reason("{0}", depth == 0
                                         ? "the option depth is 0"
                                         : "it is the first of its function");
        continue;
      }
      zero::WaitOp previous =
          i < size_t(depth) ? waits.front() : waits[i - depth];
      auto previousStart = previous.getToken().getDefiningOp<zero::StartOp>();
      remark::passed(start.getLoc(), getRemarkOptions("Prefetched", start))
          << remark::metric("Bucket", bucket)
          << remark::reason("it starts once {0} {1}",
                            previousStart.getBucket().str(),
                            i < size_t(depth) ? "has started" : "is gathered");
      if (i < size_t(depth))
        start->moveBefore(previousStart->getNextNode());
      else
        start->moveAfter(previous);
    }
  }

  static remark::RemarkOpts getRemarkOptions(StringRef name,
                                             zero::StartOp start) {
    return remark::RemarkOpts::name(name)
        .category("zero-prefetch")
        .function(start->getParentOfType<func::FuncOp>().getName());
  }
};

} // namespace
