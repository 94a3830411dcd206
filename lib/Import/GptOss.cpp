//===- GptOss.cpp - gpt-oss -----------------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

static OwningOpRef<ModuleOp> buildGptOss(const Config &config) {
  Decoder family;
  family.architecture = "gpt_oss";
  family.maxPositions = 131072;
  family.vocabSize = 201088;
  family.heads = 64;
  family.kvHeads = 8;
  family.headDim = 64;
  family.eps = 1e-5;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", true);
  family.hasSinks = true;
  family.ropes[0].theta = 150000.0;
  // transformers has an object of its own in their place.
  if (!config["rope_parameters"].isObject() &&
      !config["rope_scaling"].isObject())
    config["rope_parameters"].error(
        "is needed, as is or as rope_scaling: the rotary embeddings of gpt-oss "
        "have no default here (the published models have rope_type yarn)");
  Mixture &mixture = family.mixture;
  family.hasOnlyMixtures = true;
  mixture.inner = config.getSize("intermediate_size", 2880);
  readExperts(config, "num_local_experts", 128, 4, mixture);
  mixture.isStacked = true;
  mixture.router = "router";
  mixture.gate = "gate_up_proj";
  mixture.gluAlpha = config.getPositive("swiglu_alpha", 1.702);
  mixture.gluLimit = config.getPositive("swiglu_limit", 7.0);
  int64_t window = config.getWindow("sliding_window", 128);
  LayerKind full, sliding;
  full.isSparse = sliding.isSparse = true;
  sliding.window = window;
  family.setLayerTypes(config, full, sliding, /*pattern=*/2);
  return buildDecoder(config, family);
}

/// Checkpoints in MXFP4 are read (checkpoint/PackedExperts.h).
static ArrayRef<Key> getQuantizationKeys() {
  static const std::vector<Key> keys = {fixed("quant_method", {"\"mxfp4\""}),
                                        harmless("modules_to_not_convert"),
                                        harmless("dequantize")};
  return keys;
}

static Family getGptOss() {
  static const std::vector<Key> keys = [] {
    Key quantization = harmless("quantization_config");
    quantization.members = getQuantizationKeys();
    return makeMixtureKeys(
        {function("attention_bias"), function("swiglu_alpha"),
         function("swiglu_limit"),
         function("num_local_experts").orCalled("num_experts"),
         function("sliding_window").orNull(), function("layer_types").orNull(),
         std::move(quantization),
         // transformers reads neither; the activation is always the same.
         harmless("hidden_act"), harmless("initial_context_length"),
         harmless("experts_per_token")});
  }();
  return {"gpt_oss", "GptOssForCausalLM", keys, buildGptOss};
}

std::vector<Family> import::getGptOssFamilies() { return {getGptOss()}; }
