//===- ModelAttr.cpp - The nn.model dictionary against the program --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dialect's attributes are verified before the ops inside: nothing here takes
// for granted that they are well formed.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/Names.h"
#include "Poplar/Support/Words.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

namespace {

class ModelVerifier {
public:
  ModelVerifier(ModuleOp module, DictionaryAttr facts)
      : module(module), facts(facts) {}

  /// - Keys are known, and their values of the right type and range.
  /// - `config` is a JSON object; what it says of vocab_size, hidden_size and
  ///   num_layers are the same facts.
  /// - seq_len is the length of @model's ids, and of what its units take.
  /// - The facts that ops tell (ModelFactsOpInterface) are those stated: of
  ///   nn.embedding, nn.cross_entropy and nn.attention at the end of this file.
  /// - num_parameters are the elements of all nn.parameter.
  /// - num_layers is how many ops @model has, in the units that it calls, that
  ///   every layer has once.
  LogicalResult verify();

private:
  LogicalResult verifyKeys();
  LogicalResult verifyConfig();
  LogicalResult verifyOps(func::FuncOp model);
  LogicalResult verifyOp(ModelFactsOpInterface op);
  LogicalResult verifyParameters();
  LogicalResult verifyCalls(func::FuncOp model);

  std::optional<int64_t> getInteger(StringRef name) {
    auto value = facts.getAs<IntegerAttr>(name);
    return value ? std::optional(value.getInt()) : std::nullopt;
  }
  /// An error unless the fact, if it is stated, has this value.
  LogicalResult expect(StringRef name, int64_t value, const Twine &what,
                       Operation *where);

  ModuleOp module;
  DictionaryAttr facts;
};

} // namespace

/// What a value of a field has to be; null if `value` is that.
static const char *findFault(ModelFieldKind kind, Attribute value) {
  switch (kind) {
  case ModelFieldKind::Text:
    return isa<StringAttr>(value) ? nullptr : "a string";
  case ModelFieldKind::Number:
    return isa<FloatAttr>(value) ? nullptr : "a number";
  case ModelFieldKind::Flag:
    return isa<BoolAttr>(value) ? nullptr : "a bool";
  case ModelFieldKind::Ids:
    return isa<DenseI64ArrayAttr>(value) ? nullptr : "a list";
  case ModelFieldKind::Count:
  case ModelFieldKind::Index: {
    auto integer = dyn_cast<IntegerAttr>(value);
    return integer && integer.getType().isSignlessInteger(64) ? nullptr
                                                              : "an i64";
  }
  }
  llvm_unreachable("unknown kind of field");
}

