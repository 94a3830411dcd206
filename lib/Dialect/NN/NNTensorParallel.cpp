//===- NNTensorParallel.cpp - How ops are divided -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Runtime/Quantized.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

SmallVector<int64_t> nn::divideByParts(int64_t count, ArrayRef<int64_t> parts) {
  auto size = int64_t(parts.size());
  // The largest block of which there are some for everybody, and that divides
  // the things without a rest.
  int64_t block = 16;
  while (block > 1 && (count % block != 0 || count / block < 4 * size))
    block /= 2;
  int64_t blocks = count / block;
  int64_t sum = std::accumulate(parts.begin(), parts.end(), int64_t(0));
  // Everybody has one; the others go by the parts.
  int64_t rest = blocks - size;
  SmallVector<int64_t> shares(size, 1);
  SmallVector<std::pair<double, int64_t>> remainders;
  int64_t given = 0;
  for (auto [index, part] : llvm::enumerate(parts)) {
    double ideal =
        std::max(0.0, double(blocks) * double(part) / double(sum) - 1);
    auto whole = std::min(int64_t(ideal), rest - given);
    shares[index] += whole;
    given += whole;
    remainders.push_back({ideal - double(whole), int64_t(index)});
  }
  llvm::stable_sort(remainders,
                    [](auto a, auto b) { return a.first > b.first; });
  for (size_t i = 0; given < rest; i = (i + 1) % remainders.size(), ++given)
    ++shares[remainders[i].second];
  SmallVector<int64_t> bounds = {0};
  for (int64_t share : shares)
    bounds.push_back(bounds.back() + share * block);
  return bounds;
}

int64_t nn::countColumns(const Ranges &ranges) {
  int64_t columns = 0;
  for (auto [begin, end] : ranges)
    columns += end - begin;
  return columns;
}

bool nn::cutsBlocks(ArrayRef<int64_t> shape, const ParameterShare &share,
                    int64_t block) {
  if (share.kind != ParameterShare::Slice)
    return false;
  SmallVector<int64_t> ranges;
  for (auto [begin, end] : share.ranges)
    ranges.append({begin, end});
  return poplar_cuts_blocks(int64_t(shape.size()), shape.data(), share.dim,
                            int64_t(share.ranges.size()), ranges.data(), block);
}

RankedTensorType nn::getShareType(RankedTensorType type,
                                  const ParameterShare &share) {
  if (share.kind != ParameterShare::Slice)
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape[share.dim] = countColumns(share.ranges);
  Type element = type.getElementType();
  if (auto quantized = dyn_cast<QuantizedType>(element);
      quantized && quantized.getFormat() == QuantizedFormat::NF4Double &&
      cutsBlocks(type.getShape(), share, POPLAR_NF4_BLOCK * POPLAR_SCALE_BLOCK))
    element = QuantizedType::get(type.getContext(), QuantizedFormat::NF4);
  return RankedTensorType::get(shape, element);
}

//===----------------------------------------------------------------------===//
// UnitSharding
//===----------------------------------------------------------------------===//

static Location getLoc(Value value) { return value.getLoc(); }

Value UnitSharding::getTokens(Value old) {
  Layout layout = getLayout(old);
  switch (layout.kind) {
  case Layout::Tokens:
    return get(old);
  case Layout::Partial: {
    Value tokens = scatterTokens(old);
    set(old, tokens, {Layout::Tokens, {}});
    return tokens;
  }
  case Layout::Whole:
  case Layout::Columns:
    hasError = true;
    emitError(getLoc(old))
        << "cannot be divided by tokens where devices share units: it lies "
        << (layout.kind == Layout::Whole ? "whole on each device"
                                         : "in columns");
    return {};
  }
  llvm_unreachable("every layout returns");
}

Value UnitSharding::getWhole(Value old) {
  Layout layout = getLayout(old);
  if (layout.kind == Layout::Whole)
    return get(old);
  if (layout.kind == Layout::Partial && !getTokens(old))
    return {};
  if (layout.kind == Layout::Columns) {
    hasError = true;
    emitError(getLoc(old)) << "is needed whole, but lies in columns where "
                              "devices share units";
    return {};
  }
  // Linear layers of one value share the gathered one.
  Value tokens = get(old);
  Value &whole = gathered[tokens];
  if (!whole)
    whole = gatherTokens(getLoc(old), tokens);
  return whole;
}

