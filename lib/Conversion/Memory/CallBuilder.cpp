//===- CallBuilder.cpp - From tensors to calls on buffers -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallBuilder.h"
#include "KernelRows.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace poplar;

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value CallBuilder::createBuffer(exec::Region region, int64_t offset,
                                MemRefType type) {
  return exec::BufferOp::create(builder, loc, type, region, offset);
}

/// A whole bucket in transient memory; what `op` gives lies there.
Value CallBuilder::createTransient(Operation *op, FlatSymbolRefAttr bucket,
                                   Type type) {
  int64_t index = plan.getBuffer(op->getResult(0));
  Value flat =
      createBuffer(exec::Region::Transient, plan.getBuffers()[index].offset,
                   MemRefType::get({getBucket(bucket).layout.elements}, type));
  created[index] = flat;
  return flat;
}

Value CallBuilder::getBuffer(Value value) {
  Value buffer = value ? buffers.lookup(value) : Value();
  if (!buffer || !chunk || plan.findChunksAround(value))
    return buffer;
  auto type = cast<MemRefType>(buffer.getType());
  if (!exec::getBufferSize(type).perSample ||
      type.getDimSize(1) != chunk->tokens)
    return buffer;
  Value &rows = chunk->rows[buffer];
  if (!rows)
    rows = exec::RowsOp::create(
        builder, loc, exec::getTokensType(type, chunk->end - chunk->first),
        buffer, chunk->first);
  return rows;
}

/// The memory that a call needs while it runs.
Value CallBuilder::createScratch(Operation *call, MemRefType type) {
  int64_t index = plan.getScratch(call);
  created[index] =
      createBuffer(source->hasAttr(nn::kUnitAttr) ? exec::Region::Scratch
                                                  : exec::Region::Batch,
                   plan.getBuffers()[index].offset, type);
  return created[index];
}

/// The buffer of what an op gives: that which it accumulates into or takes
/// over, or a new one.
void CallBuilder::bindResult(OpResult result) {
  if (buffers.count(result))
    return; // the caller's
  if (OpOperand *operand = getAccumulator(result.getOwner(),
                                          result.getResultNumber(), symbols)) {
    buffers[result] = getBuffer(operand->get());
    return;
  }
  int64_t index = plan.getBuffer(result);
  Value &buffer = created[index];
  if (!buffer) {
    auto type = cast<RankedTensorType>(result.getType());
    if (plan.findChunksAround(result))
      type = TokenChunks::getTypeInside(result, chunk->end - chunk->first);
    buffer = createBuffer(source->hasAttr(nn::kUnitAttr) ? exec::Region::Scratch
                                                         : exec::Region::Batch,
                          plan.getBuffers()[index].offset,
                          exec::getBufferType(type));
  }
  buffers[result] = buffer;
}

void CallBuilder::endBuffers(Operation *op, bool ofChunk) {
  if (!plan.isLastOfStep(op))
    return;
  int64_t step = plan.getStep(op);
  for (auto [index, buffer] : llvm::enumerate(plan.getBuffers()))
    if (Value value = created.lookup(index);
        value && buffer.last == step && buffer.isInside == ofChunk)
      exec::EndOp::create(builder, loc, value);
}

void CallBuilder::bindSlices(ResultRange values, Value flat,
                             FlatSymbolRefAttr bucket) {
  for (auto [value, offset] :
       llvm::zip_equal(values, getBucket(bucket).layout.offsets))
    buffers[value] = exec::ViewOp::create(
        builder, loc, exec::getBufferType(value.getType()), flat, offset);
}

//===----------------------------------------------------------------------===//
// What functions are given
//===----------------------------------------------------------------------===//

/// The results of a unit that have buffers of their own: its caller's.
FailureOr<SmallVector<Value>> CallBuilder::findUnitResults() {
  SmallVector<Value> results;
  Operation *terminator = source.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    if (getInPlaceArgument(source, index))
      continue;
    auto result = dyn_cast<OpResult>(value);
    if (!result || llvm::is_contained(results, value) ||
        getAccumulator(result.getOwner(), result.getResultNumber(), symbols))
      return terminator->emitOpError("operand #")
             << index << " has no buffer of its own";
    results.push_back(value);
  }
  return results;
}

