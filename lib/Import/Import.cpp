//===- Import.cpp - From config.json to the nn dialect --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/Import.h"
#include "Config.h"
#include "Poplar/Support/JSONEdit.h"
#include "TextConfig.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

const std::vector<Family> &import::getFamilies() {
  static const std::vector<Family> families = [] {
    std::vector<Family> all;
    for (auto *getFamilies :
         {getBertFamilies, getCohereFamilies, getDeepSeekFamilies,
          getGemmaFamilies, getGLMFamilies, getGPT2Families, getGPTNeoXFamilies,
          getGptOssFamilies, getLlamaFamilies, getMixtralFamilies,
          getOlmoFamilies, getPhiFamilies, getQwenFamilies,
          getQwenLinearFamilies, getQwenMixtureFamilies,
          getRoutedMixtureFamilies})
      llvm::append_range(all, getFamilies());
    llvm::sort(all, [](const Family &a, const Family &b) {
      return a.modelType < b.modelType;
    });
    return all;
  }();
  return families;
}

/// The family with `name` as its architecture or its model_type. Null if there
/// is none.
static const Family *findFamily(const std::string &name,
                                std::string Family::*member) {
  for (const Family &family : getFamilies())
    if (family.*member == name)
      return &family;
  return nullptr;
}

static std::string listFamilies(std::string Family::*member) {
  std::string known;
  for (const Family &family : getFamilies())
    known += (known.empty() ? "" : ", ") + family.*member;
  return " (known: " + known + ")";
}

/// Why no family has the first architecture of the document, and the remedy if
/// there is one.
static std::string explainArchitecture(json::Value root) {
  std::string what =
      "unsupported architecture '" + root["architectures"][0].getString() + "'";
  json::Value type = root["model_type"];
  const Family *family = type.isString()
                             ? findFamily(type.getString(), &Family::modelType)
                             : nullptr;
  if (family)
    return what + " of a " + family->modelType +
           " model (known: " + family->architecture + "); " +
           family->architecture +
           ".from_pretrained(OLD).save_pretrained(NEW) of transformers writes "
           "the known one, with a random head where OLD has none";
  if (root["text_config"].isObject())
    what += ", which is more than the model of text in text_config (of these, "
            "the model of text can be imported: " +
            listMultimodalArchitectures() + ")";
  else if (root["is_encoder_decoder"].getBool(false))
    what += ", which is an encoder and a decoder";
  return what + listFamilies(&Family::architecture);
}

/// By the architecture; without one, by model_type. Where both are given, they
/// agree.
static const Family *findFamily(json::Document &document) {
  json::Value root = document.getRoot();
  if (!root.isObject()) {
    root.error("expected an object, found " + root.describe());
    return nullptr;
  }
  json::Value names = root["architectures"], type = root["model_type"];
  bool named = names.isPresent() && !(names.isArray() && names.size() == 0);
  if (!named && !type.isPresent()) {
    document.error("has neither architectures nor model_type");
    return nullptr;
  }
  std::string name = named ? names[0].getString() : type.getString();
  const Family *family =
      findFamily(name, named ? &Family::architecture : &Family::modelType);
  if (!family && !document.hasError()) {
    if (named)
      names[0].error(explainArchitecture(root));
    else
      type.error("unsupported model_type '" + name + "'" +
                 listFamilies(&Family::modelType));
  }
  if (family && type.isPresent() && type.getString() != family->modelType)
    type.error("'" + type.getString() + "' does not match " +
               family->architecture + " in architectures");
  return document.hasError() ? nullptr : family;
}

/// Takes the keys away that the user wants ignored.
static void removeIgnored(json::Document &document, const Family &family,
                          const ImportOptions &options) {
  ArrayRef<Key> tables[] = {family.keys, getCommonKeys()};
  for (const std::string &path : options.ignoredKeys) {
    StringRef name = StringRef(path).split('.').first;
    for (ArrayRef<Key> table : tables)
      if (const Key *key = findKey(table, name.str()))
        if (name == path &&
            (key->role == Key::Function || key->role == Key::Training))
          document.error("--ignore-key " + path +
                         ": the importer reads this key");
    if (!document.hasError() && !document.remove(path))
      document.error("--ignore-key " + path + ": there is no such key");
  }
}

