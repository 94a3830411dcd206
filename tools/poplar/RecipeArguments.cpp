//===- RecipeArguments.cpp - poplar finetune RECIPE.yaml ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"
#include "Poplar/Recipe/Recipe.h"
#include "Poplar/Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace poplar;

static bool isRecipe(llvm::StringRef word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

/// The words of a recipe without the options that others name.
static std::vector<std::string>
replaceOptions(const std::vector<std::string> &recipe,
               llvm::ArrayRef<std::string> others) {
  std::vector<std::string> kept;
  bool isReplaced = false;
  for (const std::string &word : recipe) {
    if (llvm::StringRef(word).starts_with("--"))
      isReplaced = llvm::any_of(others, [&](llvm::StringRef other) {
        return other.split('=').first == word;
      });
    if (!isReplaced)
      kept.push_back(word);
  }
  return kept;
}

/// What becomes of the keys, in a line.
static void printRecipe(const std::string &file, const Recipe &recipe) {
  int64_t honoured = 0;
  std::string ignored;
  for (const RecipeKey &key : recipe.keys) {
    if (key.verdict == RecipeKey::Ignored)
      ignored += (ignored.empty() ? "" : ", ") + key.name;
    else if (key.line > 0)
      ++honoured;
  }
  llvm::outs() << "recipe    " << file << ": " << formatCount(honoured, "key")
               << " honoured";
  if (!ignored.empty())
    llvm::outs() << "; without a meaning here: " << ignored
                 << " (--check says why)";
  llvm::outs() << "\n";
}

std::optional<int> expandRecipe(std::vector<std::string> &words) {
  if (words.size() < 2 || words[0] != "finetune" || !isRecipe(words[1]))
    return std::nullopt;
  llvm::ArrayRef<std::string> others = llvm::ArrayRef(words).drop_front(2);
  if (llvm::is_contained(others, "--help") || llvm::is_contained(others, "-h"))
    return std::nullopt;
  std::string error;
  std::optional<Recipe> recipe = readRecipe(words[1], error);
  if (!recipe)
    return reportError(error);
  bool checks = llvm::is_contained(others, "--check");
  auto refused = llvm::count_if(recipe->keys, [](const RecipeKey &key) {
    return key.verdict == RecipeKey::Refused;
  });
  if (checks || refused)
    llvm::outs() << formatRecipeTable(*recipe);
  llvm::outs().flush();
  if (refused)
    return reportError(words[1] + ": " + formatCount(refused, "key") +
                       (refused == 1 ? " is" : " are") + " refused");
  std::vector<std::string> expanded = {"finetune"};
  for (std::string &word : replaceOptions(recipe->arguments, others))
    expanded.push_back(std::move(word));
  expanded.insert(expanded.end(), others.begin(), others.end());
  llvm::erase(expanded, "--check");
  if (checks) {
    llvm::SmallVector<llvm::StringRef> command = {"poplar"};
    command.append(expanded.begin(), expanded.end());
    printNext(command, "equal:");
    return 0;
  }
  printRecipe(words[1], *recipe);
  words = std::move(expanded);
  return std::nullopt;
}
