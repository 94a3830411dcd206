//===- Program.cpp - Steps of a planned function --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program.h"
#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;

std::optional<unsigned> poplar::getInPlaceArgument(func::FuncOp function,
                                                   unsigned index) {
  if (auto arg = function.getResultAttrOfType<IntegerAttr>(index, kInPlaceAttr))
    return arg.getInt();
  SmallVector<unsigned> gradients;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, nn::kGradientAttr))
      gradients.push_back(i);
  unsigned first = function.getNumResults() - gradients.size();
  if (index < first)
    return std::nullopt;
  return gradients[index - first];
}

OpOperand *poplar::getInPlaceOperand(Operation *op, unsigned index,
                                     SymbolTableCollection &symbols) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee =
        symbols.lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr());
    if (auto arg = getInPlaceArgument(callee, index))
      return &op->getOpOperand(*arg);
    return nullptr;
  }
  return TypeSwitch<Operation *, OpOperand *>(op)
      .Case<nn::LinearGradWeightOp, nn::EmbeddingGradOp>(
          [](auto grad) { return &grad.getAccMutable(); })
      .Case([&](nn::LinearGradWeightBiasOp grad) {
        return index == 0 ? &grad.getAccMutable() : &grad.getBiasAccMutable();
      })
      .Default([](Operation *) { return nullptr; });
}

int32_t poplar::getPoplarType(Type elementType) {
  if (elementType.isBF16())
    return POPLAR_BF16;
  return elementType.isF16() ? POPLAR_F16 : POPLAR_F32;
}

static int32_t getElementType(Value value) {
  return getPoplarType(
      cast<RankedTensorType>(value.getType()).getElementType());
}

static bool roundsToTF32(Operation *op, int32_t type) {
  return type == POPLAR_F32 &&
         zero::ProgramInfo::get(op->getParentOfType<ModuleOp>()).precision ==
             "tf32";
}

template <typename Op>
static PoplarGemm describeLinear(Op linear, bool hasBias,
                                 PoplarEpilogue epilogue) {
  PoplarGemm gemm = {};
  auto x = cast<RankedTensorType>(linear.getX().getType());
  auto y = cast<RankedTensorType>(linear.getResult().getType());
  gemm.m = x.getDimSize(1);
  gemm.n = y.getDimSize(2);
  gemm.k = x.getDimSize(2);
  gemm.batched = 1;
  gemm.trans_b = linear.getLayout() == nn::WeightLayout::OutIn;
  gemm.has_bias = hasBias;
  gemm.a_type = getElementType(linear.getX());
  gemm.b_type = getElementType(linear.getWeight());
  gemm.c_type = getElementType(linear.getResult());
  gemm.epilogue = epilogue;
  gemm.tf32 = roundsToTF32(linear, gemm.a_type);
  return gemm;
}

template <typename Op> static PoplarGemm describeWeightGradient(Op grad) {
  PoplarGemm gemm = {};
  auto acc = cast<RankedTensorType>(grad.getAcc().getType());
  bool outIn = grad.getLayout() == nn::WeightLayout::OutIn;
  gemm.m = acc.getDimSize(0);
  gemm.n = acc.getDimSize(1);
  gemm.k = cast<RankedTensorType>(grad.getX().getType()).getDimSize(1);
  gemm.batched = 2;
  gemm.trans_a = 1;
  gemm.accumulate = 1;
  gemm.a_type = getElementType(outIn ? grad.getDy() : grad.getX());
  gemm.b_type = getElementType(outIn ? grad.getX() : grad.getDy());
  gemm.c_type = POPLAR_F32;
  gemm.tf32 = roundsToTF32(grad, gemm.a_type);
  return gemm;
}

std::optional<PoplarGemm> poplar::getGemm(Operation *op) {
  if (auto linear = dyn_cast<nn::LinearOp>(op))
    return describeLinear(linear, linear.getBias() != nullptr, POPLAR_STORE);
  if (auto linear = dyn_cast<nn::LinearGeluOp>(op))
    return describeLinear(linear, true,
                          linear.getPre() ? POPLAR_GELU_AUX : POPLAR_GELU);
  if (auto linear = dyn_cast<nn::LinearGeluGradOp>(op))
    return describeLinear(linear, false, POPLAR_GELU_GRAD);
  if (auto grad = dyn_cast<nn::LinearGradWeightOp>(op))
    return describeWeightGradient(grad);
  if (auto grad = dyn_cast<nn::LinearGradWeightBiasOp>(op)) {
    PoplarGemm gemm = describeWeightGradient(grad);
    gemm.epilogue = grad.getLayout() == nn::WeightLayout::OutIn
                        ? POPLAR_BIAS_GRAD_A
                        : POPLAR_BIAS_GRAD_B;
    return gemm;
  }
  return std::nullopt;
}

