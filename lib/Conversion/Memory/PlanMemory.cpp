//===- PlanMemory.cpp - Place every buffer in a static arena --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two levels. A unit's temporaries live in a scratch area that its caller
// gives it, planned once per unit; the steps (@train, @evaluate, @infer, ...)
// place the units' results and, for the time of each call, their scratch. All
// steps share one arena, whose inputs lie at the same offsets.
//
// Two regions. What scales with the batch is in the batch region; gathered
// parameters and the gradients of a micro-step (zero.all_gather,
// zero.gradients) come and go in the transient part of the fixed region.
//
// The turns of a pipeline stage have a third: what a micro-batch keeps from its
// forward to its backward pass through a chunk, inputs included, lies in a slot
// of that chunk, of which there are as many as micro-batches are in flight in
// it; what is sent and received lies in buffers of its own. Both are given to a
// turn by the runtime.
//
// Functions that sampling alone runs (--nn-add-decoding) may take more of the
// batch region than others, and their caches lie behind that. Only a program
// that samples has room for both: nothing in the memory of training depends on
// them.
//
// First every function is planned (FunctionPlan.h), then the fixed region is
// laid out; with all places known, functions of tensors become lists of calls
// on buffers (CallBuilder.h).
//
//===----------------------------------------------------------------------===//

#include "CallBuilder.h"
#include "Copies.h"
#include "FunctionPlan.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Conversion/Memory/Passes.h"
#include "Poplar/Conversion/Program/RuntimeCalls.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Runtime/FP8.h"
#include "Poplar/Runtime/Quantized.h"
#include "SplitProducts.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MathExtras.h"

namespace poplar {
#define GEN_PASS_DEF_PLANMEMORY
#include "Poplar/Conversion/Memory/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;
using exec::BufferSize;
using exec::getBufferSize;

namespace {

class PlanMemoryPass : public poplar::impl::PlanMemoryBase<PlanMemoryPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerRuntimeCalls(registry);
    registerProgramCalls(registry);
    registerRecurrentCalls(registry);
  }

  void runOnOperation() override;

private:
  LogicalResult sortFunctions();
  LogicalResult placeInputs(ArrayRef<func::FuncOp> steps, int64_t &end);
  LogicalResult planTurns(OpBuilder &builder);
  LogicalResult placeResiduals(ArrayRef<func::FuncOp> turns, int64_t chunk,
                               int64_t &end);
  void addChunk(OpBuilder &builder, ArrayRef<func::FuncOp> turns, int64_t chunk,
                int64_t slotBytes);
  LogicalResult findWorkingType();
  int64_t placeCaches();
  FailureOr<int64_t> getLibraryScratch();
  LogicalResult replaceOptimizer(OpBuilder &builder);
  void addArena(OpBuilder &builder, int64_t copyBytes, int64_t cacheBytes,
                int64_t scratchBytes);

  SmallVector<func::FuncOp> units, steps, updates;
  exec::OptimizerOp optimizer;
  /// Turns of a pipeline stage, by chunk.
  std::vector<SmallVector<func::FuncOp>> turns;
  SharedPlaces places;
  /// The most that any function takes: of the batch region, of transient
  /// memory, and of the batch region in sampling.
  int64_t perSample = 0, livePerSample = 0, transient = 0, liveTransient = 0,
          sampling = 0;
};

} // namespace

/// The role of a function that the runtime calls, which its name says; none of
/// any other.
static std::optional<nn::Entry> findRole(func::FuncOp function,
                                         const zero::ProgramInfo &info) {
  bool isTurn = function->hasAttr(zero::kTurnAttr);
  for (nn::Entry entry : listWords<nn::Entry>())
    if (entry != nn::Entry::Model &&
        function.getSymName() ==
            (isTurn ? info.getTurnName(entry, zero::getChunk(function))
                    : std::string(nn::getName(entry))))
      return entry;
  return std::nullopt;
}

