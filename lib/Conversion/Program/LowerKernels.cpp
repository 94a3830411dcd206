//===- LowerKernels.cpp - Kernels to loops over a part --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kernel @k is joined by @k.body, a PoplarKernel (Runtime/ABI.h): a
// function of an array of pointers (arguments, then results that are not in
// place), the batch and a range of parts. The loops are
//
//   rows:      for r in [begin, end)      { op 1: for d; op 2: for d; ... }
//   columns:   for r in rows              { op 1: for d in [begin, end); ... }
//   positions: for t in [begin, end): for b: { op 1: for d; ... }
//   flat:      op 1: for i in [begin, end); op 2: ...
//
// The innermost loops are scalar here and vectorised by LLVM, for which those
// without a reduction say that their iterations are independent: with buffers
// taken over in place, nothing else would prove it.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/KernelEmitter.h"
#include "Poplar/Conversion/Program/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_LOWERKERNELS
#include "Poplar/Conversion/Program/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;
using exec::KernelKind;

namespace {

class KernelLowering : KernelEmitter {
public:
  KernelLowering(exec::KernelOp kernel, ModuleOp module)
      : KernelEmitter(kernel, module, /*constantSpace=*/0) {}

  LogicalResult run();

private:
  void setUpRows();
  LogicalResult emitOp(linalg::GenericOp op);
  LogicalResult loadInvariants(linalg::GenericOp op, bool hasInner,
                               bool reduces, MutableArrayRef<Value> invariants,
                               SmallVectorImpl<Value> &initial);
  LogicalResult storeResults(linalg::GenericOp op, ValueRange values);
  LogicalResult emitElement(linalg::GenericOp op, ArrayRef<Value> invariants,
                            ValueRange carried, SmallVectorImpl<Value> &yields);
  /// The sum of the rows of a sample, in the column at `dims`.
  LogicalResult emitColumnOfSample(linalg::GenericOp op);

  /// Opens a loop over [begin, end) and goes into it.
  scf::ForOp openLoop(Value begin, Value end, ValueRange carried = {}) {
    auto loop =
        scf::ForOp::create(builder, loc, begin, end, constant(1), carried);
    builder.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  KernelKind kind;
  Value begin, end;
};

class LowerKernelsPass
    : public poplar::impl::LowerKernelsBase<LowerKernelsPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    for (auto kernel : llvm::to_vector(getOperation().getOps<exec::KernelOp>()))
      if (failed(KernelLowering(kernel, getOperation()).run()))
        return signalPassFailure();
  }
};

} // namespace

/// What stays inside the kernel gets a row of its own on the stack.
void KernelLowering::setUpRows() {
  auto pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  for (auto generic : source.getBody().front().getOps<linalg::GenericOp>())
    for (Value result : generic->getResults()) {
      if (storages.count(result) || result.use_empty())
        continue;
      auto type = cast<RankedTensorType>(result.getType());
      int64_t width = type.getRank() > 2 ? type.getDimSize(2) : 1;
      Value pointer = LLVM::AllocaOp::create(builder, loc, pointerType,
                                             type.getElementType(),
                                             constant(width), /*alignment=*/64);
      storages[result] = {pointer, type, /*rowOnly=*/true};
    }
}

/// The body for the element at `dims`. `invariants` holds the operands that
/// were loaded outside the innermost loop (null: load here), `carried` the
/// values of reductions so far.
LogicalResult KernelLowering::emitElement(linalg::GenericOp op,
                                          ArrayRef<Value> invariants,
                                          ValueRange carried,
                                          SmallVectorImpl<Value> &yields) {
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(&operand);
    unsigned number = operand.getOperandNumber();
    if (arg.use_empty())
      continue;
    if (invariants[number]) {
      scalars.map(arg, invariants[number]);
      continue;
    }
    if (op.isDpsInit(&operand) && !carried.empty()) {
      scalars.map(arg, carried[number - op.getNumDpsInputs()]);
      continue;
    }
    auto indices = evaluate(op, op.getMatchingIndexingMap(&operand));
    if (failed(indices))
      return failure();
    scalars.map(arg, load(storages.lookup(operand.get()), *indices));
  }
  return emitBody(op, yields);
}

