//===- Translator.h - From keys to words of a command -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_RECIPE_TRANSLATOR_H
#define POPLAR_LIB_RECIPE_TRANSLATOR_H

#include "Poplar/Recipe/Recipe.h"
#include "Rules.h"

namespace poplar {

/// A key with a value other than null: of the file, or implied by axolotl.
struct RecipeEntry {
  /// The name in messages: `datasets[0].split`.
  std::string name;
  /// Without a rule, the name is unknown.
  const Rule *rule = nullptr;
  /// Null for an implied value, which has no place.
  const yaml::Content *node = nullptr;
  yaml::Position place;
  /// A scalar in one form: true or false, a number that std::from_chars reads.
  std::string text;
};

/// The keys of one map, by a table of rules.
struct Section {
  std::vector<RecipeEntry> entries;

  /// Null if the section lacks the key, or has null.
  const RecipeEntry *find(llvm::StringRef key) const;
  /// Its text; empty if the section lacks the key.
  llvm::StringRef getText(llvm::StringRef key) const;
  bool isTrue(llvm::StringRef key) const { return getText(key) == "true"; }
  /// The numbers are checked; of an absent key, they are 0.
  double getNumber(llvm::StringRef key) const;
  int64_t getInteger(llvm::StringRef key) const;
};

/// Translates one recipe.
class Translator {
public:
  Translator(std::string path, std::string &error)
      : path(std::move(path)), error(error) {}

  /// False with the error set.
  bool translate(const yaml::Content &root, Recipe &result);

  // What rules decide with.

  /// The recipe itself.
  const Section &top() const { return recipe; }
  /// The data set whose members are being decided.
  const Section &dataset() const { return *current; }

  /// Adds an option, unless it has been added with this value, and a row that
  /// names it. A flag has an empty value.
  void honour(const RecipeEntry &entry, llvm::StringRef option,
              llvm::StringRef value = "") {
    honour(entry, {{option.str(), value.str()}});
  }
  /// The same with several options, and one row.
  void honour(const RecipeEntry &entry,
              llvm::ArrayRef<std::pair<std::string, std::string>> options);
  /// Adds the files of the data set; several may have the same name.
  void honourData(const RecipeEntry &entry, llvm::ArrayRef<std::string> files);
  /// Adds a row for what has been honoured otherwise.
  void accept(const RecipeEntry &entry, const std::string &text);
  void ignore(const RecipeEntry &entry, const std::string &reason);
  void refuse(const RecipeEntry &entry, const std::string &remedy);
  /// Ends the translation with an error at the entry.
  void fail(const RecipeEntry &entry, const std::string &message);
  void fail(yaml::Position place, const std::string &message);
  /// Fails if the value is no map.
  bool isMap(const RecipeEntry &entry);
  bool hasFailed() const { return !error.empty(); }

  /// Reads the members of each data set of a list by their own rules.
  void translateDatasets(const RecipeEntry &list);

  /// The directory of the model; empty if it is not there.
  std::string getModelDirectory() const;

private:
  void add(llvm::StringRef option, llvm::StringRef value);
  bool collect(const yaml::Content &map, llvm::ArrayRef<Rule> rules,
               const std::string &prefix, Section &section);
  bool readScalar(RecipeEntry &entry);
  void decide(const RecipeEntry &entry, llvm::ArrayRef<Rule> rules);
  void addRow(const RecipeEntry &entry, RecipeKey::Verdict verdict,
              const std::string &text);

  std::string path;
  std::string &error;
  Section recipe;
  const Section *current = nullptr;
  bool isTest = false;
  Recipe result;
};

} // namespace poplar

#endif // POPLAR_LIB_RECIPE_TRANSLATOR_H