void CallBuilder::bindUnit(ArrayRef<Value> results) {
  auto unit = cast<exec::FunctionOp>(builder.getBlock()->getParentOp());
  auto arguments = unit.getBody().getArguments();
  for (BlockArgument argument : source.getArguments())
    buffers[argument] = arguments[argument.getArgNumber()];
  for (auto [value, buffer] :
       llvm::zip_equal(results, arguments.drop_front(source.getNumArguments())))
    buffers[value] = buffer;
}

void CallBuilder::bindStep() {
  for (auto [argument, offset] :
       llvm::zip_equal(source.getArguments(), places.inputs.at(source)))
    if (!argument.use_empty())
      buffers[argument] = createBuffer(exec::Region::Batch, offset,
                                       exec::getBufferType(argument.getType()));
}

/// What the runtime gives to a turn.
void CallBuilder::bindTurn() {
  using exec::PortKind;
  auto bindPort = [&](Value value, PortKind kind) {
    buffers[value] = exec::PortOp::create(
        builder, loc, exec::getBufferType(value.getType()), kind);
  };
  auto bindSlot = [&](Value value, int64_t offset) {
    buffers[value] = createBuffer(exec::Region::Slot, offset,
                                  exec::getBufferType(value.getType()));
  };
  const SmallVector<int64_t> &inputs = places.inputs.at(source);
  ArrayRef<int64_t> residuals = places.residuals[zero::getChunk(source)];
  for (BlockArgument argument : source.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (argument.use_empty())
      continue;
    if (source.getArgAttr(index, zero::kReceivedAttr))
      bindPort(argument, PortKind::ActivationIn);
    else if (source.getArgAttr(index, zero::kSentAttr))
      bindPort(argument, PortKind::ActivationOut);
    else if (auto number = source.getArgAttrOfType<IntegerAttr>(
                 index, zero::kResidualAttr))
      bindSlot(argument, residuals[number.getInt()]);
    else
      bindSlot(argument, inputs[index]);
  }
  for (auto receive : source.getOps<zero::ReceiveOp>())
    bindPort(receive.getValue(),
             receive.getKind() == zero::MessageKind::Activation
                 ? PortKind::ActivationIn
                 : PortKind::GradientIn);
  for (auto send : source.getOps<zero::SendOp>())
    bindPort(send.getValue(), send.getKind() == zero::MessageKind::Activation
                                  ? PortKind::ActivationOut
                                  : PortKind::GradientOut);
  for (OpOperand &operand : source.front().getTerminator()->getOpOperands())
    if (auto number = source.getResultAttrOfType<IntegerAttr>(
            operand.getOperandNumber(), zero::kResidualAttr);
        number && !buffers.count(operand.get()))
      bindSlot(operand.get(), residuals[number.getInt()]);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void CallBuilder::lowerUnit(func::CallOp call) {
  SmallVector<Value> arguments;
  for (Value operand : call.getOperands())
    arguments.push_back(getBuffer(operand));
  for (OpResult result : call.getResults())
    if (!getAccumulator(call, result.getResultNumber(), symbols))
      arguments.push_back(getBuffer(result));
  int64_t bytes = plan.getBuffers()[plan.getScratch(call)].size;
  Value buffer =
      createScratch(call, MemRefType::get({ShapedType::kDynamic, bytes},
                                          builder.getI8Type()));
  exec::CallOp::create(builder, loc, call.getCallee(), arguments, buffer);
}

void CallBuilder::lowerDispatch(exec::DispatchOp dispatch) {
  SmallVector<Value> values(dispatch.getArgs());
  for (OpResult result : dispatch->getResults())
    if (!getAccumulator(dispatch, result.getResultNumber(), symbols))
      values.push_back(result);
  auto kernel = symbols.lookupNearestSymbolFrom<exec::KernelOp>(
      dispatch, dispatch.getKernelAttr());
  auto types = kernel.getBufferTypes();
  if (chunk) {
    cut.insert(kernel);
    kernel = getKernelOfRows(kernel, chunk->tokens, chunk->first, chunk->end);
  }
  SmallVector<Value> arguments;
  // Tables remain whole.
  for (auto [value, whole, type] :
       llvm::zip_equal(values, types, kernel.getBufferTypes()))
    arguments.push_back(whole == type ? buffers.lookup(value)
                                      : getBuffer(value));
  exec::DispatchOp::create(builder, loc, TypeRange{}, kernel.getSymName(),
                           arguments);
}

LogicalResult CallBuilder::lowerChunks(const TokenChunks &chunks) {
  for (Operation *op : chunks.ops)
    for (OpResult result : op->getResults())
      if (!chunks.isInside(result))
        bindResult(result);
  for (int64_t first = 0; first < chunks.tokens; first += chunks.size) {
    chunk = Chunk{chunks.tokens, first,
                  std::min(first + chunks.size, chunks.tokens)};
    for (Operation *op : chunks.ops) {
      loc = op->getLoc();
      for (OpResult result : op->getResults())
        bindResult(result);
      if (failed(lowerCall(op)))
        return failure();
      endBuffers(op, /*ofChunk=*/true);
    }
    // The next chunk's lie in the same places.
    for (auto [index, buffer] : llvm::enumerate(plan.getBuffers()))
      if (buffer.isInside)
        created.erase(index);
    for (Operation *op : chunks.ops)
      for (Value result : op->getResults())
        if (chunks.isInside(result))
          buffers.erase(result);
  }
  chunk.reset();
  endBuffers(chunks.ops.back());
  return success();
}

/// Starts a collective; leaves its token and its buffer in `started` under the
/// op's first result, if any.
Value CallBuilder::start(Operation *op, zero::CollectiveKind kind,
                         FlatSymbolRefAttr name, Type wire,
                         ValueRange gradients, bool isTransient, bool unscale) {
  const SharedPlaces::Bucket &bucket = getBucket(name);
  auto f32 = builder.getF32Type();
  bool gathers = kind == zero::CollectiveKind::AllGather;
  Value buffer;
  if (isTransient)
    buffer = createTransient(op, name, bucket.type);
  else if (!gradients.empty())
    buffer = created.lookup(plan.getBuffer(gradients.front()));
  else if (!sumsShards(kind)) // the runtime knows where shards are
    buffer = createBuffer(
        exec::Region::Fixed, gathers ? *bucket.working : *bucket.gradient,
        MemRefType::get({bucket.layout.elements}, gathers ? bucket.type : f32));
  if (unscale)
    exec::UnscaleOp::create(builder, loc, name.getValue(), buffer);
  Value token = exec::StartOp::create(
      builder, loc, exec::TokenType::get(builder.getContext()), kind,
      name.getValue(), TypeAttr::get(wire), buffer,
      isTransient || !gradients.empty());
  if (op->getNumResults())
    started[op->getResult(0)] = {token, buffer};
  return token;
}

bool CallBuilder::lowerZero(Operation *op) {
  auto wait = [&](Value token) { exec::WaitOp::create(builder, loc, token); };
  if (auto zeroed = dyn_cast<zero::GradientsOp>(op)) {
    Value flat =
        createTransient(op, zeroed.getBucketAttr(), builder.getF32Type());
    exec::ZeroOp::create(builder, loc, flat);
    bindSlices(op->getResults(), flat, zeroed.getBucketAttr());
    return true;
  }
  if (auto gather = dyn_cast<zero::AllGatherOp>(op)) {
    wait(start(op, zero::CollectiveKind::AllGather, gather.getBucketAttr(),
               gather.getWire(), {}, op->getNumResults() != 0, false));
    if (op->getNumResults())
      bindSlices(op->getResults(), started[op->getResult(0)].second,
                 gather.getBucketAttr());
    return true;
  }
  if (auto scatter = dyn_cast<zero::ReduceScatterOp>(op)) {
    wait(start(op, zero::CollectiveKind::ReduceScatter, scatter.getBucketAttr(),
               scatter.getWire(), scatter.getGradients(), false,
               scatter.getUnscale()));
    return true;
  }
  if (auto reduce = dyn_cast<zero::AllReduceOp>(op)) {
    wait(start(op, zero::CollectiveKind::AllReduce, reduce.getBucketAttr(),
               reduce.getWire(), {}, false, reduce.getUnscale()));
    return true;
  }
  if (auto async = dyn_cast<zero::StartOp>(op)) {
    start(op, async.getKind(), async.getBucketAttr(), async.getWire(),
          async.getGradients(), async.getTransient(), async.getUnscale());
    return true;
  }
  if (auto waits = dyn_cast<zero::WaitOp>(op)) {
    auto [token, buffer] = started.lookup(waits.getToken());
    wait(token);
    if (op->getNumResults())
      bindSlices(
          op->getResults(), buffer,
          waits.getToken().getDefiningOp<zero::StartOp>().getBucketAttr());
    return true;
  }
  if (auto send = dyn_cast<zero::SendOp>(op)) {
    exec::SendOp::create(builder, loc, send.getKind());
    return true;
  }
  if (auto receive = dyn_cast<zero::ReceiveOp>(op)) {
    exec::ReceiveOp::create(builder, loc, receive.getKind());
    return true;
  }
  if (auto norm = dyn_cast<zero::NormOp>(op)) {
    exec::NormOp::create(builder, loc, norm.getUnscale());
    return true;
  }
  if (auto adamw = dyn_cast<zero::AdamWOp>(op)) {
    exec::AdamWOp::create(builder, loc, adamw.getBucket());
    return true;
  }
  return false;
}

/// A collective that brings no buffer of its own works on the whole copy of a
/// bucket.
LogicalResult CallBuilder::checkCopy(Operation *op) {
  auto collective = dyn_cast<zero::CollectiveOpInterface>(op);
  auto start = dyn_cast<zero::StartOp>(op);
  if (!collective || !collective.getBucketName() || op->getNumOperands() ||
      (start ? start.getTransient() : op->getNumResults() != 0))
    return success();
  const SharedPlaces::Bucket &bucket = getBucket(collective.getBucketName());
  bool gathers =
      collective.getCollectiveKind() == zero::CollectiveKind::AllGather;
  if (sumsShards(collective.getCollectiveKind()))
    return success();
  if (gathers ? bucket.working : bucket.gradient)
    return success();
  return op->emitOpError("works on the whole ")
         << (gathers ? "working copy" : "gradient") << " of "
         << collective.getBucketName() << ", which is sharded";
}

LogicalResult CallBuilder::lower(Operation *op) {
  if (failed(checkCopy(op)))
    return failure();
  if (isa<tensor::DimOp, arith::ConstantOp, nn::SetGradientOp>(op) ||
      lowerZero(op))
    return success();
  if (isa<nn::GetParameterOp, nn::GetGradientOp>(op)) {
    // A slice of its bucket's whole copy.
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("parameter").getAttr();
    auto known = places.parameters.find(name);
    if (known == places.parameters.end())
      return op->emitOpError("parameter ")
             << name << " is in no bucket: run --zero-form-buckets first";
    auto [bucketName, offset] = known->second;
    const SharedPlaces::Bucket &bucket =
        places.buckets.find(bucketName)->second;
    bool isGradient = isa<nn::GetGradientOp>(op);
    std::optional<int64_t> copy = isGradient ? bucket.gradient : bucket.working;
    if (!copy)
      return op->emitOpError("parameter ")
             << name << " is sharded: gather it first";
    MemRefType type = exec::getBufferType(op->getResult(0).getType());
    int64_t width = isGradient ? 4 : bucket.type.getIntOrFloatBitWidth() / 8;
    buffers[op->getResult(0)] =
        createBuffer(exec::Region::Fixed, *copy + offset * width, type);
    return success();
  }
  if (auto get = dyn_cast<nn::GetCacheOp>(op)) {
    buffers[get.getValue()] = createBuffer(
        exec::Region::Cache, places.caches.lookup(get.getCacheAttr().getAttr()),
        exec::getBufferType(get.getType()));
    return success();
  }
  for (OpResult result : op->getResults())
    bindResult(result);
  return lowerCall(op);
}

/// What runs on buffers that are known.
LogicalResult CallBuilder::lowerCall(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    lowerUnit(call);
    return success();
  }
  if (auto dispatch = dyn_cast<exec::DispatchOp>(op)) {
    lowerDispatch(dispatch);
    return success();
  }
  if (auto call = dyn_cast<exec::RuntimeCallOpInterface>(op)) {
    RankedTensorType scratch = call.getScratchType();
    call.emitCalls(
        builder, [&](Value value) { return getBuffer(value); },
        scratch ? createScratch(op, exec::getBufferType(scratch)) : Value());
    return success();
  }
  return op->emitOpError("cannot be lowered: it is neither in a kernel nor a "
                         "call of the runtime");
}

