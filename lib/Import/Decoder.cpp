//===- Decoder.cpp - Decoders of the shape of Llama -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace poplar;
using namespace poplar::import;

namespace {

/// What linear attention reads: q, k and v side by side, the gate behind the
/// norm, and the logits of the rates of learning and of decay.
struct LinearInputs {
  Value qkv, z, b, a;
};

/// A configuration on its way to a model.
class DecoderBuilder {
public:
  DecoderBuilder(const Config &config, const Decoder &family)
      : config(config), family(family) {}

  OwningOpRef<ModuleOp> build();

private:
  int64_t getSize(const char *key, int64_t fallback);
  bool readShape();
  bool readAttention();
  /// What layers pass on: the activations and, beside them, the sums that
  /// balance experts.
  int64_t getStreamWidth() const { return hidden + sumsWidth; }
  Value takeActivations(Unit &unit);
  Value takeSums(Unit &unit, Value stream);
  Value joinSums(Unit &unit, Value x, Value sums);
  Value norm(Unit &unit, StringRef name, Value x);
  Value embed(Unit &unit);
  Value projectQKV(Unit &unit, Value x, const LayerKind &kind);
  Value attend(Unit &unit, Value x, const LayerKind &kind);
  Value projectLinear(Unit &unit, Value x, StringRef leaf, int64_t width);
  LinearInputs projectFused(Unit &unit, Value x);
  LinearInputs projectApart(Unit &unit, Value x);
  Value attendLinearly(Unit &unit, Value x);
  Value widenGated(Unit &unit, Value x, StringRef module, StringRef up,
                   int64_t width);
  Value feedForward(Unit &unit, Value x);
  Value shareExpert(Unit &unit, Value x);
  Unit::Route chooseExperts(Unit &unit, Value x, bool bias, Value &sums);
  Value mixExperts(Unit &unit, Value x, Value &sums);
  Value mixStackedExperts(Unit &unit, Value x, Value &sums);
  Value addDelta(Unit &unit, Value x, Value delta, StringRef name, double p);
  Value buildBlock(Unit &unit, const LayerKind &kind);
  Value buildHead(Unit &unit);
  Value addBalance(ModelBuilder &model, Value loss, Value stream);

  const Config &config;
  const Decoder &family;
  int64_t vocabSize, hidden, inner, layers, positions, seqLen;
  /// Columns of the sums that balance experts; 0 where nothing does.
  int64_t sumsWidth = 0;
  double eps, stdDev;
  std::string activation;
  bool tied;
  std::optional<int64_t> paddingIdx;
  Unit::Attention attention;
  std::vector<Rope> ropes;
};

} // namespace

/// A size that must be there where the fallback is 0.
int64_t DecoderBuilder::getSize(const char *key, int64_t fallback) {
  return fallback ? config.getSize(key, fallback) : config.getSize(key);
}

/// Sizes and the like; false if one of them is wrong.
bool DecoderBuilder::readShape() {
  vocabSize = getSize("vocab_size", family.vocabSize);
  hidden = config.getSize("hidden_size");
  inner = family.hasOnlyMixtures ? 0 : config.getSize("intermediate_size");
  layers = config.getLayers("num_hidden_layers");
  positions = config.getSize("max_position_embeddings", family.maxPositions);
  eps = config.getEpsilon(family.epsKey, family.eps);
  stdDev = config.getPositive("initializer_range", family.stdDev);
  // Stacked experts have another one.
  if (!family.mixture.isStacked)
    activation = config.getActivation(family.activationKey, family.activation,
                                      family.geluIsTanh);
  tied = config.getBool("tie_word_embeddings", family.tied);
  seqLen = config.getSeqLen(positions, /*learned=*/false);
  return !config.failed();
}

