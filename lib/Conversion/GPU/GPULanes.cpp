//===- GPULanes.cpp - Elements of a kernel that one thread has ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GPUKernelEmitter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace poplar;
using exec::KernelKind;

FailureOr<Combiner> poplar::getCombiner(linalg::GenericOp op, unsigned index) {
  Block *body = op.getBody();
  Operation *last = body->getTerminator()->getOperand(index).getDefiningOp();
  Value accumulator = body->getArgument(op.getNumDpsInputs() + index);
  if (last && llvm::is_contained(last->getOperands(), accumulator) &&
      accumulator.hasOneUse()) {
    if (isa<arith::AddFOp>(last))
      return Combiner{gpu::AllReduceOperation::ADD, 0};
    if (isa<arith::MaximumFOp>(last))
      return Combiner{gpu::AllReduceOperation::MAXIMUMF, -HUGE_VAL};
  }
  return op.emitOpError("reduces by something other than a sum or a maximum");
}

LogicalResult GPUKernelEmitter::findInvariants(linalg::GenericOp op) {
  invariants.assign(op->getNumOperands(), Value());
  unsigned inner = op.getNumLoops() - 1;
  bool hasInner = kind == KernelKind::Flat || op.getNumLoops() == 3;
  for (OpOperand &operand : op->getOpOperands()) {
    Value &value = invariants[operand.getOperandNumber()];
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (op.getMatchingBlockArgument(&operand).use_empty() ||
        (hasInner && map.isFunctionOfDim(inner)))
      continue;
    if (fills.count(operand.get())) {
      value = scalars.lookup(fills.lookup(operand.get()));
    } else if (Value known = rowScalars.lookup(operand.get())) {
      value = known;
    } else {
      // What it does not depend on does not matter.
      if (hasInner)
        dims[inner] = constant(0);
      auto indices = evaluate(op, map);
      if (failed(indices))
        return failure();
      value = load(storages.lookup(operand.get()), *indices);
    }
  }
  return success();
}

FailureOr<Lanes> GPUKernelEmitter::loadLanes(linalg::GenericOp op,
                                             OpOperand &operand, Value base,
                                             int64_t count) {
  if (fills.count(operand.get()))
    return Lanes(count, scalars.lookup(fills.lookup(operand.get())));
  auto known = registers.find(operand.get());
  if (known != registers.end() && iteration >= 0 && isElement(op, operand))
    return known->second[iteration];
  auto storage = storages.find(operand.get());
  if (storage == storages.end())
    return op.emitOpError("reads a row of more elements than registers hold");
  AffineMap map = op.getMatchingIndexingMap(&operand);
  unsigned inner = op.getNumLoops() - 1;
  Lanes values;
  if (count > 1 && isElement(op, operand)) {
    dims[inner] = base;
    auto indices = evaluate(op, map);
    if (failed(indices))
      return failure();
    Type element = storage->second.type.getElementType();
    auto type = VectorType::get({count}, element);
    Value vector = LLVM::LoadOp::create(
        builder, loc, type, address(storage->second, *indices),
        count * element.getIntOrFloatBitWidth() / 8);
    for (int64_t lane = 0; lane < count; ++lane)
      values.push_back(vector::ExtractOp::create(builder, loc, vector, lane));
    return values;
  }
  for (int64_t lane = 0; lane < count; ++lane) {
    dims[inner] = add(base, constant(lane));
    auto indices = evaluate(op, map);
    if (failed(indices))
      return failure();
    values.push_back(load(storage->second, *indices));
  }
  return values;
}

FailureOr<SmallVector<Lanes>>
GPUKernelEmitter::emitLanes(linalg::GenericOp op, Value base, int64_t count,
                            ArrayRef<Lanes> carried) {
  SmallVector<Lanes> operands(op->getNumOperands());
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (op.getMatchingBlockArgument(&operand).use_empty())
      continue;
    if (op.isDpsInit(&operand) && !carried.empty()) {
      operands[number] = carried[number - op.getNumDpsInputs()];
    } else if (invariants[number]) {
      operands[number].assign(count, invariants[number]);
    } else {
      FailureOr<Lanes> loaded = loadLanes(op, operand, base, count);
      if (failed(loaded))
        return failure();
      operands[number] = *loaded;
    }
  }
  SmallVector<Lanes> results(op->getNumResults());
  // A reduction within the row has one accumulator for all lanes.
  bool chained = !carried.empty() && carried.front().size() == 1;
  for (int64_t lane = 0; lane < count; ++lane) {
    dims[op.getNumLoops() - 1] = add(base, constant(lane));
    for (OpOperand &operand : op->getOpOperands()) {
      const Lanes &values = operands[operand.getOperandNumber()];
      if (values.empty())
        continue;
      bool isChained = chained && op.isDpsInit(&operand);
      Value value = values[isChained ? 0 : lane];
      if (isChained && lane > 0)
        value = results[operand.getOperandNumber() - op.getNumDpsInputs()][0];
      scalars.map(op.getMatchingBlockArgument(&operand), value);
    }
    SmallVector<Value> yields;
    if (failed(emitBody(op, yields)))
      return failure();
    for (auto [result, value] : llvm::zip_equal(results, yields)) {
      if (chained)
        result.assign(1, value);
      else
        result.push_back(value);
    }
  }
  return results;
}

