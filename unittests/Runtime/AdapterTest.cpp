//===- AdapterTest.cpp - Directories of PEFT ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Adapter.h"
#include "TestSupport.h"
#include "support/Error.h"

#include <functional>

using namespace poplar::runtime;

namespace {

class AdapterTest : public testing::Test {
protected:
  TempDir Dir;

  /// Writes adapter_config.json with `Members` beside what every adapter has.
  void writeConfig(const std::string &Members,
                   const std::string &Targets = R"(["q_proj"])") {
    writeFile(Dir / AdapterConfigName,
              R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, )"
              R"("target_modules": )" +
                  Targets + (Members.empty() ? "" : ", ") + Members + "}");
  }

  /// The message of the Error; empty without one.
  static std::string getError(const std::function<void()> &Do) {
    try {
      Do();
    } catch (const Error &E) {
      return E.what();
    }
    return "";
  }
  std::string getConfigError(const std::string &Members) {
    writeConfig(Members);
    return getError([&] { readAdapterConfig(Dir / ""); });
  }

  /// Writes pairs of tensors for modules, without their common beginning.
  void writeWeights(const std::vector<std::string> &Modules) {
    std::vector<float> Values(16, 0.5);
    std::vector<TensorSource> Tensors;
    for (const std::string &Module : Modules) {
      std::string Name = getAdapterName("model.layers." + Module, /*IsMultimodal=*/false);
      Tensors.push_back({Name + ".lora_A.weight", {2, 3}, Values.data()});
      Tensors.push_back({Name + ".lora_B.weight", {3, 2}, Values.data()});
    }
    writeSafetensors(Dir / AdapterWeightsName, Tensors);
  }

  /// The Error of a program whose adapters are on `Modules`, with rank 2 and
  /// alpha 4.
  std::string getProgramError(const std::vector<std::string> &Modules,
                              double Alpha = 4) {
    AdapterInfo Info;
    Info.Rank = 2;
    Info.Alpha = Alpha;
    Info.Targets = {"all"};
    std::vector<std::string> Names;
    for (const std::string &Module : Modules)
      for (const char *End : {".lora_A.weight", ".lora_B.weight"})
        Names.push_back(getAdapterName("model.layers." + Module + End, /*IsMultimodal=*/false));
    return getError([&] {
      AdapterInfo Given = readAdapterConfig(Dir / "");
      checkAdapterConfig(Info, Given, openAdapter(Given, Dir / ""), Names,
                         "DIR");
    });
  }
};

TEST_F(AdapterTest, AcceptsMembersThatChangeNothing) {
  for (const char *Members :
       {"",
        R"("bias": "none")",
        R"("bias": null)",
        R"("init_lora_weights": true)",
        R"("init_lora_weights": false)",
        R"("init_lora_weights": null)",
        R"("init_lora_weights": "gaussian")",
        R"("init_lora_weights": "Gaussian")",
        R"("init_lora_weights": "eva", "eva_config": {"rho": 2.0})",
        R"("init_lora_weights": "orthogonal")",
        R"("peft_version": "0.21.2", "revision": "main")",
        R"("auto_mapping": {"base_model_class": "LlamaForCausalLM"})",
        R"("runtime_config": {"ephemeral_gpu_offload": false})",
        R"("megatron_config": null, "megatron_core": "megatron.core")",
        R"("loftq_config": {}, "corda_config": null, "kasa_config": null)",
        R"("use_qalora": false, "qalora_group_size": 16)",
        R"("alora_invocation_tokens": null, "use_bdlora": null)",
        R"("task_type": "CAUSAL_LM", "inference_mode": true)",
        R"("exclude_modules": ["lm_head"])",
        R"("of_a_later_peft": null)"})
    EXPECT_EQ(getConfigError(Members), "") << Members;
}