Value UnitSharding::getParameter(Value old, const ParameterShare &share) {
  auto [entry, isNew] = shares.insert({old, share});
  if (!isNew && !(entry->second == share)) {
    hasError = true;
    emitError(getLoc(old))
        << "is a parameter whose uses need different splits among devices";
    return {};
  }
  if (isNew)
    mapping.map(old, takeParameter(old, share));
  return mapping.lookup(old);
}

std::optional<Ranges> UnitSharding::findSplit(Value value) {
  std::optional<Ranges> found;
  if (value.use_empty())
    return std::nullopt;
  for (OpOperand &use : value.getUses()) {
    std::optional<Ranges> ranges;
    Operation *op = use.getOwner();
    if (op->hasTrait<OpTrait::IsTerminator>()) {
      ranges = findSplitOfResult(use.getOperandNumber());
    } else if (isa<DropoutOp>(op)) {
      // Any columns share the mask of all columns.
      ranges = findSplit(op->getResult(0));
    } else if (auto parallel = dyn_cast<TensorParallelOpInterface>(op)) {
      OperandSplit split = parallel.splitOperand(use, group);
      if (split.kind == OperandSplit::Columns)
        ranges = split.ranges;
      else if (split.kind == OperandSplit::AsResult)
        ranges = findSplit(op->getResult(0));
    }
    if (!ranges || (found && *found != *ranges))
      return std::nullopt;
    found = ranges;
  }
  return found;
}

Operation *UnitSharding::clone(Operation *op, const Layout &layout) {
  Operation *made = builder.clone(*op, mapping);
  for (auto [old, result] :
       llvm::zip_equal(op->getResults(), made->getResults())) {
    auto type = cast<RankedTensorType>(old.getType());
    SmallVector<int64_t> shape(type.getShape());
    if (layout.kind == Layout::Tokens && shape.size() > 1) {
      auto [begin, end] = getTokenRange(shape[1]);
      shape[1] = end - begin;
    }
    if (layout.kind == Layout::Columns && shape.size() > 2)
      shape.back() = countColumns(layout.ranges);
    result.setType(RankedTensorType::get(shape, type.getElementType()));
    set(old, result, layout);
  }
  return made;
}

//===----------------------------------------------------------------------===//
// Embeddings and linear layers
//===----------------------------------------------------------------------===//

static ParameterShare sliceOf(int64_t dim, Ranges ranges) {
  return {ParameterShare::Slice, dim, std::move(ranges)};
}
static const ParameterShare wholeShare,
    firstShare = {ParameterShare::First, 0, {}};

/// The device's rows of the table; look-ups of others give zeros.
LogicalResult EmbeddingOp::shard(UnitSharding &s) {
  auto [begin, end] = s.group.getRange(
      cast<RankedTensorType>(getTable().getType()).getDimSize(0));
  s.getParameter(getTable(), sliceOf(0, {{begin, end}}));
  auto made = cast<EmbeddingOp>(s.clone(*this, {Layout::Partial, {}}));
  made.setFirstRow(begin);
  if (std::optional<uint64_t> row = getPaddingIdx()) {
    bool isHere = int64_t(*row) >= begin && int64_t(*row) < end;
    if (isHere)
      made.setPaddingIdx(int64_t(*row) - begin);
    else
      made.removePaddingIdxAttr();
  }
  return success();
}

/// What is added to a sum over devices, one of them adds.
LogicalResult PositionEmbeddingOp::shard(UnitSharding &s) {
  if (s.getLayout(getX()).kind != Layout::Partial)
    return emitOpError("is added to something else than an embedding, which "
                       "cannot be divided among devices");
  if (s.getParameter(getTable(), firstShare))
    s.clone(*this, {Layout::Partial, {}});
  else
    s.set(getResult(), s.get(getX()), {Layout::Partial, {}});
  return success();
}

