//===- ModelBuilder.cpp - Builds modules of units -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/NN/NNRecurrentOps.h"
#include "Poplar/Runtime/Experts.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

//===----------------------------------------------------------------------===//
// Unit
//===----------------------------------------------------------------------===//

Location Unit::at(StringRef name) {
  return NameLoc::get(builder.getStringAttr(name), location);
}

static RankedTensorType getTensor(Value x) {
  return cast<RankedTensorType>(x.getType());
}

Type Unit::withWidth(Value x, int64_t width) {
  auto type = getTensor(x);
  return RankedTensorType::get({type.getDimSize(0), type.getDimSize(1), width},
                               builder.getF32Type());
}

RankedTensorType Unit::perToken(Value x) {
  return RankedTensorType::get(getTensor(x).getShape().take_front(2),
                               builder.getF32Type());
}

Value Unit::parameter(StringRef name, ArrayRef<int64_t> shape, Init init) {
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  parameters.push_back({name.str(), type, init});
  return body->addArgument(type, at(name));
}

Value Unit::linear(StringRef name, Value x, int64_t outputs, double stdDev,
                   bool bias, nn::WeightLayout layout, StringRef biasName) {
  int64_t inputs = getTensor(x).getDimSize(2);
  SmallVector<int64_t> shape = {outputs, inputs};
  if (layout == nn::WeightLayout::InOut)
    std::swap(shape[0], shape[1]);
  Value weight =
      parameter((name + ".weight").str(), shape, Init::normal(stdDev));
  Value offset;
  if (bias)
    offset =
        parameter(biasName.empty() ? (name + ".bias").str() : biasName.str(),
                  {outputs}, Init::zeros());
  return nn::LinearOp::create(builder, at(name), withWidth(x, outputs), x,
                              weight, offset, layout);
}

Value Unit::embedding(StringRef name, Value ids, int64_t rows, int64_t width,
                      double stdDev, std::optional<int64_t> paddingIdx) {
  Value table =
      parameter((name + ".weight").str(), {rows, width}, Init::normal(stdDev));
  IntegerAttr padding;
  if (paddingIdx)
    padding = builder.getI64IntegerAttr(*paddingIdx);
  return nn::EmbeddingOp::create(builder, at(name), withWidth(ids, width), ids,
                                 table, padding, /*first_row=*/nullptr);
}

Value Unit::positionEmbedding(StringRef name, Value x, int64_t rows,
                              double stdDev, bool constantRow) {
  Value table =
      parameter((name + ".weight").str(), {rows, getTensor(x).getDimSize(2)},
                Init::normal(stdDev));
  return nn::PositionEmbeddingOp::create(
      builder, at(name), x.getType(), x, table,
      constantRow ? Value() : positions, constantRow);
}

/// The weight and the offset are 1 together.
static Init initNorm(double offset) {
  return offset == 1 ? Init::zeros() : Init::ones();
}

Value Unit::layerNorm(StringRef name, Value x, double eps, double offset,
                      bool bias) {
  int64_t width = getTensor(x).getDimSize(2);
  Value gamma = parameter((name + ".weight").str(), {width}, initNorm(offset));
  Value beta;
  if (bias)
    beta = parameter((name + ".bias").str(), {width}, Init::zeros());
  return nn::LayerNormOp::create(builder, at(name), x.getType(), perToken(x),
                                 perToken(x), x, gamma, beta,
                                 llvm::APFloat(eps), llvm::APFloat(offset))
      .getResult();
}

Value Unit::rmsNorm(StringRef name, Value x, double eps, int64_t heads,
                    double offset) {
  RankedTensorType type = getTensor(x);
  Value gamma = parameter((name + ".weight").str(),
                          {type.getDimSize(2) / heads}, initNorm(offset));
  auto rstd = RankedTensorType::get(
      {type.getDimSize(0), type.getDimSize(1) * heads}, builder.getF32Type());
  return nn::RMSNormOp::create(builder, at(name), type, rstd, x, gamma,
                               llvm::APFloat(eps), heads, llvm::APFloat(offset))
      .getResult();
}

