//===- RecipeFixture.h - Recipes beside a model and rows --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_RECIPE_RECIPEFIXTURE_H
#define POPLAR_UNITTESTS_RECIPE_RECIPEFIXTURE_H

#include "DirectoryFixture.h"
#include "Poplar/Recipe/Recipe.h"

namespace poplar {

/// Recipes beside a model and rows.
class RecipeTest : public DirectoryTest {
protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DirectoryTest::SetUp());
    std::filesystem::create_directory(directory + "/model");
    write("model/config.json", "{}");
    write("model/tokenizer_config.json",
          R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
    write("rows.jsonl", "{}\n");
    write("test.jsonl", "{}\n");
    setenv("HF_HUB_CACHE", (directory + "/cache").c_str(), 1);
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
};

/// Whether words, with a space around each, have some.
inline bool has(const std::string &words, const std::string &some) {
  return words.find(" " + some + " ") != words.npos;
}

} // namespace poplar

#endif // POPLAR_UNITTESTS_RECIPE_RECIPEFIXTURE_H
