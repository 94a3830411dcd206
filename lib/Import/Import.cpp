//===- Import.cpp - From config.json to the nn dialect --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/Import.h"
#include "Config.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

const std::map<std::string, Importer> &import::getImporters() {
  static const std::map<std::string, Importer> importers = {
      {"BertForMaskedLM", importBert},
      {"GPT2LMHeadModel", importGPT2},
      {"LlamaForCausalLM", importLlama},
      {"MistralForCausalLM", importMistral},
      {"Qwen2ForCausalLM", importQwen2}};
  return importers;
}

/// Null, with an error in the document, if the architecture is unknown.
static Importer findImporter(json::Document &document) {
  json::Value root = document.getRoot();
  if (!root.isObject()) {
    root.error("expected an object, found " + root.describe());
    return nullptr;
  }
  json::Value name = root["architectures"][0];
  std::string architecture = name.getString();
  auto importer = getImporters().find(architecture);
  if (importer != getImporters().end())
    return importer->second;
  std::string known;
  for (const auto &entry : getImporters())
    known += (known.empty() ? "" : ", ") + entry.first;
  name.error("unsupported architecture '" + architecture +
             "' (known: " + known + ")");
  return nullptr;
}

OwningOpRef<ModuleOp> poplar::importModel(StringRef path,
                                          const ImportOptions &options,
                                          MLIRContext &context,
                                          std::string &error) {
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  SmallString<128> file(path);
  if (llvm::sys::fs::is_directory(file))
    llvm::sys::path::append(file, "config.json");

  std::unique_ptr<json::Document> document =
      json::Document::open(file.str().str(), file.str().str());
  OwningOpRef<ModuleOp> module;
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1))
    document->error("a dropout outside [0, 1) was asked for");
  if (!document->hasError())
    if (Importer importer = findImporter(*document))
      module = importer(Config(*document, options, context, file));
  if (document->hasError()) {
    error = document->getError();
    return {};
  }
  if (failed(verify(*module))) {
    error = file.str().str() + ": the imported module is invalid";
    return {};
  }
  return module;
}
