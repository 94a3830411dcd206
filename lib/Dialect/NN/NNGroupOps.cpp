//===- NNGroupOps.cpp - Groups of columns ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Runtime/Experts.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace poplar::nn;

#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNGroupOps.cpp.inc"

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t getDim(Value value, unsigned index) {
  return getTensor(value).getDimSize(index);
}

/// Experts of a token, of values [B,T*k] and [B,T,...].
static int64_t countChosen(Value chosen, Value tokens) {
  return getDim(chosen, 1) / getDim(tokens, 1);
}

//===----------------------------------------------------------------------===//
// Regroup
//===----------------------------------------------------------------------===//

// The types are equal by trait.
// - groups and parts are at least 1 and divide the columns
LogicalResult RegroupOp::verify() {
  int64_t width = getDim(getX(), 2);
  auto groups = static_cast<int64_t>(getGroups());
  auto parts = static_cast<int64_t>(getParts());
  if (groups > 0 && parts > 0 && width % groups == 0 &&
      width / groups % parts == 0)
    return success();
  return emitOpError() << "cannot divide " << width << " columns into "
                       << groups << " groups of " << parts << " parts";
}

LogicalResult RegroupOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(), RegroupOp::create(builder, getLoc(), getX().getType(),
                                      grads.cotangent(getResult()),
                                      getPartsAttr(), getGroupsAttr()));
  return success();
}

OpCost RegroupOp::getCost() { return getRowCost(*this, getResult(), 0); }

OperandSplit RegroupOp::splitOperand(OpOperand &, const TensorGroup &group) {
  auto groups = static_cast<int64_t>(getGroups());
  // Attention will say so.
  if (group.size() > groups)
    return {};
  int64_t width = getDim(getX(), 2) / groups;
  auto [begin, end] = group.getRange(groups);
  return {OperandSplit::Columns, {{begin * width, end * width}}};
}

/// The device's groups, which become a range of each part.
LogicalResult RegroupOp::shard(UnitSharding &s) {
  Layout layout = s.getLayout(getX());
  if (layout.kind != Layout::Columns) {
    if (!s.getTokens(getX()))
      return failure();
    s.clone(*this, {Layout::Tokens, {}});
    return success();
  }
  auto groups = static_cast<int64_t>(getGroups());
  auto parts = static_cast<int64_t>(getParts());
  int64_t width = getDim(getX(), 2) / groups / parts;
  auto [begin, end] = layout.ranges.front();
  int64_t first = begin / (parts * width), last = end / (parts * width);
  Layout regrouped = {Layout::Columns, {}};
  for (int64_t part = 0; part < parts; ++part)
    regrouped.ranges.push_back(
        {(part * groups + first) * width, (part * groups + last) * width});
  auto made = cast<RegroupOp>(s.clone(*this, regrouped));
  made.setGroups(last - first);
  return success();
}

// The types are equal by trait.
// - there are groups and parts, with at least 1 column each
// - the groups are all columns
LogicalResult RegroupPartsOp::verify() {
  int64_t group = 0;
  bool isPositive = getGroups() > 0 && !getWidths().empty();
  for (int64_t width : getWidths()) {
    isPositive &= width > 0;
    group += width;
  }
  int64_t width = getDim(getX(), 2);
  auto groups = static_cast<int64_t>(getGroups());
  if (isPositive && width % group == 0 && width / group == groups)
    return success();
  return emitOpError() << "cannot divide " << width << " columns into "
                       << groups << " groups of parts of " << getWidths();
}

LogicalResult RegroupPartsOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(),
            RegroupPartsOp::create(builder, getLoc(), getX().getType(),
                                   grads.cotangent(getResult()), getGroups(),
                                   getWidths(), !getInverse()));
  return success();
}

OpCost RegroupPartsOp::getCost() { return getRowCost(*this, getResult(), 0); }

LogicalResult RegroupPartsOp::shard(UnitSharding &) {
  return emitOpError("is of linear or latent attention, which devices cannot "
                     "share yet: plan without `tensor`");
}

//===----------------------------------------------------------------------===//
// Verifiers of mixtures of experts
//===----------------------------------------------------------------------===//

