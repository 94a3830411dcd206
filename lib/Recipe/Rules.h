//===- Rules.h - What each key of a recipe means ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_RECIPE_RULES_H
#define POPLAR_LIB_RECIPE_RULES_H

#include "Poplar/Support/YAML.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace poplar {

class Translator;
struct RecipeEntry;

/// What a value must be. Scalars are read as PyYAML and pydantic read them.
enum class Kind { Any, Text, Integer, Number, Flag, Texts };

/// The meaning of a key.
struct Rule {
  enum Treatment {
    /// The key is an option of the same meaning, `text`.
    Option,
    /// The key changes nothing; `text` says why.
    Nothing,
    /// The key is refused, with the remedy `text`, unless its value is one of
    /// `values`, which ask for what happens anyway.
    Only,
    /// Other keys count as well: `decide` decides.
    Decided
  };
  using Decide = void (*)(Translator &, const RecipeEntry &);

  /// A name with a * stands for all keys with this beginning and end that have
  /// no rule of their own.
  llvm::StringRef name;
  Kind kind;
  Treatment treatment;
  llvm::StringRef text;
  /// Option, Decided: what axolotl takes if the recipe does not have the key;
  /// empty if that is nothing. Only: separated by spaces.
  llvm::StringRef values;
  Decide decide;
};

constexpr Rule option(llvm::StringRef name, Kind kind, llvm::StringRef option,
                      llvm::StringRef implied = "") {
  return {name, kind, Rule::Option, option, implied, nullptr};
}
constexpr Rule nothing(llvm::StringRef name, llvm::StringRef reason,
                       Kind kind = Kind::Any) {
  return {name, kind, Rule::Nothing, reason, "", nullptr};
}
constexpr Rule only(llvm::StringRef name, llvm::StringRef values,
                    llvm::StringRef remedy, Kind kind = Kind::Any) {
  return {name, kind, Rule::Only, remedy, values, nullptr};
}
constexpr Rule decided(llvm::StringRef name, Kind kind, Rule::Decide decide,
                       llvm::StringRef implied = "") {
  return {name, kind, Rule::Decided, "", implied, decide};
}

/// The keys of a recipe.
llvm::ArrayRef<Rule> getRecipeRules();
/// The members of an entry of `datasets` and `test_datasets`.
llvm::ArrayRef<Rule> getDatasetRules();

/// Null if the name is unknown.
const Rule *findRule(llvm::ArrayRef<Rule> rules, llvm::StringRef name);
/// A known name that may have been meant; empty if there is none.
llvm::StringRef findSimilar(llvm::ArrayRef<Rule> rules, llvm::StringRef name);

} // namespace poplar

#endif // POPLAR_LIB_RECIPE_RULES_H
