//===- LowerProgram.cpp - Units and steps to calls ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions of tensors become functions of pointers:
//
//   unit: (context, scratch, batch, arguments..., results not in place...)
//   step: (context, arena, batch)
//   turn: (context, arena, ports, batch)
//
// with every pointer computed from the memory plan, kernels started through
// poplar_rt_dispatch, GEMMs through poplar_rt_gemm, collectives through
// poplar_rt_start and poplar_rt_wait (Runtime/ABI.h). Where
// --map-kernels-to-gpu has made kernels for a GPU, those are started, through
// poplar_rt_launch.
//
//===----------------------------------------------------------------------===//

#include "LoweringContext.h"
#include "Poplar/Conversion/GPUKernels.h"
#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, ModuleContext &shared)
      : source(function), shared(shared), builder(function.getContext()),
        loc(function.getLoc()) {}

  LogicalResult run();

private:
  LogicalResult lowerCall(func::CallOp call);
  void lowerGemm(Operation *op, const PoplarGemm &gemm);
  void lowerAttention(nn::AttentionOp op);
  void lowerAttentionGrad(nn::AttentionGradOp op);
  void lowerEmbeddingGrad(nn::EmbeddingGradOp op);
  void lowerParameter(Operation *op);
  /// Ops of the zero dialect; false for all others.
  bool lowerZero(Operation *op);
  Value start(Operation *op, zero::CollectiveKind kind,
              FlatSymbolRefAttr bucket, Type wire, ValueRange gradients,
              bool isTransient, bool unscale);
  Value bindTransient(Operation *op);
  void bindTurn(Value ports);
  void bindSlices(ResultRange values, Value flat, FlatSymbolRefAttr bucket);
  void callRuntime(StringRef name, ValueRange arguments);
  LogicalResult lowerOp(Operation *op);
  void trapDeadRanges(Operation *op);

  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  }
  /// base + batch * offset, or base + offset.
  Value advance(Value base, int64_t offset, bool perSample);
  void bindResults(Operation *op);
  Value addressOf(StringRef symbol) {
    return LLVM::AddressOfOp::create(builder, loc, shared.pointer, symbol);
  }
  Value null() { return LLVM::ZeroOp::create(builder, loc, shared.pointer); }
  Value pointerOf(Value value) {
    return value ? pointers.lookup(value) : null();
  }

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

  func::FuncOp source;
  ModuleContext &shared;
  OpBuilder builder;
  Location loc;
  Value context, base, batch;
  /// Start of the region offsets are relative to, and the arena (steps only).
  Value region;
  DenseMap<Value, Value> pointers;
  /// Descriptor and flat buffer of each collective under way.
  DenseMap<Value, std::pair<Value, Value>> started;
  Block *entry = nullptr;
};

class LowerProgramPass
    : public poplar::impl::LowerProgramBase<LowerProgramPass> {
public:
  using Base::Base;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module->hasAttr(kMemoryAttr)) {
      module.emitError("has no memory plan: run --plan-memory first");
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
    SmallVector<func::FuncOp> functions;
    SmallVector<Operation *> done;
    for (auto function : module.getOps<func::FuncOp>()) {
      bool isStep = function->hasAttr(kInputOffsetsAttr);
      if (isStep || function->hasAttr(nn::kUnitAttr))
        functions.push_back(function);
      if (isStep || function->hasAttr(nn::kUnitAttr) ||
          function->hasAttr(kKernelAttr) ||
          function->hasAttr(kInPlaceUpdateAttr))
        done.push_back(function);
    }
    for (func::FuncOp function : functions)
      if (failed(FunctionLowering(function, shared).run()))
        return signalPassFailure();
    // Parameters and buckets are places in the arena now, which nn.memory's
    // readers know, as they know the plan.
    for (Operation &op : *module.getBody())
      if (isa<nn::ParameterOp, zero::BucketOp, zero::PlanOp>(op))
        done.push_back(&op);
    for (Operation *op : done)
      op->erase();
    if (shared.gpuKernels.exists())
      shared.gpuKernels.finish();
  }
};

int64_t dim(Value value, unsigned index) {
  return cast<RankedTensorType>(value.getType()).getDimSize(index);
}

