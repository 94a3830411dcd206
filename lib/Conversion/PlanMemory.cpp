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
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/ArenaPlan.h"
#include "Poplar/Support/HostCPU.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

namespace poplar {
#define GEN_PASS_DEF_PLANMEMORY
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Plan of one function: which values share a buffer, and where buffers are.
class FunctionPlan {
public:
  FunctionPlan(func::FuncOp function, int64_t reserved,
               SymbolTableCollection &symbols)
      : function(function), reserved(reserved), symbols(symbols) {}

  /// Attaches offsets to the ops.
  LogicalResult run();
  /// Attaches to every op which buffers die with it. After run().
  void markDead();

  /// Bytes placed and the largest sum of live bytes, the temporaries inside
  /// calls included; `transient` is not per sample.
  int64_t bytes = 0, liveBytes = 0;
  int64_t transientBytes = 0, liveTransientBytes = 0;

private:
  enum class Region {
    Batch,
    Transient,
    /// Belongs to the caller (arguments, results of units, what a turn keeps
    /// or sends) or to the state in the fixed region: has a pointer, but no
    /// place in this plan.
    External
  };
  struct Buffer {
    int64_t size, first, last;
    Region region = Region::Batch;
  };

  LogicalResult collect();
  void findLastUses();
  LogicalResult addResult(Operation *op, OpResult result, int64_t step);
  int64_t addBuffer(Value value, int64_t step, Region region);
  void addBucketBuffer(Operation *op, FlatSymbolRefAttr bucket,
                       Type elementType, int64_t step);
  /// Places the buffers of a region.
  FailureOr<ArenaPlan> place(Region region, int64_t &live);
  std::optional<int64_t> findReusable(Operation *op, OpResult result,
                                      int64_t step);
  void recordReusableArguments(OpResult result, ArrayRef<int64_t> operands);
  /// Whether a value lies in what the runtime gives to a turn.
  bool isTurns(Value value);

  func::FuncOp function;
  /// Bytes at the start of the region that hold the steps' inputs.
  int64_t reserved;
  SymbolTableCollection &symbols;
  bool isUnit = false;
  DenseMap<Operation *, int64_t> steps;
  DenseMap<Value, int64_t> bufferOf;
  DenseMap<Value, int64_t> lastUse;
  std::vector<Buffer> buffers;
  /// Offset of each placed buffer in its region.
  std::vector<int64_t> offsets;
  DenseMap<Operation *, int64_t> scratchOf;
};

class PlanMemoryPass : public poplar::impl::PlanMemoryBase<PlanMemoryPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  /// Copies of the buckets, then transient memory and library scratch.
  struct FixedRegion {
    int64_t bytes = 0, transientOffset = 0, scratchOffset = 0, scratchBytes = 0;
  };
  FailureOr<FixedRegion> planFixedRegion(int64_t transientBytes);
  LogicalResult placeInputs(ArrayRef<func::FuncOp> steps, int64_t &end);
  FailureOr<Attribute> planChunk(ArrayRef<func::FuncOp> turns, int64_t chunk);
  LogicalResult placeResiduals(ArrayRef<func::FuncOp> turns, int64_t chunk,
                               int64_t &end);
  void addMessages(ArrayRef<func::FuncOp> turns,
                   SmallVectorImpl<NamedAttribute> &memory);
  FailureOr<Type> getWorkingType();
};

bool isStepOp(Operation &op) {
  return op.getNumResults() != 0 &&
         !isa<tensor::DimOp, arith::ConstantOp, nn::GetParameterOp,
              nn::GetGradientOp>(op);
}

} // namespace

int64_t FunctionPlan::addBuffer(Value value, int64_t step, Region region) {
  int64_t index = buffers.size();
  bool external = region == Region::External;
  buffers.push_back({external ? 0 : getBufferSize(value.getType()).bytes, step,
                     step, region});
  bufferOf[value] = index;
  return index;
}

/// One transient buffer for a whole bucket: the results of `op` are slices of
/// it, or its token stands for it.
void FunctionPlan::addBucketBuffer(Operation *op, FlatSymbolRefAttr name,
                                   Type elementType, int64_t step) {
  auto bucket = symbols.lookupNearestSymbolFrom<zero::BucketOp>(op, name);
  int64_t elements = zero::BucketLayout::get(bucket, symbols)->elements;
  int64_t last = step;
  for (Value result : op->getResults()) {
    bufferOf[result] = buffers.size();
    last = std::max(last, lastUse.lookup(result));
  }
  buffers.push_back({elements * elementType.getIntOrFloatBitWidth() / 8, step,
                     last, Region::Transient});
}