/// `chosen` is [B,T*k] beside `tokens` [B,T,...], with k of at least 1.
static LogicalResult verifyChosen(Operation *op, StringRef name, Value chosen,
                                  Value tokens) {
  int64_t slots = getDim(chosen, 1), length = getDim(tokens, 1);
  if (getDim(chosen, 0) == getDim(tokens, 0) && length > 0 && slots >= length &&
      slots % length == 0)
    return success();
  return op->emitOpError() << name << " is " << chosen.getType()
                           << ", expected some elements for each token of "
                           << tokens.getType();
}

static LogicalResult verifyRoute(Operation *op, Value logits, Value scores,
                                 Value experts, int64_t topK) {
  if (failed(verifyChosen(op, "experts", experts, logits)))
    return failure();
  if (getTensor(scores).getShape() != getTensor(experts).getShape() ||
      countChosen(experts, logits) != topK)
    return op->emitOpError()
           << "chooses " << topK << " experts for each token of "
           << logits.getType() << ", but has scores " << scores.getType()
           << " and experts " << experts.getType();
  if (topK > getDim(logits, 2))
    return op->emitOpError()
           << "chooses " << topK << " of " << getDim(logits, 2) << " experts";
  return success();
}

/// Each of the groups has two experts or more, and those that are looked at
/// enough of them.
static LogicalResult verifyGroups(RouteOp op) {
  int64_t experts = getDim(op.getLogits(), 2),
          groups = static_cast<int64_t>(op.getGroups()),
          top = static_cast<int64_t>(op.getTopGroups());
  if (groups == 1 && top == 1)
    return success();
  if (groups > 0 && groups <= POPLAR_MAX_EXPERT_GROUPS &&
      experts % groups == 0 && experts / groups > 1 && top > 0 &&
      top <= groups &&
      top * (experts / groups) >= static_cast<int64_t>(op.getTopK()))
    return success();
  return op.emitOpError() << "cannot choose " << op.getTopK() << " of "
                          << experts << " experts from " << top << " of "
                          << groups << " groups";
}

LogicalResult RouteOp::verify() {
  if (failed(verifyGroups(*this)))
    return failure();
  if (Value bias = getBias()) {
    int64_t experts = getDim(getLogits(), 2);
    if (getTensor(bias).getShape() !=
        ArrayRef<int64_t>({POPLAR_BIAS_PARTS, experts}))
      return emitOpError() << "has the bias " << bias.getType() << ", expected "
                           << POPLAR_BIAS_PARTS << " rows of " << experts;
    if (!getSigmoid() && !getNormalized())
      return emitOpError("has a bias beside scores of a softmax that are not "
                         "normalized");
  }
  return verifyRoute(*this, getLogits(), getScores(), getExperts(),
                     int64_t(getTopK()));
}

LogicalResult RouteGradOp::verify() {
  if (getDscores().getType() != getScores().getType())
    return emitOpError() << "dscores is " << getDscores().getType()
                         << ", expected the type of scores "
                         << getScores().getType();
  return verifyRoute(*this, getLogits(), getScores(), getExperts(),
                     countChosen(getExperts(), getLogits()));
}

/// Rows of `value` have `columns` columns, or those of each of k experts.
static LogicalResult verifyRows(Operation *op, StringRef name, Value value,
                                int64_t columns, int64_t topK) {
  int64_t width = getDim(value, 2);
  if (width == columns || width == topK * columns)
    return success();
  return op->emitOpError() << name << " has " << width << " columns, expected "
                           << columns << " or " << topK << " times that";
}

/// The shape of one expert's weight, and how many there are.
static std::pair<ArrayRef<int64_t>, int64_t> getExperts(ValueRange weights) {
  ArrayRef<int64_t> shape = getTensor(weights.front()).getShape();
  if (shape.size() == 3)
    return {shape.drop_front(), shape.front()};
  return {shape, int64_t(weights.size())};
}

static LogicalResult verifyExperts(Operation *op, Value inputs, Value outputs,
                                   Value experts, ValueRange weights,
                                   bool outIn) {
  if (weights.empty())
    return op->emitOpError("has no weights of experts");
  if (weights.size() > 1 && getTensor(weights.front()).getRank() == 3)
    return op->emitOpError() << "has " << weights.size() << " stacks of "
                             << "weights, expected one";
  for (Value weight : weights)
    if (weight.getType() != weights.front().getType())
      return op->emitOpError()
             << "has weights " << weights.front().getType() << " and "
             << weight.getType() << ", expected those of experts to be alike";
  if (failed(verifyChosen(op, "experts", experts, inputs)))
    return failure();
  if (getTensor(inputs).getShape().take_front(2) !=
      getTensor(outputs).getShape().take_front(2))
    return op->emitOpError() << "has " << outputs.getType() << " beside "
                             << inputs.getType() << ", expected as many tokens";
  int64_t topK = countChosen(experts, inputs);
  ArrayRef<int64_t> shape = getExperts(weights).first;
  if (failed(verifyRows(op, "x", inputs, shape[outIn ? 1 : 0], topK)))
    return failure();
  return verifyRows(op, outputs.getDefiningOp() == op ? "the result" : "dy",
                    outputs, shape[outIn ? 0 : 1], topK);
}