bool DecoderBuilder::readAttention() {
  attention.dropout =
      config.getDropout("attention_dropout", family.attentionDropout);
  attention.heads = getSize("num_attention_heads", family.heads);
  attention.kvHeads = config.getSize(
      "num_key_value_heads", family.kvHeads ? family.kvHeads : attention.heads,
      /*ofNull=*/attention.heads);
  if (config.failed())
    return false;
  config.divide("num_attention_heads", attention.heads, "num_key_value_heads",
                attention.kvHeads);
  // Where head_dim is given, the heads need not divide the hidden size.
  bool isGiven =
      family.headDim || family.latent.keyRank || config["head_dim"].isPresent();
  if (!isGiven)
    config.divide("hidden_size", hidden, "num_attention_heads",
                  attention.heads);
  const LatentAttention &latent = family.latent;
  attention.headDim =
      latent.keyRank
          ? latent.plainDim + latent.rotatedDim
          : config.getSize("head_dim", family.headDim
                                           ? family.headDim
                                           : hidden / attention.heads);
  attention.scale = family.attentionScale.value_or(
      1 / std::sqrt(static_cast<double>(attention.headDim)));
  attention.causal = true;
  attention.cap = family.attentionCap;
  if (family.hasSinks)
    attention.sinks = stdDev;
  config.checkSize("num_attention_heads * head_dim",
                   static_cast<double>(attention.heads) * attention.headDim);
  if (config.failed())
    return false;
  for (RopeShape shape : family.ropes) {
    shape.headDim = latent.keyRank ? latent.rotatedDim : attention.headDim;
    shape.positions = positions;
    shape.seqLen = seqLen;
    ropes.push_back(getRope(config, shape));
    attention.scale *= ropes.back().scoreScale;
  }
  paddingIdx = config.getPaddingIdx(vocabSize, family.paddingIdx);
  return !config.failed();
}

Value DecoderBuilder::takeActivations(Unit &unit) {
  Value stream = unit.getInput(0);
  return sumsWidth ? unit.slice("stream", stream, 0, hidden) : stream;
}

Value DecoderBuilder::takeSums(Unit &unit, Value stream) {
  return sumsWidth ? unit.slice("balance", stream, hidden, sumsWidth) : Value();
}

/// Without sums, they are zero.
Value DecoderBuilder::joinSums(Unit &unit, Value x, Value sums) {
  return sumsWidth ? unit.join("stream", x, sums, getStreamWidth()) : x;
}

Value DecoderBuilder::norm(Unit &unit, StringRef name, Value x) {
  if (family.layerNorm)
    return unit.layerNorm(name, x, eps, family.normOffset, family.normBias);
  return unit.rmsNorm(name, x, eps, /*heads=*/1, family.normOffset);
}

Value DecoderBuilder::embed(Unit &unit) {
  Value x = unit.embedding("model.embed_tokens", unit.getInput(0), vocabSize,
                           hidden, stdDev, paddingIdx);
  double alpha = config.getNoiseAlpha();
  if (!family.scalesInEmbedding)
    x = unit.noise("model.embed_tokens", x, alpha);
  x = unit.scale("model.embed_tokens", x, family.embeddingScale);
  if (family.scalesInEmbedding)
    x = unit.noise("model.embed_tokens", x, alpha);
  x = unit.dropout("model.embed_tokens", x, family.embeddingDropout);
  return joinSums(unit, x, Value());
}

/// What attention reads, before it: q, k and v with their norms and rotations,
/// as one where the weights are.
static Value attendTo(Unit &unit, const Unit::Attention &attention,
                      ArrayRef<Value> qkv) {
  return unit.attention("self_attn", qkv[0], qkv.size() > 1 ? qkv[1] : Value(),
                        qkv.size() > 1 ? qkv[2] : Value(), attention);
}

Value DecoderBuilder::projectQKV(Unit &unit, Value x, const LayerKind &kind) {
  int64_t queryWidth = attention.heads * attention.headDim;
  int64_t keyWidth = attention.kvHeads * attention.headDim;
  Unit::Attention shape = attention;
  shape.window = kind.window;
  auto rotate = [&](Value value, int64_t heads) {
    if (kind.rope < 0)
      return value;
    return unit.rope("self_attn.rotary_emb", value, attention.headDim,
                     ropes[kind.rope], heads);
  };
  if (family.hasFusedQKV) {
    Value packed = unit.linear("self_attn.qkv_proj", x,
                               queryWidth + 2 * keyWidth, stdDev, false);
    return attendTo(unit, shape,
                    rotate(packed, attention.heads + attention.kvHeads));
  }
  auto project = [&](StringRef name, int64_t width) {
    return unit.linear(name, x, width, stdDev, family.qkvBias);
  };
  Value query, gate;
  if (family.hasOutputGate) {
    Value both = unit.regroup("self_attn.q_proj",
                              project("self_attn.q_proj", 2 * queryWidth),
                              attention.heads, /*parts=*/2);
    query = unit.slice("self_attn.q_proj", both, 0, queryWidth);
    gate = unit.slice("self_attn.gate", both, queryWidth, queryWidth);
  } else {
    query = project("self_attn.q_proj", queryWidth);
    if (!family.outputGate.empty())
      gate = unit.linear(family.outputGate, x, queryWidth, stdDev, false);
  }
  Value key = project("self_attn.k_proj", keyWidth);
  Value value = project("self_attn.v_proj", keyWidth);
  auto prepare = [&](Value value, StringRef name, int64_t heads) {
    if (family.qkNorm == Decoder::QKNorm::None)
      return rotate(value, 0);
    if (family.qkNorm == Decoder::QKNorm::Whole)
      heads = 1;
    if (family.rotatesBeforeNorm)
      return unit.rmsNorm(name, rotate(value, 0), eps, heads,
                          family.normOffset);
    return rotate(unit.rmsNorm(name, value, eps, heads, family.normOffset), 0);
  };
  query = prepare(query, family.names.queryNorm, attention.heads);
  key = prepare(key, family.names.keyNorm, attention.kvHeads);
  Value attended = attendTo(unit, shape, {query, key, value});
  return gate ? unit.multiply(attended, unit.sigmoid("self_attn.gate", gate))
              : attended;
}

