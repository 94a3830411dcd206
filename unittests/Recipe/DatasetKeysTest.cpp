//===- DatasetKeysTest.cpp - Data sets, their rows and pairs --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecipeFixture.h"

#include <algorithm>

using namespace poplar;

namespace {

TEST_F(RecipeTest, TextsForPretrainingBecomeWindows) {
  const std::string head = "base_model: " + directory +
                           "/model\nlearning_rate: 2e-4\n"
                           "micro_batch_size: 2\n"
                           "gradient_accumulation_steps: 4\n";
  const std::string source = "pretraining_dataset:\n  - path: " + directory +
                             "/rows.jsonl\n    type: pretrain\n"
                             "    text_column: body\n    split: train\n";
  std::string error, words = " ";
  std::optional<Recipe> recipe =
      read(head + source +
               "max_steps: 7\nsample_packing: true\n"
               "reinit_weights: true\nadam_eps: 1e-9\n",
           error);
  ASSERT_TRUE(recipe) << error;
  EXPECT_TRUE(recipe->isAccepted()) << formatRecipeTable(*recipe);
  for (const std::string &word : recipe->arguments)
    words += word + " ";
  for (const char *option :
       {"--long-examples overlap", "--read-member text=body", "--steps 7",
        "--packing", "--random-weights", "--full", "--eps 1e-8"})
    EXPECT_TRUE(has(words, option)) << option << " in" << words;

  EXPECT_NE(fail(head + source).find("needs max_steps, as in axolotl"),
            std::string::npos);
  const std::string rest = head + source + "max_steps: 7\n";
  EXPECT_EQ(listRefused(rest), "pretraining_dataset");
  EXPECT_EQ(listRefused(rest + "sample_packing: true\n"
                               "pretrain_multipack_attn: false\n"),
            "pretrain_multipack_attn");
  EXPECT_EQ(listRefused(rest + "sample_packing: true\ndatasets:\n  - path: " +
                        directory + "/rows.jsonl\n    type: alpaca\n"),
            "datasets");
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

} // namespace
