//===- GGUFModel.cpp - Models in the words of llama.cpp -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/GGUFModel.h"
#include "gguf/GGUFFamily.h"
#include "gguf/GGUFTensors.h"
#include "gguf/ModelFacts.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;

namespace {

class ModelWriter {
public:
  ModelWriter(const ModelInfo &Model, const GGUFFamily &Family, GGUFFile &File)
      : Model(Model), Family(Family), Facts(Model), File(File),
        Type(Model.architecture),
        Prefix(std::string(Family.Architecture) + "."),
        Heads(Facts.getCount("num_attention_heads")),
        Hidden(Facts.getCount("hidden_size")),
        Layers(Facts.getCount("num_hidden_layers")) {
    HeadDim =
        Facts.find("head_dim") ? Facts.getCount("head_dim") : Hidden / Heads;
  }

  void write();
  GGUFHeads getHeads() const { return {Heads, getNumKVHeads()}; }
  int64_t getNumLayers() const { return Layers; }
  bool isTied() const { return Facts.has("tie_word_embeddings"); }
  std::vector<std::string> Notes;

private:
  template <typename... Ts> [[noreturn]] void refuse(const Ts &...What) const {
    fail("llama.cpp cannot compute this model: ", What...);
  }
  int64_t getNumKVHeads() const {
    return Facts.find("num_key_value_heads")
               ? Facts.getCount("num_key_value_heads")
               : Heads;
  }
  /// Refuses a key whose value is not what llama.cpp computes with.
  void require(bool IsMet, const char *Key, const std::string &Expected) const {
    if (!IsMet)
      refuse("it has '", Key, "' ", Expected, " in models of type ", Type);
  }
  std::string key(const char *Rest) const { return Prefix + Rest; }
  bool is(std::string_view Name) const { return Type == Name; }

  void checkActivation() const;
  void checkOwnKeys() const;
  int64_t findWindow() const;
  void writeContext();
  void writeSizes();
  void writeExperts();
  void writeRope();
  void writeScaling(const std::string &RopeType);
  void writeLongRope();
  void writeLlama3Factors();
  void writeScales();
  void addFactors(const char *Name, std::vector<float> Factors);
  std::vector<float> readFactors(const char *Key) const;

  const ModelInfo &Model;
  const GGUFFamily &Family;
  ModelFacts Facts;
  GGUFFile &File;
  const std::string Type, Prefix;
  int64_t Heads, Hidden, Layers, HeadDim = 0, Context = 0;
};

} // namespace

void ModelWriter::checkActivation() const {
  std::string Activation = Facts.getText(Family.ActivationKey);
  if (std::find(Family.Activations.begin(), Family.Activations.end(),
                Activation) == Family.Activations.end())
    refuse("its activation is ", Activation, ", and that of llama.cpp ",
           Family.Activations.front(), " in models of type ", Type);
}

