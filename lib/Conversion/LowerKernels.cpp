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
// place), the batch and a range of parts; @k itself becomes a declaration. The
// loops are
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

#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

namespace poplar {
#define GEN_PASS_DEF_LOWERKERNELS
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Where the elements of a tensor of the kernel are.
struct Storage {
  Value pointer;
  RankedTensorType type;
  /// The buffer holds just the current row: the first two indices are void.
  bool rowOnly = false;
};

class KernelLowering {
public:
  KernelLowering(func::FuncOp kernel, ModuleOp module)
      : source(kernel), module(module), builder(kernel.getContext()),
        loc(kernel.getLoc()) {}

  LogicalResult run();

private:
  LogicalResult setUpStorage();
  LogicalResult emitOp(linalg::GenericOp op);
  LogicalResult emitElement(linalg::GenericOp op, ArrayRef<Value> invariants,
                            ValueRange carried, SmallVectorImpl<Value> &yields);

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  }
  Value address(const Storage &storage, ArrayRef<Value> indices);
  Value load(const Storage &storage, ArrayRef<Value> indices);
  void store(Value value, const Storage &storage, ArrayRef<Value> indices);
  FailureOr<SmallVector<Value>> evaluate(linalg::GenericOp op, AffineMap map);
  Value addressOfConstant(DenseElementsAttr value);

  /// Opens a loop over [begin, end) and goes into it.
  scf::ForOp openLoop(Value begin, Value end, ValueRange carried = {}) {
    auto loop =
        scf::ForOp::create(builder, loc, begin, end, constant(1), carried);
    builder.setInsertionPointToStart(loop.getBody());
    return loop;
  }

  func::FuncOp source, target;
  ModuleOp module;
  OpBuilder builder;
  Location loc;
  KernelKind kind;
  Value arguments, batch, begin, end;
  DenseMap<Value, Storage> storages;
  /// Initial values by linalg.fill.
  DenseMap<Value, Value> fills;
  IRMapping scalars;
  /// Indices of the current element.
  SmallVector<Value, 3> dims;
  /// Set while in a loop whose iterations are independent.
  LLVM::AccessGroupAttr accessGroup;
};

class LowerKernelsPass
    : public poplar::impl::LowerKernelsBase<LowerKernelsPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kKernelAttr) && !function.isExternal())
        kernels.push_back(function);
    for (func::FuncOp kernel : kernels)
      if (failed(KernelLowering(kernel, getOperation()).run()))
        return signalPassFailure();
  }
};

} // namespace

Value KernelLowering::addressOfConstant(DenseElementsAttr value) {
  std::string name = (source.getName() + ".constant").str();
  SymbolTable symbols(module);
  OpBuilder::InsertionGuard guard(builder);
  LLVM::GlobalOp global;
  {
    OpBuilder atModule = OpBuilder::atBlockBegin(module.getBody());
    auto type = LLVM::LLVMArrayType::get(value.getElementType(),
                                         value.getNumElements());
    auto flat =
        RankedTensorType::get({value.getNumElements()}, value.getElementType());
    global = LLVM::GlobalOp::create(atModule, loc, type, /*isConstant=*/true,
                                    LLVM::Linkage::Internal, name,
                                    value.reshape(flat), /*alignment=*/64);
    symbols.insert(global);
  }
  return LLVM::AddressOfOp::create(builder, loc, global);
}