LogicalResult ModelVerifier::verifyKeys() {
  for (NamedAttribute entry : facts) {
    StringRef name = entry.getName();
    const ModelField *field = findModelField(name);
    if (!field)
      return module.emitError("nn.model: unknown key ") << showName(name);
    if (const char *fault = findFault(field->kind, entry.getValue()))
      return module.emitError("nn.model: ") << name << " is not " << fault;
    bool isCount = field->kind == ModelFieldKind::Count;
    if (!isCount && field->kind != ModelFieldKind::Index)
      continue;
    int64_t value = cast<IntegerAttr>(entry.getValue()).getInt();
    if (value < isCount)
      return module.emitError("nn.model: ")
             << name << " is " << value
             << (isCount ? ", expected 1 or more" : ", expected 0 or more");
  }
  const Model model(facts);
  std::optional<int64_t> mask = model.getMaskToken(),
                         rows = model.getVocabSize();
  for (int64_t id : model.getSpecialTokens().value_or(ArrayRef<int64_t>()))
    if (id < 0 || (rows && id >= *rows))
      return module.emitError("nn.model: special_token_ids holds ")
             << id << ", which is not a token of the vocabulary";
  if (auto objective = model.getObjective();
      objective && *objective != "causal" && *objective != "masked")
    return module.emitError("nn.model: objective is ")
           << showName(*objective) << ", expected 'causal' or 'masked'";
  if (auto precision = model.getPrecision();
      precision && !parseWord<NumberFormat>(*precision))
    return module.emitError("nn.model: precision is ")
           << showName(*precision) << ", expected f32, tf32, bf16 or f16";
  if (auto unsafe = model.getUnsafePrecision()) {
    if (!parseWord<NumberFormat>(*unsafe))
      return module.emitError("nn.model: unsafe_precision is ")
             << showName(*unsafe) << ", expected f32, tf32, bf16 or f16";
    if (*unsafe == model.getPrecision())
      return module.emitError("nn.model: activations of this model overflow ")
             << *unsafe << ": use precision bf16 or f32";
  }
  if (auto format = model.getFrozenFormat();
      format && !symbolizeQuantizedFormat(*format))
    return module.emitError("nn.model: frozen_format is ")
           << showName(*format) << ", expected nf4, nf4_double or int8";
  if (auto bits = model.getStateBits(); bits && *bits != 8 && *bits != 4)
    return module.emitError("nn.model: state_bits is ")
           << *bits << ", expected 8 or 4";
  if (auto architecture = model.getArchitecture();
      architecture && !isName(*architecture))
    return module.emitError("nn.model: architecture is ")
           << showName(*architecture) << ": " << describeNameRule();
  if (mask && rows && *mask >= *rows)
    return module.emitError("nn.model: mask_token_id is ")
           << *mask << ", but the vocabulary has " << *rows << " tokens";
  return success();
}

LogicalResult ModelVerifier::verifyConfig() {
  std::optional<StringRef> text = Model(facts).getConfig();
  if (!text)
    return success();
  auto document = json::Document::parse(text->str(), "config");
  if (document->hasError())
    return module.emitError("nn.model: config is not JSON: ")
           << document->getError();
  json::Value config = document->getRoot();
  if (!config.isObject())
    return module.emitError("nn.model: config is not a JSON object");
  // As the families call them.
  for (auto [key, fact] : {std::pair("vocab_size", "vocab_size"),
                           {"hidden_size", "hidden_size"},
                           {"n_embd", "hidden_size"},
                           {"num_hidden_layers", "num_layers"},
                           {"n_layer", "num_layers"}}) {
    json::Value said = config[key];
    std::optional<int64_t> known = getInteger(fact);
    if (known && said.isNumber() && said.getNumber() != double(*known))
      return module.emitError("nn.model: ")
             << fact << " is " << *known << ", but config says \"" << key
             << "\": " << said.dump();
  }
  return success();
}

LogicalResult ModelVerifier::expect(StringRef name, int64_t value,
                                    const Twine &what, Operation *where) {
  std::optional<int64_t> said = getInteger(name);
  if (!said || *said == value)
    return success();
  InFlightDiagnostic diagnostic = module.emitError("nn.model: ")
                                  << name << " is " << *said << ", but " << what
                                  << " " << value;
  diagnostic.attachNote(where->getLoc()) << "here";
  return diagnostic;
}

LogicalResult ModelVerifier::verifyOp(ModelFactsOpInterface op) {
  for (const ModelFact &fact : op.getModelFacts()) {
    if (auto value = dyn_cast<IntegerAttr>(fact.value)) {
      if (failed(expect(fact.name, value.getInt(), fact.what, op)))
        return failure();
      continue;
    }
    auto said = facts.getAs<StringAttr>(fact.name);
    if (!said || said == fact.value)
      continue;
    InFlightDiagnostic diagnostic = module.emitError("nn.model: ")
                                    << fact.name << " is '" << said.getValue()
                                    << "', but " << fact.what;
    diagnostic.attachNote(op.getLoc()) << "here";
    return diagnostic;
  }
  return success();
}