Value Unit::rope(StringRef name, Value x, int64_t headDim, const Rope &rope,
                 int64_t heads) {
  int64_t length = positions ? getTensor(x).getDimSize(1) : 0;
  return nn::RopeOp::create(
      builder, at(name), x.getType(), x, positions, headDim, rope.frequencies,
      llvm::APFloat(rope.scale),
      /*inverse=*/false, heads, length, rope.isInterleaved);
}

Value Unit::scale(StringRef name, Value x, double factor) {
  if (factor == 1)
    return x;
  return nn::ScaleOp::create(builder, at(name), x, llvm::APFloat(factor));
}

Value Unit::softcap(StringRef name, Value x, double cap) {
  if (cap == 0)
    return x;
  return nn::SoftcapOp::create(builder, at(name), x, llvm::APFloat(cap));
}

Value Unit::slice(StringRef name, Value x, int64_t offset, int64_t width) {
  return nn::SliceOp::create(builder, at(name), withWidth(x, width), x, offset);
}

Value Unit::regroup(StringRef name, Value x, int64_t groups, int64_t parts) {
  return nn::RegroupOp::create(builder, at(name), x.getType(), x, groups,
                               parts);
}

Value Unit::regroupParts(StringRef name, Value x, int64_t groups,
                         ArrayRef<int64_t> widths, bool inverse) {
  return nn::RegroupPartsOp::create(builder, at(name), x.getType(), x, groups,
                                    widths, inverse);
}

Value Unit::attention(StringRef name, Value query, Value key, Value value,
                      const Attention &shape) {
  auto type = getTensor(query);
  auto lse = RankedTensorType::get(
      {type.getDimSize(0), shape.heads, type.getDimSize(1)},
      builder.getF32Type());
  bool draws = shape.dropout > 0;
  Value sinks;
  if (shape.sinks)
    sinks = parameter((name + ".sinks").str(), {shape.heads},
                      {nn::InitKind::Normal, *shape.sinks});
  return nn::AttentionOp::create(
             builder, at(name), withWidth(query, shape.heads * shape.headDim),
             lse, query, key, value, draws ? keys : Value(), positions, sinks,
             shape.heads, shape.kvHeads, llvm::APFloat(shape.scale),
             shape.causal, shape.window, llvm::APFloat(shape.dropout),
             draws ? nextOpId++ : 0,
             /*first_head=*/0, llvm::APFloat(shape.cap))
      .getResult();
}

namespace {
enum class Activation { GeluErf, GeluTanh, Silu, Relu, Relu2, Unknown };
} // namespace

static Activation getActivation(StringRef name) {
  return llvm::StringSwitch<Activation>(name)
      .Case("gelu", Activation::GeluErf)
      .Cases({"gelu_fast", "gelu_new", "gelu_pytorch_tanh"},
             Activation::GeluTanh)
      .Cases({"silu", "swish"}, Activation::Silu)
      .Case("relu", Activation::Relu)
      .Case("relu2", Activation::Relu2)
      .Default(Activation::Unknown);
}

StringRef import::getActivations() {
  return "gelu, gelu_fast, gelu_new, gelu_pytorch_tanh, relu, relu2, silu, "
         "swish";
}

bool import::isActivation(StringRef name) {
  return getActivation(name) != Activation::Unknown;
}

std::vector<std::string> import::getSameActivations(StringRef name) {
  SmallVector<StringRef> known;
  getActivations().split(known, ", ");
  std::vector<std::string> same;
  for (StringRef other : known)
    if (other != name && getActivation(other) == getActivation(name))
      same.push_back(other.str());
  return same;
}