/// Keys of single families, of whose values llama.cpp has one.
void ModelWriter::checkOwnKeys() const {
  if (is("gemma2") || is("gemma3_text")) {
    // The largest models of both families divide otherwise.
    bool IsLargest = Layers == (is("gemma2") ? 46 : 62);
    int64_t Scalar = IsLargest ? Hidden / Heads : HeadDim;
    require(Facts.getNumber("query_pre_attn_scalar") ==
                static_cast<double>(Scalar),
            "query_pre_attn_scalar", std::to_string(Scalar));
  }
  if (is("gemma") || is("gemma2"))
    require(isTied(), "tie_word_embeddings", "true");
  if (is("gemma2"))
    for (const char *Key :
         {"attn_logit_softcapping", "final_logit_softcapping"})
      require(Facts.has(Key), Key, "set");
  // At other depths, it lets all layers attend to all tokens.
  if (is("exaone4"))
    require(Layers == 64 || !findWindow(), "sliding_window",
            "null but for 64 layers");
  if (is("starcoder2"))
    require(Facts.has("use_bias"), "use_bias", "true");
  if (is("gpt2"))
    require(Facts.has("scale_attn_weights"), "scale_attn_weights", "true");
  if (is("gpt_neox"))
    require(Facts.has("attention_bias"), "attention_bias", "true");
  if (is("qwen2_moe"))
    require(Facts.has("qkv_bias"), "qkv_bias", "true");
  if (is("qwen2_moe") || is("qwen3_moe")) {
    bool IsNormalized = is("qwen3_moe");
    require(Facts.has("norm_topk_prob") == IsNormalized, "norm_topk_prob",
            IsNormalized ? "true" : "false");
    require(Facts.getCount("decoder_sparse_step") == 1, "decoder_sparse_step",
            "1");
    const json::Value *Dense = Facts.find("mlp_only_layers");
    require(!Dense || Dense->elements().empty(), "mlp_only_layers", "empty");
  }
  const json::Value *Rotating = Facts.find("no_rope_layers");
  for (size_t I = 0;
       is("smollm3") && Rotating && I < Rotating->elements().size(); ++I)
    require(Rotating->elements()[I].asDouble() == ((I + 1) % 4 != 0 ? 1 : 0),
            "no_rope_layers", "0 in each fourth layer");
}

/// The window of its attention; 0 without one.
int64_t ModelWriter::findWindow() const {
  bool IsUsed =
      !Facts.find("use_sliding_window") || Facts.has("use_sliding_window");
  return IsUsed && Facts.has("sliding_window")
             ? Facts.getCount("sliding_window")
             : 0;
}

void ModelWriter::writeContext() {
  const json::Value &Config = Facts.config();
  Context = Config.integer("max_position_embeddings",
                           Config.integer("n_positions", Model.seq_len));
  int64_t Window = findWindow();
  bool HasWindows = is("gemma2") || is("gemma3_text") || is("olmo3") ||
                    (is("exaone4") && Window);
  if (HasWindows) {
    File.setCount(key("attention.sliding_window"), Window);
    const json::Value *Types = Facts.find("layer_types");
    std::vector<bool> Pattern;
    bool IsUsual = true;
    for (size_t I = 0; Types && I < Types->elements().size(); ++I) {
      Pattern.push_back(Types->elements()[I].asString() == "sliding_attention");
      bool IsGemma = is("gemma2") || is("gemma3_text");
      IsUsual &=
          IsGemma && Pattern[I] == ((I + 1) % (is("gemma2") ? 2 : 6) != 0);
    }
    if (!IsUsual)
      File.setFlags(key("attention.sliding_window_pattern"), Pattern);
  } else if (Window && Window < Context) {
    Notes.push_back("the context is " + std::to_string(Window) +
                    " tokens in place of " + std::to_string(Context) +
                    ": llama.cpp has no sliding window in models of type " +
                    Type);
    Context = Window;
  }
  // That of a file without one distinguishes Phi-4 in some versions.
  if (is("phi3"))
    File.setCount(key("attention.sliding_window"), Window);
  File.setCount(key("context_length"), Context);
}

void ModelWriter::writeSizes() {
  const char *Inner = is("gpt2") ? "n_inner" : "intermediate_size";
  File.setCount(key("vocab_size"), Model.vocab_size);
  File.setCount(key("embedding_length"), Hidden);
  File.setCount(key("block_count"), Layers);
  File.setCount(key("feed_forward_length"), Facts.getCount(Inner));
  File.setCount(key("attention.head_count"), Heads);
  File.setCount(key("attention.head_count_kv"), getNumKVHeads());
  File.setCount(key("attention.key_length"), HeadDim);
  File.setCount(key("attention.value_length"), HeadDim);
  File.setNumber(key(Family.HasLayerNorm ? "attention.layer_norm_epsilon"
                                         : "attention.layer_norm_rms_epsilon"),
                 Facts.getNumber(Family.EpsilonKey));
  if (is("gpt_neox") || is("stablelm"))
    File.setFlag(key("use_parallel_residual"),
                 Facts.has("use_parallel_residual"));
}

