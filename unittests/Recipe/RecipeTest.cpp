//===- RecipeTest.cpp - Recipes become commands, or are refused -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecipeFixture.h"
#include "Rules.h"

#include "../Support/Mutator.h"

#include <algorithm>

using namespace poplar;

namespace {

TEST_F(RecipeTest, StatesTheDefaultsOfAxolotl) {
  std::string words = translate("");
  EXPECT_EQ(words.substr(0, words.find(" --")), " " + directory + "/model");
  for (const char *option : {"--full",
                             "--lr 2e-4",
                             "--device-batch 8",
                             "--epochs 1",
                             "--schedule cosine",
                             "--min-lr 0",
                             "--warmup-ratio 0.03",
                             "--most-warmup 100",
                             "--warmup-start zero",
                             "--weight-decay 0",
                             "--beta1 0.9",
                             "--beta2 0.999",
                             "--eps 1e-8",
                             "--clip 1",
                             "--seed 42",
                             "--seq-len 512",
                             "--no-packing",
                             "--long-examples drop",
                             "--val-fraction 0",
                             "--keep 4",
                             "--save-ratio 1",
                             "--out ./model-out",
                             "--data-format jsonl"})
    EXPECT_TRUE(has(words, option)) << option << " in" << words;
  EXPECT_TRUE(has(words, "--data " + directory + "/rows.jsonl"));
}

TEST_F(RecipeTest, UnknownAndUnsupportedKeysAreRefusedWithARemedy) {
  std::string error;
  std::optional<Recipe> recipe =
      read(complete("lora_rr: 8\nrl: kto\nwandb_project: x\nzzz: 1\n"
                    "flash_attention: true\nseed:\n"),
           error);
  ASSERT_TRUE(recipe) << error;
  auto find = [&](const std::string &name) {
    auto key = std::find_if(recipe->keys.begin(), recipe->keys.end(),
                            [&](const auto &it) { return it.name == name; });
    EXPECT_NE(key, recipe->keys.end()) << name;
    return *key;
  };
  EXPECT_EQ(find("lora_rr").text, "unknown key; did you mean lora_r?");
  EXPECT_EQ(find("lora_rr").line, 8);
  EXPECT_EQ(find("zzz").text, "unknown key; remove it");
  EXPECT_EQ(find("rl").verdict, RecipeKey::Refused);
  EXPECT_EQ(find("wandb_project").verdict, RecipeKey::Ignored);
  EXPECT_EQ(find("flash_attention").verdict, RecipeKey::Ignored);
  EXPECT_FALSE(recipe->isAccepted());
  // null is as if the key were not there: the default counts.
  EXPECT_NE(std::find(recipe->arguments.begin(), recipe->arguments.end(), "42"),
            recipe->arguments.end());
}

TEST_F(RecipeTest, WrongTypesAndContradictionsAreLocated) {
  EXPECT_EQ(fail(complete("sequence_len: long\n")),
            "recipe.yaml:8:15: sequence_len: expected an integer, found long");
  EXPECT_EQ(fail(complete("num_epochs: [1]\n")),
            "recipe.yaml:8:13: num_epochs: expected a number, found [1]");
  EXPECT_EQ(fail(complete("sample_packing: maybe\n")),
            "recipe.yaml:8:17: sample_packing: expected true or false, found "
            "maybe");
  EXPECT_EQ(fail(complete("seed: 010\n")),
            "recipe.yaml:8:7: seed: expected an integer, found 010");
  EXPECT_EQ(fail(complete("batch_size: 8\n")),
            "recipe.yaml:8:1: batch_size and gradient_accumulation_steps "
            "exclude each other, as in axolotl; remove one");
  EXPECT_EQ(fail(complete("warmup_steps: 3\nwarmup_ratio: 0.1\n")),
            "recipe.yaml:9:1: warmup_steps and warmup_ratio exclude each "
            "other, as in axolotl; remove one");
  EXPECT_EQ(fail("base_model: x\nlearning_rate: 1\n"),
            "recipe.yaml:1:1: the recipe has no datasets");
  EXPECT_EQ(fail("- a\n"), "recipe.yaml:1:1: a recipe is a map of keys and "
                           "values, such as base_model: DIR");
  EXPECT_EQ(fail(""), "recipe.yaml:1:1: a recipe is a map of keys and values, "
                      "such as base_model: DIR");
  // Underscores and truth values are read as PyYAML reads them.
  std::string words = translate("sequence_len: 4_096\nsample_packing: Yes\n");
  EXPECT_TRUE(has(words, "--seq-len 4096"));
  EXPECT_TRUE(has(words, "--packing"));
}

TEST_F(RecipeTest, NoiseDependsOnTheRowsOfAxolotl) {
  // What a model of a micro-batch of two reads: two rows, or one of both.
  EXPECT_TRUE(has(translate("pad_to_sequence_len: true\n"
                            "neftune_noise_alpha: 5\n"),
                  "--neftune-alpha 5"));
  EXPECT_TRUE(has(translate("sample_packing: true\nnoisy_embedding_alpha: 5\n"),
                  "--neftune-alpha 5"));
  EXPECT_TRUE(has(translate("sample_packing: true\nflash_attention: true\n"
                            "neftune_noise_alpha: 5\n"),
                  "--neftune-alpha 3.5355339059327373"));
  EXPECT_TRUE(has(translate("sample_packing: true\nflash_attention: true\n"
                            "multipack_real_batches: true\n"
                            "neftune_noise_alpha: 5\n"),
                  "--neftune-alpha 5"));
  EXPECT_EQ(listRefused(complete("neftune_noise_alpha: 5\n")),
            "neftune_noise_alpha");
  EXPECT_EQ(fail(complete("neftune_noise_alpha: 0\n")),
            "recipe.yaml:8:1: neftune_noise_alpha: expected a number above 0, "
            "as in axolotl, found 0");
  EXPECT_EQ(
      fail(complete("neftune_noise_alpha: 5\nnoisy_embedding_alpha: 5\n")),
      "recipe.yaml:9:1: noisy_embedding_alpha: neftune_noise_alpha says "
      "the same, and axolotl takes one of both; remove this one");
}

TEST_F(RecipeTest, ConversationsOfMistralCommonNeedItsTokenizer) {
  const std::string key = "tokenizer_use_mistral_common: true\n";
  auto tekken = [&](const std::string &version) {
    write("model/tekken.json",
          R"({"config": {"pattern": "a+", "version": ")" + version + R"("}})");
  };
  auto tokenizer = [&](const std::string &pattern) {
    write("model/tokenizer.json",
          R"({"pre_tokenizer": {"pretokenizers": [{"pattern": {"Regex": ")" +
              pattern + R"("}}]}})");
  };
  EXPECT_EQ(listRefused(complete(key)), "tokenizer_use_mistral_common");
  tekken("v13");
  EXPECT_EQ(listRefused(complete(key)), "tokenizer_use_mistral_common");
  tokenizer("b+");
  EXPECT_EQ(listRefused(complete(key)), "tokenizer_use_mistral_common");
  tokenizer("a+");
  EXPECT_TRUE(has(translate(key), "--chat-template mistral-common:v7"));
  std::string words = translate(key + "chat_template: chatml\n");
  EXPECT_FALSE(has(words, "--chat-template chatml"));
  tekken("v3");
  EXPECT_TRUE(has(translate(key), "--chat-template mistral-common:v3"));
  tekken("v15");
  EXPECT_EQ(listRefused(complete(key)), "tokenizer_use_mistral_common");
  EXPECT_EQ(listRefused(complete("tokenizer_use_mistral_common: false\n")), "");
}

