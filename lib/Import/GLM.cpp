//===- GLM.cpp - GLM, GLM-4 and GLM-4.5 -----------------------------------===//
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

/// Beside each other, columns of the first half of a head are rotated.
static Decoder makeGLM(const Config &config, StringRef architecture) {
  Decoder family;
  family.architecture = architecture;
  family.maxPositions = 131072;
  family.eps = 1.5625e-7;
  family.kvHeads = 2;
  family.headDim = 128;
  family.paddingIdx = 151329;
  family.hasFusedGate = true;
  family.qkvBias = config.getBool("attention_bias", true);
  family.ropes[0].isPartial = family.ropes[0].isInterleaved = true;
  family.ropes[0].part = 0.5;
  return family;
}

static llvm::ArrayRef<Key> getGLMKeys() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("attention_bias")}, getPartialRopeKeys());
  return keys;
}

static OwningOpRef<ModuleOp> buildGLM(const Config &config) {
  return buildDecoder(config, makeGLM(config, "glm"));
}

/// Norms before and after.
static OwningOpRef<ModuleOp> buildGLM4(const Config &config) {
  Decoder family = makeGLM(config, "glm4");
  family.postNorm = true;
  family.names.attentionPostNorm = "post_self_attn_layernorm";
  family.names.mlpPostNorm = "post_mlp_layernorm";
  return buildDecoder(config, family);
}

/// GLM-4.5 and 4.6, with experts.
static OwningOpRef<ModuleOp> buildGLM4Moe(const Config &config) {
  Decoder family;
  family.architecture = "glm4_moe";
  family.maxPositions = 131072;
  family.eps = 1e-5;
  family.kvHeads = 8;
  family.qkvBias = config.getBool("attention_bias", false);
  if (config.getBool("use_qk_norm", false))
    family.qkNorm = Decoder::QKNorm::PerHead;
  family.ropes[0].isPartial = true;
  family.ropes[0].part = 0.5;
  family.mixture.normalized = config.getBool("norm_topk_prob", true);
  family.mixture.scale = config.getPositive("routed_scaling_factor", 1);
  readDeepSeekMixture(config, {1408, 128, 8, /*shared=*/1}, family.mixture);
  setDenseLayers(config, "first_k_dense_replace", 1, family);
  readSigmoidRouter(config, 1, 1, family.mixture);
  return buildDecoder(config, family);
}

static Family getGLM4Moe() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own = getDeepSeekMixtureKeys();
    llvm::append_range(own, getSigmoidRouterKeys());
    for (const char *name :
         {"first_k_dense_replace", "attention_bias", "use_qk_norm"})
      own.push_back(function(name));
    return makeDecoderKeys(std::move(own), getPartialRopeKeys());
  }();
  return {"glm4_moe", "Glm4MoeForCausalLM", keys, buildGLM4Moe};
}

std::vector<Family> import::getGLMFamilies() {
  return {{"glm", "GlmForCausalLM", getGLMKeys(), buildGLM},
          {"glm4", "Glm4ForCausalLM", getGLMKeys(), buildGLM4},
          getGLM4Moe()};
}
