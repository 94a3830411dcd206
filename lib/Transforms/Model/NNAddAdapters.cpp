//===- NNAddAdapters.cpp - LoRA adapters on linear layers -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Works on units: one change serves all layers that call a unit. Names are
// those of PEFT, whose directories the runtime reads and writes.
//
//===----------------------------------------------------------------------===//

#include "FindHead.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

namespace poplar {
#define GEN_PASS_DEF_NNADDADAPTERS
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

static constexpr llvm::StringLiteral kAllLinear = "all-linear";

namespace {

/// A linear layer of a unit, with what the calls of the unit name it.
struct Layer {
  nn::LinearOp op;
  /// As in `model.layers.0.self_attn.q_proj`, by call.
  SmallVector<StringRef> modules;
  /// It makes the logits.
  bool isHead = false;
};

class NNAddAdaptersPass
    : public poplar::impl::NNAddAdaptersBase<NNAddAdaptersPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult checkOptions();
  LogicalResult findLayers(func::FuncOp model);
  void findExperts();
  /// Whether an adapter for modules of this name is one for linear layers.
  bool isForLinear(StringRef name);
  LogicalResult chooseLayers();
  LogicalResult freezeOthers();
  LogicalResult reportUnused(StringRef target, ArrayRef<StringRef> known);
  /// The name of a parameter's module, as in
  /// `model.layers.0.self_attn.q_proj`; empty if it is no weight of a layer of
  /// its own.
  StringRef getModule(func::CallOp call, Value weight);
  void adapt(func::FuncOp unit, ArrayRef<Layer *> layers);
  /// The unit's argument of random keys, made where there is none.
  Value getKeys(func::FuncOp unit);
  Value addParameter(func::FuncOp unit, Layer &layer, StringRef suffix,
                     ArrayRef<int64_t> shape, nn::InitKind init, double stdDev);
  void recordFacts();

  func::FuncOp model;
  llvm::MapVector<Operation *, SmallVector<func::CallOp>> calls;
  DenseMap<Operation *, int64_t> numbers;
  llvm::MapVector<Operation *, std::vector<Layer>> layers;
  /// Last names of modules that experts have.
  llvm::StringSet<> expertNames;
  llvm::MapVector<Operation *, SmallVector<Layer *>> chosen;
  SymbolTable *symbols = nullptr;
  /// Adapters follow the other parameters, whose random values stay the same.
  Operation *lastParameter = nullptr;
};

} // namespace

LogicalResult NNAddAdaptersPass::checkOptions() {
  ModuleOp module = getOperation();
  if (rank < 1 || rank > 65536)
    return module.emitError("the rank of adapters is ")
           << rank.getValue() << ", expected 1 to 65536";
  if (!(alpha > 0) || !std::isfinite(alpha))
    return module.emitError("the alpha of adapters is ")
           << alpha.getValue() << ", expected a number above 0";
  if (!(dropout >= 0 && dropout < 1))
    return module.emitError("the dropout of adapters is ")
           << dropout.getValue() << ", expected a number in [0, 1)";
  if (targets.empty())
    return module.emitError(
        "there are no modules to adapt: name some, or all-linear");
  if (nn::Model::of(module).getLoraRank())
    return module.emitError("has adapters already");
  return success();
}

/// What a call passes to a unit as `weight`; null if that is no parameter.
static nn::GetParameterOp findParameter(func::CallOp call, Value weight) {
  auto argument = dyn_cast<BlockArgument>(weight);
  if (!argument)
    return {};
  return call.getOperand(argument.getArgNumber())
      .getDefiningOp<nn::GetParameterOp>();
}

StringRef NNAddAdaptersPass::getModule(func::CallOp call, Value weight) {
  nn::GetParameterOp get = findParameter(call, weight);
  StringRef name = get ? get.getParameter() : StringRef();
  // The table of an embedding serves as a head, too: no layer of its own.
  return name.consume_back(".weight") && get->hasOneUse() ? name : "";
}

static StringRef getLastName(StringRef module) {
  return module.substr(module.rfind('.') + 1);
}

/// As PEFT compares names with target_modules.
static bool matches(StringRef module, StringRef target) {
  return module.consume_back(target) &&
         (module.empty() || module.back() == '.');
}

