//===- Cohere.cpp - Cohere 2 ----------------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

/// Layers without a window do not rotate. Attention and feed-forward layers
/// read one norm, which has no bias.
static OwningOpRef<ModuleOp> buildCohere2(const Config &config) {
  Decoder family;
  family.architecture = "cohere2";
  family.maxPositions = 8192;
  family.epsKey = "layer_norm_eps";
  family.eps = 1e-5;
  family.tied = true;
  family.paddingIdx = 0;
  family.layerNorm = true;
  family.normBias = false;
  family.isParallel = true;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.logitsScale = config.getPositive("logit_scale", 0.0625);
  family.ropes[0].isInterleaved = true;
  int64_t window = config.getWindow("sliding_window", 4096);
  int64_t pattern = 4;
  if (!config["layer_types"].isPresent() || config["layer_types"].isNull())
    pattern = config.getSize("sliding_window_pattern", pattern);
  if (config.failed())
    return {};
  family.setLayerTypes(config, {0, -1}, {window, 0}, pattern);
  return buildDecoder(config, family);
}

std::vector<Family> import::getCohereFamilies() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("layer_norm_eps"), function("logit_scale"),
       function("attention_bias"), function("sliding_window"),
       function("sliding_window_pattern"), function("layer_types").orNull(),
       // The first release has these, and could have had others.
       fixed("order_of_interleaved_layers", {"\"local_attn_first\""}),
       fixed("position_embedding_type", {"\"rope_gptj\""}),
       fixed("rotary_pct", {"1.0", "1"}), fixed("use_qk_norm", {"false"}),
       fixed("use_gated_activation", {"true"}),
       fixed("use_parallel_block", {"true"}), harmless("layer_switch"),
       harmless("use_embedding_sharing"), harmless("use_parallel_embedding"),
       harmless("cache_implementation")});
  return {{"cohere2", "Cohere2ForCausalLM", keys, buildCohere2}};
}
