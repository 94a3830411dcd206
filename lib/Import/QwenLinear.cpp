//===- QwenLinear.cpp - Qwen with linear attention ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"
#include "Poplar/Runtime/Recurrent.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

/// Layers are of linear attention, but for those that `layer_types` calls
/// 'full_attention'; without it, for every `full_attention_interval`-th one.
static void setLinearLayers(const Config &config, Decoder &family) {
  int64_t layers = config.getLayers("num_hidden_layers"), interval = 4;
  json::Value types = config["layer_types"];
  if (!types.isPresent() || types.isNull())
    interval = config.getSize("full_attention_interval", 4);
  if (config.failed())
    return;
  std::vector<bool> fallback;
  for (int64_t layer = 0; layer < layers; ++layer)
    fallback.push_back((layer + 1) % interval != 0);
  std::vector<bool> linear =
      getNamedLayers(config, layers,
                     {"linear_attention", /*isSupported=*/true,
                      "'linear_attention' and 'full_attention'"},
                     fallback);
  family.getKind = [=](int64_t layer) {
    LayerKind kind;
    kind.isLinear = linear[layer];
    return kind;
  };
}

/// A size that the kernels limit.
static int64_t getLimited(const Config &config, const char *key,
                          int64_t fallback, int64_t limit) {
  int64_t size = config.getSize(key, fallback);
  if (size > limit)
    config[key].error("expected at most " + std::to_string(limit) + ", found " +
                      std::to_string(size));
  return size;
}

/// What all of these families have.
static Decoder makeLinearDecoder(const Config &config,
                                 llvm::StringRef architecture,
                                 int64_t kvHeads) {
  Decoder family;
  family.architecture = architecture;
  family.maxPositions = 32768;
  family.kvHeads = kvHeads;
  family.headDim = 256;
  family.normOffset = 1;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.hasOutputGate = true;
  family.ropes[0].isPartial = true;
  family.ropes[0].part = 0.25;
  LinearAttention &linear = family.linear;
  Unit::GatedDelta &shape = linear.shape;
  linear.convWidth =
      getLimited(config, "linear_conv_kernel_dim", 4, POPLAR_MAX_CONV_WIDTH);
  shape.keyHeads = config.getSize("linear_num_key_heads", 16);
  shape.valueHeads = config.getSize("linear_num_value_heads", 32);
  shape.keyDim =
      getLimited(config, "linear_key_head_dim", 128, POPLAR_MAX_DELTA_DIM);
  shape.valueDim =
      getLimited(config, "linear_value_head_dim", 128, POPLAR_MAX_DELTA_DIM);
  if (config.failed())
    return family;
  config.divide("linear_num_value_heads", shape.valueHeads,
                "linear_num_key_heads", shape.keyHeads);
  config.checkSize("heads of linear attention",
                   2 * double(shape.keyHeads) * double(shape.keyDim) +
                       double(shape.valueHeads) * double(shape.valueDim));
  setLinearLayers(config, family);
  return family;
}

static const std::vector<Key> &getLinearKeys() {
  static const std::vector<Key> keys = {
      function("attention_bias"), function("head_dim"),
      function("layer_types").orNull(), function("full_attention_interval"),
      function("linear_conv_kernel_dim"), function("linear_num_key_heads"),
      function("linear_num_value_heads"), function("linear_key_head_dim"),
      function("linear_value_head_dim"),
      // Layers that predict several tokens are no part of the model.
      harmless("mtp_num_hidden_layers"),
      harmless("mtp_use_dedicated_embeddings")};
  return keys;
}

static std::vector<Key> addLinearKeys(std::vector<Key> own) {
  llvm::append_range(own, getLinearKeys());
  return own;
}

//===----------------------------------------------------------------------===//
// Qwen3.5
//===----------------------------------------------------------------------===//

/// Sections of rotary embeddings are of positions in images and of videos,
/// which are those of the text in a text.
static std::vector<Key> getSectionedRopeKeys() {
  std::vector<Key> keys(getPartialRopeKeys());
  static const std::vector<Key> members = [&] {
    std::vector<Key> known(keys[1].members);
    known.push_back(harmless("mrope_section"));
    known.push_back(harmless("mrope_interleaved"));
    return known;
  }();
  keys[0].members = keys[1].members = members;
  return keys;
}

