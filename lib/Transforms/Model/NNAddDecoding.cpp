//===- NNAddDecoding.cpp - Sampling with caches of keys and values --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// @infer is made again for the tokens that are new: @decode takes one of each
// sample, @prefill a chunk of a prompt. Units become units of their own, which
// are given the positions of the tokens and the caches of their attention:
//
//   @infer    X = @block(X, W)
//   @decode   X, K0', V0' = @block.decode(X, W, positions, K0, V0)
//
// Where devices share units, one new token cannot be divided: what @infer has
// by tokens each device has whole, and what is a sum over the devices, each
// adds up. Caches are those of the device's heads.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Dialect/Zero/ParameterParts.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Transforms/Model/Decodable.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_NNADDDECODING
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

//===----------------------------------------------------------------------===//
// What can be decoded
//===----------------------------------------------------------------------===//

/// Anything that is not understood, a recursive call among it: `callers` are
/// the functions that lead to this one.
static Operation *findUndecodable(func::FuncOp function, SymbolTable &symbols,
                                  ArrayRef<Operation *> callers = {}) {
  SmallVector<Operation *> path(callers);
  path.push_back(function);
  for (Operation &op : function.front().without_terminator()) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto unit = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!unit || unit.isExternal() ||
          llvm::is_contained(path, unit.getOperation()))
        return &op;
      if (Operation *found = findUndecodable(unit, symbols, path))
        return found;
      continue;
    }
    auto decodable = dyn_cast<nn::DecodableOpInterface>(op);
    if (decodable ? !decodable.isDecodable()
                  : !isa<nn::GetParameterOp, nn::FoldKeyOp, arith::ConstantOp,
                         zero::SendOp, zero::ReceiveOp, zero::GatherTokensOp,
                         zero::ScatterTokensOp>(op))
      return &op;
  }
  return nullptr;
}

Operation *poplar::findUndecodable(ModuleOp module, nn::Entry entry) {
  SymbolTable symbols(module);
  auto function = nn::findEntry<func::FuncOp>(symbols, entry);
  return function ? ::findUndecodable(function, symbols) : nullptr;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {

/// A unit with its caches as arguments.
struct DecodedUnit {
  func::FuncOp function;
  SmallVector<RankedTensorType> caches;
};

/// Makes one of the functions.
class FunctionBuilder {
public:
  FunctionBuilder(ModuleOp module, SymbolTable &symbols, nn::Entry entry,
                  int64_t tokens, int64_t length)
      : module(module), symbols(symbols), name(nn::getName(entry)),
        tokens(tokens), length(length) {
    zero::ProgramInfo info = zero::ProgramInfo::get(module);
    if (!info.sharesUnits() || zero::joinsParts(info))
      return;
    auto [begin, end] =
        nn::TensorGroup(info.parts, info.position).getRange(length);
    ownTokens = end - begin;
  }

  func::FuncOp build(func::FuncOp infer);

private:
  void buildOps(func::FuncOp from, nn::Decoding &decoding);
  void buildSum(zero::ScatterTokensOp scatter, nn::Decoding &decoding);
  const DecodedUnit &getUnit(func::FuncOp unit);
  void buildCall(func::CallOp call, nn::Decoding &decoding);
  Type convert(Type type, const nn::Decoding &decoding) const;

  ModuleOp module;
  SymbolTable &symbols;
  StringRef name;
  int64_t tokens, length;
  /// Tokens of a sample that the device has, where devices share units; none
  /// has all of them.
  int64_t ownTokens = 0;
  llvm::DenseMap<Operation *, DecodedUnit> units;
};

/// Caches are arguments, of which the caller has the memory.
class UnitDecoding : public nn::Decoding {
public:
  UnitDecoding(OpBuilder &builder, int64_t tokens, int64_t length, Block *body)
      : Decoding(builder, tokens, length), body(body) {}

  Value addCache(RankedTensorType type) override {
    caches.push_back(type);
    return body->addArgument(type, builder.getUnknownLoc());
  }
  void setCache(Value value) override { updated.push_back(value); }

  SmallVector<RankedTensorType> caches;
  SmallVector<Value> updated;

private:
  Block *body;
};

/// Caches are the program's: every function has the same, in the same order.
class StepDecoding : public nn::Decoding {
public:
  StepDecoding(OpBuilder &builder, int64_t tokens, int64_t length,
               ModuleOp module, SymbolTable &symbols)
      : Decoding(builder, tokens, length), module(module), symbols(symbols) {}

  Value addCache(RankedTensorType type) override {
    Location loc = module.getLoc();
    std::string name = "cache." + std::to_string(count++);
    auto cache = symbols.lookup<nn::CacheOp>(name);
    if (!cache) {
      OpBuilder atStart(module.getBodyRegion());
      cache = nn::CacheOp::create(atStart, loc, name, type);
      symbols.insert(cache);
    }
    return nn::GetCacheOp::create(builder, loc, type, cache.getSymName());
  }
  void setCache(Value) override {}

private:
  ModuleOp module;
  SymbolTable &symbols;
  int64_t count = 0;
};

} // namespace

/// A type of whole samples, or of the device's tokens of them, for new tokens.
Type FunctionBuilder::convert(Type type, const nn::Decoding &decoding) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!ownTokens || !tensor || tensor.getRank() < 2 ||
      !tensor.isDynamicDim(0) || tensor.getDimSize(1) != ownTokens)
    return decoding.convert(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[1] = tokens;
  return tensor.clone(shape);
}