/// The buffer of an operand that dies at `step` and may become `result`'s.
std::optional<int64_t>
FunctionPlan::findReusable(Operation *op, OpResult result, int64_t step) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return std::nullopt;
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr());
  auto reusable = callee.getResultAttrOfType<DenseI64ArrayAttr>(
      result.getResultNumber(), kReuseAttr);
  if (!reusable)
    return std::nullopt;
  bool returned = llvm::any_of(result.getUsers(), [](Operation *user) {
    return isa<func::ReturnOp>(user);
  });
  if (isUnit && returned) {
    recordReusableArguments(result, reusable.asArrayRef());
    return std::nullopt;
  }
  for (int64_t operand : reusable.asArrayRef()) {
    int64_t buffer = bufferOf.lookup(op->getOperand(operand));
    if (buffers[buffer].region == Region::Batch && buffers[buffer].last == step)
      return buffer;
  }
  return std::nullopt;
}

/// A unit's result that may take over the buffer of one of the unit's own
/// arguments, if its caller has no more use for it.
void FunctionPlan::recordReusableArguments(OpResult result,
                                           ArrayRef<int64_t> operands) {
  SmallVector<int64_t> reusable;
  for (int64_t operand : operands) {
    auto arg = dyn_cast<BlockArgument>(result.getOwner()->getOperand(operand));
    if (!arg || function.getArgAttr(arg.getArgNumber(), nn::kParameterAttr))
      continue;
    bool readLater = llvm::any_of(arg.getUsers(), [&](Operation *user) {
      return result.getOwner()->isBeforeInBlock(user);
    });
    if (!readLater)
      reusable.push_back(arg.getArgNumber());
  }
  if (reusable.empty())
    return;
  for (OpOperand &use : result.getUses())
    if (isa<func::ReturnOp>(use.getOwner()))
      function.setResultAttr(use.getOperandNumber(), kReuseAttr,
                             Builder(function).getDenseI64ArrayAttr(reusable));
}

bool FunctionPlan::isTurns(Value value) {
  if (!function->hasAttr(zero::kTurnAttr))
    return false;
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    return isa<zero::SendOp>(use.getOwner()) ||
           (isa<func::ReturnOp>(use.getOwner()) &&
            function.getResultAttr(use.getOperandNumber(),
                                   zero::kResidualAttr));
  });
}

LogicalResult FunctionPlan::addResult(Operation *op, OpResult result,
                                      int64_t step) {
  if (OpOperand *operand =
          getInPlaceOperand(op, result.getResultNumber(), symbols)) {
    bufferOf[result] = bufferOf.lookup(operand->get());
    return success();
  }
  if (isTurns(result)) {
    int64_t buffer = addBuffer(result, step, Region::External);
    buffers[buffer].last = std::max(step, lastUse.lookup(result));
    return success();
  }
  bool returned = llvm::any_of(result.getUsers(), [](Operation *user) {
    return isa<func::ReturnOp>(user);
  });
  if (std::optional<int64_t> buffer = findReusable(op, result, step)) {
    bufferOf[result] = *buffer;
    buffers[*buffer].last = std::max(step, lastUse.lookup(result));
    return success();
  }
  if (!getBufferSize(result.getType()).batched && !(isUnit && returned))
    return op->emitOpError("result #")
           << result.getResultNumber() << " of type " << result.getType()
           << " is neither of the batch nor accumulated into a parameter's "
              "gradient; such temporaries have no place in the arena";
  if (getBufferSize(result.getType()).bytes > kLargestBuffer)
    return op->emitOpError("result #")
           << result.getResultNumber() << " of type " << result.getType()
           << " takes more than 2^40 bytes a sample";
  int64_t buffer = addBuffer(
      result, step, isUnit && returned ? Region::External : Region::Batch);
  buffers[buffer].last = std::max(step, lastUse.lookup(result));
  return success();
}