/// nn.attention or nn.attention_grad, whose attributes are the same.
template <typename AttentionOp>
PoplarAttention describeAttention(AttentionOp op, Value out) {
  PoplarAttention desc = {};
  desc.seq_len = dim(out, 1);
  desc.num_heads = op.getNumHeads();
  desc.num_kv_heads = op.getNumKvHeads();
  desc.head_dim = op.getHeadDim();
  desc.out_stride = dim(out, 2);
  desc.q_stride = dim(op.getQ(), 2);
  desc.k_stride = op.isPacked() ? desc.q_stride : dim(op.getK(), 2);
  desc.v_stride = desc.k_stride;
  if (op.isPacked()) {
    desc.k_offset = desc.num_heads * desc.head_dim;
    desc.v_offset = desc.k_offset + desc.num_kv_heads * desc.head_dim;
  }
  desc.window = op.getWindow();
  desc.op_id = op.getOpId();
  desc.scale = op.getScale().convertToDouble();
  desc.dropout = op.getKeys() ? op.getDropout().convertToDouble() : 0.0;
  desc.causal = op.getCausal();
  desc.type =
      getPoplarType(cast<RankedTensorType>(out.getType()).getElementType());
  return desc;
}

} // namespace

Value FunctionLowering::advance(Value base, int64_t offset, bool perSample) {
  if (offset == 0)
    return base;
  Value bytes = constant(offset);
  if (perSample)
    bytes = arith::MulIOp::create(builder, loc, batch, bytes);
  return LLVM::GEPOp::create(builder, loc, shared.pointer, builder.getI8Type(),
                             base, ValueRange{bytes});
}

