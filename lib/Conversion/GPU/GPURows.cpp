//===- GPURows.cpp - Kernels over rows, a block for one or several --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GPUKernelEmitter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace poplar;

/// An op without a loop of its own: every thread of the row does the same.
LogicalResult GPUKernelEmitter::emitScalarOp(linalg::GenericOp op) {
  if (failed(findInvariants(op)))
    return failure();
  for (OpOperand &operand : op->getOpOperands())
    if (Value value = invariants[operand.getOperandNumber()])
      scalars.map(op.getMatchingBlockArgument(&operand), value);
  SmallVector<Value> yields;
  if (failed(emitBody(op, yields)))
    return failure();
  for (auto [result, value] : llvm::zip_equal(op->getResults(), yields))
    rowScalars[result] = value;
  return storeScalars(op);
}

/// One thread writes what a row has one of.
LogicalResult GPUKernelEmitter::storeScalars(linalg::GenericOp op) {
  for (auto [init, result] :
       llvm::zip_equal(op.getDpsInitsMutable(), op->getResults())) {
    auto storage = storages.find(result);
    if (storage == storages.end())
      continue;
    auto indices = evaluate(op, op.getMatchingIndexingMap(&init));
    if (failed(indices))
      return failure();
    Value isFirst = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, thread, constant(0));
    auto guard = scf::IfOp::create(builder, loc, isFirst);
    OpBuilder::InsertionGuard inside(builder);
    builder.setInsertionPointToStart(guard.thenBlock());
    store(rowScalars.lookup(result), storage->second, *indices);
  }
  return success();
}

/// What the threads of a row, a subgroup or a block, have found together.
static Value reduceOverThreads(OpBuilder &builder, Location loc, Value partial,
                               const Combiner &combiner, bool isSubgroup) {
  if (isSubgroup)
    return gpu::SubgroupReduceOp::create(builder, loc, partial,
                                         combiner.operation, true);
  return gpu::AllReduceOp::create(builder, loc, partial,
                                  gpu::AllReduceOperationAttr::get(
                                      builder.getContext(), combiner.operation),
                                  true);
}

LogicalResult GPUKernelEmitter::emitReduction(linalg::GenericOp op) {
  int64_t width = op.getStaticLoopRanges()[2];
  SmallVector<Combiner> combiners;
  SmallVector<Value> partial, initial;
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    FailureOr<Combiner> combiner = getCombiner(op, i);
    if (failed(combiner))
      return failure();
    combiners.push_back(*combiner);
    auto type = cast<RankedTensorType>(op.getResult(i).getType());
    partial.push_back(arith::ConstantOp::create(
        builder, loc,
        builder.getFloatAttr(type.getElementType(), combiner->neutral)));
    initial.push_back(invariants[op.getNumDpsInputs() + i]);
  }
  auto accumulate = [&](Value base, ValueRange from,
                        int64_t count) -> FailureOr<SmallVector<Value>> {
    SmallVector<Lanes> carried;
    for (Value value : from)
      carried.push_back({value});
    FailureOr<SmallVector<Lanes>> results = emitLanes(op, base, count, carried);
    if (failed(results))
      return failure();
    SmallVector<Value> values;
    for (const Lanes &result : *results)
      values.push_back(result[0]);
    return values;
  };

  /// Only some threads have these.
  auto accumulateIf = [&](Value isTheirs, Value base,
                          int64_t count) -> LogicalResult {
    auto guard = scf::IfOp::create(builder, loc, TypeRange(ValueRange(partial)),
                                   isTheirs, true);
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(guard.thenBlock());
    FailureOr<SmallVector<Value>> values = accumulate(base, partial, count);
    if (failed(values))
      return failure();
    scf::YieldOp::create(builder, loc, *values);
    builder.setInsertionPointToStart(guard.elseBlock());
    scf::YieldOp::create(builder, loc, partial);
    partial.assign(guard.getResults().begin(), guard.getResults().end());
    return success();
  };

  Value first = multiply(thread, lanes), end = constant(width);
  if (isUnrolled(width)) {
    for (iteration = 0; iteration * threads * lanes < width; ++iteration) {
      Value base = add(first, constant(iteration * threads * lanes));
      if ((iteration + 1) * threads * lanes <= width) {
        FailureOr<SmallVector<Value>> values = accumulate(base, partial, lanes);
        if (failed(values))
          return failure();
        partial = *values;
        continue;
      }
      if (failed(accumulateIf(less(base, end), base, lanes)))
        return failure();
    }
    iteration = -1;
  } else {
    int64_t whole = width - width % lanes;
    auto loop = scf::ForOp::create(builder, loc, first, constant(whole),
                                   constant(threads * lanes), partial);
    {
      OpBuilder::InsertionGuard outside(builder);
      builder.setInsertionPointToStart(loop.getBody());
      FailureOr<SmallVector<Value>> values =
          accumulate(loop.getInductionVar(), loop.getRegionIterArgs(), lanes);
      if (failed(values))
        return failure();
      scf::YieldOp::create(builder, loc, *values);
    }
    partial.assign(loop.getResults().begin(), loop.getResults().end());
    if (whole < width &&
        failed(accumulateIf(less(thread, constant(width - whole)),
                            add(constant(whole), thread), 1)))
      return failure();
  }

  for (auto [i, combiner] : llvm::enumerate(combiners)) {
    Value total = reduceOverThreads(builder, loc, partial[i], combiner,
                                    threads == subgroup);
    rowScalars[op.getResult(i)] =
        combiner.combine(builder, loc, initial[i], total);
  }
  return storeScalars(op);
}