void NNAddAdaptersPass::findExperts() {
  for (auto &[unit, callsOf] : calls)
    for (auto experts : cast<func::FuncOp>(unit).getOps<nn::ExpertLinearOp>())
      for (func::CallOp call : callsOf)
        for (Value weight : experts.getWeights())
          if (nn::GetParameterOp get = findParameter(call, weight)) {
            // A stack of them is no module's weight.
            StringRef name = get.getParameter();
            name.consume_back(".weight");
            expertNames.insert(getLastName(name));
          }
}

bool NNAddAdaptersPass::isForLinear(StringRef name) {
  if (!expertNames.contains(name))
    return true;
  // In these families, PEFT takes the names for those of experts in all layers
  // (_MODEL_TO_CONVERSION_PATTERN), in the others for those of linear layers.
  std::optional<StringRef> family =
      nn::Model::of(getOperation()).getArchitecture();
  return family != "qwen3_moe" && family != "qwen3_next" &&
         family != "deepseek_v2";
}

LogicalResult NNAddAdaptersPass::findLayers(func::FuncOp model) {
  int64_t number = 0;
  for (auto call : model.getOps<func::CallOp>()) {
    auto unit = symbols->lookup<func::FuncOp>(call.getCallee());
    if (!unit || unit.isExternal() || !unit->hasAttr(nn::kUnitAttr))
      return call.emitOpError("expected a call of a unit");
    calls[unit].push_back(call);
    numbers[call] = number++;
  }
  findExperts();
  nn::LinearOp head = findHead(model, *symbols);
  for (auto &[op, callsOf] : calls) {
    auto unit = cast<func::FuncOp>(op);
    for (auto linear : unit.getOps<nn::LinearOp>()) {
      if (isRouter(linear))
        continue;
      Layer layer = {linear, {}, linear == head};
      for (func::CallOp call : callsOf)
        if (StringRef module = getModule(call, linear.getWeight());
            !module.empty() && isForLinear(getLastName(module)))
          layer.modules.push_back(module);
      if (layer.modules.size() == callsOf.size())
        layers[unit].push_back(std::move(layer));
    }
  }
  return success();
}

LogicalResult NNAddAdaptersPass::reportUnused(StringRef target,
                                              ArrayRef<StringRef> known) {
  bool namesExperts = expertNames.contains(getLastName(target)),
       namesRouters = false;
  for (auto &[op, callsOf] : calls)
    for (func::CallOp call : callsOf)
      for (auto linear : cast<func::FuncOp>(op).getOps<nn::LinearOp>())
        namesRouters |= isRouter(linear) &&
                        matches(getModule(call, linear.getWeight()), target);
  InFlightDiagnostic error = getOperation().emitError();
  if (namesExperts || namesRouters)
    error << "'" << target << "' names "
          << (namesExperts ? "experts" : "routers of experts")
          << ", which cannot have adapters; linear layers of the model are: ";
  else
    error << "no linear layer is called '" << target << "'; the model has: ";
  return error << llvm::join(known, ", ");
}

LogicalResult NNAddAdaptersPass::chooseLayers() {
  llvm::SetVector<StringRef> unused, known;
  for (const std::string &target : targets)
    if (target != kAllLinear)
      unused.insert(target);
  for (auto &[unit, list] : layers)
    for (Layer &layer : list) {
      size_t count = 0;
      for (StringRef module : layer.modules) {
        known.insert(getLastName(module));
        bool isChosen = false;
        for (const std::string &target : targets) {
          bool isMatch =
              target == kAllLinear ? !layer.isHead : matches(module, target);
          isChosen |= isMatch;
          if (isMatch)
            unused.remove(target);
        }
        count += isChosen;
      }
      if (count > 0 && count < layer.modules.size())
        return layer.op.emitOpError("is to be adapted in ")
               << count << " of the " << layer.modules.size()
               << " layers that share @"
               << cast<func::FuncOp>(unit).getSymName()
               << "; name the module without the number of a layer";
      if (count)
        chosen[unit].push_back(&layer);
    }
  if (unused.empty() && !chosen.empty())
    return success();
  return reportUnused(unused.empty() ? StringRef(kAllLinear) : unused.front(),
                      known.getArrayRef());
}

