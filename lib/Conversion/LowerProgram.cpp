//===- LowerProgram.cpp - Calls on buffers to calls
//------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every exec.function becomes a function of pointers:
//
//   unit: (context, scratch, batch, buffers...)
//   step: (context, arena, batch)
//   turn: (context, arena, ports, batch)
//
// Buffers become addresses; kernels are started through poplar_rt_dispatch,
// products through poplar_rt_gemm, collectives through poplar_rt_start and
// poplar_rt_wait (Runtime/ABI.h). Where --map-kernels-to-gpu has made kernels
// for a GPU, those are started, through poplar_rt_launch.
//
//===----------------------------------------------------------------------===//

#include "LoweringContext.h"
#include "Poplar/Conversion/GPUKernels.h"
#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace poplar {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class FunctionLowering {
public:
  FunctionLowering(exec::FunctionOp function, ModuleContext &shared,
                   bool trapDeadRanges)
      : source(function), shared(shared), trapDeadRanges(trapDeadRanges),
        builder(function.getContext()), loc(function.getLoc()) {}

  void run();

private:
  void lower(exec::BufferOp op);
  void lower(exec::EndOp op);
  void lower(exec::ViewOp op);
  void lower(exec::PortOp op);
  void lower(exec::CallOp op);
  void lower(exec::DispatchOp op);
  void lower(exec::ProductOp op);
  void lower(exec::AttentionOp op);
  void lower(exec::AttentionGradOp op);
  void lower(exec::EmbeddingGradOp op);
  void lower(exec::StartOp op);
  void lower(exec::WaitOp op);
  void lower(exec::SendOp op);
  void lower(exec::ReceiveOp op);
  void lower(exec::ZeroOp op);
  void lower(exec::UnscaleOp op);
  void lower(exec::NormOp op);
  void lower(exec::AdamWOp op);
  void lower(exec::ReturnOp op);
  void lowerOp(Operation *op);

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  }
  /// base + batch * offset, or base + offset.
  Value advance(Value base, int64_t offset, bool perSample);
  /// The start of a region.
  Value getBase(exec::Region region);
  Value loadPort(PoplarPort port);
  Value addressOf(StringRef symbol) {
    return LLVM::AddressOfOp::create(builder, loc, shared.pointer, symbol);
  }
  Value null() { return LLVM::ZeroOp::create(builder, loc, shared.pointer); }
  /// Null for an operand that is missing.
  Value pointerOf(Value buffer) {
    return buffer ? pointers.lookup(buffer) : null();
  }
  SmallVector<Value> pointersOf(ArrayRef<Value> buffers) {
    return llvm::map_to_vector(buffers,
                               [&](Value buffer) { return pointerOf(buffer); });
  }

  void callRuntime(StringRef name, ValueRange arguments);
  Value pack(ArrayRef<Value> arguments);
  Value getExtent(int64_t parts, bool batched);
  void dispatch(Value kernel, ArrayRef<Value> arguments, int64_t parts,
                bool batched, int64_t grain);
  void launch(int64_t kernel, ArrayRef<Value> arguments, int64_t parts,
              bool batched);
  /// Of attention on a GPU: a block has a tile of rows of each of `heads`.
  void launchAttention(StringRef what, const PoplarAttention &desc,
                       int64_t heads, ArrayRef<Value> arguments);
  /// A PoplarKernel that passes `desc` to a function of the kernel library.
  StringRef wrap(StringRef function, StringRef desc);

  exec::FunctionOp source;
  ModuleContext &shared;
  bool trapDeadRanges;
  OpBuilder builder;
  Location loc;
  /// `base` is the arena, of a unit its scratch.
  Value context, base, ports, batch;
  DenseMap<Value, Value> pointers;
  /// Descriptors of the collectives under way.
  DenseMap<Value, Value> started;
  Block *entry = nullptr;
};