/// What a unit gives as a gradient or a cache has to lie where it was given it.
LogicalResult CallBuilder::checkUpdates() {
  Operation *terminator = source.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands()))
    if (std::optional<unsigned> argument = getInPlaceArgument(source, index);
        argument &&
        getBuffer(value) != getBuffer(source.getArgument(*argument)))
      return terminator->emitOpError("operand #")
             << index << " is not accumulated into argument #" << *argument;
  return success();
}

/// Where a step leaves what it returns.
LogicalResult CallBuilder::setResult(exec::FunctionOp target) {
  Operation *terminator = source.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (source.getResultAttr(index, zero::kResidualAttr))
      continue;
    if (target.getResult())
      return source.emitOpError("must return at most one value");
    auto buffer = plan.getBuffers()[plan.getBuffer(operand.get())];
    if (buffer.offset < 0)
      return terminator->emitOpError("operand #")
             << index << " is not computed by the function";
    target.setResult(buffer.offset);
    target.setResultType(exec::getBufferType(operand.get().getType()));
  }
  return success();
}

/// Says what the function is for, and so what its arguments are: those of
/// @model, and behind them the gradient of the loss; or, in sampling, new
/// tokens and their positions.
LogicalResult CallBuilder::setRole(exec::FunctionOp target) {
  nn::Entry role = places.roles.at(source);
  exec::EntryOp::create(builder, loc, role, target, zero::getChunk(source));
  SmallVector<int64_t> offsets = places.inputs.at(source);
  bool isPacked = nn::isPacked(source->getParentOfType<ModuleOp>());
  size_t ofModel = isPacked ? nn::kPositions + 1 : nn::kKeys + 1,
         most = target.getDecoding() ? 2 : ofModel + 1;
  if (offsets.size() > most)
    return source.emitOpError("takes ")
           << offsets.size() << " inputs, but '" << nn::getName(role)
           << "' has " << most << " at most";
  if (offsets.empty())
    return success();
  offsets.resize(ofModel + 1, -1);
  MLIRContext *context = source.getContext();
  target.setInputsAttr(
      target.getDecoding()
          ? exec::InputsAttr::get(context, offsets[0], /*targets=*/-1,
                                  /*keys=*/-1, offsets[1], /*dloss=*/-1)
          : exec::InputsAttr::get(context, offsets[nn::kIds],
                                  offsets[nn::kTargets], offsets[nn::kKeys],
                                  isPacked ? offsets[nn::kPositions] : -1,
                                  offsets[ofModel]));
  return success();
}