static std::string findArchitecture(const std::string &modelType) {
  const Family *family = findFamily(modelType, &Family::modelType);
  return family ? family->architecture : "";
}

/// The configuration with the keys that turn the loss which balances experts on
/// or off. Null where it stays as it is, which may be an error.
static std::unique_ptr<json::Document> setBalance(json::Document &document,
                                                  StringRef file,
                                                  const Family &family,
                                                  double coefficient) {
  if (!(coefficient >= 0 && std::isfinite(coefficient)))
    document.error("--router-aux-loss-coef is no finite number of 0 or more");
  bool hasExperts = findKey(family.keys, "router_aux_loss_coef");
  if (coefficient > 0 && !hasExperts)
    document.error("--router-aux-loss-coef: a " + family.modelType +
                   " model has no experts to balance; import it without");
  if (document.hasError() || !hasExperts)
    return {};
  std::string error, number;
  llvm::raw_string_ostream(number) << llvm::json::Value(coefficient);
  std::vector<json::Edit> edits = {{json::Edit::Set, "/output_router_logits",
                                    coefficient > 0 ? "true" : "false"}};
  if (coefficient > 0)
    edits.push_back({json::Edit::Set, "/router_aux_loss_coef", number});
  return json::Document::parse(
      json::edit(document.getText(), file.str(), edits, error), file.str());
}

static OwningOpRef<ModuleOp>
buildModel(json::Document &whole, StringRef file, const ImportOptions &options,
           MLIRContext &context, std::string &error, ImportSummary *summary) {
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<json::Document> text;
  if (!whole.hasError())
    text = extractTextConfig(whole, file.str(), findArchitecture);
  ImportSummary ignored;
  ImportSummary &found = summary ? *summary : ignored;
  if (text)
    found.multimodal = whole.getRoot()["architectures"][0].getString();
  json::Document *read = text ? text.get() : &whole;
  if (options.balance && !read->hasError())
    if (const Family *family = findFamily(*read))
      if (auto balanced = setBalance(*read, file, *family, *options.balance)) {
        text = std::move(balanced);
        read = text.get();
      }
  json::Document &document = *read;
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1))
    document.error("the dropout is outside [0, 1)");
  if (!(options.noiseAlpha >= 0) || std::isinf(options.noiseAlpha))
    document.error("the alpha of NEFTune is no finite number of 0 or more");
  const Family *family = document.hasError() ? nullptr : findFamily(document);
  if (family)
    removeIgnored(document, *family, options);
  if (!document.hasError()) {
    Config config(document, *family, options, context, file, found);
    if (!config.failed())
      module = family->build(config);
  }
  if (document.hasError()) {
    error = document.getError();
    return {};
  }
  if (failed(verify(*module))) {
    error = (file + ": the imported module is invalid").str();
    return {};
  }
  return module;
}

OwningOpRef<ModuleOp> poplar::importModel(StringRef path,
                                          const ImportOptions &options,
                                          MLIRContext &context,
                                          std::string &error,
                                          ImportSummary *summary) {
  SmallString<128> file(path);
  if (llvm::sys::fs::is_directory(file))
    llvm::sys::path::append(file, "config.json");
  auto document = json::Document::open(file.str().str(), file.str().str());
  return buildModel(*document, file, options, context, error, summary);
}

OwningOpRef<ModuleOp> poplar::importModelText(StringRef text, StringRef name,
                                              const ImportOptions &options,
                                              MLIRContext &context,
                                              std::string &error) {
  auto document = json::Document::parse(text.str(), name.str());
  return buildModel(*document, name, options, context, error, nullptr);
}