/// Loads the operands that do not change in the innermost loop, if there is
/// one; `initial` are the values of reductions before it.
LogicalResult KernelLowering::loadInvariants(linalg::GenericOp op,
                                             bool hasInner, bool reduces,
                                             MutableArrayRef<Value> invariants,
                                             SmallVectorImpl<Value> &initial) {
  auto isInvariant = [&](OpOperand &operand) {
    if (!hasInner)
      return true;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    return !map.isFunctionOfDim(op.getNumLoops() - 1);
  };
  for (OpOperand &operand : op->getOpOperands()) {
    Value &value = invariants[operand.getOperandNumber()];
    bool isInit = op.isDpsInit(&operand);
    if (op.getMatchingBlockArgument(&operand).use_empty()) {
      if (isInit && reduces)
        return op.emitOpError("does not use its accumulator");
      continue;
    }
    if (isInit && fills.count(operand.get())) {
      value = scalars.lookup(fills.lookup(operand.get()));
    } else if (isInvariant(operand) || (isInit && reduces)) {
      auto indices = evaluate(op, op.getMatchingIndexingMap(&operand));
      if (failed(indices))
        return failure();
      value = load(storages.lookup(operand.get()), *indices);
    }
    if (isInit && reduces) {
      initial.push_back(value);
      value = Value();
    }
  }
  return success();
}

/// Stores the results that are read.
LogicalResult KernelLowering::storeResults(linalg::GenericOp op,
                                           ValueRange values) {
  for (auto [init, result, value] :
       llvm::zip_equal(op.getDpsInitsMutable(), op->getResults(), values)) {
    auto storage = storages.find(result);
    if (storage == storages.end())
      continue;
    auto indices = evaluate(op, op.getMatchingIndexingMap(&init));
    if (failed(indices))
      return failure();
    store(value, storage->second, *indices);
  }
  return success();
}

/// One op for the current row (rows), row and column range (columns), batch
/// element and position (positions) or range (flat).
LogicalResult KernelLowering::emitOp(linalg::GenericOp op) {
  unsigned numLoops = op.getNumLoops();
  bool hasInner = kind == KernelKind::Flat || numLoops == 3;
  unsigned innerDim = numLoops - 1;
  bool reduces = hasInner && op.getIteratorTypesArray()[innerDim] ==
                                 utils::IteratorType::reduction;

  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Value> invariants(op->getNumOperands()), initial, yields;
  if (failed(loadInvariants(op, hasInner, reduces, invariants, initial)))
    return failure();
  if (!hasInner) {
    if (failed(emitElement(op, invariants, {}, yields)))
      return failure();
    return storeResults(op, yields);
  }

  bool ranged = kind == KernelKind::Columns || kind == KernelKind::Flat;
  Value from = ranged ? begin : constant(0);
  Value to = ranged ? end : constant(op.getStaticLoopRanges()[innerDim]);
  scf::ForOp loop = openLoop(from, to, initial);
  dims.resize(numLoops);
  dims[innerDim] = loop.getInductionVar();
  if (!reduces) {
    accessGroup = LLVM::AccessGroupAttr::get(
        builder.getContext(),
        DistinctAttr::create(UnitAttr::get(builder.getContext())));
    auto annotation = LLVM::LoopAnnotationAttr::get(
        builder.getContext(), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
        {}, {}, {accessGroup});
    loop->setAttr("loop_annotation", annotation);
    LogicalResult result = emitElement(op, invariants, {}, yields);
    if (succeeded(result))
      result = storeResults(op, yields);
    accessGroup = {};
    return result;
  }
  if (failed(emitElement(op, invariants, loop.getRegionIterArgs(), yields)))
    return failure();
  scf::YieldOp::create(builder, loc, yields);
  builder.setInsertionPointAfter(loop);
  return storeResults(op, loop.getResults());
}