Value DecoderBuilder::projectLinear(Unit &unit, Value x, StringRef leaf,
                                    int64_t width) {
  return unit.linear(("linear_attn." + leaf).str(), x, width, stdDev,
                     /*bias=*/false);
}

LinearInputs DecoderBuilder::projectApart(Unit &unit, Value x) {
  const Unit::GatedDelta &shape = family.linear.shape;
  int64_t values = shape.valueHeads * shape.valueDim;
  LinearInputs in;
  in.qkv = projectLinear(unit, x, "in_proj_qkv",
                         2 * shape.keyHeads * shape.keyDim + values);
  in.z = projectLinear(unit, x, "in_proj_z", values);
  in.b = projectLinear(unit, x, "in_proj_b", shape.valueHeads);
  in.a = projectLinear(unit, x, "in_proj_a", shape.valueHeads);
  return in;
}

/// Rows of the weights are those of one key head after those of another.
LinearInputs DecoderBuilder::projectFused(Unit &unit, Value x) {
  const Unit::GatedDelta &shape = family.linear.shape;
  int64_t keys = shape.keyHeads * shape.keyDim, heads = shape.valueHeads;
  int64_t values = heads * shape.valueDim, qkv = 2 * keys + values;
  int64_t ofKeyHead = values / shape.keyHeads;
  auto name = [](StringRef leaf) { return ("linear_attn." + leaf).str(); };
  Value qkvz = projectLinear(unit, x, "in_proj_qkvz", qkv + values);
  qkvz = unit.regroupParts(name("in_proj_qkvz"), qkvz, shape.keyHeads,
                           {shape.keyDim, shape.keyDim, ofKeyHead, ofKeyHead});
  Value ba = projectLinear(unit, x, "in_proj_ba", 2 * heads);
  ba = unit.regroup(name("in_proj_ba"), ba, shape.keyHeads, /*parts=*/2);
  return {unit.slice(name("qkv"), qkvz, 0, qkv),
          unit.slice(name("z"), qkvz, qkv, values),
          unit.slice(name("b"), ba, 0, heads),
          unit.slice(name("a"), ba, heads, heads)};
}

/// The gated delta rule on a short convolution of q, k and v, then a norm of
/// each head and a gate.
Value DecoderBuilder::attendLinearly(Unit &unit, Value x) {
  const Unit::GatedDelta &shape = family.linear.shape;
  LinearInputs in =
      family.linear.isFused ? projectFused(unit, x) : projectApart(unit, x);
  Value qkv = unit.causalConv("linear_attn.conv1d", in.qkv,
                              family.linear.convWidth, stdDev);
  qkv = unit.activation(activation, qkv);
  Value y = unit.gatedDelta("linear_attn", qkv, in.a, in.b, shape);
  y = unit.rmsNorm("linear_attn.norm", y, eps, shape.valueHeads);
  y = unit.multiply(y, unit.activation("silu", in.z));
  return projectLinear(unit, y, "out_proj", hidden);
}

Value DecoderBuilder::attend(Unit &unit, Value x, const LayerKind &kind) {
  if (kind.isLinear)
    return attendLinearly(unit, x);
  Value attended = family.latent.keyRank
                       ? attendLatent(unit, x, family.latent, attention,
                                      ropes[kind.rope], stdDev)
                       : projectQKV(unit, x, kind);
  return unit.linear(family.names.attentionOutput, attended, hidden, stdDev,
                     family.outputBias);
}