TEST_F(RecipeTest, ModelConfigMayAskForNothing) {
  const std::string balance = "model_config: {output_router_logits: true}\n";
  EXPECT_EQ(listRefused(complete(balance)), "");
  write("model/config.json", R"({"num_local_experts": 8, "rope_theta": 1e6,
      "router_aux_loss_coef": 0.02})");
  const std::string option = "--router-aux-loss-coef";
  EXPECT_TRUE(has(translate(balance), option + " 0.02"));
  EXPECT_TRUE(has(translate("model_config: {output_router_logits: true, "
                            "router_aux_loss_coef: 0.5}\n"),
                  option + " 0.5"));
  for (const char *nothing :
       {"output_router_logits: true, router_aux_loss_coef: 0",
        "router_aux_loss_coef: 1"})
    EXPECT_FALSE(has(
        translate(std::string("model_config: {") + nothing + "}\n"), option))
        << nothing;
  EXPECT_NE(fail(complete("model_config: {output_router_logits: yes, "
                          "router_aux_loss_coef: -1}\n"))
                .find("expected"),
            std::string::npos);
  EXPECT_TRUE(has(" " + listRefused(complete(balance + "rl: dpo\n")) + " ",
                  "model_config"));
  EXPECT_EQ(listRefused(complete("model_config: {rope_theta: 1000000}\n")), "");
  EXPECT_EQ(listRefused(complete("model_config: {rope_theta: 10000}\n")),
            "model_config");
}

