//===- Bert.cpp - BERT with its masked-LM head ----------------------------===//
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

static OwningOpRef<ModuleOp> buildBert(const Config &config) {
  int64_t vocabSize = config.getSize("vocab_size");
  int64_t hidden = config.getSize("hidden_size");
  int64_t inner = config.getSize("intermediate_size");
  int64_t layers = config.getLayers("num_hidden_layers");
  int64_t positions = config.getSize("max_position_embeddings", 512);
  int64_t tokenTypes = config.getSize("type_vocab_size", 2);
  double eps = config.getEpsilon("layer_norm_eps", 1e-12);
  double stdDev = config.getPositive("initializer_range", 0.02);
  double dropout = config.getDropout("hidden_dropout_prob", 0.1);
  std::string activation = config.getActivation("hidden_act", "gelu");
  int64_t seqLen = config.getSeqLen(positions, /*learned=*/true);
  Unit::Attention attention;
  attention.heads = attention.kvHeads = config.getSize("num_attention_heads");
  attention.dropout = config.getDropout("attention_probs_dropout_prob", 0.1);
  attention.causal = false;
  std::optional<int64_t> paddingIdx =
      config.getPaddingIdx(vocabSize, /*fallback=*/0);
  SpecialTokens tokens = config.getSpecialTokens(vocabSize);
  if (config.failed())
    return {};
  attention.headDim = config.divide("hidden_size", hidden,
                                    "num_attention_heads", attention.heads);
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.headDim));
  if (config.failed())
    return {};

  ModelBuilder model(config.context, config.file, seqLen, config.isPacked());
  Type activations = model.getActivationType(hidden);
  const std::string embeddings = "bert.embeddings.";
  const std::string words = embeddings + "word_embeddings";

  // Every token is of the first type.
  Unit &embed = model.define(
      "embed", model.getIdsType(), dropout > 0 || config.getNoiseAlpha() > 0,
      [&](Unit &unit) {
        Value x = unit.embedding(words, unit.getInput(0), vocabSize, hidden,
                                 stdDev, paddingIdx);
        x = unit.noise(words, x, config.getNoiseAlpha());
        x = unit.positionEmbedding(embeddings + "token_type_embeddings", x,
                                   tokenTypes, stdDev, /*constantRow=*/true);
        x = unit.positionEmbedding(embeddings + "position_embeddings", x,
                                   positions, stdDev, /*constantRow=*/false);
        x = unit.layerNorm(embeddings + "LayerNorm", x, eps);
        return unit.dropout(embeddings + "dropout", x, dropout);
      });
  // The norm follows the addition.
  Unit &block = model.define(
      "block", activations, dropout > 0 || attention.dropout > 0,
      [&](Unit &unit) {
        Value x = unit.getInput(0);
        Value query =
            unit.linear("attention.self.query", x, hidden, stdDev, true);
        Value key = unit.linear("attention.self.key", x, hidden, stdDev, true);
        Value value =
            unit.linear("attention.self.value", x, hidden, stdDev, true);
        Value mixed =
            unit.attention("attention.self", query, key, value, attention);
        Value delta =
            unit.linear("attention.output.dense", mixed, hidden, stdDev, true);
        delta = unit.dropout("attention.output.dropout", delta, dropout);
        x = unit.layerNorm("attention.output.LayerNorm", unit.add(delta, x),
                           eps);
        Value wide = unit.linear("intermediate.dense", x, inner, stdDev, true);
        delta = unit.linear("output.dense", unit.activation(activation, wide),
                            hidden, stdDev, true);
        delta = unit.dropout("output.dropout", delta, dropout);
        return unit.layerNorm("output.LayerNorm", unit.add(delta, x), eps);
      });
  // The decoder's matrix is the word embeddings', its bias is the head's own.
  Unit &head = model.define("head", activations, false, [&](Unit &unit) {
    const std::string transform = "cls.predictions.transform.";
    Value x = unit.linear(transform + "dense", unit.getInput(0), hidden, stdDev,
                          true);
    x = unit.layerNorm(transform + "LayerNorm", unit.activation(activation, x),
                       eps);
    return unit.linear(words, x, vocabSize, stdDev, true,
                       nn::WeightLayout::OutIn, "cls.predictions.bias");
  });
  Unit &loss = model.defineLoss(vocabSize);

  Value x = model.call(embed, model.getIds());
  for (int64_t layer = 0; layer < layers; ++layer)
    x = model.call(block, x,
                   "bert.encoder.layer." + std::to_string(layer) + ".");
  Value logits = model.call(head, x);
  return config.finish(
      model, model.call(loss, {logits, model.getTargets()}),
      {"bert", "masked", vocabSize, seqLen, hidden, layers, std::move(tokens)});
}

static Family getBert() {
  static const std::vector<Key> keys = {
      function("vocab_size"), function("hidden_size"),
      function("intermediate_size"), function("num_hidden_layers"),
      function("num_attention_heads"), function("max_position_embeddings"),
      function("type_vocab_size"), function("layer_norm_eps"),
      function("hidden_act"), training("hidden_dropout_prob"),
      training("attention_probs_dropout_prob"), training("initializer_range"),
      training("pad_token_id").orNull(), training("mask_token_id").orNull(),
      fixed("tie_word_embeddings", {"true"}), fixed("is_decoder", {"false"}),
      fixed("is_causal", {"false"}),
      fixed("position_embedding_type", {"\"absolute\""}),
      // Keys of the first BERTs, for a pooler that this head does not have.
      fixed("directionality", {"\"bidi\""}), harmless("pooler_fc_size"),
      harmless("pooler_num_attention_heads"), harmless("pooler_num_fc_layers"),
      harmless("pooler_size_per_head"), harmless("pooler_type"),
      harmless("language"), harmless("name")};
  return {"bert", "BertForMaskedLM", keys, buildBert};
}

std::vector<Family> import::getBertFamilies() { return {getBert()}; }