/// The activation of one product times another.
Value DecoderBuilder::widenGated(Unit &unit, Value x, StringRef module,
                                 StringRef up, int64_t width) {
  Value gate = unit.linear((module + ".gate_proj").str(), x, width, stdDev,
                           family.mlpBias);
  Value widened = unit.linear(up, x, width, stdDev, family.mlpBias);
  return unit.multiply(unit.activation(activation, gate), widened);
}

Value DecoderBuilder::feedForward(Unit &unit, Value x) {
  const DecoderNames &names = family.names;
  auto narrow = [&](Value wide) {
    return unit.linear(names.down, wide, hidden, stdDev, family.mlpBias);
  };
  if (!family.isGated)
    return narrow(unit.activation(
        activation, unit.linear(names.up, x, inner, stdDev, family.mlpBias)));
  if (!family.hasFusedGate)
    return narrow(widenGated(unit, x, "mlp", names.up, inner));
  Value both =
      unit.linear("mlp.gate_up_proj", x, 2 * inner, stdDev, family.mlpBias);
  Value gate = unit.slice("mlp.gate", both, 0, inner);
  Value up = unit.slice("mlp.up", both, inner, inner);
  return narrow(unit.multiply(unit.activation(activation, gate), up));
}

/// The expert that all tokens go to, maybe by a score of its own.
Value DecoderBuilder::shareExpert(Unit &unit, Value x) {
  const Mixture &m = family.mixture;
  std::string name = m.name + "." + m.shared, router = name + "_gate";
  Value product = widenGated(unit, x, name, name + ".up_proj", m.sharedInner);
  product = unit.linear(name + ".down_proj", product, hidden, stdDev, false);
  if (!m.sharedHasGate)
    return product;
  Value logit = unit.linear(router, x, 1, stdDev, false);
  return unit.weigh(name, product, unit.score(router, logit));
}

/// Adds what is chosen to the sums that balance experts, if there are any.
Unit::Route DecoderBuilder::chooseExperts(Unit &unit, Value x, bool bias,
                                          Value &sums) {
  const Mixture &m = family.mixture;
  std::string router = m.name + "." + m.router;
  Value logits = unit.linear(router, x, m.experts, stdDev, bias);
  Unit::Route route =
      unit.route(router, logits,
                 {m.perToken, m.groups, m.topGroups, m.sigmoid, m.normalized,
                  m.bias.empty() ? "" : m.name + "." + m.bias});
  if (sums)
    sums = unit.countExperts(router, sums, logits, route.experts);
  return route;
}

/// The experts' feed-forward layers, their products weighed by the scores
/// before the last product, which adds them up.
Value DecoderBuilder::mixExperts(Unit &unit, Value x, Value &sums) {
  const Mixture &m = family.mixture;
  std::string name = m.name + ".experts";
  Unit::Route route = chooseExperts(unit, x, /*bias=*/false, sums);
  Unit::Experts inwards = {m.experts, m.inner, hidden, m.perToken * m.inner};
  auto widen = [&](const std::string &leaf) {
    return unit.expertLinear(name, leaf, x, route.experts, inwards, stdDev);
  };
  Value gate = widen(m.gate), up = widen(m.up);
  Value product = unit.multiply(unit.activation(activation, gate), up);
  product = unit.weigh(name, product, route.scores);
  Value sum = unit.expertLinear(name, m.down, product, route.experts,
                                {m.experts, hidden, m.inner, hidden}, stdDev);
  sum = unit.scale(name, sum, m.scale);
  return m.sharedInner ? unit.add(sum, shareExpert(unit, x)) : sum;
}

/// Experts whose weights are stacked. The biases of the last product are
/// weighed as its rows are.
Value DecoderBuilder::mixStackedExperts(Unit &unit, Value x, Value &sums) {
  const Mixture &m = family.mixture;
  std::string name = m.name + ".experts";
  std::string wide = name + "." + m.gate, narrow = name + "." + m.down;
  Unit::Route route = chooseExperts(unit, x, /*bias=*/true, sums);
  Value product = unit.stackedLinear(
      wide, x, route.experts,
      {m.experts, 2 * m.inner, hidden, 2 * m.perToken * m.inner}, stdDev);
  product = unit.expertBias(wide, product, route.experts, m.experts);
  product = unit.clampedGlu(name, product, m.gluAlpha, m.gluLimit);
  product = unit.weigh(name, product, route.scores);
  Value sum = unit.stackedLinear(narrow, product, route.experts,
                                 {m.experts, hidden, m.inner, hidden}, stdDev);
  return unit.add(sum, unit.weighedBias(narrow, route, m.experts, hidden));
}

