//===- Config.cpp - What importers ask of a config.json -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

static constexpr int64_t kMaxSize = int64_t(1) << 31;
static constexpr int64_t kMaxLayers = 10000;
static constexpr double kMaxElements = 1e13;

/// Without the zeros that std::to_string appends.
static std::string formatWhole(double number) {
  char text[32];
  snprintf(text, sizeof(text), "%.10g", number);
  return text;
}

Config::Config(json::Document &document, const Family &family,
               const ImportOptions &options, MLIRContext &context,
               StringRef file, ImportSummary &summary)
    : context(context), file(file), document(document), options(options),
      family(family), summary(summary) {
  checkKeys(document.getRoot(), {family.keys, getCommonKeys()},
            family.modelType);
}

json::Value Config::operator[](const std::string &key) const {
  const Key *entry = findKey(family.keys, key);
  assert(entry && "a key that is read is missing in the family's table");
  json::Value root = document.getRoot();
  json::Value value = root[key];
  return value.isPresent() || entry->alias.empty() ? value : root[entry->alias];
}

void Config::record(llvm::ArrayRef<std::string> paths, Fact fact) const {
  // A key may be read more than once.
  for (const llvm::json::Value &known : facts)
    if (*known.getAsObject()->getArray("keys") == llvm::json::Array(paths))
      return;
  llvm::json::Array values{std::move(fact.value)};
  for (std::string &spelling : fact.same)
    values.push_back(std::move(spelling));
  llvm::json::Object entry{{"keys", llvm::json::Array(paths)},
                           {"values", std::move(values)}};
  if (fact.fallback)
    entry["absent"] = std::move(*fact.fallback);
  if (fact.ofNull)
    entry["null"] = std::move(*fact.ofNull);
  facts.push_back(std::move(entry));
}

void Config::record(const std::string &key, Fact fact) const {
  const Key *entry = findKey(family.keys, key);
  if (entry->role != Key::Function)
    return;
  if (entry->alias.empty())
    record(llvm::ArrayRef<std::string>{key}, std::move(fact));
  else
    record({key, entry->alias}, std::move(fact));
}

int64_t Config::getSize(const std::string &key) const {
  int64_t size = (*this)[key].getInteger(1, kMaxSize);
  record(key, {size});
  return size;
}

int64_t Config::getSize(const std::string &key, int64_t fallback,
                        std::optional<int64_t> ofNull) const {
  json::Value value = (*this)[key];
  int64_t size = fallback;
  if (value.isPresent())
    size = value.getInteger(1, kMaxSize);
  else if (value.isNull() && ofNull)
    size = *ofNull;
  Fact fact = {size, fallback};
  if (ofNull)
    fact.ofNull = *ofNull;
  record(key, std::move(fact));
  return size;
}

bool Config::getBool(const std::string &key, bool fallback) const {
  bool value = (*this)[key].getBool(fallback);
  record(key, {value, fallback});
  return value;
}

int64_t Config::getLayers(const std::string &key) const {
  int64_t layers = (*this)[key].getInteger(1, kMaxLayers);
  record(key, {layers});
  return layers;
}

std::optional<int64_t>
Config::getPaddingIdx(int64_t vocabSize,
                      std::optional<int64_t> fallback) const {
  json::Value value = (*this)["pad_token_id"];
  if (!value.isPresent() && !value.isNull() && fallback &&
      *fallback >= vocabSize)
    document.error("has no pad_token_id: its default " +
                   std::to_string(*fallback) +
                   " is outside the vocabulary of " +
                   std::to_string(vocabSize) + " (write null for none)");
  if (!value.isPresent())
    return value.isNull() ? std::nullopt : fallback;
  // As torch.nn.Embedding counts, negative ids are from the end.
  int64_t id = value.getInteger(-vocabSize, vocabSize - 1);
  return id < 0 ? id + vocabSize : id;
}

/// An error, with the place where an id was found, if it is no token's.
static void checkTokenId(json::Document &document, const std::string &source,
                         int64_t id, int64_t vocabSize) {
  if (id < 0 || id >= vocabSize)
    document.error(source + " is " + std::to_string(id) +
                   ", outside the vocabulary of " + std::to_string(vocabSize));
}

