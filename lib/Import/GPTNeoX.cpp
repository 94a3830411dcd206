//===- GPTNeoX.cpp - GPT-NeoX and Pythia ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

static Rope getPartialRope(const Config &config, int64_t headDim,
                           int64_t positions, int64_t seqLen) {
  RopeShape shape{headDim, positions, seqLen};
  shape.isPartial = true;
  shape.part = 0.25;
  shape.thetaKey = "rotary_emb_base";
  shape.partKey = "rotary_pct";
  return getRope(config, shape);
}

static OwningOpRef<ModuleOp> buildGPTNeoX(const Config &config) {
  int64_t vocabSize = config.getSize("vocab_size");
  int64_t hidden = config.getSize("hidden_size");
  int64_t inner = config.getSize("intermediate_size");
  int64_t layers = config.getLayers("num_hidden_layers");
  int64_t positions = config.getSize("max_position_embeddings", 2048);
  double eps = config.getEpsilon("layer_norm_eps", 1e-5);
  double stdDev = config.getPositive("initializer_range", 0.02);
  double dropout = config.getDropout("hidden_dropout", 0);
  std::string activation = config.getActivation("hidden_act", "gelu");
  bool tied = config.getBool("tie_word_embeddings", false);
  bool isParallel = config.getBool("use_parallel_residual", true);
  bool bias = config.getBool("attention_bias", true);
  int64_t seqLen = config.getSeqLen(positions, /*learned=*/false);
  Unit::Attention attention;
  attention.heads = attention.kvHeads = config.getSize("num_attention_heads");
  attention.dropout = config.getDropout("attention_dropout", 0);
  attention.causal = true;
  if (config.failed())
    return {};
  attention.headDim = config.divide("hidden_size", hidden,
                                    "num_attention_heads", attention.heads);
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.headDim));
  config.checkSize("3 * hidden_size", 3.0 * hidden);
  if (config.failed())
    return {};
  Rope rope = getPartialRope(config, attention.headDim, positions, seqLen);
  if (config.failed())
    return {};

  ModelBuilder model(config.context, config.file, seqLen, config.isPacked());
  Type activations = model.getActivationType(hidden);

  Unit &embed = model.define(
      "embed", model.getIdsType(), dropout > 0 || config.getNoiseAlpha() > 0,
      [&](Unit &unit) {
        Value x = unit.embedding("gpt_neox.embed_in", unit.getInput(0),
                                 vocabSize, hidden, stdDev);
        x = unit.noise("gpt_neox.embed_in", x, config.getNoiseAlpha());
        return unit.dropout("gpt_neox.emb_dropout", x, dropout);
      });
  auto attend = [&](Unit &unit, Value x) {
    // q, k and v of the first head, then those of the next one, ...
    Value packed =
        unit.linear("attention.query_key_value", x, 3 * hidden, stdDev, bias);
    packed = unit.regroup("attention", packed, attention.heads, 3);
    packed = unit.rope("attention.rotary_emb", packed, attention.headDim, rope,
                       2 * attention.heads);
    Value mixed = unit.attention("attention", packed, {}, {}, attention);
    Value delta = unit.linear("attention.dense", mixed, hidden, stdDev, bias);
    return unit.dropout("post_attention_dropout", delta, dropout);
  };
  auto feedForward = [&](Unit &unit, Value x) {
    Value wide = unit.linear("mlp.dense_h_to_4h", x, inner, stdDev, true);
    Value delta =
        unit.linear("mlp.dense_4h_to_h", unit.activation(activation, wide),
                    hidden, stdDev, true);
    return unit.dropout("post_mlp_dropout", delta, dropout);
  };
  Unit &block = model.define(
      "block", activations, attention.dropout > 0 || dropout > 0,
      [&](Unit &unit) {
        Value x = unit.getInput(0);
        Value delta = attend(unit, unit.layerNorm("input_layernorm", x, eps));
        if (!isParallel)
          x = unit.add(x, delta);
        Value second = feedForward(
            unit, unit.layerNorm("post_attention_layernorm", x, eps));
        if (isParallel)
          second = unit.add(second, delta);
        return unit.add(x, second);
      },
      /*locates=*/true);
  Unit &head = model.define("head", activations, false, [&](Unit &unit) {
    Value x =
        unit.layerNorm("gpt_neox.final_layer_norm", unit.getInput(0), eps);
    return unit.linear(tied ? "gpt_neox.embed_in" : "embed_out", x, vocabSize,
                       stdDev, false);
  });
  Unit &loss = model.defineLoss(vocabSize);

  Value x = model.call(embed, model.getIds());
  for (int64_t layer = 0; layer < layers; ++layer)
    x = model.call(block, x, "gpt_neox.layers." + std::to_string(layer) + ".");
  Value logits = model.call(head, x);
  return config.finish(
      model, model.call(loss, {logits, model.getTargets()}),
      {"gpt_neox", "causal", vocabSize, seqLen, hidden, layers});
}

static Family getGPTNeoX() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> table = {
        function("vocab_size"), function("hidden_size"),
        function("intermediate_size"), function("num_hidden_layers"),
        function("num_attention_heads"), function("hidden_act"),
        function("layer_norm_eps"), function("tie_word_embeddings"),
        function("use_parallel_residual"), function("attention_bias"),
        // Positions decide only through rotary embeddings, which record them.
        training("max_position_embeddings"), training("hidden_dropout"),
        training("attention_dropout"), training("initializer_range"),
        function("rotary_pct"), function("rotary_emb_base"),
        fixed("head_dim", {"null"}), fixed("is_causal", {"true"}),
        // GPT-NeoX 20B has these; its other names of dropout decide.
        fixed("attention_probs_dropout_prob", {"0", "0.0"}),
        fixed("hidden_dropout_prob", {"0", "0.0"}), harmless("is_decoder"),
        harmless("pad_token_id")};
    // Beside the objects, both keys have the names above.
    llvm::ArrayRef<Key> rope = getPartialRopeKeys();
    table.insert(table.end(), rope.begin(), rope.begin() + 2);
    return table;
  }();
  return {"gpt_neox", "GPTNeoXForCausalLM", keys, buildGPTNeoX};
}

std::vector<Family> import::getGPTNeoXFamilies() { return {getGPTNeoX()}; }
