//===- Llama.cpp - Llama and the families that are closest to it ----------===//
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

static Family getLlama() {
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
  family.setWindow(config.getWindow("sliding_window", 4096));
  return buildDecoder(config, family);
}

static Family getMistral() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("sliding_window").orNull(), fixed("attention_bias", {"false"}),
       fixed("mlp_bias", {"false"})});
  return {"mistral", "MistralForCausalLM", keys, buildMistral};
}

//===----------------------------------------------------------------------===//
// Ministral 3
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildMinistral3(const Config &config) {
  Decoder family;
  family.architecture = "ministral3";
  family.maxPositions = 262144;
  family.eps = 1e-5;
  family.kvHeads = 8;
  family.headDim = 128;
  family.paddingIdx = 11;
  family.setWindow(config.getWindow("sliding_window", 0));
  family.ropes[0].scalesFarQueries = true;
  return buildDecoder(config, family);
}

static Family getMinistral3() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("sliding_window").orNull(), function("head_dim"),
       fixed("attention_bias", {"false"}), fixed("mlp_bias", {"false"})},
      getFarQueryRopeKeys());
  return {"ministral3", "Ministral3ForCausalLM", keys, buildMinistral3};
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

static Family getGranite() {
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
  family.ropes[0].theta = 2000000.0;
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

static Family getSmolLM3() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("attention_bias"), function("mlp_bias"),
       function("no_rope_layers").orNull(), function("no_rope_layer_interval"),
       function("layer_types").orNull(), fixed("use_sliding_window", {"false"}),
       // Without use_sliding_window, it says nothing.
       harmless("sliding_window"), harmless("max_window_layers")});
  return {"smollm3", "SmolLM3ForCausalLM", keys, buildSmolLM3};
}

//===----------------------------------------------------------------------===//
// Seed-OSS
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildSeedOss(const Config &config) {
  Decoder family;
  family.architecture = "seed_oss";
  family.maxPositions = 524288;
  family.kvHeads = 8;
  family.headDim = 128;
  family.attentionDropout = 0.1;
  family.paddingIdx = 1;
  family.qkvBias = config.getBool("attention_bias", true);
  family.outputBias = config.getBool("attention_out_bias", false);
  family.mlpBias = config.getBool("mlp_bias", false);
  family.attentionOutputDropout = family.mlpOutputDropout =
      config.getDropout("residual_dropout", 0.1);
  return buildDecoder(config, family);
}

static Family getSeedOss() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("attention_bias"),
                       function("attention_out_bias"), function("mlp_bias"),
                       training("residual_dropout"), function("head_dim")});
  return {"seed_oss", "SeedOssForCausalLM", keys, buildSeedOss};
}

//===----------------------------------------------------------------------===//
// Arcee
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildArcee(const Config &config) {
  Decoder family;
  family.architecture = "arcee";
  family.maxPositions = 4096;
  family.eps = 1e-5;
  family.activation = "relu2";
  family.isGated = false;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.mlpBias = config.getBool("mlp_bias", false);
  return buildDecoder(config, family);
}

static Family getArcee() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("attention_bias"), function("mlp_bias")});
  return {"arcee", "ArceeForCausalLM", keys, buildArcee};
}

//===----------------------------------------------------------------------===//
// Hunyuan
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildHunyuan(const Config &config) {
  Decoder family;
  family.architecture = "hunyuan_v1_dense";
  family.eps = 1e-5;
  family.paddingIdx = 0;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.rotatesBeforeNorm = true;
  family.names.queryNorm = "self_attn.query_layernorm";
  family.names.keyNorm = "self_attn.key_layernorm";
  family.ropes[0].hasAlpha = true;
  return buildDecoder(config, family);
}

static Family getHunyuan() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own = {function("attention_bias"),
                            fixed("mlp_bias", {"false"}),
                            fixed("use_qk_norm", {"true"}),
                            fixed("use_cla", {"false"}),
                            fixed("use_rotary_pos_emb", {"true"}),
                            fixed("norm_type", {"\"rms\""}),
                            fixed("num_experts", {"1"})};
    // The first release has other names of keys, and keys of other models and
    // of classifiers.
    for (const char *name :
         {"attention_head_dim", "cla_share_factor", "org_vocab_size",
          "eod_token_id", "im_start_id", "im_end_id", "im_newline_id",
          "mask_init_id", "pad_id", "sep_token_id", "text_start_id",
          "text_end_id", "add_classification_head", "class_num", "dense_list",
          "pool_type", "enable_lm_head_fp32"})
      own.push_back(harmless(name));
    return makeDecoderKeys(std::move(own), getAlphaRopeKeys());
  }();
  return {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", keys, buildHunyuan};
}

//===----------------------------------------------------------------------===//
// Nemotron
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildNemotron(const Config &config) {
  Decoder family;
  family.architecture = "nemotron";
  family.maxPositions = 4096;
  family.epsKey = "norm_eps";
  family.eps = 1e-5;
  family.stdDev = 0.0134;
  family.layerNorm = true;
  family.normOffset = 1;
  family.activation = "relu2";
  family.isGated = false;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.mlpBias = config.getBool("mlp_bias", false);
  family.ropes[0].isPartial = true;
  family.ropes[0].part = 0.5;
  return buildDecoder(config, family);
}

static Family getNemotron() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("norm_eps"), function("attention_bias"), function("mlp_bias")},
      getPartialRopeKeys());
  return {"nemotron", "NemotronForCausalLM", keys, buildNemotron};
}

std::vector<Family> import::getLlamaFamilies() {
  return {getLlama(),   getMistral(), getMinistral3(),
          getGranite(), getSmolLM3(), getSeedOss(),
          getArcee(),   getHunyuan(), getNemotron()};
}
