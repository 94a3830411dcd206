//===- FunctionPlan.cpp - Buffers of one function -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionPlan.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;
using exec::getBufferSize;
using exec::kLargestBuffer;

//===----------------------------------------------------------------------===//
// What ops do with buffers
//===----------------------------------------------------------------------===//

bool poplar::isCall(Operation &op) {
  return op.getNumResults() != 0 &&
         !isa<tensor::DimOp, arith::ConstantOp, nn::GetParameterOp,
              nn::GetGradientOp, nn::GetCacheOp>(op);
}

std::optional<unsigned> poplar::getInPlaceArgument(func::FuncOp unit,
                                                   unsigned index) {
  SmallVector<unsigned> arguments;
  for (unsigned i = 0; i < unit.getNumArguments(); ++i)
    if (unit.getArgAttr(i, nn::kGradientAttr) ||
        unit.getArgAttr(i, nn::kCacheAttr))
      arguments.push_back(i);
  unsigned first = unit.getNumResults() - arguments.size();
  if (index < first)
    return std::nullopt;
  return arguments[index - first];
}

OpOperand *poplar::getAccumulator(Operation *op, unsigned index,
                                  SymbolTableCollection &symbols) {
  std::optional<unsigned> argument;
  if (auto call = dyn_cast<func::CallOp>(op))
    argument = getInPlaceArgument(
        symbols.lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr()),
        index);
  else if (auto dispatch = dyn_cast<exec::DispatchOp>(op))
    argument = symbols
                   .lookupNearestSymbolFrom<exec::KernelOp>(
                       op, dispatch.getKernelAttr())
                   .getInPlaceArgument(index);
  else if (auto call = dyn_cast<exec::RuntimeCallOpInterface>(op))
    return call.getAccumulator(index);
  return argument ? &op->getOpOperand(*argument) : nullptr;
}

static bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), llvm::IsaPred<func::ReturnOp>);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

int64_t FunctionPlan::addBuffer(Value value, int64_t step, Region region) {
  int64_t index = buffers.size();
  bool external = region == Region::External;
  const TokenChunks *around = findChunksAround(value);
  Type type = around ? TokenChunks::getTypeInside(value, around->size)
                     : value.getType();
  buffers.push_back(
      {external ? 0 : getBufferSize(type).bytes, step, step, region});
  buffers.back().isInside = around != nullptr;
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
  int64_t width =
      bucket.getStorageType(elementType).getIntOrFloatBitWidth() / 8;
  buffers.push_back({elements * width, step, last, Region::Transient});
}

ArrayRef<int64_t> FunctionPlan::getReusable(Operation *op, unsigned index) {
  if (auto dispatch = dyn_cast<exec::DispatchOp>(op))
    return symbols
        .lookupNearestSymbolFrom<exec::KernelOp>(op, dispatch.getKernelAttr())
        .getReusableArguments(index);
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return {};
  auto unit = units.find(call.getCalleeAttr().getAttr());
  if (unit == units.end())
    return {};
  return unit->second.reusable[index];
}

