//===- Olmo.cpp - OLMo2, OLMo3 and EXAONE 4 -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families with norms after attention and feed-forward layers alone.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

//===----------------------------------------------------------------------===//
// OLMo2 and OLMo3
//===----------------------------------------------------------------------===//

static Decoder makeOlmo(const Config &config, StringRef architecture) {
  Decoder family;
  family.architecture = architecture;
  family.eps = 1e-5;
  family.paddingIdx = 1;
  family.preNorm = false;
  family.postNorm = true;
  family.qkNorm = Decoder::QKNorm::Whole;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  return family;
}

static OwningOpRef<ModuleOp> buildOlmo2(const Config &config) {
  return buildDecoder(config, makeOlmo(config, "olmo2"));
}

static Family getOlmo2() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("attention_bias")});
  return {"olmo2", "Olmo2ForCausalLM", keys, buildOlmo2};
}

/// Scaled rotary embeddings are those of layers without a window.
static OwningOpRef<ModuleOp> buildOlmo3(const Config &config) {
  Decoder family = makeOlmo(config, "olmo3");
  RopeShape full, sliding;
  full.theta = sliding.theta = 500000;
  full.layerType = "full_attention";
  sliding.layerType = "sliding_attention";
  sliding.hasScaling = false;
  // A rope_theta beside the objects is that of the other layers.
  sliding.thetaKey = nullptr;
  family.ropes = {full, sliding};
  int64_t window = config.getSize("sliding_window", 4096);
  family.setLayerTypes(config, /*full=*/{0, 0}, /*sliding=*/{window, 1},
                       /*pattern=*/4);
  return buildDecoder(config, family);
}

static Family getOlmo3() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("attention_bias"), function("sliding_window"),
                       function("layer_types").orNull()},
                      getLayeredRopeKeys());
  return {"olmo3", "Olmo3ForCausalLM", keys, buildOlmo3};
}

//===----------------------------------------------------------------------===//
// EXAONE 4
//===----------------------------------------------------------------------===//

/// Layers without a window rotate nothing, where others have one.
static OwningOpRef<ModuleOp> buildExaone4(const Config &config) {
  Decoder family;
  family.architecture = "exaone4";
  family.eps = 1e-5;
  family.kvHeads = 32;
  family.preNorm = false;
  family.postNorm = true;
  family.qkNorm = Decoder::QKNorm::PerHead;
  int64_t window = config.getWindow("sliding_window", 4096);
  int64_t pattern = 1;
  if (window && !config["layer_types"].isPresent())
    pattern = config.getSize("sliding_window_pattern", 4);
  if (config.failed())
    return {};
  family.setLayerTypes(config, /*full=*/{0, window ? -1 : 0},
                       /*sliding=*/{window, 0}, pattern);
  return buildDecoder(config, family);
}

static Family getExaone4() {
  static const std::vector<Key> keys =
      makeDecoderKeys({function("sliding_window").orNull(),
                       function("sliding_window_pattern").orNull(),
                       function("layer_types").orNull()});
  return {"exaone4", "Exaone4ForCausalLM", keys, buildExaone4};
}

std::vector<Family> import::getOlmoFamilies() {
  return {getOlmo2(), getOlmo3(), getExaone4()};
}
