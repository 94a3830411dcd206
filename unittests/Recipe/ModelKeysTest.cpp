//===- ModelKeysTest.cpp - The model, its tokens and its adapters ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecipeFixture.h"

#include "Poplar/Recipe/ModelTokens.h"

using namespace poplar;

namespace {

TEST_F(RecipeTest, AdaptersAreThoseOfPEFT) {
  const std::string lora = "adapter: lora\nlora_r: 16\nlora_alpha: 32\n";
  std::string words = translate(lora + "lora_dropout: 0.05\n"
                                       "lora_target_modules: [q_proj, v_proj]\n"
                                       "sample_packing: true\n");
  for (const char *option :
       {"--lora-rank 16", "--lora-alpha 32", "--lora-dropout 0.05",
        "--lora-targets q_proj,v_proj", "--packing"})
    EXPECT_TRUE(has(words, option)) << option << " in" << words;
  EXPECT_FALSE(has(words, "--full"));
  // A scale of 32 / sqrt(16) is 128 / 16.
  EXPECT_TRUE(
      has(translate(lora + "lora_target_linear: true\npeft_use_rslora: true\n"),
          "--lora-alpha 128"));
  const std::string qlora = "adapter: qlora\nload_in_4bit: true\nlora_r: 8\n"
                            "lora_alpha: 16\nlora_target_linear: true\n";
  EXPECT_TRUE(has(translate(qlora), "--frozen-format nf4_double"));
  EXPECT_TRUE(has(translate(qlora + "bnb_config_kwargs:\n"
                                    "  bnb_4bit_use_double_quant: false\n"),
                  "--frozen-format nf4"));
  EXPECT_TRUE(
      has(translate(lora + "lora_target_linear: true\nload_in_8bit: true\n"),
          "--frozen-format int8"));
  EXPECT_EQ(fail(complete("adapter: qlora\nlora_r: 8\nlora_alpha: 16\n"
                          "lora_target_linear: true\n")),
            "recipe.yaml:8:1: adapter: qlora needs load_in_4bit: true");
  EXPECT_EQ(fail(complete(lora)),
            "recipe.yaml:8:1: adapter: lora_target_modules is missing, or "
            "lora_target_linear: true for all linear layers");
  words = translate(lora + "lora_target_modules: 'layers.[0-9]+.mlp'\n");
  EXPECT_TRUE(has(words, "--lora-target-pattern layers.[0-9]+.mlp")) << words;
  words = translate(lora + "lora_target_modules: 'layers.[0-9]+.mlp'\n"
                           "lora_target_linear: true\n");
  EXPECT_TRUE(has(words, "--lora-targets all-linear")) << words;
  EXPECT_EQ(words.find("pattern"), words.npos) << words;
}

TEST_F(RecipeTest, ExpertsAreQuantisedAsInAxolotl) {
  const std::string lora = "lora_r: 8\nlora_alpha: 16\n",
                    modules = "lora_target_modules: [q_proj]\n",
                    asks = "quantize_moe_experts: true\n";
  const std::string four = "adapter: qlora\nload_in_4bit: true\n" + lora,
                    eight = "adapter: lora\nload_in_8bit: true\n" + lora;
  EXPECT_FALSE(has(translate(four + modules + asks), "--quantize-experts"));
  write("model/config.json", R"({"text_config": {"n_routed_experts": 4}})");
  std::string words = translate(four + modules + asks);
  EXPECT_TRUE(has(words, "--frozen-format nf4_double")) << words;
  EXPECT_TRUE(has(words, "--quantize-experts")) << words;
  words = translate(eight + modules + asks);
  EXPECT_TRUE(has(words, "--frozen-format int8")) << words;
  EXPECT_TRUE(has(words, "--quantize-experts")) << words;
  words = translate(four + modules + "quantize_moe_experts: false\n");
  EXPECT_EQ(words.find("--quantize-experts"), words.npos) << words;
  for (const auto &[keys, reason] :
       {std::pair(asks, "needs an adapter, as in axolotl"),
        std::pair("adapter: lora\n" + lora + modules + asks,
                  "needs load_in_4bit or load_in_8bit, as in axolotl"),
        std::pair(four + "lora_target_linear: true\n" + asks,
                  "and lora_target_linear exclude each other, as in axolotl; "
                  "name the modules in lora_target_modules")}) {
    std::string error = fail(complete(keys));
    EXPECT_NE(error.find(reason), error.npos) << error;
  }
  write("model/config.json",
        R"({"model_type": "gpt_oss", "num_local_experts": 4})");
  EXPECT_EQ(listRefused(complete(four + modules + asks)),
            "quantize_moe_experts");
}

TEST_F(RecipeTest, NamesOfExpertsAreRefused) {
  const std::string lora = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                           "lora_target_modules: [q_proj, ";
  write("model/config.json", R"({"model_type": "qwen3_next"})");
  for (const char *name : {"up_proj", "shared_expert.down_proj"})
    EXPECT_EQ(listRefused(complete(lora + name + "]\n")),
              "lora_target_modules");
  EXPECT_TRUE(
      has(translate(lora + "o_proj]\n"), "--lora-targets q_proj,o_proj"));
  write("model/config.json", R"({"model_type": "qwen2_moe"})");
  EXPECT_EQ(listRefused(complete(lora + "up_proj]\n")), "");
}

TEST_F(RecipeTest, UnfrozenParametersAreThoseOfAxolotl) {
  std::string words =
      translate("unfrozen_parameters:\n  - ^lm_head.weight$\n"
                "  - model.layers.4[4-9]+.block_sparse_moe.gate\n"
                "  - model.language_model.*\n  - a.+b|^c.d$\n");
  for (const char *option :
       {"--train-parameters lm_head\\.weight",
        "--train-parameters "
        "model\\.layers\\.4[4-9]+\\.block_sparse_moe\\.gate.*",
        "--train-parameters model\\.language_model\\.*.*",
        "--train-parameters (?:a.+b|^c\\.d$).*"})
    EXPECT_TRUE(has(words, option)) << option << " in" << words;
  EXPECT_EQ(words.find("--full"), words.npos) << words;
  EXPECT_TRUE(has(translate("unfrozen_parameters: []\n"), "--full"));
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\n";
  for (const std::string &keys :
       {std::string("unfrozen_parameters: ['lm_head.weight[:32000]']\n"),
        std::string("unfrozen_parameters: ['lm_head\\.weight']\n"),
        adapter + "unfrozen_parameters: [^lm_head.*]\n"})
    EXPECT_EQ(listRefused(complete(keys)), "unfrozen_parameters");
}

TEST_F(RecipeTest, ModulesToSaveAreThoseOfPEFT) {
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\n"
                              "lora_modules_to_save: [embed_tokens, lm_head]\n";
  EXPECT_TRUE(
      has(translate(adapter), "--lora-modules-to-save embed_tokens,lm_head"));
  // An embedding that is the head as well becomes two.
  write("model/config.json", R"({"tie_word_embeddings": true})");
  EXPECT_EQ(listRefused(complete(adapter)), "");
}

TEST_F(RecipeTest, RowsAreAddedToTheEmbeddingAsInAxolotl) {
  const std::string key = "resize_token_embeddings_to_32x: true\n";
  EXPECT_EQ(listRefused(complete(key)), "resize_token_embeddings_to_32x");
  write("model/config.json", R"({"vocab_size": 32064})");
  EXPECT_EQ(listRefused(complete(key)), "");
  // Without a tokenizer, nobody knows whether there are enough.
  write("model/config.json", R"({"vocab_size": 32011})");
  EXPECT_EQ(listRefused(complete(key)), "resize_token_embeddings_to_32x");
  write("model/tokenizer.json",
        R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}},
            "added_tokens": []})");
  EXPECT_FALSE(has(translate(key), "--embedding-multiple 32"));
  write("model/config.json", R"({"vocab_size": 2})");
  std::string words = translate(key);
  EXPECT_TRUE(has(words, "--embedding-multiple 32")) << words;
  EXPECT_TRUE(has(words, "--new-rows random")) << words;
  words = translate("tokens: [c]\nmean_resizing_embeddings: true\n");
  EXPECT_TRUE(has(words, "--add-token c")) << words;
  EXPECT_TRUE(has(words, "--new-rows mean")) << words;
  words = translate("tokens: [b]\n");
  EXPECT_EQ(words.find("--new-rows"), words.npos) << words;
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\n";
  EXPECT_EQ(listRefused(complete(adapter + "tokens: [c]\n")), "tokens");
  EXPECT_EQ(listRefused(complete(adapter + "tokens: [c]\nlora_modules_to_save: "
                                           "[embed_tokens, lm_head]\n")),
            "");
}

