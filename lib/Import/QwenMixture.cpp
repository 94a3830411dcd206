//===- QwenMixture.cpp - Qwen2-MoE and Qwen3-MoE --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"
#include "Qwen.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

//===----------------------------------------------------------------------===//
// Qwen2-MoE
//===----------------------------------------------------------------------===//

/// Every other layer of the first ones, as transformers has it.
static bool isEarlyAndEven(int64_t layer, int64_t maxLayers) {
  return layer % 2 == 0 && layer < maxLayers;
}

static OwningOpRef<ModuleOp> buildQwen2Moe(const Config &config) {
  Decoder family;
  family.architecture = "qwen2_moe";
  family.maxPositions = 32768;
  family.kvHeads = 16;
  family.qkvBias = config.getBool("qkv_bias", true);
  Mixture &mixture = family.mixture;
  mixture.inner = config.getSize("moe_intermediate_size", 1408);
  mixture.sharedInner = config.getSize("shared_expert_intermediate_size", 5632);
  readExperts(config, "num_experts", 60, 4, mixture);
  mixture.normalized = config.getBool("norm_topk_prob", false);
  setQwenWindows(config, family, isEarlyAndEven);
  setSparseLayers(config, family);
  return buildDecoder(config, family);
}

static Family getQwen2Moe() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> own = {function("qkv_bias"),
                            function("num_experts"),
                            function("moe_intermediate_size"),
                            function("shared_expert_intermediate_size"),
                            function("norm_topk_prob"),
                            function("decoder_sparse_step"),
                            function("mlp_only_layers").orNull()};
    llvm::append_range(own, getQwenWindowKeys());
    return makeMixtureKeys(std::move(own));
  }();
  return {"qwen2_moe", "Qwen2MoeForCausalLM", keys, buildQwen2Moe};
}

//===----------------------------------------------------------------------===//
// Qwen3-MoE
//===----------------------------------------------------------------------===//

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
  family.setWindow(window);
  setSparseLayers(config, family);
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

std::vector<Family> import::getQwenMixtureFamilies() {
  return {getQwen2Moe(), getQwen3Moe()};
}
