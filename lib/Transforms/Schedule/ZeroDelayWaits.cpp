//===- ZeroDelayWaits.cpp - Reduce while the next unit computes -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Must happen before: a reduction's sums are needed by zero.norm, that is after
// the function; a gather into the working copies is needed after @update. So
// these waits may stand as late as the end of the function. What bounds them is
// memory where the gradients are transient (stages 2 and 3).
//
//   --zero-async        compute  B2    B1    B0
//                       stream      R2    R1    R0
//
//   delayed             compute  B2 B1 B0
//                       stream      R2 R1 R0
//
// At most `depth` reductions of transient gradients are under way when the next
// one starts. Where shards are then added across replicas, that starts as soon
// as the reduction of the bucket has been waited for, at most as many later.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Schedule/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace poplar {
#define GEN_PASS_DEF_ZERODELAYWAITS
#include "Poplar/Transforms/Schedule/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class ZeroDelayWaitsPass
    : public poplar::impl::ZeroDelayWaitsBase<ZeroDelayWaitsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    if (depth < 0) {
      getOperation().emitError("option depth must not be negative");
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        delay(function.front());
  }

private:
  /// The op that reads what a collective changes in place: the norm where it
  /// reduces gradients, else something after this function.
  static Operation *findReader(zero::StartOp start) {
    for (Operation *op = start->getNextNode(); op; op = op->getNextNode())
      if (isa<zero::NormOp>(op) &&
          start.getKind() != zero::CollectiveKind::AllGather)
        return op;
    return start->getBlock()->getTerminator();
  }

  static remark::detail::InFlightRemark explain(zero::StartOp start) {
    auto function = start->getParentOfType<func::FuncOp>();
    auto remark =
        remark::passed(start.getLoc(), remark::RemarkOpts::name("WaitDelayed")
                                           .category("zero-delay-waits")
                                           .function(function.getName()));
    remark << remark::metric("Bucket", start.getBucket());
    return remark;
  }

  /// The sum across replicas of what a reduce-scatter makes, if it comes next
  /// to the bucket.
  static zero::StartOp findSum(zero::StartOp scatter) {
    if (scatter.getKind() == zero::CollectiveKind::ReduceScatter)
      for (Operation *op = scatter->getNextNode(); op; op = op->getNextNode())
        if (auto other = dyn_cast<zero::StartOp>(op);
            other && other.getBucketAttr() == scatter.getBucketAttr() &&
            !other.getTransient())
          return other.getKind() == zero::CollectiveKind::AllReduce
                     ? other
                     : zero::StartOp();
    return {};
  }

  /// Moves the wait for a reduction, and what waits for it.
  static void moveWait(zero::StartOp start, Operation *before) {
    zero::StartOp sum = findSum(start);
    start.getWait()->moveBefore(before);
    if (!sum)
      return;
    sum->moveAfter(start.getWait());
    sum.getWait()->moveBefore(findReader(sum));
  }

  void delay(Block &block) {
    // Reductions whose gradients hold memory until they are complete, or whose
    // sums are added across replicas then.
    SmallVector<zero::StartOp> bounded;
    for (auto start : llvm::to_vector(block.getOps<zero::StartOp>())) {
      if (start.getTransient())
        continue; // its values are wanted where they are
      if (!start.getGradients().empty() || findSum(start)) {
        bounded.push_back(start);
        continue;
      }
      Operation *reader = findReader(start);
      explain(start) << remark::reason("{0} reads what it changes",
                                       reader->getName().getStringRef().str());
      start.getWait()->moveBefore(reader);
    }
    for (size_t i = 0; i < bounded.size(); ++i) {
      if (i + depth >= bounded.size()) {
        explain(bounded[i]) << remark::reason("the function ends");
        moveWait(bounded[i], block.getTerminator());
        continue;
      }
      zero::StartOp next = bounded[i + depth];
      explain(bounded[i]) << remark::reason(
          "{0} is reduced next, and {1} of such reductions may be under way",
          next.getBucket().str(), depth.getValue());
      moveWait(bounded[i],
               depth == 0 ? bounded[i]->getNextNode() : next.getOperation());
    }
  }
};

} // namespace