LogicalResult ExpertLinearOp::verify() {
  if (failed(verifyExperts(*this, getX(), getResult(), getExperts(),
                           getWeights(), getLayout() == WeightLayout::OutIn)))
    return failure();
  Type element = getTensor(getX()).getElementType();
  RankedTensorType weight = getTensor(getWeights().front());
  if (getTensor(getResult()).getElementType() != element ||
      (!isQuantized(weight) && weight.getElementType() != element))
    return emitOpError("expected x, weights and result of one element type");
  return success();
}

LogicalResult ExpertLinearGradWeightOp::verify() {
  if (getAcc().getTypes() != getWeights().getTypes())
    return emitOpError("expected as many results as there are gradients to add "
                       "to, and of their types");
  return verifyExperts(*this, getX(), getDy(), getExperts(), getAcc(),
                       /*outIn=*/true);
}

static LogicalResult verifyWeigh(Operation *op, Value x, Value scores) {
  if (failed(verifyChosen(op, "scores", scores, x)))
    return failure();
  if (getDim(x, 2) % countChosen(scores, x) == 0)
    return success();
  return op->emitOpError() << "cannot divide the columns of " << x.getType()
                           << " among " << countChosen(scores, x) << " experts";
}

LogicalResult WeighOp::verify() {
  return verifyWeigh(*this, getX(), getScores());
}

LogicalResult WeighGradOp::verify() {
  if (getTensor(getDy()) != getTensor(getX()))
    return emitOpError() << "dy is " << getDy().getType()
                         << ", expected the type of x " << getX().getType();
  return verifyWeigh(*this, getX(), getDscores());
}

static LogicalResult verifyScore(Operation *op, Value scores, Value logits) {
  if (getTensor(logits).getShape().take_front(2) ==
          getTensor(scores).getShape() &&
      getDim(logits, 2) == 1)
    return success();
  return op->emitOpError() << "has scores " << scores.getType() << " of logits "
                           << logits.getType()
                           << ", expected one logit for each";
}

LogicalResult ScoreOp::verify() {
  return verifyScore(*this, getScores(), getLogits());
}

LogicalResult ScoreGradOp::verify() {
  if (getDscores().getType() != getScores().getType())
    return emitOpError() << "dscores is " << getDscores().getType()
                         << ", expected the type of scores "
                         << getScores().getType();
  return verifyScore(*this, getScores(), getDlogits());
}

/// Rows of k experts beside a bias of each of E.
static LogicalResult verifyExpertBias(Operation *op, Value rows, Value experts,
                                      Value bias) {
  if (failed(verifyChosen(op, "experts", experts, rows)))
    return failure();
  int64_t width = getDim(bias, 1) * countChosen(experts, rows);
  if (getDim(rows, 2) == width)
    return success();
  return op->emitOpError() << "has rows of " << getDim(rows, 2)
                           << " columns, expected " << width << " of biases "
                           << bias.getType();
}

LogicalResult ExpertBiasOp::verify() {
  return verifyExpertBias(*this, getX(), getExperts(), getBias());
}

LogicalResult ExpertBiasGradOp::verify() {
  return verifyExpertBias(*this, getDy(), getExperts(), getAcc());
}

static LogicalResult verifySpread(Operation *op, Value scores, Value experts,
                                  Value spread) {
  if (failed(verifyChosen(op, "experts", experts, spread)))
    return failure();
  if (getTensor(scores).getShape() == getTensor(experts).getShape())
    return success();
  return op->emitOpError() << "has scores " << scores.getType()
                           << " of experts " << experts.getType()
                           << ", expected one of each";
}

LogicalResult SpreadScoresOp::verify() {
  return verifySpread(*this, getScores(), getExperts(), getResult());
}