SpecialTokens Config::getSpecialTokens(int64_t vocabSize) const {
  std::string error;
  // A file of another name, such as an example's, has no tokenizer beside it.
  SpecialTokens tokens;
  if (llvm::sys::path::filename(file) == "config.json")
    tokens = readSpecialTokens(llvm::sys::path::parent_path(file).str(), error);
  if (!error.empty())
    document.error("the tokenizer beside it cannot be read: " + error);
  json::Value root = document.getRoot();
  if (!tokens.mask) {
    tokens = {};
    if (json::Value mask = root["mask_token_id"]; mask.isPresent()) {
      tokens.mask = mask.getInteger(0, vocabSize - 1);
      tokens.source = "mask_token_id";
    }
    for (const char *key : {"pad_token_id", "unk_token_id", "cls_token_id",
                            "sep_token_id", "bos_token_id", "eos_token_id"})
      // What is no id of the vocabulary is in no data either.
      if (json::Value id = root[key]; id.isNumber() && id.getNumber() >= 0 &&
                                      id.getNumber() < double(vocabSize))
        tokens.add(id.getInteger());
  }
  if (options.maskTokenId) {
    tokens.mask = options.maskTokenId;
    tokens.source = "--mask-token-id";
  }
  if (!options.specialTokenIds.empty())
    tokens.all.clear();
  for (int64_t id : options.specialTokenIds) {
    checkTokenId(document, "--special-token-ids: one", id, vocabSize);
    tokens.add(id);
  }
  if (!tokens.mask) {
    document.error("the id of the mask token is missing from the tokenizer and "
                   "from mask_token_id: give --mask-token-id N");
    return tokens;
  }
  summary.maskSource = tokens.source;
  checkTokenId(document, "the mask token of " + tokens.source, *tokens.mask,
               vocabSize);
  tokens.add(*tokens.mask);
  for (int64_t id : tokens.all)
    checkTokenId(document, "a special token of the tokenizer", id, vocabSize);
  return tokens;
}

double Config::getDropout(const std::string &key, double fallback) const {
  json::Value value = (*this)[key];
  double p = value.getNumber(fallback);
  if (!(p >= 0 && p < 1))
    value.error("expected a probability from 0 to below 1, found " +
                value.describe());
  return options.dropout.value_or(p);
}

double Config::getPositive(const std::string &key, double fallback) const {
  json::Value value = (*this)[key];
  double number = value.getNumber(fallback);
  if (!(number > 0 && std::isfinite(number)))
    value.error("expected a number above 0, found " + value.describe());
  record(key, {number, fallback});
  return number;
}

double Config::getBalance() const {
  if (!(*this)["output_router_logits"].getBool(false))
    return 0;
  json::Value value = (*this)["router_aux_loss_coef"];
  double coefficient = value.getNumber(0.001);
  if (!(coefficient >= 0 && std::isfinite(coefficient)))
    value.error("expected a finite number of 0 or more, found " +
                value.describe());
  summary.balance = coefficient;
  return coefficient;
}

double Config::getEpsilon(const std::string &key, double fallback) const {
  double epsilon = getPositive(key, fallback);
  if (epsilon >= 1)
    (*this)[key].error("expected an epsilon below 1, found " +
                       (*this)[key].describe());
  return epsilon;
}

double Config::getPositiveOrNull(const std::string &key,
                                 double fallback) const {
  json::Value value = (*this)[key];
  if (value.isPresent() || (fallback && !value.isNull()))
    return getPositive(key, fallback);
  llvm::json::Value absent = nullptr;
  if (fallback)
    absent = fallback;
  record(key, {nullptr, std::move(absent), nullptr});
  return 0;
}

int64_t Config::getWindow(const std::string &key, int64_t fallback) const {
  json::Value value = (*this)[key];
  int64_t window = 0;
  if (!value.isNull())
    window = value.isPresent() ? value.getInteger(1, kMaxSize) : fallback;
  llvm::json::Value fact = nullptr;
  if (window)
    fact = window;
  llvm::json::Value absent = nullptr;
  if (fallback)
    absent = fallback;
  record(key, {std::move(fact), std::move(absent), nullptr});
  return window;
}

std::string Config::getActivation(const std::string &key,
                                  const std::string &fallback,
                                  bool geluIsTanh) const {
  json::Value value = (*this)[key];
  std::string name = value.getString(fallback);
  if (!failed() && !isActivation(name))
    value.error("unsupported activation '" + name +
                "' (known: " + getActivations().str() + ")");
  if (geluIsTanh && name == "gelu")
    name = "gelu_pytorch_tanh";
  std::vector<std::string> same = getSameActivations(name);
  if (geluIsTanh && name == "gelu_pytorch_tanh")
    same.push_back("gelu");
  record(key, {name, fallback, std::nullopt, std::move(same)});
  return name;
}

int64_t Config::divide(const std::string &totalKey, int64_t total,
                       const std::string &partsKey, int64_t parts) const {
  if (total % parts)
    (*this)[totalKey].error(std::to_string(total) + " is not divisible by " +
                            partsKey + " = " + std::to_string(parts));
  return total / parts;
}

void Config::checkSize(const std::string &what, double size) const {
  if (size > static_cast<double>(kMaxSize))
    document.error(what + " = " + formatWhole(size) + " is more than 2^31");
}

