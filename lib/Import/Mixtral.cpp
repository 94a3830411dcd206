//===- Mixtral.cpp - Mixtral and Qwen3-MoE --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families with mixtures of experts.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

/// How many experts there are, under `key`, and how many a token goes to.
static void readExperts(const Config &config, const char *key, int64_t experts,
                        int64_t perToken, Mixture &mixture) {
  mixture.experts = config.getSize(key, experts);
  mixture.perToken = config.getSize("num_experts_per_tok", perToken);
  if (!config.failed() && mixture.perToken > mixture.experts)
    config["num_experts_per_tok"].error(std::to_string(mixture.perToken) +
                                        " is more than " + key + " = " +
                                        std::to_string(mixture.experts));
  config.checkSize("num_experts_per_tok * the size of an expert",
                   static_cast<double>(mixture.perToken) * mixture.inner);
}

static std::vector<Key> makeMixtureKeys(std::vector<Key> table) {
  table.push_back(function("num_experts_per_tok"));
  // The loss that balances experts: transformers adds it where this is true.
  table.push_back(fixed("output_router_logits", {"false"}));
  table.push_back(harmless("router_aux_loss_coef"));
  return makeDecoderKeys(std::move(table));
}

//===----------------------------------------------------------------------===//
// Mixtral
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildMixtral(const Config &config) {
  Decoder family;
  family.architecture = "mixtral";
  family.maxPositions = 4096 * 32;
  family.kvHeads = 8;
  family.eps = 1e-5;
  family.ropes[0].theta = 1000000.0;
  family.mixture.inner = config.getSize("intermediate_size");
  readExperts(config, "num_local_experts", 8, 2, family.mixture);
  family.mixture.name = "block_sparse_moe";
  family.mixture.gate = "w1";
  family.mixture.up = "w3";
  family.mixture.down = "w2";
  int64_t window = config.getWindow("sliding_window", 0);
  family.getKind = [=](int64_t) {
    return LayerKind{window, 0, /*isSparse=*/true};
  };
  return buildDecoder(config, family);
}

static Family getMixtral() {
  static const std::vector<Key> keys = makeMixtureKeys(
      {function("num_local_experts").orCalled("num_experts"),
       function("sliding_window").orNull(),
       fixed("router_jitter_noise", {"0.0", "0"}),
       fixed("attention_bias", {"false"}), fixed("mlp_bias", {"false"})});
  return {"mixtral", "MixtralForCausalLM", keys, buildMixtral};
}

//===----------------------------------------------------------------------===//
// Qwen3-MoE
//===----------------------------------------------------------------------===//

/// Whether each layer is a mixture: every `decoder_sparse_step`-th, except for
/// those that `mlp_only_layers` lists.
static std::vector<bool> getSparseLayers(const Config &config, int64_t layers) {
  int64_t step = 1;
  if (config["decoder_sparse_step"].isPresent())
    step = config["decoder_sparse_step"].getInteger(1);
  config.record("decoder_sparse_step", {step, 1});
  std::vector<bool> sparse(layers);
  for (int64_t layer = 0; layer < layers && !config.failed(); ++layer)
    sparse[layer] = (layer + 1) % step == 0;
  json::Value dense = config["mlp_only_layers"];
  llvm::json::Array numbers;
  for (size_t i = 0; !dense.isNull() && i < dense.size(); ++i) {
    int64_t layer = dense[i].getInteger(0);
    numbers.push_back(layer);
    if (layer < layers)
      sparse[layer] = false;
  }
  config.record("mlp_only_layers",
                {std::move(numbers), llvm::json::Array(), llvm::json::Array()});
  return sparse;
}

static OwningOpRef<ModuleOp> buildQwen3Moe(const Config &config) {
  Decoder family;
  family.architecture = "qwen3_moe";
  family.maxPositions = 32768;
  family.kvHeads = 4;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.mixture.inner = config.getSize("moe_intermediate_size", 768);
  readExperts(config, "num_experts", 128, 8, family.mixture);
  family.mixture.normalized = config.getBool("norm_topk_prob", false);
  bool isWindowed = config.getBool("use_sliding_window", false);
  int64_t window = 0;
  if (isWindowed)
    window = config.getWindow("sliding_window", 4096);
  int64_t layers = config.getLayers("num_hidden_layers");
  if (config.failed())
    return {};
  std::vector<bool> sparse = getSparseLayers(config, layers);
  if (config.failed())
    return {};
  family.getKind = [=](int64_t layer) {
    return LayerKind{window, 0, sparse[layer]};
  };
  return buildDecoder(config, family);
}

static Family getQwen3Moe() {
  static const std::vector<Key> keys = makeMixtureKeys(
      {function("attention_bias"),
       function("num_experts").orCalled("num_local_experts"),
       function("moe_intermediate_size"), function("norm_topk_prob"),
       function("decoder_sparse_step"), function("mlp_only_layers").orNull(),
       function("use_sliding_window"), function("sliding_window").orNull(),
       // Read by earlier versions for windows, which now have all layers.
       harmless("max_window_layers")});
  return {"qwen3_moe", "Qwen3MoeForCausalLM", keys, buildQwen3Moe};
}

std::vector<Family> import::getMixtureFamilies() {
  return {getMixtral(), getQwen3Moe()};
}
