//===- Translator.cpp - From keys to words of a command -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translator.h"
#include "Keys.h"
#include "ModelDirectory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <charconv>
#include <cmath>

using namespace poplar;

const RecipeEntry *Section::find(llvm::StringRef key) const {
  auto entry = llvm::find_if(entries, [&](const RecipeEntry &it) {
    return it.rule && it.rule->name == key;
  });
  return entry == entries.end() ? nullptr : &*entry;
}

llvm::StringRef Section::getText(llvm::StringRef key) const {
  const RecipeEntry *entry = find(key);
  return entry ? llvm::StringRef(entry->text) : "";
}

double Section::getNumber(llvm::StringRef key) const {
  double number = 0;
  llvm::StringRef text = getText(key);
  std::from_chars(text.begin(), text.end(), number);
  return number;
}

int64_t Section::getInteger(llvm::StringRef key) const {
  int64_t number = 0;
  getText(key).getAsInteger(10, number);
  return number;
}

/// The words that PyYAML reads as truth values; of others, none.
static std::optional<bool> readFlag(llvm::StringRef text) {
  for (llvm::StringRef word : {"true", "yes", "on", "1"})
    if (text.equals_insensitive(word))
      return true;
  for (llvm::StringRef word : {"false", "no", "off", "0"})
    if (text.equals_insensitive(word))
      return false;
  return std::nullopt;
}

/// A number in the form that std::from_chars reads. Digits may be in groups.
static std::optional<std::string> readNumber(llvm::StringRef text,
                                             bool isInteger) {
  text.consume_front("+");
  std::string digits;
  llvm::copy_if(text, std::back_inserter(digits),
                [](char c) { return c != '_'; });
  double number = 0;
  const char *end = digits.data() + digits.size();
  auto [stop, result] = std::from_chars(digits.data(), end, number);
  // PyYAML reads digits behind a 0 as octal.
  bool isOctal = digits.size() > 1 && digits[0] == '0' &&
                 llvm::all_of(digits, llvm::isDigit);
  if (result != std::errc() || stop != end || !std::isfinite(number) || isOctal)
    return std::nullopt;
  if (!isInteger)
    return digits;
  if (number != std::trunc(number) || std::abs(number) >= 0x1p53)
    return std::nullopt;
  return std::to_string(static_cast<int64_t>(number));
}

static bool isList(const yaml::Content &node) {
  return node.kind == yaml::Content::List &&
         llvm::all_of(node.elements, [](const yaml::Content &element) {
           return element.kind == yaml::Content::Scalar;
         });
}

/// Puts a scalar into one form. Fails where the value is of another kind.
bool Translator::readScalar(RecipeEntry &entry) {
  const yaml::Content &node = *entry.node;
  bool isScalar = node.kind == yaml::Content::Scalar;
  entry.text = isScalar ? node.text : node.describe();
  const char *expected = nullptr;
  std::optional<std::string> number;
  switch (entry.rule ? entry.rule->kind : Kind::Any) {
  case Kind::Any:
    // Values of `Only` are compared in one form.
    if (std::optional<bool> flag = readFlag(entry.text);
        isScalar && !node.isQuoted && flag && !llvm::isDigit(entry.text[0]))
      entry.text = *flag ? "true" : "false";
    return true;
  case Kind::Text:
    if (!isScalar || node.text.empty())
      expected = "a text";
    break;
  case Kind::Texts:
    if (!isList(node) && !(isScalar && !node.text.empty()))
      expected = "a text or a list of texts";
    break;
  case Kind::Flag: {
    std::optional<bool> flag =
        isScalar ? readFlag(entry.text) : std::optional<bool>();
    if (flag)
      entry.text = *flag ? "true" : "false";
    else
      expected = "true or false";
    break;
  }
  case Kind::Integer:
  case Kind::Number: {
    bool isInteger = entry.rule->kind == Kind::Integer;
    if (isScalar)
      number = readNumber(entry.text, isInteger);
    if (number)
      entry.text = *number;
    else
      expected = isInteger ? "an integer" : "a number";
    break;
  }
  }
  if (!expected)
    return true;
  fail(node.place,
       entry.name + ": expected " + expected + ", found " + node.describe());
  return false;
}

/// Reads the members of a map, and what axolotl implies where they are absent.
bool Translator::collect(const yaml::Content &map, llvm::ArrayRef<Rule> rules,
                         const std::string &prefix, Section &section) {
  for (const yaml::Member &member : map.members) {
    RecipeEntry entry = {prefix + member.key, findRule(rules, member.key),
                         &member.value, member.place, ""};
    if (member.value.kind == yaml::Content::Null)
      ignore(entry, "null is as if the key were not there");
    else if (!readScalar(entry))
      return false;
    else
      section.entries.push_back(std::move(entry));
  }
  for (const Rule &rule : rules) {
    bool isImplied =
        rule.treatment == Rule::Option || rule.treatment == Rule::Decided;
    if (isImplied && !rule.values.empty() && !section.find(rule.name))
      section.entries.push_back(
          {prefix + rule.name.str(), &rule, nullptr, {}, rule.values.str()});
  }
  return true;
}