int64_t Config::getSeqLen(int64_t tableRows, bool learned) const {
  summary.positions = tableRows;
  if (!options.seqLen)
    return std::min<int64_t>(tableRows, 1024);
  int64_t seqLen = *options.seqLen;
  if (seqLen < 1 || seqLen > kMaxSize)
    document.error("the sequence length is " + std::to_string(seqLen) +
                   ", expected 1 to 2^31");
  else if (learned && seqLen > tableRows)
    document.error("the sequence length is " + std::to_string(seqLen) +
                   ", but the model has learned only " +
                   std::to_string(tableRows) + " positions");
  return seqLen;
}

/// A scalar of a table of keys, or an empty array or object.
static llvm::json::Value makeValue(const std::string &text) {
  auto document = json::Document::parse(text, "a table of keys");
  json::Value value = document->getRoot();
  if (value.isString())
    return value.getString();
  if (value.isNumber())
    return value.getNumber();
  if (value.isObject())
    return llvm::json::Object();
  if (value.isArray())
    return llvm::json::Array();
  if (value.isNull())
    return nullptr;
  return value.getBool();
}

/// Adds a fact for each Fixed key: a configuration without it has a neutral
/// value, too.
static void addFixed(llvm::ArrayRef<Key> table, const std::string &prefix,
                     llvm::json::Array &facts,
                     llvm::ArrayRef<Key> overriding = {}) {
  for (const Key &key : table) {
    addFixed(key.members, prefix + key.name + ".", facts);
    if (key.role != Key::Fixed || findKey(overriding, key.name))
      continue;
    llvm::json::Array values;
    for (const std::string &text : key.allowed)
      values.push_back(makeValue(text));
    llvm::json::Value first = values[0];
    facts.push_back(
        llvm::json::Object{{"keys", llvm::json::Array{prefix + key.name}},
                           {"values", std::move(values)},
                           {"absent", std::move(first)},
                           {"null", nullptr}});
  }
}

/// What decides whether another config.json describes the same function.
std::string Config::formatFacts() const {
  llvm::ArrayRef<Key> tables[] = {family.keys, getCommonKeys()};
  llvm::json::Array all = facts;
  addFixed(family.keys, "", all);
  addFixed(getCommonKeys(), "", all, family.keys);
  llvm::json::Array known(listKeys(tables));
  for (const std::string &key : options.ignoredKeys)
    known.push_back(key);
  llvm::json::Object text{{"architecture", family.architecture},
                          {"model_type", family.modelType},
                          {"facts", std::move(all)},
                          {"known", std::move(known)}};
  if (!summary.multimodal.empty())
    text["multimodal"] = summary.multimodal;
  return llvm::formatv("{0}", llvm::json::Value(std::move(text))).str();
}

OwningOpRef<ModuleOp> Config::finish(ModelBuilder &builder, Value loss,
                                     const Summary &summary) const {
  if (builder.getNumElements() > kMaxElements) {
    document.error("the model has " + formatWhole(builder.getNumElements()) +
                   " parameters, expected at most 1e13");
    return {};
  }
  if (summary.objective != "masked" &&
      (options.maskTokenId || !options.specialTokenIds.empty())) {
    document.error("the ids of mask and special tokens are for masked models; "
                   "a " +
                   family.modelType + " model predicts the next token");
    return {};
  }
  if (summary.objective == "masked" && options.packing) {
    document.error("--packing: a " + family.modelType +
                   " model attends to tokens on both sides, and only models "
                   "that predict the next token can be packed; import it "
                   "without");
    return {};
  }
  nn::Model model(DictionaryAttr::get(&context));
  model.setArchitecture(summary.architecture);
  model.setObjective(summary.objective);
  model.setVocabSize(summary.vocabSize);
  model.setSeqLen(summary.seqLen);
  model.setHiddenSize(summary.hiddenSize);
  model.setNumLayers(summary.layers);
  model.setNumParameters(static_cast<int64_t>(builder.getNumElements()));
  // What is written is not quantised.
  if (document.getRoot()["quantization_config"].isObject())
    document.remove("quantization_config");
  model.setConfig(document.getText());
  model.setConfigFacts(formatFacts());
  if (options.dropout)
    model.setDropout(*options.dropout);
  if (options.noiseAlpha > 0)
    model.setNoiseAlpha(options.noiseAlpha);
  if (options.packing)
    model.setPacking(true);
  if (summary.unsafePrecision)
    model.setUnsafePrecision(toString(*summary.unsafePrecision));
  if (summary.tokens.mask) {
    model.setMaskToken(*summary.tokens.mask);
    model.setSpecialTokens(summary.tokens.all);
  }
  return builder.finish(loss, model);
}