FailureOr<SmallVector<Lanes>> GPUKernelEmitter::accumulateLanes(
    linalg::GenericOp op, Value base, Value from, Value to, int64_t step,
    int64_t unrolled, ArrayRef<Lanes> initial,
    function_ref<SmallVector<Value, 3>(Value)> locate) {
  // The next index, and the sums.
  SmallVector<Value> carried = {from};
  llvm::append_range(carried, flatten(initial));
  // As many at a time as there are, then the rest one by one.
  for (int64_t count : {unrolled, int64_t(1)}) {
    Value last = add(to, constant((1 - count) * step));
    auto loop = scf::ForOp::create(builder, loc, carried[0], last,
                                   constant(count * step), carried);
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value index = loop.getInductionVar();
    SmallVector<Lanes> sums = cut(loop.getRegionIterArgs().drop_front());
    for (int64_t i = 0; i < count; ++i) {
      dims = locate(index);
      if (failed(findInvariants(op)))
        return failure();
      FailureOr<SmallVector<Lanes>> results = emitLanes(op, base, lanes, sums);
      if (failed(results))
        return failure();
      sums = *results;
      index = add(index, constant(step));
    }
    SmallVector<Value> next = {index};
    llvm::append_range(next, flatten(sums));
    scf::YieldOp::create(builder, loc, next);
    carried.assign(loop.getResults().begin(), loop.getResults().end());
    if (unrolled == 1)
      break;
  }
  return cut(ValueRange(carried).drop_front());
}

LogicalResult GPUKernelEmitter::storeLanes(linalg::GenericOp op, Value base,
                                           ArrayRef<Lanes> results) {
  for (auto [init, result, values] :
       llvm::zip_equal(op.getDpsInitsMutable(), op->getResults(), results)) {
    auto storage = storages.find(result);
    if (storage == storages.end())
      continue; // it stays in registers
    dims[op.getNumLoops() - 1] = base;
    auto indices = evaluate(op, op.getMatchingIndexingMap(&init));
    if (failed(indices))
      return failure();
    Type element = storage->second.type.getElementType();
    int64_t count = static_cast<int64_t>(values.size());
    if (count == 1) {
      store(values[0], storage->second, *indices);
      continue;
    }
    Value vector = vector::FromElementsOp::create(
        builder, loc, VectorType::get({count}, element), values);
    LLVM::StoreOp::create(builder, loc, vector,
                          address(storage->second, *indices),
                          count * element.getIntOrFloatBitWidth() / 8);
  }
  return success();
}

LogicalResult GPUKernelEmitter::forEachPart(
    int64_t width, function_ref<LogicalResult(int64_t, Value, int64_t)> body) {
  Value first = multiply(thread, lanes);
  if (!isUnrolled(width)) {
    int64_t whole = width - width % lanes;
    auto loop = scf::ForOp::create(builder, loc, first, constant(whole),
                                   constant(threads * lanes));
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(loop.getBody());
    if (failed(body(-1, loop.getInductionVar(), lanes)))
      return failure();
    if (whole == width)
      return success();
    builder.setInsertionPointAfter(loop);
    auto guard =
        scf::IfOp::create(builder, loc, less(thread, constant(width - whole)));
    builder.setInsertionPointToStart(guard.thenBlock());
    return body(-1, add(constant(whole), thread), 1);
  }
  for (int64_t part = 0; part * threads * lanes < width; ++part) {
    Value base = add(first, constant(part * threads * lanes));
    if (failed(body(part, base, lanes)))
      return failure();
  }
  return success();
}