/// A product of an adapter: y + up(scale(down(x))) beside y = W x, also with
/// dropout of x.
static bool isUpOfAdapter(LinearOp up) {
  Value inner = up.getX();
  if (auto scale = inner.getDefiningOp<ScaleOp>())
    inner = scale.getX();
  auto down = inner.getDefiningOp<LinearOp>();
  if (!down || up.getBias() || !up->hasOneUse())
    return false;
  Value x = down.getX();
  if (auto dropout = x.getDefiningOp<DropoutOp>())
    x = dropout.getX();
  auto sum = dyn_cast<AddOp>(*up->user_begin());
  auto base = sum ? sum.getLhs().getDefiningOp<LinearOp>() : LinearOp();
  return base && base.getX() == x && sum.getRhs() == up.getResult();
}

/// At multiples of how many columns of x a weight may be cut: no block of
/// quantised values is.
static int64_t getBlockOfColumns(LinearOp op) {
  auto type = op.getWeight().getType();
  auto element = dyn_cast<QuantizedType>(type.getElementType());
  if (!element || element.getFormat() == QuantizedFormat::Int8)
    return 1;
  int64_t perColumn =
      op.getLayout() == WeightLayout::OutIn ? 1 : type.getDimSize(1);
  return POPLAR_NF4_BLOCK / std::gcd<int64_t>(POPLAR_NF4_BLOCK, perColumn);
}

/// The block of columns of all weights that read x, also of adapters, which are
/// divided alike.
static int64_t getBlockOfColumns(Value x) {
  if (auto dropout = x.getDefiningOp<DropoutOp>())
    x = dropout.getX();
  int64_t block = 1;
  auto add = [&](Operation *user) {
    if (auto linear = dyn_cast<LinearOp>(user))
      block = std::max(block, getBlockOfColumns(linear));
  };
  for (Operation *user : x.getUsers()) {
    add(user);
    if (isa<DropoutOp>(user))
      llvm::for_each(user->getUsers(), add);
  }
  return block;
}

/// An adapter is divided as the layer beside it, and not by its rank.
OperandSplit LinearOp::splitOperand(OpOperand &operand,
                                    const TensorGroup &group) {
  if (operand.get() != getX() || isUpOfAdapter(*this))
    return {};
  int64_t depth = getX().getType().getDimSize(2),
          block = getBlockOfColumns(getX()),
          best = std::max(block, group.getBlock());
  if (depth % best != 0 || depth / best < group.size())
    best = block;
  return {OperandSplit::Columns, {group.getRange(depth, best)}};
}

/// Fails where a part of a quantised weight ends inside of a block.
static LogicalResult verifyBlocks(LinearOp op, const ParameterShare &share) {
  auto type = op.getWeight().getType();
  auto element = dyn_cast<QuantizedType>(type.getElementType());
  if (!element || element.getFormat() == QuantizedFormat::Int8 ||
      !cutsBlocks(type.getShape(), share, POPLAR_NF4_BLOCK))
    return success();
  auto [begin, end] = share.ranges.front();
  return op.emitOpError("has a weight [")
         << type.getShape() << "] in blocks of " << POPLAR_NF4_BLOCK
         << " quantised values, which a device's part, from " << begin << " to "
         << end << " of dimension " << share.dim
         << ", would cut: give the devices other parts, plan without "
            "`tensor`, or import the model with --frozen-format int8 or same";
}

