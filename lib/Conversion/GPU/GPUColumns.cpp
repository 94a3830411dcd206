//===- GPUColumns.cpp - Kernels over columns, positions, elements ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GPUKernelEmitter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace poplar;

/// Rows that a thread of a kernel over columns reads at a time.
static constexpr int64_t kRowsUnderWay = 4;

LogicalResult GPUKernelEmitter::emitColumnOp(linalg::GenericOp op, Value sample,
                                             Value column, Value group) {
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  unsigned count = op->getNumResults();
  SmallVector<Combiner> combiners;
  SmallVector<Value> neutral;
  for (unsigned i = 0; i < count; ++i) {
    FailureOr<Combiner> combiner = getCombiner(op, i);
    if (failed(combiner))
      return failure();
    combiners.push_back(*combiner);
    Type element = getElementTypeOrSelf(op.getResult(i).getType());
    Value value = arith::ConstantOp::create(
        builder, loc, builder.getFloatAttr(element, combiner->neutral));
    neutral.append(lanes, value);
  }
  // The rows of this thread's group; none beyond the last column.
  Value isColumn = less(column, constant(ranges[2]));
  Value numRows = sample ? constant(ranges[1]) : multiply(batch, ranges[1]);
  Value end =
      arith::SelectOp::create(builder, loc, isColumn, numRows, constant(0));
  FailureOr<SmallVector<Lanes>> partial = accumulateLanes(
      op, column, group, end, rows, kRowsUnderWay, cut(neutral),
      [&](Value row) {
        if (sample)
          return SmallVector<Value, 3>{sample, row, column};
        Value length = constant(ranges[1]);
        return SmallVector<Value, 3>{
            arith::DivUIOp::create(builder, loc, row, length),
            arith::RemUIOp::create(builder, loc, row, length), column};
      });
  if (failed(partial))
    return failure();

  // The sums of the groups of a subgroup, by exchanges; then those of the
  // subgroups, in order.
  int64_t together = subgroup / threads;
  if (together > 1)
    for (auto [values, combiner] : llvm::zip_equal(*partial, combiners))
      for (Value &value : values)
        value = gpu::SubgroupReduceOp::create(
            builder, loc, value, combiner.operation, /*uniform=*/false,
            static_cast<uint32_t>(together), static_cast<uint32_t>(threads));
  int64_t numParts = rows / together;
  Value part = arith::DivUIOp::create(builder, loc, group, constant(together));
  Value isFirstOfPart = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::eq, multiply(part, together), group);
  auto index = [&](Value value) -> Value {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      value);
  };
  SmallVector<Value> shared, places;
  for (int64_t lane = 0; lane < lanes; ++lane)
    places.push_back(index(add(multiply(thread, lanes), constant(lane))));
  auto space = gpu::AddressSpaceAttr::get(
      builder.getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
  for (const Lanes &values : *partial) {
    auto type =
        MemRefType::get({numParts, threads * lanes}, values[0].getType(),
                        MemRefLayoutAttrInterface(), space);
    shared.push_back(target.addWorkgroupAttribution(type, loc));
    alignLastAttribution(target);
    auto guard = scf::IfOp::create(builder, loc, isFirstOfPart);
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(guard.thenBlock());
    for (auto [value, place] : llvm::zip_equal(values, places))
      memref::StoreOp::create(builder, loc, value, shared.back(),
                              ValueRange{index(part), place});
  }
  gpu::BarrierOp::create(builder, loc);
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        group, constant(0));
  auto guard = scf::IfOp::create(
      builder, loc, arith::AndIOp::create(builder, loc, isFirst, isColumn));
  OpBuilder::InsertionGuard outside(builder);
  builder.setInsertionPointToStart(guard.thenBlock());
  dims = {sample ? sample : constant(0), constant(0), column};
  SmallVector<Lanes> totals;
  for (unsigned i = 0; i < count; ++i) {
    FailureOr<Lanes> initial =
        loadLanes(op, op.getDpsInitsMutable()[i], column, lanes);
    if (failed(initial))
      return failure();
    auto sum = scf::ForOp::create(builder, loc, constant(0), constant(numParts),
                                  constant(1), *initial);
    OpBuilder::InsertionGuard after(builder);
    builder.setInsertionPointToStart(sum.getBody());
    SmallVector<Value> sums;
    for (auto [carried, place] :
         llvm::zip_equal(sum.getRegionIterArgs(), places)) {
      Value partial = memref::LoadOp::create(
          builder, loc, shared[i],
          ValueRange{index(sum.getInductionVar()), place});
      sums.push_back(combiners[i].combine(builder, loc, carried, partial));
    }
    scf::YieldOp::create(builder, loc, sums);
    totals.emplace_back(sum.getResults().begin(), sum.getResults().end());
  }
  return storeLanes(op, column, totals);
}