LogicalResult SpreadScoresGradOp::verify() {
  return verifySpread(*this, getDscores(), getExperts(), getDy());
}

// - pairs of columns give one each
// - alpha is finite; limit is above 0 and finite
template <typename Op>
static LogicalResult verifyGlu(Op op, Value pairs, Value results) {
  RankedTensorType wide = getTensor(pairs), narrow = getTensor(results);
  if (wide.getShape().take_front(2) != narrow.getShape().take_front(2) ||
      wide.getElementType() != narrow.getElementType() ||
      wide.getDimSize(2) != 2 * narrow.getDimSize(2))
    return op.emitOpError() << "has " << wide << " beside " << narrow
                            << ", expected two columns for each";
  if (op.getAlpha().isFinite() && op.getLimit().isFinite() &&
      op.getLimit().convertToDouble() > 0)
    return success();
  return op.emitOpError() << "has alpha " << op.getAlpha().convertToDouble()
                          << " and limit " << op.getLimit().convertToDouble()
                          << ", expected finite numbers, the limit above 0";
}

LogicalResult ClampedGluOp::verify() {
  return verifyGlu(*this, getX(), getResult());
}

LogicalResult ClampedGluGradOp::verify() {
  return verifyGlu(*this, getX(), getDy());
}

LogicalResult SinkGradOp::verify() {
  RankedTensorType dy = getDy().getType();
  int64_t heads = getDim(getSinks(), 0);
  if (getOut().getType() != dy || dy.getDimSize(2) % heads)
    return emitOpError() << "has dy " << dy << " and out " << getOut().getType()
                         << ", expected one type, with " << heads << " heads";
  RankedTensorType lse = getLse().getType(), rows = getType();
  SmallVector<int64_t> shape = {dy.getDimSize(0), heads, dy.getDimSize(1)};
  bool fits = lse.getShape() == ArrayRef(shape);
  std::swap(shape[1], shape[2]);
  if (fits && rows.getShape() == ArrayRef(shape))
    return success();
  return emitOpError() << "has lse " << lse << " and the result " << rows
                       << ", expected one number for each row of a head";
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult RouteOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  if (!grads.isNeeded(getLogits()))
    return success();
  grads.add(getLogits(),
            RouteGradOp::create(builder, getLoc(), getLogits().getType(),
                                grads.cotangent(getScores()), getScores(),
                                getExperts(), getLogits(), getSigmoid(),
                                getNormalized()));
  return success();
}

LogicalResult ExpertLinearOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  bool outIn = getLayout() == WeightLayout::OutIn;
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX()))
    grads.add(getX(), ExpertLinearOp::create(
                          builder, getLoc(), getX().getType(), dy, getExperts(),
                          getWeights(),
                          outIn ? WeightLayout::InOut : WeightLayout::OutIn));
  SmallVector<Value> sums;
  for (Value weight : getWeights())
    if (grads.isNeeded(weight))
      sums.push_back(grads.accumulator(weight));
  if (sums.empty())
    return success();
  if (sums.size() != getWeights().size() || llvm::is_contained(sums, Value()))
    return emitOpError("expected the weights of all experts to be parameters, "
                       "all of them trained or all of them frozen");
  // [K,N] is the gradient of [N,K] with x and dy exchanged.
  auto made = ExpertLinearGradWeightOp::create(
      builder, getLoc(), ValueRange(sums).getTypes(), outIn ? dy : getX(),
      outIn ? getX() : dy, getExperts(), sums);
  for (auto [weight, sum] : llvm::zip_equal(getWeights(), made.getWeights()))
    grads.setAccumulator(weight, sum);
  return success();
}

LogicalResult WeighOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX()))
    grads.add(getX(), WeighOp::create(builder, getLoc(), getX().getType(), dy,
                                      getScores()));
  if (grads.isNeeded(getScores()))
    grads.add(getScores(),
              WeighGradOp::create(builder, getLoc(), getScores().getType(), dy,
                                  getX()));
  return success();
}

LogicalResult ScoreOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getLogits(),
            ScoreGradOp::create(builder, getLoc(), getLogits().getType(),
                                grads.cotangent(getScores()), getScores()));
  return success();
}