/// By rows where x lies in columns; by columns where what reads the result
/// takes it so; otherwise whole, for the device's tokens. Of a sum that is not
/// added up yet, an adapter makes another, for the sum of its layer.
LogicalResult LinearOp::shard(UnitSharding &s) {
  bool outIn = getLayout() == WeightLayout::OutIn;
  Layout layout = s.getLayout(getX());
  if (layout.kind == Layout::Partial && isUpOfAdapter(*this)) {
    s.getParameter(getWeight(), wholeShare);
    s.clone(*this, {Layout::Partial, {}});
    return success();
  }
  if (layout.kind == Layout::Columns) {
    ParameterShare rows = sliceOf(outIn ? 1 : 0, layout.ranges);
    if (failed(verifyBlocks(*this, rows)))
      return failure();
    s.getParameter(getWeight(), rows);
    bool hasBias = getBias() && s.getParameter(getBias(), firstShare);
    if (getBias() && !hasBias) {
      auto made =
          LinearOp::create(s.builder, getLoc(), getType(), s.get(getX()),
                           s.get(getWeight()), Value(), getLayout(), getFp8());
      s.set(getResult(), made, {Layout::Partial, {}});
      return success();
    }
    s.clone(*this, {Layout::Partial, {}});
    return success();
  }
  if (std::optional<Ranges> ranges = s.findSplit(getResult())) {
    Value x = s.getWhole(getX());
    if (!x)
      return failure();
    ParameterShare columns = sliceOf(outIn ? 0 : 1, *ranges);
    if (failed(verifyBlocks(*this, columns)))
      return failure();
    s.getParameter(getWeight(), columns);
    if (getBias())
      s.getParameter(getBias(), sliceOf(0, *ranges));
    auto made = cast<LinearOp>(s.clone(*this, {Layout::Columns, *ranges}));
    made.getXMutable().assign(x);
    return success();
  }
  if (!s.getTokens(getX()))
    return failure();
  s.getParameter(getWeight(), wholeShare);
  if (getBias())
    s.getParameter(getBias(), wholeShare);
  s.clone(*this, {Layout::Tokens, {}});
  return success();
}

//===----------------------------------------------------------------------===//
// Norms, attention and loss
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::shard(UnitSharding &s) {
  if (!s.getTokens(getX()))
    return failure();
  s.getParameter(getGamma(), wholeShare);
  if (getBeta())
    s.getParameter(getBeta(), wholeShare);
  s.clone(*this, {Layout::Tokens, {}});
  return success();
}

/// The heads that lie in columns, of `width` columns each; fails where they are
/// not whole.
static FailureOr<int64_t> countHeads(Operation *op, const Ranges &ranges,
                                     int64_t width) {
  for (auto [begin, end] : ranges)
    if (begin % width || end % width)
      return op->emitOpError("lies in columns that are not whole heads where "
                             "devices share units");
  return countColumns(ranges) / width;
}

OperandSplit RMSNormOp::splitOperand(OpOperand &operand, const TensorGroup &) {
  bool isOfHeads = getHeads() > 1 && operand.get() == getX();
  return {isOfHeads ? OperandSplit::AsResult : OperandSplit::None, {}};
}

/// Norms of heads are where their heads are.
static LogicalResult shardHeads(RMSNormOp op, UnitSharding &s) {
  Layout layout = s.getLayout(op.getX());
  int64_t width = op.getGamma().getType().getDimSize(0);
  FailureOr<int64_t> heads = countHeads(op, layout.ranges, width);
  if (failed(heads))
    return failure();
  s.getParameter(op.getGamma(), wholeShare);
  auto made = cast<RMSNormOp>(s.clone(op, layout));
  made.setHeads(*heads);
  auto rstd = cast<RankedTensorType>(made.getRstd().getType());
  SmallVector<int64_t> shape(rstd.getShape());
  shape[1] = op.getX().getType().getDimSize(1) * *heads;
  made.getRstd().setType(RankedTensorType::get(shape, rstd.getElementType()));
  return success();
}

LogicalResult RMSNormOp::shard(UnitSharding &s) {
  if (s.getLayout(getX()).kind == Layout::Columns && getHeads() > 1)
    return shardHeads(*this, s);
  if (getHeads() > 1)
    return emitOpError("reads heads that cannot be divided among the ")
           << s.group.size()
           << " devices that share the unit: each takes a head of keys at "
              "least";
  if (!s.getTokens(getX()))
    return failure();
  s.getParameter(getGamma(), wholeShare);
  s.clone(*this, {Layout::Tokens, {}});
  return success();
}

/// The device's heads: groups of queries go with their key.
static std::pair<int64_t, int64_t> getKeyHeads(AttentionOp op,
                                               const TensorGroup &group) {
  return group.getRange(op.getNumKvHeads());
}