TEST_F(AdapterTest, RefusesMembersThatChangeTheFunction) {
  for (auto [Members, Part] : {
           std::pair(R"("bias": "all")", "bias is all"),
           std::pair(R"("task_type": "SEQ_CLS")", "task_type is SEQ_CLS"),
           std::pair(R"("init_lora_weights": "pissa")", "pissa"),
           std::pair(R"("init_lora_weights": "PiSSA")", "PiSSA"),
           std::pair(R"("init_lora_weights": "pissa_niter_16")", "niter_16"),
           std::pair(R"("init_lora_weights": "olora")", "olora"),
           std::pair(R"("init_lora_weights": "corda")", "corda"),
           std::pair(R"("init_lora_weights": "loftq")", "loftq"),
           std::pair(R"("init_lora_weights": "lora_ga")", "lora_ga"),
           std::pair(R"("init_lora_weights": "mica")", "mica"),
           std::pair(R"("init_lora_weights": "new")", "new"),
           std::pair(R"("init_lora_weights": 1)", "true, false or string"),
           std::pair(R"("alora_invocation_tokens": [1])",
                     "alora_invocation_tokens is set"),
           std::pair(R"("kasa_config": {"beta": 0})", "kasa_config is set"),
           std::pair(R"("velora_config": {"a": 1})", "velora_config is set"),
           std::pair(R"("monteclora_config": {"a": 1})", "monteclora_config"),
           std::pair(R"("arrow_config": {"top_k": 3})", "arrow_config is set"),
           std::pair(R"("use_bdlora": {"nblocks": 1})", "use_bdlora is set"),
           std::pair(R"("use_dora": true)", "use_dora is set"),
           std::pair(R"("use_rslora": true)", "use_rslora is set"),
           std::pair(R"("use_qalora": true)", "use_qalora is set"),
           std::pair(R"("lora_bias": true)", "lora_bias is set"),
           std::pair(R"("rank_pattern": {"x": 1})", "rank_pattern is set"),
           std::pair(R"("alpha_pattern": {"x": 1})", "alpha_pattern is set"),
           std::pair(R"("layers_to_transform": 0)", "layers_to_transform"),
           std::pair(R"("layers_pattern": "h")", "layers_pattern is set"),
           std::pair(R"("layer_replication": [[0, 1]])", "layer_replication"),
           std::pair(R"("target_parameters": ["x"])", "target_parameters"),
           std::pair(R"("trainable_token_indices": [1])", "trainable_token"),
           std::pair(R"("ensure_weight_tying": true)", "ensure_weight_tying"),
           std::pair(R"("megatron_config": {"a": 1})", "megatron_config"),
           std::pair(R"("exclude_modules": "x.*")", "no list of names"),
           std::pair(R"("of_a_later_peft": 1)", "of_a_later_peft is set"),
           std::pair(R"("lora_dropout": 2)", "no number from 0 to 1"),
           std::pair(R"("lora_dropout": "0")", "lora_dropout is no number"),
           std::pair(R"("fan_in_fan_out": "no")", "is no true or false"),
       }) {
    std::string Message = getConfigError(Members);
    EXPECT_NE(Message.find(Part), std::string::npos) << Members << Message;
    EXPECT_NE(Message.find(AdapterConfigName), std::string::npos) << Message;
  }
  writeFile(Dir / AdapterConfigName, R"({"peft_type": "LOHA", "r": 2})");
  EXPECT_NE(
      getError([&] { readAdapterConfig(Dir / ""); }).find("peft_type is LOHA"),
      std::string::npos);
  writeFile(Dir / AdapterConfigName, R"({"r": 2, "lora_alpha": 4})");
  EXPECT_NE(getError([&] {
              readAdapterConfig(Dir / "");
            }).find("lacks target_modules"),
            std::string::npos);
}

TEST_F(AdapterTest, SaysHowToImportForOtherAdapters) {
  std::vector<std::string> All = {"0.attn.q_proj", "0.attn.k_proj",
                                  "0.mlp.c_proj",  "1.attn.q_proj",
                                  "1.attn.k_proj", "1.mlp.c_proj"};
  writeConfig("");
  writeWeights({"0.attn.q_proj", "1.attn.q_proj"});
  EXPECT_EQ(getProgramError({"0.attn.q_proj", "1.attn.q_proj"}), "");
  EXPECT_EQ(getProgramError(All, 8),
            "the adapter in 'DIR' has lora_alpha 4 and the targets q_proj, but "
            "the program's have lora_alpha 8 and the targets all; import the "
            "model with --lora-alpha 4 --lora-targets q_proj");
  // From the names of tensors, if there is an expression.
  writeConfig("", R"("all-linear")");
  writeWeights(All);
  EXPECT_EQ(getProgramError(All), "");
  EXPECT_NE(getProgramError({"0.attn.q_proj", "0.attn.c_proj"})
                .find("--lora-targets k_proj,mlp.c_proj,q_proj"),
            std::string::npos);
}

TEST_F(AdapterTest, RefusesWeightsThatTheConfigurationLeavesOut) {
  writeWeights({"0.q_proj", "0.v_proj"});
  writeConfig("");
  EXPECT_NE(getProgramError({"0.q_proj", "0.v_proj"}).find("0.v_proj"),
            std::string::npos);
  writeConfig(R"("exclude_modules": ["v_proj"])", R"(["q_proj", "v_proj"])");
  EXPECT_NE(getProgramError({"0.q_proj", "0.v_proj"}).find("leave out"),
            std::string::npos);
}

TEST_F(AdapterTest, TellsWhatToDoAboutOtherFiles) {
  writeConfig("");
  writeFile(Dir / "adapter_model.bin", "PK\3\4");
  EXPECT_NE(getProgramError({}).find("has its weights in adapter_model.bin"),
            std::string::npos);
}

} // namespace