const DecodedUnit &FunctionBuilder::getUnit(func::FuncOp unit) {
  auto known = units.find(unit);
  if (known != units.end())
    return known->second;
  OpBuilder builder(module.getContext());
  auto made = func::FuncOp::create(unit.getLoc(),
                                   (unit.getSymName() + "." + name).str(),
                                   builder.getFunctionType({}, {}));
  made.setPrivate();
  made->setAttr(nn::kUnitAttr, builder.getUnitAttr());
  made->setAttr(nn::kDecodingAttr, builder.getI64IntegerAttr(tokens));
  Block *body = made.addEntryBlock();
  builder.setInsertionPointToStart(body);
  UnitDecoding decoding(builder, tokens, length, body);
  for (BlockArgument argument : unit.getArguments())
    decoding.map(argument,
                 body->addArgument(convert(argument.getType(), decoding),
                                   argument.getLoc()));
  decoding.positions =
      body->addArgument(RankedTensorType::get({ShapedType::kDynamic, tokens},
                                              builder.getI32Type()),
                        unit.getLoc());
  buildOps(unit, decoding);
  SmallVector<Value> results;
  for (Value result : unit.front().getTerminator()->getOperands())
    results.push_back(decoding.lookup(result));
  llvm::append_range(results, decoding.updated);
  func::ReturnOp::create(builder, unit.getLoc(), results);
  made.setFunctionType(builder.getFunctionType(body->getArgumentTypes(),
                                               ValueRange(results).getTypes()));
  for (unsigned i = 0, end = unit.getNumArguments(); i != end; ++i)
    if (unit.getArgAttr(i, nn::kParameterAttr))
      made.setArgAttr(i, nn::kParameterAttr, builder.getUnitAttr());
  for (unsigned i = unit.getNumArguments() + 1, end = made.getNumArguments();
       i != end; ++i)
    made.setArgAttr(i, nn::kCacheAttr, builder.getUnitAttr());
  symbols.insert(made, std::next(unit->getIterator()));
  return units[unit] = {made, std::move(decoding.caches)};
}

void FunctionBuilder::buildCall(func::CallOp call, nn::Decoding &decoding) {
  const DecodedUnit &unit =
      getUnit(symbols.lookup<func::FuncOp>(call.getCallee()));
  SmallVector<Value> operands;
  for (Value operand : call.getOperands())
    operands.push_back(decoding.lookup(operand));
  operands.push_back(decoding.positions);
  for (RankedTensorType type : unit.caches)
    operands.push_back(decoding.addCache(type));
  auto made = func::CallOp::create(decoding.builder, call.getLoc(),
                                   unit.function, operands);
  for (auto [from, to] : llvm::zip(call.getResults(), made.getResults()))
    decoding.map(from, to);
  for (Value updated : made.getResults().drop_front(call.getNumResults()))
    decoding.setCache(updated);
}

/// In f32 and in the order of the devices, as when tokens are scattered.
void FunctionBuilder::buildSum(zero::ScatterTokensOp scatter,
                               nn::Decoding &decoding) {
  Value partial = decoding.lookup(scatter.getPartial());
  SmallVector<Type> types(scatter.getBounds().size() - 1, partial.getType());
  auto exchange = zero::ExchangeOp::create(decoding.builder, scatter.getLoc(),
                                           types, zero::ExchangeKind::Collect,
                                           partial, scatter.getBounds());
  decoding.map(scatter.getResult(),
               zero::SumExchangeOp::create(decoding.builder, scatter.getLoc(),
                                           partial.getType(),
                                           exchange.getResults()));
}

