//===- GPT2.cpp - GPT-2 ---------------------------------------------------===//
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

static OwningOpRef<ModuleOp> buildGPT2(const Config &config) {
  int64_t vocabSize = config.getSize("vocab_size");
  int64_t hidden = config.getSize("n_embd");
  int64_t layers = config.getLayers("n_layer");
  int64_t positions = config.getSize("n_positions", 1024);
  double eps = config.getEpsilon("layer_norm_epsilon", 1e-5);
  double stdDev = config.getPositive("initializer_range", 0.02);
  double embeddingDropout = config.getDropout("embd_pdrop", 0.1);
  double residualDropout = config.getDropout("resid_pdrop", 0.1);
  std::string activation =
      config.getActivation("activation_function", "gelu_new");
  bool tied = config.getBool("tie_word_embeddings", true);
  bool scaled = config.getBool("scale_attn_weights", true);
  int64_t seqLen = config.getSeqLen(positions, /*learned=*/true);
  Unit::Attention attention;
  attention.heads = attention.kvHeads = config.getSize("n_head");
  attention.dropout = config.getDropout("attn_pdrop", 0.1);
  attention.causal = true;
  if (config.failed())
    return {};
  int64_t inner = config.getSize("n_inner", 4 * hidden);
  config.checkSize("4 * n_embd", 4.0 * hidden);
  attention.headDim =
      config.divide("n_embd", hidden, "n_head", attention.heads);
  attention.scale =
      scaled ? 1 / std::sqrt(static_cast<double>(attention.headDim)) : 1.0;
  if (config.failed())
    return {};
  // Each layer adds to the residual stream twice.
  double residualStdDev = stdDev / std::sqrt(2.0 * layers);

  ModelBuilder model(config.context, config.file, seqLen, config.isPacked());
  Type activations = model.getActivationType(hidden);
  const auto inOut = nn::WeightLayout::InOut; // Conv1D

  Unit &embed = model.define(
      "embed", model.getIdsType(),
      embeddingDropout > 0 || config.getNoiseAlpha() > 0,
      [&](Unit &unit) {
        Value x = unit.embedding("transformer.wte", unit.getInput(0), vocabSize,
                                 hidden, stdDev);
        x = unit.noise("transformer.wte", x, config.getNoiseAlpha());
        x = unit.positionEmbedding("transformer.wpe", x, positions, stdDev,
                                   /*constantRow=*/false);
        return unit.dropout("transformer.drop", x, embeddingDropout);
      },
      /*locates=*/true);
  Unit &block = model.define(
      "block", activations, attention.dropout > 0 || residualDropout > 0,
      [&](Unit &unit) {
        Value x = unit.getInput(0);
        Value normed = unit.layerNorm("ln_1", x, eps);
        Value packed =
            unit.linear("attn.c_attn", normed, 3 * hidden, stdDev, true, inOut);
        Value mixed = unit.attention("attn", packed, {}, {}, attention);
        Value delta = unit.linear("attn.c_proj", mixed, hidden, residualStdDev,
                                  true, inOut);
        x = unit.add(
            x, unit.dropout("attn.resid_dropout", delta, residualDropout));
        normed = unit.layerNorm("ln_2", x, eps);
        Value wide =
            unit.linear("mlp.c_fc", normed, inner, stdDev, true, inOut);
        delta = unit.linear("mlp.c_proj", unit.activation(activation, wide),
                            hidden, residualStdDev, true, inOut);
        return unit.add(x, unit.dropout("mlp.dropout", delta, residualDropout));
      },
      /*locates=*/true);
  Unit &head = model.define("head", activations, false, [&](Unit &unit) {
    Value x = unit.layerNorm("transformer.ln_f", unit.getInput(0), eps);
    return unit.linear(tied ? "transformer.wte" : "lm_head", x, vocabSize,
                       stdDev, false);
  });
  Unit &loss = model.defineLoss(vocabSize);

  Value x = model.call(embed, model.getIds());
  for (int64_t layer = 0; layer < layers; ++layer)
    x = model.call(block, x, "transformer.h." + std::to_string(layer) + ".");
  Value logits = model.call(head, x);
  return config.finish(model, model.call(loss, {logits, model.getTargets()}),
                       {"gpt2", "causal", vocabSize, seqLen, hidden, layers});
}

static Family getGPT2() {
  static const std::vector<Key> keys = {
      function("vocab_size"), function("n_embd").orCalled("hidden_size"),
      function("n_layer").orCalled("num_hidden_layers"),
      function("n_head").orCalled("num_attention_heads"),
      function("n_positions").orCalled("max_position_embeddings"),
      function("n_inner").orNull(), function("activation_function"),
      function("layer_norm_epsilon"), function("scale_attn_weights"),
      function("tie_word_embeddings"), training("resid_pdrop"),
      training("embd_pdrop"), training("attn_pdrop"),
      training("initializer_range"),
      fixed("scale_attn_by_inverse_layer_idx", {"false"}),
      fixed("is_causal", {"true"}),
      // The same mathematics in another order.
      harmless("reorder_and_upcast_attn"), harmless("is_decoder"),
      harmless("pad_token_id"),
      // A key of earlier versions, always equal to n_positions.
      harmless("n_ctx"),
      // Keys of the head for multiple choice.
      harmless("summary_type"), harmless("summary_use_proj"),
      harmless("summary_activation"), harmless("summary_proj_to_labels"),
      harmless("summary_first_dropout")};
  return {"gpt2", "GPT2LMHeadModel", keys, buildGPT2};
}

std::vector<Family> import::getGPT2Families() { return {getGPT2()}; }
