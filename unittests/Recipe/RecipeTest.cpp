//===- RecipeTest.cpp - Recipes become commands, or are refused -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Recipe/Recipe.h"
#include "Poplar/Recipe/ModelTokens.h"
#include "Rules.h"

#include "../Support/Mutator.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace poplar;

namespace {

/// Recipes beside a model and rows.
class RecipeTest : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/poplar-recipe-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    directory = name;
    std::filesystem::create_directory(directory + "/model");
    write("model/config.json", "{}");
    write("model/tokenizer_config.json",
          R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
    write("rows.jsonl", "{}\n");
    write("test.jsonl", "{}\n");
    setenv("HF_HUB_CACHE", (directory + "/cache").c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  void write(const std::string &name, const std::string &text) const {
    std::ofstream(directory + "/" + name) << text;
  }

  /// Keys that make a recipe complete, and others.
  std::string complete(const std::string &keys) const {
    return "base_model: " + directory + "/model\nlearning_rate: 2e-4\n" +
           "micro_batch_size: 2\ngradient_accumulation_steps: 4\n" +
           "datasets:\n  - path: " + directory +
           "/rows.jsonl\n    type: chat_template\n" + keys;
  }

  static std::optional<Recipe> read(const std::string &text,
                                    std::string &error) {
    return parseRecipe(text, "recipe.yaml", error);
  }

  /// The words that a complete recipe becomes, with a space before and behind
  /// each.
  std::string translate(const std::string &keys) {
    std::string error, words = " ";
    std::optional<Recipe> recipe = read(complete(keys), error);
    EXPECT_TRUE(recipe) << error;
    if (!recipe)
      return "";
    EXPECT_TRUE(recipe->isAccepted()) << formatRecipeTable(*recipe);
    for (const std::string &word : recipe->arguments)
      words += word + " ";
    return words;
  }

  /// The keys that are refused.
  std::string listRefused(const std::string &text) {
    std::string error, names;
    std::optional<Recipe> recipe = read(text, error);
    EXPECT_TRUE(recipe) << error;
    if (recipe)
      for (const RecipeKey &key : recipe->keys)
        if (key.verdict == RecipeKey::Refused)
          names += (names.empty() ? "" : " ") + key.name;
    return names;
  }

  std::string fail(const std::string &text) {
    std::string error;
    EXPECT_FALSE(read(text, error)) << text;
    return error;
  }

  std::string directory;
};

bool has(const std::string &words, const std::string &some) {
  return words.find(" " + some + " ") != words.npos;
}

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
  EXPECT_EQ(listRefused(complete(lora + "lora_target_modules: "
                                        "model.layers.[0-9]+.mlp\n")),
            "lora_target_modules");
}

TEST_F(RecipeTest, TheCourseIsThatOfAxolotl) {
  // Steps of a warm-up are rounded down, and 1 becomes 2.
  EXPECT_TRUE(
      has(translate("max_steps: 50\nwarmup_ratio: 0.15\n"), "--warmup 7"));
  EXPECT_TRUE(
      has(translate("max_steps: 10\nwarmup_ratio: 0.1\n"), "--warmup 2"));
  EXPECT_TRUE(has(translate("max_steps: 10000\n"), "--warmup 100"));
  std::string words = translate("max_steps: 50\nnum_epochs: 3\n");
  EXPECT_TRUE(has(words, "--steps 50"));
  EXPECT_FALSE(has(words, "--epochs 3"));
  EXPECT_TRUE(has(translate("cosine_min_lr_ratio: 0.1\n"), "--min-lr 2e-05"));
  EXPECT_TRUE(has(translate("lr_scheduler: constant_with_warmup\n"),
                  "--schedule constant"));
  words = translate("lr_scheduler: constant\nwarmup_steps: 10\n");
  EXPECT_TRUE(has(words, "--warmup 0"));
  EXPECT_FALSE(has(words, "--warmup-start zero"));
  words = translate("lr_scheduler: polynomial\n"
                    "lr_scheduler_kwargs: {power: 2}\n");
  EXPECT_TRUE(has(words, "--power 2"));
  EXPECT_FALSE(has(words, "--power 1"));
  EXPECT_TRUE(has(words, "--min-lr 1e-7"));
  EXPECT_TRUE(has(translate("lr_scheduler: warmup_stable_decay\n"
                            "lr_scheduler_kwargs: {num_decay_steps: 5, "
                            "min_lr_ratio: 0.5}\n"),
                  "--decay-steps 5 --min-lr 1e-04"));
  EXPECT_EQ(listRefused(complete("lr_scheduler: warmup_stable_decay\n")),
            "lr_scheduler");
  EXPECT_EQ(listRefused(complete("lr_scheduler: rex\n")), "lr_scheduler");
}

TEST_F(RecipeTest, ValidationAndCheckpointsAreByTheWholeRun) {
  std::string words = translate("num_epochs: 2\nval_set_size: 0.05\n"
                                "evals_per_epoch: 4\nsaves_per_epoch: 1\n");
  for (const char *option :
       {"--val-fraction 0.05", "--val-split random", "--eval-batches 0",
        "--eval-ratio 0.125", "--save-ratio 0.5"})
    EXPECT_TRUE(has(words, option)) << option << " in" << words;
  words = translate("val_set_size: 0.05\nsave_strategy: 'no'\n");
  EXPECT_TRUE(has(words, "--eval-every 0"));
  EXPECT_TRUE(has(words, "--save-every 0 --save-minutes 0"));
  words = translate("val_set_size: 0.05\neval_steps: 10\nsave_steps: 10\n"
                    "early_stopping_patience: 3\n");
  EXPECT_TRUE(has(words, "--patience 3 --keep-best"));
  EXPECT_TRUE(has(translate("val_set_size: 0.05\nsave_strategy: best\n"
                            "eval_steps: 10\n"),
                  "--keep-best --save-every 0 --save-minutes 0"));
  EXPECT_EQ(fail(complete("load_best_model_at_end: true\n")),
            "recipe.yaml:8:1: load_best_model_at_end: needs val_set_size or "
            "test_datasets");
  words = translate("test_datasets:\n  - path: " + directory +
                    "/test.jsonl\n    type: chat_template\neval_steps: 20\n");
  EXPECT_TRUE(has(words, "--val-data " + directory + "/test.jsonl"));
  EXPECT_TRUE(has(words, "--eval-every 20"));
  EXPECT_FALSE(has(words, "--val-fraction 0"));
}

TEST_F(RecipeTest, EveryMemberOfADataSetIsAccountedFor) {
  auto dataset = [&](const std::string &members) {
    return "base_model: " + directory +
           "/model\nlearning_rate: 1e-4\nmicro_batch_size: 1\n"
           "gradient_accumulation_steps: 1\ndatasets:\n  - path: " +
           directory + "/rows.jsonl\n" + members;
  };
  const std::string chat = "    type: chat_template\n";
  EXPECT_EQ(listRefused(dataset("    type: alpaca\n    split: train\n")), "");
  EXPECT_EQ(listRefused(dataset(chat + "    field_messages: conversations\n"
                                       "    message_property_mappings:\n"
                                       "      role: from\n"
                                       "      content: value\n")),
            "");
  EXPECT_EQ(listRefused(dataset(chat + "    message_property_mappings:\n"
                                       "      weight: importance\n")),
            "datasets[0].message_property_mappings");
  EXPECT_EQ(listRefused(dataset(chat + "    roles_to_train: [assistant]\n"
                                       "    train_on_eos: turn\n"
                                       "    ds_type: json\n")),
            "");
  EXPECT_EQ(listRefused(dataset(chat + "    roles_to_train: [user]\n"
                                       "    train_on_eos: all\n"
                                       "    split: train[:1%]\n"
                                       "    sahrds: 4\n")),
            "datasets[0].roles_to_train datasets[0].train_on_eos "
            "datasets[0].split datasets[0].sahrds");
  EXPECT_EQ(listRefused(dataset("    type: completion\n    field: text\n")),
            "");
  EXPECT_EQ(listRefused(dataset("    type: completion\n  - path: " + directory +
                                "/test.jsonl\n" + chat)),
            "datasets[0].type");
  // A format is checked before rows are read.
  for (const char *type :
       {"{format: '{output}'}", "{format: '{instruction'}", "{format: 'a}'}",
        "{no_input_format: '{input}'}", "{formt: x}", "{system_prompt: x}",
        "{system_format: '{instruction}'}", "{format: [x]}", "reflection",
        "alpaca:summary", "alpaca_chat.load:phi", "sharegpt.load_role"})
    EXPECT_EQ(listRefused(dataset(std::string("    type: ") + type + "\n")),
              "datasets[0].type")
        << type;
  EXPECT_EQ(listRefused(dataset("    type: alpaca\n  - path: " + directory +
                                "/test.jsonl\n    type: alpaca:chat\n")),
            "datasets[0].type datasets[1].type");
  EXPECT_EQ(listRefused(dataset("    type: alpaca\n  - path: " + directory +
                                "/test.jsonl\n    type: gpteacher\n")),
            "");
  // Rows of token ids.
  EXPECT_EQ(listRefused(dataset("")), "");
  EXPECT_EQ(listRefused(dataset(chat +
                                "    drop_system_message: true\n"
                                "  - path: " +
                                directory + "/test.jsonl\n" + chat)),
            "datasets[0].drop_system_message");
  EXPECT_EQ(listRefused(dataset(chat + "    chat_template: chatml\n")), "");
  EXPECT_EQ(listRefused(dataset(chat + "    chat_template: command_a\n")),
            "datasets[0].chat_template");
  EXPECT_EQ(listRefused(dataset(chat + "    chat_template: chatml\n  - path: " +
                                directory + "/test.jsonl\n" + chat)),
            "datasets[0].chat_template");
  // The template of a data set replaces that of the recipe.
  std::string words = translate("chat_template: chatml\n");
  EXPECT_TRUE(has(words, "--chat-template chatml"));
  std::string error;
  std::optional<Recipe> recipe =
      read(dataset(chat + "    chat_template: llama3\nchat_template: chatml\n"),
           error);
  ASSERT_TRUE(recipe) << error;
  EXPECT_TRUE(recipe->isAccepted());
  EXPECT_EQ(std::count(recipe->arguments.begin(), recipe->arguments.end(),
                       "--chat-template"),
            1);
  write("a.jinja", "");
  write("b.jinja", "");
  auto file = [&](const char *name) {
    return "    chat_template_jinja: " + directory + "/" + name + "\n";
  };
  EXPECT_EQ(listRefused(dataset(chat + file("a.jinja"))), "");
  EXPECT_EQ(
      listRefused(dataset(chat + file("a.jinja") + "  - path: " + directory +
                          "/test.jsonl\n" + chat + file("b.jinja"))),
      "datasets[0].chat_template_jinja datasets[1].chat_template_jinja");
  EXPECT_EQ(fail(dataset(chat + "  - type: alpaca\n")),
            "recipe.yaml:8:5: datasets[1] has no path");
}

TEST_F(RecipeTest, DevicesThatShareSamplesHaveOneBatch) {
  // 2 x 4 samples.
  EXPECT_TRUE(has(translate("tensor_parallel_size: 2\n"), "--device-batch 4"));
  EXPECT_TRUE(has(translate("tensor_parallel_size: 2\n"
                            "context_parallel_size: 8\n"),
                  "--device-batch 1/2"));
  EXPECT_TRUE(
      has(translate("sequence_parallel_degree: 3\n"), "--device-batch 8/3"));
  EXPECT_EQ(fail(complete("tensor_parallel_size: -1\n")),
            "recipe.yaml:8:1: tensor_parallel_size: expected a count of "
            "devices, found -1");
}

TEST_F(RecipeTest, RowsAreFilteredByTheirTokens) {
  EXPECT_TRUE(has(translate("min_sample_len: 100\n"), "--least-tokens 100"));
  EXPECT_FALSE(has(translate("min_sample_len: 2\n"), "--least-tokens 2"));
  EXPECT_TRUE(
      has(translate("dataset_exact_deduplication: true\n"), "--drop-equal"));
  EXPECT_EQ(listRefused(complete("streaming: true\nmax_steps: 5\n")), "");
  EXPECT_EQ(listRefused(complete("streaming: true\n")), "streaming");
  EXPECT_EQ(listRefused(complete("streaming: true\nmax_steps: 5\n"
                                 "val_set_size: 0.1\n")),
            "streaming");
}

TEST_F(RecipeTest, ModulesToSaveAreThoseOfPEFT) {
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\n"
                              "lora_modules_to_save: [embed_tokens, lm_head]\n";
  EXPECT_TRUE(
      has(translate(adapter), "--lora-modules-to-save embed_tokens,lm_head"));
  // PEFT would train a copy of an embedding that is the head as well.
  for (const char *config :
       {R"({"tie_word_embeddings": true})", R"({"model_type": "gemma2"})"}) {
    write("model/config.json", config);
    EXPECT_EQ(listRefused(complete(adapter)), "lora_modules_to_save");
  }
}

TEST_F(RecipeTest, RowsOfTheEmbeddingAreAddedNowhere) {
  const std::string key = "resize_token_embeddings_to_32x: true\n";
  EXPECT_EQ(listRefused(complete(key)), "resize_token_embeddings_to_32x");
  write("model/config.json", R"({"vocab_size": 32064})");
  EXPECT_EQ(listRefused(complete(key)), "");
  write("model/config.json", R"({"vocab_size": 32011})");
  EXPECT_EQ(listRefused(complete(key)), "resize_token_embeddings_to_32x");
}

TEST_F(RecipeTest, MembersOfRowsMayHaveOtherNames) {
  auto words = [&](const std::string &members, const std::string &keys = "") {
    std::string error, text = " ";
    std::optional<Recipe> recipe =
        read("base_model: " + directory +
                 "/model\nlearning_rate: 1e-4\nmicro_batch_size: 1\n"
                 "gradient_accumulation_steps: 1\n" +
                 keys + "datasets:\n  - path: " + directory + "/rows.jsonl\n" +
                 members,
             error);
    EXPECT_TRUE(recipe) << error;
    if (!recipe)
      return std::string();
    EXPECT_TRUE(recipe->isAccepted()) << formatRecipeTable(*recipe);
    for (const std::string &word : recipe->arguments)
      text += word + " ";
    return text;
  };
  const std::string chat = "    type: chat_template\n";
  EXPECT_TRUE(has(words(chat + "    field_messages: conversations\n"),
                  "--read-member messages=conversations"));
  std::string text = words(chat + "    message_property_mappings:\n"
                                  "      role: speaker\n"
                                  "      reasoning_content: thoughts\n"
                                  "    field_tools: functions\n"
                                  "    message_field_training: learn\n");
  for (const char *pair :
       {"messages.role=speaker", "messages.reasoning_content=thoughts",
        "tools=functions", "messages.train=learn"})
    EXPECT_TRUE(has(text, std::string("--read-member ") + pair)) << text;
  text = words(chat + "    roles: {user: [human, user], assistant: [bot]}\n"
                      "    drop_system_message: true\n");
  EXPECT_TRUE(has(text, "--read-role user=human --read-role assistant=bot"))
      << text;
  EXPECT_TRUE(has(text, "--drop-system"));
  // Conversations of ShareGPT are read as they are.
  text = words(chat + "    field_messages: conversations\n"
                      "    message_property_mappings: {role: from, content: "
                      "value}\n    roles: {user: [human], assistant: [gpt]}\n");
  EXPECT_EQ(text.find("--read"), text.npos) << text;
  text = words(chat + "    field_messages: messages\n"
                      "    message_property_mappings: {role: role}\n");
  EXPECT_EQ(text.find("--read"), text.npos) << text;
  // Not those of pairs.
  text = words("    type: chat_template.default\n"
               "    field_messages: conversations\n    field_chosen: good\n"
               "    message_property_mappings: {role: from, content: value}\n",
               "rl: dpo\n");
  for (const char *pair : {"messages=conversations", "messages.role=from",
                           "messages.content=value", "chosen=good"})
    EXPECT_TRUE(has(text, std::string("--read-member ") + pair)) << text;
  EXPECT_TRUE(has(words("    type: completion\n    field: body\n"),
                  "--read-member text=body"));
  text = words("    type: alpaca_chat.load_qa\n");
  EXPECT_TRUE(has(text, "--read-member instruction=question"));
  EXPECT_TRUE(has(text, "--encode-apart"));
  EXPECT_TRUE(has(words("    type: alpaca\n", "train_on_inputs: true\n"),
                  "--count-prompts"));
  EXPECT_TRUE(has(words("    type: {format: '{instruction}', no_input_format: "
                        "\"a\\n\"}\n"),
                  "--prompt-format-alone a\\n --system-format {system}"));
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

TEST_F(RecipeTest, PairsAreTrainedOnByDPOAndORPO) {
  auto complete = [&](const std::string &type, const std::string &keys) {
    return "base_model: " + directory +
           "/model\nlearning_rate: 1e-6\nmicro_batch_size: 2\n"
           "gradient_accumulation_steps: 1\ndatasets:\n  - path: " +
           directory + "/rows.jsonl\n    type: " + type + "\n" + keys;
  };
  auto translate = [&](const std::string &text) {
    std::string error, words = " ";
    std::optional<Recipe> recipe = read(text, error);
    EXPECT_TRUE(recipe) << error;
    if (!recipe)
      return words;
    EXPECT_TRUE(recipe->isAccepted()) << formatRecipeTable(*recipe);
    for (const std::string &word : recipe->arguments)
      words += word + " ";
    return words;
  };
  const std::string adapter = "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
                              "lora_target_linear: true\nlora_dropout: 0.1\n";
  std::string words = translate(
      complete("chat_template.default",
               "    field_chosen: chosen\nrl: dpo\nrl_beta: 0.2\n"
               "sample_packing: false\nprecompute_ref_log_probs: true\n"
               "dpo_loss_type: [sigmoid]\nsequence_len: 256\n" +
                   adapter));
  EXPECT_TRUE(has(words, "--preference dpo"));
  EXPECT_TRUE(has(words, "--preference-beta 0.2"));
  EXPECT_TRUE(has(words, "--packing"));
  EXPECT_TRUE(has(words, "--seq-len 256"));
  EXPECT_FALSE(has(words, "--no-packing"));
  EXPECT_FALSE(has(words, "--lora-dropout 0.1"));
  words = translate(
      complete("chat_template.argilla", "rl: orpo\norpo_alpha: 0.3\n"));
  EXPECT_TRUE(has(words, "--preference orpo"));
  EXPECT_TRUE(has(words, "--preference-beta 0.3"));

  for (const char *loss : {"ipo", "kto", "simpo", "grpo", "gdpo", "ebft"})
    EXPECT_EQ(
        listRefused(complete("passthrough", std::string("rl: ") + loss + "\n")),
        "rl")
        << loss;
  EXPECT_EQ(listRefused(complete("passthrough",
                                 "rl: dpo\ndpo_loss_type: [hinge]\n"
                                 "dpo_label_smoothing: 0.1\nrpo_alpha: 1\n"
                                 "dpo_use_weighting: true\norpo_alpha: 1\n")),
            "dpo_loss_type dpo_label_smoothing rpo_alpha dpo_use_weighting "
            "orpo_alpha");
  EXPECT_EQ(listRefused(complete("chatml.intel", "rl: dpo\n")),
            "datasets[0].type");
  EXPECT_EQ(listRefused(complete("chat_template.argilla", "rl: dpo\n")),
            "datasets[0].type");
  EXPECT_EQ(listRefused(complete("chat_template.default",
                                 "    field_chosen: better\nrl: dpo\n")),
            "");
  EXPECT_EQ(fail(complete("passthrough",
                          "rl: orpo\nrl_beta: 0.1\norpo_alpha: 0.2\n")),
            "recipe.yaml:9:1: rl_beta: orpo_alpha is 0.2, and both are the "
            "beta of the loss; remove one");
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

TEST_F(RecipeTest, TokensAreAddedWhereTheEmbeddingHasRows) {
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
            "");
  // Two tokens and one row.
  EXPECT_EQ(listRefused(complete(end("<new>") + "tokens: [<other>]\n")),
            "special_tokens tokens");

  write("model/tokenizer_config.json",
        R"({"eos_token": "</s>", "added_tokens_decoder": {}, "z": 1, "y": 2})");
  write("model/generation_config.json", R"({"eos_token_id": [2, 3]})");
  std::string error, output = directory + "/out";
  ASSERT_TRUE(
      writeWithTokens(directory + "/model", {"<new>", {}}, output, error))
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
  EXPECT_FALSE(writeWithTokens(directory + "/model", {"<new>", {"<other>"}},
                               output + "2", error));
  EXPECT_EQ(error, "the embedding has 5 rows, and there would be 6 tokens; add "
                   "them by add_tokens and resize_token_embeddings of "
                   "transformers, and give that model");
  EXPECT_FALSE(std::filesystem::exists(output + "2"));
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