/// Gives every tensor of the kernel its place: what comes in and goes out in
/// the argument array, what stays inside in a row of its own on the stack.
LogicalResult KernelLowering::setUpStorage() {
  auto pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  auto loadArgument = [&](int32_t index) -> Value {
    Value slot = LLVM::GEPOp::create(builder, loc, pointerType, pointerType,
                                     arguments, ArrayRef<LLVM::GEPArg>{index});
    return LLVM::LoadOp::create(builder, loc, pointerType, slot);
  };
  for (BlockArgument arg : source.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!type)
      return source.emitOpError("argument ")
             << arg.getArgNumber() << " is not a tensor";
    storages[arg] = {loadArgument(arg.getArgNumber()), type};
  }
  auto terminator =
      cast<func::ReturnOp>(source.getBody().front().getTerminator());
  int32_t next = source.getNumArguments();
  for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
    auto type = cast<RankedTensorType>(value.getType());
    if (auto inPlace =
            source.getResultAttrOfType<IntegerAttr>(index, kInPlaceAttr))
      storages[value] = {storages[source.getArgument(inPlace.getInt())].pointer,
                         type};
    else
      storages[value] = {loadArgument(next++), type};
  }
  for (Operation &op : source.getBody().front()) {
    if (auto fill = dyn_cast<linalg::FillOp>(op)) {
      fills[fill.getResult(0)] = fill.getInputs()[0];
    } else if (auto cst = dyn_cast<arith::ConstantOp>(op)) {
      if (auto dense = dyn_cast<DenseElementsAttr>(cst.getValue()))
        storages[cst] = {addressOfConstant(dense),
                         cast<RankedTensorType>(cst.getType())};
      else
        builder.clone(op, scalars);
    } else if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      for (Value result : generic->getResults()) {
        if (storages.count(result) || result.use_empty())
          continue;
        auto type = cast<RankedTensorType>(result.getType());
        int64_t width = type.getRank() > 2 ? type.getDimSize(2) : 1;
        Value pointer = LLVM::AllocaOp::create(
            builder, loc, pointerType, type.getElementType(), constant(width),
            /*alignment=*/64);
        storages[result] = {pointer, type, /*rowOnly=*/true};
      }
    }
  }
  return success();
}