void Translator::decide(const RecipeEntry &entry, llvm::ArrayRef<Rule> rules) {
  if (!entry.rule) {
    llvm::StringRef similar =
        findSimilar(rules, llvm::StringRef(entry.name).rsplit('.').second);
    if (similar.empty())
      similar = findSimilar(rules, entry.name);
    refuse(entry, "unknown key" + (similar.empty() ? std::string("; remove it")
                                                   : "; did you mean " +
                                                         similar.str() + "?"));
    return;
  }
  const Rule &rule = *entry.rule;
  switch (rule.treatment) {
  case Rule::Option:
    honour(entry, rule.text, entry.text);
    return;
  case Rule::Nothing:
    ignore(entry, rule.text.str());
    return;
  case Rule::Only: {
    llvm::SmallVector<llvm::StringRef> values;
    rule.values.split(values, ' ', -1, /*KeepEmpty=*/false);
    if (llvm::is_contained(values, entry.text))
      ignore(entry, "this value asks for nothing");
    else
      refuse(entry, rule.text.str());
    return;
  }
  case Rule::Decided:
    rule.decide(*this, entry);
  }
}

bool Translator::translate(const yaml::Content &root, Recipe &output) {
  if (root.kind != yaml::Content::Map) {
    fail(root.kind == yaml::Content::Null ? yaml::Position{1, 1} : root.place,
         "a recipe is a map of keys and values, such as base_model: DIR");
    return false;
  }
  if (!collect(root, getRecipeRules(), "", recipe))
    return false;
  checkRecipe(*this);
  if (hasFailed())
    return false;
  for (const RecipeEntry &entry : recipe.entries) {
    decide(entry, getRecipeRules());
    if (hasFailed())
      return false;
  }
  // The model comes first, as `poplar finetune` takes it.
  if (std::string model = getModelDirectory(); !model.empty())
    result.arguments.insert(result.arguments.begin(), model);
  output = std::move(result);
  return true;
}

void Translator::translateDatasets(const RecipeEntry &list) {
  if (list.node->kind != yaml::Content::List || list.node->elements.empty()) {
    fail(list.node->place, list.name +
                               ": expected a list of data sets, found " +
                               list.node->describe());
    return;
  }
  size_t number = 0;
  for (const yaml::Content &node : list.node->elements) {
    std::string prefix = list.name + "[" + std::to_string(number++) + "]";
    if (node.kind != yaml::Content::Map) {
      fail(node.place, prefix + ": expected a map, found " + node.describe());
      return;
    }
    Section section;
    if (!collect(node, getDatasetRules(), prefix + ".", section))
      return;
    if (!section.find("path")) {
      fail(node.place, prefix + " has no path");
      return;
    }
    current = &section;
    isTest = list.name == "test_datasets";
    for (const RecipeEntry &entry : section.entries) {
      decide(entry, getDatasetRules());
      if (hasFailed())
        return;
    }
    current = nullptr;
  }
}

std::string Translator::getModelDirectory() const {
  return findModelDirectory(recipe.getText("base_model").str(),
                            recipe.getText("revision_of_model").str());
}

void Translator::add(llvm::StringRef option, llvm::StringRef value) {
  std::vector<std::string> &words = result.arguments;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == option &&
        (value.empty() || (i + 1 < words.size() && words[i + 1] == value)))
      return;
  words.push_back(option.str());
  if (!value.empty())
    words.push_back(value.str());
}

void Translator::honourData(const RecipeEntry &entry,
                            llvm::ArrayRef<std::string> files) {
  const char *option = isTest ? "--val-data" : "--data";
  std::string text;
  for (const std::string &file : files) {
    result.arguments.insert(result.arguments.end(), {option, file});
    text += std::string(option) + " " + file + " ";
  }
  add("--data-format", "jsonl");
  accept(entry, text + "--data-format jsonl");
}

void Translator::honour(
    const RecipeEntry &entry,
    llvm::ArrayRef<std::pair<std::string, std::string>> options) {
  std::string text;
  for (const auto &[option, value] : options) {
    add(option, value);
    text +=
        (text.empty() ? "" : " ") + option + (value.empty() ? "" : " ") + value;
  }
  accept(entry, text);
}

void Translator::accept(const RecipeEntry &entry, const std::string &text) {
  addRow(entry, RecipeKey::Honoured, text);
}

void Translator::ignore(const RecipeEntry &entry, const std::string &reason) {
  addRow(entry, RecipeKey::Ignored, reason);
}

void Translator::refuse(const RecipeEntry &entry, const std::string &remedy) {
  addRow(entry, RecipeKey::Refused, remedy);
}

void Translator::addRow(const RecipeEntry &entry, RecipeKey::Verdict verdict,
                        const std::string &text) {
  result.keys.push_back({entry.name,
                         entry.node ? entry.node->describe() : entry.text,
                         entry.place.line, verdict, text});
}

void Translator::fail(const RecipeEntry &entry, const std::string &message) {
  fail(entry.place, entry.name + ": " + message);
}

bool Translator::isMap(const RecipeEntry &entry) {
  if (entry.node->kind == yaml::Content::Map)
    return true;
  fail(entry.node->place,
       entry.name + ": expected a map, found " + entry.node->describe());
  return false;
}

void Translator::fail(yaml::Position place, const std::string &message) {
  if (error.empty())
    error = yaml::formatError(path, place, message);
}