/// The buffer of an operand that dies at `step` and may become `result`'s.
std::optional<int64_t>
FunctionPlan::findReusable(Operation *op, OpResult result, int64_t step) {
  ArrayRef<int64_t> reusable = getReusable(op, result.getResultNumber());
  if (isUnit && isReturned(result)) {
    if (findChunks(op))
      return std::nullopt;
    recordReusableArguments(result, reusable);
    return std::nullopt;
  }
  // Others of its step may run after it.
  if (chained.contains(op))
    return std::nullopt;
  const TokenChunks *around = findChunksAround(result);
  for (int64_t operand : reusable) {
    // Chunks do not become whole, nor the other way round.
    if (findChunks(op) &&
        (!around || !around->isInside(op->getOperand(operand))))
      continue;
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
    Operation *owner = result.getOwner();
    bool readLater = llvm::any_of(arg.getUsers(), [&](Operation *user) {
      return user != owner && steps.at(user) >= steps.at(owner);
    });
    if (!readLater)
      reusable.push_back(arg.getArgNumber());
  }
  for (OpOperand &use : result.getUses())
    if (isa<func::ReturnOp>(use.getOwner()))
      reusableArguments[use.getOperandNumber()] = reusable;
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
          getAccumulator(op, result.getResultNumber(), symbols)) {
    bufferOf[result] = bufferOf.lookup(operand->get());
    return success();
  }
  if (isTurns(result)) {
    int64_t buffer = addBuffer(result, step, Region::External);
    buffers[buffer].last = std::max(step, lastUse.lookup(result));
    return success();
  }
  if (std::optional<int64_t> buffer = findReusable(op, result, step)) {
    bufferOf[result] = *buffer;
    buffers[*buffer].last = std::max(step, lastUse.lookup(result));
    return success();
  }
  bool isCallers = isUnit && isReturned(result);
  exec::BufferSize size = getBufferSize(result.getType());
  if (!size.perSample && !isCallers)
    return op->emitOpError("result #")
           << result.getResultNumber() << " of type " << result.getType()
           << " has no batch dimension and is not accumulated into a "
              "parameter's gradient: the arena has no place for it";
  if (size.bytes > kLargestBuffer)
    return op->emitOpError("result #")
           << result.getResultNumber() << " of type " << result.getType()
           << " takes more than 2^40 bytes a sample";
  int64_t buffer =
      addBuffer(result, step, isCallers ? Region::External : Region::Batch);
  buffers[buffer].last = std::max(step, lastUse.lookup(result));
  return success();
}

/// Numbers the ops. Those between the waits of exchanges that are chained have
/// one number: they run by turns, piece by piece.
void FunctionPlan::findSteps() {
  Block &body = function.getBody().front();
  for (auto gather : body.getOps<zero::StartExchangeOp>()) {
    zero::WaitExchangeOp first = gather.getChain(), last = gather.getWait();
    for (Operation *op = first; op && last; op = op->getNextNode()) {
      chained.insert(op);
      if (op == last)
        break;
    }
  }
  int64_t step = 0;
  for (Operation &op : body) {
    if (!chained.contains(&op) || !chained.contains(op.getPrevNode()))
      ++step;
    steps[&op] = step;
  }
}

void FunctionPlan::findChunks() {
  chunks = findTokenChunks(function, alignment, symbols);
  for (auto [index, found] : llvm::enumerate(chunks))
    for (Operation *op : found.ops)
      chunksOf[op] = index;
}

/// The last step at which each value is read. A value is alive as long as what
/// it becomes: an accumulation in place, or the collective that reads it.
void FunctionPlan::findLastUses() {
  Block &body = function.getBody().front();
  for (Operation &op : body)
    for (Value operand : op.getOperands())
      lastUse[operand] = std::max(lastUse.lookup(operand), steps[&op]);
  // Every chunk reads and writes what is outside.
  for (const TokenChunks &around : chunks) {
    auto prolongToEnd = [&](Value value) {
      if (!around.isInside(value))
        lastUse[value] =
            std::max(lastUse.lookup(value), steps[around.ops.back()]);
    };
    for (Operation *op : around.ops) {
      llvm::for_each(op->getOperands(), prolongToEnd);
      llvm::for_each(op->getResults(), prolongToEnd);
    }
  }
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
      if (!isCall(op))
        continue;
      if (OpOperand *operand =
              getAccumulator(&op, result.getResultNumber(), symbols))
        prolong(operand->get(), result);
    }
  }
}