LogicalResult KernelLowering::emitColumnOfSample(linalg::GenericOp op) {
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Value> invariants(op->getNumOperands()), initial, yields;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    if (fills.count(init.get())) {
      initial.push_back(scalars.lookup(fills.lookup(init.get())));
      continue;
    }
    auto indices = evaluate(op, op.getMatchingIndexingMap(&init));
    if (failed(indices))
      return failure();
    initial.push_back(load(storages.lookup(init.get()), *indices));
  }
  scf::ForOp loop =
      openLoop(constant(0), constant(op.getStaticLoopRanges()[1]), initial);
  Value first = std::exchange(dims[1], loop.getInductionVar());
  if (failed(emitElement(op, invariants, loop.getRegionIterArgs(), yields)))
    return failure();
  scf::YieldOp::create(builder, loc, yields);
  builder.setInsertionPointAfter(loop);
  dims[1] = first;
  return storeResults(op, loop.getResults());
}

LogicalResult KernelLowering::run() {
  kind = source.getKind();
  auto pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  builder.setInsertionPoint(source);
  auto target = func::FuncOp::create(
      builder, loc, getKernelBodyName(source.getName()),
      builder.getFunctionType({pointerType, i64, i64, i64}, {}));
  Block *entry = target.addEntryBlock();
  batch = entry->getArgument(1);
  begin = entry->getArgument(2);
  end = entry->getArgument(3);
  builder.setInsertionPointToStart(entry);
  SmallVector<Value> pointers;
  for (unsigned i = 0; i < source.getBufferTypes().size(); ++i) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointerType, pointerType,
                                     entry->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    pointers.push_back(LLVM::LoadOp::create(builder, loc, pointerType, slot));
  }
  setUpStorage(pointers);
  setUpRows();

  SmallVector<linalg::GenericOp> ops(
      source.getBody().front().getOps<linalg::GenericOp>());
  // Positions per sample, of (b, t) iteration spaces.
  int64_t seqLen =
      kind == KernelKind::Flat ? 1 : ops.front().getStaticLoopRanges()[1];
  // Sums of each sample by itself: what GPUs begin with to add up heads.
  bool isOfSamples = kind == KernelKind::Columns && source.getPerSample();
  scf::ForOp outer;
  auto openRows = [&](Value from, Value to) {
    outer = openLoop(from, to);
    Value row = outer.getInductionVar();
    Value length = constant(seqLen);
    dims = {arith::DivUIOp::create(builder, loc, row, length),
            arith::RemUIOp::create(builder, loc, row, length)};
  };
  switch (kind) {
  case KernelKind::Rows:
    openRows(begin, end);
    break;
  case KernelKind::Columns:
    if (isOfSamples) {
      outer = openLoop(begin, end);
      Value column = outer.getInductionVar(),
            width = constant(source.getParts());
      dims = {arith::DivUIOp::create(builder, loc, column, width), constant(0),
              arith::RemUIOp::create(builder, loc, column, width)};
      break;
    }
    openRows(constant(0),
             arith::MulIOp::create(builder, loc, batch, constant(seqLen)));
    break;
  case KernelKind::Positions: {
    outer = openLoop(begin, end);
    Value position = outer.getInductionVar();
    scf::ForOp samples = openLoop(constant(0), batch);
    dims = {samples.getInductionVar(), position};
    break;
  }
  case KernelKind::Flat:
    dims.resize(1);
    break;
  }
  for (linalg::GenericOp op : ops)
    if (failed(isOfSamples ? emitColumnOfSample(op) : emitOp(op)))
      return failure();
  builder.setInsertionPointToEnd(entry);
  func::ReturnOp::create(builder, loc);
  return success();
}