LogicalResult GPUKernelEmitter::emitRowOp(linalg::GenericOp op) {
  dims.resize(op.getNumLoops());
  if (op.getNumLoops() == 2)
    return emitScalarOp(op);
  if (failed(findInvariants(op)))
    return failure();
  if (op.getIteratorTypesArray()[2] == utils::IteratorType::reduction)
    return emitReduction(op);

  int64_t width = op.getStaticLoopRanges()[2];
  auto emitPart = [&](Value base,
                      int64_t count) -> FailureOr<SmallVector<Lanes>> {
    FailureOr<SmallVector<Lanes>> results = emitLanes(op, base, count, {});
    if (succeeded(results) && failed(storeLanes(op, base, *results)))
      return failure();
    return results;
  };
  auto keep = [&](ArrayRef<Lanes> results) {
    for (auto [result, values] : llvm::zip_equal(op->getResults(), results))
      registers[result].push_back(values);
  };
  return forEachPart(
      width, [&](int64_t part, Value base, int64_t count) -> LogicalResult {
        iteration = part;
        auto reset = llvm::scope_exit([&] { iteration = -1; });
        if (part < 0)
          return emitPart(base, count);
        if ((part + 1) * threads * lanes <= width) {
          FailureOr<SmallVector<Lanes>> results = emitPart(base, count);
          if (succeeded(results))
            keep(*results);
          return results;
        }
        // Only some threads have a last part.
        SmallVector<Type> types;
        for (Value result : op->getResults())
          types.append(
              lanes, cast<RankedTensorType>(result.getType()).getElementType());
        auto guard = scf::IfOp::create(builder, loc, types,
                                       less(base, constant(width)), true);
        OpBuilder::InsertionGuard outside(builder);
        builder.setInsertionPointToStart(guard.thenBlock());
        FailureOr<SmallVector<Lanes>> results = emitPart(base, count);
        if (failed(results))
          return failure();
        scf::YieldOp::create(builder, loc, flatten(*results));
        builder.setInsertionPointToStart(guard.elseBlock());
        SmallVector<Value> nothing;
        for (Type type : types)
          nothing.push_back(LLVM::PoisonOp::create(builder, loc, type));
        scf::YieldOp::create(builder, loc, nothing);
        keep(cut(guard.getResults()));
        return success();
      });
}

LogicalResult GPUKernelEmitter::emitRows() {
  int64_t seqLen = ops.front().getStaticLoopRanges()[1];
  Value row = blockIndex();
  bool several = rows > 1;
  if (several)
    row = add(multiply(row, rows), threadIndex(gpu::Dimension::y));
  // A thread per row counts rows along x.
  bool perThread = threads == 1;
  if (perThread)
    row = add(multiply(blockIndex(), rows), threadIndex(gpu::Dimension::x));
  thread = perThread ? constant(0) : threadIndex(gpu::Dimension::x);
  OpBuilder::InsertionGuard outside(builder);
  if (several) {
    auto guard =
        scf::IfOp::create(builder, loc, less(row, multiply(batch, seqLen)));
    builder.setInsertionPointToStart(guard.thenBlock());
  }
  Value length = constant(seqLen);
  Value sample = arith::DivUIOp::create(builder, loc, row, length);
  Value position = arith::RemUIOp::create(builder, loc, row, length);
  for (linalg::GenericOp op : ops) {
    dims = {sample, position};
    if (failed(emitRowOp(op)))
      return failure();
  }
  return success();
}