Value Unit::activation(StringRef name, Value x) {
  switch (getActivation(name)) {
  case Activation::GeluErf:
    return nn::GeluOp::create(builder, at(name), x, nn::GeluKind::Erf);
  case Activation::GeluTanh:
    return nn::GeluOp::create(builder, at(name), x, nn::GeluKind::Tanh);
  case Activation::Silu:
    return nn::SiluOp::create(builder, at(name), x);
  case Activation::Relu:
    return nn::ReluOp::create(builder, at(name), x);
  case Activation::Relu2: {
    Value y = nn::ReluOp::create(builder, at(name), x);
    return nn::MulOp::create(builder, at(name), y, y);
  }
  case Activation::Unknown:
    break;
  }
  llvm_unreachable("configurations are checked before units are built");
}

Value Unit::add(Value a, Value b) {
  return nn::AddOp::create(builder, at("residual"), a, b);
}

Value Unit::multiply(Value a, Value b) {
  return nn::MulOp::create(builder, at("gate"), a, b);
}

Value Unit::dropout(StringRef name, Value x, double p) {
  if (p == 0)
    return x;
  return nn::DropoutOp::create(builder, at(name), x, keys, llvm::APFloat(p),
                               nextOpId++, /*tokens=*/nullptr);
}

Value Unit::noise(StringRef name, Value x, double alpha) {
  if (alpha == 0)
    return x;
  RankedTensorType type = getTensor(x);
  double magnitude = alpha / std::sqrt(double(type.getDimSize(1)) *
                                       double(type.getDimSize(2)));
  return nn::NoiseOp::create(builder, at(name), x, keys,
                             llvm::APFloat(magnitude), nextOpId++,
                             /*tokens=*/nullptr);
}

Value Unit::crossEntropy(Value logits, Value targets) {
  return nn::CrossEntropyOp::create(builder, at("loss"), perToken(logits),
                                    perToken(logits), logits, targets)
      .getLoss();
}

Unit::Route Unit::route(StringRef name, Value logits, const Choice &choice) {
  RankedTensorType type = getTensor(logits);
  SmallVector<int64_t> shape = {type.getDimSize(0),
                                type.getDimSize(1) * choice.topK};
  Value bias;
  if (!choice.bias.empty())
    bias = parameter(choice.bias, {POPLAR_BIAS_PARTS, type.getDimSize(2)},
                     Init::zeros());
  auto made = nn::RouteOp::create(
      builder, at(name), RankedTensorType::get(shape, builder.getF32Type()),
      RankedTensorType::get(shape, builder.getI32Type()), logits, bias,
      choice.topK, choice.groups, choice.topGroups, choice.sigmoid,
      choice.normalized);
  return {made.getScores(), made.getExperts()};
}

Value Unit::expertLinear(StringRef name, StringRef leaf, Value x, Value experts,
                         const Experts &shape, double stdDev) {
  SmallVector<Value> weights;
  for (int64_t expert = 0; expert < shape.count; ++expert)
    weights.push_back(
        parameter((name + "." + Twine(expert) + "." + leaf + ".weight").str(),
                  {shape.outputs, shape.inputs}, Init::normal(stdDev)));
  return nn::ExpertLinearOp::create(builder, at((name + "." + leaf).str()),
                                    withWidth(x, shape.width), x, experts,
                                    weights, nn::WeightLayout::OutIn);
}

Value Unit::stackedLinear(StringRef name, Value x, Value experts,
                          const Experts &shape, double stdDev) {
  Value stack = parameter(name, {shape.count, shape.inputs, shape.outputs},
                          Init::normal(stdDev));
  return nn::ExpertLinearOp::create(builder, at(name),
                                    withWidth(x, shape.width), x, experts,
                                    stack, nn::WeightLayout::InOut);
}

Value Unit::expertBias(StringRef name, Value x, Value experts, int64_t count) {
  int64_t chosen =
      getTensor(experts).getDimSize(1) / getTensor(x).getDimSize(1);
  Value bias =
      parameter((name + "_bias").str(),
                {count, getTensor(x).getDimSize(2) / chosen}, Init::zeros());
  return nn::ExpertBiasOp::create(builder, at(name), x.getType(), x, experts,
                                  bias);
}