/// x + delta, with what comes between.
Value DecoderBuilder::addDelta(Unit &unit, Value x, Value delta, StringRef name,
                               double p) {
  delta = unit.scale(name, delta, family.residualScale);
  return unit.add(x, unit.dropout(name, delta, p));
}

Value DecoderBuilder::buildBlock(Unit &unit, const LayerKind &kind) {
  const DecoderNames &names = family.names;
  Value x = takeActivations(unit);
  Value sums = takeSums(unit, unit.getInput(0));
  Value normed = family.preNorm ? norm(unit, names.attentionNorm, x) : x;
  Value delta = attend(unit, normed, kind);
  if (family.postNorm)
    delta = norm(unit, names.attentionPostNorm, delta);
  x = addDelta(unit, x, delta, "self_attn.dropout",
               family.attentionOutputDropout);
  if (!family.isParallel)
    normed = family.preNorm ? norm(unit, names.mlpNorm, x) : x;
  if (!kind.isSparse)
    delta = feedForward(unit, normed);
  else if (family.mixture.isStacked)
    delta = mixStackedExperts(unit, normed, sums);
  else
    delta = mixExperts(unit, normed, sums);
  if (family.postNorm)
    delta = norm(unit, names.mlpPostNorm, delta);
  x = addDelta(unit, x, delta, "mlp.dropout", family.mlpOutputDropout);
  return joinSums(unit, x, sums);
}

Value DecoderBuilder::buildHead(Unit &unit) {
  Value x = norm(unit, family.names.lastNorm, takeActivations(unit));
  Value logits =
      unit.linear(tied ? "model.embed_tokens" : "lm_head", x, vocabSize, stdDev,
                  family.headBias, nn::WeightLayout::OutIn, "lm_head.bias");
  logits = unit.scale("lm_head", logits, family.logitsScale);
  return unit.softcap("lm_head", logits, family.logitsCap);
}

/// coef * E sum_e f_e p_e, as in Switch Transformers (Fedus et al. 2021), where
/// f_e and p_e are means over the tokens of a sample and all sparse layers.
Value DecoderBuilder::addBalance(ModelBuilder &model, Value loss,
                                 Value stream) {
  if (!sumsWidth)
    return loss;
  int64_t sparse = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    sparse += family.getKind(layer).isSparse;
  double factor = family.mixture.balance * double(family.mixture.experts) /
                  (double(sparse) * double(sparse));
  Unit &unit = model.define(
      "balance", {loss.getType(), model.getIdsType(), stream.getType()},
      /*draws=*/false, [&](Unit &unit) {
        return unit.balanceLoss(unit.getInput(0), unit.getInput(1),
                                takeSums(unit, unit.getInput(2)), factor);
      });
  return model.call(unit, {loss, model.getTargets(), stream});
}

OwningOpRef<ModuleOp> DecoderBuilder::build() {
  if (!readShape() || !readAttention())
    return {};
  for (int64_t layer = 0; layer < layers; ++layer)
    if (family.mixture.balance > 0 && family.getKind(layer).isSparse)
      sumsWidth = 2 * family.mixture.experts;
  ModelBuilder model(config.context, config.file, seqLen, config.isPacked());
  Type activations = model.getActivationType(getStreamWidth());
  Unit &embedding =
      model.define("embed", model.getIdsType(),
                   family.embeddingDropout > 0 || config.getNoiseAlpha() > 0,
                   [&](Unit &unit) { return embed(unit); });
  auto draws = [&](const LayerKind &kind) {
    return (attention.dropout > 0 && !kind.isLinear) ||
           family.attentionOutputDropout > 0 || family.mlpOutputDropout > 0;
  };
  // One unit for each kind of layers.
  std::map<LayerKind, Unit *> blocks;
  for (int64_t layer = 0; layer < layers; ++layer) {
    LayerKind kind = family.getKind(layer);
    Unit *&block = blocks[kind];
    if (block)
      continue;
    std::string name = "block";
    if (blocks.size() > 1)
      name += "_alternate";
    if (blocks.size() > 2)
      name += "_" + std::to_string(blocks.size() - 1);
    block = &model.define(
        name, activations, draws(kind),
        [&](Unit &unit) { return buildBlock(unit, kind); }, /*locates=*/true);
  }
  Unit &head = model.define("head", activations, false,
                            [&](Unit &unit) { return buildHead(unit); });
  Unit &loss = model.defineLoss(vocabSize);

  Value x = model.call(embedding, model.getIds());
  for (int64_t layer = 0; layer < layers; ++layer)
    x = model.call(*blocks[family.getKind(layer)], x,
                   "model.layers." + std::to_string(layer) + ".");
  Value logits = model.call(head, x);
  Value perToken = model.call(loss, {logits, model.getTargets()});
  return config.finish(
      model, addBalance(model, perToken, x),
      {family.architecture, "causal", vocabSize, seqLen, hidden, layers,
       SpecialTokens(),
       family.refusesF16 ? std::optional(NumberFormat::F16) : std::nullopt});
}