Value KernelLowering::address(const Storage &storage, ArrayRef<Value> indices) {
  Value offset;
  unsigned first = storage.rowOnly ? 2 : 0;
  for (unsigned i = first; i < indices.size(); ++i) {
    if (offset)
      offset = arith::MulIOp::create(builder, loc, offset,
                                     constant(storage.type.getDimSize(i)));
    offset = offset ? arith::AddIOp::create(builder, loc, offset, indices[i])
                          .getResult()
                    : indices[i];
  }
  if (!offset)
    return storage.pointer;
  return LLVM::GEPOp::create(
      builder, loc, storage.pointer.getType(), storage.type.getElementType(),
      storage.pointer, ValueRange{offset}, LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelLowering::load(const Storage &storage, ArrayRef<Value> indices) {
  auto op = LLVM::LoadOp::create(builder, loc, storage.type.getElementType(),
                                 address(storage, indices));
  if (accessGroup)
    op.setAccessGroupsAttr(builder.getArrayAttr({accessGroup}));
  return op;
}

void KernelLowering::store(Value value, const Storage &storage,
                           ArrayRef<Value> indices) {
  auto op =
      LLVM::StoreOp::create(builder, loc, value, address(storage, indices));
  if (accessGroup)
    op.setAccessGroupsAttr(builder.getArrayAttr({accessGroup}));
}

FailureOr<SmallVector<Value>> KernelLowering::evaluate(linalg::GenericOp op,
                                                       AffineMap map) {
  SmallVector<Value> indices;
  for (AffineExpr expr : map.getResults()) {
    // `t mod P` with T <= P only says that the table is longer than the
    // sequence.
    if (auto mod = dyn_cast<AffineBinaryOpExpr>(expr);
        mod && mod.getKind() == AffineExprKind::Mod)
      expr = mod.getLHS();
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      indices.push_back(dims[dim.getPosition()]);
    else if (auto cst = dyn_cast<AffineConstantExpr>(expr))
      indices.push_back(constant(cst.getValue()));
    else
      return op.emitOpError("indexing map ")
             << AffineMapAttr::get(map)
             << " is more than dimensions and constants";
  }
  return indices;
}

/// The body for the element at `dims`. `invariants` holds the operands that
/// were loaded outside the innermost loop (null: load here), `carried` the
/// values of reductions so far.
LogicalResult KernelLowering::emitElement(linalg::GenericOp op,
                                          ArrayRef<Value> invariants,
                                          ValueRange carried,
                                          SmallVectorImpl<Value> &yields) {
  Block *body = op.getBody();
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
  for (Operation &inner : body->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      scalars.map(index.getResult(), arith::IndexCastOp::create(
                                         builder, loc, builder.getIndexType(),
                                         dims[index.getDim()])
                                         .getResult());
    } else if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      auto storage = storages.find(extract.getTensor());
      if (storage == storages.end() || storage->second.rowOnly)
        return extract.emitOpError("reads a tensor that is not an argument of "
                                   "the kernel");
      SmallVector<Value> indices;
      for (Value index : extract.getIndices())
        indices.push_back(arith::IndexCastOp::create(
            builder, loc, builder.getI64Type(), scalars.lookup(index)));
      scalars.map(extract.getResult(), load(storage->second, indices));
    } else if (inner.getNumRegions() == 0) {
      // Scalars from above the op (constants) were mapped with the kernel.
      builder.clone(inner, scalars);
    } else {
      return inner.emitOpError("is not supported in the body of a kernel");
    }
  }
  for (Value value : body->getTerminator()->getOperands())
    yields.push_back(scalars.lookupOrDefault(value));
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
  auto isInvariant = [&](OpOperand &operand) {
    if (!hasInner)
      return true;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    return !map.isFunctionOfDim(innerDim);
  };

  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Value> invariants(op->getNumOperands()), initial;
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

  SmallVector<Value> yields;
  auto storeResults = [&](ValueRange values) -> LogicalResult {
    for (auto [init, result, value] :
         llvm::zip_equal(op.getDpsInitsMutable(), op->getResults(), values)) {
      auto storage = storages.find(result);
      if (storage == storages.end())
        continue; // nobody reads this result
      auto indices = evaluate(op, op.getMatchingIndexingMap(&init));
      if (failed(indices))
        return failure();
      store(value, storage->second, *indices);
    }
    return success();
  };

  if (!hasInner) {
    if (failed(emitElement(op, invariants, {}, yields)))
      return failure();
    return storeResults(yields);
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
      result = storeResults(yields);
    accessGroup = {};
    return result;
  }
  if (failed(emitElement(op, invariants, loop.getRegionIterArgs(), yields)))
    return failure();
  scf::YieldOp::create(builder, loc, yields);
  builder.setInsertionPointAfter(loop);
  return storeResults(loop.getResults());
}

LogicalResult KernelLowering::run() {
  auto name = source->getAttrOfType<StringAttr>(kKernelAttr);
  std::optional<KernelKind> known =
      name ? symbolizeKernelKind(name.getValue()) : std::nullopt;
  if (!known)
    return source.emitOpError("is of an unknown kind of kernel");
  kind = *known;

  auto pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  builder.setInsertionPoint(source);
  target = func::FuncOp::create(
      builder, loc, getKernelBodyName(source),
      builder.getFunctionType({pointerType, i64, i64, i64}, {}));
  Block *entry = target.addEntryBlock();
  arguments = entry->getArgument(0);
  batch = entry->getArgument(1);
  begin = entry->getArgument(2);
  end = entry->getArgument(3);
  builder.setInsertionPointToStart(entry);
  if (failed(setUpStorage()))
    return failure();

  SmallVector<linalg::GenericOp> ops(
      source.getBody().front().getOps<linalg::GenericOp>());
  // Positions per sample, of (b, t) iteration spaces.
  int64_t seqLen =
      kind == KernelKind::Flat ? 1 : ops.front().getStaticLoopRanges()[1];
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
    if (failed(emitOp(op)))
      return failure();
  builder.setInsertionPointToEnd(entry);
  func::ReturnOp::create(builder, loc);
  // What is left says how the kernel is called.
  source.eraseBody();
  return success();
}