Value Unit::weighedBias(StringRef name, const Route &route, int64_t count,
                        int64_t outputs) {
  auto ids = getTensor(getInput(0));
  auto spread = RankedTensorType::get(
      {ids.getDimSize(0), ids.getDimSize(1), count}, builder.getF32Type());
  Value scores = nn::SpreadScoresOp::create(builder, at(name), spread,
                                            route.scores, route.experts);
  Value bias =
      parameter((name + "_bias").str(), {count, outputs}, Init::zeros());
  return nn::LinearOp::create(builder, at(name), withWidth(scores, outputs),
                              scores, bias, /*bias=*/Value(),
                              nn::WeightLayout::InOut);
}

Value Unit::clampedGlu(StringRef name, Value x, double alpha, double limit) {
  return nn::ClampedGluOp::create(
      builder, at(name), withWidth(x, getTensor(x).getDimSize(2) / 2), x,
      llvm::APFloat(alpha), llvm::APFloat(limit));
}

Value Unit::weigh(StringRef name, Value x, Value scores) {
  return nn::WeighOp::create(builder, at(name), x.getType(), x, scores);
}

Value Unit::join(StringRef name, Value x, Value y, int64_t width) {
  return nn::JoinOp::create(builder, at(name), withWidth(x, width), x, y);
}

Value Unit::countExperts(StringRef name, Value sums, Value logits,
                         Value experts) {
  return nn::CountExpertsOp::create(builder, at(name), sums.getType(), sums,
                                    logits, experts);
}

Value Unit::balanceLoss(Value loss, Value targets, Value sums, double factor) {
  return nn::BalanceLossOp::create(builder, at("balance"), loss.getType(), loss,
                                   targets, sums, llvm::APFloat(factor));
}

Value Unit::score(StringRef name, Value logits) {
  return nn::ScoreOp::create(builder, at(name), perToken(logits), logits);
}

Value Unit::sigmoid(StringRef name, Value x) {
  return nn::SigmoidOp::create(builder, at(name), x);
}

Value Unit::causalConv(StringRef name, Value x, int64_t width, double stdDev) {
  Value weight =
      parameter((name + ".weight").str(),
                {getTensor(x).getDimSize(2), 1, width}, Init::normal(stdDev));
  return nn::CausalConvOp::create(builder, at(name), x.getType(), x, weight,
                                  positions);
}

Value Unit::gatedDelta(StringRef name, Value x, Value a, Value b,
                       const GatedDelta &shape) {
  int64_t heads = shape.valueHeads;
  Value dtBias = parameter((name + ".dt_bias").str(), {heads}, Init::ones());
  Value aLog = parameter((name + ".A_log").str(), {heads}, Init::logUniform());
  return nn::GatedDeltaOp::create(
      builder, at(name), withWidth(x, heads * shape.valueDim), x, a, b, aLog,
      dtBias, positions, shape.keyHeads, heads);
}

//===----------------------------------------------------------------------===//
// ModelBuilder
//===----------------------------------------------------------------------===//

static Type getIdsOf(OpBuilder &builder, int64_t width) {
  return RankedTensorType::get({ShapedType::kDynamic, width},
                               builder.getI32Type());
}

ModelBuilder::ModelBuilder(MLIRContext &context, StringRef file, int64_t seqLen,
                           bool isPacked)
    : builder(&context), location(FileLineColLoc::get(&context, file, 0, 0)),
      seqLen(seqLen), isPacked(isPacked), module(ModuleOp::create(location)) {
  builder.setInsertionPointToEnd(module->getBody());
  Type ids = getIdsOf(builder, seqLen), keys = getIdsOf(builder, 2);
  Type loss = RankedTensorType::get({ShapedType::kDynamic, seqLen},
                                    builder.getF32Type());
  SmallVector<Type> inputs = {ids, ids, keys};
  if (isPacked)
    inputs.push_back(ids);
  model = func::FuncOp::create(builder, location, nn::getName(nn::Entry::Model),
                               builder.getFunctionType(inputs, {loss}));
  builder.setInsertionPointToStart(model.addEntryBlock());
}

