//===- MapKernelsToGPU.cpp - Kernels to thread blocks ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kernel @k becomes a gpu.func @k of the module @kernels: its pointers
// (arguments, then results that are not in place), and the batch. Threads take
// `lanes` neighbouring elements at a time, 16 bytes of the narrowest type, so
// that memory is read and written in whole vectors.
//
//   rows:      a block is one row, or several rows of one subgroup each;
//              threads stride over its elements. What ops hand to each other
//              stays in registers; sums and maxima are those of the block.
//   columns:   a block is 32 x `lanes` columns and 32 groups of rows: every
//              thread adds its rows, then the groups' sums are added in order.
//   positions: a block is one position; every thread adds over the samples.
//   flat:      a thread is `lanes` elements.
//
// No sum depends on timing, so results are the same in every run. The blocks of
// a launch are ceil(extent / gpu.parts_per_block), the extent being that of the
// kernel on the host.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/ScopeExit.h"

namespace poplar {
#define GEN_PASS_DEF_MAPKERNELSTOGPU
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Rows of more elements per thread than this are loops, whose values cannot
/// stay in registers.
constexpr int64_t kMostPerThread = 16;
/// Threads of a block that has one row, unless it needs the most there may be;
/// of one without rows.
constexpr int64_t kRowThreads = 512, kMostThreads = 1024, kFlatThreads = 256;
/// LLVM's address space of a GPU's memory, NVIDIA's and AMD's.
constexpr unsigned kGlobalSpace = 1;
/// Groups of rows that a block of columns adds at a time, if their sums fit in
/// the memory that every block may share.
constexpr int64_t kRowGroups = 32, kSharedBytes = 48 << 10;

/// The values of one thread: a lane each.
using Lanes = SmallVector<Value>;

class GPUKernel : KernelEmitter {
public:
  GPUKernel(func::FuncOp kernel, gpu::GPUModuleOp module, int64_t subgroup)
      : KernelEmitter(kernel, module, kGlobalSpace), module(module),
        subgroup(subgroup) {}

  LogicalResult run();

private:
  void chooseShape();
  LogicalResult emitRows();
  LogicalResult emitRowOp(linalg::GenericOp op);
  LogicalResult emitReduction(linalg::GenericOp op);
  LogicalResult emitScalarOp(linalg::GenericOp op);
  LogicalResult emitColumns();
  LogicalResult emitColumnOp(linalg::GenericOp op, Value column, Value group);
  LogicalResult emitPositions();
  LogicalResult emitPositionOp(linalg::GenericOp op, Value position);
  LogicalResult emitFlat();

  /// The lanes from `base` on in the innermost dimension. `carried` are the
  /// accumulators, by result; what is not an element of the row is in
  /// `invariants`. Yields by result.
  FailureOr<SmallVector<Lanes>> emitLanes(linalg::GenericOp op, Value base,
                                          int64_t count,
                                          ArrayRef<Lanes> carried);
  FailureOr<Lanes> loadLanes(linalg::GenericOp op, OpOperand &operand,
                             Value base, int64_t count);
  LogicalResult storeLanes(linalg::GenericOp op, Value base,
                           ArrayRef<Lanes> results);
  LogicalResult findInvariants(linalg::GenericOp op);
  /// Calls `body(iteration, base)` for the parts of a row of `width` elements
  /// that are this thread's.
  LogicalResult forEachPart(int64_t width,
                            function_ref<LogicalResult(int64_t, Value)> body);
  LogicalResult storeScalars(linalg::GenericOp op);

  /// One set of lanes for each result.
  SmallVector<Lanes> cut(ValueRange flat) const {
    SmallVector<Lanes> values;
    for (size_t i = 0; i < flat.size(); i += lanes) {
      auto slice = flat.slice(i, lanes);
      values.emplace_back(slice.begin(), slice.end());
    }
    return values;
  }
  bool isUnrolled(int64_t width) const {
    return llvm::divideCeil(width, threads * lanes) * lanes <= kMostPerThread;
  }
  bool isElement(linalg::GenericOp op, OpOperand &operand) const {
    unsigned inner = op.getNumLoops() - 1;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    return map.getNumResults() > 0 &&
           map.getResult(map.getNumResults() - 1) ==
               getAffineDimExpr(inner, op.getContext());
  }
  Value less(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
  }
  Value threadIndex(gpu::Dimension dimension) {
    return arith::IndexCastOp::create(
        builder, loc, builder.getI64Type(),
        gpu::ThreadIdOp::create(builder, loc, dimension));
  }
  Value blockIndex() {
    return arith::IndexCastOp::create(
        builder, loc, builder.getI64Type(),
        gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x));
  }
  Value multiply(Value a, int64_t b) {
    return arith::MulIOp::create(builder, loc, a, constant(b));
  }
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }

  gpu::GPUModuleOp module;
  int64_t subgroup;
  KernelKind kind;
  SmallVector<linalg::GenericOp> ops;
  /// Elements that a thread takes at a time; threads of a row; rows of a block.
  int64_t lanes = 1, threads = 1, rows = 1;
  gpu::GPUFuncOp target;
  Value batch, thread;
  /// Elements of the current row, by iteration; and what a row has one of.
  DenseMap<Value, SmallVector<Lanes>> registers;
  DenseMap<Value, Value> rowScalars;
  /// Of the op at hand, by operand; null for elements.
  SmallVector<Value> invariants;
  int64_t iteration = -1;
};