OperandSplit AttentionOp::splitOperand(OpOperand &operand,
                                       const TensorGroup &group) {
  if (operand.get() == getKeys() || operand.get() == getPositions() ||
      operand.get() == getSinks() || group.size() > int64_t(getNumKvHeads()))
    return {};
  auto [begin, end] = getKeyHeads(*this, group);
  int64_t queries = getNumHeads() / getNumKvHeads(), width = getHeadDim();
  std::pair<int64_t, int64_t> q = {begin * queries * width,
                                   end * queries * width},
                              k = {begin * width, end * width};
  if (!isPacked())
    return {OperandSplit::Columns, {operand.get() == getQ() ? q : k}};
  int64_t keys = int64_t(getNumHeads()) * width,
          values = keys + int64_t(getNumKvHeads()) * width;
  return {OperandSplit::Columns,
          {q,
           {keys + k.first, keys + k.second},
           {values + k.first, values + k.second}}};
}

LogicalResult AttentionOp::shard(UnitSharding &s) {
  if (s.group.size() > int64_t(getNumKvHeads()))
    return emitOpError("has ")
           << getNumKvHeads() << " heads of keys, which " << s.group.size()
           << " devices cannot share: each takes one at least";
  if (s.getLayout(getQ()).kind != Layout::Columns)
    return emitOpError("reads queries of all heads, as behind a norm of all of "
                       "them, which devices cannot share: plan without `tensor`");
  auto [begin, end] = getKeyHeads(*this, s.group);
  int64_t queries = getNumHeads() / getNumKvHeads(), width = getHeadDim();
  if (getSinks())
    s.getParameter(getSinks(), sliceOf(0, {{begin * queries, end * queries}}));
  auto made = cast<AttentionOp>(
      s.clone(*this, {Layout::Columns,
                      {{begin * queries * width, end * queries * width}}}));
  made.setNumHeads((end - begin) * queries);
  made.setNumKvHeads(end - begin);
  // The mask of dropped probabilities is that of all heads.
  if (getKeys())
    made.setFirstHead(begin * queries);
  auto lse = cast<RankedTensorType>(getLse().getType());
  SmallVector<int64_t> shape(lse.getShape());
  shape[1] = made.getNumHeads();
  made.getLse().setType(RankedTensorType::get(shape, lse.getElementType()));
  return success();
}

OperandSplit CrossEntropyOp::splitOperand(OpOperand &operand,
                                          const TensorGroup &group) {
  if (operand.get() != getLogits())
    return {};
  return {OperandSplit::Columns,
          {group.getRange(getLogits().getType().getDimSize(2))}};
}

LogicalResult CrossEntropyOp::shard(UnitSharding &s) {
  Layout layout = s.getLayout(getLogits());
  if (layout.kind != Layout::Columns)
    return emitOpError("reads logits that are not divided by the vocabulary");
  auto [loss, lse] =
      s.buildCrossEntropy(getLoc(), s.get(getLogits()), s.get(getTargets()),
                          layout.ranges.front().first);
  s.set(getLoss(), loss);
  s.set(getLse(), lse);
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

/// Works on what there is, unless that is a sum to be.
static LogicalResult shardUnary(Operation *op, UnitSharding &s) {
  Value x = op->getOperand(0);
  if (s.getLayout(x).kind == Layout::Partial && !s.getTokens(x))
    return failure();
  s.clone(op, s.getLayout(x));
  return success();
}

static LogicalResult shardBinary(Operation *op, UnitSharding &s) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  bool isSum = isa<AddOp>(op) && s.getLayout(lhs).kind == Layout::Partial &&
               s.getLayout(rhs).kind == Layout::Partial;
  if (!isSum)
    for (Value value : {lhs, rhs})
      if (s.getLayout(value).kind == Layout::Partial && !s.getTokens(value))
        return failure();
  if (s.getLayout(lhs) != s.getLayout(rhs))
    return op->emitOpError(
        "has operands that the devices that share the unit split differently");
  s.clone(op, s.getLayout(lhs));
  return success();
}