LogicalResult CallBuilder::run() {
  bool isUnit = source->hasAttr(nn::kUnitAttr);
  bool isTurn = source->hasAttr(zero::kTurnAttr);
  SmallVector<Value> results;
  SmallVector<Type> types;
  if (isUnit) {
    FailureOr<SmallVector<Value>> found = findUnitResults();
    if (failed(found))
      return failure();
    results = std::move(*found);
    for (Type type : source.getArgumentTypes())
      types.push_back(exec::getBufferType(type));
    for (Value result : results)
      types.push_back(exec::getBufferType(result.getType()));
  }
  auto target = exec::FunctionOp::create(builder, loc,
                                         isUnit   ? exec::FunctionKind::Unit
                                         : isTurn ? exec::FunctionKind::Turn
                                                  : exec::FunctionKind::Step,
                                         source.getName(), types);
  if (auto tokens = source->getAttrOfType<IntegerAttr>(nn::kDecodingAttr))
    target.setDecoding(tokens.getInt());
  if (!isUnit && failed(setRole(target)))
    return failure();
  builder.setInsertionPointToStart(&target.getBody().front());
  if (isUnit) {
    target.setScratchBytes(plan.bytes);
    bindUnit(results);
  } else {
    isTurn ? bindTurn() : bindStep();
  }
  Operation *terminator = source.front().getTerminator();
  for (Operation &op : source.front().without_terminator()) {
    if (const TokenChunks *chunks = plan.findChunks(&op)) {
      if (&op == chunks->ops.front() && failed(lowerChunks(*chunks)))
        return failure();
      continue;
    }
    loc = op.getLoc();
    if (failed(lower(&op)))
      return failure();
    endBuffers(&op);
  }
  exec::ReturnOp::create(builder, terminator->getLoc());
  return isUnit ? checkUpdates() : setResult(target);
}