class MapKernelsToGPUPass
    : public poplar::impl::MapKernelsToGPUBase<MapKernelsToGPUPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    // What the conversions of a gpu.module ask dialects for.
    arith::registerConvertArithToLLVMInterface(registry);
    cf::registerConvertControlFlowToLLVMInterface(registry);
    registerConvertMemRefToLLVMInterface(registry);
  }

  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kKernelAttr) && !function.isExternal())
        kernels.push_back(function);
    if (kernels.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto module =
        gpu::GPUModuleOp::create(builder, getOperation().getLoc(), "kernels");
    for (func::FuncOp kernel : kernels)
      if (failed(GPUKernel(kernel, module, subgroupSize).run()))
        return signalPassFailure();
  }
};

/// How partial results are put together.
struct Combiner {
  gpu::AllReduceOperation operation;
  /// What changes nothing.
  double neutral;

  Value combine(OpBuilder &builder, Location loc, Value a, Value b) const {
    if (operation == gpu::AllReduceOperation::ADD)
      return arith::AddFOp::create(builder, loc, a, b);
    return arith::MaximumFOp::create(builder, loc, a, b);
  }
};

} // namespace

/// Of result `index`: the body must be `accumulator + ...` or a maximum.
static FailureOr<Combiner> getCombiner(linalg::GenericOp op, unsigned index) {
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

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

LogicalResult GPUKernel::findInvariants(linalg::GenericOp op) {
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

FailureOr<Lanes> GPUKernel::loadLanes(linalg::GenericOp op, OpOperand &operand,
                                      Value base, int64_t count) {
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

FailureOr<SmallVector<Lanes>> GPUKernel::emitLanes(linalg::GenericOp op,
                                                   Value base, int64_t count,
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

LogicalResult GPUKernel::storeLanes(linalg::GenericOp op, Value base,
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

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void GPUKernel::chooseShape() {
  // All ops of a kernel cut a row the same way, so that what one writes is the
  // same thread's to read.
  int64_t width = 0, bits = 32;
  for (linalg::GenericOp op : ops) {
    unsigned inner = op.getNumLoops() - 1;
    if (kind != KernelKind::Flat && op.getNumLoops() < 3)
      continue;
    if (kind != KernelKind::Flat)
      width = std::max(width, op.getStaticLoopRanges()[inner]);
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType()))
        if (int64_t size = type.getElementTypeBitWidth(); size >= 8)
          bits = std::min(bits, size);
  }
  lanes = 128 / bits;
  for (linalg::GenericOp op : ops)
    while (kind != KernelKind::Flat && op.getNumLoops() == 3 &&
           op.getStaticLoopRanges()[2] % lanes != 0)
      lanes /= 2;
  if (kind == KernelKind::Flat) {
    threads = kFlatThreads;
    return;
  }
  if (kind == KernelKind::Columns) {
    threads = subgroup;
    int64_t bytes = 0;
    for (linalg::GenericOp op : ops)
      for (Value result : op->getResults())
        bytes +=
            threads * lanes *
            cast<RankedTensorType>(result.getType()).getElementTypeBitWidth() /
            8;
    for (rows = kRowGroups; rows * bytes > kSharedBytes;)
      rows /= 2;
    return;
  }
  if (width == 0) { // a thread per row
    lanes = 1;
    rows = kFlatThreads;
    return;
  }
  int64_t needed = llvm::divideCeil(width, lanes);
  threads = std::min<int64_t>(
      llvm::alignTo(needed, subgroup),
      width > kRowThreads * kMostPerThread ? kMostThreads : kRowThreads);
  // Fewer threads, all of them busy, are better than a last part for some.
  for (int64_t fewer = threads; fewer * kMostPerThread >= needed * lanes;
       fewer -= subgroup)
    if (fewer > 0 && needed % fewer == 0) {
      threads = fewer;
      break;
    }
  if (kind == KernelKind::Rows && threads == subgroup)
    rows = kFlatThreads / subgroup;
}

LogicalResult
GPUKernel::forEachPart(int64_t width,
                       function_ref<LogicalResult(int64_t, Value)> body) {
  Value first = multiply(thread, lanes);
  if (!isUnrolled(width)) {
    auto loop = scf::ForOp::create(builder, loc, first, constant(width),
                                   constant(threads * lanes));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    return body(-1, loop.getInductionVar());
  }
  for (int64_t part = 0; part * threads * lanes < width; ++part) {
    Value base = add(first, constant(part * threads * lanes));
    if (failed(body(part, base)))
      return failure();
  }
  return success();
}

/// An op without a loop of its own: every thread of the row does the same.
LogicalResult GPUKernel::emitScalarOp(linalg::GenericOp op) {
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
LogicalResult GPUKernel::storeScalars(linalg::GenericOp op) {
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

LogicalResult GPUKernel::emitReduction(linalg::GenericOp op) {
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
  auto accumulate = [&](Value base,
                        ValueRange from) -> FailureOr<SmallVector<Value>> {
    SmallVector<Lanes> carried;
    for (Value value : from)
      carried.push_back({value});
    FailureOr<SmallVector<Lanes>> results = emitLanes(op, base, lanes, carried);
    if (failed(results))
      return failure();
    SmallVector<Value> values;
    for (const Lanes &result : *results)
      values.push_back(result[0]);
    return values;
  };

  Value first = multiply(thread, lanes), end = constant(width);
  if (isUnrolled(width)) {
    for (iteration = 0; iteration * threads * lanes < width; ++iteration) {
      Value base = add(first, constant(iteration * threads * lanes));
      if ((iteration + 1) * threads * lanes <= width) {
        FailureOr<SmallVector<Value>> values = accumulate(base, partial);
        if (failed(values))
          return failure();
        partial = *values;
        continue;
      }
      auto guard = scf::IfOp::create(
          builder, loc, TypeRange(ValueRange(partial)), less(base, end), true);
      OpBuilder::InsertionGuard outside(builder);
      builder.setInsertionPointToStart(guard.thenBlock());
      FailureOr<SmallVector<Value>> values = accumulate(base, partial);
      if (failed(values))
        return failure();
      scf::YieldOp::create(builder, loc, *values);
      builder.setInsertionPointToStart(guard.elseBlock());
      scf::YieldOp::create(builder, loc, partial);
      partial.assign(guard.getResults().begin(), guard.getResults().end());
    }
    iteration = -1;
  } else {
    auto loop = scf::ForOp::create(builder, loc, first, end,
                                   constant(threads * lanes), partial);
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(loop.getBody());
    FailureOr<SmallVector<Value>> values =
        accumulate(loop.getInductionVar(), loop.getRegionIterArgs());
    if (failed(values))
      return failure();
    scf::YieldOp::create(builder, loc, *values);
    partial.assign(loop.getResults().begin(), loop.getResults().end());
  }

  for (auto [i, combiner] : llvm::enumerate(combiners)) {
    Value total;
    if (threads == subgroup)
      total = gpu::SubgroupReduceOp::create(builder, loc, partial[i],
                                            combiner.operation, true);
    else
      total = gpu::AllReduceOp::create(
          builder, loc, partial[i],
          gpu::AllReduceOperationAttr::get(builder.getContext(),
                                           combiner.operation),
          true);
    rowScalars[op.getResult(i)] =
        combiner.combine(builder, loc, initial[i], total);
  }
  return storeScalars(op);
}

LogicalResult GPUKernel::emitRowOp(linalg::GenericOp op) {
  dims.resize(op.getNumLoops());
  if (op.getNumLoops() == 2)
    return emitScalarOp(op);
  if (failed(findInvariants(op)))
    return failure();
  if (op.getIteratorTypesArray()[2] == utils::IteratorType::reduction)
    return emitReduction(op);

  int64_t width = op.getStaticLoopRanges()[2];
  auto emitPart = [&](Value base) -> FailureOr<SmallVector<Lanes>> {
    FailureOr<SmallVector<Lanes>> results = emitLanes(op, base, lanes, {});
    if (succeeded(results) && failed(storeLanes(op, base, *results)))
      return failure();
    return results;
  };
  auto keep = [&](ArrayRef<Lanes> results) {
    for (auto [result, values] : llvm::zip_equal(op->getResults(), results))
      registers[result].push_back(values);
  };
  return forEachPart(width, [&](int64_t part, Value base) -> LogicalResult {
    iteration = part;
    auto reset = llvm::scope_exit([&] { iteration = -1; });
    if (part < 0)
      return emitPart(base);
    if ((part + 1) * threads * lanes <= width) {
      FailureOr<SmallVector<Lanes>> results = emitPart(base);
      if (succeeded(results))
        keep(*results);
      return results;
    }
    // Only some threads have a last part.
    SmallVector<Type> types;
    for (Value result : op->getResults())
      types.append(lanes,
                   cast<RankedTensorType>(result.getType()).getElementType());
    auto guard = scf::IfOp::create(builder, loc, types,
                                   less(base, constant(width)), true);
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(guard.thenBlock());
    FailureOr<SmallVector<Lanes>> results = emitPart(base);
    if (failed(results))
      return failure();
    SmallVector<Value> flat, nothing;
    for (const Lanes &values : *results)
      flat.append(values);
    scf::YieldOp::create(builder, loc, flat);
    builder.setInsertionPointToStart(guard.elseBlock());
    for (Type type : types)
      nothing.push_back(LLVM::PoisonOp::create(builder, loc, type));
    scf::YieldOp::create(builder, loc, nothing);
    keep(cut(guard.getResults()));
    return success();
  });
}

LogicalResult GPUKernel::emitRows() {
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

//===----------------------------------------------------------------------===//
// Columns, positions, flat
//===----------------------------------------------------------------------===//

LogicalResult GPUKernel::emitColumnOp(linalg::GenericOp op, Value column,
                                      Value group) {
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
  Value end = arith::SelectOp::create(builder, loc, isColumn,
                                      multiply(batch, ranges[1]), constant(0));
  auto loop =
      scf::ForOp::create(builder, loc, group, end, constant(rows), neutral);
  {
    OpBuilder::InsertionGuard outside(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value row = loop.getInductionVar(), length = constant(ranges[1]);
    dims = {arith::DivUIOp::create(builder, loc, row, length),
            arith::RemUIOp::create(builder, loc, row, length), column};
    if (failed(findInvariants(op)))
      return failure();
    FailureOr<SmallVector<Lanes>> results =
        emitLanes(op, column, lanes, cut(loop.getRegionIterArgs()));
    if (failed(results))
      return failure();
    SmallVector<Value> flat;
    for (const Lanes &values : *results)
      flat.append(values);
    scf::YieldOp::create(builder, loc, flat);
  }

  // The groups' sums, in order.
  auto index = [&](Value value) -> Value {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      value);
  };
  SmallVector<Lanes> partial = cut(loop.getResults());
  SmallVector<Value> shared, places;
  for (int64_t lane = 0; lane < lanes; ++lane)
    places.push_back(index(add(multiply(thread, lanes), constant(lane))));
  auto space = gpu::AddressSpaceAttr::get(
      builder.getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
  for (const Lanes &values : partial) {
    auto type = MemRefType::get({rows, threads * lanes}, values[0].getType(),
                                MemRefLayoutAttrInterface(), space);
    shared.push_back(target.addWorkgroupAttribution(type, loc));
    for (auto [value, place] : llvm::zip_equal(values, places))
      memref::StoreOp::create(builder, loc, value, shared.back(),
                              ValueRange{index(group), place});
  }
  gpu::BarrierOp::create(builder, loc);
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        group, constant(0));
  auto guard = scf::IfOp::create(
      builder, loc, arith::AndIOp::create(builder, loc, isFirst, isColumn));
  OpBuilder::InsertionGuard outside(builder);
  builder.setInsertionPointToStart(guard.thenBlock());
  dims = {constant(0), constant(0), column};
  SmallVector<Lanes> totals;
  for (unsigned i = 0; i < count; ++i) {
    FailureOr<Lanes> initial =
        loadLanes(op, op.getDpsInitsMutable()[i], column, lanes);
    if (failed(initial))
      return failure();
    auto sum = scf::ForOp::create(builder, loc, constant(0), constant(rows),
                                  constant(1), *initial);
    OpBuilder::InsertionGuard after(builder);
    builder.setInsertionPointToStart(sum.getBody());
    SmallVector<Value> sums;
    for (auto [carried, place] :
         llvm::zip_equal(sum.getRegionIterArgs(), places)) {
      Value part = memref::LoadOp::create(
          builder, loc, shared[i],
          ValueRange{index(sum.getInductionVar()), place});
      sums.push_back(combiners[i].combine(builder, loc, carried, part));
    }
    scf::YieldOp::create(builder, loc, sums);
    totals.emplace_back(sum.getResults().begin(), sum.getResults().end());
  }
  return storeLanes(op, column, totals);
}

LogicalResult GPUKernel::emitColumns() {
  thread = threadIndex(gpu::Dimension::x);
  Value group = threadIndex(gpu::Dimension::y);
  Value column =
      add(multiply(blockIndex(), threads * lanes), multiply(thread, lanes));
  for (linalg::GenericOp op : ops)
    if (failed(emitColumnOp(op, column, group)))
      return failure();
  return success();
}

LogicalResult GPUKernel::emitPositionOp(linalg::GenericOp op, Value position) {
  int64_t width = op.getStaticLoopRanges()[2];
  return forEachPart(width, [&](int64_t part, Value base) -> LogicalResult {
    OpBuilder::InsertionGuard outside(builder);
    if (part >= 0 && (part + 1) * threads * lanes > width) {
      auto guard = scf::IfOp::create(builder, loc, less(base, constant(width)));
      builder.setInsertionPointToStart(guard.thenBlock());
    }
    dims = {constant(0), position, base};
    SmallVector<Value> initial;
    for (OpOperand &init : op.getDpsInitsMutable()) {
      FailureOr<Lanes> values = loadLanes(op, init, base, lanes);
      if (failed(values))
        return failure();
      initial.append(*values);
    }
    auto loop = scf::ForOp::create(builder, loc, constant(0), batch,
                                   constant(1), initial);
    builder.setInsertionPointToStart(loop.getBody());
    dims = {loop.getInductionVar(), position, base};
    if (failed(findInvariants(op)))
      return failure();
    FailureOr<SmallVector<Lanes>> results =
        emitLanes(op, base, lanes, cut(loop.getRegionIterArgs()));
    if (failed(results))
      return failure();
    SmallVector<Value> flat;
    for (const Lanes &values : *results)
      flat.append(values);
    scf::YieldOp::create(builder, loc, flat);
    builder.setInsertionPointAfter(loop);
    dims = {constant(0), position, base};
    return storeLanes(op, base, cut(loop.getResults()));
  });
}

LogicalResult GPUKernel::emitPositions() {
  thread = threadIndex(gpu::Dimension::x);
  Value position = blockIndex();
  for (linalg::GenericOp op : ops)
    if (failed(emitPositionOp(op, position)))
      return failure();
  return success();
}

LogicalResult GPUKernel::emitFlat() {
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

LogicalResult GPUKernel::run() {
  FailureOr<KernelKind> known = getKind();
  if (failed(known))
    return failure();
  kind = *known;
  llvm::append_range(ops, source.getBody().front().getOps<linalg::GenericOp>());
  chooseShape();

  unsigned numPointers = countPointers(source);
  SmallVector<Type> types(numPointers,
                          LLVM::LLVMPointerType::get(builder.getContext()));
  types.push_back(builder.getI64Type());
  builder.setInsertionPointToEnd(module.getBody());
  target = gpu::GPUFuncOp::create(builder, loc, source.getName(),
                                  builder.getFunctionType(types, {}));
  target->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                  builder.getUnitAttr());
  bool perThread = kind == KernelKind::Rows && threads == 1;
  int32_t x = perThread ? rows : threads, y = perThread ? 1 : rows;
  target.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({x, y, 1}));
  int64_t parts = kind == KernelKind::Rows      ? rows
                  : kind == KernelKind::Columns ? threads * lanes
                  : kind == KernelKind::Flat    ? threads * lanes
                                                : 1;
  target->setAttr("gpu.parts_per_block", builder.getI64IntegerAttr(parts));

  Block &entry = target.getBody().front();
  builder.setInsertionPointToStart(&entry);
  batch = entry.getArgument(numPointers);
  if (failed(setUpStorage(entry.getArguments().take_front(numPointers))))
    return failure();
  LogicalResult emitted = kind == KernelKind::Rows        ? emitRows()
                          : kind == KernelKind::Columns   ? emitColumns()
                          : kind == KernelKind::Positions ? emitPositions()
                                                          : emitFlat();
  if (failed(emitted))
    return failure();
  builder.setInsertionPointToEnd(&entry);
  gpu::ReturnOp::create(builder, loc);
  return success();
}
