//===- RecipeCommand.cpp - poplar recipe ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Output.h"
#include "Poplar/Recipe/Recipe.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

void addRecipeCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "recipe", "Check a recipe for fine-tuning, in axolotl's vocabulary");
  command->footer(
      "Every key is listed: the option that it becomes, why it changes "
      "nothing, or why it is refused. The status is 1 if a key is "
      "refused (docs/recipes.md).\n\nExample:\n  poplar recipe "
      "examples/chat/recipe.yaml");
  auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "Recipe, in YAML")
      ->type_name("FILE")
      ->required();
  command->callback([file, &status] {
    std::string error;
    std::optional<poplar::Recipe> recipe = poplar::readRecipe(*file, error);
    if (!recipe) {
      status = reportError(error);
      return;
    }
    llvm::outs() << poplar::formatRecipeTable(*recipe);
    auto refused = llvm::count_if(recipe->keys, [](const auto &key) {
      return key.verdict == poplar::RecipeKey::Refused;
    });
    if (refused) {
      llvm::outs().flush();
      status =
          reportError(*file + ": " + std::to_string(refused) +
                      (refused == 1 ? " key is" : " keys are") + " refused");
      return;
    }
    std::vector<llvm::StringRef> words = {"poplar", "finetune"};
    words.insert(words.end(), recipe->arguments.begin(),
                 recipe->arguments.end());
    printNext(words, "equal:");
  });
}
