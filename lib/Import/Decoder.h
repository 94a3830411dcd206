//===- Decoder.h - Decoders of the shape of Llama ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_DECODER_H
#define POPLAR_LIB_IMPORT_DECODER_H

#include "Config.h"
#include <functional>
#include <tuple>

namespace poplar::import {

/// What layers of one model may do differently.
struct LayerKind {
  /// The window of attention; 0 for none.
  int64_t window = 0;
  /// Which of the decoder's rotary embeddings; none where it is negative.
  int rope = 0;
  /// A mixture of experts in place of feed-forward layers.
  bool isSparse = false;
  /// The gated delta rule in place of attention.
  bool isLinear = false;

  bool operator<(const LayerKind &other) const {
    return std::tuple(window, rope, isSparse, isLinear) <
           std::tuple(other.window, other.rope, other.isSparse, other.isLinear);
  }
};

/// Layers that are mixtures of experts.
struct Mixture {
  int64_t experts = 0, perToken = 0;
  /// The inner width of an expert.
  int64_t inner = 0;
  /// The inner width of an expert that all tokens go to; 0 without one. Its
  /// result is multiplied by the sigmoid of a logit, the module's
  /// `<shared>_gate`, if it has a gate.
  int64_t sharedInner = 0;
  std::string shared = "shared_expert";
  bool sharedHasGate = true;
  /// A factor of the scores.
  double scale = 1;
  /// Scores are sigmoids of logits, not their softmax.
  bool sigmoid = false;
  /// What is added to the scores that are compared, a name of the module; none
  /// where it is empty.
  std::string bias;
  /// Experts are in groups, and chosen from the best ones.
  int64_t groups = 1, topGroups = 1;
  /// The coefficient of the loss that balances experts; 0 for none.
  double balance = 0;
  /// Whether the scores of a token add up to 1.
  bool normalized = true;
  /// The module of the router and the experts, and their weights.
  std::string name = "mlp", router = "gate", gate = "gate_proj", up = "up_proj",
              down = "down_proj";
  /// The weights of all experts are in one tensor [experts, inputs, outputs],
  /// with gate and up in neighbouring columns (`gate_up_proj`), and have
  /// biases, as the router has. The activation is nn.clamped_glu.
  bool isStacked = false;
  double gluAlpha = 0, gluLimit = 0;
};

/// Layers of linear attention (Gated DeltaNet), whose module is `linear_attn`.
struct LinearAttention {
  Unit::GatedDelta shape = {};
  /// Taps of the convolution before it.
  int64_t convWidth = 0;
  /// Two weights in place of four, with those of each key head together:
  /// in_proj_qkvz and in_proj_ba.
  bool isFused = false;
};

/// Multi-head latent attention: keys and values are products of one latent
/// vector, which is narrower than they are.
struct LatentAttention {
  /// Widths of the latents of keys and values, and of queries: 0 where these
  /// have none.
  int64_t keyRank = 0, queryRank = 0;
  /// Columns of a head: those of queries and keys that are not rotated, those
  /// that are, which all heads of keys share, and those of values.
  int64_t plainDim = 0, rotatedDim = 0, valueDim = 0;
  /// Biases of what gives the latents.
  bool bias = false;
};

/// What comes before the output's product: [B,T,heads * valueDim].
mlir::Value attendLatent(Unit &unit, mlir::Value x,
                         const LatentAttention &latent,
                         const Unit::Attention &shape, const Rope &rope,
                         double stdDev);

/// Names of modules: those of a layer after its prefix, those of the model
/// whole.
struct DecoderNames {
  std::string attentionOutput = "self_attn.o_proj", up = "mlp.up_proj",
              down = "mlp.down_proj";
  /// Norms of what attention and feed-forward layers read, and of what they
  /// add to the residual stream.
  std::string attentionNorm = "input_layernorm",
              mlpNorm = "post_attention_layernorm",
              attentionPostNorm = "post_attention_layernorm",
              mlpPostNorm = "post_feedforward_layernorm";
  std::string lastNorm = "model.norm";
  /// Norms of queries and of keys.
  std::string queryNorm = "self_attn.q_norm", keyNorm = "self_attn.k_norm";
};

/// What the families do differently. The defaults are Llama's.
struct Decoder {
  llvm::StringRef architecture;
  DecoderNames names;
  int64_t maxPositions = 2048;

