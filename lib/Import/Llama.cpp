//===- Llama.cpp - Llama, Mistral, Qwen2 ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

namespace {
/// What the members of the family do differently.
struct Variant {
  StringRef architecture;
  int64_t maxPositions;
  /// Of q, k and v; of the attention's output; of the feed-forward layers.
  bool qkvBias = false, outputBias = false, mlpBias = false;
  /// Where num_key_value_heads is absent; 0: as many as heads.
  int64_t kvHeads = 0;
  /// Attention window of each layer, 0 for none.
  llvm::function_ref<int64_t(int64_t layer)> window;
};
} // namespace

static OwningOpRef<ModuleOp> buildDecoder(const Config &config,
                                          const Variant &family) {
  int64_t vocabSize = config.getSize("vocab_size");
  int64_t hidden = config.getSize("hidden_size");
  int64_t inner = config.getSize("intermediate_size");
  int64_t layers = config.getLayers("num_hidden_layers");
  int64_t positions =
      config.getSize("max_position_embeddings", family.maxPositions);
  double eps = config.getPositive("rms_norm_eps", 1e-6);
  double stdDev = config.getPositive("initializer_range", 0.02);
  double dropout = config.getDropout("attention_dropout", 0);
  std::string activation = config.getActivation("hidden_act", "silu");
  bool tied = config.getBool("tie_word_embeddings", false);
  int64_t seqLen = config.getSeqLen(positions, /*learned=*/false);

  Unit::Attention attention;
  attention.heads = config.getSize("num_attention_heads");
  attention.kvHeads = config.getSize(
      "num_key_value_heads", family.kvHeads ? family.kvHeads : attention.heads,
      /*ofNull=*/attention.heads);
  if (config.failed())
    return {};
  config.divide("num_attention_heads", attention.heads, "num_key_value_heads",
                attention.kvHeads);
  // Where head_dim is given, the heads need not divide the hidden size.
  if (!config["head_dim"].isPresent())
    config.divide("hidden_size", hidden, "num_attention_heads",
                  attention.heads);
  attention.headDim = config.getSize("head_dim", hidden / attention.heads);
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.headDim));
  attention.causal = true;
  attention.dropout = dropout;
  int64_t queryWidth = attention.heads * attention.headDim;
  int64_t keyWidth = attention.kvHeads * attention.headDim;
  config.checkSize("num_attention_heads * head_dim",
                   static_cast<double>(attention.heads) * attention.headDim);
  if (config.failed())
    return {};
  std::vector<double> frequencies =
      getInverseFrequencies(config, attention.headDim, positions);
  if (config.failed())
    return {};

  std::optional<int64_t> paddingIdx =
      config.getPaddingIdx(vocabSize, /*fallback=*/std::nullopt);
  if (config.failed())
    return {};

  ModelBuilder model(config.context, config.file, seqLen);
  Type activations = model.getActivationType(hidden);

  Unit &embed =
      model.define("embed", model.getIdsType(), false, [&](Unit &unit) {
        return unit.embedding("model.embed_tokens", unit.getInput(0), vocabSize,
                              hidden, stdDev, paddingIdx);
      });

  auto buildBlock = [&](Unit &unit) -> Value {
    Value x = unit.getInput(0);
    Value normed = unit.rmsNorm("input_layernorm", x, eps);
    Value query = unit.linear("self_attn.q_proj", normed, queryWidth, stdDev,
                              family.qkvBias);
    Value key = unit.linear("self_attn.k_proj", normed, keyWidth, stdDev,
                            family.qkvBias);
    Value value = unit.linear("self_attn.v_proj", normed, keyWidth, stdDev,
                              family.qkvBias);
    query = unit.rope("self_attn.rotary_emb", query, attention.headDim,
                      frequencies);
    key =
        unit.rope("self_attn.rotary_emb", key, attention.headDim, frequencies);
    Value mixed = unit.attention("self_attn", query, key, value, attention);
    x = unit.add(x, unit.linear("self_attn.o_proj", mixed, hidden, stdDev,
                                family.outputBias));
    normed = unit.rmsNorm("post_attention_layernorm", x, eps);
    Value gate =
        unit.linear("mlp.gate_proj", normed, inner, stdDev, family.mlpBias);
    Value up =
        unit.linear("mlp.up_proj", normed, inner, stdDev, family.mlpBias);
    Value product = unit.multiply(unit.activation(activation, gate), up);
    return unit.add(x, unit.linear("mlp.down_proj", product, hidden, stdDev,
                                   family.mlpBias));
  };
  // One unit for all layers, or two where only some have a window.
  std::map<int64_t, Unit *> blocks;
  for (int64_t layer = 0; layer < layers; ++layer) {
    attention.window = family.window(layer);
    Unit *&block = blocks[attention.window];
    if (!block)
      block = &model.define(blocks.size() == 1 ? "block" : "block_alternate",
                            activations, dropout > 0, buildBlock);
  }

  Unit &head = model.define("head", activations, false, [&](Unit &unit) {
    Value x = unit.rmsNorm("model.norm", unit.getInput(0), eps);
    return unit.linear(tied ? "model.embed_tokens" : "lm_head", x, vocabSize,
                       stdDev, false);
  });
  Unit &loss = model.defineLoss(vocabSize);

  Value x = model.call(embed, model.getIds());
  for (int64_t layer = 0; layer < layers; ++layer)
    x = model.call(*blocks[family.window(layer)], x,
                   "model.layers." + std::to_string(layer) + ".");
  Value logits = model.call(head, x);
  return config.finish(
      model, model.call(loss, {logits, model.getTargets()}),
      {family.architecture, "causal", vocabSize, seqLen, hidden, layers});
}