/// Pointers of the results of a step: planned, or shared with an operand.
void FunctionLowering::bindResults(Operation *op) {
  auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
  for (OpResult result : op->getResults()) {
    if (pointers.count(result))
      continue; // the caller's
    if (OpOperand *operand =
            getInPlaceOperand(op, result.getResultNumber(), shared.tables))
      pointers[result] = pointerOf(operand->get());
    else
      pointers[result] =
          advance(region, offsets[result.getResultNumber()], true);
  }
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

void FunctionLowering::lowerGemm(Operation *op, const PoplarGemm &gemm) {
  Value a, b, bias, aux, c = pointerOf(op->getResult(0));
  if (auto linear = dyn_cast<nn::LinearOp>(op)) {
    a = linear.getX();
    b = linear.getWeight();
    bias = linear.getBias();
  } else if (auto linear = dyn_cast<nn::LinearGeluOp>(op)) {
    a = linear.getX();
    b = linear.getWeight();
    bias = linear.getBias();
    aux = linear.getPre();
  } else if (auto linear = dyn_cast<nn::LinearGeluGradOp>(op)) {
    a = linear.getX();
    b = linear.getWeight();
    aux = linear.getPre();
  } else {
    nn::WeightLayout layout;
    auto take = [&](auto grad) {
      a = grad.getDy();
      b = grad.getX();
      layout = grad.getLayout();
    };
    if (auto grad = dyn_cast<nn::LinearGradWeightBiasOp>(op)) {
      take(grad);
      aux = grad.getBiasAcc();
    } else {
      take(cast<nn::LinearGradWeightOp>(op));
    }
    if (layout == nn::WeightLayout::InOut)
      std::swap(a, b);
  }
  StringRef desc = shared.getStruct("gemm", gemm);
  LLVM::CallOp::create(builder, loc, TypeRange{}, "poplar_rt_gemm",
                       ValueRange{context, addressOf(desc), pointerOf(a),
                                  pointerOf(b), pointerOf(bias), pointerOf(aux),
                                  c, batch});
}

void FunctionLowering::lowerAttention(nn::AttentionOp op) {
  PoplarAttention desc = describeAttention(op, op.getResult());
  Value q = pointerOf(op.getQ());
  Value k = op.isPacked() ? q : pointerOf(op.getK());
  Value v = op.isPacked() ? q : pointerOf(op.getV());
  SmallVector<Value> arguments = {q,
                                  k,
                                  v,
                                  pointerOf(op.getKeys()),
                                  pointerOf(op.getResult()),
                                  pointerOf(op.getLse())};
  if (shared.gpuKernels.exists())
    return launchAttention("forward", desc, desc.num_heads, arguments);
  StringRef kernel =
      wrap("poplar_attention_forward", shared.getStruct("attention", desc));
  dispatch(addressOf(kernel), arguments,
           desc.num_heads *
               llvm::divideCeil(desc.seq_len, POPLAR_ATTENTION_BLOCK),
           /*batched=*/true, /*grain=*/1);
}

void FunctionLowering::lowerAttentionGrad(nn::AttentionGradOp op) {
  PoplarAttention desc = describeAttention(op, op.getDy());
  Value q = pointerOf(op.getQ()), dq = pointerOf(op.getDq());
  bool packed = op.isPacked();
  SmallVector<Value> arguments = {pointerOf(op.getDy()),
                                  pointerOf(op.getOut()),
                                  pointerOf(op.getLse()),
                                  q,
                                  packed ? q : pointerOf(op.getK()),
                                  packed ? q : pointerOf(op.getV()),
                                  pointerOf(op.getKeys())};
  SmallVector<Value> gradients = {dq, packed ? dq : pointerOf(op.getDk()),
                                  packed ? dq : pointerOf(op.getDv())};
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

void FunctionLowering::lowerEmbeddingGrad(nn::EmbeddingGradOp op) {
  PoplarEmbeddingGrad desc = {};
  auto dy = cast<RankedTensorType>(op.getDy().getType());
  desc.seq_len = dy.getDimSize(1);
  desc.width = dy.getDimSize(2);
  desc.type = getPoplarType(dy.getElementType());
  desc.padding_idx = op.getPaddingIdx().value_or(-1);
  Value arguments[] = {pointerOf(op.getDy()), pointerOf(op.getIds()),
                       pointerOf(op.getResult())};
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

LogicalResult FunctionLowering::lowerCall(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  SmallVector<Value> arguments;
  for (Value operand : call.getOperands())
    arguments.push_back(pointerOf(operand));
  for (OpResult result : call.getResults())
    if (!getInPlaceArgument(callee, result.getResultNumber()))
      arguments.push_back(pointerOf(result));

  if (auto kind = callee->getAttrOfType<StringAttr>(kKernelAttr)) {
    // Columns and elements are split at cache lines.
    int64_t parts = callee->getAttrOfType<IntegerAttr>(kPartsAttr).getInt();
    if (shared.gpuKernels.exists()) {
      launch(shared.gpuKernels.getNumber(callee.getName()), arguments, parts,
             callee->hasAttr(kBatchedAttr));
      return success();
    }
    bool byElement =
        *symbolizeKernelKind(kind.getValue()) == KernelKind::Columns ||
        *symbolizeKernelKind(kind.getValue()) == KernelKind::Flat;
    auto type = FunctionType::get(
        builder.getContext(),
        {shared.pointer, shared.i64, shared.i64, shared.i64}, {});
    Value function = func::ConstantOp::create(
        builder, loc, type, getKernelBodyName(callee.getName()));
    Value address = UnrealizedConversionCastOp::create(builder, loc,
                                                       shared.pointer, function)
                        .getResult(0);
    dispatch(address, arguments, parts, callee->hasAttr(kBatchedAttr),
             byElement ? 16 : 1);
    return success();
  }
  auto scratch = call->getAttrOfType<IntegerAttr>(kScratchAttr);
  if (!scratch)
    return call.emitOpError("calls a function that is no planned unit");
  Value scratchPointer = advance(region, scratch.getInt(), true);
  SmallVector<Value> all = {context, scratchPointer, batch};
  all.append(arguments);
  func::CallOp::create(builder, loc, (callee.getName() + ".call").str(),
                       TypeRange{}, all);
  return success();
}

/// A parameter or its gradient is a slice of its bucket's.
void FunctionLowering::lowerParameter(Operation *op) {
  auto name = op->getAttrOfType<FlatSymbolRefAttr>("parameter").getAttr();
  auto [bucketName, offset] = shared.parameters.lookup(name);
  DenseI64ArrayAttr places = shared.buckets.find(bucketName)->second.places;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  pointers[op->getResult(0)] =
      advance(base,
              places[isa<nn::GetGradientOp>(op) ? 1 : 0] +
                  offset * type.getElementTypeBitWidth() / 8,
              false);
}

void FunctionLowering::callRuntime(StringRef name, ValueRange arguments) {
  SmallVector<Value> all = {context};
  llvm::append_range(all, arguments);
  LLVM::CallOp::create(builder, loc, TypeRange{}, name, all);
}

/// The transient buffer that the memory plan has given to a bucket.
Value FunctionLowering::bindTransient(Operation *op) {
  int64_t start = getPlannedMemory(shared.module, "transient_offset");
  int64_t offset = op->getAttrOfType<IntegerAttr>(kTransientAttr).getInt();
  return advance(base, start + offset, false);
}

void FunctionLowering::bindSlices(ResultRange values, Value flat,
                                  FlatSymbolRefAttr bucket) {
  const zero::BucketLayout &layout =
      shared.buckets.find(bucket.getAttr())->second.layout;
  for (auto [value, offset] : llvm::zip_equal(values, layout.offsets)) {
    auto type = cast<RankedTensorType>(value.getType());
    pointers[value] =
        advance(flat, offset * type.getElementTypeBitWidth() / 8, false);
  }
}

/// Starts a collective; returns its descriptor and leaves its buffer in
/// `started` under the op's first result, if any.
Value FunctionLowering::start(Operation *op, zero::CollectiveKind kind,
                              FlatSymbolRefAttr name, Type wire,
                              ValueRange gradients, bool isTransient,
                              bool unscale) {
  const ModuleContext::Bucket &bucket =
      shared.buckets.find(name.getAttr())->second;
  Value buffer;
  if (isTransient)
    buffer = bindTransient(op);
  else if (!gradients.empty())
    buffer = pointerOf(gradients.front());
  else
    buffer = advance(
        base, bucket.places[kind == zero::CollectiveKind::AllGather ? 0 : 1],
        false);
  if (unscale)
    callRuntime("poplar_rt_unscale", {constant(bucket.index), buffer});
  PoplarCollective desc = {};
  desc.id = shared.numCollectives++;
  desc.kind = int32_t(kind);
  desc.bucket = bucket.index;
  desc.wire_type = getPoplarType(wire);
  desc.transient = isTransient || !gradients.empty();
  Value address = addressOf(shared.getStruct("collective", desc));
  callRuntime("poplar_rt_start", {address, buffer});
  if (op->getNumResults())
    started[op->getResult(0)] = {address, buffer};
  return address;
}

bool FunctionLowering::lowerZero(Operation *op) {
  if (auto zeroed = dyn_cast<zero::GradientsOp>(op)) {
    FlatSymbolRefAttr name = zeroed.getBucketAttr();
    Value flat = bindTransient(op);
    const zero::BucketLayout &layout =
        shared.buckets.find(name.getAttr())->second.layout;
    callRuntime("poplar_rt_zero", {flat, constant(layout.elements * 4)});
    bindSlices(op->getResults(), flat, name);
    return true;
  }
  if (auto gather = dyn_cast<zero::AllGatherOp>(op)) {
    Value desc =
        start(op, zero::CollectiveKind::AllGather, gather.getBucketAttr(),
              gather.getWire(), {}, op->getNumResults() != 0, false);
    callRuntime("poplar_rt_wait", desc);
    if (op->getNumResults())
      bindSlices(op->getResults(), started[op->getResult(0)].second,
                 gather.getBucketAttr());
    return true;
  }
  if (auto scatter = dyn_cast<zero::ReduceScatterOp>(op)) {
    callRuntime("poplar_rt_wait",
                start(op, zero::CollectiveKind::ReduceScatter,
                      scatter.getBucketAttr(), scatter.getWire(),
                      scatter.getGradients(), false, scatter.getUnscale()));
    return true;
  }
  if (auto reduce = dyn_cast<zero::AllReduceOp>(op)) {
    callRuntime("poplar_rt_wait",
                start(op, zero::CollectiveKind::AllReduce,
                      reduce.getBucketAttr(), reduce.getWire(), {}, false,
                      reduce.getUnscale()));
    return true;
  }
  if (auto async = dyn_cast<zero::StartOp>(op)) {
    start(op, async.getKind(), async.getBucketAttr(), async.getWire(),
          async.getGradients(), async.getTransient(), async.getUnscale());
    return true;
  }
  if (auto wait = dyn_cast<zero::WaitOp>(op)) {
    auto [desc, buffer] = started.lookup(wait.getToken());
    callRuntime("poplar_rt_wait", desc);
    if (op->getNumResults())
      bindSlices(
          op->getResults(), buffer,
          wait.getToken().getDefiningOp<zero::StartOp>().getBucketAttr());
    return true;
  }
  if (auto send = dyn_cast<zero::SendOp>(op)) {
    callRuntime("poplar_rt_send", constant(int64_t(send.getKind())));
    return true;
  }
  if (auto receive = dyn_cast<zero::ReceiveOp>(op)) {
    callRuntime("poplar_rt_receive", constant(int64_t(receive.getKind())));
    return true;
  }
  if (auto norm = dyn_cast<zero::NormOp>(op)) {
    callRuntime("poplar_rt_norm", constant(norm.getUnscale()));
    return true;
  }
  if (auto adamw = dyn_cast<zero::AdamWOp>(op)) {
    callRuntime("poplar_rt_adamw",
                constant(shared.buckets.find(adamw.getBucketAttr().getAttr())
                             ->second.index));
    return true;
  }
  return false;
}

/// Pointers of what the runtime gives to a turn.
void FunctionLowering::bindTurn(Value ports) {
  auto load = [&](PoplarPort port) -> Value {
    Value place =
        LLVM::GEPOp::create(builder, loc, shared.pointer, shared.pointer, ports,
                            ArrayRef<LLVM::GEPArg>{int32_t(port)});
    return LLVM::LoadOp::create(builder, loc, shared.pointer, place);
  };
  Value slot = load(POPLAR_SLOT), activationOut = load(POPLAR_ACTIVATION_OUT),
        activationIn = load(POPLAR_ACTIVATION_IN);
  auto inputs = source->getAttrOfType<DenseI64ArrayAttr>(kInputOffsetsAttr);
  for (BlockArgument argument : source.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (source.getArgAttr(index, zero::kReceivedAttr))
      pointers[argument] = activationIn;
    else if (source.getArgAttr(index, zero::kSentAttr))
      pointers[argument] = activationOut;
    else
      pointers[argument] = advance(slot, inputs[index], true);
  }
  auto residuals =
      source->getAttrOfType<DenseI64ArrayAttr>(kResidualOffsetsAttr);
  for (OpOperand &operand : source.front().getTerminator()->getOpOperands())
    if (auto number = source.getResultAttrOfType<IntegerAttr>(
            operand.getOperandNumber(), zero::kResidualAttr))
      pointers[operand.get()] = advance(slot, residuals[number.getInt()], true);
  for (auto receive : source.getOps<zero::ReceiveOp>())
    pointers[receive.getValue()] =
        receive.getKind() == zero::MessageKind::Activation
            ? activationIn
            : load(POPLAR_GRADIENT_IN);
  for (auto send : source.getOps<zero::SendOp>())
    pointers[send.getValue()] = send.getKind() == zero::MessageKind::Activation
                                    ? activationOut
                                    : load(POPLAR_GRADIENT_OUT);
}

/// NaN, in any format, where nobody should read any more.
void FunctionLowering::trapDeadRanges(Operation *op) {
  auto poison = [&](DenseI64ArrayAttr ranges, Value start, bool perSample) {
    for (size_t i = 0; ranges && i < size_t(ranges.size()); i += 2) {
      Value bytes = constant(ranges[i + 1]);
      if (perSample)
        bytes = arith::MulIOp::create(builder, loc, batch, bytes);
      callRuntime("poplar_rt_poison",
                  {advance(start, ranges[i], perSample), bytes});
    }
  };
  poison(op->getAttrOfType<DenseI64ArrayAttr>(kDeadAttr), region, true);
  if (auto ranges = op->getAttrOfType<DenseI64ArrayAttr>(kDeadTransientAttr)) {
    int64_t start = getPlannedMemory(shared.module, "transient_offset");
    poison(ranges, advance(base, start, false), false);
  }
}

LogicalResult FunctionLowering::lowerOp(Operation *op) {
  if (isa<tensor::DimOp, arith::ConstantOp, nn::SetGradientOp, func::ReturnOp>(
          op) ||
      lowerZero(op))
    return success();
  if (isa<nn::GetParameterOp, nn::GetGradientOp>(op)) {
    lowerParameter(op);
    return success();
  }
  bindResults(op);
  if (auto call = dyn_cast<func::CallOp>(op))
    return lowerCall(call);
  if (std::optional<PoplarGemm> gemm = getGemm(op)) {
    lowerGemm(op, *gemm);
    return success();
  }
  if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
    // The kernel's tiles lie on its stack.
    if (attention.getHeadDim() > POPLAR_MAX_HEAD_DIM)
      return attention.emitOpError("has heads of ")
             << attention.getHeadDim() << " elements; the kernel takes at most "
             << POPLAR_MAX_HEAD_DIM;
    lowerAttention(attention);
    return success();
  }
  if (auto attention = dyn_cast<nn::AttentionGradOp>(op)) {
    lowerAttentionGrad(attention);
    return success();
  }
  if (auto embedding = dyn_cast<nn::EmbeddingGradOp>(op)) {
    lowerEmbeddingGrad(embedding);
    return success();
  }
  return op->emitOpError("cannot be lowered: it is neither in a kernel nor a "
                         "call of the runtime");
}

LogicalResult FunctionLowering::run() {
  bool isUnit = source->hasAttr(nn::kUnitAttr);
  bool isTurn = source->hasAttr(zero::kTurnAttr);
  SmallVector<Type> types = {shared.pointer, shared.pointer, shared.i64};
  if (isTurn)
    types.insert(types.begin() + 2, shared.pointer);
  auto terminator =
      cast<func::ReturnOp>(source.getBody().front().getTerminator());
  SmallVector<Value> outputs;
  if (isUnit) {
    types.append(source.getNumArguments(), shared.pointer);
    for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
      if (getInPlaceArgument(source, index))
        continue;
      auto result = dyn_cast<OpResult>(value);
      if (!result || llvm::is_contained(outputs, value) ||
          getInPlaceOperand(result.getOwner(), result.getResultNumber(),
                            shared.tables))
        return terminator.emitOpError("operand #")
               << index << " has no buffer of its own";
      outputs.push_back(value);
      types.push_back(shared.pointer);
    }
  }
  builder.setInsertionPoint(source);
  std::string name = source.getName().str() + (isUnit ? ".call" : ".step");
  auto target = func::FuncOp::create(
      builder, loc, name, FunctionType::get(builder.getContext(), types, {}));
  entry = target.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  context = entry->getArgument(0);
  base = region = entry->getArgument(1);
  batch = entry->getArgument(isTurn ? 3 : 2);
  if (isTurn) {
    region = advance(base, getPlannedMemory(shared.module, "fixed"), false);
    bindTurn(entry->getArgument(2));
  } else if (isUnit) {
    target.setPrivate();
    unsigned next = 3;
    for (Value argument : source.getArguments())
      pointers[argument] = entry->getArgument(next++);
    for (Value output : outputs)
      pointers[output] = entry->getArgument(next++);
  } else {
    region = advance(base, getPlannedMemory(shared.module, "fixed"), false);
    auto inputs = source->getAttrOfType<DenseI64ArrayAttr>(kInputOffsetsAttr);
    for (auto [argument, offset] :
         llvm::zip_equal(source.getArguments(), inputs.asArrayRef()))
      pointers[argument] = advance(region, offset, true);
  }

  for (Operation &op : source.getBody().front()) {
    if (failed(lowerOp(&op)))
      return failure();
    trapDeadRanges(&op);
  }
  func::ReturnOp::create(builder, loc);
  return success();
}
