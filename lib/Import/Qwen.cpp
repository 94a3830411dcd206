//===- Qwen.cpp - Qwen2 and Qwen3 -----------------------------------------===//
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

/// Sets the windows: of the layers that `layer_types` names, otherwise of those
/// from max_window_layers on.
static void setQwenWindows(const Config &config, Decoder &family) {
  bool used = config.getBool("use_sliding_window", false);
  int64_t window = 0;
  if (used && !config["sliding_window"].isNull())
    window = config.getSize("sliding_window", 4096);
  else if (used)
    config["sliding_window"].error("expected a number, as use_sliding_window "
                                   "is true, found null");
  int64_t layers = config.getLayers("num_hidden_layers");
  int64_t first = 28;
  if (config["max_window_layers"].isPresent())
    first = config["max_window_layers"].getInteger(0);
  if (config.failed())
    return;
  std::vector<bool> late;
  for (int64_t layer = 0; layer < layers; ++layer)
    late.push_back(used && layer >= first);
  std::vector<bool> windowed = getWindowedLayers(config, layers, used, late);
  if (used)
    config.record("max_window_layers", {first, 28});
  if (config.failed())
    return;
  family.getKind = [=](int64_t layer) {
    return LayerKind{windowed[layer] ? window : 0};
  };
}

static std::vector<Key> makeQwenKeys(std::vector<Key> table) {
  table.push_back(function("use_sliding_window"));
  table.push_back(function("sliding_window").orNull());
  table.push_back(function("max_window_layers"));
  table.push_back(function("layer_types").orNull());
  return makeDecoderKeys(std::move(table));
}

static OwningOpRef<ModuleOp> buildQwen2(const Config &config) {
  Decoder family;
  family.architecture = "qwen2";
  family.maxPositions = 32768;
  family.kvHeads = 32;
  family.qkvBias = true;
  setQwenWindows(config, family);
  return buildDecoder(config, family);
}

static Family getQwen2() {
  static const std::vector<Key> keys = makeQwenKeys({});
  return {"qwen2", "Qwen2ForCausalLM", keys, buildQwen2};
}

static OwningOpRef<ModuleOp> buildQwen3(const Config &config) {
  Decoder family;
  family.architecture = "qwen3";
  family.maxPositions = 32768;
  family.kvHeads = 32;
  family.headDim = 128;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  setQwenWindows(config, family);
  return buildDecoder(config, family);
}

static Family getQwen3() {
  static const std::vector<Key> keys =
      makeQwenKeys({function("attention_bias"), function("head_dim")});
  return {"qwen3", "Qwen3ForCausalLM", keys, buildQwen3};
}

std::vector<Family> import::getQwenFamilies() {
  return {getQwen2(), getQwen3()};
}
