//===- DeepSeek.cpp - DeepSeek-V2 and V3, and Mistral 4 -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

/// Widths of a family's heads and latents where the configuration has none.
static void readLatent(const Config &config, LatentAttention latent,
                       Decoder &family) {
  latent.keyRank = config.getSize("kv_lora_rank", latent.keyRank);
  latent.queryRank =
      config.getSize("q_lora_rank", latent.queryRank, /*ofNull=*/0);
  latent.plainDim = config.getSize("qk_nope_head_dim", latent.plainDim);
  latent.rotatedDim = config.getSize("qk_rope_head_dim", latent.rotatedDim);
  latent.valueDim = config.getSize("v_head_dim", latent.valueDim);
  latent.bias = family.outputBias = config.getBool("attention_bias", false);
  family.latent = latent;
  family.ropes[0].isInterleaved = family.ropes[0].scalesScores = true;
  int64_t keyDim = latent.plainDim + latent.rotatedDim;
  if (!config.failed() && latent.valueDim > keyDim)
    config["v_head_dim"].error(
        std::to_string(latent.valueDim) +
        " is more than qk_nope_head_dim + qk_rope_head_dim = " +
        std::to_string(keyDim) + ", which is not supported");
}

static std::vector<Key> makeLatentKeys(std::vector<Key> table,
                                       ArrayRef<Key> rope) {
  for (const char *name : {"kv_lora_rank", "qk_nope_head_dim",
                           "qk_rope_head_dim", "v_head_dim", "attention_bias"})
    if (!findKey(table, name))
      table.push_back(function(name));
  table.push_back(function("q_lora_rank").orNull());
  llvm::append_range(table, getDeepSeekMixtureKeys());
  if (!findKey(table, "first_k_dense_replace"))
    table.push_back(function("first_k_dense_replace"));
  // They follow from others.
  if (!findKey(table, "head_dim"))
    table.push_back(harmless("head_dim"));
  table.push_back(harmless("qk_head_dim"));
  return makeDecoderKeys(std::move(table), rope);
}

/// Keys and values of all heads are made of one latent vector.
static void checkKeyHeads(const Config &config) {
  json::Value given = config["num_key_value_heads"];
  if (given.isPresent() && !given.isNull() &&
      given.getInteger(1) != config.getSize("num_attention_heads"))
    given.error("expected num_attention_heads = " +
                config["num_attention_heads"].describe() + ", found " +
                given.describe());
}

//===----------------------------------------------------------------------===//
// DeepSeek-V2
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildDeepSeekV2(const Config &config) {
  Decoder family;
  family.architecture = "deepseek_v2";
  family.mixture.normalized = false;
  family.mixture.scale = config.getPositive("routed_scaling_factor", 1);
  checkKeyHeads(config);
  readLatent(config, {512, 1536, 128, 64, 128}, family);
  readDeepSeekMixture(config, {1407, 64, 0, /*shared=*/2}, family.mixture);
  setDenseLayers(config, "first_k_dense_replace", 0, family);
  return buildDecoder(config, family);
}

static Family getDeepSeekV2() {
  static const std::vector<Key> keys = makeLatentKeys(
      {fixed("topk_method", {"\"greedy\""}),
       fixed("scoring_func", {"\"softmax\""}), fixed("moe_layer_freq", {"1"}),
       fixed("mlp_bias", {"false"}),
       // Groups of experts are of other methods.
       harmless("n_group"), harmless("topk_group"),
       // The code beside the checkpoints reads it, transformers does not.
       fixed("norm_topk_prob", {"false"}),
       // That code has a loss that balances experts; transformers adds none.
       harmless("aux_loss_alpha"), harmless("seq_aux"), harmless("ep_size"),
       harmless("auto_map")},
      getRopeKeys());
  return {"deepseek_v2", "DeepseekV2ForCausalLM", keys, buildDeepSeekV2};
}

//===----------------------------------------------------------------------===//
// Mistral 4
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildMistral4(const Config &config) {
  Decoder family;
  family.architecture = "mistral4";
  family.maxPositions = 1048576;
  family.paddingIdx = 11;
  family.mixture.normalized = config.getBool("norm_topk_prob", true);
  family.mixture.scale = config.getPositive("routed_scaling_factor", 1);
  checkKeyHeads(config);
  readLatent(config, {256, 1024, 64, 64, 128}, family);
  readDeepSeekMixture(config, {2048, 128, 4, /*shared=*/1}, family.mixture);
  setDenseLayers(config, "first_k_dense_replace", 0, family);
  RopeShape &rope = family.ropes[0];
  rope.isInterleaved = config.getBool("rope_interleave", true);
  rope.scalesFarQueries = true;
  const LatentAttention &latent = family.latent;
  rope.knownPart = static_cast<double>(latent.rotatedDim) /
                   static_cast<double>(latent.plainDim + latent.rotatedDim);
  return buildDecoder(config, family);
}