TEST_F(RecipeTest, ExpertsInFourBitsAreRead) {
  const std::string config = "model_quantization_config: Mxfp4Config\n",
                    both = "model_quantization_config "
                           "model_quantization_config_kwargs";
  auto with = [&](const char *members) {
    return config + "model_quantization_config_kwargs: {" + members + "}\n";
  };
  EXPECT_EQ(listRefused(complete(with("dequantize: true"))), both);
  write("model/config.json", R"({"model_type": "gpt_oss"})");
  EXPECT_EQ(listRefused(complete(with("dequantize: true"))), "");
  EXPECT_EQ(listRefused(complete(config)), "model_quantization_config");
  EXPECT_EQ(listRefused(complete(with("dequantize: false"))), both);
  EXPECT_EQ(listRefused(complete(with("dequantize: true, bits: 4"))), both);
}

/// Values of all kinds, for keys that are to be read or refused.
constexpr const char *Values[] = {
    "true", "0",  "1",   "-1",     "0.5",      "1e300",         "x",
    "[]",   "{}", "[x]", "{a: b}", "[[x], 1]", "{a: [x, null]}"};

TEST_F(RecipeTest, NoKeyIsDroppedInSilence) {
  auto check = [&](const std::string &text, const std::string &name) {
    std::string error;
    std::optional<Recipe> recipe = read(text, error);
    ASSERT_NE(recipe.has_value(), !error.empty()) << text;
    if (!recipe)
      return;
    EXPECT_TRUE(std::any_of(
        recipe->keys.begin(), recipe->keys.end(),
        [&](const RecipeKey &key) { return key.name == name && key.line > 0; }))
        << text;
  };
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\n";
  for (const Rule &rule : getRecipeRules())
    for (const char *value : Values)
      for (const std::string &more : {std::string(), adapter}) {
        std::string name = rule.name.str(), base = complete(more);
        if (base.find("\n" + name + ":") != base.npos || name == "base_model" ||
            name == "test_datasets")
          continue;
        check(base + name + ": " + value + "\n", name);
      }
  for (const Rule &rule : getDatasetRules())
    for (const char *value : Values) {
      std::string name = rule.name.str();
      if (name != "path" && name != "type")
        check(complete("").append("    " + name + ": " + value + "\n"),
              "datasets[0]." + name);
    }
}

TEST_F(RecipeTest, AnyTextIsTranslatedOrRefused) {
  const std::string text =
      complete("    roles: {user: [human]}\nadapter: qlora\nlora_r: 8\n"
               "lora_alpha: 16\nlora_target_modules: [q_proj]\n"
               "load_in_4bit: true\nwarmup_ratio: 0.1\nmax_steps: 20\n"
               "val_set_size: 0.1\nevals_per_epoch: 2\n");
  Mutator mutator(1);
  for (int i = 0; i < 3000; ++i) {
    std::string error;
    std::optional<Recipe> recipe = read(mutator(text), error);
    EXPECT_NE(recipe.has_value(), !error.empty());
  }
}

} // namespace