int64_t poplar::getPlannedMemory(ModuleOp program, StringRef name) {
  return program->getAttrOfType<DictionaryAttr>(kMemoryAttr)
      .getAs<IntegerAttr>(name)
      .getInt();
}

int64_t poplar::getPlannedMemory(ModuleOp program, int64_t chunk,
                                 StringRef name) {
  auto chunks = program->getAttrOfType<DictionaryAttr>(kMemoryAttr)
                    .getAs<ArrayAttr>("chunks");
  return cast<DictionaryAttr>(chunks[chunk]).getAs<IntegerAttr>(name).getInt();
}

int64_t poplar::getPeakBytes(ModuleOp program, int64_t rank, int64_t batch) {
  int64_t fixed =
      getPlannedMemory(program, "fixed") + getShardBytes(program, rank);
  int64_t bytes;
  if (llvm::MulOverflow(batch,
                        getPlannedMemory(program, "per_sample") +
                            getTurnBytes(program, rank),
                        bytes) ||
      llvm::AddOverflow(fixed, bytes, bytes))
    return std::numeric_limits<int64_t>::max();
  return bytes;
}

/// As Runtime/ABI.h counts them.
int64_t poplar::getTurnBytes(ModuleOp program, int64_t rank) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  auto plans = program.getOps<zero::PlanOp>();
  if (!info.isPipelineStage() || plans.empty())
    return 0;
  static_assert(Timetable::messageBuffers == POPLAR_MESSAGE_BUFFERS);
  zero::PlanOp plan = *plans.begin();
  Timetable table = plan.getTimetable(plan.findPipeline(rank));
  const std::vector<Turn> &turns = table.stages[info.group];
  int64_t microBatches = int64_t(turns.size()) / (2 * info.numChunks),
          bytes = 0;
  for (int64_t chunk = 0; chunk < info.numChunks; ++chunk) {
    int64_t inFlight = Timetable::countInFlight(turns, chunk);
    auto count = [&](bool isKept) {
      return std::min<int64_t>(microBatches,
                               isKept ? inFlight + 1 : POPLAR_MESSAGE_BUFFERS);
    };
    auto planned = [&](StringRef name) {
      return getPlannedMemory(program, chunk, name);
    };
    bytes += inFlight * planned("slot_bytes") +
             count(true) * planned("activation_in_bytes") +
             count(planned("keeps_sent")) * planned("activation_out_bytes") +
             count(false) * planned("gradient_in_bytes") +
             count(false) * planned("gradient_out_bytes");
  }
  return bytes;
}

int64_t poplar::getShardBytes(ModuleOp program, int64_t rank) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  int64_t bytes = 0;
  SymbolTableCollection symbols;
  for (auto bucket : program.getOps<zero::BucketOp>()) {
    int64_t elements = zero::BucketLayout::get(bucket, symbols)->elements;
    if (!info.holds(bucket))
      continue;
    if (info.worldSize > 1 && info.getStage(bucket) > 0)
      elements = (*bucket.getBounds())[rank + 1] - (*bucket.getBounds())[rank];
    auto places = bucket->getAttrOfType<DenseI64ArrayAttr>(kPlacesAttr);
    auto add = [&](int64_t width) {
      bytes += llvm::alignTo(elements * width, POPLAR_ALIGNMENT);
    };
    bool isF32 = places[2] == POPLAR_F32;
    if (places[0] < 0)
      add(isF32 ? 4 : 2); // working copy
    if (!isF32)
      add(4); // master
    if (places[1] < 0)
      add(4); // gradient
    add(4);   // moments
    add(4);
  }
  return bytes;
}

BufferSize poplar::getBufferSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t elements = 1;
  bool batched = false;
  for (int64_t size : tensor.getShape()) {
    if (ShapedType::isDynamic(size))
      batched = true;
    else if (llvm::MulOverflow(elements, size, elements) ||
             elements > kLargestBuffer)
      return {std::numeric_limits<int64_t>::max(), batched};
  }
  int64_t bytes = elements * tensor.getElementTypeBitWidth() / 8;
  return {int64_t(llvm::alignTo(bytes, POPLAR_ALIGNMENT)), batched};
}