/// Freezes all parameters but those of modules to save.
LogicalResult NNAddAdaptersPass::freezeOthers() {
  ModuleOp module = getOperation();
  llvm::SmallSetVector<StringRef, 8> unused, known;
  for (const std::string &name : saved)
    unused.insert(name);
  llvm::StringMap<unsigned> uses;
  model->walk([&](nn::GetParameterOp get) {
    uses[get.getParameter()] +=
        unsigned(std::distance(get->use_begin(), get->use_end()));
  });
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    lastParameter = parameter;
    StringRef owner = parameter.getSymName().rsplit('.').first;
    known.insert(getLastName(owner));
    auto name = llvm::find_if(
        saved, [&](const std::string &it) { return matches(owner, it); });
    parameter.setFrozen(name == saved.end());
    if (name == saved.end())
      continue;
    unused.remove(*name);
    if (uses[parameter.getSymName()] > 1)
      return parameter.emitOpError(
                 "serves as an embedding and as the head, of "
                 "which PEFT would train a copy each; leave '")
             << *name << "' out of the modules to save";
    for (auto &[unit, list] : chosen)
      for (Layer *layer : list)
        if (llvm::is_contained(layer->modules, owner))
          return parameter.emitOpError("is of '")
                 << *name
                 << "', which is to have an adapter and to be trained as a "
                    "whole; name it once";
  }
  if (unused.empty())
    return success();
  return module.emitError("no module to save is called '")
         << unused.front()
         << "'; the model has: " << llvm::join(known.getArrayRef(), ", ");
}

Value NNAddAdaptersPass::getKeys(func::FuncOp unit) {
  OpBuilder builder(unit);
  Type type = model.getArgument(nn::kKeys).getType();
  for (BlockArgument argument : unit.getArguments())
    if (argument.getType() == type)
      return argument;
  for (func::CallOp call : calls[unit]) {
    builder.setInsertionPoint(call);
    Value keys = nn::FoldKeyOp::create(
        builder, call.getLoc(), model.getArgument(nn::kKeys), numbers[call]);
    call->insertOperands(call.getNumOperands(), keys);
  }
  return unit.front().addArgument(type, unit.getLoc());
}

Value NNAddAdaptersPass::addParameter(func::FuncOp unit, Layer &layer,
                                      StringRef suffix, ArrayRef<int64_t> shape,
                                      nn::InitKind init, double stdDev) {
  OpBuilder builder(unit);
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  for (auto [call, module] : llvm::zip_equal(calls[unit], layer.modules)) {
    std::string name = (module + suffix).str();
    builder.setInsertionPointAfter(lastParameter);
    auto parameter = nn::ParameterOp::create(
        builder, layer.op.getLoc(), builder.getStringAttr(name),
        TypeAttr::get(type), nn::InitKindAttr::get(builder.getContext(), init),
        builder.getF64FloatAttr(stdDev), /*decay=*/builder.getUnitAttr(),
        /*frozen=*/UnitAttr(), /*slice=*/nullptr);
    symbols->insert(parameter);
    lastParameter = parameter;
    builder.setInsertionPoint(call);
    Value value = nn::GetParameterOp::create(builder, layer.op.getLoc(), type,
                                             parameter.getSymName());
    call->insertOperands(call.getNumOperands(), value);
  }
  return unit.front().addArgument(type, layer.op.getLoc());
}

