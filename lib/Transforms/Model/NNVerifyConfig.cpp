//===- NNVerifyConfig.cpp - A module against its configuration ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindHead.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/Names.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"

namespace poplar {
#define GEN_PASS_DEF_NNVERIFYCONFIG
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Compares a module with what an import of its configuration makes.
class ModuleComparison {
public:
  ModuleComparison(ModuleOp module, ModuleOp imported)
      : module(module), imported(imported) {}

  LogicalResult compare() {
    return failure(failed(compareFacts()) || failed(compareSymbols()));
  }

private:
  /// Begins an error; `what` is about the op.
  InFlightDiagnostic report(Operation *op, const Twine &what);

  LogicalResult compareFacts();
  LogicalResult compareSymbols();
  LogicalResult compareOps(Operation *op, Operation *expected);
  LogicalResult compareAttributes(Operation *op, Operation *expected);
  LogicalResult compareBlocks(Operation *op, Region &region, Region &expected);

  ModuleOp module, imported;
  /// Values of the import, for those of the module.
  DenseMap<Value, Value> counterparts;
};

} // namespace

/// For an error message, which shows no more than the beginning.
static std::string show(Attribute attribute) {
  if (!attribute)
    return "absent";
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

InFlightDiagnostic ModuleComparison::report(Operation *op, const Twine &what) {
  InFlightDiagnostic diagnostic = op->emitOpError()
                                  << "differs from the model of nn.model's "
                                     "config, which checkpoints get as "
                                     "config.json: "
                                  << what;
  diagnostic.attachNote()
      << "import a configuration that says so; or remove config and "
         "config_facts from nn.model, and checkpoints have no configuration";
  return diagnostic;
}

/// Whether the facts that another config.json is compared with are those of
/// the import. The names that it may have may be more: --ignore-key adds some.
static bool areEqualFacts(StringRef text, StringRef expected) {
  auto facts = json::Document::parse(text.str(), "config_facts"),
       wanted = json::Document::parse(expected.str(), "config_facts");
  llvm::StringSet<> names;
  json::Value known = facts->getRoot()["known"];
  for (size_t i = 0; i < known.size(); ++i)
    names.insert(known[i].getString());
  known = wanted->getRoot()["known"];
  for (size_t i = 0; i < known.size(); ++i)
    if (!names.contains(known[i].getString()))
      return false;
  // Which larger model it is a part of, its own configuration does not say.
  facts->remove("multimodal");
  facts->remove("known");
  wanted->remove("known");
  return !facts->hasError() && !wanted->hasError() &&
         facts->getRoot().dump() == wanted->getRoot().dump();
}

LogicalResult ModuleComparison::compareFacts() {
  DictionaryAttr facts = nn::Model::of(module).getDictionary(),
                 wanted = nn::Model::of(imported).getDictionary();
  for (NamedAttribute entry : wanted) {
    StringRef name = entry.getName();
    Attribute said = facts.get(entry.getName());
    // Which tokens are masked is no matter of the function, and a tokenizer
    // beside the configuration may have told it.
    if (said == entry.getValue() || name == "mask_token_id" ||
        name == "special_token_ids")
      continue;
    auto text = dyn_cast_or_null<StringAttr>(said);
    if (name == "config_facts" && text &&
        areEqualFacts(text, cast<StringAttr>(entry.getValue())))
      continue;
    return report(module, "nn.model: " + name + " is " + show(said) +
                              ", and there " + show(entry.getValue()));
  }
  return success();
}

LogicalResult ModuleComparison::compareSymbols() {
  SymbolTable symbols(module), others(imported);
  for (Operation &expected : imported.getOps()) {
    StringRef name = SymbolTable::getSymbolName(&expected);
    Operation *op = symbols.lookup(name);
    if (!op || op->getName() != expected.getName())
      return report(module, "it has no " + expected.getName().getStringRef() +
                                " @" + name);
    if (failed(compareOps(op, &expected)))
      return failure();
  }
  for (Operation &op : module.getOps())
    if (isa<nn::ParameterOp, func::FuncOp>(op) &&
        !others.lookup(SymbolTable::getSymbolName(&op)))
      return report(&op, "there is no such symbol there");
  return success();
}

LogicalResult ModuleComparison::compareAttributes(Operation *op,
                                                  Operation *expected) {
  DictionaryAttr attributes = op->getAttrDictionary(),
                 wanted = expected->getAttrDictionary();
  if (attributes == wanted)
    return success();
  for (NamedAttribute entry : wanted)
    if (Attribute value = attributes.get(entry.getName());
        value != entry.getValue())
      return report(op, entry.getName().strref() + " is " + show(value) +
                            ", and there " + show(entry.getValue()));
  // How much memory is taken is not the model's.
  for (NamedAttribute entry : attributes)
    if (!wanted.contains(entry.getName()) &&
        entry.getName() != nn::kChunkBytesAttr)
      return report(op, entry.getName().strref() + " is " +
                            show(entry.getValue()) + ", and there absent");
  return success();
}

LogicalResult ModuleComparison::compareOps(Operation *op, Operation *expected) {
  if (op->getName() != expected->getName() ||
      op->getNumOperands() != expected->getNumOperands() ||
      op->getNumRegions() != expected->getNumRegions() ||
      op->getResultTypes() != expected->getResultTypes())
    return report(op, "there is another op, of other operands or results, " +
                          expected->getName().getStringRef() +
                          ", in its place");
  for (auto [index, value] : llvm::enumerate(op->getOperands()))
    if (counterparts.lookup(value) != expected->getOperand(index))
      return report(op, "its operand " + Twine(index) +
                            " is another value than there");
  for (auto [result, other] :
       llvm::zip(op->getResults(), expected->getResults()))
    counterparts[result] = other;
  if (failed(compareAttributes(op, expected)))
    return failure();
  for (auto [region, other] :
       llvm::zip(op->getRegions(), expected->getRegions()))
    if (failed(compareBlocks(op, region, other)))
      return failure();
  return success();
}

LogicalResult ModuleComparison::compareBlocks(Operation *op, Region &region,
                                              Region &expected) {
  if (region.getBlocks().size() != expected.getBlocks().size())
    return report(op, "it has another number of blocks than there");
  for (auto [block, other] : llvm::zip(region, expected)) {
    if (block.getArgumentTypes() != other.getArgumentTypes())
      return report(op, "it has arguments of other types than there");
    for (auto [argument, there] :
         llvm::zip(block.getArguments(), other.getArguments()))
      counterparts[argument] = there;
    auto next = other.begin();
    for (Operation &each : block) {
      if (next == other.end())
        return report(&each, "there is no op in its place");
      if (failed(compareOps(&each, &*next++)))
        return failure();
    }
    if (next != other.end())
      return report(op, "it lacks a " + next->getName().getStringRef() +
                            " at its end");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The import
//===----------------------------------------------------------------------===//

/// The options of the import that made a module.
static ImportOptions getOptions(const nn::Model &model) {
  ImportOptions options;
  options.seqLen = model.getSeqLen();
  options.dropout = model.getDropout();
  options.noiseAlpha = model.getNoiseAlpha().value_or(options.noiseAlpha);
  options.packing = model.getPacking().value_or(false);
  options.maskTokenId = model.getMaskToken();
  if (auto ids = model.getSpecialTokens())
    options.specialTokenIds.assign(ids->begin(), ids->end());
  return options;
}

/// Parameters that are trained and are no adapters.
static SmallVector<StringRef> listTrained(ModuleOp module) {
  SmallVector<StringRef> names;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    StringRef name = parameter.getSymName();
    if (!parameter.getFrozen() && !name.ends_with(".lora_A.weight") &&
        !name.ends_with(".lora_B.weight"))
      names.push_back(name);
  }
  return names;
}

/// Products in fp8, adapters, and what is frozen in which format, as the module
/// has them.
static LogicalResult addAdapters(ModuleOp imported, ModuleOp module) {
  nn::Model model = nn::Model::of(module);
  PassManager passes(imported.getContext());
  if (model.getFP8Products().value_or(false))
    passes.addPass(createNNRoundProducts());
  if (auto rank = model.getLoraRank()) {
    NNAddAdaptersOptions options;
    options.rank = *rank;
    options.alpha = model.getLoraAlpha().value_or(options.alpha);
    options.dropout = model.getLoraDropout().value_or(options.dropout);
    if (auto targets = model.getLoraTargets()) {
      SmallVector<StringRef> names;
      targets->split(names, ',');
      for (StringRef name : names)
        options.targets.push_back(name.str());
    }
    for (StringRef name : listTrained(module))
      options.saved.push_back(name.rsplit('.').first.str());
    passes.addPass(createNNAddAdapters(options));
  } else if (auto all = module.getOps<nn::ParameterOp>();
             llvm::any_of(all, [](nn::ParameterOp parameter) {
               return parameter.getFrozen();
             })) {
    NNFreezeParametersOptions options;
    for (StringRef name : listTrained(module))
      options.trained.push_back(name.str());
    passes.addPass(createNNFreezeParameters(options));
  }
  if (auto format = model.getFrozenFormat())
    passes.addPass(
        createNNQuantizeFrozen({format->str(), hasQuantizedExperts(module)}));
  return passes.run(imported);
}

static LogicalResult verifyConfig(ModuleOp module) {
  nn::Model model = nn::Model::of(module);
  auto config = model.getConfig();
  if (!config)
    return model.getConfigFacts()
               ? module.emitError("nn.model: has config_facts and no config")
               : success();
  std::string error;
  OwningOpRef<ModuleOp> imported;
  {
    // The failure is told in one line, at the module.
    ScopedDiagnosticHandler handler(module.getContext(),
                                    [&](Diagnostic &diagnostic) {
                                      if (error.empty())
                                        error = diagnostic.str();
                                      return success();
                                    });
    imported = importModelText(*config, "config", getOptions(model),
                               *module.getContext(), error);
    if (imported && failed(addAdapters(*imported, module)))
      imported = {};
  }
  if (!imported)
    return module.emitError("nn.model: its config cannot be imported as the "
                            "module says: ")
           << error;
  return ModuleComparison(module, *imported).compare();
}

namespace {

struct NNVerifyConfigPass
    : poplar::impl::NNVerifyConfigBase<NNVerifyConfigPass> {
  void runOnOperation() override {
    if (failed(verifyConfig(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