Type ModelBuilder::getActivationType(int64_t width) {
  return RankedTensorType::get({ShapedType::kDynamic, seqLen, width},
                               builder.getF32Type());
}

Unit &ModelBuilder::defineLoss(int64_t vocabSize) {
  return define("loss", {getActivationType(vocabSize), getIdsType()},
                /*draws=*/false, [](Unit &unit) {
                  return unit.crossEntropy(unit.getInput(0), unit.getInput(1));
                });
}

Unit &ModelBuilder::define(StringRef name, ArrayRef<Type> inputs, bool draws,
                           llvm::function_ref<Value(Unit &)> build,
                           bool locates) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(model);
  units.push_back(std::unique_ptr<Unit>(new Unit(builder, location)));
  Unit &unit = *units.back();
  // The type is known when the body is.
  unit.function = func::FuncOp::create(builder, location, name,
                                       builder.getFunctionType({}, {}));
  unit.function.setPrivate();
  unit.function->setAttr(nn::kUnitAttr, builder.getUnitAttr());
  unit.body = unit.function.addEntryBlock();
  unit.builder.setInsertionPointToStart(unit.body);
  for (Type input : inputs)
    unit.body->addArgument(input, location);
  if (locates && isPacked)
    unit.positions = unit.body->addArgument(getIdsType(), location);
  if (draws)
    unit.keys = unit.body->addArgument(getIdsOf(builder, 2), location);

  Value result = build(unit);
  func::ReturnOp::create(unit.builder, location, result);
  unit.function.setFunctionType(builder.getFunctionType(
      unit.body->getArgumentTypes(), {result.getType()}));
  unsigned numArguments = unit.body->getNumArguments();
  for (unsigned i = numArguments - unit.parameters.size(); i < numArguments;
       ++i)
    unit.function.setArgAttr(i, nn::kParameterAttr, builder.getUnitAttr());
  return unit;
}

Value ModelBuilder::getParameter(const Unit::Parameter &parameter,
                                 StringRef prefix) {
  std::string name = (prefix + parameter.name).str();
  Value &value = parameterValues[name];
  if (value)
    return value;
  {
    OpBuilder::InsertionGuard guard(builder);
    if (lastParameter)
      builder.setInsertionPointAfter(lastParameter);
    else
      builder.setInsertionPointToStart(module->getBody());
    lastParameter = nn::ParameterOp::create(
        builder, location, builder.getStringAttr(name),
        TypeAttr::get(parameter.type),
        nn::InitKindAttr::get(builder.getContext(), parameter.init.kind),
        builder.getF64FloatAttr(parameter.init.stdDev),
        parameter.init.decay ? builder.getUnitAttr() : UnitAttr(),
        /*frozen=*/UnitAttr(), /*slice=*/nullptr);
  }
  numElements += static_cast<double>(parameter.type.getNumElements());
  return value = nn::GetParameterOp::create(builder, location, parameter.type,
                                            name);
}

Value ModelBuilder::call(Unit &unit, ValueRange inputs, StringRef prefix) {
  SmallVector<Value> operands(inputs);
  if (unit.positions)
    operands.push_back(model.getArgument(nn::kPositions));
  // Every call draws from keys of its own, whether or not others draw.
  int64_t index = numCalls++;
  if (unit.keys)
    operands.push_back(nn::FoldKeyOp::create(
        builder, location, model.getArgument(nn::kKeys), index));
  for (const Unit::Parameter &parameter : unit.parameters)
    operands.push_back(getParameter(parameter, prefix));
  return func::CallOp::create(builder, location, unit.function, operands)
      .getResult(0);
}

OwningOpRef<ModuleOp> ModelBuilder::finish(Value loss, const nn::Model &facts) {
  func::ReturnOp::create(builder, location, loss);
  facts.attachTo(*module);
  return std::move(module);
}
