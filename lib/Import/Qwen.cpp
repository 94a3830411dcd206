//===- Qwen.cpp - Qwen2 and Qwen3 -----------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Qwen.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

void import::setQwenWindows(const Config &config, Decoder &family,
                            bool (*isWindowed)(int64_t, int64_t)) {
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
  std::vector<bool> named;
  for (int64_t layer = 0; layer < layers; ++layer)
    named.push_back(used && isWindowed(layer, first));
  std::vector<bool> windowed = getWindowedLayers(config, layers, used, named);
  if (used)
    config.record("max_window_layers", {first, 28});
  if (config.failed())
    return;
  family.getKind = [=](int64_t layer) {
    return LayerKind{windowed[layer] ? window : 0};
  };
}

std::vector<Key> import::getQwenWindowKeys() {
  return {function("use_sliding_window"), function("sliding_window").orNull(),
          function("max_window_layers"), function("layer_types").orNull()};
}

static std::vector<Key> makeQwenKeys(std::vector<Key> table) {
  llvm::append_range(table, getQwenWindowKeys());
  return makeDecoderKeys(std::move(table));
}

static bool isLate(int64_t layer, int64_t maxLayers) {
  return layer >= maxLayers;
}

static OwningOpRef<ModuleOp> buildQwen2Like(const Config &config,
                                            StringRef architecture) {
  Decoder family;
  family.architecture = architecture;
  family.maxPositions = 32768;
  family.kvHeads = 32;
  family.qkvBias = true;
  setQwenWindows(config, family, isLate);
  return buildDecoder(config, family);
}

static OwningOpRef<ModuleOp> buildQwen2(const Config &config) {
  return buildQwen2Like(config, "qwen2");
}

static Family getQwen2() {
  static const std::vector<Key> keys = makeQwenKeys({});
  return {"qwen2", "Qwen2ForCausalLM", keys, buildQwen2};
}

/// Qwen2, as the code of its checkpoints has it, with layers that predict
/// several tokens (`model.mtp_layers`), which no forward pass has.
static OwningOpRef<ModuleOp> buildMiMo(const Config &config) {
  return buildQwen2Like(config, "mimo");
}

static Family getMiMo() {
  static const std::vector<Key> keys =
      makeQwenKeys({harmless("num_nextn_predict_layers"), harmless("auto_map"),
                    fixed("attention_bias", {"true"})});
  return {"mimo", "MiMoForCausalLM", keys, buildMiMo};
}

static OwningOpRef<ModuleOp> buildQwen3(const Config &config) {
  Decoder family;
  family.architecture = "qwen3";
  family.maxPositions = 32768;
  family.kvHeads = 32;
  family.headDim = 128;
  family.qkNorm = Decoder::QKNorm::PerHead;
  family.qkvBias = family.outputBias = config.getBool("attention_bias", false);
  setQwenWindows(config, family, isLate);
  return buildDecoder(config, family);
}

static Family getQwen3() {
  static const std::vector<Key> keys =
      makeQwenKeys({function("attention_bias"), function("head_dim")});
  return {"qwen3", "Qwen3ForCausalLM", keys, buildQwen3};
}

std::vector<Family> import::getQwenFamilies() {
  return {getMiMo(), getQwen2(), getQwen3()};
}