#define POPLAR_ELEMENTWISE(Op, Shard)                                          \
  OperandSplit Op::splitOperand(OpOperand &, const TensorGroup &) {            \
    return {OperandSplit::AsResult, {}};                                       \
  }                                                                            \
  LogicalResult Op::shard(UnitSharding &s) { return Shard(*this, s); }

/// In a packed q, k and v, the heads of q and k are rotated.
static LogicalResult shardRope(RopeOp op, UnitSharding &s) {
  Layout layout = s.getLayout(op.getX());
  // Otherwise attention will say what is missing.
  if (layout.kind != Layout::Columns)
    return shardUnary(op, s);
  int64_t width = op.getHeadDim();
  int64_t limit = int64_t(op.getHeads()) * width;
  Ranges rotated;
  for (auto [begin, end] : layout.ranges)
    if (begin < limit)
      rotated.push_back({begin, std::min(end, limit)});
  FailureOr<int64_t> heads = countHeads(op, rotated, width);
  if (failed(heads) || failed(countHeads(op, layout.ranges, width)))
    return failure();
  auto made = cast<RopeOp>(s.clone(op, layout));
  if (limit)
    made.setHeads(*heads);
  return success();
}

/// That of an adapter's sum is left for the sum of its layer.
static LogicalResult shardScale(ScaleOp op, UnitSharding &s) {
  auto up =
      op->hasOneUse() ? dyn_cast<LinearOp>(*op->user_begin()) : LinearOp();
  if (s.getLayout(op.getX()).kind != Layout::Partial || !up ||
      !isUpOfAdapter(up))
    return shardUnary(op, s);
  s.clone(op, {Layout::Partial, {}});
  return success();
}

POPLAR_ELEMENTWISE(RopeOp, shardRope)
POPLAR_ELEMENTWISE(ScaleOp, shardScale)
POPLAR_ELEMENTWISE(SoftcapOp, shardUnary)
POPLAR_ELEMENTWISE(GeluOp, shardUnary)
POPLAR_ELEMENTWISE(SiluOp, shardUnary)
POPLAR_ELEMENTWISE(SigmoidOp, shardUnary)
POPLAR_ELEMENTWISE(ReluOp, shardUnary)
POPLAR_ELEMENTWISE(CastOp, shardUnary)
POPLAR_ELEMENTWISE(AddOp, shardBinary)
POPLAR_ELEMENTWISE(MulOp, shardBinary)
#undef POPLAR_ELEMENTWISE

/// A slice of the device's tokens: what is taken apart has one weight, whose
/// columns do not lie next to each other.
LogicalResult SliceOp::shard(UnitSharding &s) {
  if (!s.getTokens(getX()))
    return failure();
  s.clone(*this, {Layout::Tokens, {}});
  return success();
}

/// A device's part of what is drawn for all columns and tokens.
template <typename Op> static LogicalResult shardDraws(Op op, UnitSharding &s) {
  int64_t tokens = op.getType().getDimSize(1),
          columns = op.getType().getDimSize(2);
  if (Layout layout = s.getLayout(op.getX());
      layout.kind == Layout::Columns && layout.ranges.size() == 1) {
    auto made = cast<Op>(s.clone(op, layout));
    made.setTokens(
        ArrayRef<int64_t>{0, tokens, layout.ranges.front().first, columns});
    return success();
  }
  if (!s.getTokens(op.getX()))
    return failure();
  auto made = cast<Op>(s.clone(op, {Layout::Tokens, {}}));
  made.setTokens(ArrayRef<int64_t>{s.getTokenRange(tokens).first, tokens});
  return success();
}

/// The mask of a sum is that of each of its addends, but it is cheaper to add
/// first.
LogicalResult DropoutOp::shard(UnitSharding &s) { return shardDraws(*this, s); }

/// What is added to a sum over devices, one of them adds.
LogicalResult NoiseOp::shard(UnitSharding &s) {
  Value x = getX();
  if (s.getLayout(x).kind != Layout::Partial)
    return shardDraws(*this, s);
  if (s.group.getPosition() == 0)
    s.clone(*this, {Layout::Partial, {}});
  else
    s.set(getResult(), s.get(x), {Layout::Partial, {}});
  return success();
}
