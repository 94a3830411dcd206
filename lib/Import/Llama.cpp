//===- Llama.cpp - Llama, Mistral, Qwen2, Qwen3, OLMo2, Granite, SmolLM3 --===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

//===----------------------------------------------------------------------===//
// Llama
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildLlama(const Config &config) {
  Decoder family;
  family.architecture = "llama";
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.mlpBias = config.getBool("mlp_bias", false);
  return buildDecoder(config, family);
}

Family import::getLlamaFamily() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("attention_bias"), function("mlp_bias"),
       fixed("sliding_window", {"null", "false"}),
       fixed("rope_interleaved", {"false"}), harmless("is_llama_config"),
       harmless("max_sequence_length")});
  return {"llama", "LlamaForCausalLM", keys, buildLlama};
}

//===----------------------------------------------------------------------===//
// Mistral
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildMistral(const Config &config) {
  Decoder family;
  family.architecture = "mistral";
  family.maxPositions = 4096 * 32;
  family.kvHeads = 8;
  int64_t window = config.getWindow("sliding_window", 4096);
  family.getKind = [=](int64_t) { return LayerKind{window}; };
  return buildDecoder(config, family);
}

Family import::getMistralFamily() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("sliding_window").orNull(), fixed("attention_bias", {"false"}),
       fixed("mlp_bias", {"false"})});
  return {"mistral", "MistralForCausalLM", keys, buildMistral};
}

//===----------------------------------------------------------------------===//
// Qwen2 and Qwen3
//===----------------------------------------------------------------------===//

/// Sets the windows: of the layers that `layer_types` names, otherwise of those
/// from max_window_layers on.
static void setQwenWindows(const Config &config, Decoder &family) {
  bool used = config.getBool("use_sliding_window", false);
  int64_t window = 0;
  if (used && !config["sliding_window"].isNull())
    window = config.getSize("sliding_window", 4096);
  else if (used)
    config["sliding_window"].error("expected a number, as use_sliding_window "
                                   "is true, found null");
  int64_t layers = config.getLayers("num_hidden_layers");
  int64_t first = 28;
  if (config["max_window_layers"].isPresent())
    first = config["max_window_layers"].getInteger(0);
  if (config.failed())
    return;
  std::vector<bool> late;
  for (int64_t layer = 0; layer < layers; ++layer)
    late.push_back(used && layer >= first);
  std::vector<bool> windowed = getWindowedLayers(config, layers, used, late);
  if (used)
    config.record("max_window_layers", {first, 28});
  if (config.failed())
    return;
  family.getKind = [=](int64_t layer) {
    return LayerKind{windowed[layer] ? window : 0};
  };
}

static std::vector<Key> makeQwenKeys(std::vector<Key> table) {
  table.push_back(function("use_sliding_window"));
  table.push_back(function("sliding_window").orNull());
  table.push_back(function("max_window_layers"));
  table.push_back(function("layer_types").orNull());
  return makeDecoderKeys(std::move(table));
}

static OwningOpRef<ModuleOp> buildQwen2(const Config &config) {
  Decoder family;
  family.architecture = "qwen2";
  family.maxPositions = 32768;
  family.kvHeads = 32;
  family.qkvBias = true;
  setQwenWindows(config, family);
  return buildDecoder(config, family);
}

Family import::getQwen2Family() {
  static const std::vector<Key> keys = makeQwenKeys({});
  return {"qwen2", "Qwen2ForCausalLM", keys, buildQwen2};
}

static OwningOpRef<ModuleOp> buildQwen3(const Config &config) {
  Decoder family;
  family.architecture = "qwen3";
  family.maxPositions = 32768;
  family.kvHeads = 32;
  family.headDim = 128;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  setQwenWindows(config, family);
  return buildDecoder(config, family);
}

Family import::getQwen3Family() {
  static const std::vector<Key> keys =
      makeQwenKeys({function("attention_bias"), function("head_dim")});
  return {"qwen3", "Qwen3ForCausalLM", keys, buildQwen3};
}