/// The last step at which each value is read. A value is alive as long as what
/// it becomes: an accumulation in place, or the collective that reads it.
void FunctionPlan::findLastUses() {
  Block &body = function.getBody().front();
  int64_t step = 0;
  for (Operation &op : body)
    steps[&op] = step++;
  for (Operation &op : body)
    for (Value operand : op.getOperands())
      lastUse[operand] = std::max(lastUse.lookup(operand), steps[&op]);
  auto prolong = [&](Value value, Value successor) {
    lastUse[value] = std::max(lastUse.lookup(value), lastUse.lookup(successor));
  };
  for (Operation &op : llvm::reverse(body)) {
    for (OpResult result : op.getResults()) {
      if (isa<zero::WaitOp, zero::StartOp>(op)) {
        for (Value operand : op.getOperands())
          prolong(operand, result);
        continue;
      }
      if (!isStepOp(op))
        continue;
      if (OpOperand *operand =
              getInPlaceOperand(&op, result.getResultNumber(), symbols))
        prolong(operand->get(), result);
    }
  }
}

LogicalResult FunctionPlan::collect() {
  Block &body = function.getBody().front();
  findLastUses();
  for (BlockArgument arg : body.getArguments())
    addBuffer(arg, 0, Region::External);
  for (Operation &op : body) {
    if (isa<nn::GetParameterOp, nn::GetGradientOp, zero::ReceiveOp>(op)) {
      addBuffer(op.getResult(0), steps[&op], Region::External);
      continue;
    }
    if (!isStepOp(op))
      continue;
    if (auto gather = dyn_cast<zero::AllGatherOp>(op)) {
      addBucketBuffer(gather, gather.getBucketAttr(),
                      getElementTypeOrSelf(gather.getType(0)), steps[gather]);
      continue;
    }
    if (auto zeroed = dyn_cast<zero::GradientsOp>(op)) {
      addBucketBuffer(zeroed, zeroed.getBucketAttr(),
                      Float32Type::get(function.getContext()), steps[zeroed]);
      continue;
    }
    if (auto start = dyn_cast<zero::StartOp>(op)) {
      if (start.getTransient())
        addBucketBuffer(start, start.getBucketAttr(),
                        getElementTypeOrSelf(start.getWait().getType(0)),
                        steps[start]);
      continue;
    }
    if (auto wait = dyn_cast<zero::WaitOp>(op)) {
      for (Value value : wait.getValues())
        bufferOf[value] = bufferOf.lookup(wait.getToken());
      continue;
    }
    for (OpResult result : op.getResults())
      if (failed(addResult(&op, result, steps[&op])))
        return failure();
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    if (auto scratch = callee->getAttrOfType<IntegerAttr>(kScratchBytesAttr)) {
      scratchOf[call] = buffers.size();
      buffers.push_back({scratch.getInt(), steps[call], steps[call]});
    }
  }
  return success();
}

FailureOr<ArenaPlan> FunctionPlan::place(Region region, int64_t &live) {
  ArenaProblem problem;
  problem.alignment = POPLAR_ALIGNMENT;
  std::vector<size_t> indices;
  for (auto [index, buffer] : llvm::enumerate(buffers))
    if (buffer.region == region) {
      indices.push_back(index);
      problem.buffers.push_back({buffer.size, buffer.first, buffer.last});
    }
  std::string error = problem.check();
  ArenaPlan plan = planArena(problem);
  if (error.empty())
    error = plan.verify(problem);
  if (!error.empty())
    return function.emitOpError("memory plan is wrong: ") << error;
  live = problem.largestLiveBytes();
  for (auto [index, offset] : llvm::zip_equal(indices, plan.offsets))
    offsets[index] = offset;
  return plan;
}