TEST_F(RecipeTest, ModelsAndRowsOfTheHubHaveToBeThere) {
  std::string hub = complete("").replace(0, complete("").find('\n'),
                                         "base_model: some/model");
  EXPECT_EQ(listRefused(hub), "base_model");
  std::string cache = directory + "/cache/models--some--model/";
  std::filesystem::create_directories(cache + "snapshots/abc");
  std::filesystem::create_directories(cache + "refs");
  write("cache/models--some--model/refs/main", "abc");
  write("cache/models--some--model/snapshots/abc/config.json", "{}");
  std::string error;
  std::optional<Recipe> recipe = read(hub, error);
  ASSERT_TRUE(recipe) << error;
  EXPECT_EQ(recipe->arguments.front(), cache + "snapshots/abc");
  std::string rows = complete("");
  rows.replace(rows.find(directory + "/rows"),
               directory.size() + std::string("/rows.jsonl").size(),
               "some/rows");
  EXPECT_EQ(listRefused(rows), "datasets[0].path");
}

TEST_F(RecipeTest, SpecialTokensAreThoseOfTheTokenizer) {
  EXPECT_EQ(listRefused(complete("special_tokens:\n  pad_token: x\n"
                                 "  bos_token: <s>\n  eos_token: </s>\n")),
            "");
  // There is no tokenizer.json to change.
  EXPECT_EQ(listRefused(complete("special_tokens: {eos_token: <|im_end|>}\n")),
            "special_tokens");
  EXPECT_EQ(listRefused(complete("tokens: [<|im_start|>]\n")), "tokens");
}