LogicalResult ModelVerifier::verifyOps(func::FuncOp model) {
  // A getter of a type takes for granted that it is of the right class.
  auto attribute = model.getFunctionTypeAttr();
  auto type =
      attribute ? dyn_cast<FunctionType>(attribute.getValue()) : FunctionType();
  if (type && type.getNumInputs() > 0)
    if (auto ids = dyn_cast<RankedTensorType>(type.getInput(0));
        ids && ids.getRank() == 2 && !ids.isDynamicDim(1) &&
        failed(
            expect("seq_len", ids.getDimSize(1), "@model takes ids of", model)))
      return failure();
  WalkResult result = module.walk([&](ModelFactsOpInterface op) {
    return failed(verifyOp(op)) ? WalkResult::interrupt()
                                : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult ModelVerifier::verifyParameters() {
  int64_t sum = 0;
  ParameterOp last;
  for (auto parameter : module.getOps<ParameterOp>()) {
    auto type =
        parameter.getTypeAttr()
            ? dyn_cast<RankedTensorType>(parameter.getTypeAttr().getValue())
            : RankedTensorType();
    if (!type || !type.hasStaticShape())
      return success(); // an error of the op itself
    int64_t elements = 1;
    for (int64_t size : type.getShape())
      if (llvm::MulOverflow(elements, size, elements))
        return parameter.emitOpError("has too many elements");
    if (llvm::AddOverflow(sum, elements, sum))
      return parameter.emitOpError("has too many elements");
    last = parameter;
  }
  return last ? expect("num_parameters", sum,
                       "the parameters have elements:", last)
              : success();
}

LogicalResult ModelVerifier::verifyCalls(func::FuncOp model) {
  // By unit: layers of one model may be of several, as where only some have a
  // window.
  llvm::StringMap<int64_t> layersOf;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto name = function.getSymNameAttr())
      function.walk([&](ModelFactsOpInterface op) {
        layersOf[name] += op.isOncePerLayer();
      });
  int64_t layers = layersOf.lookup(getName(Entry::Model));
  for (auto call : model.getOps<func::CallOp>()) {
    if (!call.getCalleeAttr())
      return success(); // an error of the op itself
    layers += layersOf.lookup(call.getCallee());
  }
  return layers ? expect("num_layers", layers,
                         "@model computes attention so often:", model)
                : success();
}

LogicalResult ModelVerifier::verify() {
  if (failed(verifyKeys()) || failed(verifyConfig()))
    return failure();
  // In a model that is cut, divided or differentiated, the facts are those of
  // the whole.
  if (llvm::any_of(module.getOps<ParameterOp>(), [](ParameterOp parameter) {
        return parameter.getSliceAttr() != nullptr;
      }))
    return success();
  func::FuncOp model;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto name = function.getSymNameAttr();
        name && name == getName(Entry::Model))
      model = function;
  if (!model || model.isExternal() ||
      llvm::any_of(model.getOps(), [](auto &op) {
        return op.getName().getDialectNamespace() == "zero";
      }))
    return success();
  return failure(failed(verifyOps(model)) || failed(verifyParameters()) ||
                 failed(verifyCalls(model)));
}

std::optional<int64_t> nn::getChunkBytes(Operation *unit) {
  auto bytes = unit->getAttrOfType<IntegerAttr>(kChunkBytesAttr);
  return bytes ? std::optional(bytes.getInt()) : std::nullopt;
}

bool nn::isPacked(ModuleOp module) {
  return Model::of(module).getPacking().value_or(false);
}

//===----------------------------------------------------------------------===//
// What ops tell
//===----------------------------------------------------------------------===//

namespace {
/// Collects what the dimensions of an op's operands say.
class FactCollector {
public:
  explicit FactCollector(Operation *op) : op(op) {}

  /// `name` is the size of a dimension of an operand, if that is static.
  FactCollector &add(StringRef name, unsigned operand, unsigned dim,
                     StringRef what) {
    if (operand >= op->getNumOperands())
      return *this;
    auto type = dyn_cast<RankedTensorType>(op->getOperand(operand).getType());
    if (!type || type.getRank() <= dim || type.isDynamicDim(dim))
      return *this;
    Attribute size =
        Builder(op->getContext()).getI64IntegerAttr(type.getDimSize(dim));
    facts.push_back({name, size, what.str()});
    return *this;
  }
  SmallVector<ModelFact> take() { return std::move(facts); }

private:
  Operation *op;
  SmallVector<ModelFact> facts;
};
} // namespace

SmallVector<ModelFact> EmbeddingOp::getModelFacts() {
  return FactCollector(*this)
      .add("seq_len", 0, 1, "an nn.embedding takes ids of")
      .add("vocab_size", 1, 0, "the table of an nn.embedding has rows:")
      .add("hidden_size", 1, 1, "the rows of an nn.embedding have elements:")
      .take();
}

SmallVector<ModelFact> CrossEntropyOp::getModelFacts() {
  return FactCollector(*this)
      .add("seq_len", 1, 1, "the targets of the loss are")
      .add("vocab_size", 0, 2, "the logits of the loss are")
      .take();
}

SmallVector<ModelFact> AttentionOp::getModelFacts() {
  bool isCausal = getCausal();
  auto objective =
      StringAttr::get(getContext(), isCausal ? "causal" : "masked");
  return {{"objective", objective,
           isCausal ? "an nn.attention is causal"
                    : "an nn.attention is not causal"}};
}

bool AttentionOp::isOncePerLayer() { return true; }

/// Groups of heads, if all that is between them and their product can be
/// divided so.
int64_t AttentionOp::getTensorParts() {
  const int64_t part = 1;
  const TensorGroup alone(part, 0);
  for (Value value : {getQ(), getK(), getV()})
    while (value) {
      auto op = value.getDefiningOp<TensorParallelOpInterface>();
      if (!op || isa<LinearOp>(op))
        break;
      OpOperand &operand = op->getOpOperand(0);
      if (op.splitOperand(operand, alone).kind == OperandSplit::None)
        return 1;
      value = operand.get();
    }
  return getNumKvHeads();
}

//===----------------------------------------------------------------------===//
// The dialect
//===----------------------------------------------------------------------===//

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (attribute.getName() == kUnitAttr) {
    if (isa<func::FuncOp>(op) && isa<UnitAttr>(attribute.getValue()))
      return success();
    return op->emitError("nn.unit must be a unit attribute on a function");
  }
  if (attribute.getName() == kDecodingAttr) {
    auto tokens = dyn_cast<IntegerAttr>(attribute.getValue());
    if (isa<func::FuncOp>(op) && tokens && tokens.getInt() >= 1)
      return success();
    return op->emitError(
        "nn.decoding must be a number of tokens on a function");
  }
  if (attribute.getName() == kChunkBytesAttr) {
    auto bytes = dyn_cast<IntegerAttr>(attribute.getValue());
    if (op->hasAttr(kUnitAttr) && bytes && bytes.getInt() >= 1)
      return success();
    return op->emitError("nn.chunk_bytes must be a number of bytes on a unit");
  }
  if (attribute.getName() == kRandomAttr) {
    if (isa<ModuleOp>(op) && isa<UnitAttr>(attribute.getValue()))
      return success();
    return op->emitError("nn.random must be a unit attribute on a module");
  }
  if (attribute.getName() != kModelAttr)
    return op->emitError() << attribute.getName()
                           << " is not an attribute of an operation";
  auto module = dyn_cast<ModuleOp>(op);
  auto facts = dyn_cast<DictionaryAttr>(attribute.getValue());
  if (!module || !facts)
    return op->emitError("nn.model must be a dictionary on a module");
  return ModelVerifier(module, facts).verify();
}

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  bool isKnown = llvm::is_contained({kParameterAttr, kGradientAttr, kCacheAttr},
                                    attribute.getName());
  if (isKnown && isa<UnitAttr>(attribute.getValue()))
    return success();
  return op->emitError() << attribute.getName()
                         << " is not an argument attribute";
}
