//===- RecurrentCalls.cpp - Calls of linear attention ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From nn ops to calls on buffers, and from these to calls of the kernel
// library.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/FunctionLowering.h"
#include "Poplar/Conversion/Program/RuntimeCalls.h"
#include "Poplar/Dialect/Exec/ExecRecurrent.h"
#include "Poplar/Dialect/NN/NNRecurrentOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;

using GetBuffer = llvm::function_ref<Value(Value)>;

//===----------------------------------------------------------------------===//
// Calls on buffers
//===----------------------------------------------------------------------===//

static void emit(nn::CausalConvOp op, OpBuilder &builder, GetBuffer get) {
  exec::CausalConvOp::create(builder, op.getLoc(), get(op.getX()),
                             get(op.getWeight()), get(op.getPositions()),
                             /*cache=*/Value(), get(op.getResult()));
}
static void emit(nn::CachedCausalConvOp op, OpBuilder &builder, GetBuffer get) {
  exec::CausalConvOp::create(builder, op.getLoc(), get(op.getX()),
                             get(op.getWeight()), get(op.getPositions()),
                             get(op.getCache()), get(op.getResult()));
}
static void emit(nn::CausalConvGradOp op, OpBuilder &builder, GetBuffer get) {
  exec::CausalConvGradOp::create(builder, op.getLoc(), get(op.getDy()),
                                 get(op.getWeight()), get(op.getPositions()),
                                 get(op.getResult()));
}
static void emit(nn::CausalConvGradWeightOp op, OpBuilder &builder,
                 GetBuffer get) {
  exec::CausalConvGradWeightOp::create(builder, op.getLoc(), get(op.getDy()),
                                       get(op.getX()), get(op.getPositions()),
                                       get(op.getResult()));
}

template <typename Op>
static void emitDelta(Op op, OpBuilder &builder, GetBuffer get, Value state) {
  exec::GatedDeltaOp::create(
      builder, op.getLoc(), get(op.getX()), get(op.getA()), get(op.getB()),
      get(op.getALog()), get(op.getDtBias()), get(op.getPositions()), state,
      get(op.getResult()), op.getKeyHeads(), op.getValueHeads());
}
static void emit(nn::GatedDeltaOp op, OpBuilder &builder, GetBuffer get) {
  emitDelta(op, builder, get, {});
}
static void emit(nn::CachedGatedDeltaOp op, OpBuilder &builder, GetBuffer get) {
  emitDelta(op, builder, get, get(op.getState()));
}
static void emit(nn::GatedDeltaGradOp op, OpBuilder &builder, GetBuffer get) {
  exec::GatedDeltaGradOp::create(
      builder, op.getLoc(), get(op.getDy()), get(op.getX()), get(op.getA()),
      get(op.getB()), get(op.getALog()), get(op.getDtBias()),
      get(op.getPositions()), get(op.getDx()), get(op.getDa()), get(op.getDb()),
      get(op.getDlog()), get(op.getScratch()), op.getKeyHeads(),
      op.getValueHeads());
}