class LowerProgramPass
    : public poplar::impl::LowerProgramBase<LowerProgramPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!getArena(module)) {
      module.emitError("has no exec.arena: run --plan-memory first");
      return signalPassFailure();
    }
    ModuleContext shared(module, capability);
    Type pointer = shared.pointer, i64 = shared.i64;
    shared.declare("poplar_rt_dispatch",
                   {pointer, pointer, pointer, i64, i64, i64});
    shared.declare("poplar_rt_launch", {pointer, i64, pointer, i64, i64});
    shared.declare("poplar_rt_gemm", {pointer, pointer, pointer, pointer,
                                      pointer, pointer, pointer, i64});
    shared.declare("poplar_rt_start", {pointer, pointer, pointer});
    shared.declare("poplar_rt_wait", {pointer, pointer});
    shared.declare("poplar_rt_send", {pointer, i64});
    shared.declare("poplar_rt_receive", {pointer, i64});
    shared.declare("poplar_rt_zero", {pointer, pointer, i64});
    shared.declare("poplar_rt_poison", {pointer, pointer, i64});
    shared.declare("poplar_rt_unscale", {pointer, i64, pointer});
    shared.declare("poplar_rt_norm", {pointer, i64});
    shared.declare("poplar_rt_adamw", {pointer, i64});
    for (auto function : module.getOps<exec::FunctionOp>())
      FunctionLowering(function, shared, trapDeadRanges).run();
    shared.listProducts();
    // Parameters and buckets are places in the arena now.
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (isa<exec::ExecDialect>(op.getDialect()) ||
          isa<nn::ParameterOp, zero::BucketOp, zero::PlanOp>(op))
        op.erase();
    if (shared.gpuKernels.exists())
      shared.gpuKernels.finish();
  }
};

} // namespace

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
  }
  llvm_unreachable("unknown region");
}

void FunctionLowering::lower(exec::BufferOp op) {
  pointers[op.getBuffer()] =
      advance(getBase(op.getRegion()), op.getOffset(), op.isPerSample());
}

/// NaN, in any format, where nobody should read any more.
void FunctionLowering::lower(exec::EndOp op) {
  if (!trapDeadRanges)
    return;
  auto buffer = op.getBuffer().getDefiningOp<exec::BufferOp>();
  Value bytes = constant(buffer.getBytes());
  if (buffer.isPerSample())
    bytes = arith::MulIOp::create(builder, loc, batch, bytes);
  callRuntime("poplar_rt_poison", {pointerOf(op.getBuffer()), bytes});
}

void FunctionLowering::lower(exec::ViewOp op) {
  int64_t width = op.getTensor().getType().getElementTypeBitWidth() / 8;
  pointers[op.getTensor()] =
      advance(pointerOf(op.getBucket()), op.getOffset() * width, false);
}

