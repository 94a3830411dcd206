//===- DeepSeek.cpp - DeepSeek-V2 and Mistral 4 ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"

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

/// The first layers are dense; the others have experts beside some for all
/// tokens, which are one wide layer without a gate.
static void readLayers(const Config &config, int64_t dense, int64_t shared,
                       Decoder &family) {
  Mixture &mixture = family.mixture;
  mixture.shared = "shared_experts";
  mixture.sharedHasGate = false;
  mixture.sharedInner =
      mixture.inner * config.getSize("n_shared_experts", shared);
  mixture.scale = config.getPositive("routed_scaling_factor", 1);
  if (config["first_k_dense_replace"].isPresent())
    dense = config["first_k_dense_replace"].getInteger(0);
  config.record("first_k_dense_replace", {dense});
  family.getKind = [dense](int64_t layer) {
    LayerKind kind;
    kind.isSparse = layer >= dense;
    return kind;
  };
}

static std::vector<Key> makeLatentKeys(std::vector<Key> table,
                                       ArrayRef<Key> rope) {
  for (const char *name :
       {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
        "attention_bias", "first_k_dense_replace", "n_shared_experts",
        "n_routed_experts", "moe_intermediate_size", "routed_scaling_factor"})
    table.push_back(function(name));
  table.push_back(function("q_lora_rank").orNull());
  table.push_back(function("num_experts_per_tok"));
  // They follow from others.
  table.push_back(harmless("head_dim"));
  table.push_back(harmless("qk_head_dim"));
  table.push_back(harmless("output_router_logits"));
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
  Mixture &mixture = family.mixture;
  mixture.normalized = false;
  mixture.inner = config.getSize("moe_intermediate_size", 1407);
  mixture.experts = config.getSize("n_routed_experts", 64);
  mixture.perToken = config.getSize("num_experts_per_tok");
  checkExperts(config, "n_routed_experts", mixture);
  checkKeyHeads(config);
  readLatent(config, {512, 1536, 128, 64, 128}, family);
  readLayers(config, /*dense=*/0, /*shared=*/2, family);
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
  Mixture &mixture = family.mixture;
  mixture.normalized = config.getBool("norm_topk_prob", true);
  mixture.inner = config.getSize("moe_intermediate_size", 2048);
  mixture.experts = config.getSize("n_routed_experts", 128);
  mixture.perToken = config.getSize("num_experts_per_tok", 4);
  checkExperts(config, "n_routed_experts", mixture);
  checkKeyHeads(config);
  readLatent(config, {256, 1024, 64, 64, 128}, family);
  readLayers(config, /*dense=*/0, /*shared=*/1, family);
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

std::vector<Family> import::getDeepSeekFamilies() {
  return {getDeepSeekV2(), getMistral4()};
}