void ModelWriter::writeExperts() {
  if (!Facts.find("num_experts_per_tok"))
    return;
  File.setCount(key("expert_count"), Facts.getCount("num_experts"));
  File.setCount(key("expert_used_count"),
                Facts.getCount("num_experts_per_tok"));
  if (is("qwen2_moe") || is("qwen3_moe"))
    File.setCount(key("expert_feed_forward_length"),
                  Facts.getCount("moe_intermediate_size"));
  if (is("qwen2_moe"))
    File.setCount(key("expert_shared_feed_forward_length"),
                  Facts.getCount("shared_expert_intermediate_size"));
}

void ModelWriter::addFactors(const char *Name, std::vector<float> Factors) {
  GGUFTensor Tensor;
  Tensor.Name = Name;
  Tensor.Shape = {static_cast<int64_t>(Factors.size())};
  Tensor.Read = [Factors = std::move(Factors)](const GGUFTensor::Visitor &V) {
    V(Factors.data(), static_cast<int64_t>(Factors.size()));
  };
  File.add(std::move(Tensor));
}

std::vector<float> ModelWriter::readFactors(const char *Key) const {
  std::vector<float> Factors;
  if (const json::Value *List = Facts.find(Key))
    for (const json::Value &Factor : List->elements())
      Factors.push_back(static_cast<float>(Factor.asDouble()));
  return Factors;
}

/// Each frequency's divisor (transformers, modeling_rope_utils.py,
/// _compute_llama3_parameters).
void ModelWriter::writeLlama3Factors() {
  double Base = Facts.getNumber("rope_scaling.rope_theta"),
         Factor = Facts.getNumber("rope_scaling.factor"),
         Low = Facts.getNumber("rope_scaling.low_freq_factor"),
         High = Facts.getNumber("rope_scaling.high_freq_factor"),
         Original =
             Facts.getNumber("rope_scaling.original_max_position_embeddings");
  std::vector<float> Factors;
  for (int64_t I = 0; I < HeadDim; I += 2) {
    double Exponent = static_cast<double>(I) / static_cast<double>(HeadDim);
    double Wavelength = 2 * M_PI * std::pow(Base, Exponent);
    double Smooth = (Original / Wavelength - Low) / (High - Low);
    double Share = std::clamp(Smooth, 0.0, 1.0);
    Factors.push_back(static_cast<float>(1 / ((1 - Share) / Factor + Share)));
  }
  addFactors("rope_freqs.weight", std::move(Factors));
}

/// As transformers scales queries and keys (modeling_rope_utils.py,
/// _compute_longrope_parameters).
void ModelWriter::writeLongRope() {
  double Original = Facts.getNumber("original_max_position_embeddings"),
         Positions = Facts.getNumber("max_position_embeddings");
  double Factor =
      Facts.findNumber("rope_scaling.factor").value_or(Positions / Original);
  double Attention =
      Facts.findNumber("rope_scaling.attention_factor")
          .value_or(Factor > 1
                        ? std::sqrt(1 + std::log(Factor) / std::log(Original))
                        : 1);
  File.setNumber(key("rope.scaling.attn_factor"), Attention);
  addFactors("rope_factors_long.weight",
             readFactors("rope_scaling.long_factor"));
  addFactors("rope_factors_short.weight",
             readFactors("rope_scaling.short_factor"));
}