LogicalResult PlanMemoryPass::sortFunctions() {
  ModuleOp module = getOperation();
  units.clear();
  steps.clear();
  updates.clear();
  auto optimizers = module.getOps<exec::OptimizerOp>();
  optimizer = optimizers.empty() ? exec::OptimizerOp() : *optimizers.begin();
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  turns.assign(info.numChunks, {});
  places = SharedPlaces();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      return function.emitOpError("has no body: its buffers cannot be planned");
    if (optimizer && optimizer.runs(function.getSymNameAttr())) {
      updates.push_back(function);
      continue;
    }
    if (function->hasAttr(nn::kUnitAttr)) {
      units.push_back(function);
      continue;
    }
    bool isTurn = function->hasAttr(zero::kTurnAttr);
    int64_t chunk = zero::getChunk(function);
    if (chunk >= int64_t(turns.size()))
      return function.emitOpError("is a turn of chunk ")
             << chunk << ", but the program has " << turns.size();
    std::optional<nn::Entry> role = findRole(function, info);
    if (!role)
      return function.emitOpError(
          "is neither a unit nor called by the runtime: mark it nn.unit, or "
          "name it by its role (train, evaluate, ...)");
    places.roles[function] = *role;
    (isTurn ? turns[chunk] : steps).push_back(function);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The fixed region
//===----------------------------------------------------------------------===//

/// The one type in which the steps read parameters.
LogicalResult PlanMemoryPass::findWorkingType() {
  Type working;
  WalkResult result = getOperation().walk([&](Operation *op) {
    if (!isa<nn::GetParameterOp, zero::AllGatherOp, zero::WaitOp>(op) ||
        op->getNumResults() == 0)
      return WalkResult::advance();
    Type type = getElementTypeOrSelf(op->getResult(0));
    if (nn::isQuantized(type))
      return WalkResult::advance();
    if (working && type != working) {
      op->emitOpError("reads parameters as ")
          << type << ", but elsewhere they are read as " << working;
      return WalkResult::interrupt();
    }
    working = type;
    return WalkResult::advance();
  });
  places.workingType = working ? cast<FloatType>(working)
                               : FloatType(Float32Type::get(&getContext()));
  return failure(result.wasInterrupted());
}

/// Places the caches, from 0 on; returns their end.
int64_t PlanMemoryPass::placeCaches() {
  int64_t end = 0;
  for (auto cache :
       llvm::make_early_inc_range(getOperation().getOps<nn::CacheOp>())) {
    places.caches[cache.getSymNameAttr()] = end;
    end += getBufferSize(cache.getType()).bytes;
    cache.erase();
  }
  return end;
}

/// What libraries need for any call of the program. Sampling gets what it needs
/// beyond from the runtime.
FailureOr<int64_t> PlanMemoryPass::getLibraryScratch() {
  if (workspaceBytes >= 0) {
    // In front of the library's is what products have dequantised, or rounded.
    int64_t bytes = 0;
    getOperation().walk([&](exec::ProductOp product) {
      PoplarGemm gemm = product.getDescriptor();
      bytes = std::max({bytes, poplar_dequantized_bytes(&gemm),
                        poplar_fp8_layout(&gemm).bytes});
    });
    return bytes + int64_t(workspaceBytes);
  }
  int64_t bytes = 0;
  WalkResult result =
      getOperation().walk([&](exec::ProgramCallOpInterface call) {
        if (call->getParentOfType<exec::FunctionOp>().getDecoding())
          return WalkResult::advance();
        FailureOr<int64_t> needed = call.getLibraryScratch(maxBatch, threads);
        if (failed(needed))
          return WalkResult::interrupt();
        bytes = std::max(bytes, *needed);
        return WalkResult::advance();
      });
  if (result.wasInterrupted())
    return failure();
  return bytes;
}

//===----------------------------------------------------------------------===//
// Inputs and turns
//===----------------------------------------------------------------------===//

/// Inputs lie at the same places in all steps. What a turn is handed over from
/// another, which follows them, is no input.
LogicalResult PlanMemoryPass::placeInputs(ArrayRef<func::FuncOp> steps,
                                          int64_t &end) {
  for (func::FuncOp step : steps) {
    SmallVector<int64_t> offsets;
    int64_t next = 0;
    for (BlockArgument argument : step.getArguments()) {
      BufferSize size = getBufferSize(argument.getType());
      if (!size.perSample)
        return step.emitOpError("has an argument without a batch dimension");
      if (size.bytes > exec::kLargestBuffer)
        return step.emitOpError(
            "has an argument of more than 2^40 bytes a sample");
      bool isHandedOver = llvm::any_of(
          ArrayRef<StringRef>{zero::kResidualAttr, zero::kReceivedAttr,
                              zero::kSentAttr},
          [&](StringRef name) {
            return step.getArgAttr(argument.getArgNumber(), name) != nullptr;
          });
      if (isHandedOver)
        continue;
      if (offsets.size() != argument.getArgNumber())
        return step.emitOpError(
            "has inputs after what another turn hands over");
      offsets.push_back(next);
      next += size.bytes;
    }
    places.inputs[step] = std::move(offsets);
    end = std::max(end, next);
  }
  return success();
}

/// What @forward keeps in a slot, behind the inputs, is where @backward finds
/// it.
LogicalResult PlanMemoryPass::placeResiduals(ArrayRef<func::FuncOp> turns,
                                             int64_t chunk, int64_t &end) {
  zero::ProgramInfo info = zero::ProgramInfo::get(getOperation());
  auto forward = getOperation().lookupSymbol<func::FuncOp>(
      info.getTurnName(nn::Entry::Forward, chunk));
  if (!forward || !forward->hasAttr(zero::kTurnAttr))
    return success();
  const SmallVector<int64_t> &inputs = places.inputs[forward];
  DenseMap<Value, int64_t> placed;
  for (auto [argument, offset] : llvm::zip(forward.getArguments(), inputs))
    placed[argument] = offset;
  for (OpOperand &operand : forward.front().getTerminator()->getOpOperands()) {
    if (!forward.getResultAttr(operand.getOperandNumber(), zero::kResidualAttr))
      continue;
    BufferSize size = getBufferSize(operand.get().getType());
    if (!size.perSample || operand.get().getDefiningOp<zero::ReceiveOp>())
      return forward.emitOpError("result #")
             << operand.getOperandNumber()
             << " cannot be kept for the backward pass: it has no batch "
                "dimension, or lies in the buffer of a message";
    auto [entry, isNew] = placed.insert({operand.get(), end});
    if (isNew)
      end += size.bytes;
    places.residuals[chunk].push_back(entry->second);
  }
  return success();
}

/// Bytes of a sample, exactly: devices that share units exchange parts of a
/// message with another stage, by its tokens.
static int64_t getMessageBytes(Type type) {
  auto shaped = cast<ShapedType>(type);
  int64_t bits = shaped.getElementTypeBitWidth();
  for (int64_t size : shaped.getShape())
    bits *= ShapedType::isDynamic(size) ? 1 : size;
  return bits / 8;
}

/// The messages of a micro-batch, per sample; 0 of those there are none of.
void PlanMemoryPass::addChunk(OpBuilder &builder, ArrayRef<func::FuncOp> turns,
                              int64_t chunk, int64_t slotBytes) {
  int64_t bytes[2][2] = {}; // by kind, and whether it is sent
  bool keepsSent = false;
  for (func::FuncOp turn : turns) {
    auto add = [&](zero::MessageKind kind, bool sends, Value value) {
      int64_t &most = bytes[int(kind)][sends];
      most = std::max(most, getMessageBytes(value.getType()));
    };
    for (auto send : turn.getOps<zero::SendOp>())
      add(send.getKind(), true, send.getValue());
    for (auto receive : turn.getOps<zero::ReceiveOp>())
      add(receive.getKind(), false, receive.getValue());
    for (unsigned i = 0; i < turn.getNumArguments(); ++i)
      keepsSent |= turn.getArgAttr(i, zero::kSentAttr) != nullptr;
  }
  exec::ChunkOp::create(builder, builder.getUnknownLoc(), chunk, slotBytes,
                        bytes[0][0], bytes[0][1], keepsSent, bytes[1][0],
                        bytes[1][1]);
}

/// Places what the turns of each chunk are given.
LogicalResult PlanMemoryPass::planTurns(OpBuilder &builder) {
  if (!zero::ProgramInfo::get(getOperation()).isPipelineStage())
    return success();
  places.residuals.resize(turns.size());
  for (auto [chunk, list] : llvm::enumerate(turns)) {
    int64_t slotBytes = 0;
    if (failed(placeInputs(list, slotBytes)) ||
        failed(placeResiduals(list, chunk, slotBytes)))
      return failure();
    addChunk(builder, list, chunk, slotBytes);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The functions of the optimizer are one kernel each, which the runtime calls
/// itself.
LogicalResult PlanMemoryPass::replaceOptimizer(OpBuilder &builder) {
  if (!optimizer)
    return success();
  FlatSymbolRefAttr update = optimizer.getUpdateAttr(),
                    round = optimizer.getRoundAttr();
  for (func::FuncOp function : updates) {
    auto dispatches = function.getOps<exec::DispatchOp>();
    if (!llvm::hasSingleElement(dispatches))
      return function.emitOpError("is not one kernel of the optimizer");
    bool isUpdate = update.getAttr() == function.getSymNameAttr();
    (isUpdate ? update : round) = (*dispatches.begin()).getKernelAttr();
  }
  exec::OptimizerOp::create(builder, optimizer.getLoc(), update, round);
  optimizer.erase();
  return success();
}

void PlanMemoryPass::addArena(OpBuilder &builder, int64_t copyBytes,
                              int64_t cacheBytes, int64_t scratchBytes) {
  ModuleOp module = getOperation();
  builder.setInsertionPointToStart(module.getBody());
  auto toAttr = [&](int64_t bytes) { return builder.getI64IntegerAttr(bytes); };
  IntegerAttr caches, samplingPerSample;
  if (sampling) {
    sampling = std::max(sampling, perSample);
    caches = toAttr(sampling);
    samplingPerSample = toAttr(sampling + cacheBytes);
  }
  // The fixed region: copies, transient memory, scratch.
  int64_t scratchOffset =
      copyBytes + llvm::alignTo(transient, POPLAR_ALIGNMENT);
  int64_t fixed = scratchOffset + llvm::alignTo(scratchBytes, POPLAR_ALIGNMENT);
  remark::analysis(module.getLoc(),
                   remark::RemarkOpts::name("Arena").category("plan-memory"))
      << remark::metric("FixedBytes", fixed)
      << remark::metric("CopiesBytes", copyBytes)
      << remark::metric("TransientBytes", transient)
      << remark::metric("ScratchBytes", scratchBytes)
      << remark::metric("BytesPerSample", perSample)
      << remark::metric("LiveBytesPerSample", livePerSample);
  exec::ArenaOp::create(builder, module.getLoc(), toAttr(fixed),
                        toAttr(perSample), toAttr(livePerSample),
                        toAttr(copyBytes), toAttr(transient),
                        toAttr(liveTransient), toAttr(scratchOffset),
                        toAttr(scratchBytes), caches, samplingPerSample);
}

void PlanMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  OpBuilder builder(&getContext());
  if (libraryAttention)
    module->setAttr(exec::kLibraryAttentionAttr, builder.getUnitAttr());
  auto forget = llvm::make_scope_exit(
      [&] { module->removeAttr(exec::kLibraryAttentionAttr); });
  if (failed(sortFunctions()) || failed(findWorkingType()))
    return signalPassFailure();

  builder.setInsertionPointToStart(module.getBody());
  // The steps' inputs: the longest list of them is @train's.
  int64_t reserved = 0;
  if (failed(placeInputs(steps, reserved)) || failed(planTurns(builder)))
    return signalPassFailure();
  for (ArrayRef<func::FuncOp> list : turns)
    llvm::append_range(steps, list);

  // Libraries of GPUs choose their kernels by the alignment of buffers.
  bool isHost =
      StringRef(zero::ProgramInfo::get(module).target).starts_with("host");
  int64_t alignment = isHost ? 1 : 256;
  SymbolTableCollection symbols;
  UnitPlans unitPlans;
  std::vector<FunctionPlan> plans;
  perSample = livePerSample = transient = liveTransient = sampling = 0;
  int64_t logits = 0, liveLogits = 0; // of @infer
  for (func::FuncOp unit : units) {
    plans.emplace_back(unit, 0, alignment, unitPlans, symbols);
    if (failed(plans.back().run()))
      return signalPassFailure();
  }
  for (func::FuncOp step : steps) {
    FunctionPlan &plan =
        plans.emplace_back(step, reserved, alignment, unitPlans, symbols);
    if (failed(plan.run()))
      return signalPassFailure();
    // What sampling alone runs does not make the others' memory larger.
    if (step->hasAttr(nn::kDecodingAttr)) {
      sampling = std::max(sampling, plan.bytes);
    } else if (places.roles[step] == nn::Entry::Infer) {
      logits = std::max(logits, plan.bytes);
      liveLogits = std::max(liveLogits, plan.liveBytes);
    } else {
      perSample = std::max(perSample, plan.bytes);
      livePerSample = std::max(livePerSample, plan.liveBytes);
    }
    transient = std::max(transient, plan.transientBytes);
    liveTransient = std::max(liveTransient, plan.liveTransientBytes);
  }

  // Logits that only @infer has whole are in memory in sampling alone.
  if (perSample && logits > perSample) {
    sampling = std::max(sampling, logits);
  } else {
    perSample = std::max(perSample, logits);
    livePerSample = std::max(livePerSample, liveLogits);
  }
  int64_t copyBytes = placeCopies(module, places, builder);
  int64_t cacheBytes = placeCaches();
  llvm::SetVector<exec::KernelOp> cut;
  for (const FunctionPlan &plan : plans)
    if (failed(CallBuilder(plan, places, symbols, cut).run()))
      return signalPassFailure();
  if (failed(replaceOptimizer(builder)))
    return signalPassFailure();
  for (ArrayRef<func::FuncOp> list : {units, steps, updates})
    for (func::FuncOp function : list)
      function.erase();
  splitProducts(module, alignment, cut);
  // Only some of their rows are run.
  for (exec::KernelOp kernel : cut)
    if (SymbolTable::symbolKnownUseEmpty(kernel, module))
      kernel.erase();
  FailureOr<int64_t> scratch = getLibraryScratch();
  if (failed(scratch))
    return signalPassFailure();
  addArena(builder, copyBytes, cacheBytes, *scratch);
}