void FunctionLowering::lower(exec::PortOp op) {
  static constexpr PoplarPort ports[] = {
      POPLAR_ACTIVATION_IN, POPLAR_ACTIVATION_OUT, POPLAR_GRADIENT_IN,
      POPLAR_GRADIENT_OUT};
  pointers[op.getBuffer()] = loadPort(ports[size_t(op.getKind())]);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void FunctionLowering::callRuntime(StringRef name, ValueRange arguments) {
  SmallVector<Value> all = {context};
  llvm::append_range(all, arguments);
  LLVM::CallOp::create(builder, loc, TypeRange{}, name, all);
}

/// An array of pointers.
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

void FunctionLowering::launchAttention(StringRef what,
                                       const PoplarAttention &desc,
                                       int64_t heads,
                                       ArrayRef<Value> arguments) {
  GPUAttention chosen = chooseGPUAttention(desc, shared.capability);
  int64_t kernel = shared.gpuKernels.add(
      chosen.stem + what.str(), ModuleContext::getWords(desc), chosen.block,
      static_cast<int32_t>(arguments.size()));
  launch(kernel, arguments, heads * chosen.getTiles(desc), true);
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

void FunctionLowering::lower(exec::CallOp op) {
  SmallVector<Value> arguments = {context, pointerOf(op.getScratch()), batch};
  for (Value buffer : op.getArgs())
    arguments.push_back(pointerOf(buffer));
  func::CallOp::create(builder, loc, (op.getCallee() + ".call").str(),
                       TypeRange{}, arguments);
}

void FunctionLowering::lower(exec::DispatchOp op) {
  auto kernel = shared.symbols.lookup<exec::KernelOp>(op.getKernel());
  SmallVector<Value> arguments;
  for (Value buffer : op.getArgs())
    arguments.push_back(pointerOf(buffer));
  if (shared.gpuKernels.exists())
    return launch(shared.gpuKernels.getNumber(op.getKernel()), arguments,
                  kernel.getParts(), kernel.getPerSample());
  auto type = FunctionType::get(
      builder.getContext(),
      {shared.pointer, shared.i64, shared.i64, shared.i64}, {});
  Value function = func::ConstantOp::create(builder, loc, type,
                                            getKernelBodyName(op.getKernel()));
  Value address =
      UnrealizedConversionCastOp::create(builder, loc, shared.pointer, function)
          .getResult(0);
  // Columns and elements are split at cache lines.
  bool byElement = kernel.getKind() == exec::KernelKind::Columns ||
                   kernel.getKind() == exec::KernelKind::Flat;
  dispatch(address, arguments, kernel.getParts(), kernel.getPerSample(),
           byElement ? 16 : 1);
}

//===----------------------------------------------------------------------===//
// Products, attention, embeddings
//===----------------------------------------------------------------------===//

void FunctionLowering::lower(exec::ProductOp op) {
  Value desc = addressOf(shared.getProduct(op.getDescriptor()));
  callRuntime("poplar_rt_gemm",
              {desc, pointerOf(op.getA()), pointerOf(op.getB()),
               pointerOf(op.getBias()), pointerOf(op.getAux()),
               pointerOf(op.getC()), batch});
}

void FunctionLowering::lower(exec::AttentionOp op) {
  PoplarAttention desc = op.getDescriptor();
  Value q = op.getQ(), k = op.isPacked() ? q : op.getK(),
        v = op.isPacked() ? q : op.getV();
  SmallVector<Value> arguments =
      pointersOf({q, k, v, op.getKeys(), op.getOut(), op.getLse()});
  if (shared.gpuKernels.exists())
    return launchAttention("forward", desc, desc.num_heads, arguments);
  StringRef kernel =
      wrap("poplar_attention_forward", shared.getStruct("attention", desc));
  dispatch(addressOf(kernel), arguments,
           desc.num_heads *
               llvm::divideCeil(desc.seq_len, POPLAR_ATTENTION_BLOCK),
           /*batched=*/true, /*grain=*/1);
}

void FunctionLowering::lower(exec::AttentionGradOp op) {
  PoplarAttention desc = op.getDescriptor();
  bool packed = op.isPacked();
  Value q = op.getQ(), dq = op.getDq();
  SmallVector<Value> arguments = pointersOf(
      {op.getDy(), op.getOut(), op.getLse(), q, packed ? q : op.getK(),
       packed ? q : op.getV(), op.getKeys()});
  SmallVector<Value> gradients =
      pointersOf({dq, packed ? dq : op.getDk(), packed ? dq : op.getDv()});
  if (shared.gpuKernels.exists()) {
    SmallVector<Value> ofKeys = arguments;
    arguments.push_back(gradients[0]);
    ofKeys.append(gradients.begin() + 1, gradients.end());
    launchAttention("backward_q", desc, desc.num_heads, arguments);
    return launchAttention("backward_kv", desc, desc.num_kv_heads, ofKeys);
  }
  arguments.append(gradients);
  StringRef kernel = wrap("poplar_attention_backward",
                          shared.getStruct("attention_grad", desc));
  dispatch(addressOf(kernel), arguments, desc.num_kv_heads, /*batched=*/true,
           /*grain=*/1);
}

void FunctionLowering::lower(exec::EmbeddingGradOp op) {
  PoplarEmbeddingGrad desc = op.getDescriptor();
  SmallVector<Value> arguments =
      pointersOf({op.getDy(), op.getIds(), op.getAcc()});
  if (shared.gpuKernels.exists()) {
    int64_t kernel = shared.gpuKernels.add(
        "poplar_gpu_embedding_grad", ModuleContext::getWords(desc),
        {POPLAR_GPU_EMBEDDING_THREADS, 1, 1}, 3);
    return launch(kernel, arguments, desc.seq_len, /*batched=*/true);
  }
  StringRef kernel =
      wrap("poplar_embedding_grad", shared.getStruct("embedding_grad", desc));
  dispatch(addressOf(kernel), arguments, desc.width, /*batched=*/false,
           /*grain=*/16);
}

//===----------------------------------------------------------------------===//
// Collectives, messages, state
//===----------------------------------------------------------------------===//

void FunctionLowering::lower(exec::StartOp op) {
  PoplarCollective desc = {};
  desc.id = shared.numCollectives++;
  desc.kind = int32_t(op.getKind());
  desc.bucket = shared.getBucket(op.getBucket());
  desc.wire_type = exec::getPoplarType(op.getWire());
  desc.transient = op.getTransient();
  Value address = addressOf(shared.getStruct("collective", desc));
  callRuntime("poplar_rt_start", {address, pointerOf(op.getBuffer())});
  started[op.getToken()] = address;
}

void FunctionLowering::lower(exec::WaitOp op) {
  callRuntime("poplar_rt_wait", started.lookup(op.getToken()));
}

void FunctionLowering::lower(exec::SendOp op) {
  callRuntime("poplar_rt_send", constant(int64_t(op.getKind())));
}

void FunctionLowering::lower(exec::ReceiveOp op) {
  callRuntime("poplar_rt_receive", constant(int64_t(op.getKind())));
}

void FunctionLowering::lower(exec::ZeroOp op) {
  MemRefType type = op.getBuffer().getType();
  callRuntime("poplar_rt_zero", {pointerOf(op.getBuffer()),
                                 constant(type.getNumElements() *
                                          type.getElementTypeBitWidth() / 8)});
}

void FunctionLowering::lower(exec::UnscaleOp op) {
  callRuntime("poplar_rt_unscale", {constant(shared.getBucket(op.getBucket())),
                                    pointerOf(op.getGradients())});
}

void FunctionLowering::lower(exec::NormOp op) {
  callRuntime("poplar_rt_norm", constant(op.getUnscale()));
}

void FunctionLowering::lower(exec::AdamWOp op) {
  callRuntime("poplar_rt_adamw", constant(shared.getBucket(op.getBucket())));
}

void FunctionLowering::lower(exec::ReturnOp) {
  func::ReturnOp::create(builder, loc);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void FunctionLowering::lowerOp(Operation *op) {
  loc = op->getLoc();
  llvm::TypeSwitch<Operation *>(op)
      .Case<exec::BufferOp, exec::EndOp, exec::ViewOp, exec::PortOp,
            exec::CallOp, exec::DispatchOp, exec::ProductOp, exec::AttentionOp,
            exec::AttentionGradOp, exec::EmbeddingGradOp, exec::StartOp,
            exec::WaitOp, exec::SendOp, exec::ReceiveOp, exec::ZeroOp,
            exec::UnscaleOp, exec::NormOp, exec::AdamWOp, exec::ReturnOp>(
          [&](auto known) { lower(known); });
}

void FunctionLowering::run() {
  bool isUnit = source.getKind() == exec::FunctionKind::Unit;
  bool isTurn = source.getKind() == exec::FunctionKind::Turn;
  SmallVector<Type> types = {shared.pointer, shared.pointer};
  if (isTurn)
    types.push_back(shared.pointer);
  types.push_back(shared.i64);
  types.append(source.getNumArguments(), shared.pointer);
  builder.setInsertionPoint(source);
  std::string name = source.getName().str() + (isUnit ? ".call" : ".step");
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
  for (Operation &op : source.getBody().front())
    lowerOp(&op);
}
