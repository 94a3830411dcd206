//===- RoutedMixture.cpp - Mixtures that compare biased scores ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

//===----------------------------------------------------------------------===//
// MiniMax-M2
//===----------------------------------------------------------------------===//

/// The names of Mixtral.
static OwningOpRef<ModuleOp> buildMiniMaxM2(const Config &config) {
  Decoder family;
  family.architecture = "minimax_m2";
  family.maxPositions = 196608;
  family.kvHeads = 8;
  family.headDim = 128;
  family.qkNorm = Decoder::QKNorm::Whole;
  RopeShape &rope = family.ropes[0];
  rope.isPartial = true;
  rope.theta = 5000000.0;
  if (config["rotary_dim"].isPresent() && !config["rotary_dim"].isNull())
    rope.part = static_cast<double>(config["rotary_dim"].getInteger(1)) /
                static_cast<double>(config.getSize("head_dim", 128));
  family.hasOnlyMixtures = true;
  Mixture &mixture = family.mixture;
  mixture.inner = config.getSize("intermediate_size");
  mixture.experts = config.getSize("num_local_experts", 256);
  mixture.perToken = config.getSize("num_experts_per_tok", 8);
  checkExperts(config, "num_local_experts", mixture);
  mixture.sigmoid = true;
  mixture.bias = "e_score_correction_bias";
  mixture.name = "block_sparse_moe";
  mixture.gate = "w1";
  mixture.up = "w3";
  mixture.down = "w2";
  family.getKind = [](int64_t) {
    LayerKind kind;
    kind.isSparse = true;
    return kind;
  };
  return buildDecoder(config, family);
}

static Family getMiniMaxM2() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("num_local_experts").orCalled("num_experts"),
       function("num_experts_per_tok"), function("rotary_dim").orNull(),
       fixed("router_jitter_noise", {"0.0", "0"}),
       // Experts would be counted that no token goes to: those without a bias.
       fixed("output_router_logits", {"false"}),
       harmless("router_aux_loss_coef"),
       // The code beside the checkpoints has these.
       fixed("scoring_func", {"\"sigmoid\""}), fixed("use_qk_norm", {"true"}),
       fixed("qk_norm_type", {"\"per_layer\""}),
       fixed("use_routing_bias", {"true"}),
       fixed("shared_intermediate_size", {"0"}),
       fixed("sliding_window", {"null"}), harmless("shared_moe_mode"),
       harmless("mlp_intermediate_size"), harmless("attn_type_list"),
       harmless("layernorm_full_attention_beta"),
       harmless("layernorm_linear_attention_beta"),
       harmless("layernorm_mlp_beta"), harmless("use_mtp"),
       harmless("num_mtp_modules"), harmless("mtp_transformer_layers"),
       harmless("auto_map")},
      getPartialRopeKeys());
  return {"minimax_m2", "MiniMaxM2ForCausalLM", keys, buildMiniMaxM2};
}

//===----------------------------------------------------------------------===//
// AFMoE
//===----------------------------------------------------------------------===//

/// Norms before and after, a gate of what attention gives, and positions only
/// where there is a window.
static OwningOpRef<ModuleOp> buildAfmoe(const Config &config) {
  Decoder family;
  family.architecture = "afmoe";
  family.maxPositions = 16384;
  family.eps = 1e-5;
  family.headDim = 128;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.postNorm = true;
  family.names.mlpNorm = "pre_mlp_layernorm";
  family.names.mlpPostNorm = "post_mlp_layernorm";
  family.outputGate = "self_attn.gate_proj";
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  if (config.getBool("mup_enabled", false))
    family.embeddingScale =
        std::sqrt(static_cast<double>(config.getSize("hidden_size")));
  Mixture &mixture = family.mixture;
  mixture.inner = config.getSize("moe_intermediate_size", 1408);
  mixture.experts = config.getSize("num_experts", 64);
  mixture.perToken = config.getSize("num_experts_per_tok", 6);
  checkExperts(config, "num_experts", mixture);
  mixture.shared = "shared_experts";
  mixture.sharedHasGate = false;
  mixture.sharedInner = mixture.inner * config.getSize("num_shared_experts", 2);
  mixture.scale = config.getPositive("route_scale", 1);
  mixture.sigmoid = true;
  mixture.router = "router.gate";
  mixture.bias = "expert_bias";
  int64_t pattern = 4, window = config.getWindow("sliding_window", 1024);
  if (!config["layer_types"].isPresent() || config["layer_types"].isNull())
    pattern = config.getSize("global_attn_every_n_layers", pattern);
  if (config.failed())
    return {};
  family.setLayerTypes(config, {0, -1}, {window, 0}, pattern);
  setDenseLayers(config, "num_dense_layers", 1, family);
  return buildDecoder(config, family);
}

