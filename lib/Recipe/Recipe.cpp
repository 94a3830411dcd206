//===- Recipe.cpp - Recipes in axolotl's vocabulary -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Recipe/Recipe.h"
#include "Translator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace poplar;

bool Recipe::isAccepted() const {
  return llvm::none_of(keys, [](const RecipeKey &key) {
    return key.verdict == RecipeKey::Refused;
  });
}

static std::optional<Recipe> translate(const std::optional<yaml::Content> &root,
                                       const std::string &name,
                                       std::string &error) {
  Recipe recipe;
  if (!root || !Translator(name, error).translate(*root, recipe))
    return std::nullopt;
  return recipe;
}

std::optional<Recipe> poplar::readRecipe(const std::string &path,
                                         std::string &error) {
  return translate(yaml::readFile(path, error), path, error);
}

std::optional<Recipe> poplar::parseRecipe(const std::string &text,
                                          const std::string &name,
                                          std::string &error) {
  return translate(yaml::parse(text, name, error), name, error);
}

std::string poplar::formatRecipeTable(const Recipe &recipe) {
  static constexpr const char *verdicts[] = {"honoured", "ignored", "refused"};
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto print = [&](llvm::StringRef verdict, llvm::StringRef line,
                   const std::string &key, llvm::StringRef explanation) {
    stream << llvm::formatv("{0,-9} {1,7}  {2,-44}  {3}\n", verdict, line, key,
                            explanation);
  };
  print("verdict", "line", "key", "option, reason or remedy");
  for (const RecipeKey &key : recipe.keys)
    print(verdicts[key.verdict],
          key.line ? std::to_string(key.line) : "default",
          key.name + ": " + key.value, key.text);
  return text;
}