void ModelWriter::writeScaling(const std::string &RopeType) {
  if (RopeType == "llama3")
    return writeLlama3Factors();
  if (RopeType == "longrope" || RopeType == "su")
    return writeLongRope();
  bool IsYarn = RopeType == "yarn";
  if (RopeType != "linear" && !IsYarn)
    refuse("its rotary embeddings are of type ", RopeType);
  File.setText(key("rope.scaling.type"), RopeType);
  File.setNumber(key("rope.scaling.factor"),
                 Facts.getNumber("rope_scaling.factor"));
  if (!IsYarn)
    return;
  for (const char *Member : {"attention_factor", "mscale", "mscale_all_dim"})
    require(!Facts.find(std::string("rope_scaling.") + Member), Member,
            "of its own in YaRN");
  File.setCount(
      key("rope.scaling.original_context_length"),
      Facts.getCount("rope_scaling.original_max_position_embeddings"));
  for (const char *Member : {"beta_fast", "beta_slow"})
    if (auto Beta = Facts.findNumber(std::string("rope_scaling.") + Member))
      File.setNumber(key("rope.scaling.yarn_") + Member, *Beta);
}

void ModelWriter::writeRope() {
  if (!Facts.find("rope_scaling.rope_theta"))
    return;
  double Part =
      Facts.findNumber("rope_scaling.partial_rotary_factor").value_or(1);
  File.setNumber(key("rope.freq_base"),
                 Facts.getNumber("rope_scaling.rope_theta"));
  File.setCount(key("rope.dimension_count"),
                static_cast<int64_t>(static_cast<double>(HeadDim) * Part));
  if (const char *Sliding = "rope_parameters.sliding_attention.rope_theta";
      Facts.find(Sliding))
    File.setNumber(key("rope.freq_base_swa"), Facts.getNumber(Sliding));
  if (is("phi3"))
    File.setCount(key("rope.scaling.original_context_length"),
                  Facts.getCount("original_max_position_embeddings"));
  std::string RopeType = Facts.getText("rope_scaling.rope_type");
  if (RopeType != "default")
    writeScaling(RopeType);
}

/// Caps and factors of single families.
void ModelWriter::writeScales() {
  static constexpr std::pair<const char *, const char *> Scales[] = {
      {"attn_logit_softcapping", "attn_logit_softcapping"},
      {"final_logit_softcapping", "final_logit_softcapping"},
      {"attention_multiplier", "attention.scale"},
      {"embedding_multiplier", "embedding_scale"},
      {"residual_multiplier", "residual_scale"},
      {"logits_scaling", "logit_scale"}};
  for (auto [Key, Name] : Scales)
    if (std::optional<double> Value = Facts.findNumber(Key))
      File.setNumber(key(Name), *Value);
}

void ModelWriter::write() {
  checkActivation();
  checkOwnKeys();
  writeContext();
  writeSizes();
  writeExperts();
  writeRope();
  writeScales();
}

std::vector<std::string>
poplar::runtime::describeGGUFModel(const ModelInfo &Model,
                                   const std::vector<TensorSource> &Tensors,
                                   GGUFFormat Format, GGUFFile &File) {
  const GGUFFamily *Family = findGGUFFamily(Model.architecture);
  if (!Family)
    fail("models of type ", Model.architecture,
         " cannot be exported to GGUF; those of type ", listGGUFFamilies(),
         " can");
  File.setText("general.architecture", Family->Architecture);
  File.setText("general.type", "model");
  static constexpr int64_t FileTypes[] = {0, 1, 32, 7};
  File.setCount("general.file_type", FileTypes[static_cast<size_t>(Format)]);
  if (Format == GGUFFormat::Q8_0)
    File.setCount("general.quantization_version", 2);
  ModelWriter Writer(Model, *Family, File);
  Writer.write();
  GGUFTensors Named(*Family, Writer.getHeads(), Writer.getNumLayers(),
                    Writer.isTied());
  for (const TensorSource &T : Tensors)
    Named.take(T);
  if (int64_t Wider = Named.addTo(File, Format))
    Writer.Notes.push_back(
        std::to_string(Wider) +
        " matrices are stored as f16: their rows are no multiple of 32");
  return Writer.Notes;
}