void FunctionBuilder::buildOps(func::FuncOp from, nn::Decoding &decoding) {
  for (Operation &op : from.front().without_terminator()) {
    if (auto gather = dyn_cast<zero::GatherTokensOp>(op))
      decoding.map(gather.getResult(), decoding.lookup(gather.getTokens()));
    else if (auto scatter = dyn_cast<zero::ScatterTokensOp>(op))
      buildSum(scatter, decoding);
    else if (auto call = dyn_cast<func::CallOp>(op))
      buildCall(call, decoding);
    else if (auto decodable = dyn_cast<nn::DecodableOpInterface>(op))
      decodable.buildDecoding(decoding);
    else
      decoding.clone(&op);
    for (Value result : op.getResults())
      if (Value made = decoding.lookup(result))
        made.setType(convert(result.getType(), decoding));
  }
}

func::FuncOp FunctionBuilder::build(func::FuncOp infer) {
  OpBuilder builder(module.getContext());
  auto ids = RankedTensorType::get({ShapedType::kDynamic, tokens},
                                   builder.getI32Type());
  auto made = func::FuncOp::create(infer.getLoc(), name,
                                   builder.getFunctionType({ids, ids}, {}));
  made->setAttr(nn::kDecodingAttr, builder.getI64IntegerAttr(tokens));
  builder.setInsertionPointToStart(made.addEntryBlock());
  StepDecoding decoding(builder, tokens, length, module, symbols);
  decoding.map(infer.getArgument(nn::kIds), made.getArgument(0));
  decoding.positions = made.getArgument(1);
  // Where documents share samples, @infer takes positions, too.
  if (infer.getNumArguments() > nn::kPositions)
    decoding.map(infer.getArgument(nn::kPositions), decoding.positions);
  buildOps(infer, decoding);
  SmallVector<Value> results;
  for (Value result : infer.front().getTerminator()->getOperands())
    results.push_back(decoding.lookup(result));
  func::ReturnOp::create(builder, infer.getLoc(), results);
  made.setFunctionType(builder.getFunctionType(made.getArgumentTypes(),
                                               ValueRange(results).getTypes()));
  symbols.insert(made, std::next(infer->getIterator()));
  return made;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
class NNAddDecodingPass
    : public poplar::impl::NNAddDecodingBase<NNAddDecodingPass> {
public:
  using Base::Base;

  /// The same in all programs of a plan. Of a chunk, there are as many tokens
  /// in a message between stages as any device has of a sample, at most.
  int64_t countTokensOfChunk(int64_t length) {
    int64_t tokens = std::min(length, int64_t(chunk));
    for (auto plan : getOperation().getOps<zero::PlanOp>()) {
      if (plan.getGroups().size() < 2)
        continue;
      for (zero::GroupOp group : plan.getGroups()) {
        SmallVector<int64_t> bounds =
            nn::divideByParts(length, group.getPartsOfRanks());
        for (size_t i = 1; i < bounds.size(); ++i)
          tokens = std::min(tokens, bounds[i] - bounds[i - 1]);
      }
    }
    return tokens;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (chunk < 1) {
      module.emitError("option chunk must be at least 1");
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    auto infer = nn::findEntry<func::FuncOp>(symbols, nn::Entry::Infer);
    unsigned inputs = nn::isPacked(module) ? nn::kPositions + 1 : 1;
    if (!infer || infer.isExternal() || infer.getNumArguments() != inputs) {
      module.emitError("has no function @infer of ids: run --nn-differentiate "
                       "first");
      return signalPassFailure();
    }
    for (nn::Entry entry : {nn::Entry::Decode, nn::Entry::Prefill})
      if (Operation *other = symbols.lookup(nn::getName(entry))) {
        other->emitOpError("has the name @")
            << nn::getName(entry)
            << " of a function that this pass makes: rename it";
        return signalPassFailure();
      }
    if (Operation *op = findUndecodable(module, nn::Entry::Infer)) {
      op->emitRemark("needs whole sequences: sampling has no caches");
      return;
    }
    Type type = infer.getArgument(nn::kIds).getType();
    auto ids = dyn_cast<RankedTensorType>(type);
    if (!ids || ids.getRank() != 2 || !ids.isDynamicDim(0) ||
        ids.getDimSize(1) < 1) {
      infer.emitOpError("takes ")
          << type << ", expected ids [?,T] of one token or more a sample";
      return signalPassFailure();
    }
    int64_t length = ids.getDimSize(1);
    FunctionBuilder(module, symbols, nn::Entry::Decode, 1, length).build(infer);
    FunctionBuilder(module, symbols, nn::Entry::Prefill,
                    countTokensOfChunk(length), length)
        .build(infer);
  }
};
} // namespace