LogicalResult FunctionPlan::run() {
  isUnit = function->hasAttr(nn::kUnitAttr);
  if (failed(collect()))
    return failure();
  offsets.assign(buffers.size(), -1);
  FailureOr<ArenaPlan> batch = place(Region::Batch, liveBytes);
  FailureOr<ArenaPlan> transient = place(Region::Transient, liveTransientBytes);
  if (failed(batch) || failed(transient))
    return failure();
  bytes = reserved + batch->bytes;
  liveBytes += reserved;
  transientBytes = transient->bytes;

  auto offsetOf = [&](int64_t buffer) -> int64_t {
    int64_t start = buffers[buffer].region == Region::Batch ? reserved : 0;
    return offsets[buffer] < 0 ? -1 : start + offsets[buffer];
  };
  Builder builder(function);
  for (Operation &op : function.getBody().front()) {
    if (!isStepOp(op))
      continue;
    SmallVector<int64_t> offsets;
    if (isa<zero::AllGatherOp, zero::GradientsOp, zero::StartOp>(op)) {
      auto known = bufferOf.find(op.getResult(0));
      if (known != bufferOf.end())
        op.setAttr(kTransientAttr,
                   builder.getI64IntegerAttr(offsetOf(known->second)));
      continue;
    }
    if (isa<zero::WaitOp, zero::ReceiveOp>(op))
      continue;
    for (Value result : op.getResults()) {
      int64_t buffer = bufferOf.lookup(result);
      // What is accumulated in place lies where its operand does.
      bool planned = buffers[buffer].region == Region::Batch;
      offsets.push_back(planned ? offsetOf(buffer) : -1);
    }
    op.setAttr(kOffsetsAttr, builder.getDenseI64ArrayAttr(offsets));
    if (scratchOf.count(&op))
      op.setAttr(kScratchAttr,
                 builder.getI64IntegerAttr(offsetOf(scratchOf.lookup(&op))));
  }
  if (isUnit) {
    function->setAttr(kScratchBytesAttr, builder.getI64IntegerAttr(bytes));
    return success();
  }
  auto terminator =
      cast<func::ReturnOp>(function.getBody().front().getTerminator());
  SmallVector<Value> results;
  for (OpOperand &operand : terminator->getOpOperands())
    if (!function.getResultAttr(operand.getOperandNumber(),
                                zero::kResidualAttr))
      results.push_back(operand.get());
  if (results.size() > 1)
    return function.emitOpError("has to return one value or none");
  for (Value result : results)
    function->setAttr(kResultOffsetAttr, builder.getI64IntegerAttr(offsetOf(
                                             bufferOf.lookup(result))));
  return success();
}

void FunctionPlan::markDead() {
  Builder builder(function);
  for (auto &[op, step] : steps) {
    SmallVector<int64_t> dead, deadTransient;
    for (auto [buffer, offset] : llvm::zip_equal(buffers, offsets)) {
      if (buffer.last != step || offset < 0)
        continue;
      if (buffer.region == Region::Batch)
        dead.append({reserved + offset, buffer.size});
      else
        deadTransient.append({offset, buffer.size});
    }
    // What the function returns is read after its end.
    if (op->hasTrait<OpTrait::IsTerminator>())
      continue;
    if (!dead.empty())
      op->setAttr(kDeadAttr, builder.getDenseI64ArrayAttr(dead));
    if (!deadTransient.empty())
      op->setAttr(kDeadTransientAttr,
                  builder.getDenseI64ArrayAttr(deadTransient));
  }
}