TEST_F(RecipeTest, TokensAreAdded) {
  write("model/tokenizer.json",
        R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "</s>": 2}},
            "added_tokens": [{"id": 2, "content": "</s>", "special": true},
                             {"id": 3, "content": "<end>", "special": false}]})");
  write("model/config.json", R"({"vocab_size": 5, "eos_token_id": 2})");
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\n";
  auto end = [](const std::string &token) {
    return "special_tokens: {eos_token: " + token + "}\n";
  };
  EXPECT_TRUE(has(translate(end("<end>")), "--eos-token <end>"));
  EXPECT_TRUE(has(translate(end("<end>") + adapter), "--eos-token <end>"));
  EXPECT_TRUE(has(translate(end("<new>") + "tokens: [a, <end>]\n"),
                  "--add-token a --add-token <end>"));
  // A new token beside an adapter needs its rows trained.
  EXPECT_EQ(listRefused(complete(end("<new>") + adapter)), "special_tokens");
  EXPECT_EQ(listRefused(complete(end("<new>") + adapter +
                                 "lora_modules_to_save: [embed_tokens]\n")),
            "special_tokens");
  EXPECT_EQ(
      listRefused(complete(end("<new>") + adapter +
                           "lora_modules_to_save: [embed_tokens, lm_head]\n")),
      "");

  write("model/tokenizer_config.json",
        R"({"eos_token": "</s>", "added_tokens_decoder": {}, "z": 1, "y": 2})");
  write("model/generation_config.json", R"({"eos_token_id": [2, 3]})");
  std::string error, output = directory + "/out";
  ASSERT_TRUE(
      writeWithTokens(directory + "/model", {"<new>", {}}, {}, output, error))
      << error;
  auto check = [&](const std::string &name, const std::string &part) {
    std::ifstream file(output + "/" + name);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find(part), text.npos) << name << " " << text;
  };
  check("config.json", "\"eos_token_id\": 4");
  check("generation_config.json", "4,\n    2,\n    3");
  check("tokenizer_config.json", "\"eos_token\": \"<new>\"");
  check("tokenizer_config.json", "\"4\": {\n      \"content\": \"<new>\"");
  check("tokenizer_config.json", "\"z\": 1,\n  \"y\": 2");
  check("tokenizer.json", "\"id\": 4,\n      \"content\": \"<new>\"");
  // Two tokens and one row; there are no weights to change.
  EXPECT_FALSE(writeWithTokens(directory + "/model", {"<new>", {"<other>"}}, {},
                               output + "2", error));
  EXPECT_EQ(error, directory + "/model: has no model.safetensors whose "
                               "embedding could get rows; save_pretrained of "
                               "transformers 4.35 or later writes it");
}

} // namespace
