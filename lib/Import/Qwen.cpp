//===- Qwen.cpp - Qwen2, Qwen3 and Qwen3.5 --------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Poplar/Runtime/Recurrent.h"
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

//===----------------------------------------------------------------------===//
// Qwen3.5
//===----------------------------------------------------------------------===//

/// Layers are of linear attention, but for those that `layer_types` calls
/// 'full_attention'; without it, for every `full_attention_interval`-th one.
static void setLinearLayers(const Config &config, Decoder &family) {
  int64_t layers = config.getLayers("num_hidden_layers"), interval = 4;
  json::Value types = config["layer_types"];
  if (!types.isPresent() || types.isNull())
    interval = config.getSize("full_attention_interval", 4);
  if (config.failed())
    return;
  std::vector<bool> fallback;
  for (int64_t layer = 0; layer < layers; ++layer)
    fallback.push_back((layer + 1) % interval != 0);
  std::vector<bool> linear =
      getNamedLayers(config, layers,
                     {"linear_attention", /*isSupported=*/true,
                      "'linear_attention' and 'full_attention'"},
                     fallback);
  family.getKind = [=](int64_t layer) {
    LayerKind kind;
    kind.isLinear = linear[layer];
    return kind;
  };
}

/// A size that the kernels limit.
static int64_t getLimited(const Config &config, const char *key,
                          int64_t fallback, int64_t limit) {
  int64_t size = config.getSize(key, fallback);
  if (size > limit)
    config[key].error("expected at most " + std::to_string(limit) + ", found " +
                      std::to_string(size));
  return size;
}

static OwningOpRef<ModuleOp> buildQwen35(const Config &config) {
  Decoder family;
  family.architecture = "qwen3_5_text";
  family.maxPositions = 32768;
  family.kvHeads = 4;
  family.headDim = 256;
  family.normOffset = 1;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  family.hasOutputGate = true;
  family.ropes[0].isPartial = true;
  family.ropes[0].part = 0.25;
  LinearAttention &linear = family.linear;
  Unit::GatedDelta &shape = linear.shape;
  linear.convWidth =
      getLimited(config, "linear_conv_kernel_dim", 4, POPLAR_MAX_CONV_WIDTH);
  shape.keyHeads = config.getSize("linear_num_key_heads", 16);
  shape.valueHeads = config.getSize("linear_num_value_heads", 32);
  shape.keyDim =
      getLimited(config, "linear_key_head_dim", 128, POPLAR_MAX_DELTA_DIM);
  shape.valueDim =
      getLimited(config, "linear_value_head_dim", 128, POPLAR_MAX_DELTA_DIM);
  if (config.failed())
    return {};
  config.divide("linear_num_value_heads", shape.valueHeads,
                "linear_num_key_heads", shape.keyHeads);
  config.checkSize("heads of linear attention",
                   2 * double(shape.keyHeads) * double(shape.keyDim) +
                       double(shape.valueHeads) * double(shape.valueDim));
  setLinearLayers(config, family);
  return buildDecoder(config, family);
}

/// Sections of rotary embeddings are of positions in images and of videos,
/// which are those of the text in a text.
static std::vector<Key> getSectionedRopeKeys() {
  std::vector<Key> keys(getPartialRopeKeys());
  static const std::vector<Key> members = [&] {
    std::vector<Key> known(keys[1].members);
    known.push_back(harmless("mrope_section"));
    known.push_back(harmless("mrope_interleaved"));
    return known;
  }();
  keys[0].members = keys[1].members = members;
  return keys;
}

static Family getQwen35() {
  static const std::vector<Key> keys = makeDecoderKeys(
      {function("attention_bias"), function("head_dim"),
       function("layer_types").orNull(), function("full_attention_interval"),
       function("linear_conv_kernel_dim"), function("linear_num_key_heads"),
       function("linear_num_value_heads"), function("linear_key_head_dim"),
       function("linear_value_head_dim"), fixed("attn_output_gate", {"true"}),
       fixed("output_gate_type", {"\"swish\"", "\"silu\""}),
       fixed("mlp_only_layers", {"[]"}),
       // The state is f32 here.
       fixed("mamba_ssm_dtype", {"\"float32\""}),
       // Layers that predict several tokens are no part of the model.
       harmless("mtp_num_hidden_layers"),
       harmless("mtp_use_dedicated_embeddings")},
      getSectionedRopeKeys());
  return {"qwen3_5_text", "Qwen3_5ForCausalLM", keys, buildQwen35};
}

std::vector<Family> import::getQwenFamilies() {
  return {getQwen2(), getQwen3(), getQwen35()};
}