/// What a result is accumulated into.
template <typename Op> static OpOperand *accumulator(Op, unsigned) {
  return nullptr;
}
static OpOperand *accumulator(nn::CachedCausalConvOp op, unsigned index) {
  return index == 0 ? nullptr : &op.getCacheMutable();
}
static OpOperand *accumulator(nn::CachedGatedDeltaOp op, unsigned index) {
  return index == 0 ? nullptr : &op.getStateMutable();
}
static OpOperand *accumulator(nn::CausalConvGradWeightOp op, unsigned) {
  return &op.getAccMutable();
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

static int64_t getElementBytes(int32_t type) {
  return type == POPLAR_F32 ? 4 : 2;
}

/// `rows` arrays of the shape of x are read or written; filters `accesses`
/// times, of `filterWidth` bytes an element. A part has `channels` channels.
template <typename Op>
static void lowerConv(Op op, FunctionLowering &l, StringRef name,
                      ArrayRef<Value> arguments, int64_t filterBytes,
                      bool perToken, bool batched) {
  PoplarCausalConv desc = op.getDescriptor();
  if (!l.shared.gpuKernels.exists()) {
    StringRef kernel = l.wrap(("poplar_" + name).str(),
                              l.shared.getStruct("causal_conv", desc));
    return l.dispatch(l.addressOf(kernel), arguments,
                      llvm::divideCeil(desc.channels, POPLAR_CONV_CHANNELS),
                      batched, /*grain=*/1);
  }
  int64_t elements = desc.seq_len * desc.channels;
  GPUKernelCost cost;
  cost.bytes = filterBytes * desc.channels * desc.width;
  cost.bytesPerSample = 2 * elements * getElementBytes(desc.type);
  cost.flopsPerSample = 2 * elements * desc.width;
  bool isCached = desc.tokens == POPLAR_NEW_TOKENS;
  int64_t kernel = l.shared.gpuKernels.add(
      ("poplar_gpu_" + name + (isCached ? "_cached" : "")).str(),
      l.shared.getDescriptor(desc), {POPLAR_GPU_CONV_THREADS, 1, 1},
      static_cast<int32_t>(arguments.size()), cost);
  l.launch(kernel, arguments,
           (perToken && !isCached ? desc.seq_len : 1) *
               llvm::divideCeil(desc.channels, POPLAR_GPU_CONV_THREADS),
           batched);
}

static void lower(exec::CausalConvOp op, FunctionLowering &l) {
  lowerConv(op, l, "causal_conv",
            l.pointersOf({op.getX(), op.getWeight(), op.getPositions(),
                          op.getCache(), op.getResult()}),
            getElementBytes(op.getDescriptor().type), /*perToken=*/true,
            /*batched=*/true);
}
static void lower(exec::CausalConvGradOp op, FunctionLowering &l) {
  lowerConv(op, l, "causal_conv_grad",
            l.pointersOf({op.getDy(), op.getWeight(), op.getPositions(),
                          op.getResult()}),
            getElementBytes(op.getDescriptor().type), /*perToken=*/true,
            /*batched=*/true);
}
static void lower(exec::CausalConvGradWeightOp op, FunctionLowering &l) {
  lowerConv(
      op, l, "causal_conv_grad_weight",
      l.pointersOf({op.getDy(), op.getX(), op.getPositions(), op.getAcc()}),
      2 * sizeof(float), /*perToken=*/false, /*batched=*/false);
}

//===----------------------------------------------------------------------===//
// The gated delta rule
//===----------------------------------------------------------------------===//

/// Rows of x and `rows` of the result; `flops` for each element of a state and
/// each token; `scratch` floats more.
static GPUKernelCost getCost(const PoplarGatedDelta &desc, int64_t inputs,
                             int64_t results, int64_t flops, int64_t scratch) {
  int64_t values = desc.value_heads * desc.value_dim,
          columns = 2 * desc.key_heads * desc.key_dim + values;
  GPUKernelCost cost;
  cost.bytesPerSample =
      desc.seq_len *
          (inputs * (columns + 2 * desc.value_heads) + results * values) *
          getElementBytes(desc.type) +
      scratch * int64_t(sizeof(float));
  cost.flopsPerSample = flops * desc.seq_len * values * desc.key_dim;
  return cost;
}

/// Parts, of a block each on a GPU, are `parts` for each sample.
static void callDelta(FunctionLowering &l, StringRef name,
                      const PoplarGatedDelta &desc, ArrayRef<Value> arguments,
                      int64_t parts, GPUKernelCost cost) {
  if (!l.shared.gpuKernels.exists()) {
    StringRef kernel = l.wrap(("poplar_" + name).str(),
                              l.shared.getStruct("gated_delta", desc));
    return l.dispatch(l.addressOf(kernel), arguments, parts, /*batched=*/true,
                      /*grain=*/1);
  }
  int64_t kernel = l.shared.gpuKernels.add(
      ("poplar_gpu_" + name).str(), l.shared.getDescriptor(desc),
      {32, POPLAR_GPU_DELTA_WARPS, 1}, static_cast<int32_t>(arguments.size()),
      cost);
  l.launch(kernel, arguments, parts, /*batched=*/true);
}

static void lower(exec::GatedDeltaOp op, FunctionLowering &l) {
  PoplarGatedDelta desc = op.getDescriptor();
  int64_t state = desc.value_heads * desc.key_dim * desc.value_dim;
  callDelta(l, "gated_delta", desc,
            l.pointersOf({op.getX(), op.getA(), op.getB(), op.getALog(),
                          op.getDtBias(), op.getPositions(), op.getState(),
                          op.getResult()}),
            desc.value_heads,
            getCost(desc, 1, 1, 7, op.getState() ? 2 * state : 0));
}

static void lower(exec::GatedDeltaGradOp op, FunctionLowering &l) {
  PoplarGatedDelta desc = op.getDescriptor();
  int64_t scratch = poplar_delta_scratch(&desc),
          gradients = desc.value_heads * desc.seq_len * 2 * desc.key_dim;
  // States of each token are written and read once.
  int64_t states =
      2 * desc.value_heads * desc.seq_len * poplar_delta_state(&desc);
  callDelta(
      l, "gated_delta_grad", desc,
      l.pointersOf({op.getDy(), op.getX(), op.getA(), op.getB(), op.getALog(),
                    op.getDtBias(), op.getPositions(), op.getDx(), op.getDa(),
                    op.getDb(), op.getDlog(), op.getScratch()}),
      desc.value_heads, getCost(desc, 3, 2, 30, states + scratch));
  callDelta(l, "gated_delta_grad_keys", desc,
            l.pointersOf({op.getX(), op.getDx(), op.getScratch()}),
            desc.seq_len, getCost(desc, 2, 0, 0, gradients));
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {

template <typename Op>
struct RecurrentRuntimeCall
    : exec::RuntimeCallOpInterface::ExternalModel<RecurrentRuntimeCall<Op>,
                                                  Op> {
  OpOperand *getAccumulator(Operation *op, unsigned index) const {
    return accumulator(cast<Op>(op), index);
  }
  void emitCalls(Operation *op, OpBuilder &builder, GetBuffer getBuffer,
                 Value) const {
    emit(cast<Op>(op), builder, getBuffer);
  }
};

template <typename Op>
struct RecurrentProgramCall
    : exec::ProgramCallOpInterface::ExternalModel<RecurrentProgramCall<Op>,
                                                  Op> {
  void lowerCall(Operation *op, FunctionLowering &lowering) const {
    lower(cast<Op>(op), lowering);
  }
};

template <typename... Ops> void attachRuntimeCalls(MLIRContext &context) {
  (Ops::template attachInterface<RecurrentRuntimeCall<Ops>>(context), ...);
}
template <typename... Ops> void attachProgramCalls(MLIRContext &context) {
  (Ops::template attachInterface<RecurrentProgramCall<Ops>>(context), ...);
}

} // namespace

void poplar::registerRecurrentCalls(DialectRegistry &registry) {
  registry.insert<exec::ExecDialect>();
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    attachRuntimeCalls<nn::CausalConvOp, nn::CausalConvGradOp,
                       nn::CausalConvGradWeightOp, nn::CachedCausalConvOp,
                       nn::GatedDeltaOp, nn::GatedDeltaGradOp,
                       nn::CachedGatedDeltaOp>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, exec::ExecDialect *) {
    attachProgramCalls<exec::CausalConvOp, exec::CausalConvGradOp,
                       exec::CausalConvGradWeightOp, exec::GatedDeltaOp,
                       exec::GatedDeltaGradOp>(*context);
  });
}
