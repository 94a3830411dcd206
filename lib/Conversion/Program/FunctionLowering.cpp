//===- FunctionLowering.cpp - An exec.function in the llvm dialect --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/FunctionLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace poplar;

Value FunctionLowering::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 64);
}

Value FunctionLowering::null() {
  return LLVM::ZeroOp::create(builder, loc, shared.pointer);
}

Value FunctionLowering::addressOf(StringRef symbol) {
  return LLVM::AddressOfOp::create(builder, loc, shared.pointer, symbol);
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Value FunctionLowering::advance(Value base, int64_t offset, bool perSample) {
  if (offset == 0)
    return base;
  Value bytes = constant(offset);
  if (perSample)
    bytes = arith::MulIOp::create(builder, loc, batch, bytes);
  return LLVM::GEPOp::create(builder, loc, shared.pointer, builder.getI8Type(),
                             base, ValueRange{bytes});
}

Value FunctionLowering::loadPort(PoplarPort port) {
  Value place =
      LLVM::GEPOp::create(builder, loc, shared.pointer, shared.pointer, ports,
                          ArrayRef<LLVM::GEPArg>{int32_t(port)});
  return LLVM::LoadOp::create(builder, loc, shared.pointer, place);
}

Value FunctionLowering::getBase(exec::Region region) {
  switch (region) {
  case exec::Region::Batch:
    return advance(base, shared.arena.getFixed(), false);
  case exec::Region::Transient:
    return advance(base, shared.arena.getTransientOffset(), false);
  case exec::Region::Fixed:
  case exec::Region::Scratch:
    return base;
  case exec::Region::Slot:
    return loadPort(POPLAR_SLOT);
  case exec::Region::Cache:
    return advance(advance(base, shared.arena.getFixed(), false),
                   *shared.arena.getCachesOffset(), true);
  }
  llvm_unreachable("unknown region");
}

Value FunctionLowering::getBytes(exec::BufferOp buffer) {
  Value bytes = constant(buffer.getBytes());
  return buffer.isPerSample()
             ? arith::MulIOp::create(builder, loc, batch, bytes)
             : bytes;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void FunctionLowering::callRuntime(StringRef name, ValueRange arguments) {
  SmallVector<Value> all = {context};
  llvm::append_range(all, arguments);
  LLVM::CallOp::create(builder, loc, TypeRange{}, name, all);
}

void FunctionLowering::callUnit(StringRef unit, Value scratch,
                                ArrayRef<Value> arguments) {
  SmallVector<Value> all = {context, scratch, batch};
  llvm::append_range(all, arguments);
  func::CallOp::create(builder, loc, (unit + ".call").str(), TypeRange{}, all);
}

Value FunctionLowering::pack(ArrayRef<Value> arguments) {
  Value array;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(entry);
    array = LLVM::AllocaOp::create(builder, loc, shared.pointer, shared.pointer,
                                   constant(arguments.size()));
  }
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    Value slot =
        LLVM::GEPOp::create(builder, loc, shared.pointer, shared.pointer, array,
                            ArrayRef<LLVM::GEPArg>{int32_t(index)});
    LLVM::StoreOp::create(builder, loc, argument, slot);
  }
  return array;
}

Value FunctionLowering::getExtent(int64_t parts, bool batched) {
  Value extent = constant(parts);
  return batched ? arith::MulIOp::create(builder, loc, batch, extent) : extent;
}

void FunctionLowering::dispatch(Value kernel, ArrayRef<Value> arguments,
                                int64_t parts, bool batched, int64_t grain) {
  callRuntime("poplar_rt_dispatch",
              {kernel, pack(arguments), batch, getExtent(parts, batched),
               constant(grain)});
}

void FunctionLowering::launch(int64_t kernel, ArrayRef<Value> arguments,
                              int64_t parts, bool batched) {
  callRuntime("poplar_rt_launch", {constant(kernel), pack(arguments), batch,
                                   getExtent(parts, batched)});
}

StringRef FunctionLowering::wrap(StringRef function, StringRef desc) {
  std::string name = (function + "." + desc).str();
  if (auto known = shared.symbols.lookup<LLVM::LLVMFuncOp>(name))
    return known.getSymName();
  Type pointer = shared.pointer, i64 = shared.i64;
  shared.declare(function, {pointer, pointer, i64, i64, i64});
  OpBuilder atEnd = OpBuilder::atBlockEnd(shared.module.getBody());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()), {pointer, i64, i64, i64});
  auto wrapper =
      LLVM::LLVMFuncOp::create(atEnd, loc, name, type, LLVM::Linkage::Internal);
  shared.symbols.insert(wrapper);
  Block *body = wrapper.addEntryBlock(atEnd);
  atEnd.setInsertionPointToStart(body);
  SmallVector<Value> arguments = {
      LLVM::AddressOfOp::create(atEnd, loc, pointer, desc)};
  llvm::append_range(arguments, body->getArguments());
  LLVM::CallOp::create(atEnd, loc, TypeRange{}, function, arguments);
  LLVM::ReturnOp::create(atEnd, loc, ValueRange{});
  return wrapper.getSymName();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::run() {
  bool isUnit = source.getKind() == exec::FunctionKind::Unit;
  bool isTurn = source.getKind() == exec::FunctionKind::Turn;
  SmallVector<Type> types = {shared.pointer, shared.pointer};
  if (isTurn)
    types.push_back(shared.pointer);
  types.push_back(shared.i64);
  types.append(source.getNumArguments(), shared.pointer);
  builder.setInsertionPoint(source);
  std::string name =
      isUnit ? source.getName().str() + ".call" : getStepName(source.getName());
  auto target = func::FuncOp::create(
      builder, loc, name, FunctionType::get(builder.getContext(), types, {}));
  if (isUnit)
    target.setPrivate();
  entry = target.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  auto arguments = entry->getArguments();
  context = arguments[0];
  base = arguments[1];
  if (isTurn)
    ports = arguments[2];
  batch = arguments[isTurn ? 3 : 2];
  for (auto [buffer, pointer] :
       llvm::zip(source.getArguments(),
                 arguments.take_back(source.getNumArguments())))
    pointers[buffer] = pointer;
  for (Operation &op : source.getBody().front()) {
    loc = op.getLoc();
    auto call = dyn_cast<exec::ProgramCallOpInterface>(op);
    if (!call)
      return op.emitOpError("is not a call of the runtime or of a kernel");
    call.lowerCall(*this);
  }
  return success();
}
