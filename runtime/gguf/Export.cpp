//===- Export.cpp - poplar export -----------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/Export.h"
#include "checkpoint/Adapter.h"
#include "checkpoint/Checkpoint.h"
#include "checkpoint/TextNames.h"
#include "data/ChatTemplate.h"
#include "data/ShippedTemplate.h"
#include "data/Text.h"
#include "gguf/GGUFModel.h"
#include "gguf/GGUFTokenizer.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/MappedFile.h"
#include "support/RunDirectory.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

using namespace poplar::runtime;
namespace fs = std::filesystem;

namespace {

/// The weights of a model as it is after training, from the files that have
/// them.
class TrainedModel {
public:
  TrainedModel(const PoplarProgram &Program, const Options &O);
  const std::vector<TensorSource> &tensors() const {
    return Merged ? Merged->tensors() : Tensors;
  }

private:
  std::optional<MergedModel> Merged;
  TensorFiles Files;
  std::vector<TensorSource> Tensors;
  std::vector<float> Buffer;
};

} // namespace

TrainedModel::TrainedModel(const PoplarProgram &Program, const Options &O) {
  std::string Directory = resolveCheckpoint(O.Checkpoint);
  if (!hasFrozen(Program)) {
    Files = TensorFiles::open(Directory);
    for (const auto &[Name, View] : Files.tensors()) {
      if (!View.isWeight())
        continue;
      getFormat(View, Name); // refuses what cannot be read
      Tensors.push_back({Name, View.Shape, [this, &View](int64_t B, int64_t E) {
                           Buffer.resize(static_cast<size_t>(E - B));
                           View.copyTo(Buffer.data(), B, E);
                           return static_cast<const float *>(Buffer.data());
                         }});
    }
    return;
  }
  std::string Base =
      findBase(Directory, O.Init.empty() ? "" : resolveCheckpoint(O.Init));
  if (Base.empty())
    fail("'", Directory,
         "' does not say which model it began with; name it with --init");
  Merged.emplace(Program, Base, Directory);
}

/// What a run's conversations were written with.
static std::string findTemplate(const Options &O, const Tokenizer &Tok,
                                const ShippedTemplate &Shipped) {
  std::error_code Code;
  if (!O.ChatTemplate.empty() && fs::exists(O.ChatTemplate, Code))
    return std::string(MappedFile(O.ChatTemplate).text());
  if (!O.ChatTemplate.empty()) {
    if (std::optional<ChatTemplate> Named = ChatTemplate::find(O.ChatTemplate))
      return Named->Source;
    fail("--chat-template: '", O.ChatTemplate,
         "' is neither a file nor one of ", ChatTemplate::listOptions());
  }
  if (!Shipped.Source.empty())
    return Shipped.Source;
  std::optional<ChatTemplate> Known = ChatTemplate::find(Tok);
  return Known ? Known->Source : "";
}

static int64_t getId(const ModelInfo &Model, const char *Key) {
  json::Value Config = json::parse(Model.config, "config.json of the model");
  return Config.integer(Key, -1);
}

/// The tensors of a larger model's model of text, under their names there.
static std::vector<TensorSource> takeText(const ModelInfo &Model,
                                          std::vector<TensorSource> Tensors) {
  bool IsLarger =
      !Model.Multimodal.empty() &&
      std::any_of(Tensors.begin(), Tensors.end(), [](const TensorSource &Each) {
        return getTextName(Each.Name) != Each.Name;
      });
  if (!IsLarger)
    return Tensors;
  std::vector<TensorSource> Taken;
  for (TensorSource &Tensor : Tensors)
    if (isOfText(Tensor.Name)) {
      Tensor.Name = getTextName(Tensor.Name);
      Taken.push_back(std::move(Tensor));
    }
  return Taken;
}

void poplar::runtime::exportModel(const PoplarProgram &Program,
                                  const Options &O) {
  GGUFFormat Format;
  if (!parseGGUFFormat(O.Format, Format))
    fail("--format expects ", listGGUFFormats(), ", not '", O.Format, "'");
  ModelInfo Model(Program);
  if (!*Model.config)
    fail("the model was not imported from a config.json, so that llama.cpp "
         "cannot know its kind");
  TextEncoding Encoding(O, Model);
  if (!Encoding.get())
    fail("the model has no tokenizer, without which llama.cpp takes no text; "
         "name it by --tokenizer");
  TrainedModel Trained(Program, O);
  GGUFFile File;
  std::vector<TensorSource> Text = takeText(Model, Trained.tensors());
  std::vector<std::string> Notes = describeGGUFModel(Model, Text, Format, File);
  File.setText("general.name", fs::path(O.Out).stem().string());
  ShippedTemplate Shipped = ShippedTemplate::read(Encoding.path());
  std::string Template = findTemplate(O, *Encoding.get(), Shipped);
  GGUFTokenizer{*Encoding.get(),
                Encoding.path(),
                Shipped,
                Model.vocab_size,
                findEnds(Model),
                getId(Model, "bos_token_id"),
                getId(Model, "pad_token_id"),
                Template}
      .describe(File);
  File.write(O.Out);
  for (const std::string &Note : Notes)
    std::printf("note: %s\n", Note.c_str());
  std::printf("wrote '%s': %zu tensors in %s, %s, %s\n", O.Out.c_str(),
              File.tensors().size(), O.Format.c_str(),
              Encoding.get()->describe().c_str(),
              Template.empty() ? "no chat template" : "with a chat template");
}
