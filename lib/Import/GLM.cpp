//===- GLM.cpp - GLM and GLM-4 --------------------------------------------===//
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

std::vector<Family> import::getGLMFamilies() {
  return {{"glm", "GlmForCausalLM", getGLMKeys(), buildGLM},
          {"glm4", "Glm4ForCausalLM", getGLMKeys(), buildGLM4}};
}