/// The one type in which the steps read parameters.
FailureOr<Type> PlanMemoryPass::getWorkingType() {
  Type working;
  WalkResult result = getOperation().walk([&](Operation *op) {
    if (!isa<nn::GetParameterOp, zero::AllGatherOp, zero::WaitOp>(op) ||
        op->getNumResults() == 0)
      return WalkResult::advance();
    Type type = getElementTypeOrSelf(op->getResult(0));
    if (working && type != working) {
      op->emitOpError("reads parameters as ")
          << type << ", but elsewhere they are read as " << working;
      return WalkResult::interrupt();
    }
    working = type;
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  return working ? working : Float32Type::get(&getContext());
}

/// Why this machine has no products of a type.
static std::string explainNoProduct(int32_t type) {
  const char *format = type == POPLAR_BF16  ? "bf16"
                       : type == POPLAR_F16 ? "f16"
                                            : "f32";
  std::string text = std::string("has no product in ") + format +
                     " on this CPU (" + getHostCPU().name + ")";
  if (type == POPLAR_BF16 && !getHostCPU().has("avx512bw"))
    text += std::string(", which lacks AVX-512 (avx512f, avx512bw, avx512dq, "
                        "avx512vl)") +
            (std::getenv(kMaxISAVariable) ? ": POPLAR_MAX_ISA hides it" : "");
  return text + "; choose the precision f32, or build on a CPU that has it";
}

FailureOr<PlanMemoryPass::FixedRegion>
PlanMemoryPass::planFixedRegion(int64_t transientBytes) {
  ModuleOp module = getOperation();
  Builder builder(module);
  FailureOr<Type> working = getWorkingType();
  if (failed(working))
    return failure();
  FixedRegion region;
  auto place = [&](int64_t size) {
    int64_t offset = region.bytes;
    region.bytes += llvm::alignTo(size, POPLAR_ALIGNMENT);
    return offset;
  };
  zero::ProgramInfo info = zero::ProgramInfo::get(module);
  bool sharded = info.worldSize > 1;
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    int64_t elements = zero::BucketLayout::get(bucket, symbols)->elements;
    int64_t copy = -1, gradient = -1, stage = info.getStage(bucket);
    if (info.holds(bucket) && (!sharded || stage < 3))
      copy = place(elements * working->getIntOrFloatBitWidth() / 8);
    if (info.holds(bucket) && (!sharded || stage < 2))
      gradient = place(elements * 4);
    bucket->setAttr(kPlacesAttr,
                    builder.getDenseI64ArrayAttr(
                        {copy, gradient, getPoplarType(*working)}));
  }
  region.scratchBytes = std::max<int64_t>(workspaceBytes, 0);
  WalkResult result = module.walk([&](Operation *op) {
    std::optional<PoplarGemm> gemm = getGemm(op);
    if (gemm && workspaceBytes < 0) {
      int64_t needed = poplar_gemm_scratch_bytes(&*gemm, maxBatch, threads);
      if (needed < 0) {
        op->emitOpError(explainNoProduct(gemm->a_type));
        return WalkResult::interrupt();
      }
      region.scratchBytes = std::max(region.scratchBytes, needed);
    }
    return WalkResult::advance();
  });
  region.transientOffset = place(transientBytes);
  region.scratchOffset = place(region.scratchBytes);
  if (result.wasInterrupted())
    return failure();
  return region;
}

/// Inputs lie at the same places in all steps. What a turn is handed over from
/// another is no input.
LogicalResult PlanMemoryPass::placeInputs(ArrayRef<func::FuncOp> steps,
                                          int64_t &end) {
  for (func::FuncOp step : steps) {
    SmallVector<int64_t> offsets;
    int64_t next = 0;
    for (BlockArgument argument : step.getArguments()) {
      BufferSize size = getBufferSize(argument.getType());
      if (!size.batched)
        return step.emitOpError("has an argument without a batch dimension");
      if (size.bytes > kLargestBuffer)
        return step.emitOpError(
            "has an argument of more than 2^40 bytes a sample");
      bool isInput = llvm::none_of(
          ArrayRef<StringRef>{zero::kResidualAttr, zero::kReceivedAttr,
                              zero::kSentAttr},
          [&](StringRef name) {
            return step.getArgAttr(argument.getArgNumber(), name) != nullptr;
          });
      offsets.push_back(isInput ? next : -1);
      next += isInput ? size.bytes : 0;
    }
    step->setAttr(kInputOffsetsAttr,
                  Builder(step).getDenseI64ArrayAttr(offsets));
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
      info.getTurnName("forward", chunk));
  if (!forward || !forward->hasAttr(zero::kTurnAttr))
    return success();
  Builder builder(forward);
  auto inputs = forward->getAttrOfType<DenseI64ArrayAttr>(kInputOffsetsAttr);
  DenseMap<Value, int64_t> placed;
  for (BlockArgument argument : forward.getArguments())
    placed[argument] = inputs[argument.getArgNumber()];
  SmallVector<int64_t> offsets; // by number
  for (OpOperand &operand : forward.front().getTerminator()->getOpOperands()) {
    if (!forward.getResultAttr(operand.getOperandNumber(), zero::kResidualAttr))
      continue;
    BufferSize size = getBufferSize(operand.get().getType());
    if (!size.batched || operand.get().getDefiningOp<zero::ReceiveOp>())
      return forward.emitOpError("result #")
             << operand.getOperandNumber()
             << " cannot be kept for the backward pass: it is not of the "
                "batch, or lies where it was received";
    auto [entry, isNew] = placed.insert({operand.get(), end});
    if (isNew)
      end += size.bytes;
    offsets.push_back(entry->second);
  }
  forward->setAttr(kResidualOffsetsAttr, builder.getDenseI64ArrayAttr(offsets));
  for (func::FuncOp step : turns) {
    auto attribute = step->getAttrOfType<DenseI64ArrayAttr>(kInputOffsetsAttr);
    SmallVector<int64_t> all(attribute.asArrayRef());
    for (auto [index, offset] : llvm::enumerate(all))
      if (auto number =
              step.getArgAttrOfType<IntegerAttr>(index, zero::kResidualAttr))
        offset = offsets[number.getInt()];
    step->setAttr(kInputOffsetsAttr, builder.getDenseI64ArrayAttr(all));
  }
  return success();
}

/// The messages of a micro-batch, per sample; 0 of those there are none of.
void PlanMemoryPass::addMessages(ArrayRef<func::FuncOp> turns,
                                 SmallVectorImpl<NamedAttribute> &memory) {
  Builder builder(&getContext());
  int64_t bytes[2][2] = {}; // by kind, and whether it is sent
  bool keepsSent = false;
  for (func::FuncOp turn : turns) {
    auto add = [&](zero::MessageKind kind, bool sends, Value value) {
      int64_t &most = bytes[int(kind)][sends];
      most = std::max(most, getBufferSize(value.getType()).bytes);
    };
    for (auto send : turn.getOps<zero::SendOp>())
      add(send.getKind(), true, send.getValue());
    for (auto receive : turn.getOps<zero::ReceiveOp>())
      add(receive.getKind(), false, receive.getValue());
    for (unsigned i = 0; i < turn.getNumArguments(); ++i)
      keepsSent |= turn.getArgAttr(i, zero::kSentAttr) != nullptr;
  }
  auto add = [&](StringRef name, int64_t value) {
    memory.push_back(
        builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  };
  add("activation_in_bytes", bytes[0][0]);
  add("activation_out_bytes", bytes[0][1]);
  add("gradient_in_bytes", bytes[1][0]);
  add("gradient_out_bytes", bytes[1][1]);
  add("keeps_sent", keepsSent);
}

/// Places what the turns of a chunk are given.
FailureOr<Attribute> PlanMemoryPass::planChunk(ArrayRef<func::FuncOp> turns,
                                               int64_t chunk) {
  int64_t slotBytes = 0;
  if (failed(placeInputs(turns, slotBytes)) ||
      failed(placeResiduals(turns, chunk, slotBytes)))
    return failure();
  Builder builder(&getContext());
  SmallVector<NamedAttribute> memory = {
      builder.getNamedAttr("slot_bytes", builder.getI64IntegerAttr(slotBytes))};
  addMessages(turns, memory);
  return Attribute(builder.getDictionaryAttr(memory));
}

void PlanMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  Builder builder(module);

  SymbolTableCollection symbols;
  SmallVector<func::FuncOp> steps;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(kKernelAttr) || function.isExternal() ||
        function->hasAttr(kInPlaceUpdateAttr))
      continue;
    if (!function->hasAttr(nn::kUnitAttr)) {
      steps.push_back(function);
      continue;
    }
    FunctionPlan plan(function, 0, symbols);
    if (failed(plan.run()))
      return signalPassFailure();
    if (trapDeadRanges)
      plan.markDead();
  }

  // The steps' inputs: the longest list of them is @train's. Those of turns lie
  // in slots.
  int64_t reserved = 0;
  SmallVector<func::FuncOp> others;
  std::vector<SmallVector<func::FuncOp>> turns(
      zero::ProgramInfo::get(module).numChunks);
  for (func::FuncOp step : steps)
    (step->hasAttr(zero::kTurnAttr) ? turns[zero::getChunk(step)] : others)
        .push_back(step);
  if (failed(placeInputs(others, reserved)))
    return signalPassFailure();
  SmallVector<Attribute> chunks;
  if (zero::ProgramInfo::get(module).isPipelineStage())
    for (auto [chunk, list] : llvm::enumerate(turns)) {
      FailureOr<Attribute> planned = planChunk(list, chunk);
      if (failed(planned))
        return signalPassFailure();
      chunks.push_back(*planned);
    }

  int64_t perSample = 0, livePerSample = 0, transient = 0, liveTransient = 0;
  for (func::FuncOp step : steps) {
    FunctionPlan plan(step, reserved, symbols);
    if (failed(plan.run()))
      return signalPassFailure();
    if (trapDeadRanges)
      plan.markDead();
    perSample = std::max(perSample, plan.bytes);
    livePerSample = std::max(livePerSample, plan.liveBytes);
    transient = std::max(transient, plan.transientBytes);
    liveTransient = std::max(liveTransient, plan.liveTransientBytes);
  }
  FailureOr<FixedRegion> fixed = planFixedRegion(transient);
  if (failed(fixed))
    return signalPassFailure();
  auto integer = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  SmallVector<NamedAttribute> memory = {
      integer("fixed", fixed->bytes),
      integer("per_sample", perSample),
      integer("live_per_sample", livePerSample),
      integer("transient_offset", fixed->transientOffset),
      integer("transient_bytes", transient),
      integer("live_transient_bytes", liveTransient),
      integer("scratch_offset", fixed->scratchOffset),
      integer("scratch_bytes", fixed->scratchBytes)};
  if (!chunks.empty())
    memory.push_back(
        builder.getNamedAttr("chunks", builder.getArrayAttr(chunks)));
  module->setAttr(kMemoryAttr, builder.getDictionaryAttr(memory));
}