void NNAddAdaptersPass::adapt(func::FuncOp unit, ArrayRef<Layer *> layers) {
  SmallVector<Attribute> attributes;
  for (unsigned i = 0, end = unit.getNumArguments(); i != end; ++i) {
    DictionaryAttr known = unit.getArgAttrDict(i);
    attributes.push_back(known ? known : DictionaryAttr::get(&getContext()));
  }
  Value keys = dropout > 0 ? getKeys(unit) : Value();
  int64_t nextOpId = 0;
  for (Operation &op : unit.front())
    if (auto id = op.getAttrOfType<IntegerAttr>("op_id"))
      nextOpId = std::max(nextOpId, id.getInt() + 1);
  unsigned numArguments = unit.front().getNumArguments();
  for (Layer *layer : layers) {
    nn::LinearOp linear = layer->op;
    auto input = linear.getX().getType(), output = linear.getType();
    int64_t depth = input.getDimSize(2), width = output.getDimSize(2);
    // As torch.nn.Linear and, for it, PEFT: uniform in +-1 / sqrt(depth).
    Value down = addParameter(unit, *layer, ".lora_A.weight", {rank, depth},
                              nn::InitKind::Uniform,
                              1 / std::sqrt(3 * double(depth))),
          up = addParameter(unit, *layer, ".lora_B.weight", {width, rank},
                            nn::InitKind::Zeros, 0);
    OpBuilder builder(linear);
    builder.setInsertionPointAfter(linear);
    Location loc = linear.getLoc();
    Value x = linear.getX();
    if (keys)
      x = nn::DropoutOp::create(builder, loc, x, keys, llvm::APFloat(+dropout),
                                nextOpId++, /*tokens=*/nullptr);
    auto narrow =
        RankedTensorType::get({input.getDimSize(0), input.getDimSize(1), rank},
                              input.getElementType());
    Value inner = nn::LinearOp::create(builder, loc, narrow, x, down, Value(),
                                       nn::WeightLayout::OutIn);
    inner =
        nn::ScaleOp::create(builder, loc, inner, llvm::APFloat(alpha / rank));
    Value delta = nn::LinearOp::create(builder, loc, output, inner, up, Value(),
                                       nn::WeightLayout::OutIn);
    auto sum = nn::AddOp::create(builder, loc, linear.getResult(), delta);
    linear.getResult().replaceAllUsesExcept(sum, sum);
  }
  unit.setFunctionType(FunctionType::get(&getContext(),
                                         unit.front().getArgumentTypes(),
                                         unit.getFunctionType().getResults()));
  // Keys, if they are new, then parameters.
  attributes.resize(numArguments, DictionaryAttr::get(&getContext()));
  Builder builder(&getContext());
  attributes.resize(unit.getNumArguments(),
                    builder.getDictionaryAttr(builder.getNamedAttr(
                        nn::kParameterAttr, builder.getUnitAttr())));
  unit.setAllArgAttrs(attributes);
}

/// What the runtime has to know to read and write directories of PEFT.
void NNAddAdaptersPass::recordFacts() {
  ModuleOp module = getOperation();
  nn::Model facts = nn::Model::of(module);
  if (!facts)
    return;
  int64_t elements = 0;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    elements += cast<RankedTensorType>(parameter.getType()).getNumElements();
  llvm::SetVector<StringRef> names;
  bool isInOut = false;
  for (auto &[unit, list] : chosen)
    for (Layer *layer : list) {
      isInOut |= layer->op.getLayout() == nn::WeightLayout::InOut;
      for (StringRef module : layer->modules)
        for (const std::string &target : targets)
          if (target == kAllLinear)
            names.insert(getLastName(module));
          else if (matches(module, target))
            names.insert(target);
    }
  facts.setNumParameters(elements);
  facts.setLoraRank(rank);
  facts.setLoraAlpha(alpha);
  facts.setLoraDropout(dropout);
  facts.setLoraInOut(isInOut);
  facts.setLoraTargets(llvm::join(names.getArrayRef(), ","));
  facts.attachTo(module);
}

void NNAddAdaptersPass::runOnOperation() {
  ModuleOp module = getOperation();
  SymbolTable table(module);
  symbols = &table;
  calls.clear();
  numbers.clear();
  layers.clear();
  chosen.clear();
  model = nn::findEntry<func::FuncOp>(table, nn::Entry::Model);
  if (!model || model.isExternal() || model.getNumArguments() <= nn::kKeys) {
    module.emitError(
        "has no function @model of ids, targets and keys to adapt");
    return signalPassFailure();
  }
  if (failed(checkOptions()) || failed(findLayers(model)) ||
      failed(chooseLayers()) || failed(freezeOthers()))
    return signalPassFailure();
  for (auto &[unit, list] : chosen)
    adapt(cast<func::FuncOp>(unit), list);
  recordFacts();
}
