//===- PlanMemory.cpp - Place every buffer in a static arena --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two levels. A unit's temporaries live in a scratch area that its caller
// gives it, planned once per unit; the steps (@train, @evaluate, @infer) place
// the units' results and, for the time of each call, their scratch. All three
// steps share one arena, whose inputs lie at the same offsets.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels.h"
#include "Poplar/Conversion/Program.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Planner/ArenaPlan.h"
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
  FunctionPlan(func::FuncOp function, int64_t reserved)
      : function(function), reserved(reserved) {}

  /// Attaches offsets to the ops.
  LogicalResult run();

  int64_t bytes = 0;
  /// Largest sum of live bytes, the temporaries inside calls included.
  int64_t liveBytes = 0;

private:
  struct Buffer {
    int64_t size, first, last;
    /// Belongs to the caller (arguments, results of units) or to the fixed
    /// region: has a pointer, but no place in this plan.
    bool external = false;
  };

  LogicalResult collect();
  LogicalResult addResult(Operation *op, OpResult result, int64_t step);
  int64_t addBuffer(Value value, int64_t step, bool external);
  std::optional<int64_t> findReusable(Operation *op, OpResult result,
                                      int64_t step);
  void recordReusableArguments(OpResult result, ArrayRef<int64_t> operands);

  func::FuncOp function;
  /// Bytes at the start of the region that hold the steps' inputs.
  int64_t reserved;
  bool isUnit = false;
  DenseMap<Value, int64_t> bufferOf;
  DenseMap<Value, int64_t> lastUse;
  std::vector<Buffer> buffers;
  DenseMap<Operation *, int64_t> scratchOf;
};

class PlanMemoryPass : public poplar::impl::PlanMemoryBase<PlanMemoryPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult planFixedRegion(int64_t &bytes, int64_t &scratchOffset,
                                int64_t &scratchBytes);
};

bool isStepOp(Operation &op) {
  return !isa<tensor::DimOp, arith::ConstantOp, nn::GetParameterOp,
              nn::GetGradientOp, nn::SetGradientOp, func::ReturnOp>(op);
}

} // namespace

int64_t FunctionPlan::addBuffer(Value value, int64_t step, bool external) {
  int64_t index = buffers.size();
  buffers.push_back({external ? 0 : getBufferSize(value.getType()).bytes, step,
                     step, external});
  bufferOf[value] = index;
  return index;
}

/// The buffer of an operand that dies at `step` and may become `result`'s.
std::optional<int64_t> FunctionPlan::findReusable(Operation *op,
                                                  OpResult result,
                                                  int64_t step) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return std::nullopt;
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, call.getCalleeAttr());
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
    if (!buffers[buffer].external && buffers[buffer].last == step)
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
    auto arg = dyn_cast<BlockArgument>(
        result.getOwner()->getOperand(operand));
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

