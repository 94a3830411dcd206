//===- Gemma.cpp - Gemma, Gemma 2 and the text models of Gemma 3 ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

/// What all three have: checkpoints hold the weights of norms less 1, and
/// embeddings are multiplied by the root of their width.
static Decoder makeGemma(const Config &config, StringRef architecture) {
  Decoder family;
  family.architecture = architecture;
  family.maxPositions = 8192;
  family.activation = "gelu_pytorch_tanh";
  family.tied = true;
  family.headDim = 256;
  family.paddingIdx = 0;
  family.normOffset = 1;
  family.refusesF16 = true;
  family.embeddingScale =
      std::sqrt(static_cast<double>(config.getSize("hidden_size")));
  family.scalesInEmbedding = true;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  return family;
}

static std::vector<Key> makeGemmaKeys(std::vector<Key> table) {
  table.push_back(function("attention_bias"));
  table.push_back(function("head_dim"));
  table.push_back(function("num_key_value_heads"));
  table.push_back(fixed("use_bidirectional_attention", {"false", "null"}));
  return makeDecoderKeys(std::move(table));
}

//===----------------------------------------------------------------------===//
// Gemma
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildGemma(const Config &config) {
  Decoder family = makeGemma(config, "gemma");
  family.kvHeads = 16;
  family.geluIsTanh = true;
  return buildDecoder(config, family);
}

static Family getGemma() {
  static const std::vector<Key> keys =
      makeGemmaKeys({// Of earlier versions; hidden_act decides.
                     harmless("hidden_activation")});
  return {"gemma", "GemmaForCausalLM", keys, buildGemma};
}

//===----------------------------------------------------------------------===//
// Gemma 2 and 3
//===----------------------------------------------------------------------===//

/// What Gemma 2 and 3 share: norms before and after, and windows in most
/// layers. Without `layer_types`, every `pattern`-th layer has none.
static Decoder makeWindowedGemma(const Config &config, StringRef architecture,
                                 int64_t pattern, bool hasTwoRopes) {
  Decoder family = makeGemma(config, architecture);
  family.kvHeads = 4;
  family.activationKey = "hidden_activation";
  family.postNorm = true;
  family.attentionScale =
      1 / std::sqrt(config.getPositive("query_pre_attn_scalar", 256));
  family.names.mlpNorm = "pre_feedforward_layernorm";
  int64_t window = config.getSize("sliding_window", 4096);
  family.setLayerTypes(config, /*full=*/{0, 0},
                       /*sliding=*/{window, hasTwoRopes ? 1 : 0}, pattern);
  return family;
}

static std::vector<Key> makeWindowedGemmaKeys(std::vector<Key> table) {
  table.push_back(function("query_pre_attn_scalar"));
  table.push_back(function("sliding_window"));
  table.push_back(function("layer_types").orNull());
  table.push_back(function("hidden_activation"));
  table.push_back(function("final_logit_softcapping").orNull());
  // A key of earlier versions; hidden_activation decides.
  table.push_back(harmless("hidden_act"));
  // How keys and values of past tokens are kept.
  table.push_back(harmless("cache_implementation"));
  return makeGemmaKeys(std::move(table));
}

static OwningOpRef<ModuleOp> buildGemma2(const Config &config) {
  Decoder family = makeWindowedGemma(config, "gemma2", /*pattern=*/2,
                                     /*hasTwoRopes=*/false);
  family.attentionCap = config.getPositiveOrNull("attn_logit_softcapping", 50);
  family.logitsCap = config.getPositiveOrNull("final_logit_softcapping", 30);
  return buildDecoder(config, family);
}

static Family getGemma2() {
  static const std::vector<Key> keys =
      makeWindowedGemmaKeys({function("attn_logit_softcapping").orNull(),
                             // Gemma 2 9B has it; sliding_window decides.
                             harmless("sliding_window_size")});
  return {"gemma2", "Gemma2ForCausalLM", keys, buildGemma2};
}

static OwningOpRef<ModuleOp> buildGemma3(const Config &config) {
  int64_t pattern = config.getSize("sliding_window_pattern", 6);
  if (config.failed())
    return {};
  Decoder family = makeWindowedGemma(config, "gemma3_text", pattern,
                                     /*hasTwoRopes=*/true);
  family.maxPositions = 131072;
  family.vocabSize = 262208;
  family.heads = 8;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.logitsCap = config.getPositiveOrNull("final_logit_softcapping", 0);
  RopeShape full, sliding;
  full.layerType = "full_attention";
  full.theta = 1000000;
  sliding.layerType = "sliding_attention";
  sliding.hasScaling = false;
  sliding.thetaKey = "rope_local_base_freq";
  family.ropes = {full, sliding};
  return buildDecoder(config, family);
}

static Family getGemma3() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> table(getLayeredRopeKeys());
    table.push_back(function("rope_local_base_freq"));
    table.push_back(function("sliding_window_pattern"));
    table.push_back(harmless("_sliding_window_pattern"));
    // Not all ways in which transformers computes attention do it.
    table.push_back(fixed("attn_logit_softcapping", {"null"}));
    return makeWindowedGemmaKeys(std::move(table));
  }();
  return {"gemma3_text", "Gemma3ForCausalLM", keys, buildGemma3};
}

std::vector<Family> import::getGemmaFamilies() {
  return {getGemma(), getGemma2(), getGemma3()};
}
