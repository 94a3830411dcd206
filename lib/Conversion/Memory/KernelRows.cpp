//===- KernelRows.cpp - Kernels of some rows of buffers -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace poplar;

/// Whether a value has a row for each token of each sample.
static bool isOfBatch(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() != 0 && tensor.isDynamicDim(0);
}

static bool hasTokens(Type type, int64_t tokens) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getRank() > 1 && tensor.getDimSize(1) == tokens;
}

/// Whether an operand is read at the element's own token, or at none.
static bool isOfToken(linalg::GenericOp op, OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  unsigned first = 0;
  if (isOfBatch(operand.get().getType())) {
    for (; first < 2; ++first)
      if (map.getResult(first) != getAffineDimExpr(first, map.getContext()))
        return false;
  }
  return llvm::none_of(map.getResults().drop_front(first), [](AffineExpr e) {
    return e.isFunctionOfDim(0) || e.isFunctionOfDim(1);
  });
}

/// Whether it reads at the element's own token, whose sample and number are its
/// first two indices.
static bool isOfToken(tensor::ExtractOp extract) {
  if (!isOfBatch(extract.getTensor().getType()) ||
      extract.getIndices().size() < 2)
    return false;
  for (unsigned dim = 0; dim < 2; ++dim) {
    auto index = extract.getIndices()[dim].getDefiningOp<linalg::IndexOp>();
    if (!index || index.getDim() != dim)
      return false;
  }
  return true;
}

/// Whether a kernel reads an argument by computed indices alone: then it is
/// given all of it.
static bool isTable(BlockArgument argument) {
  return llvm::all_of(argument.getUsers(), [](Operation *user) {
    auto extract = dyn_cast<tensor::ExtractOp>(user);
    return extract ? !isOfToken(extract) : isa<tensor::DimOp>(user);
  });
}

/// Whether a use of the index of a sample, or of a token in it, is of its
/// position in the whole: not where the element's own row is read.
static bool isPosition(OpOperand &use) {
  auto extract = dyn_cast<tensor::ExtractOp>(use.getOwner());
  return !extract || !isOfToken(extract) || use.getOperandNumber() > 2;
}

static bool isPosition(linalg::IndexOp index) {
  return index.getDim() < 2 &&
         llvm::any_of(
             index->getUses(), [](OpOperand &use) { return isPosition(use); });
}

/// Whether all ops read at their own token only, and what they make is for each
/// token, or for none.
static bool readsOwnTokens(exec::KernelOp kernel, int64_t tokens) {
  auto fits = [&](Type type) {
    return !isOfBatch(type) || hasTokens(type, tokens);
  };
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (!isTable(argument) && !fits(argument.getType()))
      return false;
  for (Operation &op : kernel.getBody().front()) {
    if (!llvm::all_of(op.getResultTypes(), fits))
      return false;
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic)
      continue;
    for (OpOperand &operand : op.getOpOperands())
      if (!isOfToken(generic, operand))
        return false;
    for (auto extract : generic.getBody()->getOps<tensor::ExtractOp>()) {
      auto table = dyn_cast<BlockArgument>(extract.getTensor());
      if (!isOfToken(extract) && (!table || !isTable(table)))
        return false;
    }
  }
  return true;
}

bool poplar::isTokenByToken(exec::KernelOp kernel, int64_t tokens) {
  return kernel.getKind() == exec::KernelKind::Rows && kernel.getPerSample() &&
         int64_t(kernel.getParts()) == tokens && readsOwnTokens(kernel, tokens);
}

bool poplar::addsTokens(exec::KernelOp kernel, int64_t tokens) {
  if (kernel.getKind() != exec::KernelKind::Columns)
    return false;
  for (auto [index, type] : llvm::enumerate(kernel.getResultTypes()))
    if (!kernel.getInPlaceArgument(index))
      return false;
  return readsOwnTokens(kernel, tokens);
}

/// Gives the ops of a kernel of some rows the positions that they have in the
/// whole: those of row batch * first + sample * (end - first) + token.
static void setPositions(exec::KernelOp kernel, int64_t tokens, int64_t first,
                         int64_t end) {
  auto batched = llvm::find_if(
      kernel.getBody().getArguments(),
      [](BlockArgument argument) { return isOfBatch(argument.getType()); });
  for (auto generic : kernel.getBody().front().getOps<linalg::GenericOp>()) {
    SmallVector<linalg::IndexOp> indices(llvm::make_filter_range(
        generic.getBody()->getOps<linalg::IndexOp>(),
        [](linalg::IndexOp index) { return isPosition(index); }));
    if (indices.empty())
      continue;
    auto b = OpBuilder::atBlockBegin(generic.getBody());
    Location loc = generic.getLoc();
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(b, loc, value);
    };
    auto times = [&](Value value, int64_t factor) -> Value {
      return arith::MulIOp::create(b, loc, value, constant(factor));
    };
    auto add = [&](Value x, Value y) -> Value {
      return arith::AddIOp::create(b, loc, x, y);
    };
    Value batch = tensor::DimOp::create(b, loc, *batched, constant(0));
    Value sample = linalg::IndexOp::create(b, loc, 0),
          token = linalg::IndexOp::create(b, loc, 1);
    Value row =
        add(times(batch, first), add(times(sample, end - first), token));
    Value length = constant(tokens);
    Value whole[] = {arith::DivUIOp::create(b, loc, row, length),
                     arith::RemUIOp::create(b, loc, row, length)};
    for (linalg::IndexOp index : indices) {
      index.getResult().replaceUsesWithIf(
          whole[index.getDim()],
          [](OpOperand &use) { return isPosition(use); });
      if (index->use_empty())
        index.erase();
    }
  }
}

exec::KernelOp poplar::getKernelOfRows(exec::KernelOp kernel, int64_t tokens,
                                       int64_t first, int64_t end) {
  if (end - first == tokens)
    return kernel;
  bool hasPositions = false;
  kernel.walk(
      [&](linalg::IndexOp index) { hasPositions |= isPosition(index); });
  std::string name =
      (kernel.getSymName() + "_rows_" + Twine(end - first)).str();
  if (hasPositions)
    name += "_from_" + std::to_string(first);
  auto module = kernel->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<exec::KernelOp>(name))
    return known;
  OpBuilder builder(kernel);
  builder.setInsertionPointAfter(kernel);
  auto made = cast<exec::KernelOp>(builder.clone(*kernel));
  auto cut = [&](Type type) -> Type {
    if (!isOfBatch(type))
      return type;
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    shape[1] = end - first;
    return tensor.clone(shape);
  };
  Block &body = made.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (!isTable(argument))
      argument.setType(cut(argument.getType()));
  for (Operation &op : body)
    for (Value result : op.getResults())
      result.setType(cut(result.getType()));
  made.setName(name);
  if (made.getKind() == exec::KernelKind::Rows)
    made.setParts(end - first);
  made.setFunctionType(builder.getFunctionType(
      body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  if (hasPositions)
    setPositions(made, tokens, first, end);
  return made;
}
