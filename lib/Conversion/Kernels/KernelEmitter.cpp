//===- KernelEmitter.cpp - Elements of a kernel, in memory ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/KernelEmitter.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace poplar;

void KernelEmitter::setUpStorage(ValueRange pointers) {
  for (BlockArgument arg : source.getBody().getArguments())
    storages[arg] = {pointers[arg.getArgNumber()],
                     cast<RankedTensorType>(arg.getType())};
  unsigned next = source.getNumArguments();
  for (auto [index, value] : llvm::enumerate(
           source.getBody().front().getTerminator()->getOperands())) {
    std::optional<unsigned> inPlace = source.getInPlaceArgument(index);
    storages[value] = {pointers[inPlace ? *inPlace : next++],
                       cast<RankedTensorType>(value.getType())};
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
    }
  }
}

/// The table of a module that has these values; null if there is none.
static LLVM::GlobalOp findTable(Operation *symbols, Attribute values) {
  for (auto global : symbols->getRegion(0).getOps<LLVM::GlobalOp>())
    if (global.getValueOrNull() == values)
      return global;
  return nullptr;
}

Value KernelEmitter::addressOfConstant(DenseElementsAttr value) {
  std::string name = (source.getName() + ".constant").str();
  auto flat =
      RankedTensorType::get({value.getNumElements()}, value.getElementType());
  DenseElementsAttr values = value.reshape(flat);
  // The kernels of an image share tables; those of hosts are modules of their
  // own later, and share them there.
  LLVM::GlobalOp global;
  if (constantSpace)
    global = findTable(symbols, values);
  if (!global) {
    SymbolTable table(symbols);
    OpBuilder atModule =
        OpBuilder::atBlockBegin(&symbols->getRegion(0).front());
    auto type = LLVM::LLVMArrayType::get(value.getElementType(),
                                         value.getNumElements());
    global = LLVM::GlobalOp::create(atModule, loc, type, /*isConstant=*/true,
                                    LLVM::Linkage::Internal, name, values,
                                    /*alignment=*/64, constantSpace);
    table.insert(global);
  }
  Value pointer = LLVM::AddressOfOp::create(builder, loc, global);
  if (constantSpace)
    pointer = LLVM::AddrSpaceCastOp::create(
        builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
        pointer);
  return pointer;
}

Value KernelEmitter::address(const Storage &storage, ArrayRef<Value> indices) {
  Value offset;
  unsigned first = storage.rowOnly ? 2 : 0;
  for (unsigned i = first; i < indices.size(); ++i) {
    if (offset)
      offset = arith::MulIOp::create(
          builder, loc, offset,
          constant(i + 1 == indices.size() ? exec::getRowElements(storage.type)
                                           : storage.type.getDimSize(i)));
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

Value KernelEmitter::load(const Storage &storage, ArrayRef<Value> indices) {
  auto op = LLVM::LoadOp::create(builder, loc, storage.type.getElementType(),
                                 address(storage, indices));
  if (accessGroup)
    op.setAccessGroupsAttr(builder.getArrayAttr({accessGroup}));
  return op;
}

void KernelEmitter::store(Value value, const Storage &storage,
                          ArrayRef<Value> indices) {
  auto op =
      LLVM::StoreOp::create(builder, loc, value, address(storage, indices));
  if (accessGroup)
    op.setAccessGroupsAttr(builder.getArrayAttr({accessGroup}));
}

Value KernelEmitter::evaluate(AffineExpr expr) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto cst = dyn_cast<AffineConstantExpr>(expr))
    return constant(cst.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return {};
  Value lhs = evaluate(binary.getLHS()), rhs = evaluate(binary.getRHS());
  if (!lhs || !rhs)
    return {};
  // Nothing that is indexed by is negative.
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    return arith::DivUIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mod:
    return arith::RemUIOp::create(builder, loc, lhs, rhs);
  default:
    return {};
  }
}

/// Whether a remainder is that of a dimension that is less than the divisor.
static bool isBelow(linalg::GenericOp op, AffineBinaryOpExpr mod) {
  auto dim = dyn_cast<AffineDimExpr>(mod.getLHS());
  auto divisor = dyn_cast<AffineConstantExpr>(mod.getRHS());
  if (!dim || !divisor)
    return false;
  int64_t range = op.getStaticLoopRanges()[dim.getPosition()];
  return !ShapedType::isDynamic(range) && range <= divisor.getValue();
}

FailureOr<SmallVector<Value>> KernelEmitter::evaluate(linalg::GenericOp op,
                                                      AffineMap map) {
  SmallVector<Value> indices;
  for (AffineExpr expr : map.getResults()) {
    // `t mod P` with T <= P only says that the table is longer than the
    // sequence.
    if (auto mod = dyn_cast<AffineBinaryOpExpr>(expr);
        mod && mod.getKind() == AffineExprKind::Mod && isBelow(op, mod))
      expr = mod.getLHS();
    Value index = evaluate(expr);
    if (!index)
      return op.emitOpError("indexing map ")
             << AffineMapAttr::get(map)
             << " is more than sums, products, quotients and remainders of "
                "dimensions and constants";
    indices.push_back(index);
  }
  return indices;
}

LogicalResult KernelEmitter::emitApply(affine::AffineApplyOp op) {
  SmallVector<Value, 3> operands;
  for (Value operand : op.getMapOperands())
    operands.push_back(arith::IndexCastOp::create(
        builder, loc, builder.getI64Type(), scalars.lookup(operand)));
  // Symbols follow the dimensions.
  AffineMap map = op.getAffineMap();
  SmallVector<AffineExpr> places;
  for (unsigned symbol = 0; symbol < map.getNumSymbols(); ++symbol)
    places.push_back(
        getAffineDimExpr(map.getNumDims() + symbol, op.getContext()));
  std::swap(dims, operands);
  Value index = evaluate(map.getResult(0).replaceSymbols(places));
  std::swap(dims, operands);
  if (!index)
    return op.emitOpError("is more than sums, products, quotients and "
                          "remainders");
  scalars.map(op.getResult(), arith::IndexCastOp::create(
                                  builder, loc, builder.getIndexType(), index)
                                  .getResult());
  return success();
}

LogicalResult KernelEmitter::emitBody(linalg::GenericOp op,
                                      SmallVectorImpl<Value> &yields) {
  Block *body = op.getBody();
  for (Operation &inner : body->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      scalars.map(index.getResult(), arith::IndexCastOp::create(
                                         builder, loc, builder.getIndexType(),
                                         dims[index.getDim()])
                                         .getResult());
    } else if (auto apply = dyn_cast<affine::AffineApplyOp>(inner)) {
      // Where ops are fused, a position of one may be composed of the other's.
      if (failed(emitApply(apply)))
        return failure();
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
    } else if (auto dim = dyn_cast<tensor::DimOp>(inner)) {
      if (dim.getConstantIndex() != 0)
        return dim.emitOpError("reads a size other than the batch");
      scalars.map(dim.getResult(),
                  arith::IndexCastOp::create(builder, loc,
                                             builder.getIndexType(), batch)
                      .getResult());
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
