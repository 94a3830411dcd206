//===- TextConfig.cpp - The model of text in a larger model ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextConfig.h"
#include "Keys.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace poplar;
using namespace poplar::import;

namespace {
/// An architecture that has a model of text under `language_model`.
struct Multimodal {
  const char *architecture, *modelType;
  /// Values of text_config.model_type; the first where it is absent.
  std::vector<std::string> textTypes;
};
} // namespace

static const std::vector<Multimodal> &getMultimodals() {
  static const std::vector<Multimodal> table = {
      {"Gemma3ForConditionalGeneration", "gemma3", {"gemma3_text"}},
      {"LlavaForConditionalGeneration", "llava", {"llama", "mistral", "qwen2"}},
      {"Mistral3ForConditionalGeneration",
       "mistral3",
       {"mistral", "ministral3", "mistral4"}},
      {"Qwen3_5ForConditionalGeneration", "qwen3_5", {"qwen3_5_text"}},
      {"Qwen3_5MoeForConditionalGeneration",
       "qwen3_5_moe",
       {"qwen3_5_moe_text"}}};
  return table;
}

/// Keys beside text_config. They are about pictures.
static llvm::ArrayRef<Key> getOuterKeys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> table = {function("text_config"),
                              function("tie_word_embeddings")};
    for (const char *name :
         {"vision_config", "image_token_index", "image_token_id",
          "boi_token_index", "eoi_token_index", "mm_tokens_per_image",
          "image_seq_length", "projector_hidden_act",
          "multimodal_projector_bias", "spatial_merge_size",
          "vision_feature_layer", "vision_feature_select_strategy",
          "video_token_id", "vision_start_token_id", "vision_end_token_id",
          "language_model_only", "initializer_range", "pad_token_id",
          "vocab_size"})
      table.push_back(harmless(name));
    return table;
  }();
  return keys;
}

static std::string quote(llvm::StringRef text) {
  return llvm::formatv("{0}", llvm::json::Value(text)).str();
}

/// text_config with what stands beside it and is about text, too.
static std::string composeText(json::Value root, const std::string &modelType,
                               const std::string &architecture) {
  json::Value inner = root["text_config"];
  std::string text = "{" + quote("architectures") + ": [" +
                     quote(architecture) + "], " + quote("model_type") + ": " +
                     quote(modelType);
  auto add = [&](const std::string &name, json::Value value) {
    text += ", " + quote(name) + ": " + value.dump();
  };
  for (const std::string &name : inner.keys())
    if (name != "architectures" && name != "model_type")
      add(name, inner[name]);
  for (const char *name :
       {"bos_token_id", "eos_token_id", "dtype", "torch_dtype",
        "transformers_version", "quantization_config", "tie_word_embeddings"})
    if (root[name].isPresent() && !inner[name].isPresent())
      add(name, root[name]);
  return text + "}";
}

std::unique_ptr<json::Document> import::extractTextConfig(
    json::Document &document, const std::string &name,
    std::string (*findArchitecture)(const std::string &)) {
  json::Value root = document.getRoot();
  if (!root.isObject() || !root["architectures"].isArray() ||
      root["architectures"].size() == 0)
    return nullptr;
  std::string architecture = root["architectures"][0].getString();
  const auto found = llvm::find_if(getMultimodals(), [&](const auto &known) {
    return known.architecture == architecture;
  });
  if (found == getMultimodals().end())
    return nullptr;
  if (std::string type = root["model_type"].getString(found->modelType);
      type != found->modelType)
    root["model_type"].error("'" + type + "' does not match " + architecture +
                             " in architectures");
  checkKeys(root, {getOuterKeys(), getCommonKeys()}, architecture);
  json::Value inner = root["text_config"];
  if (!document.hasError() && !inner.isObject())
    inner.error("expected the configuration of a model of text, found " +
                inner.describe());
  if (document.hasError())
    return nullptr;
  std::string type = inner["model_type"].getString(found->textTypes.front());
  std::string known = findArchitecture(type);
  if (known.empty() || !llvm::is_contained(found->textTypes, type))
    inner["model_type"].error(
        "unsupported model of text '" + type + "' in a " + architecture +
        " (known: " + llvm::join(found->textTypes, ", ") + ")");
  json::Value outerTie = root["tie_word_embeddings"],
              innerTie = inner["tie_word_embeddings"];
  if (outerTie.isPresent() && innerTie.isPresent() &&
      outerTie.getBool() != innerTie.getBool())
    innerTie.error("is " + innerTie.dump() +
                   ", but tie_word_embeddings beside text_config is " +
                   outerTie.dump() +
                   ": make them agree with the weights (false where they have "
                   "a head of their own)");
  if (document.hasError())
    return nullptr;
  return json::Document::parse(composeText(root, type, known),
                               name + ": text_config");
}

std::string import::listMultimodalArchitectures() {
  std::string list;
  for (const Multimodal &each : getMultimodals())
    list += (list.empty() ? "" : ", ") + std::string(each.architecture);
  return list;
}