  /// Where the keys of these names are absent.
  double eps = 1e-6;
  std::string epsKey = "rms_norm_eps";
  double stdDev = 0.02;
  bool tied = false;
  std::string activationKey = "hidden_act", activation = "silu";
  /// Whether "gelu" means the form by tanh.
  bool geluIsTanh = false;
  /// 0: their keys cannot be absent.
  int64_t vocabSize = 0, heads = 0;
  /// 0: as many as heads.
  int64_t kvHeads = 0;
  /// 0: the hidden size divided by the heads.
  int64_t headDim = 0;
  std::optional<int64_t> paddingIdx;

  /// Biases of q, k and v; of the attention's output; of the feed-forward
  /// layers; of the logits.
  bool qkvBias = false, outputBias = false, mlpBias = false, headBias = false;
  /// The weights of q, k and v are one; those of gate and up are.
  bool hasFusedQKV = false, hasFusedGate = false;
  /// What the feed-forward layers widen is multiplied by a gate.
  bool isGated = true;

  /// Norms that subtract the mean, with a bias or without.
  bool layerNorm = false, normBias = true;
  /// What is added to the weights of norms.
  double normOffset = 0;
  /// Norms of what attention and feed-forward layers read; of what they add to
  /// the residual stream.
  bool preNorm = true, postNorm = false;
  /// Norms of q and k: of every head, or of all heads together.
  enum class QKNorm { None, PerHead, Whole } qkNorm = QKNorm::None;
  /// Their norms are behind the rotation.
  bool rotatesBeforeNorm = false;
  /// Attention and feed-forward layers read the same norm.
  bool isParallel = false;

  /// Factors of the embeddings, of what is added to the residual stream, and
  /// of the logits; of the scores, where it is not 1 / sqrt(head_dim).
  double embeddingScale = 1, residualScale = 1, logitsScale = 1;
  /// The embedding itself multiplies, so that NEFTune adds noise behind it.
  bool scalesInEmbedding = false;
  std::optional<double> attentionScale;
  /// Soft caps; 0 for none.
  double attentionCap = 0, logitsCap = 0;

  /// Dropout of the embeddings, and of what attention and feed-forward layers
  /// add to the residual stream.
  double embeddingDropout = 0, attentionOutputDropout = 0, mlpOutputDropout = 0;
  /// The dropout of attention probabilities where its key is absent.
  double attentionDropout = 0;

  Mixture mixture;
  /// Mixtures have the place of all feed-forward layers, whose size the
  /// configuration does not have.
  bool hasOnlyMixtures = false;
  LinearAttention linear;
  /// In place of attention, where keyRank is above 0.
  LatentAttention latent;
  /// What attention gives is multiplied by the sigmoid of a gate, which q_proj
  /// has behind the queries of each head.
  bool hasOutputGate = false;
  /// The same with a module of its own for the gate; none where it is empty.
  std::string outputGate;
  /// A learned score of each head, of the value 0 (`self_attn.sinks`).
  bool hasSinks = false;

  /// Activations outgrow f16.
  bool refusesF16 = false;

  /// Rotary embeddings; the sizes are the decoder's.
  std::vector<RopeShape> ropes = std::vector<RopeShape>(1);
  std::function<LayerKind(int64_t layer)> getKind = [](int64_t) {
    return LayerKind();
  };

  /// All layers have this window; 0 for none.
  void setWindow(int64_t window) {
    getKind = [window](int64_t) { return LayerKind{window}; };
  }
  /// Layers are of these kinds by `layer_types`. Where that is absent, they are
  /// sliding but for every `pattern`-th one.
  void setLayerTypes(const Config &config, const LayerKind &full,
                     const LayerKind &sliding, int64_t pattern);
};

mlir::OwningOpRef<mlir::ModuleOp> buildDecoder(const Config &config,
                                               const Decoder &family);

/// The keys that buildDecoder reads, after those of a family. `rope` are those
/// of its rotary embeddings.
std::vector<Key> makeDecoderKeys(std::vector<Key> table,
                                 llvm::ArrayRef<Key> rope = getRopeKeys());

/// What `layer_types` calls layers beside 'full_attention'.
struct LayerName {
  const char *name;
  bool isSupported;
  /// The names that are, for an error.
  const char *supported;
};
/// Whether each layer is called so by `layer_types`, or where that is absent,
/// as `fallback` says.
std::vector<bool> getNamedLayers(const Config &config, int64_t layers,
                                 const LayerName &own,
                                 const std::vector<bool> &fallback);
/// Whether each layer is called 'sliding_attention' by `layer_types`, or where
/// that is absent by `fallback`. Without a window, such a layer is an error.
std::vector<bool> getWindowedLayers(const Config &config, int64_t layers,
                                    bool hasWindow,
                                    const std::vector<bool> &fallback);

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_DECODER_H
