//===- Phi.cpp - Phi, Phi-3, StableLM and StarCoder2 ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families that rotate a part of each head, or have norms with biases.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

//===----------------------------------------------------------------------===//
// Phi 1, 1.5 and 2
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildPhi(const Config &config) {
  Decoder family;
  family.architecture = "phi";
  family.eps = 1e-5;
  family.epsKey = "layer_norm_eps";
  family.activation = "gelu_new";
  family.layerNorm = family.isParallel = true;
  family.isGated = false;
  family.qkvBias = family.outputBias = family.mlpBias = family.headBias = true;
  family.names.attentionOutput = "self_attn.dense";
  family.names.up = "mlp.fc1";
  family.names.down = "mlp.fc2";
  family.names.lastNorm = "model.final_layernorm";
  family.embeddingDropout = config.getDropout("embd_pdrop", 0);
  family.attentionOutputDropout = family.mlpOutputDropout =
      config.getDropout("resid_pdrop", 0);
  family.ropes[0].isPartial = true;
  family.ropes[0].part = 0.5;
  return buildDecoder(config, family);
}

static Family getPhi() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("layer_norm_eps"), training("embd_pdrop"),
       training("resid_pdrop"), fixed("qk_layernorm", {"false"})},
      getPartialRopeKeys());
  return {"phi", "PhiForCausalLM", keys, buildPhi};
}

//===----------------------------------------------------------------------===//
// Phi-3
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildPhi3(const Config &config) {
  Decoder family;
  family.architecture = "phi3";
  family.maxPositions = 4096;
  family.eps = 1e-5;
  family.paddingIdx = 32000;
  family.hasFusedQKV = family.hasFusedGate = true;
  family.attentionOutputDropout = family.mlpOutputDropout =
      config.getDropout("resid_pdrop", 0);
  family.setWindow(config.getWindow("sliding_window", 0));
  RopeShape &rope = family.ropes[0];
  rope.isPartial = rope.onlyLongRope = true;
  rope.original = config.getSize("original_max_position_embeddings", 4096);
  return buildDecoder(config, family);
}

static Family getPhi3() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {training("resid_pdrop"), function("sliding_window").orNull(),
       function("original_max_position_embeddings"),
       // Not applied by transformers.
       harmless("embd_pdrop"),
       // Where the code of the first Phi-3 lay, which transformers now has.
       harmless("auto_map"),
       // Phi-4-mini has these; another value is of a code that nobody has
       // published.
       fixed("full_attn_mod", {"1"}), fixed("interpolate_factor", {"1"}),
       fixed("attention_bias", {"false"}), fixed("mlp_bias", {"false"}),
       fixed("lm_head_bias", {"false"})},
      getPartialRopeKeys());
  return {"phi3", "Phi3ForCausalLM", keys, buildPhi3};
}

//===----------------------------------------------------------------------===//
// StableLM
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildStableLM(const Config &config) {
  Decoder family;
  family.architecture = "stablelm";
  family.maxPositions = 4096;
  family.eps = 1e-5;
  family.kvHeads = 32;
  family.epsKey = "layer_norm_eps";
  family.layerNorm = true;
  family.qkvBias = config.getBool("use_qkv_bias", false);
  family.isParallel = config.getBool("use_parallel_residual", false);
  family.mlpOutputDropout = config.getDropout("hidden_dropout", 0);
  family.ropes[0].isPartial = true;
  family.ropes[0].part = 0.25;
  return buildDecoder(config, family);
}

static Family getStableLM() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("layer_norm_eps"), function("use_qkv_bias"),
       function("use_parallel_residual"), training("hidden_dropout"),
       function("num_key_value_heads"), fixed("head_dim", {"null"}),
       fixed("qk_layernorm", {"false"})},
      getPartialRopeKeys());
  return {"stablelm", "StableLmForCausalLM", keys, buildStableLM};
}

//===----------------------------------------------------------------------===//
// StarCoder2
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> buildStarCoder2(const Config &config) {
  Decoder family;
  family.architecture = "starcoder2";
  family.maxPositions = 4096;
  family.eps = 1e-5;
  family.epsKey = "norm_epsilon";
  family.stdDev = 0.018042;
  family.tied = true;
  family.activation = "gelu_pytorch_tanh";
  family.kvHeads = 2;
  family.layerNorm = true;
  family.isGated = false;
  family.qkvBias = family.outputBias = family.mlpBias =
      config.getBool("use_bias", true);
  family.names.up = "mlp.c_fc";
  family.names.down = "mlp.c_proj";
  family.embeddingDropout = config.getDropout("embedding_dropout", 0);
  family.attentionOutputDropout = family.mlpOutputDropout =
      config.getDropout("residual_dropout", 0);
  family.setWindow(config.getWindow("sliding_window", 0));
  return buildDecoder(config, family);
}

static Family getStarCoder2() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("norm_epsilon"), function("use_bias"),
       training("embedding_dropout"), training("residual_dropout"),
       function("sliding_window").orNull(),
       // The 3B and 7B have these; hidden_act and norm_epsilon decide.
       harmless("activation_function"), harmless("layer_norm_epsilon"),
       harmless("attention_softmax_in_fp32"),
       harmless("scale_attention_softmax_in_fp32"),
       fixed("mlp_type", {"\"default\""}),
       fixed("norm_type", {"\"layer_norm\""}),
       fixed("scale_attn_weights", {"true"})});
  return {"starcoder2", "Starcoder2ForCausalLM", keys, buildStarCoder2};
}

std::vector<Family> import::getPhiFamilies() {
  return {getPhi(), getPhi3(), getStableLM(), getStarCoder2()};
}
