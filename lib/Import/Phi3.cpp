//===- Phi3.cpp - Phi-3 and StableLM --------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families that rotate a part of each head.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

static std::vector<Key> makePartialKeys(std::vector<Key> table) {
  llvm::append_range(table, getPartialRopeKeys());
  return makeDecoderKeys(std::move(table));
}

static OwningOpRef<ModuleOp> buildPhi3(const Config &config) {
  Decoder family;
  family.architecture = "phi3";
  family.maxPositions = 4096;
  family.eps = 1e-5;
  family.paddingIdx = 32000;
  family.isFused = true;
  family.attentionOutputDropout = family.mlpOutputDropout =
      config.getDropout("resid_pdrop", 0);
  int64_t window = config.getWindow("sliding_window", 0);
  family.getKind = [=](int64_t) { return LayerKind{window}; };
  family.getRopes = [&](RopeShape shape) {
    shape.isPartial = true;
    shape.onlyLongRope = true;
    shape.original = config.getSize("original_max_position_embeddings", 4096);
    return std::vector<Rope>{getRope(config, shape)};
  };
  return buildDecoder(config, family);
}

Family import::getPhi3Family() {
  static const std::vector<Key> keys = makePartialKeys(
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
       fixed("lm_head_bias", {"false"})});
  return {"phi3", "Phi3ForCausalLM", keys, buildPhi3};
}

static OwningOpRef<ModuleOp> buildStableLM(const Config &config) {
  Decoder family;
  family.architecture = "stablelm";
  family.maxPositions = 4096;
  family.eps = 1e-5;
  family.kvHeads = 32;
  family.layerNorm = true;
  family.qkvBias = config.getBool("use_qkv_bias", false);
  family.isParallel = config.getBool("use_parallel_residual", false);
  family.mlpOutputDropout = config.getDropout("hidden_dropout", 0);
  family.getRopes = [&](RopeShape shape) {
    shape.isPartial = true;
    shape.part = 0.25;
    return std::vector<Rope>{getRope(config, shape)};
  };
  return buildDecoder(config, family);
}

Family import::getStableLMFamily() {
  static const std::vector<Key> keys = makePartialKeys(
      {function("layer_norm_eps"), function("use_qkv_bias"),
       function("use_parallel_residual"), training("hidden_dropout"),
       function("num_key_value_heads"), fixed("head_dim", {"null"}),
       fixed("qk_layernorm", {"false"})});
  return {"stablelm", "StableLmForCausalLM", keys, buildStableLM};
}