LogicalResult ExpertBiasOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dy = grads.cotangent(getResult());
  if (grads.isNeeded(getX()))
    grads.add(getX(), dy);
  grads.accumulate(getBias(), [&](Value acc) -> Value {
    return ExpertBiasGradOp::create(builder, getLoc(), acc.getType(), dy,
                                    getExperts(), acc);
  });
  return success();
}

LogicalResult SpreadScoresOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  if (grads.isNeeded(getScores()))
    grads.add(getScores(), SpreadScoresGradOp::create(
                               builder, getLoc(), getScores().getType(),
                               grads.cotangent(getResult()), getExperts()));
  return success();
}

LogicalResult ClampedGluOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(),
            ClampedGluGradOp::create(builder, getLoc(), getX().getType(),
                                     grads.cotangent(getResult()), getX(),
                                     getAlphaAttr(), getLimitAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Costs, number formats
//===----------------------------------------------------------------------===//

OpCost RouteOp::getCost() { return getRowCost(*this, getLogits(), 2); }
OpCost RouteGradOp::getCost() { return getRowCost(*this, getLogits(), 3); }
OpCost WeighOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost WeighGradOp::getCost() { return getRowCost(*this, getX(), 2); }
OpCost ScoreOp::getCost() { return getRowCost(*this, getLogits(), 3); }
OpCost ScoreGradOp::getCost() { return getRowCost(*this, getDlogits(), 3); }

OpCost ExpertBiasOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost ExpertBiasGradOp::getCost() { return getRowCost(*this, getDy(), 1); }
OpCost SpreadScoresOp::getCost() { return getRowCost(*this, getResult(), 0); }
OpCost SpreadScoresGradOp::getCost() { return getRowCost(*this, getDy(), 0); }
OpCost ClampedGluOp::getCost() { return getRowCost(*this, getResult(), 8); }
OpCost ClampedGluGradOp::getCost() { return getRowCost(*this, getX(), 8); }
OpCost SinkGradOp::getCost() { return getRowCost(*this, getDy(), 2); }

/// The products of the experts that tokens go to, as many to each; the weights
/// of all of them are read, or their gradients added to.
static OpCost getExpertCost(Operation *op, Value tokens, Value experts,
                            ValueRange weights) {
  auto [shape, count] = getExperts(weights);
  auto slots = static_cast<double>(getDim(experts, 1));
  OpCost cost = getRowCost(op, tokens, 0);
  cost.opClass = OpClass::Gemm;
  cost.flops = 2 * slots * double(shape[0]) * double(shape[1]);
  cost.rows = slots / static_cast<double>(count);
  cost.columns = static_cast<double>(shape[0]);
  cost.depth = static_cast<double>(shape[1]);
  return cost;
}

OpCost ExpertLinearOp::getCost() {
  OpCost cost = getExpertCost(*this, getX(), getExperts(), getWeights());
  if (getLayout() == WeightLayout::InOut)
    std::swap(cost.columns, cost.depth);
  return cost;
}

OpCost ExpertLinearGradWeightOp::getCost() {
  OpCost cost = getExpertCost(*this, getX(), getExperts(), getAcc());
  // [slots, rows]^T by [slots, columns].
  double slots = cost.rows;
  cost.rows = cost.columns;
  cost.columns = cost.depth;
  cost.depth = slots;
  cost.isDeep = true;
  return cost;
}

// Scores are f32.
void RouteOp::convertPrecision(FloatType) {}
void ScoreOp::convertPrecision(FloatType) {}

// A product reads what is spread.
void SpreadScoresOp::convertPrecision(FloatType format) {
  getResult().setType(getResult().getType().clone(format));
}

//===----------------------------------------------------------------------===//
// Devices that share units
//===----------------------------------------------------------------------===//

SmallVector<ModelFact> ExpertLinearOp::getModelFacts() { return {}; }

int64_t ExpertLinearOp::getTensorParts() { return 1; }

static LogicalResult refuseSharing(Operation *op) {
  return op->emitOpError("is of a mixture of experts, which devices cannot "
                         "share yet: plan without `tensor`");
}

LogicalResult RouteOp::shard(UnitSharding &) { return refuseSharing(*this); }
LogicalResult ExpertLinearOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
LogicalResult WeighOp::shard(UnitSharding &) { return refuseSharing(*this); }
LogicalResult ScoreOp::shard(UnitSharding &) { return refuseSharing(*this); }
LogicalResult ExpertBiasOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
LogicalResult SpreadScoresOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
LogicalResult ClampedGluOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