/// What Qwen3.5 can be without, but cannot change.
static std::vector<Key> addQwen35Keys(std::vector<Key> own) {
  own.push_back(fixed("attn_output_gate", {"true"}));
  own.push_back(fixed("output_gate_type", {"\"swish\"", "\"silu\""}));
  own.push_back(fixed("mlp_only_layers", {"[]"}));
  // The state is f32 here.
  own.push_back(fixed("mamba_ssm_dtype", {"\"float32\""}));
  return addLinearKeys(std::move(own));
}

static OwningOpRef<ModuleOp> buildQwen35(const Config &config) {
  return buildDecoder(config,
                      makeLinearDecoder(config, "qwen3_5_text", /*kvHeads=*/4));
}

static Family getQwen35() {
  static const std::vector<Key> keys =
      makeDecoderKeys(addQwen35Keys({}), getSectionedRopeKeys());
  return {"qwen3_5_text", "Qwen3_5ForCausalLM", keys, buildQwen35};
}

//===----------------------------------------------------------------------===//
// Mixtures of experts
//===----------------------------------------------------------------------===//

static Decoder makeLinearMixture(const Config &config,
                                 llvm::StringRef architecture, int64_t experts,
                                 int64_t perToken) {
  Decoder family = makeLinearDecoder(config, architecture, /*kvHeads=*/2);
  Mixture &mixture = family.mixture;
  mixture.inner = config.getSize("moe_intermediate_size", 512);
  mixture.sharedInner = config.getSize("shared_expert_intermediate_size", 512);
  readExperts(config, "num_experts", experts, perToken, mixture);
  return family;
}

static std::vector<Key> addLinearMixtureKeys(std::vector<Key> own) {
  for (const char *name : {"num_experts", "moe_intermediate_size",
                           "shared_expert_intermediate_size"})
    own.push_back(function(name));
  return own;
}

static OwningOpRef<ModuleOp> buildQwen35Moe(const Config &config) {
  Decoder family = makeLinearMixture(config, "qwen3_5_moe_text",
                                     /*experts=*/256, /*perToken=*/8);
  family.hasOnlyMixtures = true;
  family.getKind = [getKind = family.getKind](int64_t layer) {
    LayerKind kind = getKind(layer);
    kind.isSparse = true;
    return kind;
  };
  return buildDecoder(config, family);
}

static Family getQwen35Moe() {
  static const std::vector<Key> keys = makeMixtureKeys(
      addQwen35Keys(addLinearMixtureKeys({
          // All layers are mixtures, and the scores of a token add up to 1.
          harmless("intermediate_size"),
          fixed("decoder_sparse_step", {"1"}),
          fixed("norm_topk_prob", {"true"}),
      })),
      getSectionedRopeKeys());
  return {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", keys, buildQwen35Moe};
}

static OwningOpRef<ModuleOp> buildQwen3Next(const Config &config) {
  Decoder family = makeLinearMixture(config, "qwen3_next", /*experts=*/512,
                                     /*perToken=*/10);
  family.linear.isFused = true;
  family.mixture.normalized = config.getBool("norm_topk_prob", true);
  setSparseLayers(config, family);
  return buildDecoder(config, family);
}

static Family getQwen3Next() {
  static const std::vector<Key> keys =
      makeMixtureKeys(addLinearKeys(addLinearMixtureKeys({
                          function("norm_topk_prob"),
                          function("decoder_sparse_step"),
                          function("mlp_only_layers").orNull(),
                          fixed("use_sliding_window", {"false"}),
                      })),
                      getPartialRopeKeys());
  return {"qwen3_next", "Qwen3NextForCausalLM", keys, buildQwen3Next};
}

std::vector<Family> import::getQwenLinearFamilies() {
  return {getQwen35(), getQwen35Moe(), getQwen3Next()};
}
