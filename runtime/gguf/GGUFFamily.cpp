//===- GGUFFamily.cpp - Families that llama.cpp has -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/GGUFFamily.h"

using namespace poplar::runtime;
using Modules = std::vector<GGUFModule>;

static Modules join(Modules List, const Modules &More) {
  List.insert(List.end(), More.begin(), More.end());
  return List;
}

static Modules makeWhole(bool HasBias) {
  return {{"model.embed_tokens", "token_embd"},
          {"model.norm", "output_norm", HasBias},
          {"lm_head", "output"}};
}

static Modules makeAttention(bool HasBias, bool OutputHasBias) {
  return {{"self_attn.q_proj", "attn_q", HasBias},
          {"self_attn.k_proj", "attn_k", HasBias},
          {"self_attn.v_proj", "attn_v", HasBias},
          {"self_attn.o_proj", "attn_output", OutputHasBias}};
}

static Modules makeFeedForward(bool HasBias) {
  return {{"mlp.gate_proj", "ffn_gate", HasBias},
          {"mlp.up_proj", "ffn_up", HasBias},
          {"mlp.down_proj", "ffn_down", HasBias}};
}

static Modules makePreNorms(bool HasBias = false) {
  return {{"input_layernorm", "attn_norm", HasBias},
          {"post_attention_layernorm", "ffn_norm", HasBias}};
}

static const Modules HeadNorms = {{"self_attn.q_norm", "attn_q_norm"},
                                  {"self_attn.k_norm", "attn_k_norm"}};

