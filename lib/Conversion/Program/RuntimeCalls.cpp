//===- RuntimeCalls.cpp - nn ops that run as calls ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/RuntimeCalls.h"
#include "Poplar/Conversion/GPU/GPUKernels.h"
#include "Poplar/Dialect/Exec/ExecExperts.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Runtime/LibraryAttention.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace poplar;
using exec::Epilogue;

namespace {

using GetBuffer = llvm::function_ref<Value(Value)>;

/// What all models share; `Derived` has `emit(op, builder, getBuffer)`, with a
/// buffer behind these if it has a `scratchType(op)`.
template <typename Derived, typename Op>
struct RuntimeCallModel
    : exec::RuntimeCallOpInterface::ExternalModel<Derived, Op> {
  OpOperand *getAccumulator(Operation *op, unsigned index) const {
    return Derived::accumulator(cast<Op>(op), index);
  }
  RankedTensorType getScratchType(Operation *op) const {
    return Derived::scratchType(cast<Op>(op));
  }
  void emitCalls(Operation *op, OpBuilder &builder, GetBuffer getBuffer,
                 Value scratch) const {
    if constexpr (std::is_invocable_v<decltype(Derived::emit), Op, OpBuilder &,
                                      GetBuffer, Value>)
      Derived::emit(cast<Op>(op), builder, getBuffer, scratch);
    else
      Derived::emit(cast<Op>(op), builder, getBuffer);
  }
  static OpOperand *accumulator(Op, unsigned) { return nullptr; }
  static RankedTensorType scratchType(Op) { return {}; }
};

bool roundsToTF32(Operation *op, Value operand) {
  return getElementTypeOrSelf(operand).isF32() &&
         zero::ProgramInfo::get(op->getParentOfType<ModuleOp>()).precision ==
             NumberFormat::TF32;
}

/// Products of x with a weight.
template <typename Op>
void emitLinear(Op op, OpBuilder &builder, Value x, Value weight, Value bias,
                Value aux, Value result, Epilogue epilogue) {
  exec::ProductOp::create(builder, op.getLoc(), x, weight, bias, aux, result,
                          op.getLayout() == nn::WeightLayout::OutIn, epilogue,
                          roundsToTF32(op, op.getX()),
                          op.getFp8() &&
                              nn::fitsFP8(op.getX(), op.getResult()));
}

struct LinearModel : RuntimeCallModel<LinearModel, nn::LinearOp> {
  static void emit(nn::LinearOp op, OpBuilder &builder, GetBuffer getBuffer) {
    emitLinear(op, builder, getBuffer(op.getX()), getBuffer(op.getWeight()),
               getBuffer(op.getBias()), {}, getBuffer(op.getResult()),
               Epilogue::Store);
  }
};

struct LinearGeluModel : RuntimeCallModel<LinearGeluModel, nn::LinearGeluOp> {
  static void emit(nn::LinearGeluOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    emitLinear(op, builder, getBuffer(op.getX()), getBuffer(op.getWeight()),
               getBuffer(op.getBias()), getBuffer(op.getPre()),
               getBuffer(op.getResult()),
               op.getPre() ? Epilogue::GeluAux : Epilogue::Gelu);
  }
};

struct LinearGeluGradModel
    : RuntimeCallModel<LinearGeluGradModel, nn::LinearGeluGradOp> {
  static void emit(nn::LinearGeluGradOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    emitLinear(op, builder, getBuffer(op.getX()), getBuffer(op.getWeight()), {},
               getBuffer(op.getPre()), getBuffer(op.getResult()),
               Epilogue::GeluGrad);
  }
};

/// dy^T x, or x^T dy where the weight is stored the other way.
template <typename Op>
void emitWeightGradient(Op op, OpBuilder &builder, GetBuffer getBuffer,
                        Value aux, Epilogue ofDy, Epilogue ofDyBehind) {
  Value a = op.getDy(), b = op.getX();
  bool outIn = op.getLayout() == nn::WeightLayout::OutIn;
  if (!outIn)
    std::swap(a, b);
  exec::ProductOp::create(builder, op.getLoc(), getBuffer(a), getBuffer(b), {},
                          aux, getBuffer(op.getResult()), /*transB=*/false,
                          outIn ? ofDy : ofDyBehind, roundsToTF32(op, a),
                          /*fp8=*/false);
}

struct LinearGradWeightModel
    : RuntimeCallModel<LinearGradWeightModel, nn::LinearGradWeightOp> {
  static OpOperand *accumulator(nn::LinearGradWeightOp op, unsigned) {
    return &op.getAccMutable();
  }
  static void emit(nn::LinearGradWeightOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    emitWeightGradient(op, builder, getBuffer, {}, Epilogue::Store,
                       Epilogue::Store);
  }
};

struct LinearGradWeightBiasModel
    : RuntimeCallModel<LinearGradWeightBiasModel, nn::LinearGradWeightBiasOp> {
  static OpOperand *accumulator(nn::LinearGradWeightBiasOp op, unsigned index) {
    return index == 0 ? &op.getAccMutable() : &op.getBiasAccMutable();
  }
  static void emit(nn::LinearGradWeightBiasOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    emitWeightGradient(op, builder, getBuffer, getBuffer(op.getBiasAcc()),
                       Epilogue::BiasGradA, Epilogue::BiasGradB);
  }
};

/// What of an attention decides whether a library computes it.
template <typename Op> PoplarAttention outlineAttention(Op op) {
  auto q = cast<RankedTensorType>(op.getQ().getType());
  PoplarAttention desc = {};
  desc.seq_len = q.getDimSize(1);
  desc.num_heads = int64_t(op.getNumHeads());
  desc.num_kv_heads = int64_t(op.getNumKvHeads());
  desc.head_dim = op.getHeadDim();
  desc.window = int64_t(op.getWindow());
  desc.dropout = op.getKeys() ? op.getDropout().convertToDouble() : 0.0;
  desc.cap = op.getCap().convertToDouble();
  desc.causal = op.getCausal();
  desc.documents = op.getPositions() != nullptr;
  desc.type = exec::getPoplarType(q.getElementType());
  return desc;
}

template <typename Op> bool isLibraryAttention(Op op) {
  return op->template getParentOfType<ModuleOp>()->hasAttr(
             exec::kLibraryAttentionAttr) &&
         explainOwnAttention(outlineAttention(op)).empty();
}

struct AttentionModel : RuntimeCallModel<AttentionModel, nn::AttentionOp> {
  static void emit(nn::AttentionOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::AttentionOp::create(
        builder, op.getLoc(), getBuffer(op.getQ()), getBuffer(op.getK()),
        getBuffer(op.getV()), getBuffer(op.getKeys()),
        getBuffer(op.getPositions()), getBuffer(op.getResult()),
        getBuffer(op.getLse()), op.getNumHeads(), op.getNumKvHeads(),
        op.getScale(), op.getCausal(), op.getWindow(), op.getDropout(),
        op.getOpId(), op.getFirstHead(), op.getCap(), isLibraryAttention(op));
    if (op.getSinks())
      exec::AttentionSinksOp::create(
          builder, op.getLoc(), getBuffer(op.getResult()),
          getBuffer(op.getLse()), getBuffer(op.getSinks()));
  }
};

struct AttentionGradModel
    : RuntimeCallModel<AttentionGradModel, nn::AttentionGradOp> {
  /// On GPUs, one kernel tells the other a number for each row. A library takes
  /// more.
  static RankedTensorType scratchType(nn::AttentionGradOp op) {
    if (isLibraryAttention(op)) {
      PoplarAttention desc = outlineAttention(op);
      return RankedTensorType::get(
          {ShapedType::kDynamic, poplar_attention_workspace(&desc) / 4},
          Float32Type::get(op.getContext()));
    }
    auto info = zero::ProgramInfo::get(op->getParentOfType<ModuleOp>());
    return StringRef(info.target).starts_with("host")
               ? RankedTensorType()
               : cast<RankedTensorType>(op.getLse().getType());
  }
  static void emit(nn::AttentionGradOp op, OpBuilder &builder,
                   GetBuffer getBuffer, Value scratch) {
    exec::AttentionGradOp::create(
        builder, op.getLoc(), getBuffer(op.getDy()), getBuffer(op.getOut()),
        getBuffer(op.getLse()), getBuffer(op.getQ()), getBuffer(op.getK()),
        getBuffer(op.getV()), getBuffer(op.getKeys()),
        getBuffer(op.getPositions()), scratch, getBuffer(op.getDq()),
        getBuffer(op.getDk()), getBuffer(op.getDv()), op.getNumHeads(),
        op.getNumKvHeads(), op.getScale(), op.getCausal(), op.getWindow(),
        op.getDropout(), op.getOpId(), op.getFirstHead(), op.getCap(),
        isLibraryAttention(op));
  }
};

struct CachedAttentionModel
    : RuntimeCallModel<CachedAttentionModel, nn::CachedAttentionOp> {
  static OpOperand *accumulator(nn::CachedAttentionOp op, unsigned index) {
    if (index == 0)
      return nullptr;
    return index == 1 ? &op.getKeyCacheMutable() : &op.getValueCacheMutable();
  }
  static void emit(nn::CachedAttentionOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::CachedAttentionOp::create(
        builder, op.getLoc(), getBuffer(op.getQ()), getBuffer(op.getK()),
        getBuffer(op.getV()), getBuffer(op.getPositions()),
        getBuffer(op.getKeyCache()), getBuffer(op.getValueCache()),
        getBuffer(op.getSinks()), getBuffer(op.getResult()), op.getNumHeads(),
        op.getNumKvHeads(), op.getScale(), op.getWindow(), op.getCap());
  }
};

struct EmbeddingGradModel
    : RuntimeCallModel<EmbeddingGradModel, nn::EmbeddingGradOp> {
  static OpOperand *accumulator(nn::EmbeddingGradOp op, unsigned) {
    return &op.getAccMutable();
  }
  static void emit(nn::EmbeddingGradOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::EmbeddingGradOp::create(builder, op.getLoc(), getBuffer(op.getDy()),
                                  getBuffer(op.getIds()),
                                  getBuffer(op.getResult()),
                                  op.getPaddingIdxAttr(), op.getFirstRowAttr());
  }
};

struct ExpertBiasGradModel
    : RuntimeCallModel<ExpertBiasGradModel, nn::ExpertBiasGradOp> {
  static OpOperand *accumulator(nn::ExpertBiasGradOp op, unsigned) {
    return &op.getAccMutable();
  }
  static void emit(nn::ExpertBiasGradOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::EmbeddingGradOp::create(
        builder, op.getLoc(), getBuffer(op.getDy()), getBuffer(op.getExperts()),
        getBuffer(op.getResult()), /*padding_idx=*/nullptr,
        /*first_row=*/nullptr);
  }
};

struct RouteModel : RuntimeCallModel<RouteModel, nn::RouteOp> {
  static void emit(nn::RouteOp op, OpBuilder &builder, GetBuffer getBuffer) {
    exec::RouteOp::create(builder, op.getLoc(), getBuffer(op.getLogits()),
                          getBuffer(op.getScores()), getBuffer(op.getExperts()),
                          op.getBias() ? getBuffer(op.getBias()) : Value(),
                          op.getTopK(), op.getGroups(), op.getTopGroups(),
                          op.getSigmoid(), op.getNormalized());
  }
};

struct RouteGradModel : RuntimeCallModel<RouteGradModel, nn::RouteGradOp> {
  static void emit(nn::RouteGradOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    Value experts = getBuffer(op.getExperts()),
          logits = getBuffer(op.getLogits());
    int64_t topK = op.getExperts().getType().getDimSize(1) /
                   op.getLogits().getType().getDimSize(1);
    exec::RouteGradOp::create(builder, op.getLoc(), getBuffer(op.getDscores()),
                              getBuffer(op.getScores()), experts, logits,
                              getBuffer(op.getResult()), topK, op.getSigmoid(),
                              op.getNormalized());
  }
};

SmallVector<Value> getBuffers(ValueRange values, GetBuffer getBuffer) {
  return llvm::map_to_vector(values, getBuffer);
}

struct ExpertLinearModel
    : RuntimeCallModel<ExpertLinearModel, nn::ExpertLinearOp> {
  static void emit(nn::ExpertLinearOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::ExpertProductOp::create(
        builder, op.getLoc(), getBuffer(op.getX()), getBuffer(op.getExperts()),
        getBuffers(op.getWeights(), getBuffer), getBuffer(op.getResult()),
        op.getLayout() == nn::WeightLayout::OutIn);
  }
};

struct ExpertLinearGradWeightModel
    : RuntimeCallModel<ExpertLinearGradWeightModel,
                       nn::ExpertLinearGradWeightOp> {
  static OpOperand *accumulator(nn::ExpertLinearGradWeightOp op,
                                unsigned index) {
    return &op.getAccMutable()[index];
  }
  static void emit(nn::ExpertLinearGradWeightOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::ExpertWeightGradOp::create(
        builder, op.getLoc(), getBuffer(op.getDy()), getBuffer(op.getX()),
        getBuffer(op.getExperts()), getBuffers(op.getWeights(), getBuffer));
  }
};

struct GatherTokensModel
    : RuntimeCallModel<GatherTokensModel, zero::GatherTokensOp> {
  static void emit(zero::GatherTokensOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    exec::ExchangeOp::create(
        builder, op.getLoc(), zero::ExchangeKind::GatherTokens, op.getBounds(),
        getBuffer(op.getTokens()), getBuffer(op.getResult()));
  }
};

struct ExchangeModel : RuntimeCallModel<ExchangeModel, zero::ExchangeOp> {
  static void emit(zero::ExchangeOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    SmallVector<Value> results;
    for (Value result : op.getResults())
      results.push_back(getBuffer(result));
    exec::ExchangeOp::create(builder, op.getLoc(), op.getKind(), op.getBounds(),
                             getBuffer(op.getValue()), results);
  }
};

struct StartExchangeModel
    : RuntimeCallModel<StartExchangeModel, zero::StartExchangeOp> {
  static void emit(zero::StartExchangeOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    SmallVector<Value> results;
    for (Value result : op.getResults())
      results.push_back(getBuffer(result));
    exec::StartExchangeOp::create(
        builder, op.getLoc(), exec::TokenType::get(builder.getContext()),
        op.getKind(), op.getBounds(), op.getPosition(), IntegerAttr(),
        /*piece=*/0, op.getPieces(), op.getChained(), getBuffer(op.getValue()),
        results);
  }
};

struct WaitExchangeModel
    : RuntimeCallModel<WaitExchangeModel, zero::WaitExchangeOp> {
  /// What has arrived stays where it is.
  static OpOperand *accumulator(zero::WaitExchangeOp op, unsigned index) {
    return &op->getOpOperand(index);
  }
  static void emit(zero::WaitExchangeOp op, OpBuilder &builder,
                   GetBuffer getBuffer) {
    for (Operation *user : getBuffer(op.getStarted().front()).getUsers())
      if (auto start = dyn_cast<exec::StartExchangeOp>(user);
          start && start.getToken().use_empty())
        exec::WaitExchangeOp::create(builder, op.getLoc(), start.getToken());
  }
};

} // namespace