/// Keys of all members, and what they have beside them.
static std::vector<Key> makeTable(std::vector<Key> table) {
  for (const char *name : {"vocab_size", "hidden_size", "intermediate_size",
                           "num_hidden_layers", "num_attention_heads",
                           "rms_norm_eps", "hidden_act", "tie_word_embeddings"})
    table.push_back(function(name));
  table.push_back(function("num_key_value_heads").orNull());
  table.push_back(function("head_dim").orNull());
  // Positions decide only through rotary embeddings, which record them.
  table.push_back(training("max_position_embeddings"));
  table.push_back(training("initializer_range"));
  table.push_back(training("attention_dropout"));
  table.push_back(training("pad_token_id").orNull());
  table.push_back(fixed("is_causal", {"true"}));
  table.push_back(harmless("is_decoder"));
  table.push_back(fixed("use_mrope", {"false"}));
  llvm::append_range(table, getRopeKeys());
  return table;
}

static OwningOpRef<ModuleOp> buildLlama(const Config &config) {
  bool bias = config.getBool("attention_bias", false);
  bool mlpBias = config.getBool("mlp_bias", false);
  return buildDecoder(config, {"llama", 2048, bias, bias, mlpBias, 0,
                               [](int64_t) { return 0; }});
}

Family import::getLlamaFamily() {
  static const std::vector<Key> keys =
      makeTable({function("attention_bias"), function("mlp_bias"),
                 fixed("sliding_window", {"null", "false"}),
                 fixed("rope_interleaved", {"false"}),
                 harmless("is_llama_config"), harmless("max_sequence_length")});
  return {"llama", "LlamaForCausalLM", keys, buildLlama};
}

static OwningOpRef<ModuleOp> buildMistral(const Config &config) {
  // Null: no window; absent: the default of the first Mistral.
  json::Value value = config["sliding_window"];
  int64_t window = 0;
  if (!value.isNull())
    window = value.isPresent() ? value.getInteger(1, int64_t(1) << 31) : 4096;
  llvm::json::Value fact = nullptr;
  if (window)
    fact = window;
  config.record("sliding_window", {std::move(fact), 4096, nullptr});
  return buildDecoder(config, {"mistral", 4096 * 32, false, false, false, 8,
                               [=](int64_t) { return window; }});
}

Family import::getMistralFamily() {
  static const std::vector<Key> keys = makeTable(
      {function("sliding_window").orNull(), fixed("attention_bias", {"false"}),
       fixed("mlp_bias", {"false"})});
  return {"mistral", "MistralForCausalLM", keys, buildMistral};
}

/// Whether each layer has the window: as `layer_types` says, otherwise those
/// from max_window_layers on.
static std::vector<bool> getWindowedLayers(const Config &config, int64_t layers,
                                           bool used) {
  int64_t first = 28;
  if (config["max_window_layers"].isPresent())
    first = config["max_window_layers"].getInteger(0);
  json::Value types = config["layer_types"];
  if (types.isPresent() && types.size() != static_cast<size_t>(layers))
    types.error("expected an array of num_hidden_layers = " +
                std::to_string(layers) + " names");
  std::vector<bool> windowed;
  llvm::json::Array names, fallback;
  for (int64_t layer = 0; layer < layers && !config.failed(); ++layer) {
    bool isLate = used && layer >= first;
    windowed.push_back(isLate);
    if (types.isPresent()) {
      json::Value type = types[layer];
      std::string name = type.getString();
      windowed.back() = name == "sliding_attention";
      if (name != "full_attention" && !(used && windowed.back()))
        type.error("'" + name + "' is not supported (only 'full_attention', " +
                   "and 'sliding_attention' where use_sliding_window is true)");
    }
    names.push_back(windowed.back() ? "sliding_attention" : "full_attention");
    fallback.push_back(isLate ? "sliding_attention" : "full_attention");
  }
  config.record("layer_types", {std::move(names), std::move(fallback)});
  if (used)
    config.record("max_window_layers", {first, 28});
  return windowed;
}

static OwningOpRef<ModuleOp> buildQwen2(const Config &config) {
  bool used = config.getBool("use_sliding_window", false);
  int64_t window = 0;
  if (used && !config["sliding_window"].isNull())
    window = config.getSize("sliding_window", 4096);
  else if (used)
    config["sliding_window"].error("expected a number, as use_sliding_window "
                                   "is true, found null");
  int64_t layers = config.getLayers("num_hidden_layers");
  if (config.failed())
    return {};
  std::vector<bool> windowed = getWindowedLayers(config, layers, used);
  if (config.failed())
    return {};
  auto windowOf = [&](int64_t layer) { return windowed[layer] ? window : 0; };
  return buildDecoder(config,
                      {"qwen2", 32768, true, false, false, 32, windowOf});
}

Family import::getQwen2Family() {
  static const std::vector<Key> keys = makeTable(
      {function("use_sliding_window"), function("sliding_window").orNull(),
       function("max_window_layers"), function("layer_types").orNull()});
  return {"qwen2", "Qwen2ForCausalLM", keys, buildQwen2};
}
