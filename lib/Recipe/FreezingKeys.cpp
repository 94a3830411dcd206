//===- FreezingKeys.cpp - Which weights are trained, and from where -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Keys.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace poplar;

/// Whether axolotl takes the end of an expression for a range of rows: [7],
/// [:32000] and the like.
static bool hasRange(llvm::StringRef expression) {
  if (!expression.consume_back("]"))
    return false;
  auto [name, range] = expression.rsplit('[');
  return name.size() < expression.size() && !name.empty() &&
         range.count(':') <= 1 &&
         llvm::all_of(
             range, [](char c) { return llvm::isDigit(c) || c == ':'; });
}

/// An expression for whole names. axolotl searches from their beginning, and
/// takes each dot but that of `.+` for a dot.
static std::string getWholePattern(llvm::StringRef expression) {
  bool hasChoice = expression.contains('|');
  if (!hasChoice)
    expression.consume_front("^");
  bool isWhole = !hasChoice && expression.consume_back("$");
  std::string pattern;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '.' && !expression.substr(i + 1).starts_with("+"))
      pattern += '\\';
    pattern += expression[i];
  }
  if (hasChoice)
    pattern = "(?:" + pattern + ")";
  return isWhole ? pattern : pattern + ".*";
}

void poplar::decideUnfrozen(Translator &t, const RecipeEntry &entry) {
  std::vector<std::string> expressions = listTexts(entry);
  if (expressions.empty()) {
    t.ignore(entry, "nothing is frozen");
    return;
  }
  if (t.top().find("adapter")->node) {
    t.refuse(entry,
             "axolotl freezes the adapters, too: beside them, names begin "
             "with base_model.model; remove it to train the adapters");
    return;
  }
  std::vector<std::pair<std::string, std::string>> options;
  for (const std::string &expression : expressions) {
    if (expression.empty()) {
      t.fail(entry,
             "expected regular expressions, found " + entry.node->describe());
      return;
    }
    if (hasRange(expression)) {
      t.refuse(entry, "rows of a weight are not trained on their own; remove "
                      "the range from " +
                          expression);
      return;
    }
    if (llvm::StringRef(expression).contains("\\.")) {
      t.refuse(entry, "axolotl takes each dot for a dot, and \\. for a "
                      "backslash before one; write . in " +
                          expression);
      return;
    }
    options.emplace_back("--train-parameters", getWholePattern(expression));
  }
  t.honour(entry, options);
}

void poplar::decideRandomWeights(Translator &t, const RecipeEntry &entry) {
  if (entry.text == "false")
    t.ignore(entry, "the run starts from the weights of the model");
  else if (t.top().find("adapter")->node || t.top().find("unfrozen_parameters"))
    t.refuse(entry,
             "frozen weights are those of the model; remove it, or train "
             "all weights");
  else
    t.honour(entry, "--random-weights");
}