LogicalResult FunctionPlan::collect() {
  Block &body = function.getBody().front();
  findChunks();
  findSteps();
  findLastUses();
  for (BlockArgument arg : body.getArguments())
    addBuffer(arg, 0, Region::External);
  for (Operation &op : body) {
    if (isa<nn::GetParameterOp, nn::GetGradientOp, nn::GetCacheOp,
            zero::ReceiveOp>(op)) {
      addBuffer(op.getResult(0), steps[&op], Region::External);
      continue;
    }
    if (!isCall(op))
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
    const TokenChunks *around = findChunks(&op);
    for (OpResult result : op.getResults()) {
      // What leaves chunks is written from the first on.
      bool isWhole = around && !around->isInside(result);
      int64_t step = steps[isWhole ? around->ops.front() : &op];
      if (failed(addResult(&op, result, step)))
        return failure();
    }
    auto addScratch = [&](int64_t bytes) {
      scratchOf[&op] = buffers.size();
      buffers.push_back({bytes, steps[&op], steps[&op]});
    };
    if (auto call = dyn_cast<exec::RuntimeCallOpInterface>(op))
      if (RankedTensorType type = call.getScratchType())
        addScratch(getBufferSize(type).bytes);
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto unit = units.find(call.getCalleeAttr().getAttr());
    if (unit == units.end())
      return call.emitOpError("calls a function that is not a planned unit");
    addScratch(unit->second.scratchBytes);
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
  int64_t start = region == Region::Batch ? reserved : 0;
  for (auto [index, offset] : llvm::zip_equal(indices, plan.offsets))
    buffers[index].offset = start + offset;
  if (function.getContext()->getRemarkEngine() && !indices.empty())
    explain(region, plan, live);
  return plan;
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

void FunctionPlan::explain(Region region, const ArenaPlan &plan, int64_t live) {
  auto getOptions = [&](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("plan-memory")
        .function(function.getName());
  };
  StringRef regionName = region == Region::Batch ? "batch" : "transient";
  remark::analysis(function.getLoc(), getOptions("Region"))
      << remark::metric("Region", regionName)
      << remark::metric("Buffers", plan.offsets.size())
      << remark::metric("Bytes", plan.bytes)
      << remark::metric("LiveBytes", live);

  // The ops that write the buffers first.
  std::vector<Operation *> writers(buffers.size());
  for (Operation &op : function.front()) {
    auto add = [&](int64_t buffer) {
      if (!writers[buffer])
        writers[buffer] = &op;
    };
    for (Value result : op.getResults())
      if (hasBuffer(result))
        add(getBuffer(result));
    if (scratchOf.contains(&op))
      add(getScratch(&op));
  }
  auto getEnd = [](const Buffer &buffer) {
    return buffer.offset +
           int64_t(llvm::alignTo(buffer.size, POPLAR_ALIGNMENT));
  };
  for (auto [index, buffer] : llvm::enumerate(buffers)) {
    if (buffer.region != region)
      continue;
    // A buffer lies as low as those allow that were placed before it: one of
    // them ends where it starts, unless it is at the start of the region.
    const Buffer &placed = buffer;
    auto below = llvm::find_if(buffers, [&](const Buffer &other) {
      return &other != &placed && other.region == region &&
             getEnd(other) == placed.offset && other.first <= placed.last &&
             placed.first <= other.last;
    });
    auto remark =
        remark::analysis(writers[index]->getLoc(), getOptions("Buffer"));
    remark << remark::metric("Region", regionName)
           << remark::metric("Buffer", index)
           << remark::metric("Op", writers[index]->getName().getStringRef())
           << remark::metric("Offset", buffer.offset)
           << remark::metric("Bytes", buffer.size)
           << remark::metric("FirstStep", buffer.first)
           << remark::metric("LastStep", buffer.last);
    if (below == buffers.end())
      remark << remark::reason("it is at the start of the region");
    else
      remark << remark::reason(
          "buffer {0} of {1}, which is alive in steps {2} to {3}, ends there",
          below - buffers.begin(),
          writers[below - buffers.begin()]->getName().getStringRef().str(),
          below->first, below->last);
  }
}

LogicalResult FunctionPlan::run() {
  isUnit = function->hasAttr(nn::kUnitAttr);
  reusableArguments.resize(function.getNumResults());
  if (failed(collect()))
    return failure();
  FailureOr<ArenaPlan> batch = place(Region::Batch, liveBytes);
  FailureOr<ArenaPlan> transient = place(Region::Transient, liveTransientBytes);
  if (failed(batch) || failed(transient))
    return failure();
  bytes = reserved + batch->bytes;
  liveBytes += reserved;
  transientBytes = transient->bytes;
  if (isUnit)
    units[function.getSymNameAttr()] = {bytes, reusableArguments};
  return success();
}