LogicalResult FunctionPlan::addResult(Operation *op, OpResult result,
                                      int64_t step) {
  if (OpOperand *operand = getInPlaceOperand(op, result.getResultNumber())) {
    bufferOf[result] = bufferOf.lookup(operand->get());
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
  int64_t buffer = addBuffer(result, step, isUnit && returned);
  buffers[buffer].last = std::max(step, lastUse.lookup(result));
  return success();
}

LogicalResult FunctionPlan::collect() {
  Block &body = function.getBody().front();
  // Steps, and the last step at which each value is read: a value accumulated
  // in place is alive as long as what it becomes.
  DenseMap<Operation *, int64_t> steps;
  int64_t step = 0;
  for (Operation &op : body)
    steps[&op] = step++;
  for (Operation &op : body)
    for (Value operand : op.getOperands())
      lastUse[operand] = std::max(lastUse.lookup(operand), steps[&op]);
  for (Operation &op : llvm::reverse(body))
    for (OpResult result : op.getResults())
      if (isStepOp(op))
        if (OpOperand *operand =
                getInPlaceOperand(&op, result.getResultNumber()))
          lastUse[operand->get()] =
              std::max(lastUse.lookup(operand->get()), lastUse.lookup(result));

  for (BlockArgument arg : body.getArguments())
    addBuffer(arg, 0, /*external=*/true);
  for (Operation &op : body) {
    if (isa<nn::GetParameterOp, nn::GetGradientOp>(op)) {
      addBuffer(op.getResult(0), steps[&op], /*external=*/true);
      continue;
    }
    if (!isStepOp(op))
      continue;
    for (OpResult result : op.getResults())
      if (failed(addResult(&op, result, steps[&op])))
        return failure();
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    if (auto scratch = callee->getAttrOfType<IntegerAttr>(kScratchBytesAttr)) {
      scratchOf[call] = buffers.size();
      buffers.push_back({scratch.getInt(), steps[call], steps[call]});
    }
  }
  return success();
}

LogicalResult FunctionPlan::run() {
  isUnit = function->hasAttr(nn::kUnitAttr);
  if (failed(collect()))
    return failure();

  ArenaProblem problem;
  problem.alignment = POPLAR_ALIGNMENT;
  std::vector<int64_t> placed(buffers.size(), -1);
  for (auto [index, buffer] : llvm::enumerate(buffers))
    if (!buffer.external) {
      placed[index] = problem.buffers.size();
      problem.buffers.push_back({buffer.size, buffer.first, buffer.last});
    }
  std::string error = problem.check();
  ArenaPlan plan = planArena(problem);
  if (error.empty())
    error = plan.verify(problem);
  if (!error.empty())
    return function.emitOpError("memory plan is wrong: ") << error;
  bytes = reserved + plan.bytes;
  liveBytes = reserved + problem.largestLiveBytes();

  auto offsetOf = [&](int64_t buffer) -> int64_t {
    return placed[buffer] < 0 ? -1 : reserved + plan.offsets[placed[buffer]];
  };
  Builder builder(function);
  for (Operation &op : function.getBody().front()) {
    if (!isStepOp(op))
      continue;
    SmallVector<int64_t> offsets;
    for (Value result : op.getResults())
      offsets.push_back(offsetOf(bufferOf.lookup(result)));
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
  if (terminator.getNumOperands() != 1)
    return function.emitOpError("has to return one value");
  function->setAttr(kResultOffsetAttr,
                    builder.getI64IntegerAttr(
                        offsetOf(bufferOf.lookup(terminator.getOperand(0)))));
  return success();
}

/// State of every parameter, then the libraries' scratch.
LogicalResult PlanMemoryPass::planFixedRegion(int64_t &bytes,
                                              int64_t &scratchOffset,
                                              int64_t &scratchBytes) {
  ModuleOp module = getOperation();
  Builder builder(module);
  // The type the steps read each parameter in.
  DenseMap<StringAttr, Type> readAs;
  module.walk([&](nn::GetParameterOp op) {
    readAs[op.getParameterAttr().getAttr()] =
        cast<RankedTensorType>(op.getValue().getType()).getElementType();
  });
  auto place = [&](int64_t size) {
    int64_t offset = bytes;
    bytes += llvm::alignTo(size, POPLAR_ALIGNMENT);
    return offset;
  };
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    int64_t elements = type.getNumElements();
    int64_t master = place(elements * 4), gradient = place(elements * 4),
            moment1 = place(elements * 4), moment2 = place(elements * 4);
    Type working = readAs.lookup(parameter.getSymNameAttr());
    if (!working)
      working = type.getElementType();
    int64_t copy = working.isF32()
                       ? master
                       : place(elements * working.getIntOrFloatBitWidth() / 8);
    parameter->setAttr(kPlacesAttr,
                       builder.getDenseI64ArrayAttr({master, gradient, moment1,
                                                     moment2, copy,
                                                     getPoplarType(working)}));
  }
  scratchBytes = 0;
  WalkResult result = module.walk([&](Operation *op) {
    if (std::optional<PoplarGemm> gemm = getGemm(op)) {
      int64_t needed = poplar_gemm_scratch_bytes(&*gemm, maxBatch, threads);
      if (needed < 0) {
        op->emitOpError("has no GEMM of its types on this machine");
        return WalkResult::interrupt();
      }
      scratchBytes = std::max(scratchBytes, needed);
    }
    return WalkResult::advance();
  });
  scratchOffset = place(scratchBytes);
  return failure(result.wasInterrupted());
}

void PlanMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  Builder builder(module);

  SmallVector<func::FuncOp> steps;
  int64_t unitLive = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(kKernelAttr) || function.isExternal() ||
        function->hasAttr(kInPlaceUpdateAttr))
      continue;
    if (!function->hasAttr(nn::kUnitAttr)) {
      steps.push_back(function);
      continue;
    }
    FunctionPlan plan(function, 0);
    if (failed(plan.run()))
      return signalPassFailure();
    unitLive = std::max(unitLive, plan.liveBytes);
  }

  // The steps' inputs: the longest list of them is @train's.
  SmallVector<int64_t> inputs;
  int64_t reserved = 0;
  for (func::FuncOp step : steps) {
    SmallVector<int64_t> offsets;
    int64_t end = 0;
    for (Type type : step.getArgumentTypes()) {
      BufferSize size = getBufferSize(type);
      if (!size.batched) {
        step.emitOpError("has an argument without a batch dimension");
        return signalPassFailure();
      }
      offsets.push_back(end);
      end += size.bytes;
    }
    step->setAttr(kInputOffsetsAttr, builder.getDenseI64ArrayAttr(offsets));
    if (offsets.size() > inputs.size())
      inputs = offsets;
    reserved = std::max(reserved, end);
  }

  int64_t perSample = 0, livePerSample = 0;
  for (func::FuncOp step : steps) {
    FunctionPlan plan(step, reserved);
    if (failed(plan.run()))
      return signalPassFailure();
    perSample = std::max(perSample, plan.bytes);
    livePerSample = std::max(livePerSample, plan.liveBytes);
  }
  int64_t fixed = 0, scratchOffset = 0, scratchBytes = 0;
  if (failed(planFixedRegion(fixed, scratchOffset, scratchBytes)))
    return signalPassFailure();
  auto integer = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  module->setAttr(kMemoryAttr,
                  builder.getDictionaryAttr(
                      {integer("fixed", fixed), integer("per_sample", perSample),
                       integer("live_per_sample", livePerSample),
                       integer("scratch_offset", scratchOffset),
                       integer("scratch_bytes", scratchBytes)}));
}