/// Norms of Gemma 2 and 3, before and behind both halves of a layer.
static const Modules FourNorms = {
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"}};

static const std::vector<const char *> Silu = {"silu", "swish"},
                                       GeluTanh = {"gelu_new",
                                                   "gelu_pytorch_tanh"};

/// A family of the shape of Llama.
static GGUFFamily makeDecoder(const char *Type, const char *Architecture,
                              Modules PerLayer) {
  GGUFFamily F;
  F.Type = Type;
  F.Architecture = Architecture;
  F.Layers = "model.layers.";
  F.Whole = makeWhole(/*HasBias=*/false);
  F.PerLayer = std::move(PerLayer);
  F.ActivationKey = "hidden_act";
  F.Activations = Silu;
  return F;
}

static GGUFFamily makeLlama(const char *Type, const char *Architecture,
                            bool HasBias) {
  GGUFFamily F =
      makeDecoder(Type, Architecture,
                  join(join(makePreNorms(), makeFeedForward(HasBias)),
                       makeAttention(HasBias, HasBias)));
  F.RotatesNeighbours = true;
  return F;
}

static GGUFFamily makeMixtral() {
  GGUFFamily F =
      makeDecoder("mixtral", "llama",
                  join(join(makePreNorms(), makeAttention(false, false)),
                       {{"block_sparse_moe.gate", "ffn_gate_inp"},
                        {"block_sparse_moe.experts.#.w1", "ffn_gate_exps"},
                        {"block_sparse_moe.experts.#.w3", "ffn_up_exps"},
                        {"block_sparse_moe.experts.#.w2", "ffn_down_exps"}}));
  F.RotatesNeighbours = true;
  return F;
}

/// The router and the experts of Qwen.
static const Modules QwenExperts = {
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.#.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.#.up_proj", "ffn_up_exps"},
    {"mlp.experts.#.down_proj", "ffn_down_exps"}};

static GGUFFamily makeQwen2Moe() {
  return makeDecoder(
      "qwen2_moe", "qwen2moe",
      join(join(join(makePreNorms(), makeAttention(true, false)), QwenExperts),
           {{"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
            {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
            {"mlp.shared_expert.down_proj", "ffn_down_shexp"}}));
}

static GGUFFamily makeQwen3Moe() {
  return makeDecoder(
      "qwen3_moe", "qwen3moe",
      join(join(join(makePreNorms(), makeAttention(false, false)), HeadNorms),
           QwenExperts));
}

static GGUFFamily makeGemma(const char *Type, const char *Architecture,
                            const Modules &Norms) {
  GGUFFamily F = makeDecoder(
      Type, Architecture,
      join(join(Norms, makeFeedForward(false)), makeAttention(false, false)));
  F.Activations = GeluTanh;
  F.HasNormOffset = true;
  return F;
}

static GGUFFamily makeWindowedGemma(const char *Type, const char *Architecture,
                                    const Modules &Norms) {
  GGUFFamily F = makeGemma(Type, Architecture, Norms);
  F.ActivationKey = "hidden_activation";
  return F;
}

static Modules makePostNorms() {
  return {{"post_attention_layernorm", "post_attention_norm"},
          {"post_feedforward_layernorm", "post_ffw_norm"}};
}

/// OLMo2, OLMo3 and EXAONE 4, with norms behind both halves of a layer alone.
static GGUFFamily makePostNormed(const char *Type, const char *Architecture) {
  return makeDecoder(Type, Architecture,
                     join(join(join(HeadNorms, makeFeedForward(false)),
                               makeAttention(false, false)),
                          makePostNorms()));
}

static GGUFFamily makeSeedOss() {
  return makeDecoder(
      "seed_oss", "seed_oss",
      join(join({{"input_layernorm", "attn_norm"},
                 {"post_attention_layernorm", "post_attention_norm"}},
                makeFeedForward(false)),
           makeAttention(true, false)));
}

static GGUFFamily makeArcee() {
  GGUFFamily F = makeDecoder(
      "arcee", "arcee",
      join(join(makePreNorms(), makeAttention(false, false)),
           {{"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}}));
  F.Activations = {"relu2"};
  F.RotatesNeighbours = true;
  return F;
}

/// Its rotation turns neighbours in both.
static GGUFFamily makeGLM4() {
  return makeDecoder("glm4", "glm4",
                     join(makeAttention(true, false),
                          {{"input_layernorm", "attn_norm"},
                           {"post_self_attn_layernorm", "post_attention_norm"},
                           {"post_attention_layernorm", "ffn_norm"},
                           {"post_mlp_layernorm", "post_ffw_norm"},
                           {"mlp.gate_up_proj", "ffn_up"},
                           {"mlp.down_proj", "ffn_down"}}));
}

static GGUFFamily makePhi() {
  GGUFFamily F = makeDecoder("phi", "phi2",
                             {{"input_layernorm", "attn_norm", true},
                              {"self_attn.q_proj", "attn_q", true},
                              {"self_attn.k_proj", "attn_k", true},
                              {"self_attn.v_proj", "attn_v", true},
                              {"self_attn.dense", "attn_output", true},
                              {"mlp.fc1", "ffn_up", true},
                              {"mlp.fc2", "ffn_down", true}});
  F.Whole = {{"model.embed_tokens", "token_embd"},
             {"model.final_layernorm", "output_norm", true},
             {"lm_head", "output", true}};
  F.Activations = GeluTanh;
  F.HasLayerNorm = F.NeedsOutput = true;
  F.EpsilonKey = "layer_norm_eps";
  return F;
}

static GGUFFamily makeStarCoder2() {
  GGUFFamily F = makeDecoder(
      "starcoder2", "starcoder2",
      join(join(makePreNorms(true), makeAttention(true, true)),
           {{"mlp.c_fc", "ffn_up", true}, {"mlp.c_proj", "ffn_down", true}}));
  F.Whole = makeWhole(/*HasBias=*/true);
  F.Activations = GeluTanh;
  F.HasLayerNorm = true;
  F.EpsilonKey = "norm_epsilon";
  return F;
}

static GGUFFamily makePhi3() {
  return makeDecoder("phi3", "phi3",
                     join(makePreNorms(), {{"self_attn.qkv_proj", "attn_qkv"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"mlp.gate_up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"}}));
}

static GGUFFamily makeStableLM() {
  GGUFFamily F =
      makeDecoder("stablelm", "stablelm",
                  join(join(makePreNorms(true), makeFeedForward(false)),
                       makeAttention(true, false)));
  F.Whole = makeWhole(/*HasBias=*/true);
  F.HasLayerNorm = F.NeedsOutput = true;
  F.EpsilonKey = "layer_norm_eps";
  return F;
}

static GGUFFamily makeGPT2() {
  GGUFFamily F;
  F.Type = F.Architecture = "gpt2";
  F.Layers = "transformer.h.";
  F.Whole = {{"transformer.wte", "token_embd"},
             {"transformer.wpe", "position_embd"},
             {"transformer.ln_f", "output_norm", true},
             {"lm_head", "output"}};
  F.PerLayer = {
      {"ln_1", "attn_norm", true},          {"attn.c_attn", "attn_qkv", true},
      {"attn.c_proj", "attn_output", true}, {"ln_2", "ffn_norm", true},
      {"mlp.c_fc", "ffn_up", true},         {"mlp.c_proj", "ffn_down", true}};
  F.ActivationKey = "activation_function";
  F.Activations = GeluTanh;
  F.IsInOut = F.HasLayerNorm = true;
  F.EpsilonKey = "layer_norm_epsilon";
  return F;
}

static GGUFFamily makeGPTNeoX() {
  GGUFFamily F;
  F.Type = "gpt_neox";
  F.Architecture = "gptneox";
  F.Layers = "gpt_neox.layers.";
  F.Whole = {{"gpt_neox.embed_in", "token_embd"},
             {"gpt_neox.final_layer_norm", "output_norm", true},
             {"embed_out", "output"}};
  F.PerLayer = {{"input_layernorm", "attn_norm", true},
                {"attention.query_key_value", "attn_qkv", true},
                {"attention.dense", "attn_output", true},
                {"post_attention_layernorm", "ffn_norm", true},
                {"mlp.dense_h_to_4h", "ffn_up", true},
                {"mlp.dense_4h_to_h", "ffn_down", true}};
  F.ActivationKey = "hidden_act";
  // llama.cpp approximates GELU by tanh.
  F.Activations = {"gelu", "gelu_new", "gelu_pytorch_tanh"};
  F.InterleavesHeads = F.NeedsOutput = F.HasLayerNorm = true;
  F.EpsilonKey = "layer_norm_eps";
  return F;
}

static const std::vector<GGUFFamily> &getFamilies() {
  static const std::vector<GGUFFamily> Families = {
      makeArcee(),
      makePostNormed("exaone4", "exaone4"),
      makeGemma("gemma", "gemma", makePreNorms()),
      makeWindowedGemma("gemma2", "gemma2", FourNorms),
      makeWindowedGemma("gemma3_text", "gemma3", join(FourNorms, HeadNorms)),
      makeGLM4(),
      makeGPT2(),
      makeGPTNeoX(),
      makeLlama("granite", "granite", /*HasBias=*/true),
      makeLlama("llama", "llama", /*HasBias=*/true),
      makeLlama("mistral", "llama", /*HasBias=*/false),
      makeMixtral(),
      makePostNormed("olmo2", "olmo2"),
      makePostNormed("olmo3", "olmo2"),
      makePhi(),
      makePhi3(),
      makeDecoder("qwen2", "qwen2",
                  join(join(makePreNorms(), makeFeedForward(false)),
                       makeAttention(true, false))),
      makeDecoder("qwen3", "qwen3",
                  join(join(join(makePreNorms(), makeFeedForward(false)),
                            makeAttention(false, false)),
                       HeadNorms)),
      makeQwen2Moe(),
      makeQwen3Moe(),
      makeSeedOss(),
      makeLlama("smollm3", "smollm3", /*HasBias=*/false),
      makeStableLM(),
      makeStarCoder2()};
  return Families;
}

const GGUFFamily *poplar::runtime::findGGUFFamily(std::string_view Type) {
  for (const GGUFFamily &F : getFamilies())
    if (Type == F.Type)
      return &F;
  return nullptr;
}

std::string poplar::runtime::listGGUFFamilies() {
  std::string List;
  for (const GGUFFamily &F : getFamilies())
    List += (List.empty() ? "" : ", ") + std::string(F.Type);
  return List;
}
