//===- Recipe.h - Recipes in axolotl's vocabulary ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A recipe is a YAML file with the keys of axolotl. It becomes the words of a
// `poplar finetune` command that trains the same; every key of the file, and
// every member of its data sets, is accounted for. Defaults of axolotl that
// differ from Poplar's are part of the command.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RECIPE_RECIPE_H
#define POPLAR_RECIPE_RECIPE_H

#include <optional>
#include <string>
#include <vector>

namespace poplar {

/// A key of a recipe, or a default of axolotl.
struct RecipeKey {
  enum Verdict {
    /// The key became options with an equal meaning.
    Honoured,
    /// The key changes nothing of what is trained here.
    Ignored,
    /// Poplar does not do what the key asks for.
    Refused
  };

  /// `seed`; of a data set `datasets[0].split`.
  std::string name;
  std::string value;
  /// 0 for a default, which the file does not have.
  int line = 0;
  Verdict verdict = Refused;
  /// The options, why the key changes nothing, or what to do instead.
  std::string text;
};

struct Recipe {
  /// What follows `poplar finetune`. Incomplete if a key is refused.
  std::vector<std::string> arguments;
  /// In the order of the file; defaults are last.
  std::vector<RecipeKey> keys;

  /// Whether no key is refused.
  bool isAccepted() const;
};

/// Reads a recipe. A file that is no recipe, has wrong types or contradicts
/// itself fails, with one `error` and its place. Keys that are refused are no
/// failure.
std::optional<Recipe> readRecipe(const std::string &path, std::string &error);

/// The same with a text, which errors call `name`.
std::optional<Recipe> parseRecipe(const std::string &text,
                                  const std::string &name, std::string &error);

/// A line for each key: verdict, line, key, value and text.
std::string formatRecipeTable(const Recipe &recipe);

} // namespace poplar

#endif // POPLAR_RECIPE_RECIPE_H