static Family getAfmoe() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own;
    for (const char *name :
         {"attention_bias", "mup_enabled", "moe_intermediate_size",
          "num_experts", "num_experts_per_tok", "num_shared_experts",
          "route_scale", "sliding_window", "global_attn_every_n_layers",
          "num_dense_layers"})
      own.push_back(function(name));
    own.push_back(function("layer_types").orNull());
    // The code beside the checkpoints has these.
    own.push_back(fixed("score_func", {"\"sigmoid\""}));
    own.push_back(fixed("route_norm", {"true"}));
    for (const char *name :
         {"n_group", "topk_group", "num_expert_groups", "num_limited_groups"})
      own.push_back(fixed(name, {"1"}));
    for (const char *name : {"load_balance_coeff", "use_grouped_mm",
                             "output_router_logits", "auto_map"})
      own.push_back(harmless(name));
    return makeDecoderKeys(std::move(own));
  }();
  return {"afmoe", "AfmoeForCausalLM", keys, buildAfmoe};
}

//===----------------------------------------------------------------------===//
// dots.llm1
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildDots1(const Config &config) {
  Decoder family;
  family.architecture = "dots1";
  family.kvHeads = 32;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  int64_t window = config.getWindow("sliding_window", 4096);
  int64_t layers = config.getLayers("num_hidden_layers"), first = 62;
  if (config["max_window_layers"].isPresent())
    first = config["max_window_layers"].getInteger(0);
  if (config.failed())
    return {};
  std::vector<bool> late;
  for (int64_t layer = 0; layer < layers; ++layer)
    late.push_back(window > 0 && layer >= first);
  std::vector<bool> windowed =
      getWindowedLayers(config, layers, window > 0, late);
  family.getKind = [=](int64_t layer) {
    return LayerKind{windowed[layer] ? window : 0};
  };
  family.mixture.normalized = config.getBool("norm_topk_prob", false);
  family.mixture.scale = config.getPositive("routed_scaling_factor", 1);
  readDeepSeekMixture(config, {1408, 0, 0, /*shared=*/0}, family.mixture);
  setDenseLayers(config, "first_k_dense_replace", 0, family);
  readSigmoidRouter(config, 1, 1, family.mixture);
  return buildDecoder(config, family);
}

static Family getDots1() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own = getDeepSeekMixtureKeys();
    llvm::append_range(own, getSigmoidRouterKeys());
    for (const char *name :
         {"first_k_dense_replace", "attention_bias", "max_window_layers"})
      own.push_back(function(name));
    own.push_back(function("sliding_window").orNull());
    own.push_back(function("layer_types").orNull());
    return makeDecoderKeys(std::move(own));
  }();
  return {"dots1", "Dots1ForCausalLM", keys, buildDots1};
}

//===----------------------------------------------------------------------===//
// Ernie 4.5
//===----------------------------------------------------------------------===//

/// Scores are a softmax, to which a bias is added where they are compared.
static OwningOpRef<ModuleOp> buildErnie(const Config &config) {
  Decoder family;
  family.architecture = "ernie4_5_moe";
  family.maxPositions = 131072;
  family.eps = 1e-5;
  family.kvHeads = 4;
  family.tied = true;
  family.paddingIdx = 0;
  family.ropes[0].theta = 500000.0;
  family.ropes[0].isInterleaved = true;
  Mixture &mixture = family.mixture;
  mixture.inner = config.getSize("moe_intermediate_size", 1536);
  mixture.experts = config.getSize("moe_num_experts", 64);
  mixture.perToken = config.getSize("moe_k", 6);
  checkExperts(config, "moe_num_experts", mixture);
  mixture.bias = "moe_statics.e_score_correction_bias";
  mixture.shared = "shared_experts";
  mixture.sharedHasGate = false;
  auto getInteger = [&](const char *key, int64_t fallback, int64_t least) {
    int64_t value =
        config[key].isPresent() ? config[key].getInteger(least) : fallback;
    config.record(key, {value, fallback});
    return value;
  };
  mixture.sharedInner =
      mixture.inner * getInteger("moe_num_shared_experts", 2, 0);
  int64_t first = getInteger("moe_layer_start_index", 1, 0),
          last = getInteger("moe_layer_end_index", -1, -1),
          step = getInteger("moe_layer_interval", 1, 1);
  if (last < 0)
    last = config.getLayers("num_hidden_layers") - 1;
  family.getKind = [=](int64_t layer) {
    LayerKind kind;
    kind.isSparse = (layer + 1) % step == 0 && layer >= first && layer <= last;
    return kind;
  };
  return buildDecoder(config, family);
}

static Family getErnie() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("moe_intermediate_size"), function("moe_num_experts"),
       function("moe_k").orCalled("num_experts_per_tok"),
       function("moe_num_shared_experts"), function("moe_layer_start_index"),
       function("moe_layer_end_index"), function("moe_layer_interval"),
       fixed("moe_norm_min", {"1e-12"}), fixed("use_bias", {"false"}),
       fixed("attention_dropout", {"0.0", "0"}),
       // Experts would be counted that no token goes to: those without a bias.
       fixed("output_router_logits", {"false"}),
       harmless("router_aux_loss_coef"),
       // The code beside the checkpoints has these.
       fixed("moe_gate", {"\"topk\""}), fixed("moe_use_aux_free", {"true"}),
       harmless("moe_capacity"), harmless("num_nextn_predict_layers"),
       harmless("auto_map")});
  return {"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", keys, buildErnie};
}

std::vector<Family> import::getRoutedMixtureFamilies() {
  return {getMiniMaxM2(), getAfmoe(), getDots1(), getErnie()};
}