bool poplar::isProductOfTokens(Operation *op) {
  return isa<nn::LinearOp, nn::LinearGeluOp, nn::LinearGeluGradOp,
             nn::LinearGradWeightOp, nn::LinearGradWeightBiasOp>(op);
}

void poplar::registerRuntimeCalls(DialectRegistry &registry) {
  registry.insert<exec::ExecDialect>();
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    nn::LinearOp::attachInterface<LinearModel>(*context);
    nn::LinearGeluOp::attachInterface<LinearGeluModel>(*context);
    nn::LinearGeluGradOp::attachInterface<LinearGeluGradModel>(*context);
    nn::LinearGradWeightOp::attachInterface<LinearGradWeightModel>(*context);
    nn::LinearGradWeightBiasOp::attachInterface<LinearGradWeightBiasModel>(
        *context);
    nn::AttentionOp::attachInterface<AttentionModel>(*context);
    nn::AttentionGradOp::attachInterface<AttentionGradModel>(*context);
    nn::CachedAttentionOp::attachInterface<CachedAttentionModel>(*context);
    nn::EmbeddingGradOp::attachInterface<EmbeddingGradModel>(*context);
    nn::ExpertBiasGradOp::attachInterface<ExpertBiasGradModel>(*context);
    nn::RouteOp::attachInterface<RouteModel>(*context);
    nn::RouteGradOp::attachInterface<RouteGradModel>(*context);
    nn::ExpertLinearOp::attachInterface<ExpertLinearModel>(*context);
    nn::ExpertLinearGradWeightOp::attachInterface<ExpertLinearGradWeightModel>(
        *context);
  });
  registry.insert<zero::ZeroDialect>();
  registry.addExtension(+[](MLIRContext *context, zero::ZeroDialect *) {
    zero::GatherTokensOp::attachInterface<GatherTokensModel>(*context);
    zero::ExchangeOp::attachInterface<ExchangeModel>(*context);
    zero::StartExchangeOp::attachInterface<StartExchangeModel>(*context);
    zero::WaitExchangeOp::attachInterface<WaitExchangeModel>(*context);
  });
}
