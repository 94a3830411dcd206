//===- TokenParameters.cpp - Parameters with a row for a token ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model is imported with another vocabulary, or with a head of its own; the
// parameters that differ are those that are looked for. So no table has to name
// them for each family.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Import/TokenParameters.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Support/JSON.h"
#include "Poplar/Support/JSONEdit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace poplar;
using json::Edit;

/// The part of a configuration that is about the model of text, as a pointer.
static std::string findTextPart(const std::string &text) {
  auto document = json::Document::parse(text, "config.json");
  json::Value root = document->getRoot();
  return root.isObject() && root["text_config"].isObject() ? "/text_config"
                                                           : "";
}

static TokenTensor describe(nn::ParameterOp parameter) {
  bool isNormal = parameter.getInit() == nn::InitKind::Normal;
  return {parameter.getSymName().str(),
          isNormal ? parameter.getStdDev().convertToDouble() : 0};
}

std::optional<TokenParameters> poplar::findTokenParameters(llvm::StringRef path,
                                                           MLIRContext &context,
                                                           std::string &error) {
  SmallString<128> file(path);
  if (llvm::sys::fs::is_directory(file))
    llvm::sys::path::append(file, "config.json");
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer) {
    error = (file + ": " + buffer.getError().message()).str();
    return {};
  }
  std::string text = (*buffer)->getBuffer().str(), name = file.str().str(),
              part = findTextPart(text);
  const ImportOptions options;
  auto import = [&](const std::vector<Edit> &edits) {
    std::string edited =
        edits.empty() ? text : json::edit(text, name, edits, error);
    return edited.empty()
               ? OwningOpRef<ModuleOp>()
               : importModelText(edited, name, options, context, error);
  };
  OwningOpRef<ModuleOp> model = import({});
  if (!model)
    return {};
  auto parameters = llvm::to_vector(model->getOps<nn::ParameterOp>());
  int64_t rows = *nn::Model::of(*model).getVocabSize();
  OwningOpRef<ModuleOp> wider =
      import({{Edit::Set, part + "/vocab_size", std::to_string(rows + 1)}});
  if (!wider)
    return {};
  TokenParameters found;
  for (auto [one, other] :
       llvm::zip_equal(parameters, wider->getOps<nn::ParameterOp>()))
    if (one.getType() != other.getType())
      found.own.push_back(describe(one));
  std::vector<Edit> untie = {{Edit::Set, "/tie_word_embeddings", "false"}};
  if (!part.empty())
    untie.push_back({Edit::Set, part + "/tie_word_embeddings", "false"});
  // A family that can only be tied has no other head.
  std::string ignored;
  std::swap(error, ignored);
  if (OwningOpRef<ModuleOp> untied = import(untie)) {
    SymbolTable symbols(*model);
    for (auto parameter : untied->getOps<nn::ParameterOp>())
      if (!symbols.lookup(parameter.getSymName()))
        found.untiedHead = describe(parameter);
  }
  std::swap(error, ignored);
  return found;
}