static Family getMistral4() {
  static const std::vector<Key> keys =
      makeLatentKeys({function("norm_topk_prob"), function("rope_interleave"),
                      // Groups of experts of which only some are looked at.
                      fixed("n_group", {"1"}), fixed("topk_group", {"1"})},
                     getKnownPartRopeKeys());
  return {"mistral4", "Mistral4ForCausalLM", keys, buildMistral4};
}

//===----------------------------------------------------------------------===//
// DeepSeek-V3
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildDeepSeekV3(const Config &config) {
  Decoder family;
  family.architecture = "deepseek_v3";
  family.maxPositions = 4096;
  family.mixture.normalized = config.getBool("norm_topk_prob", true);
  family.mixture.scale = config.getPositive("routed_scaling_factor", 2.5);
  checkKeyHeads(config);
  readLatent(config, {512, 1536, 128, 64, 128}, family);
  readDeepSeekMixture(config, {2048, 256, 8, /*shared=*/1}, family.mixture);
  setDenseLayers(config, "first_k_dense_replace", 3, family);
  readSigmoidRouter(config, 8, 4, family.mixture);
  family.ropes[0].isInterleaved = config.getBool("rope_interleave", true);
  return buildDecoder(config, family);
}

static Family getDeepSeekV3() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own = getSigmoidRouterKeys();
    own.push_back(function("rope_interleave"));
    return makeLatentKeys(std::move(own), getRopeKeys());
  }();
  return {"deepseek_v3", "DeepseekV3ForCausalLM", keys, buildDeepSeekV3};
}

//===----------------------------------------------------------------------===//
// GLM-4.7-Flash
//===----------------------------------------------------------------------===//

/// Layers are 'dense' or 'sparse' by `mlp_layer_types`; where that is absent,
/// all are sparse but the first.
static void readLayerTypes(const Config &config, Decoder &family) {
  int64_t layers = config.getLayers("num_hidden_layers");
  json::Value types = config["mlp_layer_types"];
  bool isGiven = types.isPresent() && !types.isNull();
  if (isGiven && types.size() != static_cast<size_t>(layers))
    types.error("expected an array of num_hidden_layers = " +
                std::to_string(layers) + " names");
  std::vector<bool> sparse;
  llvm::json::Array names, absent;
  for (int64_t layer = 0; layer < layers && !config.failed(); ++layer) {
    std::string fallback = layer == 0 ? "dense" : "sparse";
    std::string name = isGiven ? types[layer].getString() : fallback;
    if (name != "dense" && name != "sparse")
      types[layer].error("expected 'dense' or 'sparse', found '" + name + "'");
    sparse.push_back(name == "sparse");
    names.push_back(name);
    absent.push_back(fallback);
  }
  config.record("mlp_layer_types", {std::move(names), std::move(absent)});
  family.getKind = [sparse](int64_t layer) {
    LayerKind kind;
    kind.isSparse = sparse[layer];
    return kind;
  };
}

static OwningOpRef<ModuleOp> buildGLM4MoeLite(const Config &config) {
  Decoder family;
  family.architecture = "glm4_moe_lite";
  family.maxPositions = 202752;
  family.eps = 1e-5;
  family.mixture.normalized = config.getBool("norm_topk_prob", true);
  family.mixture.scale = config.getPositive("routed_scaling_factor", 1.8);
  checkKeyHeads(config);
  readLatent(config, {512, 768, 192, 64, 256}, family);
  readDeepSeekMixture(config, {1536, 64, 4, /*shared=*/1}, family.mixture);
  readSigmoidRouter(config, 1, 1, family.mixture);
  readLayerTypes(config, family);
  family.ropes[0].isInterleaved = config.getBool("rope_interleave", true);
  return buildDecoder(config, family);
}

static Family getGLM4MoeLite() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own = getSigmoidRouterKeys();
    own.push_back(function("rope_interleave"));
    own.push_back(function("mlp_layer_types").orNull());
    own.push_back(fixed("first_k_dense_replace", {"1"}));
    own.push_back(function("qk_rope_head_dim").orCalled("head_dim"));
    return makeLatentKeys(std::move(own), getRopeKeys());
  }();
  return {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", keys, buildGLM4MoeLite};
}

std::vector<Family> import::getDeepSeekFamilies() {
  return {getDeepSeekV2(), getDeepSeekV3(), getGLM4MoeLite(), getMistral4()};
}