OwningOpRef<ModuleOp> import::buildDecoder(const Config &config,
                                           const Decoder &family) {
  // A family may have found an error in the keys of its own.
  if (config.failed())
    return {};
  return DecoderBuilder(config, family).build();
}

std::vector<Key> import::makeDecoderKeys(std::vector<Key> table,
                                         ArrayRef<Key> rope) {
  auto add = [&](Key key) {
    // What a family says of a key comes before what all of them say.
    if (!findKey(table, key.name))
      table.push_back(std::move(key));
  };
  for (const char *name :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "hidden_act", "tie_word_embeddings"})
    add(function(name));
  if (llvm::none_of(table, [](const Key &key) {
        return StringRef(key.name).contains("norm_eps");
      }))
    add(function("rms_norm_eps"));
  add(function("num_key_value_heads").orNull());
  add(function("head_dim").orNull());
  // Positions decide only through rotary embeddings, which record them.
  add(training("max_position_embeddings"));
  add(training("initializer_range"));
  add(training("attention_dropout"));
  add(training("pad_token_id").orNull());
  add(fixed("is_causal", {"true"}));
  add(harmless("is_decoder"));
  add(fixed("use_mrope", {"false"}));
  for (const Key &key : rope)
    add(key);
  return table;
}

std::vector<bool> import::getNamedLayers(const Config &config, int64_t layers,
                                         const LayerName &own,
                                         const std::vector<bool> &fallback) {
  json::Value types = config["layer_types"];
  bool isGiven = types.isPresent() && !types.isNull();
  if (isGiven && types.size() != static_cast<size_t>(layers))
    types.error("expected an array of num_hidden_layers = " +
                std::to_string(layers) + " names");
  std::vector<bool> named;
  llvm::json::Array names, fallbackNames;
  auto nameOf = [&](bool isNamed) {
    return isNamed ? own.name : "full_attention";
  };
  for (int64_t layer = 0; layer < layers && !config.failed(); ++layer) {
    named.push_back(fallback[layer]);
    if (isGiven) {
      json::Value type = types[layer];
      std::string name = type.getString();
      named.back() = name == own.name;
      if (name != "full_attention" && !(own.isSupported && named.back()))
        type.error("'" + name + "' is not supported (only " + own.supported +
                   ")");
    }
    names.push_back(nameOf(named.back()));
    fallbackNames.push_back(nameOf(fallback[layer]));
  }
  config.record("layer_types", {std::move(names), std::move(fallbackNames)});
  return named;
}

std::vector<bool> import::getWindowedLayers(const Config &config,
                                            int64_t layers, bool hasWindow,
                                            const std::vector<bool> &fallback) {
  return getNamedLayers(config, layers,
                        {"sliding_attention", hasWindow,
                         "'full_attention', and 'sliding_attention' where a "
                         "window is used"},
                        fallback);
}

void Decoder::setLayerTypes(const Config &config, const LayerKind &full,
                            const LayerKind &sliding, int64_t pattern) {
  int64_t layers = config.getLayers("num_hidden_layers");
  if (config.failed())
    return;
  std::vector<bool> fallback;
  for (int64_t layer = 0; layer < layers; ++layer)
    fallback.push_back((layer + 1) % pattern != 0);
  std::vector<bool> windowed =
      getWindowedLayers(config, layers, sliding.window > 0, fallback);
  getKind = [=](int64_t layer) { return windowed[layer] ? sliding : full; };
}
