//===- Llama.cpp - Llama, Mistral, Qwen2 ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "llvm/ADT/Twine.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

namespace {
/// What the members of the family do differently.
struct Family {
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

/// Relatives of these models that differ by such keys would be imported
/// wrongly.
static void refuseRelatives(const Config &config) {
  for (const char *key :
       {"num_local_experts", "num_experts", "n_routed_experts",
        "moe_intermediate_size", "num_experts_per_tok"})
    if (config[key].isPresent())
      config[key].error("mixtures of experts are not supported");
  for (const char *key : {"attn_logit_softcapping", "final_logit_softcapping",
                          "quantization_config", "use_qk_norm", "qk_layernorm",
                          "clip_qkv", "kv_lora_rank", "is_encoder_decoder"})
    config.expectNeutral(key);
  for (const char *key : {"logit_scale", "logits_scaling",
                          "embedding_multiplier", "residual_multiplier"})
    config.expectNeutral(key, 1.0);
}

static OwningOpRef<ModuleOp> importFamily(const Config &config,
                                          const Family &family) {
  refuseRelatives(config);
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
  bool tied = config["tie_word_embeddings"].getBool(false);
  int64_t seqLen = config.getSeqLen(positions, /*learned=*/false);

  Unit::Attention attention;
  attention.heads = config.getSize("num_attention_heads");
  attention.kvHeads = config.getSize(
      "num_key_value_heads", family.kvHeads ? family.kvHeads : attention.heads);
  if (config.failed())
    return {};
  config.divide("num_attention_heads", attention.heads, "num_key_value_heads",
                attention.kvHeads);
  attention.headDim =
      config["head_dim"].isPresent()
          ? config.getSize("head_dim")
          : config.divide("hidden_size", hidden, "num_attention_heads",
                          attention.heads);
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
      getInverseFrequencies(config, attention.headDim);
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

OwningOpRef<ModuleOp> import::importLlama(const Config &config) {
  config.expectNeutral("sliding_window");
  bool bias = config["attention_bias"].getBool(false);
  bool mlpBias = config["mlp_bias"].getBool(false);
  return importFamily(config, {"llama", 2048, bias, bias, mlpBias, 0,
                               [](int64_t) { return 0; }});
}

OwningOpRef<ModuleOp> import::importMistral(const Config &config) {
  // Null: no window; absent: the default of the first Mistral.
  bool named = config["sliding_window"].describe() != "nothing";
  int64_t window = named ? config.getSize("sliding_window", 0) : 4096;
  return importFamily(config, {"mistral", 4096 * 32, false, false, false, 8,
                               [=](int64_t) { return window; }});
}

OwningOpRef<ModuleOp> import::importQwen2(const Config &config) {
  // Layers from max_window_layers on have the window, if it is used at all.
  bool used = config["use_sliding_window"].getBool(false);
  int64_t window = used ? config.getSize("sliding_window", 4096) : 0;
  int64_t first = 28;
  if (config["max_window_layers"].isPresent())
    first = config["max_window_layers"].getInteger(0);
  json::Value types = config["layer_types"];
  if (types.isPresent() && used)
    types.error("is not supported together with use_sliding_window (say "
                "max_window_layers instead)");
  auto windowOf = [=](int64_t layer) { return layer >= first ? window : 0; };
  return importFamily(config,
                      {"qwen2", 32768, true, false, false, 32, windowOf});
}