LogicalResult GPUKernelEmitter::emitColumns() {
  thread = threadIndex(gpu::Dimension::x);
  Value group = threadIndex(gpu::Dimension::y), block = blockIndex(), sample;
  if (source.getPerSample()) {
    int64_t width = ops.front().getStaticLoopRanges()[2];
    if (width % (threads * lanes))
      return source.emitOpError("has ")
             << width << " columns a sample, which is no multiple of the "
             << threads * lanes << " of a block";
    Value blocks = constant(width / (threads * lanes));
    sample = arith::DivUIOp::create(builder, loc, block, blocks);
    block = arith::RemUIOp::create(builder, loc, block, blocks);
  }
  Value column = add(multiply(block, threads * lanes), multiply(thread, lanes));
  for (linalg::GenericOp op : ops)
    if (failed(emitColumnOp(op, sample, column, group)))
      return failure();
  return success();
}

LogicalResult GPUKernelEmitter::emitPositionOp(linalg::GenericOp op,
                                               Value position) {
  int64_t width = op.getStaticLoopRanges()[2];
  return forEachPart(
      width, [&](int64_t part, Value base, int64_t) -> LogicalResult {
        OpBuilder::InsertionGuard outside(builder);
        if (part >= 0 && (part + 1) * threads * lanes > width) {
          auto guard =
              scf::IfOp::create(builder, loc, less(base, constant(width)));
          builder.setInsertionPointToStart(guard.thenBlock());
        }
        dims = {constant(0), position, base};
        SmallVector<Lanes> initial;
        for (OpOperand &init : op.getDpsInitsMutable()) {
          FailureOr<Lanes> values = loadLanes(op, init, base, lanes);
          if (failed(values))
            return failure();
          initial.push_back(*values);
        }
        FailureOr<SmallVector<Lanes>> results = accumulateLanes(
            op, base, constant(0), batch, 1, 1, initial, [&](Value sample) {
              return SmallVector<Value, 3>{sample, position, base};
            });
        if (failed(results))
          return failure();
        dims = {constant(0), position, base};
        return storeLanes(op, base, *results);
      });
}

LogicalResult GPUKernelEmitter::emitPositions() {
  thread = threadIndex(gpu::Dimension::x);
  Value position = blockIndex();
  for (linalg::GenericOp op : ops)
    if (failed(emitPositionOp(op, position)))
      return failure();
  return success();
}

LogicalResult GPUKernelEmitter::emitFlat() {
  thread = threadIndex(gpu::Dimension::x);
  Value base = multiply(add(multiply(blockIndex(), threads), thread), lanes);
  auto emit = [&](Value from, int64_t count) -> LogicalResult {
    for (linalg::GenericOp op : ops) {
      dims.assign(1, from);
      if (failed(findInvariants(op)))
        return failure();
      FailureOr<SmallVector<Lanes>> results = emitLanes(op, from, count, {});
      if (failed(results) || failed(storeLanes(op, from, *results)))
        return failure();
    }
    return success();
  };
  // The batch of a flat kernel is its number of elements.
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                        add(base, constant(lanes)), batch);
  auto guard = scf::IfOp::create(builder, loc, isWhole, /*withElse=*/true);
  OpBuilder::InsertionGuard outside(builder);
  builder.setInsertionPointToStart(guard.thenBlock());
  if (failed(emit(base, lanes)))
    return failure();
  builder.setInsertionPointToStart(guard.elseBlock());
  auto rest = scf::ForOp::create(builder, loc, base, batch, constant(1));
  builder.setInsertionPointToStart(rest.getBody());
  return emit(rest.getInductionVar(), 1);
}