//===----------------------------------------------------------------------===//
// OLMo2
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildOlmo2(const Config &config) {
  Decoder family;
  family.architecture = "olmo2";
  family.eps = 1e-5;
  family.paddingIdx = 1;
  family.preNorm = false;
  family.postNorm = true;
  family.qkNorm = Decoder::QKNorm::Whole;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  return buildDecoder(config, family);
}

Family import::getOlmo2Family() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("attention_bias")});
  return {"olmo2", "Olmo2ForCausalLM", keys, buildOlmo2};
}

//===----------------------------------------------------------------------===//
// Granite
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildGranite(const Config &config) {
  Decoder family;
  family.architecture = "granite";
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.mlpBias = config.getBool("mlp_bias", false);
  family.embeddingScale = config.getPositive("embedding_multiplier", 1);
  family.residualScale = config.getPositive("residual_multiplier", 1);
  family.attentionScale = config.getPositive("attention_multiplier", 1);
  family.logitsScale = 1 / config.getPositive("logits_scaling", 1);
  return buildDecoder(config, family);
}

Family import::getGraniteFamily() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("attention_bias"), function("mlp_bias"),
       function("embedding_multiplier"), function("residual_multiplier"),
       function("attention_multiplier"), function("logits_scaling")});
  return {"granite", "GraniteForCausalLM", keys, buildGranite};
}

//===----------------------------------------------------------------------===//
// SmolLM3
//===----------------------------------------------------------------------===//

/// Whether each layer rotates q and k: as `no_rope_layers` says (where 1 means
/// that it does), otherwise all but every no_rope_layer_interval-th.
static std::vector<bool> getRotatingLayers(const Config &config,
                                           int64_t layers) {
  int64_t interval = 4;
  if (config["no_rope_layer_interval"].isPresent())
    interval = config["no_rope_layer_interval"].getInteger(1);
  json::Value given = config["no_rope_layers"];
  if (given.isPresent() && given.size() != static_cast<size_t>(layers))
    given.error("expected an array of num_hidden_layers = " +
                std::to_string(layers) + " numbers");
  std::vector<bool> rotating;
  llvm::json::Array numbers, fallback;
  for (int64_t layer = 0; layer < layers && !config.failed(); ++layer) {
    int64_t isRotating = (layer + 1) % interval != 0;
    fallback.push_back(isRotating);
    if (given.isPresent())
      isRotating = given[layer].getInteger(0, 1);
    numbers.push_back(isRotating);
    rotating.push_back(isRotating);
  }
  config.record("no_rope_layers", {std::move(numbers), std::move(fallback)});
  if (!given.isPresent())
    config.record("no_rope_layer_interval", {interval, 4});
  return rotating;
}

static OwningOpRef<ModuleOp> buildSmolLM3(const Config &config) {
  Decoder family;
  family.architecture = "smollm3";
  family.maxPositions = 32768;
  family.kvHeads = 4;
  family.tied = true;
  family.paddingIdx = 128004;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.mlpBias = config.getBool("mlp_bias", false);
  family.getRopes = [&](RopeShape shape) {
    shape.theta = 2000000.0;
    return std::vector<Rope>{getRope(config, shape)};
  };
  int64_t layers = config.getLayers("num_hidden_layers");
  if (config.failed())
    return {};
  std::vector<bool> rotating = getRotatingLayers(config, layers);
  getWindowedLayers(config, layers, /*hasWindow=*/false,
                    std::vector<bool>(layers));
  if (config.failed())
    return {};
  family.getKind = [=](int64_t layer) {
    return LayerKind{0, rotating[layer] ? 0 : -1};
  };
  return buildDecoder(config, family);
}

Family import::getSmolLM3Family() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("attention_bias"), function("mlp_bias"),
       function("no_rope_layers").orNull(), function("no_rope_layer_interval"),
       function("layer_types").orNull(), fixed("use_sliding_window", {"false"}),
       // Without use_sliding_window, it says nothing.
       harmless("sliding_window"), harmless("max_window_layers")});
  return {"smollm3", "SmolLM3ForCausalLM", keys, buildSmolLM3};
}
